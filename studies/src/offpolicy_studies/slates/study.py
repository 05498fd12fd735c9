"""`offpolicy reproduce slates`: rankings in worlds with a known interaction, under right and wrong assumptions.

Errors are relative to those of the published cascade-DR on the same logs; coverage is that of the value per slate, of
its difference to the logging policy and of its lift, among the intervals that were given.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (the command line reads the types of Args)
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy_studies.folder import write_results
from offpolicy_studies.monte_carlo import mean, share, simulate
from offpolicy_studies.slates.world import KINDS, Logged, published_cascade_dr

if TYPE_CHECKING:
    from collections.abc import Sequence

WEIGHTED = {"full": "IPS", "independent": "IIPS", "cascade": "RIPS"}
ROBUST = ("auto", "DML")
PUBLISHED = {"IPS": 2.5, "IIPS": 2.1, "RIPS": 1.5, "cascade-DR, published": 1.0}
CHECKS = ("left_out_slots", "interaction_bias")


@dataclass(frozen=True)
class Args:
    """Options of the study of slates."""

    slates: int = 1000
    """Slates of each log."""
    replications: int = 150
    """Logs of each kind of world."""
    fitted: int = 60
    """As many logs again, on which value models are fitted as well."""
    kinds: tuple[str, ...] = KINDS
    """What rewards depend on: cascade, independent, full."""
    seed: int = 0
    """Seed of everything."""
    workers: int = 0
    """Processes; 0 takes one for each core."""
    out: Path | None = None
    """Folder for replications.jsonl (which makes a run resumable), results.json and table.md."""


@dataclass(frozen=True)
class Cell:
    """One kind of world."""

    kind: str
    slates: int
    fitted: bool = False


def replicate(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
    """One log: estimates, what their intervals hold, and what the checks of each assumption say."""
    logged = Logged.draw(cell.kind, cell.slates, rng)
    seed = int(rng.integers(2**31))
    truth = {"here": logged.here, "value": logged.everywhere, "logged": logged.logged}
    found: dict[str, Any] = {
        "truth": truth,
        "estimates": {"cascade-DR, published": published_cascade_dr(logged)},
        "covered": {},
        "said": {},
    }
    if cell.fitted:  # where the assumption holds: elsewhere the weights alone show its bias
        ev = _evaluated(logged, cell.kind, ROBUST, seed)
        found["estimates"] |= {name: ev["policy", name].value for name in ROBUST}
        found["covered"] = {name: _covered(ev, name, truth) for name in ROBUST}
        return found
    for assumed, called in WEIGHTED.items():
        ev = _evaluated(logged, assumed, ("IPW",), seed)
        found["estimates"][called] = ev["policy", "IPW"].value
        found["said"][assumed] = _said(ev)
        if assumed == cell.kind:
            found["covered"] = {"IPW": _covered(ev, "IPW", truth)}
    chosen = _evaluated(logged, "auto", ("IPW",), seed)
    found["chosen"] = chosen.problem.log.interaction.name
    found["estimates"]["IPW, interaction chosen"] = chosen["policy", "IPW"].value
    found["covered"]["IPW, interaction chosen"] = _covered(chosen, "IPW", truth)
    return found


def _evaluated(logged: Logged, interaction: str, names: Sequence[str], seed: int) -> Any:
    frame = logged.frame()
    log = op.Slates.from_frame(
        frame,
        slate="slate",
        position="position",
        context=[c for c in frame.columns if c.startswith("x")],
        action="item",
        reward="click",
        propensity="p",
        interaction=interaction,
        actions=range(len(logged.policy())),
        distinct=False,
    )
    pi = logged.policy()
    return op.evaluate(log, lambda rows: np.tile(pi, (len(rows), 1)), estimators=names, seed=seed)


def _said(ev: Any) -> dict[str, Any]:
    checks = {name: ev.diagnostics[name].level for name in CHECKS}
    return {**checks, "verdict": ev.verdict().level}


def _covered(ev: Any, name: str, truth: dict[str, float]) -> dict[str, bool | None]:
    """Whether each interval holds the truth; None where none was given."""
    e = ev["policy", name]
    gap = truth["value"] - truth["logged"]
    asked = {
        "value": (e, truth["value"]),
        "difference": (e - ev.logged, gap),
        "lift": (e.lift(ev.logged), gap / truth["logged"]),
    }
    out: dict[str, bool | None] = {}
    for what, (estimate, true) in asked.items():
        interval = estimate.interval(0.95)
        out[what] = bool(interval.low <= true <= interval.high) if interval.sufficient else None
    return out


def reproduce(options: Args) -> dict[str, Any]:
    """Run every kind: {"options", "kinds": {kind: {"errors", "coverage", "checks", "chosen"}}, "together"}."""

    def drawn(name: str, replications: int, *, fitted: bool) -> dict[str, list[dict[str, Any]]]:
        return simulate(
            replicate,
            {kind: Cell(kind, options.slates, fitted) for kind in options.kinds},
            replications,
            seed=options.seed + fitted,
            workers=options.workers,
            out=None if options.out is None else options.out / f"{name}.jsonl",
            settings={"slates": options.slates},
            title=name,
        )

    weighted = drawn("replications", options.replications, fitted=False)
    fitted = drawn("fitted", options.fitted, fitted=True)
    kinds = {}
    for kind in options.kinds:
        own, modeled = summary(weighted[kind]), summary(fitted[kind])
        both = {part: {**modeled[part], **own[part]} for part in ("errors", "coverage")}
        kinds[kind] = {**own, **both}
    together: dict[str, Any] = {}
    for by_kind in (fitted, weighted):
        together |= summary([log for logs in by_kind.values() for log in logs])["coverage"]
    answer = {
        "options": {
            "slates": options.slates,
            "replications": options.replications,
            "fitted": options.fitted,
            "seed": options.seed,
        },
        "kinds": kinds,
        "together": together,
    }
    write_results(options.out, answer, show(answer))
    return answer


def summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    """Errors relative to the published cascade-DR, coverage, what checks said, and what was chosen."""
    names = list(found[0]["estimates"])
    squares = {name: np.array([(r["estimates"][name] - r["truth"]["here"]) ** 2 for r in found]) for name in names}
    peer = squares["cascade-DR, published"]
    relative = {}
    for name, own in squares.items():
        ratio = own.mean() / peer.mean()
        # Delta method, both errors of the same logs.
        error = float(np.std(own - ratio * peer, ddof=1) / np.sqrt(len(own)) / peer.mean())
        relative[name] = (float(ratio), error)
    coverage = {
        name: {
            what: (
                *share(np.array([x for x in (r["covered"][name][what] for r in found) if x is not None])),
                float(np.mean([r["covered"][name][what] is not None for r in found])),
            )
            for what in ("value", "difference", "lift")
        }
        for name in found[0]["covered"]
    }
    checks = {
        assumed: {
            **{
                check: mean(np.array([r["said"][assumed][check] in {"caution", "alarm"} for r in found]))[0]
                for check in CHECKS
            },
            "not trusted": mean(np.array([r["said"][assumed]["verdict"] != "trust" for r in found]))[0],
        }
        for assumed in found[0]["said"]
    }
    chosen = {name: mean(np.array([r.get("chosen") == name for r in found]))[0] for name in WEIGHTED}
    return {"errors": relative, "coverage": coverage, "checks": checks, "chosen": chosen}


def show(result: dict[str, Any]) -> str:
    """Tables in Markdown."""
    asked = result["options"]
    size = f"{asked['slates']:,} slates, {asked['replications']} logs of each kind of world"
    size += f", {asked['fitted']} others for auto and DML"
    kinds = result["kinds"]
    names = list(next(iter(kinds.values()))["errors"])
    lines = [
        f"Mean squared error over that of the published cascade-DR on the same logs ({size}).",
        "",
        f"| estimate | {' | '.join(kinds)} | cascade, published |",
        "|---" * (len(kinds) + 2) + "|",
    ]
    for name in names:
        cells = [f"{k['errors'][name][0]:.2f} ± {k['errors'][name][1]:.2f}" for k in kinds.values()]
        lines.append(f"| {name} | {' | '.join(cells)} | {PUBLISHED.get(name, '–')} |")
    lines += [
        "",
        "Share of 95% intervals that hold the truth, among those given (share given), and over all worlds.",
        "",
        "| world | estimate | value | difference | lift |",
        "|---|---|---|---|---|",
    ]
    for kind, found in kinds.items():
        for name, by in found["coverage"].items():
            cells = [f"{100 * c[0]:.1f}% ({100 * c[2]:.0f}%)" for c in by.values()]
            lines.append(f"| {kind} | {name} | {' | '.join(cells)} |")
    for name, by in result["together"].items():
        cells = [f"{100 * c[0]:.1f}% ± {100 * c[1]:.1f}" for c in by.values()]
        lines.append(f"| all | {name} | {' | '.join(cells)} |")
    lines += [
        "",
        "Share of logs in which a check cautions, by what rewards depend on and what was assumed.",
        "",
        f"| world | assumed | {' | '.join(f'`{c}`' for c in CHECKS)} | verdict below trust | chosen by auto |",
        "|---|---|---|---|---|---|",
    ]
    for kind, found in kinds.items():
        for assumed, said in found["checks"].items():
            cells = [f"{100 * v:.0f}%" for v in said.values()]
            lines.append(f"| {kind} | {assumed} | {' | '.join(cells)} | {100 * found['chosen'][assumed]:.0f}% |")
    return "\n".join(lines)
