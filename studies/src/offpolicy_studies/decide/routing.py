"""`offpolicy reproduce routing`: routing among language models from logs, where both models' answers are known.

14,042 prompts of 57 domains were answered by a small and a large model, right or wrong each. A log routes prompts of
more than 400 characters to the large model, the others to the small one, but for a share drawn uniformly; it holds the
quality of one answer per request. Targets: the large model for all; for prompts of more than 200 characters; for
domains on which the small model is right in fewer than 60% of another half's prompts. Reported, over many logs:
coverage of the default interval and root mean squared error of `auto` beside IPW's; the width that `advise` predicts
(for four times the rows, and for more exploration) against what such logs turn out to have; and what is said to logs
without exploration.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (the command line reads the types of Args)
from typing import Any

import numpy as np

import offpolicy as op
from offpolicy_studies.decide.routing_world import Cell, draw, least_error, prompts
from offpolicy_studies.decide.sets import router_folder
from offpolicy_studies.folder import write_results
from offpolicy_studies.monte_carlo import mean, root_mean_square, share, simulate

ESTIMATORS = ("auto", "DML", "IPW", "SNIPW")


@dataclass(frozen=True)
class Args:
    """Options of the study of routing."""

    data: Path | None = None
    """Folder with router/ inside; default: the variable OFFPOLICY_DATA."""
    replications: int = 200
    """Logs of each kind."""
    rows: int = 2000
    """Requests of a log."""
    exploration: float = 0.1
    """Share of requests routed uniformly."""
    more: float = 0.1
    """Further exploration that advise is asked about."""
    advised: int = 40
    """Logs that advise is asked about, and logs that its predictions are held against."""
    seed: int = 0
    """Seed of everything."""
    workers: int = 0
    """Processes; 0 takes one for each core."""
    out: Path | None = None
    """Folder for finished logs (which makes a run resumable), results.json and table.md."""


def replicate(cell: Cell, rng: np.random.Generator) -> Any:
    """One log of a kind."""
    return TASKS[cell.task](cell, rng)


def estimated(cell: Cell, rng: np.random.Generator) -> dict[str, dict[str, list[float]]]:
    """{target: {estimator: [error, covered, refused, width]}}."""
    log, targets = draw(cell, cell.rows, cell.exploration, rng)
    ev = op.evaluate(log, targets, estimators=ESTIMATORS, seed=int(rng.integers(2**31)))
    found: dict[str, dict[str, list[float]]] = {}
    for t in targets:
        truth = prompts(cell.folder).value(t)
        found[t] = {}
        for e in ESTIMATORS:
            i = ev[t, e].interval()
            refused = float(ev.verdict(t, e).level == "insufficient evidence")
            found[t][e] = [ev[t, e].value - truth, float(i.covers(truth)), refused, i.width]
    return found


def advised(cell: Cell, rng: np.random.Generator) -> dict[str, list[list[float]]]:
    """{target: [width, low, high] predicted with four times the rows, and with more exploration}."""
    log, targets = draw(cell, cell.rows, cell.exploration, rng)
    advice = op.advise(log, targets, width=0.02, exploration=[cell.more])
    asked = ((4 * cell.rows, 0.0), (cell.rows, cell.more))
    return {t: [[f.width(n), *f.between(n)] for n, x in asked for f in (advice[t].plan(x).forecast,)] for t in targets}


def unexplored(cell: Cell, rng: np.random.Generator) -> dict[str, list[Any]]:
    """{target: refused, advised, predicted width with some exploration} of a log without any."""
    from sklearn.dummy import DummyRegressor

    log, targets = draw(cell, cell.rows, 0.0, rng)
    # No model can help here, so that the simplest will do.
    mean_of_model = op.models.PerAction(DummyRegressor())
    advice = op.advise(log, targets, width=0.02, exploration=[cell.exploration], reward_model=mean_of_model)
    said = "no exploration" in str(advice)
    return {t: [float(not advice[t].answered), float(said), [advice[t].plan(cell.exploration).width]] for t in targets}


def widths(cell: Cell, rng: np.random.Generator) -> dict[str, float]:
    """{target: width of the interval}."""
    log, targets = draw(cell, cell.rows, cell.exploration, rng)
    ev = op.evaluate(log, targets, seed=int(rng.integers(2**31)))
    return {t: ev[t, "auto"].interval().width for t in targets}


TASKS = {"estimated": estimated, "advised": advised, "unexplored": unexplored, "widths": widths}


def reproduce(options: Args) -> dict[str, Any]:
    """Run all kinds of logs."""
    folder = router_folder(options.data)

    def run(task: str, times: int, rows: int, exploration: float) -> list[Any]:
        cell = Cell(folder, rows, exploration, options.more, task)
        name = f"{task} {rows} {exploration:g}"
        return simulate(
            replicate,
            {name: cell},
            times,
            seed=options.seed,
            workers=options.workers,
            out=None if options.out is None else options.out / f"{name.replace(' ', '-')}.jsonl",
            settings={"more": options.more},
            title=name,
        )[name]

    n, e = options.rows, options.exploration
    made = run("estimated", options.replications, n, e)
    argmax = run("unexplored", options.replications, n, e)
    predicted = run("advised", options.advised, n, e)
    longer = run("widths", options.advised, 4 * n, e)
    wider = run("widths", options.advised, n, 1 - (1 - e) * (1 - options.more))
    targets = list(made[0])
    answer = {
        "options": {k: getattr(options, k) for k in ("replications", "rows", "exploration", "more", "advised", "seed")},
        "least": least_error(folder, e),
        "values": {t: prompts(folder).value(t) for t in targets},
        "estimates": {t: {x: _summary(made, t, x) for x in ESTIMATORS} for t in targets},
        "advice": {
            t: {
                "four times the rows": _against(predicted, 0, t, [r[t] for r in longer]),
                "more exploration": _against(predicted, 1, t, [r[t] for r in wider]),
                "from a log without exploration": _against(argmax, 2, t, [r[t]["auto"][3] for r in made]),
            }
            for t in targets
        },
        "argmax": {
            "refused": {t: int(sum(r[t][0] for r in argmax)) for t in targets},
            "advised": int(sum(min(r[t][1] for t in targets) for r in argmax)),
            "logs": len(argmax),
        },
    }
    write_results(options.out, answer, show(answer))
    return answer


def _summary(made: list[Any], target: str, estimator: str) -> dict[str, Any]:
    x = np.array([r[target][estimator] for r in made], dtype=np.float64)
    return {
        "rmse": root_mean_square(x[:, 0]),
        "bias": mean(x[:, 0]),
        "coverage": share(x[:, 1]),
        "refused": share(x[:, 2]),
        "width": mean(x[:, 3]),
    }


def _against(predicted: list[Any], place: int, target: str, actual: list[float]) -> dict[str, float]:
    """Predicted widths over the mean width of such logs; how often within 15%, and how often a log is in the range."""
    widths = np.array(actual)
    said = np.array([r[target][place] for r in predicted])
    ratio = said[:, 0] / widths.mean()
    found = {
        "actual": float(widths.mean()),
        "median": float(np.median(ratio)),
        "within": float((np.abs(ratio - 1) <= 0.15).mean()),
    }
    if said.shape[1] > 1:
        low, high = said[:, 1:2], said[:, 2:3]
        found["in_range"] = float(((low <= widths) & (widths <= high)).mean())
        found["range"] = float(np.median((high - low) / said[:, :1]))
    return found


def show(result: dict[str, Any]) -> str:
    """Three tables in Markdown."""
    lines = ["| target | value | estimator | RMSE | bias | coverage | refused | width |", "|---" * 8 + "|"]
    for t, rows in result["estimates"].items():
        for e, r in rows.items():
            lines.append(
                f"| {t} | {result['values'][t]:.3f} | {e} | {r['rmse'][0]:.4f} | {r['bias'][0]:+.4f} | "
                f"{r['coverage'][0]:.1%} ± {r['coverage'][1]:.1%} | {r['refused'][0]:.1%} | {r['width'][0]:.3f} |"
            )
    ratios = {t: rows["auto"]["rmse"][0] / rows["IPW"]["rmse"][0] for t, rows in result["estimates"].items()}
    pooled = [sum(rows[e]["rmse"][0] ** 2 for rows in result["estimates"].values()) for e in ("auto", "IPW")]
    lines += [
        "",
        "RMSE of auto over IPW's, and what a model that knows every domain's rates would leave: "
        + ", ".join(f"{t} {r:.2f} ({result['least'][t]:.2f})" for t, r in ratios.items())
        + f"; of the three together {(pooled[0] / pooled[1]) ** 0.5:.2f} ({result['least']['together']:.2f}).",
        "",
        "| target | advice | actual width | predicted ÷ actual, median | within 15% | logs in the range | its length |",
        "|---|---|---|---|---|---|---|",
    ]
    for t, plans in result["advice"].items():
        for name, r in plans.items():
            lines.append(
                f"| {t} | {name} | {r['actual']:.4f} | {r['median']:.2f} | {r['within']:.0%} | "
                + (f"{r['in_range']:.0%} | {r['range']:.0%} |" if "range" in r else "– | – |")
            )
    argmax = result["argmax"]
    refused = ", ".join(f"{t} {n}" for t, n in argmax["refused"].items())
    lines += ["", f"Of {argmax['logs']} logs without exploration refused: {refused}; advised: {argmax['advised']}."]
    return "\n".join(lines)
