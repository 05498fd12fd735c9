"""A run of networks by the letter: policies, truths, arrays, estimates; everything resumable, data set by data set."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from offpolicy_studies.cartpole import blocks, plain_blocks, policy, store
from offpolicy_studies.cartpole.settings import POLICIES
from offpolicy_studies.folder import append_line, read_lines, write_json
from offpolicy_studies.progress import track

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from offpolicy_studies.cartpole.settings import Plain, Settings

BLOCK = 50


@dataclass(frozen=True)
class Request:
    """One column of the work: a cell, its number of data sets, and which networks it needs."""

    cell: blocks.Cell
    replications: int
    letter: Plain
    careful: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Name of the cell in files."""
        return store.cell_name(self.cell.policy, self.cell.epsilon, self.cell.folds)

    @property
    def values(self) -> tuple[str, ...]:
        """Names of the q̂ in the arrays."""
        plain_q = tuple(f"q{mark}" for mark in self.letter.marks)
        return (*plain_q, *(f"careful{mark}" for mark in self.careful))


def make_policies(out: Path, seed: int, settings: Settings, device: str) -> None:
    """Train one learner and keep the checkpoint of each rule, with its true value."""
    paths = {name: out / f"{name}.safetensors" for name in POLICIES}
    if not all(path.exists() for path in paths.values()):
        begin = time.monotonic()
        rules = [settings.rule(name) for name in POLICIES]
        with track("evaluation policies", rules[0].updates) as advance:
            learned = policy.learn(
                seed, rules, cap=settings.cap, period=settings.noise_period, device=device,
                report=lambda _, value: advance(1, note=f"greedy value {value:.1f}"),
            )  # fmt: skip
        for name, checkpoint in zip(POLICIES, learned, strict=True):
            policy.save(checkpoint, paths[name])
            facts = {"update": checkpoint.update, "value_when_chosen": checkpoint.value}
            write_json(out / f"policy-{name}.json", facts)
        _note(out, "policies", begin, device)
    for name in POLICIES:
        path = out / f"truth-{name}.json"
        if not path.exists():
            begin = time.monotonic()
            act = policy.greedy(policy.load(paths[name], device).net)
            write_json(path, blocks.truth(act, settings.truth_rollouts, seed, settings, device))
            _note(out, f"truth of {name}", begin, device)


def make_arrays(
    out: Path, requests: Sequence[Request], settings: Settings, device: str, block: int,
    minutes: float | None = None,
) -> bool:  # fmt: skip
    """Collect and fit every data set whose arrays are not there yet; return whether all are there.

    With ``minutes`` no further block is begun that is likely to end later than that.
    """
    begin, longest = time.monotonic(), 0.0
    work = []
    for request in requests:
        for start in range(0, request.replications, block):
            some = range(start, min(start + block, request.replications))
            if any(not store.arrays_path(out, request.name, r).exists() for r in some):
                work.append((request, list(some)))
    with track("data sets and networks", len(work)) as advance:
        for request, data_sets in work:
            start_of_block = time.monotonic()
            late = minutes is not None and start_of_block - begin + longest > 60 * minutes
            if longest and late:
                return False
            act = policy.greedy(policy.load(out / f"{request.cell.policy}.safetensors", device).net)
            made, timing = plain_blocks.fit_plain_block(
                act, request.cell, data_sets, settings, request.letter, device,
                careful=request.careful,
            )  # fmt: skip
            for r, arrays in made.items():
                store.save_arrays(store.arrays_path(out, request.name, r), arrays)
            append_line(out / "timing.jsonl", {"name": request.name, **timing})
            longest = max(longest, time.monotonic() - start_of_block)
            advance(note=f"{request.name}, {longest:.0f} s")
    return True


def make_estimates(
    out: Path, requests: Sequence[Request], known: tuple[str, ...], rows: tuple[str, ...],
    jobs: int | None,
) -> None:  # fmt: skip
    """Compute the estimates of every data set whose arrays are there, one line each."""
    from offpolicy_studies.workers import finished

    work = []
    for request in requests:
        done = {line["replication"] for line in read_lines(store.estimates_path(out, request.name))}
        work += [
            (request, out, r, known, rows)
            for r in range(request.replications)
            if r not in done and store.arrays_path(out, request.name, r).exists()
        ]
    begin = time.monotonic()
    with track("estimates", len(work)) as advance:
        for (request, *_), line in finished(_one, work, jobs or min(8, os.cpu_count() or 1)):
            append_line(store.estimates_path(out, request.name), line)
            advance(note=request.name)
    if work:
        _note(out, f"estimates of {len(work)} data sets", begin, "cpu")


def _one(task: tuple[Request, Path, int, tuple[str, ...], tuple[str, ...]]) -> dict[str, Any]:
    # Not at the top: a machine that only trains may lack what the estimators need.
    from offpolicy_studies.cartpole import ways

    request, out, r, known, rows = task
    arrays = store.load_arrays(store.arrays_path(out, request.name, r))
    epsilon = request.cell.epsilon
    line = {
        "replication": r,
        "estimates": ways.estimate(arrays, epsilon, request.values, known, rows),
        "diagnostics": ways.diagnose(arrays, epsilon, request.values, known),
    }
    if "best_step" in arrays:
        line["best_step"] = arrays["best_step"].tolist()
    return line


def read_estimates(out: Path, request: Request) -> list[dict[str, Any]]:
    """Return a cell's lines in the order of the data sets."""
    done = {line["replication"]: line for line in read_lines(store.estimates_path(out, request.name))}
    return [done[r] for r in sorted(done) if r < request.replications]


def _note(out: Path, stage: str, begin: float, device: str) -> None:
    seconds = round(time.monotonic() - begin, 1)
    append_line(out / "runs.jsonl", {"stage": stage, "device": device, "seconds": seconds})
