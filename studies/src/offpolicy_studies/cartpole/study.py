"""The study as one call: policy, truth, data sets, nuisances, estimates, table.

Everything is kept in ``Args.out`` and picked up again after a kill, data set by data set.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from offpolicy.errors import UsageError, missing_dependency
from offpolicy_studies.cartpole import blocks, estimates, policy, store, table
from offpolicy_studies.cartpole.settings import EPSILONS, SMALL, Settings
from offpolicy_studies.folder import append_line, claim, write_json, write_results
from offpolicy_studies.progress import track

if TYPE_CHECKING:
    from collections.abc import Callable

STAGES = ("all", "arrays", "estimates")


@dataclass(frozen=True)
class Args:
    """What to reproduce."""

    #: Two data sets of twenty episodes at two ε, to see that it runs; the numbers mean little.
    quick: bool = False
    #: Exploration rates of the behavior policy, one column of the table each.
    epsilons: tuple[float, ...] = EPSILONS
    #: Data sets per ε.
    replications: int = 100
    #: Episodes per data set.
    trajectories: int = 100
    #: Folds of the cross-fit.
    folds: int = 2
    #: "cuda", "cpu", or None for what is there.
    device: str | None = None
    #: Seed of everything.
    seed: int = 0
    #: Folder of the run.
    out: Path = Path("out/cartpole")
    #: "short" for the table's evaluation policy, "long" for the one with longer episodes.
    policy: str = "short"
    #: Data sets trained at once; None takes 50 on CUDA and 1 on the CPU.
    block: int | None = None
    #: "arrays" stops before the estimators, "estimates" needs arrays from an earlier run.
    stage: str = "all"
    #: Processes for the estimators; None takes up to 8.
    jobs: int | None = None
    #: Choices that the paper leaves open; None takes the table's on CUDA and smaller ones on a CPU.
    settings: Settings | None = None


@dataclass(frozen=True)
class Results:
    """Where the run lies, the numbers of its table, and the table as Markdown."""

    out: Path
    summary: dict[str, Any]
    markdown: str


def reproduce(options: Args) -> Results:
    """Run the study, or what is left of it, and write ``results.json`` and ``table.md``.

    Parameters
    ----------
    options : Args
        What to run and where to keep it.

    Returns
    -------
    Results
        Empty when only the arrays were asked for.
    """
    _check(options)
    if options.quick:
        options = replace(options, epsilons=options.epsilons[:2], replications=2, trajectories=20)
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    device = options.device or best_device()
    settings = options.settings or (Settings() if device.startswith("cuda") else SMALL)
    wanted: dict[str, Any] = {"seed": options.seed, "trajectories": options.trajectories}
    if options.stage != "estimates":
        wanted["settings"] = settings.as_dict()
    elif not (out / "manifest.json").exists():
        raise UsageError(f"{out} holds no arrays to estimate from. Run the stage 'all' first.")
    asked = claim(out / "manifest.json", wanted)
    begin = time.monotonic()
    cells = [
        blocks.Cell(options.policy, eps, options.folds, options.trajectories, options.seed) for eps in options.epsilons
    ]
    if options.stage != "estimates":
        act = _policy(options, settings, out, device)
        _truth(act, options, settings, out, device)
        _arrays(act, cells, options, settings, out, device)
        append_line(
            out / "runs.jsonl",
            {
                "stage": "policy, truth, data sets, networks",
                "device": _device_name(device),
                "cells": [store.cell_name(c.policy, c.epsilon, c.folds) for c in cells],
                "seconds": round(time.monotonic() - begin, 1),
            },
        )
    if options.stage == "arrays":
        return Results(out, {}, "")
    begin = time.monotonic()
    count = estimates.estimate_cells(out, cells, options.replications, options.jobs)
    if count:
        append_line(
            out / "runs.jsonl",
            {
                "stage": "estimators",
                "data_sets": count,
                "cells": [store.cell_name(c.policy, c.epsilon, c.folds) for c in cells],
                "seconds": round(time.monotonic() - begin, 1),
            },
        )
    summary = table.summarize(out, cells, options, asked["settings"])
    markdown = table.markdown(summary)
    write_results(out, summary, markdown)
    return Results(out, summary, markdown)


def show(results: Results) -> str:
    """Return what the command line prints."""
    return results.markdown or f"The arrays are in {results.out}."


def _check(options: Args) -> None:
    if options.stage not in STAGES:
        raise UsageError(f"stage must be one of {', '.join(STAGES)}. Got {options.stage!r} instead.")
    if options.policy not in ("short", "long"):
        raise UsageError(f"policy must be 'short' or 'long'. Got {options.policy!r} instead.")
    bad = [e for e in options.epsilons if not 0 < e < 1]
    if bad:
        raise UsageError(f"epsilons must lie strictly between 0 and 1. Got {bad[0]!r} instead.")
    for name, low in (("replications", 1), ("folds", 2), ("trajectories", 2 * options.folds)):
        if getattr(options, name) < low:
            raise UsageError(f"{name} must be an int in the range [{low}, inf). Got {getattr(options, name)!r}.")
    try:
        import torch  # noqa: F401
    except ImportError:
        raise missing_dependency("torch", "torch", "the CartPole study") from None


def best_device() -> str:
    """Return "cuda" where there is a GPU, else "cpu"."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _device_name(device: str) -> str:
    import torch

    if device.startswith("cuda"):
        return f"{torch.cuda.get_device_name()}, torch {torch.__version__}"
    return f"CPU ({torch.get_num_threads()} threads), torch {torch.__version__}"


def _policy(options: Args, settings: Settings, out: Path, device: str) -> Any:
    """Return the evaluation policy, trained once and kept as plain weights."""
    paths = {name: out / f"{name}.safetensors" for name in ("short", "long")}
    wanted = {"short": settings.policy, "long": settings.long_policy}
    if not paths[options.policy].exists():
        begin = time.monotonic()
        # One learner serves both policies: the short one is an earlier checkpoint of the long one's.
        names = ["short"] if options.policy == "short" else ["short", "long"]
        every = wanted["short"].every
        with track("evaluation policy", wanted["short"].updates) as advance:
            learned = policy.learn(
                options.seed,
                [wanted[name] for name in names],
                cap=settings.cap,
                period=settings.noise_period,
                device=device,
                report=lambda _, value: advance(every, note=f"greedy value {value:.1f}"),
            )
        policy.save(learned[-1], paths[options.policy])
        write_json(
            out / f"policy-{options.policy}.json",
            {
                "update": learned[-1].update,
                "value_when_chosen": learned[-1].value,
                "seconds": round(time.monotonic() - begin, 2),
            },
        )
    return policy.greedy(policy.load(paths[options.policy], device).net)


def _truth(act: Any, options: Args, settings: Settings, out: Path, device: str) -> None:
    path = out / f"truth-{options.policy}.json"
    if not path.exists():
        begin = time.monotonic()
        found = blocks.truth(act, settings.truth_rollouts, options.seed, settings, device)
        write_json(path, {**found, "seconds": round(time.monotonic() - begin, 2)})


def _arrays(act: Any, cells: list[blocks.Cell], options: Args, settings: Settings, out: Path, device: str) -> None:
    """Collect and fit every data set whose arrays are not there yet."""
    size = options.block or (50 if device.startswith("cuda") else 1)
    work = []
    for cell in cells:
        name = store.cell_name(cell.policy, cell.epsilon, cell.folds)
        for start in range(0, options.replications, size):
            block = range(start, min(start + size, options.replications))
            if any(not store.arrays_path(out, name, r).exists() for r in block):
                work.append((cell, name, list(block)))
    with track("data sets and networks", 100 * len(work)) as advance:
        for cell, name, data_sets in work:
            say = _Percent(advance, f"{name}, data sets {data_sets[0]} to {data_sets[-1]}")
            made, timing = blocks.fit_block(act, cell, data_sets, settings, device, say)
            for r, arrays in made.items():
                store.save_arrays(store.arrays_path(out, name, r), arrays)
            append_line(out / "timing.jsonl", timing)
            say(1.0)


@dataclass
class _Percent:
    """Passes on the share of a block that is done, in steps of a percent."""

    advance: Callable[..., None]
    what: str
    done: int = 0

    def __call__(self, share: float) -> None:
        now = int(100 * share)
        self.advance(now - self.done, note=self.what)
        self.done = now
