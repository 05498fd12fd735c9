"""CPU seconds of small jobs, imports included, each in a process of its own, beside the aim.

    python benchmarks/small_logs.py                     # all of them
    python benchmarks/small_logs.py readme cartpole     # some
    python benchmarks/small_logs.py cartpole --profile  # where the time goes

CPU seconds are those of the process and its children, user and system, the smallest of three runs: cores that are
shared add to each, and never take away. Every library uses one thread.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parent.parent
SMALL, LARGE = 20_000, 200_000


def table(rows: int, gain: float = 0.06):
    """A log of ten columns beside action, reward and propensity; ``new`` is a policy that gains, or loses."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(1)
    frame = pd.DataFrame({f"x{j}": rng.normal(size=rows).round(4) for j in range(8)})
    frame["device"] = rng.choice(["phone", "desktop", "tv"], rows)
    frame["city"] = rng.choice([f"city{j}" for j in range(30)], rows)
    frame["ad"] = rng.choice(["a", "b", "c", "d"], rows, p=[0.4, 0.3, 0.2, 0.1])
    frame["p"] = frame["ad"].map({"a": 0.4, "b": 0.3, "c": 0.2, "d": 0.1})
    good = (frame["x0"] > 0) & (frame["ad"] == "b")
    frame["click"] = (rng.random(rows) < 0.1 + gain * good) * 1
    frame["new"] = np.where(frame["x0"] > 0, "b", "a")
    return frame


def readme() -> None:
    page = (ROOT / "README.md").read_text()
    (code, *_) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    exec(code, {})


def command(rows: int, *more: str, gain: float = 0.06, logged: bool = True) -> None:
    """The command line on a CSV that is written beforehand."""
    from offpolicy.cli import main

    path = Path(tempfile.gettempdir()) / f"small_logs_{rows}_{gain}.csv"
    context = ",".join([*(f"x{j}" for j in range(8)), "device", "city"])
    roles = ["--context", context, "--action", "ad", "--reward", "click", "--policy", "new=new"]
    main(["evaluate", str(path), *roles, *(["--propensity", "p"] if logged else []), *more])


def cartpole() -> None:
    """400 episodes (24,000 steps) of CartPole by a noisy controller, and two others; the default models."""
    import numpy as np

    import offpolicy as op

    states, actions, rewards, chances = episodes(400)
    log = op.Trajectories.from_arrays(states, actions, rewards, propensities=chances)

    def policy(slope: float) -> Callable:
        def probabilities(state):
            state = np.asarray(state)
            right = 1 / (1 + np.exp(-slope * (state[:, 2] + 0.3 * state[:, 3])))
            return np.column_stack([1 - right, right])

        return probabilities

    print(op.evaluate(log, {"firm": policy(4.0), "soft": policy(2.0)}))


def episodes(n: int, slope: float = 3.0, horizon: int = 200):
    """States (ragged), actions, rewards and propensities of ``n`` episodes under Gym's dynamics, without Gym."""
    import numpy as np

    rng = np.random.default_rng(0)
    found: tuple[list, list, list, list] = ([], [], [], [])
    for _ in range(n):
        state, path, done = rng.uniform(-0.05, 0.05, 4), [], False
        while not done and len(path) < horizon:
            right = 1 / (1 + np.exp(-slope * (state[2] + 0.3 * state[3])))
            action = int(rng.random() < right)
            path.append((state, action, 1.0, right if action else 1 - right))
            state = _step(state, action)
            done = abs(state[0]) > 2.4 or abs(state[2]) > 0.2095
        for column, values in zip(found, zip(*path, strict=True), strict=True):
            column.append(np.asarray(values))
    return found


def _step(state, action):
    import numpy as np

    x, v, angle, turn = state
    force, sin, cos = (10.0 if action else -10.0), np.sin(angle), np.cos(angle)
    push = (force + 0.05 * turn**2 * sin) / 1.1
    bend = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
    speed = push - 0.05 * bend * cos / 1.1
    return np.array([x + 0.02 * v, v + 0.02 * speed, angle + 0.02 * turn, turn + 0.02 * bend])


GATE = ("--gate", "lift > 0")
JOBS: dict[str, tuple[Callable[[], None], float | None]] = {
    "imports": (lambda: __import__("sklearn.linear_model"), None),
    "readme": (readme, 1.5),
    "cli": (lambda: command(SMALL), 2.5),
    "cli, fitted": (lambda: command(SMALL, logged=False), None),
    "cli, report": (lambda: command(SMALL, "--report", str(Path(tempfile.gettempdir()) / "small_logs.html")), None),
    "cli, 200k": (lambda: command(LARGE), 7.0),
    "cli, 200k, fitted": (lambda: command(LARGE, logged=False), None),
    "gate fails": (lambda: command(SMALL, *GATE, gain=-0.06), None),
    "gate passes": (lambda: command(SMALL, *GATE), None),
    "cartpole": (cartpole, 5.0),
}


def seconds(job: str, runs: int) -> float:
    """The smallest CPU seconds of some runs, each a fresh process."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    spent = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, __file__, job, "--here"]
        done = subprocess.run(command, check=False, env=environment, capture_output=True, text=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode not in (0, 3, 4):
            raise SystemExit(done.stdout + done.stderr)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=", ".join(JOBS))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--here", action="store_true", help="run one job in this process")
    parser.add_argument("--profile", action="store_true", help="run one job here, under cProfile")
    options = parser.parse_args()
    for rows in (SMALL, LARGE):
        for gain in (0.06, -0.06):
            path = Path(tempfile.gettempdir()) / f"small_logs_{rows}_{gain}.csv"
            if not path.exists():
                table(rows, gain).to_csv(path, index=False)
    if options.here or options.profile:
        run = JOBS[options.jobs[0]][0]
        if options.profile:
            import cProfile

            cProfile.runctx("run()", {}, {"run": run}, sort="cumtime")
        else:
            run()
        return
    spent = {}
    for job in options.jobs or JOBS:
        spent[job] = seconds(job, options.runs)
        aim = JOBS[job][1]
        print(f"{job:>20} {spent[job]:6.2f} CPU-s" + (f"   aim {aim}" if aim else ""), flush=True)
    if {"gate fails", "gate passes"} <= spent.keys():
        print(f"a gate that passes costs {spent['gate passes'] / spent['gate fails']:.1f} x one that fails; aim 4")


if __name__ == "__main__":
    main()
