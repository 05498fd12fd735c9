"""Files of a run; a data set's arrays are written whole or not at all.

OUT/manifest.json               what was asked for; another request in the same folder is refused
OUT/<policy>.safetensors        evaluation policies
OUT/truth-<policy>.json         their true values
OUT/arrays/<cell>/r007.npz      one data set: log and nuisances, the input of the estimators
OUT/estimates/<cell>.jsonl      one line per data set
OUT/timing.jsonl                one line per block: seconds by phase, frames, memory
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from offpolicy.testing import written_whole

if TYPE_CHECKING:
    from pathlib import Path


def cell_name(policy: str, epsilon: float, folds: int) -> str:
    """Name one cell of the study.

    >>> cell_name("short", 0.05, 2)
    'short-e0.050-k2'
    """
    return f"{policy}-e{epsilon:.3f}-k{folds}"


def arrays_path(out: Path, cell: str, replication: int) -> Path:
    """Return where a data set's arrays lie."""
    return out / "arrays" / cell / f"r{replication:03d}.npz"


def save_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write a data set's arrays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as part:
        np.savez_compressed(part, **arrays)  # type: ignore[arg-type]


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read a data set's arrays; nothing is unpickled."""
    with np.load(path, allow_pickle=False) as data:
        return {name: data[name] for name in data.files}


def estimates_path(out: Path, cell: str) -> Path:
    """Return where a cell's estimates lie."""
    return out / "estimates" / f"{cell}.jsonl"
