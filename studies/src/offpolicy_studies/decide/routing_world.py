"""Prompts that two language models answered, logs of a router among them, and how little error could be left."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy_studies.decide.sets import PROMPT_FILE

if TYPE_CHECKING:
    from pathlib import Path

    from offpolicy_studies.arrays import Floats, Ints

MODELS = ("small", "large")
OUTCOMES = ("mistralai_mixtral_8x7b_instruct_v0_1", "gpt_4_1106_preview")
#: Price of an answer, in thousandths, per thousand characters of the prompt.
PRICES = (0.6, 10.0)
CONTEXT = ["domain", "characters", "words", "digits", "question_marks"]
LONG, LONGER, HARD = 400, 200, 0.6


@dataclass(frozen=True)
class Cell:
    """A kind of log."""

    folder: Path
    rows: int
    exploration: float
    more: float
    task: str


@dataclass(frozen=True, eq=False)
class Prompts:
    """All prompts: context, both outcomes, where the log sends them, and what targets do."""

    frame: Any
    outcomes: Floats
    routed: Ints
    targets: dict[str, Ints]

    def value(self, target: str) -> float:
        """Exact quality of a target."""
        return float(self.outcomes[np.arange(len(self.routed)), self.targets[target]].mean())


@lru_cache(maxsize=2)
def prompts(folder: Path) -> Prompts:
    """Read the prompts."""
    import pandas as pd

    frame = pd.read_csv(folder / PROMPT_FILE)
    right = frame[list(OUTCOMES)].to_numpy(dtype=np.float64)
    characters = frame["characters"].to_numpy()
    # Domains are judged by every second prompt, as one would from an earlier week.
    weak = frame.iloc[::2].groupby("domain")[OUTCOMES[0]].mean()
    hard = frame["domain"].isin(weak.index[weak < HARD]).to_numpy()
    targets = {
        "large for all": np.ones(len(frame), dtype=np.int64),
        "large for longer": (characters > LONGER).astype(np.int64),
        "large where hard": hard.astype(np.int64),
    }
    return Prompts(frame[CONTEXT], right, (characters > LONG).astype(np.int64), targets)


def draw(cell: Cell, rows: int, exploration: float, rng: np.random.Generator) -> tuple[op.BanditLog, dict[str, Floats]]:
    """A log and what the targets do in it."""
    known = prompts(cell.folder)
    at = rng.integers(len(known.routed), size=rows)
    large = (1 - exploration) * known.routed[at] + exploration / 2
    action = (rng.random(rows) < large).astype(np.int64)
    frame = known.frame.iloc[at].reset_index(drop=True)
    frame = frame.assign(
        model=np.array(MODELS)[action],
        propensity=np.where(action == 1, large, 1 - large),
        quality=known.outcomes[at, action],
    )
    log = op.BanditLog.from_frame(
        frame, context=CONTEXT, action="model", reward="quality", propensity="propensity", actions=list(MODELS)
    )
    return log, {name: np.eye(2)[choice[at]] for name, choice in known.targets.items()}


def least_error(folder: Path, exploration: float) -> dict[str, float]:
    """{target: standard error of DML over IPW's}, with a model that knows how often each is right in each domain.

    "together" is the root of the sum of the targets' variances over that of IPW's. No log tells so much: the
    domains' rates are taken from all prompts, more than any model of a log can learn of them.
    """
    known = prompts(folder)
    right, n = known.outcomes, len(known.routed)
    large = (1 - exploration) * known.routed + exploration / 2
    pi_b = np.column_stack([1 - large, large])
    domains = known.frame["domain"].to_numpy()
    rates = [known.frame.assign(right=right[:, a]).groupby("domain")["right"].mean() for a in (0, 1)]
    q = np.column_stack([rate.loc[domains].to_numpy() for rate in rates])
    found, sums = {}, np.zeros(2)
    for name, choice in known.targets.items():
        pi_e = np.eye(2)[choice]
        variances = []
        for model in (q, np.zeros((n, 2))):
            score = (pi_e * model).sum(axis=1, keepdims=True) + pi_e / pi_b * (right - model)
            mean = (pi_b * score).sum() / n
            variances.append((pi_b * (score - mean) ** 2).sum())
        found[name] = float(np.sqrt(variances[0] / variances[1]))
        sums += variances
    return {**found, "together": float(np.sqrt(sums[0] / sums[1]))}
