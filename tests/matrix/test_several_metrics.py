"""Several metrics, and the decisions made by them: every path says what the frame in memory says."""

import json

import pytest
from matrix import worlds
from matrix.answers import assert_same, intervals, outcome, values, verdicts
from matrix.paths import ROUTES, WARNINGS

import offpolicy as op
from offpolicy.trust.gate import check

pytestmark = WARNINGS
REFERENCE, WORLD = "pandas", "several"
FEW = ("auto", "DML", "SNIPW")
USUAL = ("parquet-rows", "parquet-cells", "parquet-stream", "polars", "postgres-stream")
GATES = ("r lift > 0 and cost lift < 10%", "earned lift > -50% and cost lift < 100%", "sharp cost value < 0.9")


def route(name):
    marks = [] if name in USUAL else [pytest.mark.verify]
    if ROUTES[name].holder == "spark":
        marks += [pytest.mark.spark, pytest.mark.xdist_group("spark")]
    return pytest.param(name, marks=marks)


routes = pytest.mark.parametrize("route", [route(r) for r in ROUTES if r != REFERENCE])


def by_metric(ev, world):
    """Estimates, intervals and verdicts of every metric, and of a margin of two."""
    margin = ev.combine({"earned": 1.0, "cost": -0.3}, name="margin")
    asked = {**{name: ev.metric(name) for name in ev.metrics}, "margin": margin}
    aspects = {"values": values, "intervals": intervals, "verdicts": verdicts}
    return {(m, a): say(e, world) for m, e in asked.items() for a, say in aspects.items()}


def together(ev, _):
    """The trade-off, gates over metrics, and the choice by each of them."""

    def gate(text):
        found = check(ev, text)
        return {"exit_code": found.exit_code, "sentence": found.sentence}

    choices = {m: json.loads(op.select(ev.metric(m)).to_json()) for m in ev.metrics}
    said = {"pareto": str(ev.pareto()), "choices": choices}
    return {**said, "gates": {g: outcome(lambda g=g: gate(g)) for g in GATES}}


@routes
@pytest.mark.parametrize("what", [by_metric, together], ids=lambda f: f.__name__)
def test_what_is_said_of_several_metrics(answers, route, what):
    world = worlds.world(WORLD)
    evs = [answers.evaluation(r, WORLD, estimators=FEW) for r in (REFERENCE, route)]
    ours, theirs = (what(ev, world) for ev in evs)
    assert_same(ours, theirs, what=f"{what.__name__}: {REFERENCE} ≠ {route}")


@routes
def test_what_is_advised(answers, route):
    said = []
    for r in (REFERENCE, route):
        settings = {"reward_model": worlds.linear(), "estimators": FEW, "minimize": ["cost"]}
        advice = op.advise(answers.log(r, WORLD), worlds.world(WORLD).policies, **settings)
        said.append(json.loads(advice.to_json()))
    assert_same(said[0], said[1], 1e-7, what=f"advice: {REFERENCE} ≠ {route}")


@pytest.mark.parametrize("route", ["polars", "arrow", "parquet-rows", "csv"])
def test_the_same_tree_is_learned(answers, route):
    """From scans that are read whole as well; the others are refused before anything is fitted."""
    trees = []
    for r in (REFERENCE, route):
        found = op.learn_policy(answers.log(r, WORLD), max_depth=1, reward_model=worlds.linear(), folds=2)
        trees.append({"tree": json.loads(found.policy.to_json()), "value": found.value.value})
    assert_same(trees[0], trees[1], what=f"tree: {REFERENCE} ≠ {route}")


@pytest.mark.parametrize("route", ["parquet-cells", "parquet-stream"])
def test_no_tree_is_learned_from_what_is_not_read_whole(answers, route):
    with pytest.raises(op.errors.UsageError, match="in memory"):
        op.learn_policy(answers.log(route, WORLD))
