"""Gates over several metrics: every condition has to pass, and their intervals hold together."""

import numpy as np
import pytest

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy.inference.family import adjusted
from offpolicy.trust.gate_text import conditions, parse, verify

RNG = np.random.default_rng(1)
N = 4000
A = RNG.integers(2, size=N)
REWARDS = {
    "revenue": 2 + 0.5 * A + RNG.normal(size=N),
    "cost": 1 + 0.01 * A + 0.2 * RNG.normal(size=N),
    "margin of one": RNG.normal(size=N),
}
LOG = op.BanditLog.from_arrays(None, A, REWARDS, np.full(N, 0.5))


@pytest.fixture(scope="module")
def single():
    return op.evaluate(LOG, {"new": op.policies.Fixed(1)}, estimators=["SNIPW"], minimize=["cost"])


@pytest.fixture(scope="module")
def double():
    policies = {"new": op.policies.Fixed(1), "old": op.policies.Fixed(0)}
    return op.evaluate(LOG, policies, estimators=["SNIPW"], minimize=["cost"])


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("revenue lift > 0 and cost lift < 5%", 0),
        ("revenue lift > 0 and cost lift < 0.5%", 4),
        ("revenue lift > 0 and cost lift < -5%", 3),
        ("cost lift < 0.5% and revenue lift < 0", 3),
        ("lift > 0 AND cost value < 2", 0),
        ("cost new lift < 5% and new cost < 2 and 'margin of one' value > -1", 0),
        ("cost new - logged < 0.1", 0),
    ],
)
def test_every_condition_has_to_pass(single, expression, code):
    result = single.gate(expression)
    assert result.exit_code == code
    assert result.passed is {0: True, 3: False, 4: None}[code]
    assert expression in result.sentence
    assert len(result.conditions) == (0 if " and " not in expression.lower() else expression.lower().count(" and ") + 1)


def test_the_intervals_of_conditions_hold_together(single):
    lift = single["SNIPW"].lift(single.logged)
    bar = lift.value - 2.1 * lift.std_error  # clears 95%, and not 97.5%
    assert single.gate(f"revenue lift > {bar}").exit_code == 0
    result = single.gate(f"revenue lift > {bar} and cost value < 9")
    assert [each.exit_code for each in result.conditions] == [4, 0]
    low, high = lift.interval(adjusted(0.95, 2))
    assert (
        f"95% interval {100 * low:+.3g}% to {100 * high:+.3g}% (fieller, corrected for 2 conditions)" in result.sentence
    )


def test_policies_and_conditions_are_both_allowed_for(double):
    result = double.gate("revenue new lift > 0 and cost new lift < 5%")
    assert result.exit_code == 0
    assert "corrected for 2 policies and 2 conditions" in result.sentence
    assert double.gate("cost new - old < 0.1 and new lift > 0").exit_code == 0
    with pytest.raises(UsageError, match="name the policy, since"):
        double.gate("revenue lift > 0")
    with pytest.raises(UsageError, match="Did you mean 'revenue'"):
        double.gate("revenu new lift > 0")


def test_a_metric_speaks_for_itself(single):
    cost = single.metric("cost")
    assert cost.gate("value < 2").exit_code == 0
    assert cost.gate("revenue value > 2").exit_code == 0
    margin = single.combine({"revenue": 1, "cost": -1}, name="margin")
    assert margin.gate("margin lift > 0").exit_code == 0


def test_reading_conditions():
    assert conditions("a > 0 and b < 1") == ["a > 0", "b < 1"]
    assert parse("band lift > 0").policy == "band"
    known = ["click", "cost"]
    gate = parse("cost lift < 2%", ["new"], known)
    assert (gate.metric, gate.policy, gate.bar) == ("cost", None, 0.02)
    assert parse("cost < 3", ["new"], known).kind == "value"
    assert verify("click > 0", ["click"], ["click"])[0].policy == "click"
    with pytest.raises(UsageError, match="both a metric and a policy"):
        verify("cost lift > 0", ["cost"], known)
    assert verify("cost cost lift > 0", ["cost"], known)[0].metric == "cost"


@pytest.mark.parametrize("expression", ["lift > 0 and", "and lift > 0", "lift > 0 lift > 1", "new old lift > 0"])
def test_what_cannot_be_read_is_refused(single, expression):
    with pytest.raises(UsageError, match="gate"):
        single.gate(expression)
