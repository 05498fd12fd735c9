"""Ratios of cells against exact ones, by plain sums, and every word about them."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from trust_logs import drawn
from trust_views import of_cells, view_of

from offpolicy.inference.intervals.tails import effective_size
from offpolicy.trust import ratios
from offpolicy.trust.check import CHECKS
from offpolicy.trust.moments import mean_z

CELLS = SimpleNamespace(features=("genre",), n=3, code=np.zeros(3))


def cells(exact=None, leaning=None, shift=0.0, **options):
    d = drawn(3, 400)
    r = d["r"] + shift * (0 if leaning is None else leaning)
    return (
        d,
        r,
        view_of(np.full((400, 3), 1 / 3), d["p"], d["a"], r, cells=CELLS, exact=exact, leaning=leaning, **options),
    )


@pytest.mark.parametrize("model", [False, True])
@pytest.mark.parametrize("spread", [0.01, 0.5])
def test_coarse_ratios_against_exact_ones(model, spread):
    rng = np.random.default_rng(7)
    exact = np.maximum(1 / 3 / drawn(3, 400)["p"] + spread * (1 + rng.normal(size=400)), 0.0)
    options = {"q": 0.1 * drawn(3, 400)["x"], "v": np.zeros(400)} if model else {}
    d, r, view = cells(exact, **options)
    own = 1 / 3 / d["p"]
    left = r - (options["q"] if model else r.mean())
    gap = (own - exact) * left
    both, leaning = of_cells(view)
    sample = view.units.sample(gap)
    p = math.erfc(abs(mean_z(sample, 0.0)) / math.sqrt(2))
    one = (own * left).std() / 20
    assert both.value == pytest.approx(p)
    error = gap.std() / 20
    assert both.details == {
        "difference": pytest.approx(gap.mean()), "std_error": pytest.approx(error),
        "visible_bias": pytest.approx(2.8 * error),
        "std_error_coarse": pytest.approx(one), "std_error_exact": pytest.approx((exact * left).std() / 20),
        "effective_sample_size": pytest.approx(effective_size(exact)),
    }  # fmt: skip
    verb = "differs from" if p < 0.01 else "agrees with"
    assert both.sentence == (
        f"the estimate with ratios of cells {verb} that with ratios of actions: {gap.mean():+.3g} "
        f"± {error:.2g} (p = {p:.2g}). The test would detect a bias of {2.8 * error:.2g} with 80% "
        "power."
    )
    level = "alarm" if p < 0.001 else "caution" if p < 0.01 else "ok"
    assert both.level == (level if abs(gap.mean()) > 0.5 * one or level == "ok" else "note")
    assert leaning.sentence == "the policy's own weights are enough for the test."


@pytest.mark.parametrize("shift", [0.0, 0.8, -0.8])
def test_leaning_of_the_logging_policy(shift):
    lean = np.random.default_rng(2).normal(size=400)
    _, r, view = cells(None, lean, shift)
    untold, found = of_cells(view)
    assert untold.sentence == ratios.UNKNOWN
    sample = view.units.sample(lean * (r - r.mean()))
    p = math.erfc(abs(mean_z(sample, 0.0)) / math.sqrt(2))
    slope = (lean * (r - r.mean())).mean() / (lean**2).mean()
    assert found.value == pytest.approx(p)
    assert found.details == {"slope": pytest.approx(slope)}
    if shift:
        more = "more" if shift > 0 else "less"
        assert found.sentence == (
            f"actions that the logging policy prefers earn {more} than others of their cell "
            f"({slope:+.3g} per unit of log-probability, p = {p:.2g}). Cells hide such differences, "
            "and this policy's own weights are too few to say how much it matters."
        )
        assert found.level == "alarm"
    else:
        assert found.sentence == (
            f"actions that the logging policy prefers earn no more than others of their cell (p = {p:.2g})."
        )
    assert CHECKS["cell_leaning"].limits.decides


def test_where_cells_cannot_be_tested():
    few = np.r_[np.full(99, 5.0), np.zeros(301)]
    untested, leaning = of_cells(cells(few)[2])
    assert untested.sentence == ("with the exact weights the log is worth 99 units, too few to test the coarse ratio.")
    assert leaning.sentence == ratios.UNSEEN
    enough = np.r_[np.full(100, 5.0), np.zeros(300)]
    assert of_cells(cells(enough)[2])[0].ran
    same = of_cells(cells(None, np.zeros(400))[2])[1]
    assert same.sentence == "the logging policy takes all actions of a cell equally often."
    d = drawn(3, 400)
    plain = view_of(np.full((400, 3), 1 / 3), d["p"], d["a"], d["r"])
    assert of_cells(plain) == []
