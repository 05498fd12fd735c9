"""A layout from outside: a visit, in which several banners are shown that do not change each other's clicks.

The reward of a banner answers to that banner alone, so no ratios are multiplied; the value is that of a whole
visit, and visits are what is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from extension.four_ways import WAYS, answers, source

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy.kinds.episodes import Episodes
from offpolicy.logs.link import Link


@dataclass(frozen=True)
class Visits(Episodes):
    """Decisions of one visit, each with a reward of its own."""

    name: str = "visits"
    unit: str = "visit"
    decision: str = "banner"
    leads_on: bool = False

    def link(self, horizon):
        return Link(np.eye(horizon, dtype=bool))

    def check(self, question):
        super().check(question)
        if question.discount != 1:
            raise UsageError("discount= is for episodes: banners of a visit have no time between them.")

    def estimators(self, log):
        return ("DML", "SNIPW", "IPW")

    def auto(self, log):
        return None

    def value_model(self, log):
        return op.FittedQ()

    def behavior_model(self, log, spec):
        return None


ROLES = {"step": "place", "state": ["x"], "action": "banner", "reward": "click", "propensity": "p"}


def frame(n=700, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 4, size=n)
    visit = np.repeat(np.arange(n), lengths)
    x = rng.normal(size=len(visit))
    p = np.where(x > 0, 0.7, 0.4)
    new = rng.random(len(visit)) < p
    click = 0.3 + 0.2 * new + 0.1 * x + 0.1 * rng.normal(size=len(visit))
    place = np.concatenate([np.arange(m) for m in lengths])
    named = {"visit": visit, "place": place, "x": x, "banner": np.where(new, "new", "old")}
    return pd.DataFrame({**named, "click": click, "p": np.where(new, p, 1 - p)})


def test_no_ratios_are_multiplied():
    rows = frame()
    log = op.Trajectories.from_frame(rows, episode=Visits("visits", "visit", column="visit"), **ROLES)
    ev = op.evaluate(log, "always:new")
    assert [e.name for e in ev.estimators] == ["DML", "SNIPW", "IPW"]
    weight = np.where(rows["banner"] == "new", 1 / rows["p"], 0)
    by_visit = (weight * rows["click"]).groupby(rows["visit"]).sum()
    assert ev["IPW"].value == pytest.approx(by_visit.mean(), rel=1e-12)
    assert ev["IPW"].std_error == pytest.approx(by_visit.std(ddof=0) / np.sqrt(len(by_visit)), rel=1e-3)
    assert ev["DML"].std_error < ev["IPW"].std_error


def test_its_words_and_refusals_are_its_own():
    log = op.Trajectories.from_frame(frame(), episode=Visits(column="visit"), **ROLES)
    ev = op.evaluate(log, "always:new", estimators=["IPW"])
    assert "visit" in str(ev)
    with pytest.raises(UsageError, match="no time between"):
        op.evaluate(log, "always:new", discount=0.9)


@pytest.mark.parametrize("way", WAYS)
def test_every_path_gives_the_answer_of_the_frame(way, tmp_path):
    named = {"episode": Visits(column="visit"), **ROLES}
    options = {"estimators": ["DML", "IPW"]}
    one = answers(op.evaluate(op.Trajectories.from_frame(frame(), **named), {"new": "always:new"}, **options))
    rows, more = source(way, frame(), tmp_path, __name__)
    with op.Trajectories.scan(rows, **named, **more) as log:
        two = answers(op.evaluate(log, {"new": "always:new"}, **options))
    assert two[0] == {name: pytest.approx(values, rel=1e-9) for name, values in one[0].items()}
    assert two[1] == {name: pytest.approx(value, rel=1e-6, nan_ok=True) for name, value in one[1].items()}
