"""A truth battery of rewards seen in part: coverage of values, differences and lifts, and what is refused.

- ``battery``: the worlds of `seen_worlds`, each with many logs of 1,200 rows and Ridge models. Of every log the value
  of a new policy, its difference from the current one and its lift, each at three levels; and the verdict. Worlds that
  are told something wrong count how often the verdict refuses or cautions.
- ``plans``: `op.advise` on a log with few labels; rows are then labeled as it says, evenly and by its design, and the
  width of the interval is compared with the one that was predicted.
- ``lope``: the world of LOPE (Saito and others, WWW 2024) beside its published errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.linear_model import Ridge

import offpolicy as op
from offpolicy_studies import lope
from offpolicy_studies.folder import append_line, claim, read_lines, write_results
from offpolicy_studies.seen_worlds import judges, rows, worlds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LEVELS = (0.8, 0.95, 0.99)
ROWS = 1200
QUICK = 2
REFUSED = "insufficient evidence"


@dataclass(frozen=True)
class Args:
    """Options of the battery of rewards seen in part."""

    parts: tuple[str, ...] = ("battery", "plans", "lope")
    """Which parts to run."""
    replications: int = 200
    """Logs of each world (plans: 240 in all; lope: of each size)."""
    quick: bool = False
    """Two logs of each world."""
    out: Path = Path("results/outcomes")
    """Where results go; a run that was interrupted is taken up there."""


def reproduce(args: Args) -> dict[str, Any]:
    """Run what is missing, and sum up."""
    n = QUICK if args.quick else args.replications
    claim(args.out / "request.json", {"study": "outcomes", "rows": ROWS})
    lines = args.out / "logs.jsonl"
    done = {(r["part"], r["world"], r["seed"]) for r in read_lines(lines)}
    for part, name, run in _jobs(args.parts):
        for seed in range(_replications(part, n)):
            if (part, name, seed) not in done:
                append_line(lines, {"part": part, "world": name, "seed": seed, **run(seed)})
    kept = [r for r in read_lines(lines) if r["part"] in args.parts and r["seed"] < _replications(r["part"], n)]
    tables = {part: list(TABLES[part](own)) for part in args.parts if (own := [r for r in kept if r["part"] == part])}
    result = {"replications": n, **tables}
    write_results(args.out, result, show(result))
    return result


def _replications(part: str, n: int) -> int:
    return min(n, 80) if part == "plans" else n


def _jobs(parts: tuple[str, ...]) -> Iterator[tuple[str, str, Callable[[int], dict[str, Any]]]]:
    """Parts, worlds, and what makes one replication of each."""
    if "battery" in parts:
        for number, world in enumerate(worlds()):
            yield "battery", world.name, partial(_one, world, number)
    if "plans" in parts:
        for kind, judge in (("number", "noisy"), ("binary", "right in 80%"), ("number", "good")):
            yield "plans", f"{kind}, judge: {judge}", partial(_plan, kind, judge)
    if "lope" in parts:
        for size in lope.SIZES:
            yield "lope", str(size), partial(lope.errors, size)


# -- battery ---------------------------------------------------------------------------------------------------------


def _one(world: Any, number: int, seed: int) -> dict[str, Any]:
    """What one log says."""
    log = world.draw(np.random.default_rng([number, seed]), ROWS)
    model: Any = {"reward_model": Ridge()} if log.unit_kind.decides_once else {}
    ev = op.evaluate(log, {"new": op.policies.Fixed(1)}, estimators=["DML", "auto"], **model)
    verdict = ev.verdict("new")
    new, logged = world.truth
    said: dict[str, Any] = {"verdict": verdict.level, "why": [f.name for f in verdict.findings if f.level != "ok"]}
    for name in ("DML", "auto"):
        e = ev["new", name]
        asked = {"value": (e, new), "difference": (e - ev.logged, new - logged)}
        asked["lift"] = (e.lift(ev.logged), new / logged - 1)
        said[name] = {"error": e.value - new, "std_error": e.std_error}
        for what, (estimate, truth) in asked.items():
            intervals = [estimate.interval(level) for level in LEVELS]
            said[name][what] = [bool(i.low <= truth <= i.high) for i in intervals]
            said[name][f"{what} answered"] = bool(intervals[1].sufficient)
    return said


def _battery(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    told = {world.name: world.told for world in worlds()}
    for name in dict.fromkeys(r["world"] for r in lines):
        own = [r for r in lines if r["world"] == name]
        errors = np.array([[r["auto"]["error"], r["auto"]["std_error"]] for r in own])
        row: dict[str, Any] = {
            "world": name,
            "told": told.get(name, ""),
            "logs": len(own),
            "bias": float(errors[:, 0].mean()),
            "rmse": float(np.sqrt((errors[:, 0] ** 2).mean())),
            "std_error": float(np.sqrt((errors[:, 1] ** 2).mean())),
            "warned": float(np.mean([r["verdict"] != "trust" for r in own])),
            "answered": float(np.mean([r["verdict"] != REFUSED for r in own])),
        }
        for estimator in ("DML", "auto"):
            for what in ("value", "difference", "lift"):
                kept = [r[estimator][what] for r in own if r["verdict"] != REFUSED and r[estimator][f"{what} answered"]]
                row[f"{estimator} {what}"] = np.mean(kept, axis=0).tolist() if kept else [float("nan")] * len(LEVELS)
                row[f"{estimator} {what} answered"] = len(kept) / len(own)
        yield row


# -- plans -----------------------------------------------------------------------------------------------------------


def _plan(kind: str, judge: str, seed: int) -> dict[str, Any]:
    """A log with 15% labels, the width that a plan predicts, and the widths of logs labeled as it says."""
    rng = np.random.default_rng([7, seed])
    r = rows(rng, 2000, kind)
    j = judges(rng, r)[judge]

    def read(chance: Any) -> tuple[Any, Any]:
        label = np.where(rng.random(r.n) < chance, r.reward, np.nan)
        outcome = op.Labeled(proxies=j, probability=chance)
        log = op.BanditLog.from_arrays(r.x, r.action, label, r.propensity, outcome=outcome)
        return log, {"new": op.policies.Fixed(1)}

    asked: Any = {"estimators": ["DML"], "reward_model": Ridge()}
    log, policies = read(0.15)
    first = op.advise(log, policies, **asked).labels["new"]
    # A width between that of the labels at hand and that of all labels.
    way = float(np.random.default_rng(seed).uniform(0.3, 0.7))
    wanted = first.least_width + way * (first.width_now - first.least_width)
    plan = op.advise(log, policies, width=wanted, **asked).labels["new"]
    made: dict[str, Any] = {"wanted": plan.width, "labels": plan.labels, "best_labels": plan.best_labels}
    if plan.labels is None:
        return made
    for name, chance in (("even", plan.labels / r.n), ("best", plan.probability)):
        log, policies = read(chance)
        made[name] = op.evaluate(log, policies, **asked)["new", "DML"].interval().width
    return made


def _plans(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for name in [*dict.fromkeys(r["world"] for r in lines), "all"]:
        own = [r for r in lines if name in {r["world"], "all"}]
        able = [r for r in own if r["labels"] is not None]
        for design in ("even", "best"):
            ratio = np.array([r[design] / r["wanted"] for r in able])
            key = "labels" if design == "even" else "best_labels"
            yield {
                "world": name,
                "design": design,
                "logs": len(own),
                "possible": len(able),
                "within": int((abs(ratio - 1) <= 0.15).sum()),
                "ratio": float(ratio.mean()) if len(ratio) else float("nan"),
                "labels": float(np.mean([r[key] for r in able])) if able else float("nan"),
            }


def _lope(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for size in dict.fromkeys(r["world"] for r in lines):
        own = [r for r in lines if r["world"] == size]
        for way in own[0]["ways"]:
            errors = np.array([r["ways"][way] for r in own])
            yield {
                "size": size,
                "way": way,
                "logs": len(own),
                "mse": float((errors[:, 0] ** 2).mean()),
                "mse_error": float((errors[:, 0] ** 2).std() / np.sqrt(len(own))),
                "bias": float(errors[:, 0].mean()),
                "coverage": float(errors[:, 1].mean()),
                **{f"published {name}": at[int(size)] for name, at in lope.PUBLISHED.items()},
            }


TABLES = {"battery": _battery, "plans": _plans, "lope": _lope}


# -- pages -----------------------------------------------------------------------------------------------------------


def show(result: dict[str, Any]) -> str:
    """Tables of what was run."""
    makers = {"battery": _show_battery, "plans": _show_plans, "lope": _show_lope}
    return "\n\n".join(makers[part](result[part]) for part in makers if part in result)


def _table(head: list[str], lines: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(each)} |" for each in [head, ["---"] * len(head), *lines])


def _percents(values: list[float | None]) -> str:
    return " / ".join("–" if v is None or np.isnan(v) else f"{v:.1%}".removesuffix("%") for v in values)


def _show_battery(table: list[dict[str, Any]]) -> str:
    head = ["world", "logs", "bias", "RMSE", "std. error", "answered", "value", "difference", "lift"]
    lines = [
        [
            r["world"],
            str(r["logs"]),
            f"{r['bias']:+.4f}",
            f"{r['rmse']:.4f}",
            f"{r['std_error']:.4f}",
            f"{r['answered']:.0%}",
            *(_percents(r[f"auto {what}"]) for what in ("value", "difference", "lift")),
        ]
        for r in table
        if not r["told"]
    ]
    wrong = [
        [r["world"], r["told"], str(r["logs"]), f"{r['bias']:+.4f}", f"{r['warned']:.1%}", f"{1 - r['answered']:.1%}"]
        for r in table
        if r["told"]
    ]
    pooled = _pooled([r for r in table if not r["told"]])
    return "\n\n".join(
        [
            "Coverage at 80 / 95 / 99% among the logs that are answered, by `auto`, in percent:",
            _table(head, lines),
            pooled,
            "Logs that are told something wrong:",
            _table(["world", "wrong", "logs", "bias", "refused or cautioned", "refused"], wrong),
        ]
    )


def _pooled(table: list[dict[str, Any]]) -> str:
    """Coverage of all worlds together, by estimator."""
    lines = []
    for estimator in ("DML", "auto"):
        for what in ("value", "difference", "lift"):
            weight = np.array([r["logs"] * r[f"{estimator} {what} answered"] for r in table])
            shares = np.array(
                [[np.nan if x is None else x for x in r[f"{estimator} {what}"]] for r in table], dtype=float
            )
            at = weight > 0
            mean = np.average(shares[at], axis=0, weights=weight[at])
            least = int(np.nanargmin(shares[:, 1]))
            low = f"{shares[least, 1]:.1%} ({table[least]['world']})"
            lines.append([estimator, what, f"{int(weight.sum()):,}", _percents(mean.tolist()), low])
    return _table(["estimator", "question", "answers", "coverage of all", "least at 95%"], lines)


def _show_plans(table: list[dict[str, Any]]) -> str:
    lines = [
        [r["world"], r["design"], f"{r['within']} of {r['possible']}", f"{r['ratio']:.3f}", f"{r['labels']:,.0f}"]
        for r in table
    ]
    return _table(["world", "rows to label", "width within 15% of the plan", "width / plan", "labels"], lines)


def _show_lope(table: list[dict[str, Any]]) -> str:
    lines = [
        [
            r["size"],
            r["way"],
            f"{r['mse']:.3f} ± {r['mse_error']:.3f}",
            f"{r['bias']:+.3f}",
            f"{r['coverage']:.1%}",
            *(f"{r[f'published {name}']:g}" for name in lope.PUBLISHED),
        ]
        for r in table
    ]
    published = [f"MSE of {name}, published" for name in lope.PUBLISHED]
    return _table(["n", "way", "MSE", "bias", "coverage at 95%", *published], lines)
