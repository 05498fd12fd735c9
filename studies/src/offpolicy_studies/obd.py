"""The Open Bandit data (Saito et al. 2021): estimate one arm's click rate from the other arm's log.

Two policies served the same recommendation slots at random: ``random`` (uniform) and ``bts``
(Bernoulli Thompson sampling). For each campaign this study predicts each arm from the other's log
and compares with what that arm earned, keeping the uncertainty of both sides:

    error = V̂/V̄ − 1,    se(error)² = (se(V̂)/V̄)² + (V̂ se(V̄)/V̄²)² .

* **Positions.** A row is one item shown at one of three positions, so the position is part of the
  context: π(a | position), and values are clicks per shown item, positions mixed as they were logged.
* **bts → random** is the sound direction: the target is exactly uniform.
* **random → bts**: the target's probabilities were logged for shown items only and changed many
  times a day. The target is the policy averaged over the period, π(a | position) = share of item a
  among the rows of the bts log at that position. Its sampling error is not in the standard errors.

The files are ``{bts,random}/{all,men,women}/{campaign}.csv`` (``.gz`` or not), as in the sample and
in the full data set.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy.errors import DataError, UsageError, did_you_mean
from offpolicy_studies.folder import locate, write_results
from offpolicy_studies.progress import track

if TYPE_CHECKING:
    from numpy.typing import NDArray

POLICIES = ("bts", "random")
CAMPAIGNS = ("all", "men", "women")
USER = tuple(f"user_feature_{j}" for j in range(4))
CONTEXT = ("position", *USER)
ESTIMATORS = ("IPW", "SNIPW", "DM", "DR-full", "DR-half", "DML", "SNDR", "SWITCH", "DRos", "MRDR")
OVERLAP = (
    "mean_weight_z",
    "effective_sample_size",
    "largest_weight_share",
    "top_share",
    "top_unit_share",
    "pareto_k",
    "unsupported_mass",
)


@dataclass(frozen=True)
class Args:
    """Options of the Open Bandit study."""

    data: Path | None = None
    """Folder with bts/ and random/ (or with obd/ inside); default: the variable OFFPOLICY_DATA."""
    campaigns: tuple[str, ...] = CAMPAIGNS
    """Which of all, men and women."""
    folds: int = 2
    """Folds of the cross-fitted estimators."""
    seed: int = 0
    """Seed of the folds and models."""
    out: Path | None = None
    """Folder for results.json and table.md; None writes nothing."""


def reproduce(options: Args) -> dict[str, Any]:
    """Predict each arm of each campaign from the other arm's log.

    Parameters
    ----------
    options : Args
        Where the data are, and what to run.

    Returns
    -------
    dict
        ``options`` and ``results``: one entry for each campaign and direction with the online rate,
        the estimates, their relative errors, and what is wrong with the overlap.
    """
    for name in options.campaigns:
        if name not in CAMPAIGNS:
            raise UsageError(f"no campaign is called {name!r}.{did_you_mean(name, CAMPAIGNS)}")
    root = find_data(options.data)
    results = []
    with track("Open Bandit", 2 * len(options.campaigns)) as advance:
        for campaign in options.campaigns:
            logs = {p: load(root, p, campaign) for p in POLICIES}
            items = max(len(log.actions) for log in logs.values())
            # An arm that never showed the last items has fewer of them in its own file.
            logs = {
                p: log if len(log.actions) == items else load(root, p, campaign, items=items) for p, log in logs.items()
            }
            for source, target in (("bts", "random"), ("random", "bts")):
                results.append(_direction(logs[source], logs[target], campaign, (source, target), options))
                advance(note=campaign)
    answer = {"options": {"folds": options.folds, "seed": options.seed}, "results": results}
    write_results(options.out, answer, markdown(results))
    return answer


def find_data(folder: Path | None = None) -> Path:
    """Return the folder that holds ``bts`` and ``random``."""
    names = ("obd", "open_bandit_dataset")
    return locate(folder, names, ("bts/", "random/"), "research.zozo.com/data.html")


def load(root: Path, policy: str, campaign: str, *, items: int | None = None) -> op.BanditLog:
    """Read one arm of one campaign as a log.

    Only the columns used here are read, so the full data set (26 million rows with up to 80
    affinity columns) fits in memory. Both names of the propensity column are known.

    Parameters
    ----------
    root : Path
        Folder with ``bts`` and ``random``.
    policy, campaign : str
        Which file.
    items : int, optional
        Number of items that could be shown; default: the largest item_id plus one.
    """
    import pyarrow as pa
    from pyarrow import csv

    stems = [root / policy / campaign / campaign, root / policy / campaign]
    paths = [Path(f"{stem}{end}") for stem in stems for end in (".csv.gz", ".csv")]
    path = next((p for p in paths if p.is_file()), None)
    if path is None:
        raise DataError(f"none of {[str(p.relative_to(root)) for p in paths]} is in {root.name}/.")
    wanted = {"item_id": pa.int64(), "click": pa.int64(), "position": pa.string()}
    wanted |= dict.fromkeys(USER, pa.string())
    spellings = {"propensity_score": pa.float64(), "action_prob": pa.float64()}
    convert = csv.ConvertOptions(
        include_columns=[*wanted, *spellings], column_types={**wanted, **spellings}, include_missing_columns=True
    )
    table = csv.read_csv(path, convert_options=convert)
    found = [c for c in spellings if table[c].null_count < table.num_rows]
    empty = [c for c in wanted if table[c].null_count == table.num_rows]
    if empty or not found:
        raise DataError(f"{path.name} has no column {(empty or list(spellings))[0]!r}.")
    frame = table.select([*wanted, found[0]]).to_pandas()
    for name in CONTEXT:
        frame[name] = frame[name].astype("category")
    return op.BanditLog.from_frame(
        frame,
        context=list(CONTEXT),
        action="item_id",
        reward="click",
        propensity=found[0],
        actions=range(int(frame["item_id"].max()) + 1 if items is None else items),
    )


@dataclass(frozen=True, eq=False)
class ByPosition:
    """π(a | position): the same for every user.

    Attributes
    ----------
    table : dict of (K,) arrays
        Probabilities of the items at each position.
    """

    table: dict[str, NDArray[np.float64]]

    @classmethod
    def uniform(cls, positions: tuple[str, ...], items: int) -> ByPosition:
        """Every item alike, which is the ``random`` policy."""
        return cls({p: np.full(items, 1 / items) for p in positions})

    @classmethod
    def shares(cls, log: op.BanditLog, items: int) -> ByPosition:
        """Shares of the items in a log, position by position."""
        position = _positions(log.context.table)
        counts = {p: np.bincount(log.action[position == p], minlength=items) for p in np.unique(position)}
        return cls({p: c / c.sum() for p, c in counts.items()})

    def probabilities(self, context: Any) -> NDArray[np.float64]:
        """Return the row of each position."""
        names = sorted(self.table)
        stacked = np.stack([self.table[n] for n in names])
        return np.asarray(stacked[np.searchsorted(names, _positions(context))])


def relative_error(estimate: Any, online: Any) -> tuple[float, float]:
    """Return V̂/V̄ − 1 and its standard error, the two being independent.

    Examples
    --------
    >>> from offpolicy import Estimate
    >>> half = Estimate.from_scores([0.0, 1.0, 0.0, 1.0])
    >>> error, se = relative_error(half, half)
    >>> error, round(se, 4)
    (0.0, 0.7071)
    """
    v, bar = estimate.value, online.value
    if bar == 0:
        return math.nan, math.nan
    se = math.hypot(estimate.std_error / bar, v * online.std_error / bar**2)
    return v / bar - 1, se


def overlap(evaluation: Any, policy: str) -> dict[str, Any]:
    """Return what the library's checks say about the weights: numbers, and warnings in words."""
    found = evaluation.diagnostics.policies[policy]
    bad = [found[name] for name in OVERLAP if found[name].level != "ok"]
    return {
        "effective_n": float(found["effective_sample_size"]),
        "largest_share": float(found["largest_weight_share"]),
        "mean_weight": float(found["mean_weight"]),
        "warnings": [f"{f.level}: {f.sentence}" for f in bad],
    }


def markdown(results: list[dict[str, Any]]) -> str:
    """Return one table for all campaigns and directions."""
    lines = []
    for r in results:
        online, se = r["online"]
        lines += [
            (
                f"**{r['campaign']}, {r['source']} → {r['target']}**: online {online:.3%} ± {se:.3%}; "
                f"logged {r['logged'][0]:.3%}; effective n {r['overlap']['effective_n']:,.0f} of "
                f"{r['n']:,}."
            ),
            *(f"- {w}" for w in r["overlap"]["warnings"]),
            "",
            "| estimator | click rate | s.e. | relative error | its s.e. | z |",
            "|---|---|---|---|---|---|",
        ]
        for name, e in r["estimates"].items():
            lines.append(
                f"| {name} | {e['value']:.3%} | {e['std_error']:.3%} | {e['relative_error']:+.2f} | "
                f"{e['relative_error_std_error']:.2f} | {e['z']:+.1f} |"
            )
        lines.append("")
    return "\n".join(lines)


def show(result: dict[str, Any]) -> str:
    """Return the study's tables for printing."""
    return markdown(result["results"])


def _direction(
    log: op.BanditLog, other: op.BanditLog, campaign: str, names: tuple[str, str], options: Args
) -> dict[str, Any]:
    source, target = names
    items = len(log.actions)
    positions = tuple(np.unique(_positions(log.context.table)))
    uniform = target == "random"
    policy = ByPosition.uniform(positions, items) if uniform else ByPosition.shares(other, items)
    ev = op.evaluate(log, {target: policy}, estimators=list(ESTIMATORS), folds=options.folds, seed=options.seed)
    online = op.Estimate.from_scores(other.reward, label=f"{target}, online")
    estimates = {}
    for name in ESTIMATORS:
        e = ev[target, name]
        error, se = relative_error(e, online)
        gap = math.hypot(e.std_error, online.std_error)
        estimates[name] = {
            "value": e.value,
            "std_error": e.std_error,
            "relative_error": error,
            "relative_error_std_error": se,
            "z": (e.value - online.value) / gap if gap > 0 else math.nan,
        }
    return {
        "campaign": campaign,
        "source": source,
        "target": target,
        "n": log.n,
        "items": items,
        "online": [online.value, online.std_error],
        "logged": [ev.logged.value, ev.logged.std_error],
        "overlap": overlap(ev, target),
        "estimates": estimates,
    }


def _positions(context: Any) -> NDArray[np.str_]:
    return np.asarray(context["position"].astype(str), dtype=np.str_)
