"""Public data with all outcomes known: classification sets as bandits, prompts that two language models answered."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path  # noqa: TC003
from typing import TYPE_CHECKING

import numpy as np

from offpolicy_bench.task import Drawn, Floats, Ints, Task, sample, softmax

if TYPE_CHECKING:
    from collections.abc import Callable

#: Files of a set, which are read one after the other, each with its digest.
FILES = {
    "ecoli": {"uci/ecoli.data": "b80df9dcfe7d06add9d614af2bee885584d464bd8bdc0a46527928bf9bd267c4"},
    "glass": {"uci/glass.data": "e760b625312601515aa93ec8681e2f0f7e7f82fb91a24b57e66b1c4074dac535"},
    "letter": {"uci/letter-recognition.data": "e6957fa840558221f052b11c08177ce385059212548948a671537d58cd532862"},
    "optdigits": {
        "uci/optdigits.tra": "268c4fe4cec488243253830d811d6fff0cc068e54fee9c229f1297ce365c45ad",
        "uci/optdigits.tes": "63e266dec490e75ef6c22e592ba8e509f5cd6d9536f6a3c84547c959afa1f82a",
    },
    "page-blocks": {"uci/page-blocks.data": "dc072a7e33f170d4cb4cceffdafe760c0778fdc61ef2ed8430814221ca99d990"},
    "pendigits": {"uci/pendigits.data": "a2d8cbeaccfe89ff874edae80f75a10ddab06935dbe4b794681513af2cf17cae"},
    "satimage": {
        "uci/sat.trn": "05711db5dbfee0c30a68bfef771ecea7d86aaf0b610ff63367bf1f2317a47c80",
        "uci/sat.tst": "50589d7ad113b7c128fbec274516d3ef7f4516767850f3e3ee5fa9cd47f8a94c",
    },
    "vehicle": {"uci/vehicle.csv": "717fab615a24479b264200480a1954b77c4dc722df37f86d63a3da424b27717e"},
    "yeast": {"uci/yeast.data": "d59305c2e20130b92cd2c9c55b9c448d3bf161b39458d40a79fa3af0d879b720"},
}
#: Sets whose first column is the name of the row, and those whose first column is the label.
NAMED, LABEL_FIRST = ("ecoli", "glass", "yeast"), ("letter",)
PROMPTS = ("router/router_mmlu.csv.gz", "44d8e9b112856bcd969cc302654392166b8459569510d10a1a3a0e80324adbd3")
TEMPERATURES = {"strong": 10.0, "weak": -10.0}


@lru_cache(maxsize=8)
def read(data: Path, name: str) -> tuple[Floats, Ints]:
    """Features and label codes of a set; the name of a row is no feature."""
    lines = [line for file in FILES[name] for line in (data / file).read_text().splitlines() if line.strip()]
    cells = [line.replace(",", " ").split() for line in lines]
    label, features = (0, slice(1, None)) if name in LABEL_FIRST else (-1, slice(int(name in NAMED), -1))
    X = np.array([row[features] for row in cells], dtype=np.float64)
    return X, np.unique([row[label] for row in cells], return_inverse=True)[1].astype(np.int64)


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
        X, y = read(data, name)
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
    return Task(
        f"choice-{name}-{strength}",
        f"Choice: {name}, {strength} target",
        "bandit",
        "The protocol of Cief, Kompan and Kveton (AAAI 2025): two logistic models of bootstrap samples, softmax with "
        f"temperature 1 logs, with {TEMPERATURES[strength]:+.0f} it is the target; the value is that on the logged "
        "contexts; propensities logged.",
        rows,
        _choice(name, strength),
        tuple(FILES[name]),
        tuple(FILES[name].values()),
    )


#: Half of each set is logged; at the quick size at most 1,500 rows of it.
LOGGED = {
    "ecoli": 168, "glass": 107, "letter": 10_000, "optdigits": 2_810, "page-blocks": 2_736, "pendigits": 5_496,
    "satimage": 3_217, "vehicle": 423, "yeast": 742,
}  # fmt: skip

TASKS = (
    *(
        _choice_task(name, strength, {"quick": min(rows, 1_500), "full": rows})
        for name, rows in LOGGED.items()
        for strength in TEMPERATURES
    ),
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
