"""An interval from outside: Student's interval of batch means, registered and used wherever intervals are."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy.inference.estimate import Estimate
from offpolicy.inference.intervals import Interval
from offpolicy.inference.registry import Asked, forget, register

PARTS = 20


def of_parts(asked: Asked) -> Interval:
    """Student's interval of the means of twenty parts of the units: no variance of a score is looked at."""
    sample = asked.sample
    part = np.arange(len(sample.numerator)) % PARTS
    mass = np.bincount(part, sample.counts * sample.denominator, PARTS)
    means = np.bincount(part, sample.counts * sample.numerator, PARTS) / mass
    half = stats.t.ppf(0.5 + asked.level / 2, PARTS - 1) * means.std(ddof=1) / math.sqrt(PARTS)
    value = asked.estimate.value
    return Interval(value - half, value + half, asked.level, "parts", f"from {PARTS} parts")


@pytest.fixture(autouse=True)
def registered():
    register("parts", of_parts, balanced=True, shares=True, aliases=("batch-means",))
    yield
    forget("parts")


def frame(n: int = 4000) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.integers(4, size=n)
    p = np.where(x % 2 == 0, 0.3, 0.6)
    action = (rng.random(n) < p).astype(int)
    reward = (rng.random(n) < 0.2 + 0.15 * action).astype(float)
    propensity = np.where(action == 1, p, 1 - p)
    return pd.DataFrame({"x": x, "a": action, "r": reward, "p": propensity})


ROLES = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p"}


def on(path: str, df: pd.DataFrame, folder) -> op.Evaluation:
    if path == "frame":
        log = op.BanditLog.from_frame(df, **ROLES)
    else:
        df.to_parquet(folder / "log.parquet")
        log = op.scan(folder / "log.parquet", **ROLES, way="stream")
    return op.evaluate(log, {"one": "always:1", "even": "uniform"}, estimators=["SNIPW", "auto"])


@pytest.mark.parametrize("path", ["frame", "stream"])
def test_it_is_an_interval_like_any_other(path, tmp_path):
    ev = on(path, frame(), tmp_path)
    for e in (ev["one", "auto"], ev["one", "auto"] - ev.logged, ev["one", "SNIPW"] - ev["even", "SNIPW"]):
        found = e.interval(0.9, "parts")
        assert (found.method, found.level) == ("parts", 0.9)
        assert found.covers(e.value)
        assert 0.4 < found.width / e.interval(0.9).width < 2.5
        assert tuple(e.interval(0.9, "batch-means")) == tuple(found)
    gap = ev["one", "auto"] - ev.logged
    assert gap.p_value(method="parts") < 0.05
    chosen = op.select(ev, method="parts")
    assert chosen.chosen == "one"
    assert {c.method for c in chosen.candidates} == {"parts"}
    bound = next(c.bound for c in chosen.candidates if c.policy == "one")
    assert bound == gap.interval(1 - 2 * 0.05 / 2, "parts").low


def test_the_same_rows_give_the_same_interval(tmp_path):
    both = [on(path, frame(), tmp_path)["one", "auto"] for path in ("frame", "stream")]
    ends = [tuple(e.interval(0.95, "parts")) for e in both]
    assert ends[0] == pytest.approx(ends[1], rel=1e-9)


def test_it_covers():
    rng = np.random.default_rng(1)
    drawn = [Estimate.from_scores(rng.exponential(size=400)) for _ in range(200)]
    assert sum(e.interval(0.95, "parts").covers(1.0) for e in drawn) > 180


def test_mistakes_are_said():
    e = on("frame", frame(200), None)["one", "SNIPW"]
    with pytest.raises(UsageError, match="called 'normal' already"):
        register("normal", of_parts)
    with pytest.raises(UsageError, match="Did you mean 'parts'"):
        e.interval(method="partz")
    register("broken", lambda asked: (0.0, 1.0))
    with pytest.raises(UsageError, match=r"'broken' gave a tuple. Return an offpolicy Interval"):
        e.interval(method="broken")
    forget("broken")
