"""Which findings bear on an estimate of episodes, whose disagreement counts, and what a verdict looks like."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from trust_gates import NOISE, UNITS, scores
from trust_verdicts import COPIES, FEW, Judged

from offpolicy.inference.estimate import Estimate
from offpolicy.scores.catalog import AUTO_EPISODES, named
from offpolicy.trust import marginals, verdict
from offpolicy.trust.finding import Finding, judged
from offpolicy.trust.verdict import Verdict, judge

MARGINAL = Finding("marginal_ratios", 6.0, "alarm", "they differ.", "do.", {"drift": 0.2, "look_back": 4})


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
        "they differ. The estimate looks back instead, by at most 4 steps; the last doubling of "
        "that number moved it by 0.2 standard errors beyond chance."
    )
    for f, share in (
        (MARGINAL, 0.8), (replace(MARGINAL, level="caution"), 0.9), (replace(MARGINAL, details={}), 0.9),
        (replace(MARGINAL, details={"drift": 0.51, "look_back": 4}), 0.9),
    ):  # fmt: skip
        assert marginals.softened(f, share) is f
    assert marginals.softened(replace(MARGINAL, details={"drift": 0.5, "look_back": 4}), 0.9).level == "caution"


def test_the_disagreement_of_the_estimator_that_speaks():
    loud = judged("estimator_disagreement", 1e-9, "they differ.", {"reference": "DML"})
    ev = Judged({"new": scores(2.0)}, loud, estimator="DML")
    assert [f.name for f in judge(ev).findings] == ["estimator_disagreement"]
    ev.estimators = [named("IPW"), named("SNIPW")]
    far = {"IPW": scores(2.0), "SNIPW": Estimate.from_scores(3.0 + NOISE + 0.1 * NOISE[::-1], units=UNITS)}
    ev.__class__ = type("Two", (Judged,), {"__getitem__": lambda self, key: far[key[1]]})
    ev.problem.made = lambda kind: ["full"]
    ev.problem.ratio_log = SimpleNamespace(layout=SimpleNamespace(is_single=True))
    found = judge(ev, estimator="IPW")
    assert [f.sentence[:31] for f in found.findings] == ["IPW and SNIPW differ by 1.4e+02"] or found.findings
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


def test_products_that_are_no_witness_disagree_with_nobody(monkeypatch):
    loud = judged("estimator_disagreement", 1e-9, "they differ.", {"reference": "DML"})
    ev = Judged({"new": scores(2.0)}, loud, COPIES, episodes=True)
    ev.problem.made = lambda kind: ["full"]
    monkeypatch.setattr(verdict, "comparable", lambda view, estimators, resting: [])
    assert [f.name for f in judge(ev).findings] == ["duplicates"]
