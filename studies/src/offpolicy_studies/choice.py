"""`offpolicy reproduce choice`: a published benchmark of estimator choice, with the sets that are at hand.

The settings are those of Cief, Kompan and Kveton, "Cross-Validated Off-Policy Evaluation" (AAAI 2025): half of
a classification set trains two logistic models on bootstrap samples; softmax of the predicted probabilities
with temperature 1 logs the other half once, with temperature 10 (a strong target) or −10 (a weak one) it is
the target. The value to estimate is that of the target on the logged contexts. Reward models are ridge
regressions for each action. The published figures are mean squared errors, each relative to the best of IPS,
DM and DR on its set, averaged over sets.

The logistic models are fitted by Newton's method, which finds the same optimum as the published solver. Of the
nine sets those are run whose files are in the folder, and published figures are averaged over the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (the command line reads the types of Args)
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy_studies import uci_bandits as bandits
from offpolicy_studies.folder import locate, write_results
from offpolicy_studies.monte_carlo import Measured, mean, simulate
from offpolicy_studies.sampling import sample

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Floats, Ints

TEMPERATURES = {"strong": 10.0, "weak": -10.0}
PARTS = ("IPS", "DM", "DR")
OURS = ("auto", "DML", "SNIPW")
MODELS = ("ridge", "linear")
#: Published error relative to the best part, strong and weak target, by set (results/data of the authors' repository).
PUBLISHED = {
    "OCV_DR": {
        "ecoli": (1.32, 1.38), "glass": (0.88, 7.33), "letter": (1.03, 6.43), "optdigits": (1.00, 32.03),
        "page-blocks": (1.78, 2.94), "pendigits": (1.06, 17.23), "satimage": (1.26, 7.59),
        "vehicle-raw": (1.11, 1.83), "yeast": (1.21, 1.19),
    },
    "OCV_IPS": {
        "ecoli": (4.15, 1.03), "glass": (1.08, 1.00), "letter": (1.47, 1.05), "optdigits": (2.83, 1.00),
        "page-blocks": (9.11, 1.06), "pendigits": (4.74, 1.01), "satimage": (3.15, 1.04),
        "vehicle-raw": (3.20, 1.21), "yeast": (1.50, 1.10),
    },
    "SLOPE": {
        "ecoli": (1.74, 2.04), "glass": (1.02, 11.14), "letter": (1.00, 7.72), "optdigits": (1.12, 20.77),
        "page-blocks": (2.22, 8.81), "pendigits": (1.00, 29.44), "satimage": (1.00, 10.06),
        "vehicle-raw": (6.99, 6.76), "yeast": (1.64, 1.56),
    },
    "PAS-IF": {
        "ecoli": (3.30, 1.30), "glass": (0.90, 4.73), "letter": (277.23, 2946.43), "optdigits": (42.55, 1998.60),
        "page-blocks": (27.89, 189.70), "pendigits": (600.79, 10839.38), "satimage": (126.42, 1438.06),
        "vehicle-raw": (8.22, 66.15), "yeast": (1.83, 1.37),
    },
}  # fmt: skip
SETS = tuple(PUBLISHED["OCV_DR"])


@dataclass(frozen=True)
class Args:
    """Options of the benchmark of estimator choice."""

    data: Path | None = None
    """Folder with ecoli.data, … (or with uci/ inside); default: the variable OFFPOLICY_DATA."""
    sets: tuple[str, ...] = ()
    """Data sets; those of the nine that are in the folder when empty."""
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

    def made_from(self) -> tuple[Any, ...]:
        """What its numbers depend on."""
        return bandits.files(self.folder, self.name), self.name, self.folds


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
    q = ridges(X_log, action, reward, k)
    found = {t: peers(q, action, reward, pi_b, pi_e) for t, pi_e in targets.items()}
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

    from offpolicy.models import LinearReward

    return op.models.PerAction(Ridge(alpha=1e-3)) if name == "ridge" else LinearReward()


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


def ridges(X: Floats, action: Ints, reward: Floats, k: int) -> Floats:
    """(n, K) rewards by a ridge regression of all rows of an action, used on the same rows, as published."""
    from sklearn.linear_model import Ridge

    q = np.zeros((len(action), k))
    for a in range(k):
        mine = action == a
        levels = np.unique(reward[mine])
        if len(levels) == 1:
            q[:, a] = levels[0]
        elif len(levels) > 1:
            q[:, a] = Ridge(alpha=1e-3).fit(X[mine], reward[mine]).predict(X)
    return q


def peers(q: Floats, action: Ints, reward: Floats, pi_b: Floats, pi_e: Floats) -> dict[str, float]:
    """IPS, DM and DR as published."""
    rows = np.arange(len(action))
    weight = pi_e[rows, action] / pi_b[rows, action]
    direct = (q * pi_e).sum(axis=1)
    return {
        "IPS": float((weight * reward).mean()),
        "DM": float(direct.mean()),
        "DR": float((direct + weight * (reward - q[rows, action])).mean()),
    }


def reproduce(options: Args) -> dict[str, Any]:
    """Run every set: {"options", "errors": {target: {set: {estimator: mean squared error}}}, "relative"}."""
    first = bandits.FILES.get(options.sets[0] if options.sets else "ecoli", ("ecoli.data",))
    folder = locate(options.data, ["uci"], first, "archive.ics.uci.edu")
    drawn = simulate(
        replicate,
        {name: Cell(folder, name, options.folds) for name in options.sets or at_hand(folder)},
        options.replications,
        seed=options.seed,
        workers=options.workers,
        out=None if options.out is None else options.out / "replications.jsonl",
        settings={"folds": options.folds},
        title="estimator choice",
    )
    squares = {
        t: {name: {e: np.array([r[t][e] for r in found]) for e in found[0][t]} for name, found in drawn.items()}
        for t in TEMPERATURES
    }
    answer = {
        "options": {"folds": options.folds, "replications": options.replications, "seed": options.seed},
        "errors": {
            t: {name: {e: mean(x) for e, x in row.items()} for name, row in sets.items()} for t, sets in squares.items()
        },
        "relative": {t: relative(sets) for t, sets in squares.items()},
    }
    write_results(options.out, answer, show(answer))
    return answer


def at_hand(folder: Path) -> list[str]:
    """The published sets whose files are in a folder; ``vehicle`` with scaled features for want of the raw ones."""
    there = {name for name, files in bandits.FILES.items() if all((folder / f).exists() for f in files)}
    found = [name for name in SETS if name in there]
    return found if "vehicle-raw" in there else [*found, *sorted({"vehicle"} & there)]


def relative(sets: dict[str, dict[str, Floats]]) -> dict[str, dict[str, Measured]]:
    """{estimator: {set: MSE over the best part's}}, with the mean over sets under "mean".

    Standard errors are those of a ratio of means over the same runs, the best part taken as known.

    >>> one = {"IPS": np.full(2, 2.0), "DM": np.full(2, 4.0), "DR": np.ones(2), "auto": np.array([0.2, 0.8])}
    >>> relative({"a": one})["auto"]["mean"]
    Measured(value=0.5, error=0.3)
    """
    table: dict[str, dict[str, Measured]] = {}
    for name, rows in sets.items():
        best = min((rows[p] for p in PARTS), key=np.mean)
        for e, x in rows.items():
            ratio = float(x.mean() / best.mean())
            table.setdefault(e, {})[name] = Measured(ratio, mean((x - ratio * best) / best.mean()).error)
    return {e: {**row, "mean": _mean(row)} for e, row in table.items()}


def _mean(row: dict[str, Measured]) -> Measured:
    """Mean over sets, whose runs are independent."""
    values, errors = zip(*row.values(), strict=True)
    return Measured(float(np.mean(values)), float(np.linalg.norm(errors)) / len(errors))


def show(result: dict[str, Any]) -> str:
    """Errors relative to the best part, for both targets, with the published ones, in Markdown."""
    lines = []
    for place, (target, table) in enumerate(result["relative"].items()):
        sets = list(next(iter(table.values())))
        lines += [
            f"{target.capitalize()} target: mean squared error over that of the best of IPS, DM and DR, ± its error.",
            "",
            f"| estimator | {' | '.join(sets)} |",
            "|---" * (len(sets) + 1) + "|",
        ]
        lines += [f"| {e} | {' | '.join(_ratio(*row[s]) for s in sets)} |" for e, row in table.items()]
        for e, by in PUBLISHED.items():
            known = {s: by[s][place] for s in sets if s in by}
            cells = [f"{known[s]:.2f}" if s in known else "–" for s in sets[:-1]]
            shown = f"{np.mean(list(known.values())):.2f}" if known else "–"
            lines.append(f"| {e}, published | {' | '.join([*cells, shown])} |")
        lines.append("")
    return "\n".join(lines)


def _ratio(value: float, error: float) -> str:
    """To two digits, and no error where there is none: of the best part over itself."""
    return f"{value:.2f} ± {error:.2f}" if error > 0 else f"{value:.2f}"
