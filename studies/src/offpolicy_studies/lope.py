"""The world of LOPE (Saito, Abdollahpouri, Anderton, Carterette and Lalmas, WWW 2024; github.com/usaito/www2024-lope).

A thousand users with five features in three groups, thirty actions with five features, three early rewards f(x, a)
and a late one, q = h / 2 + g(f) / 2 with noise of standard deviation 5: half of what an action does never shows early,
so that surrogacy does not hold. A log of n rows by a softmax of q has the late reward; another one of n rows has early
rewards only. The question is what an ε-greedy policy over the three best actions earns late. Early and late means are
scaled over all users.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import Ridge

import offpolicy as op

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats

SIZES = (200, 400, 600, 1000)
ALONE, BOTH, BOTH_AUTO, FORETOLD = "late rewards alone, DML", "and early ones, DML", "and early ones, auto", "LongTerm"
#: Read off the figures of the authors' repository, of 1,000 runs.
PUBLISHED = {
    "LOPE": dict(zip(SIZES, (0.255, 0.13, 0.085, 0.055), strict=True)),
    "DR": dict(zip(SIZES, (0.40, 0.20, 0.115, 0.07), strict=True)),
}
#: Weights of the three early rewards in the late one, for each of three groups of users.
EARLY = np.array([[0.1, 0.5, -0.35], [0.0, 0.05, -0.05], [-0.3, 0.55, -0.5]])


def _scaled(x: Floats) -> Floats:
    return np.asarray((x - x.mean()) / x.std())


@cache
def world() -> tuple[Floats, Floats, Floats, Floats]:
    """Users, features of actions, means of early rewards and of the late one."""
    from sklearn.cluster import KMeans

    rng = np.random.RandomState(12345)
    features = rng.normal(size=(30, 5))
    users = rng.normal(size=(1000, 5))
    groups = KMeans(n_clusters=3, n_init=10, random_state=0).fit_predict(users)
    f = (users @ rng.normal(size=(5, 3)))[:, None, :] + (features @ rng.normal(size=(5, 3)))[None]
    f = _scaled(f + np.einsum("ui,ijs,aj->uas", users, rng.normal(size=(5, 5, 3)), features))
    h = users @ rng.normal(size=(5, 1)) + (features @ rng.normal(size=(5, 1))).T
    h = _scaled(h + users @ rng.normal(size=(5, 5)) @ features.T)
    g = np.einsum("uas,us->ua", f, EARLY[groups])
    g = (g - g.mean(axis=0)) / g.std(axis=0)
    return users, features, f, _scaled(0.5 * h + 0.5 * g)


def _softmax(x: Floats) -> Floats:
    p = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def _greedy(q: Floats) -> Floats:
    best = np.argsort(np.argsort(-q, axis=1), axis=1) < 3
    return np.asarray(0.9 / 3 * best + 0.1 / q.shape[1])


def errors(n: int, seed: int) -> dict[str, Any]:
    """(error, whether the 95% interval covers) of each way to read one pair of logs."""
    users, features, f, q = world()
    truth = float((q * _greedy(q)).sum(axis=1).mean())
    rng = np.random.default_rng([n, seed])
    at = rng.integers(len(users), size=2 * n)
    p = _softmax(q[at])
    action = (p.cumsum(axis=1) < rng.random((2 * n, 1))).sum(axis=1).clip(max=29)
    early = rng.normal(f[at, action], 0.5)
    late = rng.normal(q[at, action], 5.0)
    propensity, new = p[np.arange(2 * n), action], _greedy(q[at])

    def log(rows: Any, reward: Any, outcome: Any = None) -> op.BanditLog:
        return op.BanditLog.from_arrays(
            users[at[rows]], action[rows], reward, propensity[rows], actions=range(30), outcome=outcome,
            action_features=features,
        )  # fmt: skip

    old, young, every = np.arange(n), np.arange(n, 2 * n), np.arange(2 * n)
    history = log(old, late[old])
    seen = np.where(every < n, late, np.nan)
    labeled = log(every, seen, op.Labeled(proxies=early, probability=0.5))
    outcome = op.LongTerm(history, proxies=early[young], history_proxies=early[old])
    asked = {
        ALONE: (history, old, "DML"),
        "late rewards alone, auto": (history, old, "auto"),
        BOTH: (labeled, every, "DML"),
        BOTH_AUTO: (labeled, every, "auto"),
        FORETOLD: (log(young, np.full(n, np.nan), outcome), young, "DML"),
    }
    made: dict[str, list[float]] = {}
    for way, (each, rows, name) in asked.items():
        e = op.evaluate(each, {"new": new[rows]}, estimators=[name], reward_model=Ridge(10.0))["new", name]
        interval = e.interval()
        made[way] = [e.value - truth, float(interval.low <= truth <= interval.high)]
    return {"ways": made}
