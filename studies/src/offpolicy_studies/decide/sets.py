"""Ten classification sets as bandits, with policies that know the labels.

Five are UCI files (the folder of the study `uci`), four come with scikit-learn, and one is the domain of a prompt told
from its length features (the folder of the study `routing`). The reward of the right label is 1, of any other 0, and
it is flipped with a given probability; a policy's value is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

import offpolicy as op
from offpolicy.errors import UsageError, did_you_mean
from offpolicy_studies import uci_bandits
from offpolicy_studies.folder import locate
from offpolicy_studies.sampling import sample

if TYPE_CHECKING:
    from pathlib import Path

    from offpolicy_studies.arrays import Floats, Ints

BUNDLED = ("iris", "wine", "breast-cancer", "digits")
PROMPTS = "mmlu-domains"
SETS = (*uci_bandits.SETS, *BUNDLED, PROMPTS)
PROMPT_FILE = "router_mmlu.csv.gz"


@dataclass(frozen=True)
class Folders:
    """Where the files are; None where no set needs them."""

    uci: Path | None
    router: Path | None

    @classmethod
    def of(cls, data: Path | None, sets: tuple[str, ...]) -> Folders:
        """Find the folders that some sets need."""
        for name in sets:
            if name not in SETS:
                raise UsageError(f"no data set is called {name!r}.{did_you_mean(name, SETS)}")
        uci = router = None
        if set(sets) & set(uci_bandits.SETS):
            uci = locate(data, ["uci"], ["ecoli.data"], "archive.ics.uci.edu")
        if PROMPTS in sets:
            router = router_folder(data)
        return cls(uci, router)


def router_folder(data: Path | None) -> Path:
    """Where the prompts with both models' outcomes are."""
    return locate(data, ["router"], [PROMPT_FILE], "github.com/lm-sys/RouteLLM")


@lru_cache(maxsize=16)
def read(folders: Folders, name: str) -> tuple[Floats, Ints]:
    """Standardized features and label codes."""
    if name in BUNDLED:
        from sklearn import datasets

        X, y = getattr(datasets, f"load_{name.replace('-', '_')}")(return_X_y=True)
    elif name == PROMPTS:
        import pandas as pd

        assert folders.router is not None
        table = pd.read_csv(folders.router / PROMPT_FILE)
        X = table[["characters", "words", "digits", "question_marks"]].to_numpy(dtype=np.float64)
        y = np.unique(table["domain"].to_numpy(dtype=str), return_inverse=True)[1]
    else:
        assert folders.uci is not None
        X, y = uci_bandits.read(folders.uci, name)
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), np.asarray(y, dtype=np.int64)


def knowing(label: Ints, k: int, temperature: float, faulty: tuple[int, ...] = ()) -> Floats:
    """(m, K) softmax that prefers the label, or the next one where the label is among the faulty.

    >>> knowing(np.array([0, 1]), 3, 0.2, faulty=(0,)).argmax(axis=1).tolist()
    [1, 1]
    """
    liked = np.where(np.isin(label, faulty), label + 1, label) % k
    e = np.exp(np.eye(k)[liked] / temperature)
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def value(policy: Floats, label: Ints, noise: float) -> float:
    """Exact value: the right label earns 1 − noise, any other noise."""
    right = policy[np.arange(len(label)), label]
    return float(((1 - noise) * right + noise * (1 - right)).mean())


@dataclass(frozen=True, eq=False)
class Drawn:
    """One log of rows drawn with replacement."""

    rows: Ints
    action: Ints
    reward: Floats
    propensity: Floats

    def log(self, context: Floats | None, k: int) -> op.BanditLog:
        """As the library takes it."""
        table = None if context is None else context[self.rows]
        return op.BanditLog.from_arrays(table, self.action, self.reward, self.propensity, actions=range(k))


def draw(logging: Floats, label: Ints, noise: float, n: int, rng: np.random.Generator) -> Drawn:
    """Rows, actions of the logging policy, and rewards of which some are flipped."""
    rows = rng.integers(len(label), size=n)
    p = logging[rows]
    action = sample(p, rng)
    right = action == label[rows]
    reward = np.where(rng.random(n) < noise, ~right, right).astype(np.float64)
    return Drawn(rows, action, reward, p[np.arange(n), action])
