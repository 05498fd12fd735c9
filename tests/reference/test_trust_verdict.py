"""Verdicts from findings and intervals: a table of cases, with every word."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from trust_gates import NOISE, UNITS, scores
from trust_verdicts import ADVICE, CALM, COPIES, FEW, MANY, SHARE, Judged

from offpolicy.errors import UsageError
from offpolicy.inference.comparison import Change
from offpolicy.inference.estimate import Estimate
from offpolicy.inference.expression import Smoothed
from offpolicy.inference.intervals.sample import Interval
from offpolicy.trust import verdict
from offpolicy.trust.assumption import ASSUMES, KEPT, UNSEEN
from offpolicy.trust.check import OVERLAP
from offpolicy.trust.trial import ab_test
from offpolicy.trust.verdict import judge


def summary(e, ev, ends=None):
    interval = e.interval(0.95)
    ends = ends or f"{interval.low:.4g} to {interval.high:.4g}, {interval.method}"
    value = f"{e.label} is {e.value:.4g} (95% interval {ends})"
    return f"{value}; the logged value is {ev.logged.value:.4g}; this {UNSEEN} and {KEPT}."


@pytest.mark.parametrize(
    ("findings", "level", "texts"),
    [
        ((), "trust", []),
        ((CALM, ADVICE), "trust", []),
        ((COPIES,), "caution", [f"Half a percent are copies. {COPIES.remedy}"]),
        ((COPIES, MANY), "caution", [f"Half are copies. {MANY.remedy}"]),
        ((COPIES, FEW), "insufficient evidence",
         [f"Five units are left. {OVERLAP}", f"Half a percent are copies. {COPIES.remedy}"]),
        ((MANY, FEW, SHARE), "insufficient evidence",
         [f"Five units are left. {OVERLAP}", f"Half are copies. {MANY.remedy}"]),
    ],
)  # fmt: skip
def test_findings_make_a_verdict(findings, level, texts):
    e = scores(2.0)
    ev = Judged({"new": e}, *findings)
    found = judge(ev)
    assert found.level == level
    assert found.reasons[: len(texts)] == texts
    assert found.reasons[len(texts)] == summary(e, ev)
    assert len(found.reasons) == len(texts) + 2
    raised = {f.name: f for f in findings if f.level in {"caution", "alarm"}}
    assert sorted(s.name for f in found.findings for s in f.statistics) == sorted(raised)
    assert [f.name for f in found.findings] == list(dict.fromkeys(f.name for f in found.findings))
    assert found.grounds == ()
    last = found.reasons[-1]
    gap = e - ev.logged
    planned = ab_test(ev, e, Change(gap, gap.interval(0.95), is_lift=False))
    assert found.test == (ab_test(ev, None, None) if level == "insufficient evidence" else planned)
    if level == "insufficient evidence":
        assert last == f"The log cannot tell whether it is better. To find out, {found.test}."
        assert found.test.assumed
    else:
        assert last == f"Worth an A/B test: {str(found.test).removeprefix('an A/B test of ')}."
        assert not found.test.assumed


def test_what_the_conclusion_says():
    worse = scores(0.5)
    ev = Judged({"new": worse})
    found = judge(ev)
    assert found.reasons == [
        summary(worse, ev), "It is not worth an A/B test: it earns less than the current policy."
    ]  # fmt: skip
    dear = Judged({"new": scores(2.0)}, minimize=True)
    assert judge(dear).reasons[1] == ("It is not worth an A/B test: it costs more than the current policy.")
    assert judge(Judged({"new": worse}, minimize=True)).reasons[1].startswith("Worth an A/B test: ")
    same = scores(1.01)
    ev = Judged({"new": same})
    found = judge(ev)
    low, high = (same - ev.logged).interval(0.95)
    assert (
        found.reasons[1]
        == f"There may be no difference from the current policy ({low:.3g} to {high:.3g}). To find out, {found.test}."
    )
    ev = Judged({"new": scores(1.0, 0.5)})
    exact = judge(ev)
    low, high = (ev["new",] - ev.logged).interval(0.95)
    assert exact.test is None
    assert exact.reasons[1] == f"There may be no difference from the current policy ({low:.3g} to {high:.3g})."


def test_several_policies_are_corrected_for():
    ev = Judged({"new": scores(1.01), "old": scores(1.02)})
    ev.compare = lambda level, estimator: SimpleNamespace(
        differences={"new": Interval(-0.25, 0.75, level, "joint"), "old": Interval(0.25, 0.75, level, "joint")}
    )
    found = judge(ev, "new")
    assert found.reasons[1].startswith(
        "There may be no difference from the current policy (-0.25 to 0.75, corrected for 2 policies). To find out, an"
    )
    assert verdict.difference_to_log(ev, "old", "DML", 0.9).interval == Interval(0.25, 0.75, 0.9, "joint")
    assert not verdict.difference_to_log(ev, "old", "DML", 0.9).is_lift
    refused = Interval(-1.0, 1.0, 0.95, "t", "insufficient evidence: too few", sufficient=False)
    ev.compare = lambda level, estimator: SimpleNamespace(differences={"new": refused, "old": refused})
    assert "from the current policy (too few)" in judge(ev, "new").reasons[1]


def test_a_difference_that_hardly_stands_out_is_not_to_be_planned():
    e = scores(1.0 + 0.105, 1.05)
    ev = Judged({"new": e})
    gap = e - ev.logged
    change = Change(gap, gap.interval(0.95), is_lift=False)
    assert change.sign == 1
    test = replace(judge(Judged({"new": scores(2.0)})).test, logs=11.0)
    said = verdict._conclusion(ev, "new", e, e.interval(0.95), change, test, decided=False)
    assert said[1] == (f"It looks better, but by how much is uncertain: {test}. Log more data before planning one.")
    none = verdict._conclusion(ev, "new", e, e.interval(0.95), change, None, decided=True)
    assert none[1] == "The log cannot tell whether it is better."
    assert verdict._conclusion(ev, "new", e, e.interval(0.95), change, None, decided=False)[1].startswith(
        "There may be no difference"
    )


def test_an_interval_that_is_refused_decides():
    few = Estimate.from_scores(np.array([1.0, 2.0, 3.0]), label="few")
    ev = Judged({"new": few})
    ev.logged = Estimate.from_scores(np.array([1.0, 1.0, 2.0]), units=few.units)
    found = judge(ev)
    note = few.interval(0.95).note
    assert found.level == "insufficient evidence"
    assert found.reasons[0] == note[:1].upper() + note[1:].rstrip(".") + "."
    assert found.reasons[1] == summary(few, ev, "refused")
    assert found.grounds == (found.reasons[0],)


def test_a_value_that_is_not_identified():
    lost = Estimate.from_scores(np.full(400, np.nan), units=UNITS, label="lost")
    ev = Judged({"new": lost}, FEW)
    found = judge(ev)
    assert (found.level, found.grounds) == ("insufficient evidence", ("Its value cannot be estimated.",))
    assert found.reasons == [
        "Its value cannot be estimated.", f"Five units are left. {OVERLAP}", f"To find out, {found.test}."
    ]  # fmt: skip
    noted = judge(Judged({"new": replace(lost, notes=("first", "no overlap at all"))}))
    assert noted.reasons[0] == "No overlap at all."
    ev = Judged({"new": lost}, logged=0.0)
    assert judge(ev).reasons == ["Its value cannot be estimated."]
    assert judge(ev).test is None


def test_the_direct_method_alone_is_a_caution():
    e = scores(2.0)
    ev = Judged({"new": e}, estimator="DM")
    found = judge(ev)
    assert found.level == "caution"
    assert found.reasons[0] == verdict.DIRECT
    assert found.grounds == (verdict.DIRECT,)
    assert judge(Judged({"new": e}, estimator="DM"), estimator="DM").level == "caution"


def test_propensities_that_were_fitted_or_declared():
    e = scores(2.0)
    ev = Judged({"new": e}, known=False)
    found = judge(ev)
    assert found.level == "caution"
    assert found.reasons[0] == (
        f"Propensities were fitted, not logged, so the estimate {ASSUMES}. Log propensities, or pass randomized=True "
        "if actions were drawn at random given these columns, or accept a bound on unrecorded causes with gamma=."
    )
    assert found.grounds == (found.reasons[0],)
    assert found.reasons[1] == summary(e, ev).replace(UNSEEN, f"{ASSUMES} and {UNSEEN}")
    declared = judge(Judged({"new": e}, known=False, randomized=True))
    assert declared.level == "trust"
    assert declared.grounds == ()
    given = judge(Judged({"new": e}, known=False, given=True))
    assert given.reasons[0].startswith(
        "Propensities were given, not logged, so the estimate assumes the given propensities"
    )


def test_room_for_smoothing_is_said():
    half = Estimate.from_scores(1.9 + NOISE, units=UNITS)
    e = replace(scores(2.0), smoothed=Smoothed(half, 1.0))
    ev = Judged({"new": e})
    method = e.interval(0.95).method
    room = f"{method}, including {e.allowance:.2g} on each side for smoothing bias); the logged"
    assert room in judge(ev).reasons[0]


def test_names_are_looked_up():
    ev = Judged({"new": scores(2.0), "old": scores(1.0)})
    with pytest.raises(UsageError, match=r"name the policy\. Policies: \['new', 'old'\]\."):
        judge(ev)
    with pytest.raises(UsageError, match=r"no policy is called 'nwe'\. Did you mean 'new'\?"):
        judge(ev, "nwe")
    with pytest.raises(KeyError, match="no estimate by 'DM'"):
        judge(ev, "new", "DM")
    assert verdict.policy_name(Judged({"new": scores(2.0)}), None) == "new"
    assert verdict.speaker(ev, None).name == verdict.speaker(ev, "DML").name == "DML"
