"""What can be wrong with a log: each defect takes a clean case and spoils it in one way."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pandas as pd

from offpolicy_studies.trust.clean import NAMES, Case, Visits, softmax

if TYPE_CHECKING:
    from collections.abc import Callable


class Defect(Protocol):
    """Draws logs that have it."""

    @property
    def seen(self) -> bool:
        """Whether a check can see it at all."""
        ...

    def draw(self, rng: np.random.Generator) -> Case:
        """Draw one log."""
        ...


@dataclass(frozen=True)
class Spoiled:
    """A clean world, and what is done to each of its logs."""

    world: Visits
    spoil: Callable[[Case, np.random.Generator], Case]
    seen: bool = True

    def draw(self, rng: np.random.Generator) -> Case:
        """Draw one log and spoil it."""
        return self.spoil(self.world.draw(rng), rng)


def _with(case: Case, **columns: Any) -> Case:
    return replace(case, frame=case.frame.assign(**columns))


def stale(case: Case, _: np.random.Generator) -> Case:
    """Propensities of an earlier version of the policy: other preferences, same exploration."""
    world = case.policy.world
    x = case.frame[list(NAMES)].to_numpy(dtype=float)
    other = np.random.default_rng(5).standard_normal((4, world.actions))
    p = 0.8 * softmax(0.6 * x @ other) + 0.2 / world.actions
    return _with(case, p=p[np.arange(len(x)), _codes(case)])


def permuted(case: Case, rng: np.random.Generator) -> Case:
    """Propensities joined to the wrong rows."""
    return _with(case, p=rng.permutation(case.frame["p"].to_numpy()))


def noisy(case: Case, rng: np.random.Generator) -> Case:
    """Propensities with multiplicative noise that is not centered: e^{N(0, .5)}, at most 1."""
    p = case.frame["p"].to_numpy()
    return _with(case, p=np.minimum(p * np.exp(0.5 * rng.standard_normal(len(p))), 1.0))


def of_another(case: Case, rng: np.random.Generator) -> Case:
    """In a third of the rows the propensity is that of another action."""
    world = case.policy.world
    x = case.frame[list(NAMES)].to_numpy(dtype=float)
    rows = np.arange(len(x))
    wrong = world._chances(x)[rows, (_codes(case) + 1) % world.actions]  # noqa: SLF001
    return _with(case, p=np.where(rng.random(len(x)) < 1 / 3, wrong, case.frame["p"]))


def exchanged(case: Case, rng: np.random.Generator) -> Case:
    """Two actions whose labels were exchanged in a third of the rows."""
    names = {"arm 00": "arm 01", "arm 01": "arm 00"}
    swap = rng.random(len(case.frame)) < 1 / 3
    label = case.frame["a"]
    return _with(case, a=label.where(~swap, label.replace(names)))


def squared(case: Case, _: np.random.Generator) -> Case:
    """Over-confident propensities: p² of the true ones, renormalized for two actions' worth."""
    p = case.frame["p"].to_numpy()
    return _with(case, p=p**2 / (p**2 + (1 - p) ** 2))


def propensity_in_context(case: Case, _: np.random.Generator) -> Case:
    """The logged action's propensity as a context column."""
    return _with(case, x3=case.frame["p"])


def reward_in_context(case: Case, _: np.random.Generator) -> Case:
    """The reward as a context column."""
    return _with(case, x3=case.frame["r"])


def outcome_in_context(case: Case, rng: np.random.Generator) -> Case:
    """A column that follows from the reward: five labels for one reward."""
    kind = case.frame["r"].astype(int) * 5 + rng.integers(5, size=len(case.frame))
    return _with(case, x3=[f"page {k}" for k in kind])


def action_in_context(case: Case, rng: np.random.Generator) -> Case:
    """The action taken, with some noise, as a context column."""
    return _with(case, x3=_codes(case) + 0.3 * rng.standard_normal(len(case.frame)))


def truncated(case: Case, rng: np.random.Generator) -> Case:
    """Half of the rows without a reward are lost, unsaid."""
    kept = (case.frame["r"].to_numpy() != 0) | (rng.random(len(case.frame)) < 0.5)
    return replace(case, frame=case.frame[kept].reset_index(drop=True))


def lost_arm(case: Case, rng: np.random.Generator) -> Case:
    """Three in ten rows of one action are lost."""
    kept = (case.frame["a"].to_numpy() != "arm 01") | (rng.random(len(case.frame)) < 0.7)
    return replace(case, frame=case.frame[kept].reset_index(drop=True))


def copied(case: Case, rng: np.random.Generator) -> Case:
    """A fifth of the rows comes twice."""
    again = case.frame.sample(frac=0.2, random_state=int(rng.integers(2**31)))
    return replace(case, frame=pd.concat([case.frame, again], ignore_index=True))


def jittered(case: Case, rng: np.random.Generator) -> Case:
    """The same, with noise in one column of the copies."""
    again = case.frame.sample(frac=0.2, random_state=int(rng.integers(2**31)))
    again = again.assign(x2=again["x2"] + 0.01 * rng.standard_normal(len(again)))
    return replace(case, frame=pd.concat([case.frame, again], ignore_index=True))


def late(case: Case, rng: np.random.Generator) -> Case:
    """Rewards of the latest tenth of the batches have arrived in part: 40%."""
    day = case.frame["day"].to_numpy()
    arrived = (day < 0.9 * (day.max() + 1)) | (rng.random(len(day)) < 0.4)
    return _with(case, r=np.where(arrived, case.frame["r"], 0.0))


def rounded(case: Case, _: np.random.Generator) -> Case:
    """Propensities rounded to one decimal."""
    return _with(case, p=np.maximum(np.round(case.frame["p"], 1), 0.1))


def undeclared(case: Case, _: np.random.Generator) -> Case:
    """Nobody says that rows of a user belong together."""
    roles = {k: v for k, v in case.roles.items() if k != "cluster"}
    return replace(case, roles=roles)


@dataclass(frozen=True)
class HiddenCause:
    """Something unseen moves both the action and the reward."""

    known: bool
    randomized: bool = False
    seen: bool = True

    def draw(self, rng: np.random.Generator) -> Case:
        """Draw one log; with ``known`` propensities that leave the cause out were logged."""
        world = Visits(propensity="logged")
        case = world.draw(rng)
        x = case.frame[list(NAMES)].to_numpy(dtype=float)
        n, k = len(x), world.actions
        cause = rng.standard_normal(n)
        told = world._chances(x)  # noqa: SLF001
        drawn = told * np.exp(np.outer(cause, np.linspace(-1.0, 1.0, k)))
        drawn /= drawn.sum(axis=1, keepdims=True)
        from offpolicy_studies.sampling import sample

        action = sample(drawn, rng)
        chance = 1 / (1 + np.exp(0.4 - world._scores(x)[np.arange(n), action] - cause))  # noqa: SLF001
        frame = case.frame.assign(
            a=np.array([f"arm {j:02d}" for j in range(k)])[action],
            r=(rng.random(n) < chance).astype(float),
            p=told[np.arange(n), action],
        )
        roles = dict(case.roles)
        settings: dict[str, Any] = {}
        if not self.known:
            roles.pop("propensity")
            settings["randomized"] = self.randomized
        return Case(frame, roles, case.policy, settings)


def _codes(case: Case) -> Any:
    return case.frame["a"].str[-2:].astype(int).to_numpy()


SOFT, MONEY, DAYS = Visits(n=4000), Visits(n=4000, rewards="normal"), Visits(n=4000, batches=20)
DEFECTS: dict[str, Defect] = {
    "stale propensities": Spoiled(SOFT, stale),
    "permuted propensities": Spoiled(SOFT, permuted),
    "over-confident propensities": Spoiled(SOFT, squared),
    "noisy propensities": Spoiled(SOFT, noisy),
    "propensities rounded to one decimal": Spoiled(SOFT, rounded),
    "propensity of another action in a third": Spoiled(SOFT, of_another),
    "propensity in the context": Spoiled(SOFT, propensity_in_context),
    "action in the context": Spoiled(SOFT, action_in_context),
    "reward in the context": Spoiled(SOFT, reward_in_context),
    "reward in the context / amounts": Spoiled(MONEY, reward_in_context),
    "outcome in the context": Spoiled(SOFT, outcome_in_context),
    "three in ten rows of an action lost": Spoiled(SOFT, lost_arm),
    "a fifth of the rows twice": Spoiled(SOFT, copied),
    "a fifth of the rows twice / jittered": Spoiled(SOFT, jittered),
    "rewards still to come": Spoiled(DAYS, late),
    "hidden cause / fitted propensities": HiddenCause(known=False),
    "hidden cause / logged propensities": HiddenCause(known=True),
    "hidden cause / declared random": HiddenCause(known=False, randomized=True, seen=False),
    "labels of two actions exchanged in a third": Spoiled(SOFT, exchanged, seen=False),
    "rows without a reward lost": Spoiled(SOFT, truncated, seen=False),
    "users not declared": Spoiled(Visits(n=4800, dependence="visits", rewards="normal"), undeclared, seen=False),
}
