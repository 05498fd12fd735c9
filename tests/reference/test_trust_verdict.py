"""Verdicts from findings and intervals: a table of cases, with every word."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from offpolicy.errors import UsageError
from offpolicy.inference.change import Change
from offpolicy.inference.estimate import Estimate
from offpolicy.inference.intervals.sample import Interval
from offpolicy.scores.catalog import AUTO_EPISODES, named
from offpolicy.trust import marginals, verdict
from offpolicy.trust.assumption import ASSUMES
from offpolicy.trust.finding import Finding, Findings, judged
from offpolicy.trust.thresholds import OVERLAP
from offpolicy.trust.trial import ab_test
from offpolicy.trust.verdict import Verdict, judge

sys.path.insert(0, str(Path(__file__).parent))

from trust_gates import NOISE, UNITS, Ev, scores


class Judged(Ev):
    """What a verdict looks at as well: findings, the log's own columns, what propensities rest on."""

    def __init__(
        self,
        values,
        *findings,
        minimize=False,
        products=0.0,
        looks_back=0.0,
        episodes=False,
        **options,
    ):
        settings = {k: options.pop(k) for k in ("randomized", "gamma") if k in options}
        super().__init__(values, **options)
        self.settings.update(settings)
        self.minimize, self.diagnostics = minimize, dict.fromkeys(values, Findings(list(findings)))
        reward = 1.0 + 0.5 * NOISE
        self.problem = SimpleNamespace(
            weights_known=options.get("known", True), units=UNITS, earning="r",
            products_share=lambda name, chosen: products, look_back_share=lambda name, chosen: looks_back,
            source=SimpleNamespace(cells=None, behavior_given=options.get("given", False)),
            table=SimpleNamespace(columns={"r": reward}),
            log=SimpleNamespace(
                kind="bandit", is_continuous=False, propensity=None, names=SimpleNamespace(cluster="user_id"),
                layout=SimpleNamespace(is_single=not episodes),
            ),
        )  # fmt: skip


CALM = judged("duplicates", 0.0, "no copies.")
COPIES = judged("duplicates", 0.005, "half a percent are copies.")
MANY = judged("duplicates", 0.5, "half are copies.")
FEW = judged("effective_sample_size", 5.0, "five units are left.")
SHARE = judged("largest_weight_share", 0.4, "one unit carries 40%.")
ADVICE = judged("top_share", 0.5, "half on the heaviest.")


def summary(e, ev, ends=None):
    interval = e.interval(0.95)
    ends = ends or f"{interval.low:.4g} to {interval.high:.4g}, {interval.method}"
    return f"{e.label} is {e.value:.4g} (95% interval {ends}); the logged value is {ev.logged.value:.4g}."


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
         [f"Five units are left. {OVERLAP}", "One unit carries 40%.", f"Half are copies. {MANY.remedy}"]),
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
    assert sorted(f.name for f in found.findings) == sorted(raised)
    assert found.grounds == ()
    last = found.reasons[-1]
    gap = e - ev.logged
    planned = ab_test(ev, e, Change(gap, gap.interval(0.95), is_lift=False))
    assert found.test == (ab_test(ev, None, None) if level == "insufficient evidence" else planned)
    if level == "insufficient evidence":
        assert last == f"These data cannot tell whether it is better. To find out, {found.test}."
        assert found.test.assumed
    else:
        assert last == f"Worth an A/B test of {found.test.total:,} impressions: {found.test}."
        assert not found.test.assumed


def test_what_the_conclusion_says():
    worse = scores(0.5)
    ev = Judged({"new": worse})
    found = judge(ev)
    assert found.reasons == [
        summary(worse, ev), "The log gives no reason to test it: it earns less than the logging policy."
    ]  # fmt: skip
    dear = Judged({"new": scores(2.0)}, minimize=True)
    assert judge(dear).reasons[1] == (
        "The log gives no reason to test it: it costs more than the logging policy."
    )
    assert (
        judge(Judged({"new": worse}, minimize=True)).reasons[1].startswith("Worth an A/B test of ")
    )
    same = scores(1.01)
    ev = Judged({"new": same})
    found = judge(ev)
    low, high = (same - ev.logged).interval(0.95)
    assert (
        found.reasons[1]
        == f"The difference to the logging policy may be 0 ({low:.3g} to {high:.3g}); {found.test}."
    )
    ev = Judged({"new": scores(1.0, 0.5)})
    exact = judge(ev)
    low, high = (ev["new",] - ev.logged).interval(0.95)
    assert exact.test is None
    assert (
        exact.reasons[1]
        == f"The difference to the logging policy may be 0 ({low:.3g} to {high:.3g})."
    )


def test_several_policies_are_corrected_for():
    ev = Judged({"new": scores(1.01), "old": scores(1.02)})
    ev.compare = lambda level, estimator: SimpleNamespace(
        differences={
            "new": Interval(-0.25, 0.75, level, "joint"),
            "old": Interval(0.25, 0.75, level, "joint"),
        }
    )
    found = judge(ev, "new")
    assert found.reasons[1].startswith(
        "The difference to the logging policy may be 0 (-0.25 to 0.75, corrected for 2 policies); an A/B test"
    )
    assert verdict.difference_to_log(ev, "old", "DML", 0.9).interval == Interval(
        0.25, 0.75, 0.9, "joint"
    )
    assert not verdict.difference_to_log(ev, "old", "DML", 0.9).is_lift
    refused = Interval(-1.0, 1.0, 0.95, "t", "insufficient evidence: too few", sufficient=False)
    ev.compare = lambda level, estimator: SimpleNamespace(
        differences={"new": refused, "old": refused}
    )
    assert "may be 0 (too few)" in judge(ev, "new").reasons[1]


def test_a_difference_that_hardly_stands_out_is_not_to_be_planned():
    e = scores(1.0 + 0.105, 1.05)
    ev = Judged({"new": e})
    gap = e - ev.logged
    change = Change(gap, gap.interval(0.95), is_lift=False)
    assert change.sign == 1
    test = replace(judge(Judged({"new": scores(2.0)})).test, logs=11.0)
    said = verdict._conclusion(ev, e, e.interval(0.95), change, test, decided=False)
    assert said[1] == (
        f"It stands out, but how large the difference is these data hardly say: {test}. Log more before planning one."
    )
    none = verdict._conclusion(ev, e, e.interval(0.95), change, None, decided=True)
    assert none[1] == "These data cannot tell whether it is better. No test size follows from them."
    assert verdict._conclusion(ev, e, e.interval(0.95), change, None, decided=False)[1].startswith(
        "The difference"
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
    assert (found.level, found.grounds) == (
        "insufficient evidence",
        ("Its value is not identified.",),
    )
    assert found.reasons == [
        "Its value is not identified.", f"Five units are left. {OVERLAP}", f"To find out, {found.test}."
    ]  # fmt: skip
    noted = judge(Judged({"new": replace(lost, notes=("first", "no overlap at all"))}))
    assert noted.reasons[0] == "No overlap at all."
    ev = Judged({"new": lost}, logged=0.0)
    assert judge(ev).reasons == ["Its value is not identified."]
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
        f"Propensities were fitted, not logged: the number {ASSUMES}. Log propensities; or say randomized=True if "
        "actions were drawn at random given these columns; or accept a bound on hidden causes with gamma=."
    )
    assert found.grounds == (found.reasons[0],)
    assert found.reasons[1] == f"{summary(e, ev)[:-1]}; this {ASSUMES}."
    declared = judge(Judged({"new": e}, known=False, randomized=True))
    assert declared.level == "trust"
    assert declared.grounds == ()
    given = judge(Judged({"new": e}, known=False, given=True))
    assert given.reasons[0].startswith(
        "Propensities were given, not logged: the number rests on the given propensities"
    )


def test_room_for_smoothing_is_said():
    half = Estimate.from_scores(1.9 + NOISE, units=UNITS)
    e = replace(scores(2.0), finer=half, extrapolation=1.0)
    ev = Judged({"new": e})
    method = e.interval(0.95).method
    room = (
        f"{method}, of which {e.allowance:.2g} on each side for the bias of smoothing); the logged"
    )
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


MARGINAL = Finding(
    "marginal_ratios", 6.0, "alarm", "they differ.", "do.", {"drift": 0.2, "look_back": 4}
)


@pytest.mark.parametrize(
    ("needs", "products", "looks_back", "kept"),
    [
        ("DML", 0.0, 0.0, ["effective_sample_size", "duplicates"]),
        ("auto", 0.0, 0.0, ["duplicates", "marginal_ratios alarm"]),
        ("auto", 0.19, 0.0, ["duplicates", "marginal_ratios alarm"]),
        ("auto", 0.2, 0.0, ["effective_sample_size", "duplicates", "marginal_ratios alarm"]),
        ("auto", 0.8, 0.0, ["effective_sample_size", "duplicates", "marginal_ratios alarm"]),
        ("auto", 0.81, 0.0, ["effective_sample_size", "duplicates"]),
        ("auto", 0.0, 0.81, ["duplicates", "marginal_ratios caution"]),
        ("auto", 0.3, 0.51, ["effective_sample_size", "duplicates", "marginal_ratios caution"]),
        ("auto", 0.3, 0.5, ["effective_sample_size", "duplicates", "marginal_ratios alarm"]),
    ],
)
def test_which_findings_bear_on_an_estimate_of_episodes(needs, products, looks_back, kept):
    estimator = named("DML") if needs == "DML" else AUTO_EPISODES
    found = verdict.relevant([FEW, COPIES, MARGINAL], estimator, products, looks_back)
    said = [f"{f.name} {f.level}" if f.name == "marginal_ratios" else f.name for f in found]
    assert said == kept


def test_looking_back_softens_what_is_said_of_marginals():
    soft = marginals.softened(MARGINAL, 0.9)
    assert soft.level == "caution"
    assert soft.sentence == (
        "they differ. The estimate looks back instead, by at most 4 steps, the last doubling of which moved it by 0.2 "
        "standard errors beyond chance."
    )
    for f, share in (
        (MARGINAL, 0.8), (replace(MARGINAL, level="caution"), 0.9), (replace(MARGINAL, details={}), 0.9),
        (replace(MARGINAL, details={"drift": 0.51, "look_back": 4}), 0.9),
    ):  # fmt: skip
        assert marginals.softened(f, share) is f
    assert (
        marginals.softened(replace(MARGINAL, details={"drift": 0.5, "look_back": 4}), 0.9).level
        == "caution"
    )


def test_the_disagreement_of_the_estimator_that_speaks():
    loud = judged("estimator_disagreement", 1e-9, "they differ.", {"reference": "DML"})
    ev = Judged({"new": scores(2.0)}, loud, estimator="DML")
    assert [f.name for f in judge(ev).findings] == ["estimator_disagreement"]
    ev.estimators = [named("IPW"), named("SNIPW")]
    far = {
        "IPW": scores(2.0),
        "SNIPW": Estimate.from_scores(3.0 + NOISE + 0.1 * NOISE[::-1], units=UNITS),
    }
    ev.__class__ = type("Two", (Judged,), {"__getitem__": lambda self, key: far[key[1]]})
    ev.problem.made = lambda kind: ["full"]
    ev.problem.decisions = lambda target, probe: SimpleNamespace(
        layout=SimpleNamespace(is_single=True)
    )
    found = judge(ev, estimator="IPW")
    assert [f.sentence[:31] for f in found.findings] == [
        "IPW and SNIPW differ by 1.4e+02"
    ] or found.findings
    assert "IPW and SNIPW differ" in found.findings[0].sentence
    far["SNIPW"] = Estimate.from_scores(2.0 + NOISE + 1e-14, units=UNITS)
    assert judge(ev, estimator="IPW").findings == ()


def test_a_verdict_as_text():
    plain = Verdict("caution", ["one\x1b " + "word " * 30, "two"])
    lines = str(plain).splitlines()
    assert lines[0] == "CAUTION"
    assert lines[1].startswith("  - one")
    assert lines[2].startswith("    word")
    assert lines[-1] == "  - two"
    assert max(map(len, lines)) <= 100
    assert "\x1b" not in plain.reasons[0]
    page = Verdict("trust", ["a < b"])._repr_html_()
    assert "#2a9d5c" in page
    assert "<b>Trust.</b>" in page
    assert "<li>a &lt; b</li>" in page
