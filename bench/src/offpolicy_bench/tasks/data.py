"""Public data with all outcomes known: classification sets as bandits, prompts that two language models answered."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path  # noqa: TC003
from typing import TYPE_CHECKING

import numpy as np

from offpolicy_bench.task import Drawn, Floats, Ints, Task, sample, softmax

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = {
    "ecoli": ("uci/ecoli.data", "008bd8fbb1d8b34040c3c8c4e987cac2a7ebf116e008b140cc6441be5261ba1d"),
    "glass": ("uci/glass.data", "dd67373f4baf2807345df02cbfef2093d342e61ad0d82a4fb79af43ef8ce449d"),
    "pendigits": ("uci/pendigits.data", "e9a6af17a84b09dee8d5c0b2b1fc3df5aaceab3c6fa188ec935984bd733f2d68"),
    "vehicle": ("uci/vehicle.csv", "878ff318ca76e840168027b15c6a3760d47e54860ebf0ccd06a590fceeed8f42"),
    "page-blocks": ("uci/page-blocks.data", "52058b6e19ba797b5e80ae6454ebb3b7a25016787e668dd3203393c236d22c78"),
}
#: Sets whose first column is the name of the row.
NAMED = ("ecoli", "glass")
PROMPTS = ("router/router_mmlu.csv.gz", "44d8e9b112856bcd969cc302654392166b8459569510d10a1a3a0e80324adbd3")
TEMPERATURES = {"strong": 10.0, "weak": -10.0}


@lru_cache(maxsize=8)
def read(path: Path, *, named: bool = False) -> tuple[Floats, Ints]:
    """Features and label codes; the label is the last column, and the name of a row is no feature."""
    cells = [line.replace(",", " ").split() for line in path.read_text().splitlines() if line.strip()]
    X = np.array([row[int(named) : -1] for row in cells], dtype=np.float64)
    return X, np.unique([row[-1] for row in cells], return_inverse=True)[1].astype(np.int64)


def _softened(X: Floats, y: Ints, at: Floats, k: int, rng: np.random.Generator) -> Floats:
    """(m, K) probabilities by a logistic model of a bootstrap sample, one row at 0 added for each label."""
    from sklearn.linear_model import LogisticRegression

    drawn = rng.integers(len(y), size=len(y))
    features = np.concatenate([np.zeros((k, X.shape[1])), X[drawn]])
    labels = np.concatenate([np.arange(k), y[drawn]])
    model = LogisticRegression(solver="newton-cholesky", max_iter=1_000).fit(features, labels)
    return np.asarray(model.predict_proba(at))


def _choice(name: str, strength: str) -> Callable[[int, int, np.random.Generator, Path], Drawn]:
    def draw(rows: int, index: int, rng: np.random.Generator, data: Path) -> Drawn:  # noqa: ARG001
        X, y = read(data / FILES[name][0], named=name in NAMED)
        k = int(y.max()) + 1
        order = rng.permutation(len(y))
        here, training = order[: len(y) // 2][:rows], order[len(y) // 2 :]
        chances = [_softened(X[training], y[training], X[here], k, rng) for _ in range(2)]
        pi_b, pi_e = softmax(chances[0]), softmax(TEMPERATURES[strength] * chances[1])
        action, each = sample(pi_b, rng), np.arange(len(here))
        arrays = {
            "context": X[here],
            "action": action,
            "reward": (action == y[here]).astype(np.float64),
            "target": pi_e,
            "propensity": pi_b[each, action],
        }
        return Drawn(arrays, float(pi_e[each, y[here]].mean()))

    return draw


@lru_cache(maxsize=1)
def prompts(path: Path) -> tuple[Floats, Floats, Ints, Ints]:
    """Context, both outcomes, where the log sends a prompt by default, and where the target does."""
    import pandas as pd

    frame = pd.read_csv(path)
    right = frame[["mistralai_mixtral_8x7b_instruct_v0_1", "gpt_4_1106_preview"]].to_numpy(dtype=np.float64)
    numbers = np.log1p(frame[["characters", "words", "digits", "question_marks"]].to_numpy(dtype=np.float64))
    numbers = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    domain = pd.get_dummies(frame["domain"]).to_numpy(dtype=np.float64)
    characters = frame["characters"].to_numpy()
    return (
        np.column_stack([numbers, domain]),
        right,
        (characters > 400).astype(np.int64),
        (characters > 200).astype(np.int64),
    )


def _draw_routing(rows: int, index: int, rng: np.random.Generator, data: Path) -> Drawn:  # noqa: ARG001
    x, right, routed, target = prompts(data / PROMPTS[0])
    at = rng.integers(len(routed), size=rows)
    pi = 0.9 * np.eye(2)[routed[at]] + 0.05
    action = sample(pi, rng)
    arrays = {
        "context": x[at],
        "action": action,
        "reward": right[at, action],
        "target": np.eye(2)[target[at]],
        "propensity": pi[np.arange(rows), action],
    }
    return Drawn(arrays, float(right[np.arange(len(routed)), target].mean()))


def _choice_task(name: str, strength: str, rows: dict[str, int]) -> Task:
    file, digest = FILES[name]
    return Task(
        f"choice-{name}-{strength}",
        f"Choice: {name}, {strength} target",
        "bandit",
        "The protocol of Cief, Kompan and Kveton (AAAI 2025): two logistic models of bootstrap samples, softmax with "
        f"temperature 1 logs, with {TEMPERATURES[strength]:+.0f} it is the target; the value is that on the logged "
        "contexts; propensities logged.",
        rows,
        _choice(name, strength),
        (file,),
        (digest,),
    )


TASKS = (
    *(_choice_task("ecoli", s, {"quick": 168, "full": 168}) for s in TEMPERATURES),
    *(_choice_task("glass", s, {"quick": 107, "full": 107}) for s in TEMPERATURES),
    *(_choice_task("vehicle", s, {"quick": 423, "full": 423}) for s in TEMPERATURES),
    *(_choice_task("pendigits", s, {"quick": 1_500, "full": 5_496}) for s in TEMPERATURES),
    *(_choice_task("page-blocks", s, {"quick": 1_500, "full": 2_736}) for s in TEMPERATURES),
    Task(
        "routing",
        "Routing among language models",
        "bandit",
        "14,042 MMLU prompts and whether each of two models answered right; long prompts go to the large one, 10% at "
        "random; the target calls long what the log does not; propensities logged.",
        {"quick": 2_000, "full": 4_000},
        _draw_routing,
        (PROMPTS[0],),
        (PROMPTS[1],),
    ),
)
