"""A log of the paper's size with a known truth: 4 campaigns × 28 batches, 55 ads, ~30,000 contexts.

Contexts are six categorical columns with Zipf frequencies, the logging policy shows each batch's ads with
Thompson-like shares that are logged as propensities, and clicks follow a logistic model whose values are
known. Files: one Parquet file a campaign, one row group a batch.

    python benchmarks/paper_log.py out/paper_log --rows 40101050
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, softmax

ROWS = 40_101_050
LEVELS = {"gender": 3, "age": 8, "region": 47, "device": 4, "os": 6, "hour": 24}
CONTEXT = list(LEVELS)
# What `offpolicy.scan` is told about a log of this kind.
ROLES = {"context": CONTEXT, "action": "ad", "reward": "click", "propensity": "p", "batch": "batch", "id": "id"}


@dataclass(frozen=True, eq=False)
class Campaign:
    """One campaign's world: contexts, click probabilities, logging shares, and a target policy."""

    number: int
    codes: np.ndarray  # (m, 6) levels of each distinct context
    frequency: np.ndarray  # (m,) probability of each context
    click: np.ndarray  # (m, K)
    shares: np.ndarray  # (28, K) logging policy of each batch
    target: np.ndarray  # (m, K) π_e

    @property
    def truth(self) -> float:
        """The target's value: Σ_x p(x) Σ_a π_e(a|x) μ(x, a)."""
        return float(self.frequency @ (self.target * self.click).sum(axis=1))

    def policy(self, table: Any) -> np.ndarray:
        """π_e of a frame of contexts, by their codes."""
        return self.target[self._find(table)]

    def choice(self, table: Any) -> np.ndarray:
        """The best ad of each context, as labels: a deterministic target."""
        return np.array(labels(self.click.shape[1]))[self.click[self._find(table)].argmax(axis=1)]

    def _find(self, table: Any) -> np.ndarray:
        key = np.zeros(len(table), dtype=np.int64)
        own = np.zeros(len(self.codes), dtype=np.int64)
        for j, (name, levels) in enumerate(LEVELS.items()):
            key = key * levels + table[name].str.slice(len(name)).astype("int64").to_numpy()
            own = own * levels + self.codes[:, j]
        order = np.argsort(own)
        return order[np.searchsorted(own[order], key)]


def labels(n_actions: int) -> list[str]:
    return [f"ad{a:03d}" for a in range(n_actions)]


def make_campaign(
    number: int, *, contexts: int = 30_000, actions: int = 55, batches: int = 28, seed: int = 0
) -> Campaign:
    """Draw one campaign's world."""
    rng = np.random.default_rng([seed, number])
    sizes = list(LEVELS.values())
    keys = rng.choice(int(np.prod(sizes)), size=contexts, replace=False)
    codes = np.column_stack(np.unravel_index(keys, sizes)).astype(np.int64)
    frequency = 1.0 / (np.arange(contexts) + 5.0)
    frequency /= frequency.sum()
    logit = np.full((contexts, actions), -4.6)
    logit += rng.normal(scale=0.4, size=actions)
    for j, levels in enumerate(sizes):
        logit += rng.normal(scale=0.25, size=levels)[codes[:, j], None]
        logit += rng.normal(scale=0.15, size=(levels, actions))[codes[:, j]]
    click = expit(logit)
    quality = frequency @ click
    # Thompson-like: shares sharpen towards the better ads as batches pass, with noise of their own.
    sharpness = np.linspace(0.0, 1.5, batches)[:, None]
    standard = (quality - quality.mean()) / quality.std()
    shares = softmax(sharpness * standard + rng.normal(scale=0.5, size=(batches, actions)), axis=1)
    shares = 0.9 * shares + 0.1 / actions
    target = softmax(3.0 * logit, axis=1) * 0.9 + 0.1 / actions
    return Campaign(number, codes, frequency, click, shares, target)


def batch_columns(world: Campaign, batch: int, n: int, first: int, rng: Any) -> dict[str, Any]:
    """Codes of n logged rows of one batch."""
    context = np.searchsorted(np.cumsum(world.frequency), rng.random(n) * (1 - 1e-12))
    share = world.shares[batch]
    action = np.minimum(np.searchsorted(np.cumsum(share), rng.random(n)), len(share) - 1)
    click = rng.random(n) < world.click[context, action]
    return {
        "id": np.arange(first, first + n, dtype=np.int64),
        "context": context,
        "action": action,
        "click": click.astype(np.int8),
        "p": share[action],
    }


def arrow_table(world: Campaign, batch: int, columns: dict[str, Any]) -> Any:
    import pyarrow as pa

    n = len(columns["id"])
    data = {
        "id": pa.array(columns["id"]),
        "campaign": pa.array(np.full(n, world.number, dtype=np.int32)),
        "batch": pa.array(np.full(n, batch, dtype=np.int32)),
    }
    for j, (name, levels) in enumerate(LEVELS.items()):
        codes = world.codes[columns["context"], j].astype(np.int32)
        data[name] = pa.DictionaryArray.from_arrays(codes, [f"{name}{v}" for v in range(levels)])
    names = labels(world.click.shape[1])
    data["ad"] = pa.DictionaryArray.from_arrays(columns["action"].astype(np.int32), names)
    data["click"] = pa.array(columns["click"])
    data["p"] = pa.array(columns["p"])
    return pa.table(data)


def write(
    folder: Path,
    *,
    rows: int = ROWS,
    campaigns: int = 4,
    contexts: int = 30_000,
    actions: int = 55,
    batches: int = 28,
    seed: int = 0,
) -> list[Campaign]:
    """Write the log unless it is there already, and return its campaigns' worlds."""
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    worlds = []
    sizes = np.full(campaigns * batches, rows // (campaigns * batches))
    sizes[: rows - int(sizes.sum())] += 1
    starts = np.concatenate([[0], np.cumsum(sizes)])
    for c in range(campaigns):
        world = make_campaign(c, contexts=contexts, actions=actions, batches=batches, seed=seed)
        worlds.append(world)
        path = folder / f"campaign{c}.parquet"
        if path.exists():
            continue
        partial = path.with_suffix(".partial")
        rng = np.random.default_rng([seed, c, 1])
        writer = None
        for b in range(batches):
            at = c * batches + b
            columns = batch_columns(world, b, int(sizes[at]), int(starts[at]), rng)
            table = arrow_table(world, b, columns)
            if writer is None:
                writer = pq.ParquetWriter(partial, table.schema)
            writer.write_table(table)
        assert writer is not None
        writer.close()
        partial.rename(path)
    return worlds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--contexts", type=int, default=30_000)
    parser.add_argument("--actions", type=int, default=55)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    start = time.perf_counter()
    worlds = write(args.folder, rows=args.rows, contexts=args.contexts, actions=args.actions, seed=args.seed)
    size = sum(f.stat().st_size for f in args.folder.glob("*.parquet"))
    print(f"{args.rows:,} rows, {size / 1e6:,.0f} MB, {time.perf_counter() - start:.1f} s")
    for world in worlds:
        logged = float(world.frequency @ (world.click @ world.shares.mean(axis=0)))
        print(f"campaign {world.number}: target {world.truth:.6f}, logging about {logged:.6f}")


if __name__ == "__main__":
    main()
