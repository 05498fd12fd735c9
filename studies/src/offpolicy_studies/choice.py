"""`offpolicy reproduce choice`: a published benchmark of estimator choice, with the sets that are at hand.

The settings are those of Cief, Kompan and Kveton, "Cross-Validated Off-Policy Evaluation" (AAAI 2025): half of
a classification set trains two logistic models on bootstrap samples; softmax of the predicted probabilities
with temperature 1 logs the other half once, with temperature 10 (a strong target) or −10 (a weak one) it is
the target. The value to estimate is that of the target on the logged contexts. Reward models are ridge
regressions for each action. The published figures are mean squared errors, each relative to the best of IPS,
DM and DR on its set, averaged over sets.

Two things differ: five of the nine sets are at hand, and the logistic models are fitted by Newton's method,
which finds the same optimum as the published solver.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (the command line reads the types of Args)
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy_studies import uci_bandits as bandits
from offpolicy_studies.folder import locate, write_results
from offpolicy_studies.monte_carlo import mean, simulate
from offpolicy_studies.sampling import sample

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats, Ints

TEMPERATURES = {"strong": 10.0, "weak": -10.0}
PARTS = ("IPS", "DM", "DR")
OURS = ("auto", "DML", "SNIPW")
MODELS = ("ridge", "linear")
#: Mean over the five sets at hand of the published errors relative to the best part (and over all nine).
PUBLISHED = {
    "OCV_DR": {"strong": (1.23, 1.18), "weak": (6.14, 8.66)},
    "OCV_IPS": {"strong": (4.46, 3.47), "weak": (1.06, 1.06)},
    "SLOPE": {"strong": (2.59, 1.97), "weak": (11.64, 10.92)},
    "PAS-IF": {"strong": (128.22, 121.01), "weak": (2220.25, 1942.86)},
}


@dataclass(frozen=True)
class Args:
    """Options of the benchmark of estimator choice."""

    data: Path | None = None
    """Folder with ecoli.data, … (or with uci/ inside); default: the variable OFFPOLICY_DATA."""
    sets: tuple[str, ...] = bandits.SETS
    """Data sets."""
    replications: int = 500
    """Runs of each set, as published."""
    folds: int = 5
    """Folds of the cross-fitted estimators."""
    seed: int = 0
    """Seed of everything."""
    workers: int = 0
    """Processes; 0 takes one for each core."""
    out: Path | None = None
    """Folder for replications.jsonl (which makes a run resumable), results.json and table.md."""


@dataclass(frozen=True)
class Cell:
    """One data set."""

    folder: Path
    name: str
    folds: int


def replicate(cell: Cell, rng: np.random.Generator) -> dict[str, dict[str, float]]:
    """One split, its two policies, one log: {target: {estimator: squared error}}."""
    X, y = bandits.read(cell.folder, cell.name)
    k = int(y.max()) + 1
    order = rng.permutation(len(y))
    logged, training = order[: len(y) // 2], order[len(y) // 2 :]
    X_log, y_log = X[logged], y[logged]
    chances = [softened(X[training], y[training], X_log, k, rng) for _ in range(2)]
    pi_b = softmax(chances[0])
    action = sample(pi_b, rng)
    reward = (action == y_log).astype(np.float64)
    rows = np.arange(len(y_log))
    log = op.BanditLog.from_arrays(X_log, action, reward, pi_b[rows, action], actions=range(k))
    targets = {name: softmax(t * chances[1]) for name, t in TEMPERATURES.items()}
    found = {t: peers(X_log, action, reward, pi_b, pi_e) for t, pi_e in targets.items()}
    for model in MODELS:
        ev = op.evaluate(
            log,
            targets,
            estimators=OURS,
            reward_model=_reward_model(model),
            folds=cell.folds,
            seed=int(rng.integers(2**31)),
        )
        for t in targets:
            found[t] |= {f"{e} ({model})": ev[t, e].value for e in OURS}
    truth = {t: float(pi_e[rows, y_log].mean()) for t, pi_e in targets.items()}
    return {t: {e: (v - truth[t]) ** 2 for e, v in found[t].items()} for t in targets}


def _reward_model(name: str) -> Any:
    from sklearn.linear_model import Ridge

    from offpolicy.models.rewards.auto import LinearReward

    return op.PerAction(Ridge(alpha=1e-3)) if name == "ridge" else LinearReward()


def softened(X: Floats, y: Ints, at: Floats, k: int, rng: np.random.Generator) -> Floats:
    """(m, K) probabilities by a logistic model of a bootstrap sample, one row at 0 added for each label."""
    from sklearn.linear_model import LogisticRegression

    drawn = rng.integers(len(y), size=len(y))
    features = np.concatenate([np.zeros((k, X.shape[1])), X[drawn]])
    labels = np.concatenate([np.arange(k), y[drawn]])
    model = LogisticRegression(solver="newton-cholesky", max_iter=1000).fit(features, labels)
    return np.asarray(model.predict_proba(at))


def softmax(z: Floats) -> Floats:
    """Row-wise softmax."""
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def peers(X: Floats, action: Ints, reward: Floats, pi_b: Floats, pi_e: Floats) -> dict[str, float]:
    """IPS, DM and DR as published: ridge regressions of all rows of an action, used on the same rows."""
    from sklearn.linear_model import Ridge

    rows = np.arange(len(action))
    q = np.zeros(pi_e.shape)
    for a in range(pi_e.shape[1]):
        mine = action == a
        levels = np.unique(reward[mine])
        if len(levels) == 1:
            q[:, a] = levels[0]
        elif len(levels) > 1:
            q[:, a] = Ridge(alpha=1e-3).fit(X[mine], reward[mine]).predict(X)
    weight = pi_e[rows, action] / pi_b[rows, action]
    direct = (q * pi_e).sum(axis=1)
    return {
        "IPS": float((weight * reward).mean()),
        "DM": float(direct.mean()),
        "DR": float((direct + weight * (reward - q[rows, action])).mean()),
    }


def reproduce(options: Args) -> dict[str, Any]:
    """Run every set: {"options", "errors": {target: {set: {estimator: mean squared error}}}, "relative"}."""
    first = bandits.FILES.get(options.sets[0], "ecoli.data")
    folder = locate(options.data, ["uci"], [first], "archive.ics.uci.edu")
    drawn = simulate(
        replicate,
        {name: Cell(folder, name, options.folds) for name in options.sets},
        options.replications,
        seed=options.seed,
        workers=options.workers,
        out=None if options.out is None else options.out / "replications.jsonl",
        settings={"folds": options.folds},
        title="estimator choice",
    )
    errors = {
        t: {
            name: {e: mean(np.array([r[t][e] for r in found])) for e in found[0][t]}
            for name, found in drawn.items()
        }
        for t in TEMPERATURES
    }
    answer = {
        "options": {
            "folds": options.folds,
            "replications": options.replications,
            "seed": options.seed,
        },
        "errors": errors,
        "relative": {t: relative(sets) for t, sets in errors.items()},
    }
    write_results(options.out, answer, show(answer))
    return answer


def relative(sets: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    """{estimator: {set: MSE over the best part's}}, with the mean over sets under "mean".

    >>> one = {"IPS": (2.0, 0), "DM": (4.0, 0), "DR": (1.0, 0), "auto": (0.5, 0)}
    >>> relative({"a": one})["auto"]["mean"]
    0.5
    """
    names = next(iter(sets.values()))
    table = {
        e: {s: rows[e][0] / min(rows[p][0] for p in PARTS) for s, rows in sets.items()}
        for e in names
    }
    return {e: {**row, "mean": float(np.mean(list(row.values())))} for e, row in table.items()}


def show(result: dict[str, Any]) -> str:
    """Errors relative to the best part, for both targets, with the published ones, in Markdown."""
    lines = []
    for target, table in result["relative"].items():
        sets = list(next(iter(table.values())))
        lines += [
            f"{target.capitalize()} target: mean squared error over that of the best of IPS, DM and DR.",
            "",
            f"| estimator | {' | '.join(sets)} |",
            "|---" * (len(sets) + 1) + "|",
        ]
        lines += [
            f"| {e} | {' | '.join(f'{row[s]:.2f}' for s in sets)} |" for e, row in table.items()
        ]
        lines += [
            f"| {e}, published | {'– | ' * (len(sets) - 1)}{by[target][0]:.2f} (nine sets: {by[target][1]:.2f}) |"
            for e, by in PUBLISHED.items()
        ]
        lines.append("")
    return "\n".join(lines)
