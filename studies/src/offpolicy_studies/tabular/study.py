"""Small worlds with exact values: bias, error and coverage of every estimator, over many replications.

``offpolicy reproduce tabular`` reruns the random world of the statistical tests, cliff walking, ModelWin,
ModelFail and the gridworld of Thomas and Brunskill 2016, and a linear-Gaussian chain in the manner of Kallus
and Uehara 2020 with both, one or none of the nuisances right.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy.errors import UsageError, did_you_mean
from offpolicy_studies.folder import write_results
from offpolicy_studies.monte_carlo import Z, mean, root_mean_square, share, simulate
from offpolicy_studies.tabular import toys
from offpolicy_studies.tabular.chain import Chain

if TYPE_CHECKING:
    from collections.abc import Mapping

NAMES = ("DM", "IPW", "SNIPW", "DR-full", "DR-half", "DML", "WDR", "MAGIC", "MRDR", "SWITCH", "DRL")
CHAIN_NAMES = ("DM-cf", "IPW", "DML", "DRL")


@dataclass(frozen=True)
class Args:
    """Options of the tabular study."""

    replications: int = 1000
    """Replications of every setting."""
    seed: int = 0
    """Seed of everything."""
    settings: tuple[str, ...] = ()
    """Settings to run; all when empty."""
    out: Path = Path("tabular")
    """Folder for replications.jsonl (which makes a run resumable), results.json and table.md."""
    workers: int = 0
    """Processes; 0 takes one for each core."""


@dataclass(frozen=True)
class Setting:
    """One row of settings: a world by name, its size, and the nuisances."""

    world: str
    n: int
    time: str = "pooled"
    known: bool = True
    right_q: bool = True
    right_b: bool = True


SETTINGS: dict[str, Setting] = {
    "random world": Setting("random_world", 200),
    "random world, unknown π_b": Setting("random_world", 200, known=False),
    "random world, q over-fitted": Setting("random_world", 80, time="step"),
    "cliff walking": Setting("cliff_walking", 100),
    "cliff walking, noisy rewards": Setting("noisy_cliff", 1000),
    "ModelWin": Setting("model_win", 500),
    "ModelFail": Setting("model_fail", 500),
    "gridworld": Setting("gridworld", 20),
    "chain, both right": Setting("chain", 500),
    "chain, q wrong": Setting("chain", 500, right_q=False),
    "chain, π_b wrong": Setting("chain", 500, right_b=False),
    "chain, both wrong": Setting("chain", 500, right_q=False, right_b=False),
}


def replicate(setting: Setting, rng: np.random.Generator) -> dict[str, list[float]]:
    """One log: {estimator: [value, standard error]}."""
    seed = int(rng.integers(2**31))
    if setting.world == "chain":
        return _chain(setting, rng, seed)
    toy: toys.Toy = getattr(toys, setting.world)()
    log = toy.simulate(setting.n, rng, propensities=setting.known)
    result = op.evaluate(
        log,
        toy.target,
        estimators=NAMES,
        value_model=op.Tabular(time=setting.time),  # type: ignore[arg-type]
        seed=seed,
    )
    return _numbers(result, NAMES)


def _chain(setting: Setting, rng: np.random.Generator, seed: int) -> dict[str, list[float]]:
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures

    world = Chain(horizon=5)
    log = world.simulate(setting.n, rng)
    cubic = make_pipeline(PolynomialFeatures(3), Ridge(1.0))
    state = np.asarray(log.context.table)[:, 0]
    # A wrong q pays for the wrong action in the wrong states; a wrong π_b is a coin.
    wrong_q = np.column_stack([1.5 - state, -state])
    result = op.evaluate(
        log,
        world.target,
        estimators=CHAIN_NAMES,
        value_model=op.FittedQ(op.models.PerAction(cubic)) if setting.right_q else wrong_q,
        behavior_model=None if setting.right_b else np.full((log.rows, 2), 0.5),
        ratio=op.models.MarginalRatio(learner=cubic),
        seed=seed,
    )
    return _numbers(result, CHAIN_NAMES)


def _numbers(result: Any, names: tuple[str, ...]) -> dict[str, list[float]]:
    return {name: [result["policy", name].value, result["policy", name].std_error] for name in names}


def truth(setting: Setting) -> float:
    """The exact value."""
    if setting.world == "chain":
        return Chain(horizon=5).value()
    toy: toys.Toy = getattr(toys, setting.world)()
    return toy.value()


def reproduce(options: Args) -> dict[str, Any]:
    """Run the settings, or what is left of them, and write results.json and table.md.

    Parameters
    ----------
    options : Args
        What to run and where to keep it.

    Returns
    -------
    dict
        ``options`` and ``settings``: for each, the truth and one entry per estimator with bias, RMSE, mean
        squared error and coverage, each with its Monte Carlo standard error.
    """
    for name in options.settings:
        if name not in SETTINGS:
            raise UsageError(f"no setting is called {name!r}.{did_you_mean(name, SETTINGS)}")
    chosen = {k: v for k, v in SETTINGS.items() if not options.settings or k in options.settings}
    runs = simulate(
        replicate,
        chosen,
        options.replications,
        seed=options.seed,
        workers=options.workers,
        out=options.out / "replications.jsonl",
        settings={"study": "tabular"},
        title="tabular worlds",
    )
    results = {
        "options": {k: str(v) if isinstance(v, Path) else v for k, v in asdict(options).items()},
        "settings": {
            name: {"truth": truth(setting), "n": setting.n, "estimators": summarize(runs[name], truth(setting))}
            for name, setting in chosen.items()
        },
    }
    write_results(options.out, results, show(results))
    return results


def summarize(runs: list[Mapping[str, list[float]]], value: float) -> dict[str, dict[str, float]]:
    """Bias, error and coverage of each estimator; replications it could not answer are counted.

    >>> summarize([{"DM": [1.0, 0.5]}, {"DM": [3.0, 0.5]}], 2.0)["DM"]["rmse"]
    1.0
    """
    out = {}
    for name in runs[0]:
        table = np.array([run[name] for run in runs], dtype=np.float64)
        defined = np.isfinite(table).all(axis=1)
        error, spread = table[defined, 0] - value, table[defined, 1]
        measured = {
            "bias": mean(error),
            "rmse": root_mean_square(error),
            "mse": mean(error**2),
            # Where a model is exact the interval has no width; rounding is not a miss.
            "coverage": share(np.abs(error) <= Z * spread + 1e-9 * max(1.0, abs(value))),
            "std_error": mean(spread),
        }
        out[name] = {key: x for k, m in measured.items() for key, x in ((k, m.value), (f"{k}_error", m.error))}
        out[name]["undefined"] = int((~defined).sum())
    return out


def show(results: Mapping[str, Any]) -> str:
    """The table as Markdown."""
    lines = []
    for name, entry in results["settings"].items():
        lines += [
            f"**{name}** (n = {entry['n']}, truth {entry['truth']:.4g})",
            "",
            "| estimator | bias | RMSE (s.e.) | MSE (s.e.) | coverage (s.e.) | mean std. error |",
            "|---|---|---|---|---|---|",
        ]
        for estimator, e in entry["estimators"].items():
            missing = f"; {e['undefined']} undefined" if e["undefined"] else ""
            lines.append(
                f"| {estimator}{missing} | {e['bias']:+.4f} | {e['rmse']:.4f} ({e['rmse_error']:.4f}) | "
                f"{e['mse']:.4g} ({e['mse_error']:.2g}) | "
                f"{e['coverage']:.3f} ({e['coverage_error']:.3f}) | {e['std_error']:.4f} |"
            )
        lines.append("")
    return "\n".join(lines)
