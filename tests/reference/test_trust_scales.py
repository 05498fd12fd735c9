"""What a check says does not depend on the unit of analysis weights, nor on that of rewards."""

from __future__ import annotations

import numpy as np
import pytest
from trust_logs import drawn
from trust_views import checked, of_cells, of_models, of_weights, view_of

import offpolicy as op
from offpolicy.trust.diagnose import log_findings
from offpolicy.trust.sums import log_sums

SCALES = (1e-5, 1e4)
N = 240


def roles_of(kind):
    """A log of some kind, whose rows weigh between 1 and 3."""
    d = drawn(21, N)
    a, p, r = d["a"], d["p"].copy(), d["r"]
    given = {"context": np.column_stack([d["x"], np.arange(N) % 6]), "weight": np.arange(N) % 3 + 1.0}
    if kind == "whole":
        p = d["whole"]
    if kind == "wrong":
        p[a == 1] *= 0.3
    if kind == "batches":
        given["batch"] = np.arange(N) // 48
        r = r + (given["batch"] < 4) * 3.0
    if kind == "clusters":
        given["cluster"] = np.arange(N) // 3
    if kind == "eligible":
        given["eligible"] = np.ones((N, 3), bool)
    if kind == "leak":
        given["context"] = np.column_stack([2 * r - 1, d["x"]])
    if kind == "copies":
        given["context"] = np.column_stack([np.arange(N) // 2, np.arange(N) % 5])
        a = np.repeat(a[::2], 2)
    if kind == "constant":
        p = np.full(N, 0.3)
    if kind == "none":
        p = None
    return given, a, p, r


KINDS = ("plain", "whole", "wrong", "batches", "clusters", "eligible", "leak", "copies", "constant", "none")


def same(one, other, *, words=True):
    """Equal findings but for rounding."""
    assert [f.name for f in one] == [f.name for f in other]
    for f, g in zip(one, other, strict=True):
        assert g.value == pytest.approx(f.value, rel=1e-6, abs=1e-9, nan_ok=True), f.name
        assert (g.level, g.ran) == (f.level, f.ran), f.name
        if words:
            assert g.sentence == f.sentence


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("kind", KINDS)
def test_checks_of_a_log(kind, scale):
    given, a, p, r = roles_of(kind)

    def found(weight=1.0, reward=1.0):
        own = {**given, "weight": weight * given["weight"]}
        log = op.BanditLog.from_arrays(own.pop("context"), a, reward * r, p, **own)
        return log_findings(log, log_sums(log))

    base = found()
    same(base, found(weight=scale))
    same(base, found(reward=scale), words=False)


def checks(view, *, rewards=True):
    """Every check of a policy on single decisions."""
    out = [*of_weights(view), checked("unsupported_mass", view), *of_models(view), checked("batch_drift", view),
           checked("clipping_sensitivity", view), *of_cells(view)]  # fmt: skip
    return [*out, checked("reward_tail", view), checked("confounding", view)] if rewards else out


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("model", [False, True])
@pytest.mark.parametrize("kind", ["plain", "wrong", "batches", "clusters", "whole"])
def test_checks_of_a_policy(kind, model, scale):
    given, a, p, r = roles_of(kind)
    rng = np.random.default_rng(2)
    pi = np.full((N, 3), [0.5, 0.3, 0.2])
    q, v = 0.4 * a + 0.3 * rng.normal(size=N), 0.3 + 0.2 * rng.normal(size=N)
    exact = rng.uniform(0.5, 1.5, size=N)

    def found(weight=1.0, reward=1.0):
        own = {**given, "weight": weight * given["weight"]}
        fitted = {"q": reward * q, "v": reward * v} if model else {}
        return checks(view_of(pi, p, a, reward * r, known=kind != "plain", cells=1, exact=exact, **own, **fitted))

    base = found()
    same(base, found(weight=scale))
    same(base, found(reward=scale), words=False)


@pytest.mark.parametrize("scale", SCALES)
def test_leaning_and_counts(scale):
    d = drawn(22, N)
    lean = np.random.default_rng(1).normal(size=N)
    pi = np.full((N, 3), 1 / 3)

    def found(weight=1.0, reward=1.0):
        own = np.arange(N) % 2 + 1.0
        view = view_of(pi, d["p"], d["a"], reward * d["r"], cells=1, leaning=lean, weight=weight * own, count=own)
        return [*of_cells(view), *of_weights(view)]

    base = found()
    same(base, found(weight=scale))
    same(base, found(reward=scale), words=False)


def test_ten_copies_of_a_log_are_a_count_of_ten():
    d = drawn(23, 120)
    x = d["x"].round(0)

    def found(rows, **options):
        log = op.BanditLog.from_arrays(x[rows], d["a"][rows], d["r"][rows].round(1), d["p"][rows].round(2), **options)
        return log_findings(log, log_sums(log))

    each = np.arange(120)
    counted = found(each, count=np.full(120, 3.0))
    same(found(np.repeat(each, 3)), counted)
