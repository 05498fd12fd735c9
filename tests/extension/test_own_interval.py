"""An interval from outside: Johnson's, which leans towards the long tail, used wherever intervals are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from extension.four_ways import WAYS, source
from scipy import special

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy.inference.estimate import Estimate
from offpolicy.inference.intervals import Interval
from offpolicy.inference.registry import Asked, forget, register


def johnson(asked: Asked) -> Interval:
    """Johnson's (1978) t for skewed scores: value + κ se (1 + 2 z²)/6 ± z se, κ the skewness of the estimate."""
    sample, z = asked.sample, special.ndtri(0.5 + asked.level / 2)
    e, c, error = sample.residual, sample.counts, sample.std_error
    skewness = float(c @ e**3) / float(c @ e**2) ** 1.5
    center = asked.estimate.value + skewness * error * (1 + 2 * z * z) / 6
    return Interval(center - z * error, center + z * error, asked.level, "johnson", f"skewness {skewness:.2g}")


@pytest.fixture(autouse=True)
def registered():
    register("johnson", johnson, balanced=True, aliases=("skewed",))
    yield
    forget("johnson")


def frame(n: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.integers(4, size=n)
    p = np.where(x % 2 == 0, 0.3, 0.6)
    action = (rng.random(n) < p).astype(int)
    reward = (rng.random(n) < 0.2 + 0.15 * action).astype(float)
    propensity = np.where(action == 1, p, 1 - p)
    return pd.DataFrame({"x": x, "a": action, "r": reward, "p": propensity, "key": np.arange(n)})


ROLES = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p", "id": "key"}


def on(way: str, df: pd.DataFrame, folder) -> op.Evaluation:
    if way == "frame":
        log = op.BanditLog.from_frame(df, **ROLES)
    else:
        rows, options = source(way, df, folder, __name__)
        log = op.scan(rows, **ROLES, **options)
    return op.evaluate(log, {"one": "always:1", "even": "uniform"}, estimators=["SNIPW", "auto"])


def answers(ev: op.Evaluation) -> list[float]:
    """Ends, p-values and bounds wherever an interval is asked for."""
    one, two = ev["one", "auto"], ev["even", "auto"]
    ends = [end for e in (one, one - ev.logged, one - two) for end in e.interval(0.9, "johnson")]
    bounds = [c.bound for c in op.select(ev, method="johnson").candidates]
    return [*ends, (one - ev.logged).p_value(0.01, method="johnson"), *bounds]


def test_it_is_an_interval_like_any_other():
    ev = on("frame", frame(), None)
    for e in (ev["one", "auto"], ev["one", "auto"] - ev.logged, ev["one", "SNIPW"] - ev["even", "SNIPW"]):
        found = e.interval(0.9, "johnson")
        assert (found.method, found.level) == ("johnson", 0.9)
        assert found.covers(e.value)
        assert found.width == pytest.approx(e.interval(0.9, "normal").width)
        assert tuple(e.interval(0.9, "skewed")) == tuple(found)
    gap = ev["one", "auto"] - ev.logged
    assert gap.p_value(method="johnson") < 0.05
    chosen = op.select(ev, method="johnson")
    assert chosen.chosen == "one"
    assert {c.method for c in chosen.candidates} == {"johnson"}
    bound = next(c.bound for c in chosen.candidates if c.policy == "one")
    assert bound == gap.interval(1 - 2 * 0.05 / 2, "johnson").low


@pytest.mark.parametrize("way", WAYS)
def test_the_same_rows_give_the_same_interval(way, tmp_path):
    assert answers(on(way, frame(1200), tmp_path)) == pytest.approx(answers(on("frame", frame(1200), None)), rel=1e-9)


def test_it_covers():
    rng = np.random.default_rng(1)
    drawn = [Estimate.from_scores(rng.exponential(size=400)) for _ in range(200)]
    assert sum(e.interval(0.95, "johnson").covers(1.0) for e in drawn) > 180


def test_mistakes_are_said():
    e = on("frame", frame(200), None)["one", "SNIPW"]
    with pytest.raises(UsageError, match="named 'normal' already"):
        register("normal", johnson)
    with pytest.raises(UsageError, match="Did you mean 'johnson'"):
        e.interval(method="jonson")
    register("broken", lambda asked: (0.0, 1.0))
    with pytest.raises(UsageError, match=r"'broken' returned a tuple. Return an offpolicy Interval"):
        e.interval(method="broken")
    forget("broken")
