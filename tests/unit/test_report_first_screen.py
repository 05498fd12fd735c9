"""What is read first: a plain sentence, intervals as intervals, reasons once, gray where the log cannot answer."""

import re

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.inference.comparison import change
from offpolicy.scores import catalog
from offpolicy.show import html, segments
from offpolicy.show.answer import answers, choice
from offpolicy.show.words import ESTIMATORS, SUPPORT, ChangeWords
from offpolicy.trust.check import CHECKS

EVIL = '<img src=x onerror="window.hacked=1">'


def world(n=3000, seed=0, gaps=(0.0, 0.1, 0.12), wrong=False):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.normal(size=n), "place": rng.choice(["north", "south"], size=n)})
    for extra in range(4):
        frame[f"z{extra}"] = rng.integers(3, size=n)
    a = rng.integers(3, size=n)
    frame["a"] = np.array(["one", "two", "three"], dtype=object)[a]
    frame["r"] = (rng.random(n) < 0.2 + np.array(gaps)[a]).astype(float)
    frame["p"] = np.where(a == 1, 0.8, 0.1) if wrong else 1 / 3
    names = {"context": [c for c in frame if c not in "arp"], "action": "a", "reward": "r"}
    return op.BanditLog.from_frame(frame, **names, propensity="p")


def evaluated(log, *names, **more):
    policies = {name: op.policies.Fixed(name) for name in names}
    return op.evaluate(log, policies, estimators=["DML", "IPW"], **more)


def said(ev):
    return "".join(text for text, _ in choice(ev, answers(ev), 0.95))


def test_an_interval_that_leans_to_one_side_is_an_interval():
    rng = np.random.default_rng(0)
    base = op.Estimate.from_scores(rng.exponential(size=60))
    words = ChangeWords.of(change(op.Estimate.from_scores(1.4 * rng.exponential(size=60)), base))
    low, high = re.fullmatch(r"([−+]\d+%) to (\+\d+%)", words.ends).groups()
    assert words.reach == f"{low[1:]} less to {high[1:]} more"
    assert words.sign == 0
    assert "±" not in "".join(vars(words)[k] for k in ("size", "reach", "short", "ends"))


def test_no_page_says_plus_minus_and_no_zero_has_a_sign():
    page = html.page(evaluated(world(), "one", "two", "three"))
    page = re.sub(r"<details.*?</details>", "", page, flags=re.DOTALL)
    assert "±" not in page
    assert "−0%" not in page
    assert "+0%" not in page


def test_policies_that_cannot_be_told_apart_are_named_together():
    text = said(evaluated(world(), "one", "two", "three"))
    assert re.match(r"(two and three|three and two) are too close to call;", text), text


def test_a_best_policy_is_called_the_best():
    ev = evaluated(world(n=6000, gaps=(0.0, 0.1, 0.5)), "one", "two", "three")
    assert said(ev) == "three is the best of the 3 policies. "
    assert ev.compare().best.leader == "three"


def test_policies_no_better_than_the_log_are_not_praised():
    text = said(evaluated(world(gaps=(0.0, 0.0, 0.0)), "one", "two"))
    assert text.startswith("None of the 2 policies is clearly better than the current one")


def test_a_policy_that_the_log_cannot_judge_does_not_win():
    rng = np.random.default_rng(0)
    n = 3000
    a = rng.choice(3, size=n, p=[0.499, 0.499, 0.002])
    r = (rng.random(n) < np.array([0.2, 0.4, 1.0])[a]).astype(float)
    log = op.BanditLog.from_arrays(None, np.array(["one", "two", "rare"])[a], r, np.array([0.499, 0.499, 0.002])[a])
    ev = evaluated(log, "one", "two", "rare")
    assert ev.verdict("rare").level == "insufficient evidence"
    assert said(ev).startswith("two is the best of the 2 policies with enough evidence.")
    assert "not enough evidence about 1 policy" in said(ev)
    only = answers(evaluated(log, "rare"))
    assert choice(evaluated(log, "rare"), only, 0.95) == ()


def test_what_the_log_cannot_answer_is_gray_and_says_so():
    ev = evaluated(world(wrong=True), "three")
    (answer,) = answers(ev)
    assert answer.is_refused
    assert answer.text.startswith("There is not enough evidence to say what three would earn.")
    page = html.page(ev)
    tiles = re.findall(r'<div class="doubtful"><dt>.*?</dt><dd>.*?</dd></div>', page)
    assert len(tiles) == 2
    assert all("do not rely on this" in t for t in tiles)
    assert 'class="doubtful"' not in html.page(evaluated(world(), "three"))


def test_a_remedy_and_a_plain_sentence_are_said_once():
    (answer,) = answers(evaluated(world(wrong=True), "three"))
    texts = [r.text for r in answer.reasons]
    remedies = [r.remedy for r in answer.reasons if r.remedy]
    assert len(set(texts)) == len(texts)
    assert len(set(remedies)) == len(remedies)
    assert sum(len(r.behind) for r in answer.reasons) > len(texts)


def test_numbers_of_checks_add_up():
    ev = evaluated(world(), "one", "two")
    page = html.page(ev)
    some = re.search(r"(\d+) of (\d+) checks raised a concern|All (\d+) checks passed", page)
    made = int(some.group(2) or some.group(3))
    idle = re.search(r"; (\d+) more do not apply", page)
    assert made + (int(idle.group(1)) if idle else 0) == len(ev.diagnostics.rows())
    assert "Show all checks" in page or "Show all other checks" in page


def test_segments_say_how_many_there_are_and_hold_together():
    ev = evaluated(world(), "three")
    groups = segments.groupings(ev, None)
    rows = segments.by_segment(ev, "three", groups)
    assert len({r["column"] for r in rows}) == 4
    page = html.page(ev)
    assert f"{len(rows)} segments of 4 columns are shown" in page
    assert "Not shown: z2, z3" in page
    inside = groups[1].codes == 0
    part = ev["three", "DML"].within(inside)
    alone = part.interval(1 - 0.05 / len(rows))
    row = next(r for r in rows if r["column"] == "place")
    assert (row["low"], row["high"]) == pytest.approx(tuple(alone))
    assert all(r["low"] <= r["value"] <= r["high"] for r in rows)


def test_costs_say_that_less_is_better():
    ev = evaluated(world(n=6000, gaps=(0.0, 0.1, 0.5)), "one", "three", minimize=True)
    page = html.page(ev)
    assert "lower is better" in page
    assert said(ev).startswith("one is the best of the 2 policies")


def test_fitted_propensities_put_their_assumption_in_the_headline():
    log = world()
    frame = log.source.drop(columns="p")
    names = {"context": ["x", "place"], "action": "a", "reward": "r"}
    ev = evaluated(op.BanditLog.from_frame(frame, **names), "three")
    (answer,) = answers(ev)
    assert ev.assumption
    assert answer.text.endswith(f"This {ev.assumption}.")
    assert ev.assumption in html.page(ev).split('class="strip"')[0]


def test_every_check_has_plain_words_and_every_estimator_a_meaning():
    assert set(SUPPORT) <= set(CHECKS)
    assert all(check.topic.raised and check.value for check in CHECKS.values())
    assert all(CHECKS[name].topic.well for name in SUPPORT)
    named = {*catalog.DEFAULT, *catalog.DEFAULT_TRAJECTORIES}
    assert named <= set(ESTIMATORS)


def test_words_explain_themselves_and_names_stay_text():
    ev = evaluated(world(), "three")
    page = html.page(ev)
    asked = set(re.findall(r'aria-describedby="([^"]*)"', page))
    assert {"word-interval", "word-value", "word-DML"} <= asked | set(re.findall(r'id="([^"]*)"', page))
    assert asked <= set(re.findall(r'id="([^"]*)"', page))
    assert "word-weight" in asked
    assert html.explained(f"{EVIL} [weight|a & b] [nothing|x]").count("<") == 2


def test_notebooks_show_verdicts_checks_and_comparisons_escaped():
    log = world()
    ev = op.evaluate(log, {EVIL: op.policies.Fixed("one"), "two": op.policies.Fixed("two")}, estimators=["DML"])
    shown = {
        "verdict": ev.verdict(EVIL),
        "checks": ev.diagnostics,
        "one policy's": ev.diagnostics[EVIL],
        "comparison": ev.compare(),
        "whole": ev,
    }
    for name, value in shown.items():
        text = value._repr_html_()
        assert text, name
        assert "<img" not in text, name
    assert "hold at once" in shown["comparison"]._repr_html_()
    frame = ev.diagnostics.frame()
    assert len(frame) == len(ev.diagnostics.rows())
    assert set(frame["level"]) <= {"ok", "note", "caution", "alarm"}
