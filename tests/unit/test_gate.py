"""Gates: three answers, of which "cannot tell" is never green."""

import numpy as np
import pytest

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy.trust.gate import check
from offpolicy.trust.gate_text import parse, tokens

RNG = np.random.default_rng(0)
N = 4000
A = RNG.integers(2, size=N)
R = 1 + 0.5 * A + RNG.normal(size=N)
LOG = op.BanditLog.from_arrays(None, A, R, np.full(N, 0.5))


@pytest.fixture(scope="module")
def ev():
    policies = {"new": op.policies.Fixed(1), "old": op.policies.Fixed(0), "my policy-2": op.policies.Uniform()}
    return op.evaluate(LOG, policies, estimators=["SNIPW"])


@pytest.fixture(scope="module")
def single():
    return op.evaluate(LOG, op.policies.Fixed(1), estimators=["SNIPW", "IPW"])


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("new lift > 0", 0),
        ("new value > 1.4", 0),
        ("new > 1.4", 0),
        ("new - old > 0", 0),
        ("new - logged > 0", 0),
        ("old - new < 0", 0),
        ("old lift > 0", 3),
        ("new - old > 1", 3),
        ("new value < 1", 3),
        ("new value > 1.5", 4),
        ("'my policy-2' lift > 0", 4),
        ('"my policy-2" - logged >= -0.5', 0),
        ("new lift > 5%", 0),
        ("new lift > 90 %", 3),
        ("new − old > 1e-1", 0),
    ],
)
def test_the_three_answers(ev, expression, code):
    result = check(ev, expression)
    assert result.exit_code == code
    assert result.passed is {0: True, 3: False, 4: None}[code]
    assert expression in result.sentence


def test_one_policy_needs_no_name(single):
    assert check(single, "lift > 0").exit_code == 0
    assert check(single, "value > 2").exit_code == 3
    assert check(single, "value > 1.4", estimator="IPW").sentence.count("IPW") == 1


def test_the_level_decides(single):
    e = single["SNIPW"]
    bar = e.value - 2.2 * e.std_error
    assert check(single, f"value > {bar}", level=0.95).exit_code == 0
    assert check(single, f"value > {bar}", level=0.99).exit_code == 4
    with pytest.raises(UsageError, match="level"):
        check(single, "value > 0", level=95)


def test_insufficient_evidence_is_not_green():
    a = np.zeros(2000, dtype=int)
    a[:3] = 1
    log = op.BanditLog.from_arrays(None, a, 5.0 * a + RNG.random(2000), np.where(a == 1, 0.0015, 0.9985))
    ev = op.evaluate(log, op.policies.Fixed(1), estimators=["IPW"])
    result = check(ev, "lift > 0")
    assert (result.passed, result.exit_code) == (None, 4)
    assert "3 independent units" in result.sentence


def test_a_policy_without_overlap_cannot_pass():
    log = op.BanditLog.from_arrays(None, [0] * 50, np.ones(50), [0.5] * 50, actions=[0, 1])
    ev = op.evaluate(log, op.policies.Fixed(1), estimators=["IPW"])
    assert check(ev, "value < 100").exit_code == 4


def test_a_broken_log_cannot_pass():
    a = (RNG.random(N) < 0.7).astype(int)
    log = op.BanditLog.from_arrays(None, a, 1.0 * a, np.full(N, 0.5))
    result = check(op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW"]), "lift > 0")
    assert result.exit_code == 4


@pytest.mark.parametrize(
    "expression",
    [
        "",
        "lift",
        "lift >",
        "> 0",
        "lift > x",
        "lift > 0 > 1",
        "new old > 0",
        "new + old > 0",
        "new - old - new > 0",
        "lift > 1 2",
        "lift = 0",
        "__import__('os').system('true') > 0",
        "new lift > nan",
        "1 > 0",
    ],
)
def test_what_cannot_be_read_is_refused(ev, expression):
    with pytest.raises(UsageError, match="gate"):
        check(ev, expression)


def test_unknown_policies_and_missing_names(ev):
    with pytest.raises(UsageError, match="Did you mean 'new'"):
        check(ev, "nwe lift > 0")
    with pytest.raises(UsageError, match="name the policy, since"):
        check(ev, "lift > 0")


def test_reading():
    assert tokens("a.b-c>=-.5%") == [
        ("name", "a.b"), ("sign", "-"), ("name", "c"), ("sign", ">="), ("sign", "-"), ("number", ".5%"),
    ]  # fmt: skip
    assert parse("'lift' value < -2").policy == "lift"
    assert parse("a - 'b c' > +3").bar == 3
    assert parse("value <= 2e-3").sign == "<"
