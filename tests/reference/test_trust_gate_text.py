"""How gates are read: a table of expressions, with what each means or why it cannot be read."""

from __future__ import annotations

import pytest

from offpolicy.errors import UsageError
from offpolicy.trust.gate_text import EXAMPLES, Expression, conditions, expressions, parse, tokens, verify

TWO = ["new", "old"]
METRICS = ["click", "cost"]


@pytest.mark.parametrize(
    ("text", "policies", "metrics", "expected"),
    [
        ("lift > 0", (), (), ("lift", None, None, ">", 0.0, None)),
        ("value >= 2", (), (), ("value", None, None, ">", 2.0, None)),
        ("lift < -5%", (), (), ("lift", None, None, "<", -0.05, None)),
        ("lift<=+.5", (), (), ("lift", None, None, "<", 0.5, None)),
        ("new lift > 1e-2", TWO, (), ("lift", "new", None, ">", 0.01, None)),
        ("new value > 3.", TWO, (), ("value", "new", None, ">", 3.0, None)),
        ("new > 250 %", TWO, (), ("value", "new", None, ">", 2.5, None)),
        ("new - old > 0", TWO, (), ("difference", "new", "old", ">", 0.0, None)),
        ("new − logged > 0", TWO, (), ("difference", "new", "logged", ">", 0.0, None)),
        ("cost lift < 2%", TWO, METRICS, ("lift", None, None, "<", 0.02, "cost")),
        ("cost new lift < 2%", TWO, METRICS, ("lift", "new", None, "<", 0.02, "cost")),
        ("new cost lift < 2%", TWO, METRICS, ("lift", "new", None, "<", 0.02, "cost")),
        ("cost new - old < 0", TWO, METRICS, ("difference", "new", "old", "<", 0.0, "cost")),
        ("cost other value > 1", TWO, METRICS, ("value", "other", None, ">", 1.0, "cost")),
        ("click cost value > 1", [*TWO, "cost"], METRICS, ("value", "cost", None, ">", 1.0, "click")),
        ("'my policy' > 1", (), (), ("value", "my policy", None, ">", 1.0, None)),
        ('"it\'s" - a.b > -1', (), (), ("difference", "it's", "a.b", ">", -1.0, None)),
    ],
)
def test_what_an_expression_means(text, policies, metrics, expected):
    assert parse(text, policies, metrics) == Expression(*expected)


NO_SIGN = "needs exactly one of >, >=, <, <=."
RIGHT = "the right side must be one number."
LEFT = "cannot read the left side."


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("lift", NO_SIGN), ("", NO_SIGN), ("1 < lift < 2", NO_SIGN), ("lift >", RIGHT), ("lift > x", RIGHT),
        ("lift > - -1", RIGHT), ("lift > 1 2", RIGHT), ("lift > > 1", NO_SIGN), ("lift > x 1", RIGHT),
        ("lift > 1 +", RIGHT), ("> 1", LEFT), ("1 > 1", LEFT), ("new + old > 0", LEFT), ("- old > 0", LEFT),
        ("a - b - c > 0", LEFT), ("new - 5 > 0", LEFT),
        ("a b c lift > 0", LEFT + " Known: 'lift', 'value'."), ("1 - old > 0", LEFT),
        ("lift > 1e999", "1e999 is too large a number."),
    ],
)  # fmt: skip
def test_why_an_expression_cannot_be_read(text, why):
    with pytest.raises(UsageError) as error:
        parse(text)
    assert str(error.value) == f"gate {text!r}: {why} {EXAMPLES}"


def test_what_is_not_a_word():
    with pytest.raises(UsageError) as error:
        tokens("lift > $5 ")
    assert str(error.value) == (
        "gate 'lift > $5 ': cannot read '$5'. Quote a policy name that has characters other than letters, digits, '_' "
        f"and '.'. {EXAMPLES}"
    )
    assert tokens("  ") == []
    assert tokens("a1.b>=2%") == [("name", "a1.b"), ("sign", ">="), ("number", "2%")]
    assert tokens("x > 5 %") == [("name", "x"), ("sign", ">"), ("number", "5 %")]


def test_names_that_may_be_meant():
    with pytest.raises(UsageError, match=r"cannot read the left side\. Did you mean 'cost'\?"):
        parse("cst new lift > 0", TWO, METRICS)
    with pytest.raises(UsageError, match=r"cannot read the left side\. Did you mean 'cost'\?"):
        parse("click cost lift > 0", TWO, METRICS)
    with pytest.raises(UsageError) as error:
        parse("new > 0", ["new"], ["new", "cost"])
    assert str(error.value) == (
        "gate 'new > 0': both a metric and a policy are called 'new'. Name the policy after the metric."
    )
    assert parse("new > 0", ["new"], ["cost"]).policy == "new"
    assert parse("lift > 0", ["new"], ["lift"]).policy is None


def test_conditions_are_split_at_and():
    assert conditions("a > 0 and b > 1 AND c < 2") == ["a > 0", "b > 1", "c < 2"]
    assert conditions(" 'and' > 0 ") == ["'and' > 0"]
    assert conditions("android > 0 and.b > 1") == ["android > 0 and.b > 1"]
    assert conditions("a > $ and b > 0") == ["a > $ and b > 0"]
    assert conditions("a > 0 and b > $") == ["a > 0", "b > $"]
    assert conditions("and a > 0") == ["", "a > 0"]


def test_policies_that_a_gate_names():
    assert verify("new lift > 0 and old lift > 0", TWO)[1].policy == "old"
    with pytest.raises(UsageError) as error:
        verify("lift > 0", TWO)
    assert str(error.value) == (
        "gate 'lift > 0': name the policy, since there are 2: ['new', 'old']. For example: new lift > 0"
    )
    assert verify("lift > 0", ["new"])[0].policy is None
    with pytest.raises(UsageError, match=r"no policy is called 'nwe'\. Did you mean 'new'\?"):
        verify("nwe lift > 0", TWO)
    with pytest.raises(UsageError, match="no policy is called 'odl'"):
        verify("new - odl > 0", TWO)
    with pytest.raises(UsageError, match="no policy is called 'logged'"):
        verify("logged lift > 0", TWO)
    assert verify("logged - new > 0", TWO)[0].policy == "logged"
    # One reward with the name of a policy: the policy is meant. Of several it could be either.
    assert verify("new > 0", TWO, ["new"])[0] == Expression("value", "new", None, ">", 0.0, None)
    assert verify("click > 0", ["new"], ["click"])[0].metric == "click"
    with pytest.raises(UsageError, match="both a metric and a policy"):
        verify("new > 0", TWO, ["new", "cost"])


def test_the_gates_that_were_asked_for():
    assert expressions(None, TWO) == []
    assert expressions("new lift > 0", TWO) == ["new lift > 0"]
    assert expressions(("new lift > 0", "old > 1"), TWO) == ["new lift > 0", "old > 1"]
    with pytest.raises(UsageError) as error:
        expressions([], TWO)
    assert str(error.value) == f"the list of gates is empty. Leave it out, or write a gate. {EXAMPLES}"
    for blank in ("  ", 5, ""):
        with pytest.raises(UsageError) as error:
            expressions([blank], TWO)
        assert str(error.value) == f"gate {blank!r} is empty. {EXAMPLES}"
    with pytest.raises(UsageError, match="no policy is called"):
        expressions(["new > 0", "nobody > 0"], TWO)
    with pytest.raises(UsageError, match="metric"):
        expressions("new > 0", TWO, ["new", "cost"])
