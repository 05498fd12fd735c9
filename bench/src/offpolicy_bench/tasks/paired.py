"""The world of Δ-OPE (Jeunen and Ustimenko, RecSys 2024): is one learned policy better than another?

Context and one-hot action go through polynomials of degree four, of which a random tenth counts; a logistic function
of their bilinear form is the click rate q, and softmax(β q) logs. The two policies are what a logistic regression and
a random forest learn from 2,048 other rows, weighted by inverse propensities. As there, the logits are shifted by their
mean over their standard deviation, and every log has a world of its own. Unlike there, the training rows and the log
share no random numbers, and the truth is the difference over the whole pool that contexts are drawn from.
"""

from __future__ import annotations

from pathlib import Path  # noqa: TC003
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from offpolicy_bench.task import Arrays, Drawn, Floats, Ints, Task, sample, softmax

if TYPE_CHECKING:
    from collections.abc import Callable

ACTIONS, DEGREE, SHARE, TRAINING, CONTEXTS, COLUMNS = (5, 10, 15), 4, 0.1, 2_048, 20_000, 5


def _some(x: Floats, rng: np.random.Generator) -> Floats:
    """A random tenth of all products of up to four columns."""
    from sklearn.preprocessing import PolynomialFeatures

    features = np.asarray(PolynomialFeatures(DEGREE).fit_transform(x))
    return features[:, rng.choice(features.shape[1], max(1, int(SHARE * features.shape[1])), replace=False)]


def _click_rates(x: Floats, k: int, rng: np.random.Generator) -> Floats:
    """(m, K) q of all contexts and actions."""
    left, right = _some(x, rng), _some(np.eye(k), rng)
    own, of_action = rng.uniform(-1, 1, left.shape[1]), rng.uniform(-1, 1, right.shape[1])
    together = rng.uniform(-1, 1, (left.shape[1], right.shape[1]))
    logits = (left @ own)[:, None] + right @ of_action + left @ together @ right.T
    return np.asarray(expit(DEGREE * (logits - logits.mean() / logits.std())))


def _learned(x: Floats, action: Ints, weight: Floats, pool: Floats, k: int, seed: int) -> tuple[Floats, Floats]:
    """(m, K) the two policies over the pool: the action that each weighted classifier predicts."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    kept = weight > 0
    learners = (
        LogisticRegression(C=100, max_iter=1_000),
        RandomForestClassifier(30, min_samples_leaf=10, random_state=seed),
    )
    models = (learner.fit(x[kept], action[kept], sample_weight=weight[kept]) for learner in learners)
    first, second = (np.eye(k)[model.predict(pool)] for model in models)
    return first, second


def drawn(beta: float, k: int, rows: int, seed: int, rng: np.random.Generator) -> tuple[Arrays, float]:
    """A log of a world of its own with the whole logging distribution, and the difference of the two policies."""
    pool = rng.normal(size=(CONTEXTS, COLUMNS))
    q = _click_rates(pool, k, rng)
    pi = softmax(beta * q)

    def played(n: int) -> tuple[Ints, Ints, Floats]:
        at = rng.integers(CONTEXTS, size=n)
        action = sample(pi[at], rng)
        return at, action, (rng.random(n) < q[at, action]).astype(np.float64)

    at, action, reward = played(TRAINING)
    target, baseline = _learned(pool[at], action, reward / pi[at, action], pool, k, seed)
    at, action, reward = played(rows)
    arrays = {
        "context": pool[at],
        "action": action,
        "reward": reward,
        "target": target[at],
        "baseline": baseline[at],
        "distribution": pi[at],
    }
    return arrays, float(((target - baseline) * q).sum(axis=1).mean())


def _draw(beta: float) -> Callable[[int, int, np.random.Generator, Path], Drawn]:
    def draw(rows: int, index: int, rng: np.random.Generator, data: Path) -> Drawn:  # noqa: ARG001
        arrays, truth = drawn(beta, ACTIONS[index % len(ACTIONS)], rows, index, rng)
        arrays["propensity"] = arrays.pop("distribution")[np.arange(rows), arrays["action"]]
        return Drawn(arrays, truth)

    return draw


TASKS = tuple(
    Task(
        f"delta-{beta:.0f}",
        f"Δ-OPE, β = {beta:.0f}",
        "difference",
        "The world of Jeunen and Ustimenko (RecSys 2024) with 5, 10 and 15 actions by turns; "
        f"softmax({beta:.0f} q) logs; a logistic regression and a random forest learned the two policies from other "
        "rows. Asked for is the difference of their values; propensities of the logged actions given.",
        {"quick": 780, "full": 3_125},
        _draw(beta),
    )
    for beta in (1.0, 2.0, 4.0)
)
