"""Pilot runs on seeds that no table uses: which noise speed and how many steps make the problem informative?

    python benchmarks/cartpole_pilot.py --periods 1 5 10 --seeds 101 102 --out DIR

For each policy seed, noise period and variant of the settings: the value of the chosen checkpoint,
the held-out log-loss of both behavior models, the validation curve over training steps, and the direct
estimate against the truth.
"""

import argparse
import dataclasses
import json
import time
from pathlib import Path

import numpy as np
import torch

from offpolicy_studies.cartpole import blocks, policy
from offpolicy_studies.cartpole.estimates import diagnose
from offpolicy_studies.cartpole.settings import Settings
from offpolicy_studies.folder import append_line


def describe(made, value):
    rows = []
    for arrays in made.values():
        action, greedy = arrays["actions"], arrays["greedy"]
        row = {}
        for name in ("behavior", "behavior_pi"):
            odds = arrays[f"{name}_cross"].astype(float)
            row[f"{name} log-loss"] = np.logaddexp(0, -odds * (2.0 * action - 1)).mean()
            row[f"{name} agree"] = ((odds > 0) == greedy).mean()
        first = np.cumsum(arrays["lengths"]) - arrays["lengths"]
        for name in ("q_full", "q_mrdr_cross"):
            q = np.take_along_axis(arrays[name].astype(float), greedy[:, None].astype(int), 1)[:, 0]
            row[f"DM {name} - truth"] = q[first].mean() - value
        q = np.take_along_axis(arrays["q_cross"].astype(float), greedy[:, None].astype(int), 1)[:, 0]
        error = q[arrays["check_rows"]] - arrays["check_values"]
        row["q rmse"] = np.sqrt((error**2).mean())
        row["q sd"] = arrays["check_values"].std()
        weights = diagnose(arrays, 0.05)
        for kind in ("state", "state+target"):
            row[f"log10 mean weight {kind}"] = np.log10(weights[kind]["mean_weight"])
        rows.append(row)
    return {key: float(np.mean([r[key] for r in rows])) for key in rows[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--periods", type=int, nargs="+", default=[1, 5, 10])
    parser.add_argument("--seeds", type=int, nargs="+", default=[101, 102])
    parser.add_argument("--epsilon", type=float, default=0.05)
    parser.add_argument("--replications", type=int, default=8)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--variants", nargs="+", default=["{}"], help="settings to change, as JSON")
    parser.add_argument("--out", type=Path, default=Path("out/cartpole-pilot"))
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    options.out.mkdir(parents=True, exist_ok=True)
    for seed in options.seeds:
        for period in options.periods:
            settings = dataclasses.replace(Settings(), noise_period=period, steps=options.steps, check_every=25)
            begin = time.perf_counter()
            (learned,) = policy.learn(
                seed,
                [dataclasses.replace(settings.policy, closest=True)],
                cap=settings.cap,
                period=period,
                device=device,
            )
            spent = time.perf_counter() - begin
            policy.save(learned, options.out / f"s{seed}-p{period}.safetensors")
            act = policy.greedy(learned.net)
            truth = blocks.truth(act, 5000, seed, settings, device)
            print(seed, period, learned.update, f"{spent:.1f}s", truth, flush=True)
            for variant in options.variants:
                changed = dataclasses.replace(settings, **json.loads(variant))
                cell = blocks.Cell("short", options.epsilon, 2, 100, seed)
                made, timing = blocks.fit_block(act, cell, list(range(options.replications)), changed, device)
                found = {
                    "seed": seed, "period": period, "variant": variant,
                    **describe(made, truth["value"]),
                    "best": np.mean([a["best_step"] for a in made.values()], (0, 1)).tolist(),
                    "curve": timing.pop("curve"), "timing": timing, "truth": truth,
                }  # fmt: skip
                append_line(options.out / "pilot.jsonl", found)
                short = {k: round(v, 3) for k, v in found.items() if isinstance(v, float)}
                print(variant, short, [round(b) for b in found["best"]], flush=True)
                print("  seconds", timing["seconds"], "frames/s", timing["frames_per_s"], flush=True)


if __name__ == "__main__":
    main()
