"""What a gate says of estimates: a table of bars and intervals, and how conditions are gone through."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from trust_gates import RESTS, Ev, scores

from offpolicy.errors import UsageError
from offpolicy.inference.estimate import Estimate
from offpolicy.inference.intervals.sample import Interval
from offpolicy.trust import gate
from offpolicy.trust.gate import GateResult, check, worst


def test_three_words_and_their_codes():
    assert [worst(codes) for codes in ([], [0, 0], [0, 4], [4, 4], [3, 4], [0, 3])] == [0, 0, 4, 4, 3, 3]
    outcomes = {p: GateResult(p, 0, "").outcome for p in (True, False, None)}
    assert outcomes == {True: "passed", False: "failed", None: "not enough evidence"}
    plain = GateResult(True, 0, "a\x1bb")
    assert (plain.level, plain.expression, plain.assumption, plain.conditions) == (0.95, "", "", ())
    assert "\x1b" not in plain.sentence


@pytest.mark.parametrize(
    ("expression", "passed", "code", "word", "end"),
    [
        ("value > 1", True, 0, "passed", ""),
        ("value < 1", False, 3, "failed", ""),
        ("value > 3", False, 3, "failed", ""),
        ("value < 3", True, 0, "passed", ""),
        ("value > 2.01", None, 4, "not enough evidence", ", which includes 2.01"),
        ("value < 1.99", None, 4, "not enough evidence", ", which includes 1.99"),
    ],
)
def test_an_interval_on_one_side_of_a_bar_decides(expression, passed, code, word, end):
    e = scores(2.0)
    ev = Ev({"new": e}, redraw=False)
    result = check(ev, expression)
    low, high = e.interval(0.95)
    method = e.interval(0.95).method
    assert (result.passed, result.exit_code) == (passed, code)
    assert result.sentence == (
        f"gate {expression!r}: {word}. value 2.0 is 2, 95% interval {low:.4g} to {high:.4g} ({method}){end}. {RESTS}"
    )
    assert (result.expression, result.level, result.assumption, result.conditions) == (expression, 0.95, RESTS, ())
    assert ev.asked == [("new", None, 0.95)]


def test_a_bar_at_the_end_of_an_interval_is_held():
    wide = Interval(1.0, 2.0, 0.95, "exact")
    e = scores(1.5)
    for bar, sign, passed in (
        (1.0, ">", None),
        (2.0, "<", None),
        (0.99, ">", True),
        (2.01, "<", True),
        (2.01, ">", False),
    ):
        asked = SimpleNamespace(bar=bar, sign=sign, kind="value")
        assert gate._decided("x", asked, e, wide, "").passed is passed


def test_lifts_and_differences():
    e = scores(2.0)
    ev = Ev({"new": e}, redraw=False)
    lift = e.lift(ev.logged)
    low, high = lift.interval(0.9)
    said = check(ev, "lift > 0", 0.9)
    assert f"is {100 * lift.value:+.3g}%, 90% interval {100 * low:+.3g}% to {100 * high:+.3g}%" in said.sentence
    gap = ev.logged - e
    low, high = gap.interval(0.95)
    assert f"is {gap.value:.4g}, 95% interval {low:.4g} to {high:.4g}" in check(ev, "logged - new < 0").sentence
    zero = Ev({"new": e}, logged=0.0, redraw=False)
    none = check(zero, "lift > 0")
    assert (none.passed, none.exit_code) == (None, 4)
    assert none.sentence == (
        "gate 'lift > 0': not enough evidence. The logged value may be 0, so a lift over it means nothing. Gate "
        f'the difference instead: "new - logged > …". {RESTS}'
    )
    assert check(zero, "new - logged > 0").passed


def test_a_verdict_against_any_policy_involved():
    ev = Ev({"new": scores(2.0), "old": scores(1.0)}, verdict="insufficient evidence")
    result = check(ev, "new - old > 0", estimator="DML")
    assert (result.passed, result.exit_code) == (None, 4)
    assert result.sentence == f"gate 'new - old > 0': not enough evidence on 'new'. Too few. {RESTS}"
    assert ev.asked == [("new", "DML", 0.95)]
    calm = Ev({"new": scores(2.0), "old": scores(1.0)}, redraw=False)
    check(calm, "new - old > 0")
    assert [who for who, *_ in calm.asked] == ["new", "old"]
    check(calm, "new - logged > 0")
    assert [who for who, *_ in calm.asked[2:]] == ["new", "compare"]


def test_an_interval_that_is_refused():
    few = Estimate.from_scores(np.array([1.0, 2.0, 3.0]), label="few")
    ev = Ev({"new": few}, redraw=False)
    result = check(ev, "value > 0")
    reason = few.interval(0.95).reason
    assert reason
    assert (result.passed, result.exit_code) == (None, 4)
    assert result.sentence == f"gate 'value > 0': not enough evidence ({reason}). {RESTS}"


@pytest.mark.parametrize(
    ("expression", "ends", "passed"),
    [("new > 0.9", "1 to 2", True), ("old > 1.9", "2 to 3", True), ("new lift > 0", "+10% to +20%", True),
     ("new - logged < 0", "-0.2 to -0.1", True)],
)  # fmt: skip
def test_one_of_several_policies_has_the_interval_of_a_comparison(expression, ends, passed):
    ev = Ev({"new": scores(2.0), "old": scores(1.0)}, redraw=False)
    result = check(ev, expression)
    assert result.passed is passed
    assert f"95% interval {ends} (joint, corrected for 2 policies)" in result.sentence
    assert ev.asked[-1] == ("compare", 0.95, None)


def test_differences_of_two_among_several_are_all_allowed_for():
    from offpolicy.inference.family import adjusted

    for names, pairs in ((("new", "old"), 3), (("new", "old", "third"), 6)):
        ev = Ev({name: scores(2.0 - i) for i, name in enumerate(names)}, redraw=False)
        gap = ev["new",] - ev["old",]
        low, high = gap.interval(adjusted(0.95, pairs))
        said = check(ev, "new - old > 0").sentence
        assert f"95% interval {low:.4g} to {high:.4g} (" in said
        assert f"corrected for {len(names)} policies)" in said
    own = Ev({"new": scores(2.0), "logged": scores(1.0)}, redraw=False)
    with pytest.raises(UsageError, match="means the current policy"):
        check(own, "new - logged > 0")


def test_several_conditions_hold_together():
    from offpolicy.inference.family import adjusted

    e = scores(2.0)
    ev = Ev({"new": e}, redraw=False)
    low, high = e.interval(adjusted(0.95, 2))
    both = check(ev, "value > 1 and value < 3")
    assert (both.passed, both.exit_code) == (True, 0)
    how = f"{e.interval(0.9).method}, corrected for 2 conditions"
    each = f"value 2.0 is 2, 95% interval {low:.4g} to {high:.4g} ({how})."
    assert both.sentence == (
        f"gate 'value > 1 and value < 3': passed. 'value > 1': passed. {each} 'value < 3': passed. {each} {RESTS}"
    )
    assert [c.expression for c in both.conditions] == ["value > 1", "value < 3"]
    assert [c.level for c in both.conditions] == [0.95, 0.95]
    assert {level for _, _, level in ev.asked} == {adjusted(0.95, 2)}
    unsure = check(ev, "value > 1 and value > 2")
    assert (unsure.passed, unsure.exit_code, unsure.outcome) == (None, 4, "not enough evidence")
    failed = check(ev, "value > 2 and value > 3")
    assert (failed.passed, failed.exit_code) == (False, 3)


def test_conditions_on_other_metrics():
    ev = Ev({"new": scores(2.0)}, redraw=False)
    ev.metrics = ("reward", "cost")
    ev.others["cost"] = Ev({"new": scores(5.0)}, redraw=False)
    assert check(ev, "cost value > 4").passed
    assert check(ev, "reward value > 4").passed is False
    assert check(ev, "reward value > 1 and cost value < 4").exit_code == 3
