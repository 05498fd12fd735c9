"""An action space from outside: a label with a number, such as a discount of 10% on shoes.

Each label has a stretch of its own on one line of numbers: label k with number z is the point
k · 2(high − low) + z − low. Densities on that line are π(label) · f(number | label), and a window around a point ends
where its stretch does. All else is what `Numbers` does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest
from extension.four_ways import WAYS, answers, source

import offpolicy as op
from offpolicy.errors import DataError
from offpolicy.kinds.labels import Labels
from offpolicy.kinds.numbers import Numbers


@dataclass(frozen=True)
class Discounts(Numbers):
    """Actions written as "shoes:10"; ``given`` are the labels and the range of the numbers."""

    given: Any
    numeric: ClassVar[bool] = False  # the logged column is text

    @property
    def room(self):
        return float(self.given[2] - self.given[1])

    @property
    def span(self):
        return 0.0, (2 * len(self.given[0]) - 1) * self.room

    def ends(self, center):
        start = 2 * self.room * np.floor(center / (2 * self.room))
        return start, start + self.room

    def encode(self, values):
        label, number = zip(*(str(v).rsplit(":", 1) for v in values), strict=True)
        if strange := set(label) - set(self.given[0]):
            raise DataError(f"no action is called {min(strange)!r}.")
        codes = np.array([self.given[0].index(each) for each in label])
        return 2 * self.room * codes + np.array(number, dtype=float) - self.given[1]

    def read(self, logged):
        return self, self.encode(logged.values())

    def scanned(self, values, times, name):
        self.encode(values)
        return self

    def described(self, name):
        return f"{name} of {self.given[1]:g} to {self.given[2]:g} on {len(self.given[0])} labels"

    def adapted(self, name, policy, surface):
        policy = float(self.encode([policy])[0]) if isinstance(policy, str) else policy
        return super().adapted(name, partial(points, self, policy) if callable(policy) else policy, surface)

    def binned(self, log):
        """One interval per label, the middle half of its stretch, for checks of propensities."""
        code, offset = np.divmod(log.action, 2 * self.room)
        inside = np.abs(offset - self.room / 2) <= self.room / 4
        p = np.where(inside, log.propensity * self.room / 2, np.inf)
        return replace(log, space=Labels(self.given[0]), action=code.astype(int), propensity=p)


def points(space, policy, context):
    """What a policy writes for each row, such as "shoes:10", as points of the line."""
    return space.encode(policy(context))


SPACE = Discounts((("shoes", "hats"), 0, 50))
ROLES = {"context": ["age"], "action": "offer", "reward": "r", "propensity": "p", "id": "key", "actions": SPACE}


def frame(n=2400, seed=0):
    rng = np.random.default_rng(seed)
    age, number, hats = rng.normal(size=n), rng.uniform(0, 50, size=n), rng.random(n) < 0.25
    mean = np.where(hats, 1 + 0.02 * number, 2 - (number / 50 - 0.4) ** 2)
    offer = [f"{'hats' if h else 'shoes'}:{z!r}" for h, z in zip(hats, number.tolist(), strict=True)]
    p = np.where(hats, 0.25, 0.75) / 50
    return pd.DataFrame({"key": range(n), "age": age, "offer": offer, "r": mean + rng.normal(size=n) / 4, "p": p})


def young(context):
    return np.where(context["age"] > 0, "shoes:20", "hats:40")


POLICIES = {"hats": "hats:40", "mixed": young}
OPTIONS = {"estimators": ["DML", "SNIPW"], "reward_model": op.models.SplineReward()}


def test_the_value_is_that_of_the_offer(tmp_path):
    log = op.BanditLog.from_frame(frame(8000), **ROLES)
    assert "offer of 0 to 50 on 2 labels" in repr(log)
    ev = op.evaluate(log, POLICIES, **OPTIONS)
    assert ev["hats", "DML"].interval().covers(1.8)
    assert ev["mixed", "DML"].interval().covers(0.5 * 2 + 0.5 * 1.8)
    assert ev.report(tmp_path / "out.html").exists()


@pytest.mark.parametrize("way", WAYS)
def test_every_path_gives_the_answer_of_the_frame(way, tmp_path):
    one = answers(op.evaluate(op.BanditLog.from_frame(frame(), **ROLES), POLICIES, **OPTIONS))
    rows, options = source(way, frame(), tmp_path, __name__)
    with op.scan(rows, **ROLES, **options) as log:
        two = answers(op.evaluate(log, POLICIES, **OPTIONS))
    assert two[0] == {name: pytest.approx(values, rel=1e-9) for name, values in one[0].items()}
    assert two[1] == {name: pytest.approx(value, rel=1e-6, nan_ok=True) for name, value in one[1].items()}


def test_an_unknown_label_is_refused():
    with pytest.raises(DataError, match="'socks'"):
        op.BanditLog.from_frame(frame().replace({"offer": {frame()["offer"][0]: "socks:1"}}), **ROLES)
