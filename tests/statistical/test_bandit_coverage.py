"""Coverage of 95% intervals by simulation, in worlds whose truth is known in closed form.

x is uniform on [−1, 1]², π_b(1 | x) = 1 / (1 + exp(−x₀)), and the target takes action 1 where x₀ > 0.

- linear: μ(x, a) = 1 + x₁ + a (½ + x₀), so V = 1 + P(x₀ > 0) · E[½ + x₀ | x₀ > 0] = 1.5;
- boosted: μ(x, a) = 1{x₀ x₁ > 0} + a · 1{x₁ > 0}, so V = ½ + ½ · ½ = 0.75.
"""

import math

import numpy as np
import pytest
from lightgbm import LGBMRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.tree import DecisionTreeRegressor

from offpolicy import BanditLog, evaluate, policies
from offpolicy.models import PerAction

TRUTH = {"linear": 1.5, "boosted": 0.75}
LEARNERS = {
    "linear": PerAction(LinearRegression()),
    "boosted": PerAction(LGBMRegressor(n_estimators=40, num_leaves=6, learning_rate=0.15, verbosity=-1, n_jobs=1)),
}
FOUR = [(known, kind) for kind in TRUTH for known in (True, False)]


def draw(rng, n, kind):
    x = rng.uniform(-1, 1, size=(n, 2))
    p = 1 / (1 + np.exp(-x[:, 0]))
    action = (rng.random(n) < p).astype(int)
    if kind == "linear":
        mean = 1 + x[:, 1] + action * (0.5 + x[:, 0])
    else:
        mean = (x[:, 0] * x[:, 1] > 0) + action * (x[:, 1] > 0)
    reward = mean + rng.normal(size=n)
    return BanditLog.from_arrays(x, action, reward, np.where(action == 1, p, 1 - p))


def target(x):
    return (x[:, 0] > 0).astype(int)


def covered(n, replications, kind, known, seed=0):
    """Share of replications whose 95% interval (Proposition 1) holds the truth."""
    hits = 0
    for stream in np.random.SeedSequence(seed).spawn(replications):
        rng = np.random.default_rng(stream)
        e = evaluate(
            draw(rng, n, kind),
            target,
            estimators=["DML"],
            reward_model=LEARNERS[kind],
            behavior_model=None if known else LogisticRegression(),
            seed=int(rng.integers(2**31)),
        )["DML"]
        hits += e.interval(0.95, "normal").covers(TRUTH[kind])
    return hits / replications


def within_chance(share, replications):
    """Whether a share is what 95% coverage can give: three binomial standard errors."""
    return abs(share - 0.95) <= 3 * math.sqrt(0.95 * 0.05 / replications)


@pytest.mark.parametrize("known", [True, False])
def test_dml_covers_with_a_linear_model(known):
    assert within_chance(covered(400, 200, "linear", known), 200)


@pytest.mark.parametrize("known", [True, False])
def test_dml_covers_with_boosted_trees(known):
    assert within_chance(covered(400, 60, "boosted", known), 60)


@pytest.mark.verify
@pytest.mark.parametrize(("known", "kind"), FOUR)
def test_dml_covers_in_four_worlds(known, kind, record_property):
    share = covered(1_000, 1_000, kind, known, seed=2_021)
    record_property("coverage", float(share))
    print(f"\nDML, {kind}, π_b {'known' if known else 'unknown'}: {share:.3f}")
    assert 0.93 <= share <= 0.97


def overfitted(n, replications, seed=0):
    """Coverage with fully grown trees where the target's action is rare: π_b = 0.15, V = E[x₀] = 0."""
    hits = {"DR-full": 0, "DML": 0}
    for stream in np.random.SeedSequence(seed).spawn(replications):
        rng = np.random.default_rng(stream)
        x, action = rng.uniform(-1, 1, size=(n, 2)), (rng.random(n) < 0.15).astype(int)
        reward = x[:, 0] + rng.normal(size=n)
        log = BanditLog.from_arrays(x, action, reward, np.where(action == 1, 0.15, 0.85))
        ev = evaluate(
            log,
            policies.Fixed(1),
            estimators=list(hits),
            reward_model=PerAction(DecisionTreeRegressor()),
            seed=int(rng.integers(2**31)),
        )
        for name in hits:
            hits[name] += ev[name].interval(0.95, "normal").covers(0.0)
    return {name: count / replications for name, count in hits.items()}


def test_an_overfitted_model_breaks_dr_full_and_not_dml():
    shares = overfitted(500, 100)
    assert shares["DR-full"] < 0.75
    assert within_chance(shares["DML"], 100)


@pytest.mark.verify
def test_dr_full_with_an_overfitted_model_does_not_cover(record_property):
    shares = overfitted(1_000, 1_000, seed=7)
    record_property("coverage", str(shares))
    print(f"\nfully grown trees: {shares}")
    assert shares["DR-full"] < 0.75
    assert 0.93 <= shares["DML"] <= 0.97


def clustered_log(rng, users=60, rows=10):
    """Rows of a user share a noise term and, mostly, the action."""
    user = np.repeat(np.arange(users), rows)
    action = np.repeat((rng.random(users) < 0.5).astype(int), rows)
    reward = action + np.repeat(rng.normal(size=users), rows) + 0.3 * rng.normal(size=users * rows)
    return None, action, reward, np.full(users * rows, 0.5), user


def test_clusters_are_needed_and_are_enough():
    hits = {"with": 0, "without": 0}
    for stream in np.random.SeedSequence(1).spawn(300):
        context, action, reward, p, user = clustered_log(np.random.default_rng(stream))
        for how, cluster in (("with", user), ("without", None)):
            log = BanditLog.from_arrays(context, action, reward, p, cluster=cluster)
            e = evaluate(log, np.ones(600, dtype=int), estimators=["IPW"])["IPW"]
            hits[how] += e.interval(0.95, "normal").covers(1.0)
    assert within_chance(hits["with"] / 300, 300)
    assert hits["without"] / 300 < 0.7
