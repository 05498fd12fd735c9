"""Every ratio of slates against an implementation in plain loops, on ragged slates, to 1e-10."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import offpolicy as op

K, MOST, N = 4, 4, 50
NEIGHBORS = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]], dtype=bool)
CLOSED = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [1, 1, 0, 1]], dtype=bool)
MASKS = {
    "independent": np.eye(MOST, dtype=bool),
    "cascade": np.tril(np.ones((MOST, MOST), dtype=bool)),
    "full": np.ones((MOST, MOST), dtype=bool),
    "neighbors": NEIGHBORS,
    "closed": CLOSED,
}


@pytest.fixture(scope="module")
def slates():
    """Lists of (items, rewards, π_b rows, π_e rows, q rows), of 1 to 4 slots."""
    rng = np.random.default_rng(8)
    out = []
    for _ in range(N):
        m = int(rng.integers(1, MOST + 1))
        pi_b, pi_e = rng.dirichlet(np.ones(K), m), rng.dirichlet(np.ones(K), m)
        pi_e[0, 0] = 0.0  # some weights are 0
        pi_e[0] /= pi_e[0].sum()
        items = [int(rng.choice(K, p=row)) for row in pi_b]
        out.append((items, rng.normal(size=m), pi_b, pi_e, rng.normal(size=(m, K))))
    return out


def frame_of(slates, reward=None):
    rows = [
        {"s": i, "k": k + 1, "x": float(i % 7), "a": items[k], "p": pi_b[k, items[k]],
         "r": r[k] if reward is None else reward[i]}
        for i, (items, r, pi_b, _, _) in enumerate(slates)
        for k in range(len(items))
    ]  # fmt: skip
    return pd.DataFrame(rows).sample(frac=1.0, random_state=1)


def log_of(slates, interaction, **more):
    frame = frame_of(slates, more.pop("slate_reward", None))
    log = op.Slates.from_frame(
        frame, slate="s", position="k", context=["x"], action="a", reward="r", propensity="p",
        interaction=MASKS[interaction] if interaction in {"neighbors", "closed"} else interaction,
        actions=range(K), **more,
    )  # fmt: skip
    return log, frame


def in_frame_order(frame, log, arrays):
    """Rows of slate after slate, in the order of a shuffled frame."""
    flat = np.concatenate(arrays)
    out = np.empty_like(flat)
    order = np.lexsort((frame["k"].to_numpy(), frame["s"].to_numpy()))
    out[order] = flat
    return out


def evaluated(slates, interaction, names, **more):
    log, frame = log_of(slates, interaction, **more)
    pi = in_frame_order(frame, log, [s[3] for s in slates])
    q = in_frame_order(frame, log, [s[4] for s in slates])
    return op.evaluate(log, pi, estimators=names, value_model=q)


def ratio(slate, k):
    items, _, pi_b, pi_e, _ = slate
    return pi_e[k, items[k]] / pi_b[k, items[k]]


def product(slate, members):
    return math.prod(ratio(slate, j) for j in members if j < len(slate[0]))


def linked(interaction, k):
    return [j for j in range(MOST) if MASKS[interaction][k, j]]


def weighted(slate, interaction):
    return sum(slate[1][k] * product(slate, linked(interaction, k)) for k in range(len(slate[0])))


def robust(slate, interaction):
    """Σ ρ_k (R_k − q_k) + ρ_{k−} v_k; by recursion over slots where rewards are paid at a later one."""
    items, rewards, _, pi_e, q = slate
    m = len(items)
    paid = list(rewards)
    if interaction == "full":
        paid = [0.0] * (m - 1) + [float(sum(rewards))]
    total = 0.0
    for k in range(m):
        members = range(k + 1) if interaction in {"cascade", "full"} else linked(interaction, k)
        v = sum(pi_e[k, a] * q[k, a] for a in range(K))
        without = [j for j in members if j != k]
        total += product(slate, members) * (paid[k] - q[k, items[k]]) + product(slate, without) * v
    return total


@pytest.mark.parametrize("interaction", list(MASKS))
def test_weighted_and_doubly_robust_scores(slates, interaction):
    ev = evaluated(slates, interaction, ["IPW", "DML", "TIS"])
    for name, loop in (("IPW", weighted), ("DML", robust)):
        psi = np.array([loop(slate, interaction) for slate in slates])
        assert ev["policy", name].value == pytest.approx(psi.mean(), abs=1e-10)
        assert ev["policy", name].std_error == pytest.approx(psi.std(ddof=0) / math.sqrt(N), rel=0.02)
    whole = np.mean([product(s, range(MOST)) * s[1].sum() for s in slates])
    assert ev["policy", "TIS"].value == pytest.approx(whole, abs=1e-10)


def normalized(slates, interaction, amount, members):
    """Σ_k Σ_i ρ_ik x_ik / Σ_i ρ_ik: of chains, a slate that has ended keeps its last weight; else it weighs 1."""
    total = 0.0
    for k in range(MOST):
        top = bottom = 0.0
        for slate in slates:
            there = k < len(slate[0])
            counts = there or interaction in {"cascade", "full"}
            w = product(slate, members(slate, k)) if counts else 1.0
            bottom += w
            top += w * amount(slate, k) if there else 0.0
        total += top / bottom
    return total


@pytest.mark.parametrize("interaction", ["independent", "cascade", "neighbors", "closed"])
def test_self_normalized_scores(slates, interaction):
    chain = interaction == "cascade"

    def members(slate, k):
        return range(k + 1) if chain else linked(interaction, k)

    def before(slate, k):
        return [j for j in members(slate, k) if j != k]

    def v(slate, k):
        return float(slate[3][k] @ slate[4][k])

    ev = evaluated(slates, interaction, ["SNIPW", "SNDR"])
    plain = normalized(slates, interaction, lambda s, k: s[1][k], members)
    assert ev["policy", "SNIPW"].value == pytest.approx(plain, abs=1e-10)
    left = normalized(slates, interaction, lambda s, k: s[1][k] - s[4][k, s[0][k]], members)
    assert ev["policy", "SNDR"].value == pytest.approx(left + normalized(slates, interaction, v, before), abs=1e-10)


def test_direct_estimates(slates):
    alone = evaluated(slates, "independent", ["DM"])["policy", "DM"].value
    loop = np.mean([sum(s[3][k] @ s[4][k] for k in range(len(s[0]))) for s in slates])
    assert alone == pytest.approx(loop, abs=1e-10)
    first = evaluated(slates, "cascade", ["DM"])["policy", "DM"].value
    assert first == pytest.approx(np.mean([s[3][0] @ s[4][0] for s in slates]), abs=1e-10)


def test_pseudo_inverse(slates):
    """One reward per slate: (1 + Σ_k (w_k − 1)) R, and Σ_k {w_k (R − q_k) + v_k} − (m − 1) R with a model."""
    rewards = np.random.default_rng(3).normal(size=N)
    ev = evaluated(slates, "additive", ["IPW", "DML", "DM"], slate_reward=rewards)
    plain, model, alone = [], [], []
    for slate, r in zip(slates, rewards, strict=True):
        slots = range(len(slate[0]))
        w = [ratio(slate, k) for k in slots]
        q = [slate[4][k, slate[0][k]] for k in slots]
        v = [float(slate[3][k] @ slate[4][k]) for k in slots]
        plain.append((1 + sum(x - 1 for x in w)) * r)
        model.append(sum(w[k] * (r - q[k]) + v[k] for k in slots) - (len(w) - 1) * r)
        alone.append(sum(v) - (len(w) - 1) * r)
    assert ev["policy", "IPW"].value == pytest.approx(np.mean(plain), abs=1e-10)
    assert ev["policy", "DML"].value == pytest.approx(np.mean(model), abs=1e-10)
    assert ev["policy", "DM"].value == pytest.approx(np.mean(alone), abs=1e-10)
    assert ev.logged.value == pytest.approx(rewards.mean(), abs=1e-12)


def test_one_reward_under_full_interaction(slates):
    rewards = np.random.default_rng(3).normal(size=N)
    ev = evaluated(slates, "full", ["IPW"], slate_reward=rewards, reward_of="slate")
    loop = np.mean([product(s, range(MOST)) * r for s, r in zip(slates, rewards, strict=True)])
    assert ev["policy", "IPW"].value == pytest.approx(loop, abs=1e-10)
    assert ev.logged.value == pytest.approx(rewards.mean(), abs=1e-12)


@pytest.mark.parametrize("interaction", ["independent", "cascade", "full", "additive"])
def test_slates_of_one_slot_are_a_bandit(interaction):
    rng = np.random.default_rng(5)
    n = 300
    x, action = rng.normal(size=n), rng.integers(3, size=n)
    frame = pd.DataFrame(
        {"s": np.arange(n), "k": 1, "x": x, "a": action, "r": x * action + rng.normal(size=n), "p": 1 / 3}
    )
    pi = rng.dirichlet(np.ones(3), n)
    slates = op.Slates.from_frame(
        frame, slate="s", position="k", context=["x"], action="a", reward="r", propensity="p",
        interaction=interaction,
    )  # fmt: skip
    bandit = op.BanditLog.from_frame(frame, context=["x", "k"], action="a", reward="r", propensity="p", id="s")
    ours, theirs = op.evaluate(slates, pi), op.evaluate(bandit, pi)
    assert [e.name for e in ours.estimators] == [e.name for e in theirs.estimators]
    for e in theirs.estimators:
        one, other = ours["policy", e.name], theirs["policy", e.name]
        assert (one.value, one.std_error) == (other.value, other.std_error)
        assert tuple(one.interval(0.95)) == tuple(other.interval(0.95))
    assert ours.verdict().level == theirs.verdict().level
