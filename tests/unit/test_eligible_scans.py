"""`eligible=` of scans: the answer of a frame, and a refusal where lists are not held."""

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.errors import DataError, UsageError

RNG = np.random.default_rng(0)
N = 400
ABLE = [["a", "b", "c"] if j % 3 else ["a", "b"] for j in range(N)]
FRAME = pd.DataFrame(
    {
        "key": range(N), "episode": np.arange(N) // 4, "t": np.arange(N) % 4, "x": RNG.normal(size=N),
        "arm": [RNG.choice(able) for able in ABLE], "r": RNG.normal(size=N), "p": [1 / len(able) for able in ABLE],
        "able": ABLE,
    }
)  # fmt: skip
ROLES = {"context": ["x"], "action": "arm", "reward": "r", "propensity": "p", "eligible": "able"}
STEPS = {"episode": "episode", "step": "t", "state": ["x"], "action": "arm", "reward": "r", "propensity": "p"}


def answer(log):
    ev = op.evaluate(log, "uniform", estimators=["IPW"])
    checks = {name: f.value for name, f in ev.diagnostics["policy"].items()}
    return ev["IPW"].value, ev["IPW"].std_error, checks


def same(one, two):
    assert two[:2] == pytest.approx(one[:2], rel=1e-12)
    assert two[2] == pytest.approx(one[2], rel=1e-9, nan_ok=True)


def test_rows_of_a_file_are_those_of_a_frame(tmp_path):
    FRAME.to_parquet(tmp_path / "log.parquet")
    one = answer(op.BanditLog.from_frame(FRAME, **ROLES, id="key"))
    with op.scan(str(tmp_path / "log.parquet"), **ROLES, id="key") as log:
        same(one, answer(log))
        assert log.whole().eligible.sum() == sum(map(len, ABLE))


def test_steps_of_a_file_are_those_of_a_frame(tmp_path):
    FRAME.to_parquet(tmp_path / "log.parquet")
    one = answer(op.Trajectories.from_frame(FRAME, **STEPS, eligible="able"))
    with op.Trajectories.scan(str(tmp_path / "log.parquet"), **STEPS, eligible="able") as log:
        same(one, answer(log))


@pytest.mark.parametrize("more", [{"way": "stream"}, {"way": "cells"}, {"max_rows": 100}])
def test_lists_are_held_in_memory_only(more):
    with op.scan(FRAME, **ROLES, **more) as log, pytest.raises(UsageError, match="eligible= contains lists"):
        op.evaluate(log, "uniform")


def test_what_was_taken_could_be_taken():
    bad = FRAME.assign(able=[["c"] if arm == "a" else able for arm, able in zip(FRAME.arm, ABLE, strict=True)])
    with op.scan(bad, **ROLES) as log, pytest.raises(DataError, match="not among the eligible"):
        op.evaluate(log, "uniform")
