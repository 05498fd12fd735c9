"""Files of a run, written so that a kill at any moment leaves either the whole file or none.

OUT/manifest.json               what was asked for; another request in the same folder is refused
OUT/<policy>.safetensors        evaluation policies
OUT/truth-<policy>.json         their true values
OUT/arrays/<cell>/r007.npz      one data set: log and nuisances, the input of the estimators
OUT/estimates/<cell>.jsonl      one line per data set
OUT/timing.jsonl                one line per block: seconds by phase, frames, memory
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


def cell_name(policy: str, epsilon: float, folds: int) -> str:
    """Name one cell of the study.

    >>> cell_name("short", 0.05, 2)
    'short-e0.050-k2'
    """
    return f"{policy}-e{epsilon:.3f}-k{folds}"


def write_json(path: Path, value: Any) -> None:
    """Write ``value`` through a temporary file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(path.suffix + ".partial")
    text = json.dumps(finite(value), indent=1, allow_nan=False)
    partial.write_text(text + "\n", encoding="utf-8")
    partial.replace(path)


def finite(value: Any) -> Any:
    """Replace what JSON has no number for (an estimate that is not defined) by null.

    >>> finite({"a": [1.0, float("nan")]})
    {'a': [1.0, None]}
    """
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def claim(path: Path, wanted: dict[str, Any]) -> dict[str, Any]:
    """Write the manifest, or check that the folder's manifest asks for the same; return it."""
    wanted = json.loads(json.dumps(wanted))
    if not path.exists():
        if "settings" not in wanted:
            raise UsageError(
                f"{path.parent} holds no arrays to estimate from. Run the stage 'all' first."
            )
        write_json(path, wanted)
        return wanted
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    differs = sorted(key for key in wanted if wanted[key] != found.get(key))
    if differs:
        key = differs[0]
        raise UsageError(
            f"{path.parent} holds a run with {key} = {found.get(key)!r}, now {wanted.get(key)!r}. "
            "Choose another --out, or repeat the request as it was to continue it."
        )
    return found


def arrays_path(out: Path, cell: str, replication: int) -> Path:
    """Return where a data set's arrays lie."""
    return out / "arrays" / cell / f"r{replication:03d}.npz"


def save_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write a data set's arrays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial.npz")
    np.savez_compressed(partial, **arrays)  # type: ignore[arg-type]
    partial.replace(path)


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read a data set's arrays; nothing is unpickled."""
    with np.load(path, allow_pickle=False) as data:
        return {name: data[name] for name in data.files}


def append_line(path: Path, value: Any) -> None:
    """Add one JSON line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(value) + "\n")


def read_lines(path: Path) -> list[Any]:
    """Read the JSON lines; a last line cut off by a kill is dropped from the file."""
    if not path.exists():
        return []
    whole, kept = [], []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            whole.append(json.loads(line))
        except json.JSONDecodeError:
            break
        kept.append(line)
    path.write_text("".join(line + "\n" for line in kept), encoding="utf-8")
    return whole
