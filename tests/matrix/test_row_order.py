"""With ids the order of rows is nobody's business: the same bits, whatever the file looks like."""

import numpy as np
import pytest
from matrix import worlds
from matrix.answers import ASPECTS, assert_same
from matrix.paths import WARNINGS

import offpolicy as op

pytestmark = WARNINGS
FEW = ("auto", "DML", "SNIPW", "DR-half")
SAID = ("values", "table", "gates")


def boosted(**settings):
    return op.models.BoostedReward(rounds=8, threads=1, **settings)


MODELS = {"linear": worlds.linear, "boosted": boosted, "default": lambda: None}
ROUTES = ("pandas", "polars", "parquet-rows", "parquet-cells", "parquet-stream", "glob-stream")
CASES = [
    pytest.param(
        model,
        route,
        world,
        marks=()
        if world == {"linear": "users", "boosted": "hours", "default": "silent"}[model]
        and (model != "default" or route in {"pandas", "parquet-stream"})
        else pytest.mark.verify,
        id=f"{model}-{route}-{world}",
    )
    for model in MODELS
    for route in ROUTES
    for world in worlds.NAMES
]


def said(engines, route, world, **settings):
    asked = {"estimators": FEW, **world.settings, **settings}
    ev = op.evaluate(engines.open(route, world), world.policies, **asked)
    return {what: ASPECTS[what](ev, world) for what in SAID}


@pytest.mark.parametrize(("model", "route", "world"), CASES)
def test_shuffled_rows_give_the_same_bits(engines, model, route, world):
    made = worlds.world(world)
    found = [said(engines, route, w, reward_model=MODELS[model]()) for w in (made, worlds.shuffled(made, 1))]
    assert_same(found[0], found[1], tolerance=0, what=f"{world} in another order, {route}")
    assert str(found[0]) == str(found[1])


def test_ids_and_rows_sorted_beforehand_are_the_same(engines):
    """`id=` is the same as sorting by it, where ids are 0, 1, 2, …: the fold is a hash of the number."""
    made = worlds.world("weighted")
    order = np.argsort(made.frame["id"].to_numpy())
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.arange(len(order))
    numbered = worlds.changed(made, id=ranks)
    frame = numbered.frame.sort_values("id").reset_index(drop=True)
    by_number = worlds.changed(numbered, **{c: frame[c] for c in frame})
    settings = {"estimators": FEW, "reward_model": worlds.linear()}
    found = [
        ASPECTS["values"](op.evaluate(log, made.policies, **settings), made)
        for log in (
            engines.open("pandas", numbered),
            engines.open("pandas", by_number, id=False),
            engines.open("parquet-stream", by_number, id=False),
        )
    ]
    assert_same(found[0], found[1], what="id= ≠ sorted")
    assert_same(found[0], found[2], what="id= ≠ sorted and streamed")


@pytest.mark.parametrize("route", ["pandas", "polars", "arrow"])
def test_arrays_go_with_their_rows(engines, route):
    """Arrays have one entry per row of the frame, in the frame's order, also where ids reorder it."""
    made = worlds.world("hours")
    found = []
    for world in (made, worlds.shuffled(made, 2)):
        frame = world.frame
        ev = op.evaluate(
            engines.open(route, world),
            {"sharp": frame["choice"].to_numpy(), "soft": worlds.soft(frame)},
            estimators=FEW,
            reward_model=0.2 + worlds.soft(frame) * frame[["x"]].to_numpy() / 5,
            behavior_model=worlds.soft(frame)[:, ::-1],
            folds=(frame["id"].to_numpy() // 977) % 3,
        )
        found.append(ASPECTS["values"](ev, world))
    assert_same(found[0], found[1], tolerance=0, what="arrays")


def test_a_cluster_makes_the_fold(engines):
    """Other ids, the same users: the same folds, so the same numbers."""
    made = worlds.world("users")
    other = worlds.changed(made, id=np.arange(len(made.frame))[::-1] * 3)
    found = [
        ASPECTS["values"](
            op.evaluate(engines.open("pandas", world), made.policies, estimators=FEW, reward_model=worlds.linear()),
            made,
        )
        for world in (made, other)
    ]
    assert_same(found[0], found[1], what="ids of another kind")


@pytest.mark.parametrize("repeated", [True, False])
@pytest.mark.parametrize("route", ["pandas", "parquet-rows", "parquet-cells", "parquet-stream"])
def test_ids_that_tell_no_rows_apart_are_refused(engines, route, repeated):
    made = worlds.world("rare")
    ids = made.frame["id"].astype("Int64")
    ids[7] = ids[3] if repeated else None
    world = worlds.changed(made, id=ids)
    with pytest.raises(op.errors.DataError, match="id"):
        said(engines, route, world, reward_model=worlds.linear())


@pytest.mark.parametrize("world", ["rare", *(pytest.param(w, marks=pytest.mark.verify) for w in worlds.NAMES[1:])])
@pytest.mark.parametrize("route", ["parquet-rows", "parquet-cells", "parquet-stream"])
@pytest.mark.parametrize("validation", [0, 0.2])
def test_trees_are_the_same_on_every_way(engines, route, world, validation):
    """The sums inside LightGBM are 32-bit numbers: equal to a millionth."""
    made = worlds.world(world)
    model = boosted(validation=validation)
    ours, theirs = (said(engines, r, made, reward_model=model)["values"] for r in ("pandas", route))
    assert_same(ours, theirs, tolerance=1e-6, what=f"trees of {world}: pandas ≠ {route}")
