"""A ratio from outside: weights of product lines, read from the names of the actions ("shoes/red", "shoes/blue")."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from extension.four_ways import WAYS, answers, source
from sklearn.linear_model import Ridge

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy.logs.kinds import Ratio
from offpolicy.policies.coarse import Cells


@dataclass(frozen=True)
class ByLine(Ratio):
    """Actions with the same beginning share a weight."""

    separator: str = "/"

    def cells(self, log):
        """The cells of a log's actions."""
        if not log.space.finite:
            raise UsageError("ByLine is for actions that are labels.")
        return Cells.of([str(label).split(self.separator)[0] for label in log.actions], ("line",))


LABELS = [f"{line}/{color}" for line in ("hats", "shoes") for color in ("black", "blue", "green", "red")]
ROLES = {"context": ["x"], "action": "item", "reward": "r", "propensity": [f"p{j}" for j in range(8)], "id": "key"}
OPTIONS = {"estimators": ["IPW", "DML"], "reward_model": Ridge()}


def frame(n=1200, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    p = np.exp(np.outer(x, np.linspace(-0.5, 0.5, 8)))
    p /= p.sum(axis=1, keepdims=True)
    code = (p.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)
    r = (code >= 4) + 0.3 * x + rng.normal(size=n) / 2
    named = {"key": range(n), "x": x, "item": np.array(LABELS)[code], "r": r}
    return pd.DataFrame({**named, **{f"p{j}": p[:, j] for j in range(8)}})


POLICIES = {"red": "always:shoes/red", "hats": op.policies.Constant({"hats/blue": 0.5, "hats/red": 0.5})}


def test_lines_are_weighted_and_less_noisy():
    log = op.BanditLog.from_frame(frame(), **ROLES)
    ev = op.evaluate(log, POLICIES, ratio=ByLine(), **OPTIONS)
    exact = op.evaluate(log, POLICIES, **OPTIONS)
    rows = frame()
    shoes = rows["item"].str.startswith("shoes/")
    weight = np.where(shoes, 1 / rows[[f"p{j}" for j in range(4, 8)]].sum(axis=1), 0)
    assert ev["red", "IPW"].value == pytest.approx((weight * rows["r"]).mean(), rel=1e-12)
    assert ev["red", "IPW"].std_error < exact["red", "IPW"].std_error / 1.5
    assert ev["red", "DML"].interval().covers(1.0)


@pytest.mark.parametrize("way", WAYS)
def test_every_path_gives_the_answer_of_the_frame(way, tmp_path):
    one = answers(op.evaluate(op.BanditLog.from_frame(frame(), **ROLES), POLICIES, ratio=ByLine(), **OPTIONS))
    rows, more = source(way, frame(), tmp_path, __name__)
    with op.scan(rows, **ROLES, **more) as log:
        two = answers(op.evaluate(log, POLICIES, ratio=ByLine(), **OPTIONS))
    assert two[0] == {name: pytest.approx(values, rel=1e-9) for name, values in one[0].items()}
    assert two[1] == {name: pytest.approx(value, rel=1e-6, nan_ok=True) for name, value in one[1].items()}


def test_the_exact_ratio_is_one_action_per_line():
    log = op.BanditLog.from_frame(frame(), **ROLES)
    apart = op.evaluate(log, POLICIES, ratio=ByLine("|"), **OPTIONS)
    assert apart["red", "IPW"].value == op.evaluate(log, POLICIES, **OPTIONS)["red", "IPW"].value
