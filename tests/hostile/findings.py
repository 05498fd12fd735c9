"""The log that the findings are about: 300 rows; the policy always takes b, and by IPW it is worth 0.6."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

import offpolicy as op
from offpolicy.cli import main

if TYPE_CHECKING:
    from pathlib import Path

SHARES = {"a": 0.5, "b": 0.3, "c": 0.2}
TRUTH = 0.6
ROLES: dict[str, Any] = {"context": ["x"], "action": "ad", "reward": "click", "propensity": "p"}
FLAGS = ["--context", "x", "--action", "ad", "--reward", "click", "--propensity", "p"]


def sound() -> pd.DataFrame:
    """The log as it should be."""
    rng = np.random.default_rng(42)
    x = np.round(rng.normal(size=300), 3)
    rng.choice(["nl", "de", "fr"], 300)
    ad = rng.choice(list(SHARES), 300, p=list(SHARES.values()))
    click = (rng.random(300) < np.where(ad == "b", 0.6, 0.3)).astype(int)
    return pd.DataFrame({"x": x, "ad": ad, "click": click, "p": [SHARES[a] for a in ad]})


FRAME = sound()


def always_b(context: Any) -> Any:
    """The policy."""
    return np.array(["b"] * len(context), dtype=object)


def value(log: Any, policy: Any = always_b) -> float:
    """What IPW says the policy is worth."""
    return float(op.evaluate(log, policy, estimators=["IPW"])["policy", "IPW"].value)


def scanned(source: Any, policy: Any = always_b, **roles: Any) -> float:
    """The same behind an engine."""
    with op.scan(source, **{**ROLES, **roles}) as log:
        return value(log, policy)


def told(folder: Path, log: Any, *words: str, spec: str = "always:b") -> float:
    """The same by the command line, which must end with 0."""
    import json

    out = folder / "told.json"
    policy = ["--policy", f"policy={spec}"]
    code = main(["evaluate", str(log), *FLAGS, *policy, "--estimator", "IPW", "--json", str(out), *words])
    assert code == 0
    result = json.loads(out.read_text())
    (row,) = [r for r in result["estimates"] if (r["policy"], r["estimator"]) == ("policy", "IPW")]
    return float(row["value"])
