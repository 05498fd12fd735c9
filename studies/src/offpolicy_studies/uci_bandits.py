"""Classification sets as bandits: the action is a label, the reward is 1 where it is the right one.

All labels are known, so a policy's value on a pool of rows is exact: E[π(Y | X)]. A replication draws rows
of the pool with replacement (independent units, as estimators assume) and an action for each from the
logging policy. Policies are trained once, on rows outside the pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

import offpolicy as op
from offpolicy.errors import UsageError, did_you_mean
from offpolicy_studies.sampling import sample

if TYPE_CHECKING:
    from pathlib import Path

    from offpolicy_studies.arrays import Floats, Ints

SETS = ("ecoli", "glass", "page-blocks", "pendigits", "vehicle")
#: Files of a set, which are read one after the other; ``vehicle`` has every feature between −1 and 1.
FILES: dict[str, tuple[str, ...]] = {
    "ecoli": ("ecoli.data",),
    "glass": ("glass.data",),
    "letter": ("letter-recognition.data",),
    "optdigits": ("optdigits.tra", "optdigits.tes"),
    "page-blocks": ("page-blocks.data",),
    "pendigits": ("pendigits.data",),
    "satimage": ("sat.trn", "sat.tst"),
    "vehicle": ("vehicle.csv",),
    "vehicle-raw": tuple(f"xa{part}.dat" for part in "abcdefghi"),
    "yeast": ("yeast.data",),
}
WITH_ID = {"ecoli", "glass", "yeast"}
LABEL_FIRST = {"letter"}
LOGGING = ("uniform", "skewed", "adverse")
TARGETS = ("greedy", "soft")
TRAINING = 0.3
EXPLORATION = 0.2


@dataclass(frozen=True, eq=False)
class Pool:
    """One data set as a bandit: rows to draw from, and policies as tables over them.

    Attributes
    ----------
    context : (m, d) array
    label : (m,) int array
    logging, targets : {name: (m, K) array}
    """

    context: Floats
    label: Ints
    logging: dict[str, Floats]
    targets: dict[str, Floats]

    @property
    def n_actions(self) -> int:
        """Number of labels."""
        return int(self.targets["greedy"].shape[1])

    def value(self, target: str) -> float:
        """Exact value of a target: how often it names the right label."""
        return float(self.targets[target][np.arange(len(self.label)), self.label].mean())

    def draw(self, logging: str, size: int, rng: np.random.Generator) -> tuple[op.BanditLog, dict[str, Floats]]:
        """A log of ``size`` independent rows, and the targets' probabilities in them."""
        rows = rng.integers(len(self.label), size=size)
        p = self.logging[logging][rows]
        action = sample(p, rng)
        log = op.BanditLog.from_arrays(
            self.context[rows],
            action,
            (action == self.label[rows]).astype(np.float64),
            p[np.arange(size), action],
            actions=range(self.n_actions),
        )
        return log, {name: table[rows] for name, table in self.targets.items()}


@lru_cache(maxsize=16)
def files(folder: Path, name: str) -> list[Path]:
    """Files of a data set."""
    return [folder / file for file in FILES[name]]


def read(folder: Path, name: str) -> tuple[Floats, Ints]:
    """Features and label codes of a data set."""
    if name not in FILES:
        raise UsageError(f"no data set is called {name!r}.{did_you_mean(name, FILES)}")
    lines = [line for file in files(folder, name) for line in file.read_text().splitlines()]
    cells = [line.replace(",", " ").split() for line in lines if line.strip()]
    label = 0 if name in LABEL_FIRST else -1
    inside = slice(1, None) if name in LABEL_FIRST else slice(int(name in WITH_ID), -1)
    X = np.array([row[inside] for row in cells], dtype=np.float64)
    return X, np.unique([row[label] for row in cells], return_inverse=True)[1].astype(np.int64)


@lru_cache(maxsize=8)
def make_pool(folder: Path, name: str, seed: int) -> Pool:
    """Split a data set, train the policies on one part, and keep the other as the pool.

    * ``greedy``: the label a logistic model finds likeliest; ``soft``: its probabilities.
    * ``uniform`` logging: every label alike; ``skewed``: another logistic model, which sees every second
      feature only, as probabilities, mixed with 20% exploration; ``adverse``: the same model's
      probabilities of the *next* label, so that logging and target seldom agree.
    """
    if name not in SETS:
        raise UsageError(f"no pool is made of {name!r}.{did_you_mean(name, SETS)}")
    X, y = read(folder, name)
    k = int(y.max()) + 1
    rng = np.random.default_rng([seed, SETS.index(name)])
    order = rng.permutation(len(y))
    cut = round(TRAINING * len(y))
    train, pool = order[:cut], order[cut:]
    scale = X[train].std(axis=0)
    X = (X - X[train].mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    soft = _logistic(X[train], y[train], X[pool], k)
    greedy = np.eye(k)[soft.argmax(axis=1)]
    other = _logistic(X[train][:, ::2], y[train], X[pool][:, ::2], k)
    uniform = np.full((len(pool), k), 1 / k)
    logging = {
        "uniform": uniform,
        "skewed": (1 - EXPLORATION) * other + EXPLORATION * uniform,
        "adverse": (1 - EXPLORATION) * np.roll(other, 1, axis=1) + EXPLORATION * uniform,
    }
    return Pool(X[pool], y[pool], logging, {"greedy": greedy, "soft": soft})


def _logistic(X: Floats, y: Ints, at: Floats, k: int) -> Floats:
    """(m, K) probabilities; a label without training rows has probability 0."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(max_iter=1000).fit(X, y)
    out = np.zeros((len(at), k))
    out[:, model.classes_] = model.predict_proba(at)
    return out
