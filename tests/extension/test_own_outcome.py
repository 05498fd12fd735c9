"""An outcome from outside: randomized response. People answer a sensitive question falsely with a known probability.

An answer Y in {0, 1} that is false with probability f has E[(Y − f) / (1 − 2f)] = R: a pseudo-reward.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.errors import UsageError


@dataclass(frozen=True, eq=False)
class RandomizedResponse:
    """Answers that are false with probability ``false`` (a column, or a number below one half)."""

    false: Any

    def held(self, given, reward, metric):
        f = given.numbers(self.false, "false")
        if (f >= 0.5).any():
            raise UsageError(f"{metric}: answers false half of the time say nothing.")
        return Answers(reward, f)


@dataclass(frozen=True, eq=False)
class Answers:
    """What a log holds, and what takes the reward's place: here they are the same."""

    answer: Any
    false: Any
    cluster: None = None
    note: str = "made of randomized answers"
    doubts: list[str] = field(default_factory=list)

    def take(self, rows):
        return Answers(self.answer[rows], self.false[rows])

    def settled(self, log, folds, model, seed):
        return self

    @property
    def seen(self):
        return np.ones(len(self.answer), dtype=bool)

    @property
    def reward(self):
        return (self.answer - self.false) / (1 - 2 * self.false)

    def training(self, part):
        return self.reward

    @property
    def about(self):
        return {"assumes": "rests on people answering falsely as often as they were told to"}

    def findings(self, view=None):
        return []

    policy_findings = findings
    observed = property(lambda self: self.answer)

    def label_plan(self, *_):
        return None


def frame(seed=0, n=4000, false=0.2):
    rng = np.random.default_rng(seed)
    new = rng.random(n) < 0.5
    truth = rng.random(n) < np.where(new, 0.4, 0.3)
    lies = rng.random(n) < false
    return pd.DataFrame(
        {"arm": np.where(new, "new", "old"), "p": 0.5, "answer": 1.0 * (truth ^ lies), "f": false, "x": rng.random(n)}
    )  # fmt: skip


ROLES = {"context": ["x"], "action": "arm", "reward": "answer", "propensity": "p"}


def test_the_lies_are_taken_out():
    hits, naive = 0, 0
    for seed in range(10):
        log = op.BanditLog.from_frame(frame(seed), outcome=RandomizedResponse("f"), **ROLES)
        hits += op.evaluate(log, "always:new", estimators=["DML"])["DML"].interval().covers(0.4)
        plain = op.BanditLog.from_frame(frame(seed), **ROLES)
        naive += op.evaluate(plain, "always:new", estimators=["DML"])["DML"].interval().covers(0.4)
    assert hits >= 8
    assert naive <= 2


def test_verdict_json_report_and_advice_follow(tmp_path):
    log = op.BanditLog.from_frame(frame(), outcome=RandomizedResponse(0.2), **ROLES)
    ev = op.evaluate(log, {"new": "always:new"})
    assert "people answering falsely" in str(ev.verdict())
    assert "made of randomized answers" in str(ev)
    assert "answer" in json.loads(ev.to_json())["settings"]["outcome"]
    assert ev.report(tmp_path / "out.html").exists()
    assert op.advise(log, {"new": "always:new"}, width=0.1).labels == {}


def test_a_file_is_a_frame(tmp_path):
    frame().to_parquet(tmp_path / "log.parquet")
    logs = [
        op.scan(str(tmp_path / "log.parquet"), outcome=RandomizedResponse("f"), **ROLES),
        op.BanditLog.from_frame(frame(), outcome=RandomizedResponse("f"), **ROLES),
    ]
    one, two = (op.evaluate(log, "always:new", estimators=["DML"])["DML"] for log in logs)
    assert (one.value, one.std_error) == (two.value, two.std_error)


def test_what_says_nothing_is_refused():
    with pytest.raises(UsageError, match="say nothing"):
        op.BanditLog.from_frame(frame(), outcome=RandomizedResponse(0.5), **ROLES)
