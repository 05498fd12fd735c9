"""A rare arm and few clicks: every way gives the interval of the rows in memory, log by log.

The arm is logged with probability .02 and 2% of the rows click, whatever the arm: its value is .02 and its
lift 0, so a gate on a positive lift that passes is a false one.
"""

import numpy as np
import pytest
from matrix import worlds
from matrix.answers import assert_same, gates, interval
from matrix.paths import WARNINGS

import offpolicy as op

pytestmark = WARNINGS
N, TRUTH = 2_000, 0.02
WAYS = ("pandas", "parquet-rows", "parquet-cells", "parquet-stream")
GATES = ("lift > 0", "value > 0.02", "value < 0.02")


class Gated(worlds.World):
    """A world with gates of its own."""

    @property
    def gates(self):
        return GATES


def make(seed):
    frame, rng = worlds.base(N, seed, lambda x: np.tile([0.55, 0.43, 0.02], (len(x), 1)))
    frame["r"] = (rng.random(N) < TRUTH).astype(float)
    return Gated("rare arm", frame[["x", "kind", "arm", "p", "r", "id"]], worlds.ROLES)


def answer(engines, route, world):
    """Interval of the value, of the difference and of the lift, and what each gate says."""
    ev = op.evaluate(
        engines.open(route, world),
        op.policies.Fixed("w"),
        estimators=("auto", "DML", "SNIPW"),
        reward_model=worlds.linear(),
    )
    found = {name: interval(ev[name], "auto") for name in ("auto", "DML", "SNIPW")}
    found["difference"] = interval(ev["auto"] - ev.logged, "auto")
    return {**found, "gates": gates(ev, world)}


def check_log(engines, seed, ways=WAYS):
    world = make(seed)
    found = {route: answer(engines, route, world) for route in ways}
    for route in ways[1:]:
        assert_same(found["pandas"], found[route], what=f"log {seed}: pandas ≠ {route}")
    return found["pandas"]


@pytest.mark.parametrize("seed", range(20))
def test_every_way_gives_the_interval_of_the_rows(engines, seed):
    check_log(engines, seed)


@pytest.mark.verify
def test_coverage_and_false_gates(engines):
    logs = [check_log(engines, 1_000 + seed, ("pandas", "parquet-stream")) for seed in range(400)]
    # Of 400 draws, 369 or more come up at .95 with probability .993, 19 or fewer at .025 with .997.
    for name in ("auto", "DML", "SNIPW"):
        covered = sum(log[name]["low"] <= TRUTH <= log[name]["high"] for log in logs)
        assert covered >= 369, f"{name} covers {covered} of 400"
    passed = sum(log["gates"]["lift > 0"]["exit_code"] == 0 for log in logs)
    assert passed <= 19, f"{passed} of 400 false gates passed"
