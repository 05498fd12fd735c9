"""Trajectories measured: CPU-seconds, peak memory and error, each job in a process of its own.

    python benchmarks/trajectories.py                       # all jobs at full size
    python benchmarks/trajectories.py --jobs tabular padded --episodes 20000

Jobs: ``tabular`` is DML with `Tabular` on N episodes × 50 steps; ``padded`` the same estimator written with
dense (N, T+1, K) arrays, as peers keep them; ``fitted`` is `FittedQ` with LightGBM on 1 M transitions;
``d3rlpy`` is that package's DiscreteFQE on the same transitions (skipped when it is not installed).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np

JOBS = ("tabular", "padded", "fitted", "d3rlpy")
STEPS = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--jobs", nargs="*", default=JOBS, choices=JOBS)
    parser.add_argument("--episodes", type=int, default=100_000, help="of the tabular jobs")
    parser.add_argument("--transitions", type=int, default=1_000_000, help="of the fitted jobs")
    parser.add_argument("--gradient-steps", type=int, default=10_000, help="of d3rlpy")
    parser.add_argument("--one", choices=JOBS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(globals()[options.one](options)))
        return
    results = {job: measured(job, sys.argv[1:]) for job in options.jobs}
    for job, r in results.items():
        print(f"{job:8s} {r}")
    for ours, theirs in (("tabular", "padded"), ("fitted", "d3rlpy")):
        if "cpu_s" in results.get(ours, {}) and "cpu_s" in results.get(theirs, {}):
            a, b = results[ours], results[theirs]
            print(
                f"{theirs} / {ours}: {b['cpu_s'] / a['cpu_s']:.1f}× the CPU, "
                f"{b['peak_gb'] / a['peak_gb']:.1f}× the memory"
            )


def measured(job: str, arguments: list[str]) -> dict[str, object]:
    command = [sys.executable, "-W", "ignore", __file__, *arguments, "--one", job]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": done.stderr.strip().splitlines()[-1:]}
    result: dict[str, object] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


@dataclass
class Clock:
    """CPU-seconds since it was made, and the process's peak memory."""

    def __post_init__(self) -> None:
        self.cpu, self.wall = time.process_time(), time.perf_counter()

    def read(self) -> dict[str, float]:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        return {
            "cpu_s": round(time.process_time() - self.cpu, 2),
            "wall_s": round(time.perf_counter() - self.wall, 2),
            "peak_gb": round(peak, 3),
        }


def world():
    from offpolicy_studies.tabular.mdp import random_mdp

    mdp, pi_e, pi_b = random_mdp(horizon=STEPS)
    # Close policies: at fifty steps weights would otherwise decide everything.
    return mdp, 0.9 * pi_b + 0.1 * pi_e, pi_b


def tabular(options: argparse.Namespace) -> dict[str, object]:
    import offpolicy as op

    mdp, pi_e, pi_b = world()
    log = mdp.simulate(pi_b, options.episodes, np.random.default_rng(0))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    clock = Clock()
    ev = op.evaluate(log, lambda s: pi_e[s], estimators=["DML"], value_model=op.Tabular(), folds=2)
    e = ev["policy", "DML"]
    used = clock.read()
    return {
        **used,
        "bytes_per_step": round((used["peak_gb"] - before) * 2**30 / log.rows),
        "value": e.value,
        "std_error": e.std_error,
        "truth": mdp.value(pi_e),
    }


def padded(options: argparse.Namespace) -> dict[str, object]:
    """The same DML with dense arrays over (episode, step, action)."""
    mdp, pi_e, pi_b = world()
    log = mdp.simulate(pi_b, options.episodes, np.random.default_rng(0))
    n, horizon, (n_states, k) = options.episodes, STEPS, mdp.shape
    s = log.context.table[log.context.index].reshape(n, horizon)
    a, r = log.action.reshape(n, horizon), log.reward.reshape(n, horizon)
    from offpolicy.splits.hashing import hash_folds

    labels = hash_folds(np.arange(n), 2, seed=0)
    clock = Clock()
    target = pi_e[s]
    behavior = pi_b[s]
    taken = np.eye(k)[a]
    ratio = ((target / behavior) * taken).sum(axis=2)
    rho = np.cumprod(ratio, axis=1)
    before = np.concatenate([np.ones((n, 1)), rho[:, :-1]], axis=1)
    psi = np.empty(n)
    for fold in (0, 1):
        train, score = labels != fold, labels == fold
        count = np.zeros((n_states, k))
        total = np.zeros((n_states, k))
        onward = np.zeros((n_states, k, n_states))
        np.add.at(count, (s[train], a[train]), 1.0)
        np.add.at(total, (s[train], a[train]), r[train])
        np.add.at(onward, (s[train][:, :-1], a[train][:, :-1], s[train][:, 1:]), 1.0)
        mean = total / count
        move = onward / onward.sum(axis=2, keepdims=True)
        q = np.zeros((horizon, n_states, k))
        v = np.zeros(n_states)
        for t in range(horizon - 1, -1, -1):
            q[t] = mean + (move @ v if t < horizon - 1 else 0.0)
            v = (pi_e * q[t]).sum(axis=1)
        table = q[np.arange(horizon), s[score]]
        chosen = (table * taken[score]).sum(axis=2)
        value = (table * target[score]).sum(axis=2)
        psi[score] = (rho[score] * (r[score] - chosen) + before[score] * value).sum(axis=1)
    return {**clock.read(), "value": psi.mean(), "std_error": psi.std() / np.sqrt(n)}


def chain():
    from offpolicy_studies.tabular.chain import Chain

    class Greedy(Chain):
        def target(self, states):
            right = np.asarray(states).reshape(len(states)) > 0
            return np.column_stack([~right, right]).astype(np.float64)

    return Greedy(horizon=STEPS)


def fitted(options: argparse.Namespace) -> dict[str, object]:
    from lightgbm import LGBMRegressor

    import offpolicy as op

    place = chain()
    log = place.simulate(options.transitions // STEPS, np.random.default_rng(0))
    clock = Clock()
    learner = LGBMRegressor(n_estimators=60, num_leaves=15, verbose=-1, n_jobs=1)
    ev = op.evaluate(log, place.target, estimators=["DM-cf"], value_model=op.FittedQ(learner), folds=2)
    used = clock.read()
    return {**used, "value": ev["policy", "DM-cf"].value, "truth": place.value()}


def d3rlpy(options: argparse.Namespace) -> dict[str, object]:
    import d3rlpy as peer
    import torch

    torch.set_num_threads(1)
    place = chain()
    log = place.simulate(options.transitions // STEPS, np.random.default_rng(0))
    n = log.n
    step = (log.layout.step / STEPS).astype(np.float32)
    states = np.column_stack([np.asarray(log.context.table)[:, 0], step]).astype(np.float32)
    ends = np.zeros(log.rows, dtype=np.float32)
    ends[log.layout.offsets[1:] - 1] = 1.0
    clock = Clock()
    data = peer.dataset.MDPDataset(
        states,
        log.action[:, None],
        log.reward[:, None].astype(np.float32),
        ends,
        action_space=peer.ActionSpace.DISCRETE,
        action_size=2,
    )
    policy = peer.algos.DQNConfig().create(device="cpu:0")
    policy.build_with_dataset(data)
    policy.impl.predict_best_action = lambda x: (x[:, 0] > 0).long()
    config = peer.ope.FQEConfig(gamma=1.0, learning_rate=1e-3, batch_size=256)
    fqe = peer.ope.DiscreteFQE(algo=policy, config=config, device="cpu:0")
    fqe.fit(
        data,
        n_steps=options.gradient_steps,
        n_steps_per_epoch=options.gradient_steps,
        logger_adapter=peer.logging.NoopAdapterFactory(),
        show_progress=False,
    )
    first = states[log.layout.offsets[:-1]]
    value = fqe.predict_value(first, (first[:, 0] > 0).astype(np.int64))
    return {**clock.read(), "value": float(value.mean()), "episodes": n, "truth": place.value()}


if __name__ == "__main__":
    main()
