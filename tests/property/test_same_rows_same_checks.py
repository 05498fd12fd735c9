"""The same rows give the same checks and the same report: as they come, shuffled, or as counted cells."""

import math
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import offpolicy as op
from offpolicy.show import evidence, segments, tables
from offpolicy.show.answer import answers
from offpolicy.show.schema import document
from offpolicy.trust import check_log
from offpolicy.trust.view import View

ROLES = {"context": ["x", "place"], "action": "a", "reward": "r"}


def base(rng, n=900):
    """A discrete log: two columns of context, three actions, propensities by context."""
    frame = pd.DataFrame({"x": rng.integers(3, size=n), "place": rng.choice(["n", "s"], size=n)})
    frame["side"] = (frame["place"] == "s") * 1.0
    table = np.array([[0.5, 0.3, 0.2], [0.25, 0.5, 0.25], [0.125, 0.375, 0.5]])
    p = table[frame["x"]]
    a = (rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1)
    frame["a"] = np.array(["u", "v", "w"])[a]
    frame["p"] = p[np.arange(n), a]
    chance = 0.1 + 0.1 * a + 0.1 * frame["x"].to_numpy()
    frame["r"] = (rng.random(n) < chance).astype(float)
    return frame


def plain(rng):
    return base(rng), {"propensity": "p"}


def clusters(rng):
    frame = base(rng)
    frame["user"] = rng.integers(60, size=len(frame))
    return frame, {"propensity": "p", "cluster": "user"}


def sticky(rng):
    """Every user keeps one action, and comes back often."""
    frame = base(rng)
    user = rng.integers(80, size=len(frame))
    own = rng.integers(3, size=80)
    frame["user"], frame["a"], frame["p"] = user, np.array(["u", "v", "w"])[own[user]], 1 / 3
    frame["hour"] = rng.integers(4, size=len(frame))
    return frame, {"propensity": "p", "cluster": "user", "batch": "hour"}


def batches(rng):
    frame = base(rng)
    frame["hour"] = np.minimum(rng.geometric(0.3, size=len(frame)), 9)
    frame["p"] = np.where(frame["a"] == "u", 0.4, 0.3)
    return frame, {"propensity": "p", "batch": "hour"}


def weights(rng):
    frame = base(rng)
    frame["keep"] = rng.choice([0.3, 0.7, 1.0], size=len(frame))
    return frame, {"propensity": "p", "keep_probability": "keep"}


def rare_arm(rng):
    frame = base(rng)
    rare = rng.random(len(frame)) < 0.01
    frame.loc[rare, "a"] = "z"
    frame["p"] = np.where(rare, 0.01, 0.99 * frame["p"])
    return frame, {"propensity": "p"}


def no_click(rng):
    return base(rng).assign(r=0.0), {"propensity": "p"}


def money(rng):
    """Heavy-tailed amounts on a grid, so that rows repeat."""
    frame = base(rng)
    amount = np.round(2 * (rng.pareto(1.5, size=len(frame)) + 1)) / 2
    return frame.assign(r=amount * (rng.random(len(frame)) < 0.4)), {"propensity": "p"}


def distribution(rng):
    frame = base(rng)
    table = np.array([[0.5, 0.3, 0.2], [0.25, 0.5, 0.25], [0.125, 0.375, 0.5]])
    for j, name in enumerate("uvw"):
        frame[f"p_{name}"] = table[frame["x"], j]
    return frame, {"propensity": ["p_u", "p_v", "p_w"], "batch": "place"}


def unknown(rng):
    return base(rng), {}


def unique_rows(rng):
    """Contexts that tell rows apart, and some rows that come three times."""
    frame = base(rng, 500)
    frame["x"] = np.arange(500)
    again = np.concatenate([np.arange(500), np.repeat(np.arange(7), 2)])
    return frame.iloc[again].reset_index(drop=True), {"propensity": "p"}


WORLDS = [
    plain, clusters, sticky, batches, weights, rare_arm, no_click, money, distribution, unknown,
    unique_rows,
]  # fmt: skip


def predictions(frame, actions):
    """(n, K) predictions made elsewhere; functions of the context alone."""
    x = frame["x"].to_numpy(dtype=float)
    return np.column_stack([0.1 + 0.1 * j + 0.07 * (x % 3) for j in range(len(actions))])


def target(context):
    """Probabilities of three or four actions by context."""
    x = np.asarray(context["x"]) % 3
    lean = np.array([[0.6, 0.3, 0.1], [0.1, 0.6, 0.3], [0.2, 0.2, 0.6]])
    return lean[x]


def of_four(context):
    return np.column_stack([0.9 * target(context), np.full(len(context), 0.1)])


def views_of(world, seed):
    """(name, frame with fold labels, roles of the log) of each way to write the same rows down."""
    rng = np.random.default_rng(seed)
    frame, roles = world(rng)
    roles = {**ROLES, **roles}
    # Folds never split a cluster, and equal rows may be in either of two.
    label = frame["user"] % 2 if "cluster" in roles else rng.integers(2, size=len(frame))
    frame = frame.assign(fold=np.asarray(label))
    cells = frame.groupby(list(frame.columns), dropna=False).size().rename("count").reset_index()
    yield "rows", frame, roles
    yield "shuffled", frame.sample(frac=1.0, random_state=1).reset_index(drop=True), roles
    yield (
        "cells",
        cells.sample(frac=1.0, random_state=2).reset_index(drop=True),
        {**roles, "count": "count", "fold": "fold"},
    )


def evaluated(frame, roles, model):
    if model == "linear":
        roles = {**roles, "context": ["x", "side"]}
    log = op.BanditLog.from_frame(frame, **roles)
    policies = {"lean": target if len(log.actions) == 3 else of_four, "always u": op.policies.Fixed("u")}
    given = LinearRegression() if model == "linear" else predictions(frame, log.actions)
    behavior = None if "propensity" in roles else "shares"
    return op.evaluate(
        log,
        policies,
        estimators=["DML", "SNDR", "SNIPW", "IPW", "DM", "DR-half"],
        reward_model=given,
        behavior_model=behavior,
        folds=frame["fold"].to_numpy(),
    )


def same(a, b, where):
    """Equal to 1e-9, tables and all."""
    if isinstance(a, dict):
        assert a.keys() == b.keys(), where
        for key in a:
            same(a[key], b[key], f"{where} {key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), where
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            same(x, y, f"{where} {i}")
    elif isinstance(a, float | np.floating):
        if math.isnan(a) or math.isinf(a):
            assert str(float(a)) == str(float(b)), where
        else:
            assert b == pytest.approx(a, rel=1e-9, abs=1e-9), where
    else:
        assert a == b, where


def same_findings(one, other, path):
    assert [f.name for f in one] == [f.name for f in other]
    for a, b in zip(one, other, strict=True):
        where = f"{path}: {a.name}\n{a}\n{b}"
        same(a.value, b.value, where)
        assert a.level == b.level, where
        assert a.sentence == b.sentence, where
        assert a.remedy == b.remedy, where
        same(a.details, b.details, where)


@pytest.mark.parametrize("seed", [0, 4])
@pytest.mark.parametrize("model", ["linear", "arrays"])
@pytest.mark.parametrize("world", WORLDS, ids=lambda f: f.__name__)
def test_checks_of_rows_shuffled_rows_and_counted_cells(world, model, seed):
    first, *others = [(name, evaluated(frame, roles, model)) for name, frame, roles in views_of(world, seed)]
    for name, ev in others:
        same_findings(first[1].diagnostics, ev.diagnostics, name)
        for policy in ev.policies:
            a, b = (e.verdict(policy) for e in (first[1], ev))
            assert (a.level, a.reasons) == (b.level, b.reasons)


def pages(ev):
    """What the JSON and the report say, as plain values."""
    said = {"document": document(ev), "answers": [asdict(a) for a in answers(ev)]}
    grouped = segments.groupings(ev, None)
    for policy in ev.policies:
        view = View.of(ev.problem, ev.targets[policy])
        said[policy] = {
            "weights": evidence.weights(view),
            "overlap": evidence.overlap(view),
            "clipping": evidence.clipping(view),
            "reward": evidence.reward_bins(view),
            "behavior": evidence.behavior_bins(view),
            "by action": evidence.inverse_propensities(view),
            "batches": tables.batches(ev, policy),
            "segments": segments.by_segment(ev, policy, grouped),
        }
    return said


@pytest.mark.parametrize("model", ["linear", "arrays"])
@pytest.mark.parametrize("world", WORLDS, ids=lambda f: f.__name__)
def test_reports_of_rows_shuffled_rows_and_counted_cells(world, model):
    first, *others = [(name, pages(evaluated(frame, roles, model))) for name, frame, roles in views_of(world, 3)]
    for name, said in others:
        same(first[1], said, name)


@pytest.mark.parametrize("world", WORLDS, ids=lambda f: f.__name__)
def test_checks_of_the_log_alone(world):
    first, *others = [(name, op.BanditLog.from_frame(frame, **roles)) for name, frame, roles in views_of(world, 1)]
    for name, log in others:
        same_findings(check_log(first[1]), check_log(log), name)
