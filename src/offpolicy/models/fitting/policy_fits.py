"""Learners fitted without some rows and asked about them: policies learned out of fold, a split by time."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._threads import few_threads
from offpolicy.errors import OffPolicyError, PolicyError, doing
from offpolicy.logs.log import changed
from offpolicy.logs.outcome import need_seen
from offpolicy.models.fitting.learners import is_learner
from offpolicy.models.fitting.predictions import predict_all
from offpolicy.models.fitting.store import POLICY, REWARD, seed_of
from offpolicy.models.fitting.tables import Tables
from offpolicy.models.rewards.resolve import as_reward_model
from offpolicy.models.rewards.reward import RewardData
from offpolicy.policies.distribution import blocks
from offpolicy.policies.target import Target, resolve

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.logs.log import Log
    from offpolicy.models.fitting.crossfit import Nuisances
    from offpolicy.policies.fitted import CrossFitted
    from offpolicy.splits.folds import Part


NOTE = (
    "fitted out of fold: each row is evaluated with a policy trained on the other folds. The policy you deploy, "
    "fitted on all rows, sees somewhat more data"
)


def learned_target(name: str, policy: CrossFitted, log: Log, nuisances: Any) -> Target:
    """The policies that a learner gives without each fold, each on the rows of its fold."""
    if not log.unit_kind.decides_once or not log.space.finite:
        raise PolicyError(
            f"policy {name!r}: learners are refitted out of fold only for single decisions among labels. Fit it "
            "on other rows, and pass the fitted policy."
        )
    fits: Nuisances = replace(nuisances, specs=replace(nuisances.specs, cells=None, model=policy.learner))
    part_of = _by_reward if _models_rewards(policy.learner) else _by_policy
    folds = fits.folds
    try:
        parts = [
            [part_of(name, policy, fits, part) for part in folds.parts("crossfit", repeat)]
            for repeat in range(folds.repeats)
        ]
    except OffPolicyError as error:
        raise type(error)(f"policy {name!r}: {error}") from error
    return out_of_fold(name, log.actions, folds.labels, parts)


def _models_rewards(learner: Any) -> bool:
    """Whether a learner models the reward; others give policies themselves."""
    if hasattr(learner, "fit_policy"):
        return False
    return learner is None or isinstance(learner, str) or hasattr(learner, "fit_reward") or is_learner(learner)


def _by_reward(name: str, policy: CrossFitted, fits: Nuisances, part: Part) -> PartPolicy:
    """Greedy by a reward model that has not seen the fold; ties go to the first action."""
    log, model = fits.log, as_reward_model(policy.learner)
    rows, k = part.score, len(log.actions)
    fit = fits.store.get((POLICY, name, *part.key), lambda: fits.fit_reward(model, part, None, POLICY))
    features = fits.tables.for_model(model)
    codes = np.empty(len(rows), dtype=np.int64)
    for block in blocks(len(rows), k):
        at = rows[block]
        with few_threads(len(at)):
            q: Floats = predict_all(fit, features, log.context, at, k, fits.tables.of_action)
        q = -q if policy.lowest else q
        if log.eligible is not None:
            q = np.where(log.eligible[at], q, -np.inf)
        codes[block] = q.argmax(axis=1)
    return PartPolicy(rows, Target(name, k, False, codes, None))


def _by_policy(name: str, policy: CrossFitted, fits: Nuisances, part: Part) -> PartPolicy:
    """What a learner of policies makes of the rows outside a fold."""
    log = fits.log

    def learned() -> Any:
        given = log.take(part.training)
        # Numbered anew: a learner that draws folds with the same seed would find one of them empty.
        given = changed(given, unit=np.unique(given.units, return_inverse=True)[1])
        with doing("learning a policy", PolicyError):
            return learned_from(policy.learner, given)

    made = fits.store.get((POLICY, name, *part.key), learned)
    rows: Ints = part.score
    own = log.take(rows)
    target = resolve(name, made, own)
    return PartPolicy(rows, target, own.context.positions(np.arange(len(rows))) if target.shares_context else None)


def learned_from(learner: Any, log: Log) -> Any:
    """The policy that a learner of policies gives for a log; the learner itself is left as it is."""
    if hasattr(learner, "fit_policy"):
        return learner.fit_policy(log)
    if hasattr(learner, "fit"):
        mine = copy.deepcopy(learner)
        made = mine.fit(log)
        return mine if made is None else made
    if callable(learner):
        return learner(log)
    raise PolicyError(
        "CrossFitted takes a model of the reward, an object with fit_policy(log) or fit(log), or a function of a log "
        f"that returns a policy. Got {type(learner).__name__} instead."
    )


@dataclass(frozen=True, eq=False)
class PartPolicy:
    """A policy learned without a fold, resolved on the rows of that fold."""

    rows: Ints
    target: Target
    positions: Ints | None = None  # of the rows in the context's table, where the policy shares contexts

    def probabilities(self, at: Ints) -> Floats:
        """(m, K) probabilities at some of its rows."""
        local = np.searchsorted(self.rows, at)
        return self.target.probabilities(local if self.positions is None else self.positions[local])

    @property
    def codes(self) -> Ints | None:
        """Its choices, where it is deterministic."""
        codes = self.target.codes
        return codes if codes is None or self.positions is None else codes[self.positions]


def out_of_fold(
    name: str, actions: tuple[Hashable, ...], labels: Ints, parts: Sequence[Sequence[PartPolicy]]
) -> Target:
    """One target of the policies of all folds and draws.

    Parameters
    ----------
    labels : (R, n) ints
        Fold of each row in each draw.
    parts : R lists of K policies
    """
    k = len(actions)
    chosen = [(part.rows, part.codes) for part in parts[0]]
    if len(parts) == 1 and all(mine is not None for _, mine in chosen):
        codes = np.empty(labels.shape[1], dtype=np.int64)
        for rows, mine in chosen:
            assert mine is not None
            codes[rows] = mine
        return Target(name, k, False, codes, None, note=NOTE, unseen=True)

    def ask(positions: Any) -> Floats:
        at = np.asarray(positions)
        out = np.zeros((len(at), k))
        for label, draw in zip(labels, parts, strict=True):
            for fold, part in enumerate(draw):
                here = np.flatnonzero(label[at] == fold)
                if len(here):
                    out[here] += part.probabilities(at[here]) / len(parts)
        return out

    return Target(name, k, False, None, ask, note=NOTE, unseen=True)


def predictions_apart(
    log: Log, training: Bools, reward_model: Any, seed: int = 0, *, rows: Ints | None = None
) -> Floats:
    """(m, K) predicted rewards of rows that are not for training, by a model that never saw them.

    Parameters
    ----------
    log : BanditLog
        In memory, one unit per row.
    training : (n,) array of bool
        Rows to fit on.
    reward_model : learner, "auto" or None
        As in `evaluate`.
    seed : int
    rows : (m,) array, optional
        Which to predict; default: all that are not for training.

    Examples
    --------
    >>> import offpolicy as op
    >>> log = op.BanditLog.from_arrays(None, [0, 1] * 50, [0.0, 2.0] * 50)
    >>> predictions_apart(log, np.arange(100) < 60, "auto")[0].round().tolist()
    [0.0, 2.0]
    """
    need_seen(log, "a split by time")
    tables = Tables(log)
    rest = np.flatnonzero(~training) if rows is None else rows
    return FittedApart.of(tables, np.flatnonzero(training), reward_model, seed).predict(tables, rest)


@dataclass(frozen=True, eq=False)
class FittedApart:
    """A reward model fitted on some rows, to be asked about others: of the same log, or of another block of it."""

    model: Any
    fit: Any

    @classmethod
    def of(cls, tables: Tables, rows: Ints, reward_model: Any, seed: int) -> FittedApart:
        """Fitted on some rows of a log."""
        log, model = tables.log, as_reward_model(reward_model)
        data = RewardData(
            tables.pairs(model, log.context.positions(rows), log.action[rows]),
            log.action[rows],
            log.reward[rows],
            tables.mass(rows),
            log.actions,
            log.names.action,
            tables.count(rows),
        )
        with few_threads(len(rows)):
            return cls(model, model.fit_reward(data, seed_of(seed, REWARD, ("apart",))))

    def predict(self, tables: Tables, rows: Ints) -> Floats:
        """(m, K) predicted rewards of some rows."""
        log = tables.log
        out = np.empty((len(rows), len(log.actions)))
        with few_threads(len(rows)):
            for code in range(len(log.actions)):
                taken = np.full(len(rows), code, dtype=log.action.dtype)
                table = tables.pairs(self.model, log.context.positions(rows), taken)
                out[:, code] = self.fit.predict(table, taken)
        return out
