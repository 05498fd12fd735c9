"""One definition per quantity: checks, verdict, text, JSON, report and plots say the same number."""

import json

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.inference.comparison import change, has_lift
from offpolicy.inference.figures import capitalized, measured, percent, plain
from offpolicy.scores.catalog import headline
from offpolicy.show import evidence, html, tables
from offpolicy.show.answer import answers
from offpolicy.show.text import cells
from offpolicy.trust.gate import check
from offpolicy.trust.horizon import horizon_curve
from offpolicy.trust.view import View


def bandit(**more):
    rng = np.random.default_rng(0)
    n = 1200
    x = rng.normal(size=n)
    p1 = 1 / (1 + np.exp(-2 * x))
    a = (rng.random(n) < p1).astype(int)
    r = 1 + a * x + rng.normal(size=n)
    given = {name: make(rng, n) for name, make in more.items()}
    log = op.BanditLog.from_arrays(x, a, r, np.where(a == 1, p1, 1 - p1), **given)
    policies = {"one": op.policies.Fixed(1), "half": op.policies.Uniform()}
    return op.evaluate(log, policies, estimators=["DML", "IPW", "DM"], reward_model="auto")


def weights(rng, n):
    return rng.choice([0.2, 1.0, 5.0], size=n)


def clusters(rng, n):
    return rng.integers(100, size=n)


def episodes(**more):
    rng = np.random.default_rng(1)
    shape = (300, 5)
    states, actions = rng.integers(3, size=shape), rng.integers(2, size=shape)
    given = {name: make(rng, 300) for name, make in more.items()}
    log = op.Trajectories.from_arrays(
        states, actions, rng.normal(size=shape) + actions, propensities=np.full(shape, 0.5), **given
    )
    policy = np.tile([0.3, 0.7], (1500, 1))
    return op.evaluate(log, policy, estimators=["DML", "IPW"])


@pytest.fixture(scope="module")
def ev():
    return bandit()


@pytest.mark.parametrize(
    "more", [{}, {"weight": weights}, {"cluster": clusters}, {"weight": weights, "cluster": clusters}]
)
def test_the_horizon_ends_at_the_effective_sample_size(more):
    ev = episodes(**more)
    size = ev.diagnostics["policy", "effective_sample_size"]
    curve = ev.diagnostics["policy", "horizon"].details
    rows = evidence.horizon(View.of(ev.problem, ev.targets["policy"]))
    assert curve["effective"][-1] == pytest.approx(float(size), rel=1e-12)
    units = size.details["units"]
    assert [r["effective"] for r in rows] == pytest.approx(np.array(curve["effective"]) / units)
    assert [r["surviving"] for r in rows] == curve["surviving"]
    assert [r["running"] for r in rows] == curve["running"]


def test_the_effective_size_of_weighted_episodes_by_hand():
    ev = episodes(weight=weights)
    view = View.of(ev.problem, ev.targets["policy"])
    d, w = view.decisions, ev.problem.units.weight
    first = d.ratio[d.layout.step == 0]
    expected = (w @ first) ** 2 / ((w * first) @ (w * first))
    assert horizon_curve(d, view.units).effective[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("make", [bandit, episodes])
def test_one_clipping_curve(make):
    ev = make(weight=weights)
    for policy in ev.policies:
        points = ev.diagnostics[policy, "clipping_sensitivity"].details
        rows = evidence.clipping(View.of(ev.problem, ev.targets[policy]))
        assert [r["threshold"] for r in rows] == [c["cap"] for c in points["curve"]]
        assert [r["value"] for r in rows] == [c["value"] for c in points["curve"]]
        assert [r["clipped"] for r in rows] == [c["clipped"] for c in points["curve"]]
        assert rows[-1]["value"] == pytest.approx(points["unclipped"])
        assert points["unclipped"] == pytest.approx(ev[policy, "DML"].value)


def test_the_json_has_the_figures_of_the_diagnostics_and_the_verdict(ev):
    document = json.loads(ev.to_json())
    found = {(f["policy"], s["name"]): s for f in document["diagnostics"] for s in f["statistics"]}
    for policy in ev.policies:
        for name in ("effective_sample_size", "mean_weight", "clipping_sensitivity", "pareto_k"):
            assert found[policy, name]["value"] == float(ev.diagnostics[policy, name])
        curve = ev.diagnostics[policy, "clipping_sensitivity"].details["curve"]
        assert found[policy, "clipping_sensitivity"]["details"]["curve"] == curve
        assert document["verdicts"][policy]["level"] == ev.verdict(policy).level
        assert document["verdicts"][policy]["reasons"] == ev.verdict(policy).reasons
    assert document["headline"] == headline(ev.estimators).name == "DML"
    assert document["log"]["n"] == 1200


def test_the_page_has_the_figures_of_the_diagnostics(ev):
    page = html.page(ev)
    for policy in ev.policies:
        size = ev.diagnostics[policy, "effective_sample_size"]
        tile = f"<dd>{plain(size.value)}<small>{percent(size.details['share'])} of the log</small>"
        assert tile in page
        for point in ev.diagnostics[policy, "clipping_sensitivity"].details["curve"]:
            assert f">{plain(point['value'])}<" in page
    assert str(ev.problem.sums("log").digest) in page


def test_one_lift(ev):
    document = json.loads(ev.to_json(level=0.9))
    rows = {(r["policy"], r["estimator"]): r for r in tables.differences(ev, 0.9)[:6]}
    text = {(r[0], r[1]): r[5] for r in cells(ev, 0.9)}
    for row in document["estimates"]:
        key = row["policy"], row["estimator"]
        lift = change(ev[key], ev.logged, 0.9)
        assert lift.is_lift
        expected = (lift.estimate.value, *lift.interval)
        assert (row["lift"], row["lift_low"], row["lift_high"]) == expected
        assert tuple(rows[key][n] for n in ("lift", "lift_low", "lift_high")) == expected
        low, high = (100 * x for x in lift.interval)
        assert text[key] == f"{100 * lift.estimate.value:+.1f}% [{low:+.1f}, {high:+.1f}]"


@pytest.mark.parametrize("sign", [1, -1])
def test_a_lift_is_relative_to_the_size_of_its_base_everywhere(sign):
    rng = np.random.default_rng(0)
    a = rng.integers(2, size=3000)
    cost = sign * (1.5 + 0.5 * a + 0.1 * rng.normal(size=3000))
    log = op.BanditLog.from_arrays(None, a, cost, np.full(3000, 0.5))
    ev = op.evaluate(log, {"dear": op.policies.Fixed(1)}, estimators=["SNIPW"])
    e = ev["dear", "SNIPW"]
    lift = (e.value - ev.logged.value) / abs(ev.logged.value)
    assert lift * sign > 0.1
    assert e.lift(ev.logged).value == pytest.approx(lift)
    row = json.loads(ev.to_json())["estimates"][0]
    assert row["lift"] == pytest.approx(lift)
    assert row["lift_refused"] is None
    # Of a negative base the difference is shown, since a percentage of it misleads.
    shown = f"{100 * lift:+.1f}%" if sign > 0 else f"{e.value - ev.logged.value:+.3g}"
    assert cells(ev)[1][5].startswith(shown)
    assert ("%" in answers(ev)[0].cells[2]) == (sign > 0)
    assert check(ev, "lift > 0").exit_code == (0 if sign > 0 else 3)
    assert check(ev, "dear - logged > 0").exit_code == (0 if sign > 0 else 3)


def test_a_base_that_may_be_0_has_no_lift_anywhere():
    rng = np.random.default_rng(0)
    a = rng.integers(2, size=3000)
    log = op.BanditLog.from_arrays(None, a, a - 0.5 + rng.normal(size=3000), np.full(3000, 0.5))
    ev = op.evaluate(log, {"new": op.policies.Fixed(1)}, estimators=["SNIPW"])
    assert not has_lift(ev.logged)
    row = json.loads(ev.to_json())["estimates"][0]
    assert row["lift"] is None
    assert "contains 0" in row["lift_refused"]
    assert "%" not in cells(ev)[1][5]
    assert "%" not in answers(ev)[0].cells[2]
    gap = ev["new", "SNIPW"] - ev.logged
    assert measured(abs(gap.value), gap.std_error) in answers(ev)[0].cells[2]
    result = check(ev, "lift > 0")
    assert result.exit_code == 4
    assert "'new - logged" in result.sentence.replace('"', "'")
    assert check(ev, "new - logged > 0").exit_code == 0


def test_the_report_takes_its_reasons_from_the_verdict():
    rng = np.random.default_rng(0)
    a = (rng.random(3000) < 0.002).astype(int)
    log = op.BanditLog.from_arrays(None, a, rng.random(3000) + a, np.where(a == 1, 0.002, 0.998))
    ev = op.evaluate(log, {"rare": op.policies.Fixed(1)}, estimators=["IPW", "SNIPW"])
    verdict, (answer,) = ev.verdict("rare"), answers(ev)
    assert answer.level == verdict.level == "insufficient evidence"
    behind = [text.lower() for r in answer.reasons for text in r.behind]
    assert behind == [capitalized(s.sentence).lower() for f in verdict.findings for s in f.statistics]
    assert [r.text for r in answer.reasons if not r.behind] == list(verdict.grounds)
    said = " ".join(verdict.reasons).lower()
    assert all(f.sentence.lower() in said for f in verdict.findings)


def test_counted_logs_count_units_and_not_rows():
    frame = pd.DataFrame({"x": [0, 0, 1, 1], "a": ["u", "v", "u", "v"], "r": [1.0, 0, 0, 1], "p": 0.5, "n": 100})
    log = op.BanditLog.from_frame(frame, context=["x"], action="a", reward="r", propensity="p", count="n")
    ev = op.evaluate(log, op.policies.Fixed("u"), estimators=["IPW"], folds=[0, 1, 0, 1])
    document = json.loads(ev.to_json())
    assert document["log"]["n"] == document["logged"]["n"] == 400
    assert "rows" not in document["log"]
    assert ev.diagnostics["effective_sample_size"].details["units"] == 400
