"""`offpolicy reproduce learned-policies`: policies judged by the rows they were learned from, and by others.

Usual learners are fitted to the rewards of a log and act greedily. Each is judged by the log it was fitted to ("own
rows") and, fitted to another log of the same world, by this one ("other rows"), beside rules that nobody learned. On
its own rows a policy should not be trusted where its interval misses the truth; on other rows the check
`learned_from_log` should be silent. `evaluate` has its defaults.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path  # noqa: TC003  (the command line reads the types of Args)
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy_studies.folder import write_results
from offpolicy_studies.monte_carlo import share, simulate
from offpolicy_studies.names import chosen
from offpolicy_studies.sampling import sample

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy_studies.arrays import Floats, Ints

    Learner = Callable[[Floats, Ints, Floats, int], Callable[[Floats], Floats]]

QUICK = 3
CHECK = "learned_from_log"
USERS = 120
OWN, OTHER, RULE = "own rows", "other rows", "rule"


@dataclass(frozen=True)
class Args:
    """Options of the study of learned policies."""

    replications: int = 50
    """Logs of each world."""
    rows: int = 2000
    """Rows of a log; digits have fewer."""
    worlds: tuple[str, ...] = ()
    """Names of worlds, or beginnings of names; all when empty."""
    quick: bool = False
    """Three logs of each world."""
    seed: int = 0
    """Seed of everything."""
    workers: int = 0
    """Processes; 0 takes one for each core."""
    out: Path | None = None
    """Folder for finished logs (which makes a run resumable), results.json and table.md."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """A log with what a world knows of it: contexts (users last, where there are any), π_b, mean rewards, outcomes."""

    context: Floats
    behavior: Floats
    means: Floats
    action: Ints
    reward: Floats


def _softmax(z: Floats) -> Floats:
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(z / z.sum(axis=1, keepdims=True))


def _clicks(rng: np.random.Generator, context: Floats, behavior: Floats, means: Floats) -> Drawn:
    action = sample(behavior, rng)
    clicked = rng.random(len(action)) < _taken(means, action)
    return Drawn(context, behavior, means, action, clicked.astype(np.float64))


def _taken(table: Floats, action: Ints) -> Floats:
    return np.asarray(table[np.arange(len(action)), action])


def _nothing(rng: np.random.Generator, n: int) -> Drawn:
    return _clicks(rng, rng.normal(size=(n, 5)), np.full((n, 4), 0.25), np.full((n, 4), 0.15))


def _smooth(rng: np.random.Generator, n: int) -> Drawn:
    x = rng.normal(size=(n, 4))
    means = 0.1 + 0.3 / (1 + np.exp(-x[:, :3]))
    return _clicks(rng, x, _softmax(0.5 * x[:, 1:]), means)


def _waves(rng: np.random.Generator, n: int) -> Drawn:
    x = rng.uniform(-2, 2, (n, 3))
    means = 0.3 + 0.15 * np.sin(2.5 * x @ np.array([[1.0, 0.5, 0, -1], [0, 1, 0.5, 0.5], [0.5, 0, 1, 0]]))
    return _clicks(rng, x, _softmax(0.4 * x @ np.ones((3, 4)) * [0, 1, 0, 1]), means)


def _linear(rng: np.random.Generator, n: int) -> Drawn:
    x = rng.normal(size=(n, 8))
    means = x @ (0.12 * np.random.default_rng(11).normal(size=(8, 3)))
    behavior = _softmax(0.5 * x[:, :3])
    action = sample(behavior, rng)
    return Drawn(x, behavior, means, action, _taken(means, action) + rng.normal(size=n))


def _users(rng: np.random.Generator, n: int) -> Drawn:
    taste = 0.12 * np.random.default_rng(12).normal(size=(USERS, 3))
    user, x = rng.integers(USERS, size=n), rng.normal(size=(n, 2))
    means = np.clip(0.3 + taste[user] + 0.05 * np.column_stack([x, np.zeros(n)]), 0.02, 0.98)
    return _clicks(rng, np.column_stack([x, user]), np.full((n, 3), 1 / 3), means)


@lru_cache(maxsize=1)
def _images() -> tuple[Floats, Ints]:
    from sklearn.datasets import load_digits

    data = load_digits()
    return data.data / 16.0, data.target


def _digits(rng: np.random.Generator, n: int) -> tuple[Drawn, Drawn]:
    """Handwritten digits: naming the right one earns 1. No digit is in both logs."""
    X, y = _images()
    order = rng.permutation(len(y))
    logs = []
    for rows in np.array_split(order, 2):
        x, right = X[rows[:n]], np.eye(10)[y[rows[:n]]]
        logs.append(_clicks(rng, x, 0.5 / 10 + 0.5 * _softmax(x[:, 20:30]), right))
    return logs[0], logs[1]


def _twice(
    draw: Callable[[np.random.Generator, int], Drawn],
) -> Callable[[np.random.Generator, int], tuple[Drawn, Drawn]]:
    return lambda rng, n: (draw(rng, n), draw(rng, n))


#: Two logs of a world: one to judge by, and other rows to learn from.
WORLDS = {
    "no effect": _twice(_nothing),
    "smooth": _twice(_smooth),
    "waves": _twice(_waves),
    "linear": _twice(_linear),
    "users": _twice(_users),
    "digits": _digits,
}


def _each(make: Callable[[], Any]) -> Learner:
    """One regression for each action."""

    def learn(x: Floats, action: Ints, reward: Floats, k: int) -> Callable[[Floats], Floats]:
        models = [make().fit(x[action == a], reward[action == a]) for a in range(k)]
        return lambda z: np.column_stack([model.predict(z) for model in models])

    return learn


def _together(make: Callable[[], Any]) -> Learner:
    """One regression on context and action."""

    def learn(x: Floats, action: Ints, reward: Floats, k: int) -> Callable[[Floats], Floats]:
        model = make().fit(np.column_stack([x, action]), reward)
        return lambda z: np.column_stack([model.predict(np.column_stack([z, np.full(len(z), a)])) for a in range(k)])

    return learn


def _logistic(x: Floats, action: Ints, reward: Floats, k: int) -> Callable[[Floats], Floats]:
    from sklearn.linear_model import LogisticRegression

    models = [LogisticRegression(max_iter=300).fit(x[action == a], reward[action == a] > 0) for a in range(k)]
    return lambda z: np.column_stack([model.predict_proba(z)[:, 1] for model in models])


def _of_numbers(learner: Learner, world: str) -> Learner:
    """A linear learner, which leaves the number of a user out."""
    if world != "users":
        return learner

    def learn(x: Floats, action: Ints, reward: Floats, k: int) -> Callable[[Floats], Floats]:
        scores = learner(x[:, :-1], action, reward, k)
        return lambda z: scores(z[:, :-1])

    return learn


def _table(x: Floats, action: Ints, reward: Floats, k: int) -> Callable[[Floats], Floats]:
    """The mean of each user and action, drawn to the mean of all."""
    count, total = np.zeros((USERS, k)), np.zeros((USERS, k))
    at = x[:, -1].astype(np.int64), action
    np.add.at(count, at, 1.0)
    np.add.at(total, at, reward)
    means = (total + reward.mean()) / (count + 1)
    return lambda z: np.asarray(means[z[:, -1].astype(np.int64)])


def learners(world: str) -> dict[str, Learner]:
    """Usual learners of a world's rewards."""
    from lightgbm import LGBMRegressor
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.linear_model import Ridge
    from sklearn.neighbors import KNeighborsRegressor
    from sklearn.tree import DecisionTreeRegressor

    return {
        "LightGBM": _together(lambda: LGBMRegressor(verbose=-1, n_jobs=1)),
        "forest": _each(lambda: RandomForestRegressor(30, n_jobs=1, random_state=0)),
        "neighbors": _each(lambda: KNeighborsRegressor(5)),
        "deep tree": _each(lambda: DecisionTreeRegressor(min_samples_leaf=5, random_state=0)),
        "ridge": _of_numbers(_each(Ridge), world),
        "logistic": _of_numbers(_logistic, world),
        **({"lookup by user": _table} if world == "users" else {}),
    }


def _rules(drawn: Drawn, k: int) -> dict[str, Ints]:
    """Policies that nobody learned: of one column, of small squares of two, and the best there is."""
    x, y = drawn.context[:, :2].T
    squares = (np.floor(3 * x) + np.floor(3 * y)).astype(np.int64)
    return {"one column": (x > np.median(x)) * 1, "small squares": squares % k, "the best": drawn.means.argmax(axis=1)}


def _log(world: str, drawn: Drawn) -> op.BanditLog:
    import pandas as pd

    frame = pd.DataFrame(drawn.context, columns=[f"x{j}" for j in range(drawn.context.shape[1])])
    if world == "users":
        frame["x2"] = [f"user {u:.0f}" for u in frame["x2"]]
    names = list(frame.columns)
    p = _taken(drawn.behavior, drawn.action)
    frame = frame.assign(action=drawn.action, reward=drawn.reward, p=p)
    k = drawn.behavior.shape[1]
    return op.BanditLog.from_frame(
        frame, context=names, action="action", reward="reward", propensity="p", actions=range(k)
    )


def replicate(cell: tuple[str, int], rng: np.random.Generator) -> dict[str, list[float]]:
    """One log: for each policy, whether it was refused, trusted, raised by the check, covered, and above the truth."""
    world, n = cell
    drawn, other = WORLDS[world](rng, n)
    k = drawn.behavior.shape[1]
    policies = {f"{RULE}: {name}": codes for name, codes in _rules(drawn, k).items()}
    for name, learn in learners(world).items():
        for rows, seen in ((OWN, drawn), (OTHER, other)):
            scores = learn(seen.context, seen.action, seen.reward, k)(drawn.context)
            policies[f"{rows}: {name}"] = scores.argmax(axis=1)
    ev = op.evaluate(_log(world, drawn), policies, seed=int(rng.integers(2**31)))
    return {name: _numbers(ev, name, float(_taken(drawn.means, codes).mean())) for name, codes in policies.items()}


def _numbers(ev: op.Evaluation, policy: str, truth: float) -> list[float]:
    level, interval = ev.verdict(policy).level, ev[policy].interval()
    raised = ev.diagnostics[policy][CHECK].level != "ok"
    flags = (level == "insufficient evidence", level == "trust", raised, interval.covers(truth), interval.low > truth)
    return [float(flag) for flag in flags]


def reproduce(options: Args) -> dict[str, Any]:
    """Run the study: {"options", "policies": {world: {policy: numbers}}}."""
    names = chosen(options.worlds, WORLDS)
    found = simulate(
        replicate,
        {name: (name, options.rows) for name in names},
        QUICK if options.quick else options.replications,
        seed=options.seed,
        workers=options.workers,
        out=None if options.out is None else options.out / "replications.jsonl",
        settings={"rows": options.rows},
        title="learned policies",
    )
    answer = {
        "options": {"rows": options.rows, "replications": len(next(iter(found.values()))), "seed": options.seed},
        "policies": {world: _summary(logs) for world, logs in found.items()},
    }
    write_results(options.out, answer, show(answer))
    return answer


def _summary(logs: list[dict[str, list[float]]]) -> dict[str, Any]:
    out = {}
    for policy in logs[0]:
        refused, trusted, raised, covers, above = np.array([log[policy] for log in logs], dtype=bool).T
        out[policy] = {
            "raised": share(raised),
            "trusted": share(trusted),
            "covers": share(covers),
            "trusted_and_missed": share(trusted & ~covers),
            "answered_and_above": share(~refused & above),
        }
    return out


def show(result: dict[str, Any]) -> str:
    """One line per world and policy, and one per kind of policy, in Markdown."""
    options = result["options"]
    lines = [
        f"{options['replications']} logs of {options['rows']:,} rows per world; shares of logs, ± a Monte Carlo error.",
        "",
        "| world | policy | raised | trusted | interval holds | trusted and missed | answered, and above the truth |",
        "|---|---|---|---|---|---|---|",
    ]
    columns = ("raised", "trusted", "covers", "trusted_and_missed", "answered_and_above")
    for world, policies in result["policies"].items():
        for policy, numbers in policies.items():
            cells = " | ".join(f"{100 * numbers[c][0]:.0f} ± {100 * numbers[c][1]:.0f}%" for c in columns)
            lines.append(f"| {world} | {policy} | {cells} |")
    lines += ["", "Over all worlds and policies of a kind:", "", "| | raised | trusted and missed |", "|---|---|---|"]
    for kind in (OWN, OTHER, RULE):
        own = [n for world in result["policies"].values() for policy, n in world.items() if policy.startswith(kind)]
        if own:
            raised, missed = (100 * float(np.mean([n[c][0] for n in own])) for c in ("raised", "trusted_and_missed"))
            lines.append(f"| {kind} | {raised:.1f}% | {missed:.1f}% |")
    return "\n".join(lines) + "\n"
