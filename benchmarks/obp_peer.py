"""One million rows against OBP 0.5.7: doubly robust, LightGBM of 100 trees, two folds, 55 actions.

OBP does not install on current Pythons: give the interpreter of an environment of its own (Python 3.10 with
obp==0.5.7, lightgbm and pyarrow).

    python benchmarks/obp_peer.py out/obp --python /path/to/obp/bin/python
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

OURS = """
import resource, sys, time
sys.path.insert(0, sys.argv[2])
import paper_log
import offpolicy as op
start, cpu = time.perf_counter(), time.process_time()
world = paper_log.make_campaign(0)
prepared = time.process_time() - cpu
with op.scan(sys.argv[1] + "/campaign0.parquet", **paper_log.ROLES, way="cells", memory_limit="400MB") as log:
    ev = op.evaluate(log, world.policy, estimators=["DML", "IPW"],
                     reward_model=op.models.BoostedReward(rounds=100, validation=0))
    e, ipw = ev["DML"], ev["IPW"]
    print(e.value, e.std_error, ipw.value, world.truth, time.perf_counter() - start,
          time.process_time() - cpu - prepared, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
THEIRS = """
import resource, sys, time
sys.path.insert(0, sys.argv[2])
import numpy as np
import pyarrow.parquet as pq
import paper_log
world = paper_log.make_campaign(0)
table = pq.read_table(sys.argv[1] + "/campaign0.parquet")
from lightgbm import LGBMClassifier
from obp.ope import DoublyRobust, InverseProbabilityWeighting, RegressionModel
start, cpu = time.perf_counter(), time.process_time()
frame = table.to_pandas()
context = np.column_stack([frame[c].str.slice(len(c)).astype(int) for c in paper_log.CONTEXT])
action = frame["ad"].str.slice(2).astype(int).to_numpy()
reward = frame["click"].to_numpy().astype(float)
pscore = frame["p"].to_numpy()
k = world.click.shape[1]
model = RegressionModel(n_actions=k, base_model=LGBMClassifier(n_estimators=100, verbose=-1, n_jobs=2))
q = model.fit_predict(context=context, action=action, reward=reward, n_folds=2, random_state=0)
pi = world.policy(frame)[:, :, None]
keys = dict(reward=reward, action=action, pscore=pscore, action_dist=pi)
value = DoublyRobust().estimate_policy_value(**keys, estimated_rewards_by_reg_model=q)
ipw = InverseProbabilityWeighting().estimate_policy_value(**keys)
print(value, float("nan"), ipw, world.truth, time.perf_counter() - start, time.process_time() - cpu,
      resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def run(python: str, script: str, folder: Path) -> dict[str, float]:
    here = str(Path(__file__).parent)
    done = subprocess.run(
        [python, "-W", "ignore", "-c", script, str(folder), here], check=True, stdout=subprocess.PIPE, text=True
    )
    names = ("value", "se", "ipw", "truth", "wall", "cpu", "peak")
    return dict(zip(names, map(float, done.stdout.split()[-7:]), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", required=True, help="interpreter of the environment with obp")
    parser.add_argument("--rows", type=int, default=1_000_000)
    args = parser.parse_args()
    import paper_log

    paper_log.write(args.folder, rows=args.rows, campaigns=1)
    ours = run(sys.executable, OURS, args.folder)
    theirs = run(args.python, THEIRS, args.folder)
    for name, r in (("offpolicy", ours), ("OBP", theirs)):
        print(
            f"{name:>9}: DR {r['value']:.6f} (se {r['se']:.6f}), IPW {r['ipw']:.6f}, truth {r['truth']:.6f}; "
            f"{r['wall']:.1f} s wall, {r['cpu']:.1f} s CPU, {r['peak']:,.0f} MB"
        )
    print(
        f"OBP / offpolicy: CPU {theirs['cpu'] / ours['cpu']:.1f} x, "
        f"memory {theirs['peak'] / ours['peak']:.1f} x; "
        f"DR differs by {abs(theirs['value'] - ours['value']) / ours['se']:.2f} standard errors "
        "(IPW, which uses no model, is the same number: the rest is other folds and categories as numbers)"
    )


if __name__ == "__main__":
    main()
