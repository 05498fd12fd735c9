"""Pseudo-rewards of a reward that is seen in part, cross-fitted on the folds of the evaluation.

With L = 1 where the reward R is seen, e the probability of that, J what every row shows after the action, and m a
prediction of R from (S, A, J) that never saw the row's own fold,

    R̃ = m + (L / e)(R − m)

has the mean of R in every row, whatever m is, and it is R where e = 1. The doubly robust score of R̃ is

    ψ = Σ_a π_e q(S, a) + w (m − q(S, A)) + w (L / e)(R − m),

so that R̃ takes the reward's place in every estimator. Two rules keep a row's own fold out of its models:

- m and e of a row are fitted on the other folds;
- q of a fold learns from R̃ made *without that fold*: m of its training rows is fitted on these rows themselves. Were
  it fitted on the other folds, q would have learned from the rows that it is used on (with two folds: from them alone).

m is a mean of up to three predictions: from (S, A), from (A, J) and from (S, A, J). Their shares minimize the variance
of the last term of ψ, Σ L (1 − e)/e (R − m)², over labels outside the fold; where J says nothing, m is the prediction
from (S, A). These shares are two numbers, chosen like the coefficient of a control variate: their error is of second
order.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from offpolicy._threads import few_threads
from offpolicy.errors import DataError, ModelError
from offpolicy.kinds import label_checks
from offpolicy.kinds.label_checks import label_plan
from offpolicy.logs.frame import Context
from offpolicy.models.fitting.learners import is_classifier, is_learner
from offpolicy.models.fitting.store import REWARD, seed_of
from offpolicy.models.fitting.tables import Tables, merged
from offpolicy.models.rewards.resolve import as_reward_model
from offpolicy.models.rewards.reward import RewardData

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.kinds.label_checks import LabelPlan
    from offpolicy.logs.bandit import BanditLog
    from offpolicy.splits.folds import Folds, Part
    from offpolicy.trust.finding import Finding
    from offpolicy.trust.view import View

GIVEN = "given"
CLEAR = 2.0  # standard errors by which proxies have to lower the loss to be used
PROXIES = 7  # part of the seeds of fits of m, which tells them from those of q


class Chance(Protocol):
    """The probability e with which the reward of a row is seen."""

    def take(self, rows: Ints) -> Chance:
        """The same for some rows."""
        ...

    def probability(self, settled: PseudoRewards, rows: Ints, key: tuple[Any, ...]) -> Floats:
        """(n,) e of all rows, fitted on some where it has to be."""
        ...


@dataclass(frozen=True, eq=False)
class SeenInPart:
    """What a log holds of a reward that is seen in part.

    Attributes
    ----------
    seen : (n,) bools
        L.
    reward : (n,) floats
        R, and 0 where it is not seen.
    proxies : Context or None
        J.
    chance : Chance
        Where e comes from.
    model : learner, "given" or None
        What predicts R from (S, A, J); "given": the first proxy is the prediction.
    weighs : bool
        Whether rows with a reward are a sample that leans on it, so that m has to be fitted with weights 1 / e.
    words : str
        What the numbers assume, as half a sentence.
    remedy : str
        What would make that more than an assumption; empty where it is a fact of the design.
    noun : str
        What rewards that are seen are called.
    is_drawn : bool
        Whether somebody decides which rewards are seen, so that more can be asked for.
    """

    seen: Bools
    reward: Floats
    proxies: Context | None
    chance: Chance
    model: Any = None
    weighs: bool = False
    words: str = ""
    remedy: str = ""
    noun: str = "labels"
    is_drawn: bool = True

    def take(self, rows: Ints) -> Self:
        """The same for some rows."""
        proxies = None if self.proxies is None else self.proxies.take(rows)
        return replace(
            self, seen=self.seen[rows], reward=self.reward[rows], proxies=proxies, chance=self.chance.take(rows)
        )

    def settled(self, log: BanditLog, folds: Folds, model: Any, seed: int) -> PseudoRewards:
        """Pseudo-rewards of all rows."""
        return PseudoRewards(*self.prepared(log, folds, model, seed))

    def prepared(self, log: BanditLog, folds: Folds, model: Any, seed: int) -> tuple[Any, Any, Folds, Any, int]:
        """What pseudo-rewards are made of. A model of the values of episodes or slates predicts no single reward."""
        learner = model if log.unit_kind.decides_once else None
        self.refuse_classifier(learner)
        return self, replace(log.with_rewards({log.names.reward: self.reward}), outcomes={}), folds, learner, seed

    def refuse_classifier(self, model: Any) -> None:
        """Pseudo-rewards are numbers between and beyond the values of the reward: no classes."""
        if not self.seen.all() and is_learner(model) and is_classifier(model):
            raise ModelError(
                f"reward_model= is a classifier ({type(model).__name__}), but partly observed rewards are turned into "
                "numbers. Use a regressor; the classifier can predict the reward itself: Labeled(…, model=…)."
            )


@dataclass(frozen=True, eq=False)
class Fit:
    """Predictions for all rows by models of some of them."""

    parts: Floats  # (P, n) predictions of R, the first from (S, A) alone
    chance: Floats  # (n,) e


@dataclass(frozen=True, eq=False)
class PseudoRewards:
    """R̃ of all rows, and what the reward model of each part learns from."""

    held: SeenInPart
    log: BanditLog
    folds: Folds
    given_model: Any
    seed: int
    cluster: Ints | None = None
    _fits: dict[Any, Fit] = field(default_factory=dict, repr=False)
    _lock: Any = field(default_factory=threading.RLock, repr=False)

    @property
    def seen(self) -> Bools:
        """(n,) whether the reward itself is seen."""
        return self.held.seen

    @cached_property
    def mass(self) -> Floats:
        """(n,) weights of the rows, times how many each stands for."""
        return self.tables[0].both(np.arange(len(self.seen)))[0]

    @cached_property
    def count(self) -> Floats:
        """(n,) how many rows each stands for."""
        return self.tables[0].both(np.arange(len(self.seen)))[1]

    @cached_property
    def together(self) -> Ints:
        """(n,) codes of what is drawn together: the cluster of a row, else its unit."""
        log = self.log
        own = log.cluster if log.has_clusters else np.arange(log.layout.n_units)
        return np.asarray(own[log.layout.unit])

    def rows_of(self, units: Ints) -> Ints:
        """Rows of some units."""
        return np.asarray(self.log.layout.rows_of(units))

    @property
    def seen_count(self) -> int:
        """How many rewards are seen."""
        return int(self.count[self.seen].sum())

    @property
    def total(self) -> int:
        """How many rows there are."""
        return int(self.count.sum())

    @cached_property
    def tables(self) -> list[Tables]:
        """What models of m read: S; and, where there are proxies, J and both."""
        log, proxies = self.log, self.held.proxies
        own = Tables(log)
        if proxies is None or self.held.model == GIVEN:
            return [own]
        both = replace(log, context=beside(log.context, proxies))
        if _width(log.context) == 0:
            return [own, Tables(both)]
        return [own, Tables(replace(log, context=proxies)), Tables(both)]

    @cached_property
    def model(self) -> Any:
        """What predicts R: as the outcome says, else as the reward model of the evaluation where that is a learner."""
        own = self.held.model
        if own is not None and own != GIVEN:
            return as_reward_model(own)
        given = self.given_model
        return as_reward_model(None if isinstance(given, np.ndarray | list | tuple | dict) else given)

    def fit(self, rows: Ints, key: tuple[Any, ...]) -> Fit:
        """Models of some rows, and what they say of all; made once."""
        with self._lock:
            if key not in self._fits:
                chance = self.held.chance.probability(self, rows, key)
                parts = [self._predicted(t, i, rows, key, chance) for i, t in enumerate(self.tables)]
                if self.held.model == GIVEN and self.held.proxies is not None:
                    parts.append(first_column(self.held.proxies))
                self._fits[key] = Fit(np.stack(parts), chance)
            return self._fits[key]

    def _predicted(self, tables: Tables, which: int, rows: Ints, key: tuple[Any, ...], chance: Floats) -> Floats:
        labeled = rows[self.seen[rows]]
        if len(labeled) == 0:
            raise DataError(
                f"all {self.seen_count:,} rows with a reward are in one fold, so no model can be fitted for it. "
                "Label more rows, or use another seed."
            )
        weight = tables.mass(labeled)
        if self.held.weighs:
            weight = (1.0 if weight is None else weight) / chance[labeled]
        seed = seed_of(self.seed, REWARD, (PROXIES, which, *key))
        try:
            return predicted(self.model, tables, labeled, self.held.reward, weight, seed)
        except ModelError as error:
            bare = [] if which == 0 else incomplete(self.held.proxies)
            if not bare:
                raise
            raise ModelError(
                f"proxies= has missing values ({', '.join(bare)}), which the model of the reward may not accept: "
                f"{error} Use one that does, Labeled(…, model='auto'), or fill in the values before building the log."
            ) from error

    @cached_property
    def out_of_fold(self) -> list[Fit]:
        """For each repetition, predictions of every row by models that did not see its fold."""
        made = []
        for repeat in range(self.folds.repeats):
            n, whole = len(self.seen), None
            for part in self.folds.parts("crossfit", repeat):
                fit, own = self.fit(self.rows_of(part.training), part.key), self.rows_of(part.score)
                if whole is None:
                    whole = Fit(np.empty((len(fit.parts), n)), np.empty(n))
                whole.parts[:, own] = fit.parts[:, own]
                whole.chance[own] = fit.chance[own]
            assert whole is not None
            made.append(whole)
        return made

    def shares(self, rows: Ints) -> Floats:
        """(P,) shares of the predictions of m, by the variance that they leave in some rows."""
        fit = self.out_of_fold[0]
        at = rows[self.seen[rows]]
        e = fit.chance[at]
        c = self.mass[at] * (1 - e) / e
        parts, target = fit.parts[:, at], self.held.reward[at]
        shares = convex(parts, target, c)
        # Proxies are used where they gain more than chance would: a useless judge then costs next to nothing.
        gain = c * ((target - parts[0]) ** 2 - (target - shares @ parts) ** 2)
        count, total = self.count[at], float(gain.sum())
        n = max(float(count.sum()), 1.0)
        chance = np.sqrt(max(float((gain**2 / count).sum()) - total**2 / n, 0.0))
        return shares if total >= CLEAR * chance else np.eye(len(shares))[0]

    def _made(self, fit: Fit, shares: Floats) -> Floats:
        """(n,) m + (L / e)(R − m); R itself where e is 1."""
        m, e, r = shares @ fit.parts, fit.chance, self.held.reward
        made = np.where(self.seen, m + (r - m) / e, m)
        return np.where(self.seen & (e == 1), r, made)

    @cached_property
    def reward(self) -> Floats:
        """(n,) pseudo-rewards; over repetitions of the folds, their mean."""
        if self.seen.all():
            return self.held.reward
        total = np.zeros(len(self.seen))
        for repeat, fit in enumerate(self.out_of_fold):
            for part in self.folds.parts("crossfit", repeat):
                own = self.rows_of(part.score)
                total[own] += self._made(fit, self.shares(self.rows_of(part.training)))[own]
        return total / self.folds.repeats

    @property
    def observed(self) -> Floats:
        """(n,) rewards as they were seen."""
        return np.where(self.seen, self.held.reward, np.nan)

    def training(self, part: Part) -> Floats:
        """(n,) pseudo-rewards made of the training rows of a part, for them."""
        if self.seen.all():
            return self.held.reward
        rows = self.rows_of(part.training)
        return self._made(self.fit(rows, part.key), self.shares(rows))

    @cached_property
    def about(self) -> dict[str, Any]:
        """How many rewards were seen, what the proxies are worth, and what is assumed."""
        everyone = np.arange(len(self.seen))
        about: dict[str, Any] = {
            "seen": self.seen_count,
            "of": self.total,
            "assumes": "" if self.seen.all() else self.held.words,
        }
        if self.held.proxies is not None and not self.seen.all():
            about["share_of_proxies"] = float(self.shares(everyone)[1:].sum())
        return about

    @property
    def doubts(self) -> list[str]:
        """Reasons that keep a verdict from "trust", whatever the checks say."""
        if self.seen.all() or not self.held.remedy:
            return []
        return [f"The number {self.held.words}, which no check can show. {self.held.remedy}"]

    def findings(self) -> list[Finding]:
        """Checks of the log."""
        return label_checks.findings(self)

    def policy_findings(self, view: View) -> list[Finding]:
        """Checks of one policy."""
        weight = np.zeros(len(self.seen))
        weight[view.rows] = view.decisions.rho
        return [label_checks.effective_labels(self, weight)]

    @cached_property
    def prediction(self) -> Floats:
        """(n,) m, out of fold."""
        return np.asarray(self.shares(np.arange(len(self.seen))) @ self.out_of_fold[0].parts)

    def label_plan(
        self, weight: Floats, std_error: float, width_now: float, width: float | None, level: float
    ) -> LabelPlan | None:
        """How many labels a wanted width takes; None where rewards are not drawn."""
        if not self.held.is_drawn or self.seen.all():
            return None
        return label_plan(self, weight, std_error, width_now, width, level)

    @property
    def note(self) -> str:
        """How many rewards were seen, and what the proxies add."""
        about = self.about
        if about["seen"] == about["of"]:
            return ""
        note = f"observed in {about['seen']:,} of {about['of']:,} rows"
        if "share_of_proxies" in about:
            note += f"; in the others, {about['share_of_proxies']:.0%} of its prediction comes from the proxies"
        return note


def predicted(model: Any, tables: Tables, rows: Ints, target: Floats, weight: Floats | None, seed: int) -> Floats:
    """(n,) what a model of some rows predicts for the logged action of every row."""
    log = tables.log
    everyone, count = np.arange(len(log.action)), tables.count(rows)
    if tables.merges(model):  # rows and cells of one log give one training table
        one = np.ones(len(rows))
        held = np.empty((2, len(everyone)))
        held[:, rows] = one if weight is None else weight, one if count is None else count
        rows = rows[np.lexsort([target[rows], log.action[rows], tables.codes[rows]])]
        each = merged((tables.codes, log.action, target), rows, *held[:, rows])
        rows, weight, count = each.rows, each.weight, each.count
    data = RewardData(
        tables.pairs(model, log.context.positions(rows), log.action[rows]),
        log.action[rows],
        target[rows],
        weight,
        log.actions,
        log.names.action,
        count,
    )
    with few_threads(len(rows)):
        fit = model.fit_reward(data, seed)
        table = tables.pairs(model, log.context.positions(everyone), log.action)
        return np.asarray(fit.predict(table, log.action), dtype=np.float64)


def incomplete(context: Context | None) -> list[str]:
    """What columns with missing values are called."""
    if context is None:
        return []
    table = context.learner_table
    if not hasattr(table, "iloc"):
        gone = np.isnan(np.asarray(table, dtype=np.float64)).reshape(len(table), -1).any(axis=0)
        return [f"column {j}" for j in np.flatnonzero(gone)]
    return [str(name) for name in table.columns if table[name].isna().any()]


def refuse_copies(proxies: Context | None, seen: Bools, reward: Floats, metric: str) -> None:
    """A column that is the reward where this is seen, and missing elsewhere, is the reward and no proxy."""
    if proxies is None or seen.all():
        return
    table = proxies.learner_table
    named = hasattr(table, "iloc")
    wide: Any = table if named else np.asarray(table).reshape(len(table), -1)
    at = proxies.positions(np.arange(len(seen)))
    for j in range(wide.shape[1]):
        column, name = (wide.iloc[:, j].to_numpy(), wide.columns[j]) if named else (wide[:, j], j)
        if column.dtype.kind not in "biuf":
            continue
        values = np.asarray(column, dtype=np.float64)[at]
        if np.isnan(values[~seen]).all() and np.array_equal(values[seen], reward[seen]):
            called = repr(name) if isinstance(name, str) else f"column {name}"
            raise DataError(
                f"proxies=: {called} is {metric!r} itself: equal where it is observed, and missing elsewhere. Name "
                "outcomes that every row has after its action, such as a judge's score."
            )


def convex(parts: Floats, target: Floats, weight: Floats) -> Floats:
    """(P,) shares that are not negative, add up to 1 and minimize Σ weight (target − shares @ parts)².

    >>> convex(np.array([[0.0, 0.0], [2.0, 4.0]]), np.array([1.0, 2.0]), np.ones(2)).round(9).tolist()
    [0.5, 0.5]
    """
    n_parts = len(parts)
    if n_parts == 1:
        return np.ones(1)
    error = (parts - target) * np.sqrt(weight)
    gram = error @ error.T
    if not gram.any():  # nothing is left to choose by
        return np.asarray(np.eye(n_parts)[-1])
    gram = gram / np.abs(gram).max()
    best, least = np.eye(n_parts)[0], np.inf
    for chosen in range(1, 2**n_parts):
        at = [j for j in range(n_parts) if chosen >> j & 1]
        system = np.ones((len(at) + 1, len(at) + 1))
        system[-1, -1] = 0.0
        system[:-1, :-1] = gram[np.ix_(at, at)]
        solved = np.linalg.lstsq(system, np.eye(len(at) + 1)[-1], rcond=None)[0][:-1]
        if (solved < -1e-9).any():
            continue
        shares = np.zeros(n_parts)
        shares[at] = np.maximum(solved, 0) / np.maximum(solved, 0).sum()
        loss = float(shares @ gram @ shares)
        if loss < least * (1 - 1e-12):
            best, least = shares, loss
    return np.asarray(best)


def beside(left: Context, right: Context) -> Context:
    """The columns of two contexts of the same rows side by side."""
    at = np.arange(len(left))
    tables = [side.learner_table for side in (left, right)]
    if not any(hasattr(table, "iloc") for table in tables):
        return Context(np.column_stack([t[s.positions(at)] for t, s in zip(tables, (left, right), strict=True)]))
    import pandas as pd

    parts = []
    for table, side in zip(tables, (left, right), strict=True):
        rows = table.iloc[side.positions(at)] if hasattr(table, "iloc") else pd.DataFrame(table[side.positions(at)])
        parts.append(rows.reset_index(drop=True))
    frame = pd.concat(parts, axis=1)
    frame.columns = [str(name) for name in frame.columns]
    return Context.from_frame(frame)


def first_column(context: Context) -> Floats:
    """(n,) numbers of the first column."""
    table = context.learner_table
    column = table.iloc[:, 0].to_numpy() if hasattr(table, "iloc") else table[:, 0]
    return np.asarray(column, dtype=np.float64)[context.positions(np.arange(len(context)))]


def _width(context: Context) -> int:
    return len(context.names) if context.names is not None else int(np.prod(context.table.shape[1:]))
