"""Names from the data cannot steer a terminal, whoever prints them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from kinds import SLOTS
from sklearn.linear_model import LinearRegression

import offpolicy as op

EVIL = "\x1b[31mred\x1b]0;title\x07\u202e"
N = 300


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            f"{EVIL}x": rng.normal(size=N),
            f"{EVIL}a": rng.choice([f"{EVIL}1", "=cmd()"], N),
            f"{EVIL}r": rng.integers(0, 2, N),
            f"{EVIL}c": rng.gamma(2, size=N),
            "p": 0.5,
        }
    )


ROLES = {"context": [f"{EVIL}x"], "action": f"{EVIL}a", "propensity": "p"}


@pytest.fixture(scope="module")
def evaluation():
    log = op.BanditLog.from_frame(frame(), **ROLES, reward=[f"{EVIL}r", f"{EVIL}c"])
    policies = {f"{EVIL}new": "always:=cmd()", "any": "uniform"}
    return op.evaluate(log, policies, reward_model=LinearRegression())


def is_harmless(text: str) -> bool:
    return text.replace("\n", "").replace("\t", "").isprintable()


@pytest.mark.parametrize(
    "shown",
    [
        str,
        lambda ev: str(ev.diagnostics),
        lambda ev: str(ev.verdict("any")),
        lambda ev: " ".join(ev.verdict(f"{EVIL}new").reasons),
        lambda ev: str(ev.compare()),
        lambda ev: str(ev.pareto),
        lambda ev: str(ev["any", "DML"]),
        lambda ev: str(ev["any", "DML"] - ev.logged),
        lambda ev: repr(ev.problem.log),
        lambda ev: str(op.select(ev)) + repr(op.select(ev)),
        lambda ev: ev.gate("any > 0").sentence,
    ],
    ids=["evaluation", "checks", "verdict", "reasons", "comparison", "pareto", "estimate", "difference", "log",
         "selection", "gate"],
)  # fmt: skip
def test_a_result(evaluation, shown):
    assert is_harmless(shown(evaluation))


def test_the_report(evaluation, tmp_path):
    text = evaluation.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "\x1b" not in text
    assert "\x07" not in text


def test_what_was_learned_and_advised():
    log = op.BanditLog.from_frame(frame(), **ROLES, reward=f"{EVIL}r")
    learned = op.learn_policy(log, max_depth=1)
    assert is_harmless(str(learned) + repr(learned) + str(learned.policy))
    assert is_harmless(str(op.advise(log, {EVIL: "uniform"}, reward_model=LinearRegression())))


def test_slates():
    rows = SLOTS.assign(item=EVIL + SLOTS.item.astype(str)).rename(columns=lambda c: EVIL + c)
    named = {"slate": "s", "position": "k", "action": "item", "reward": "r", "propensity": "p"}
    log = op.Slates.from_frame(rows, context=[f"{EVIL}x"], **{k: EVIL + v for k, v in named.items()})
    ev = op.evaluate(log, {EVIL: "uniform"}, estimators=["IPW"])
    assert is_harmless(repr(log) + str(ev) + str(ev.diagnostics))


def test_features_of_actions_are_read_only():
    log = op.BanditLog.from_arrays(np.arange(6.0), [0, 1, 2] * 2, [0.0, 1.0] * 3, action_features=[[0.0], [1.0], [2.0]])
    with pytest.raises(ValueError, match="read-only"):
        log.action_features.table.iloc[0, 0] = 99.0
