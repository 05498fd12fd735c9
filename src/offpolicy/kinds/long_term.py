"""`LongTerm`: a reward that an older log knows and this one does not yet, foretold from what both show early.

m(S, J) is fitted on the older log; R ⊥ A given (S, J) makes it a prediction for this one, whatever its policy
(surrogacy). A row i of this log gets the prediction and the error of the older row that is most like it,

    R̃_i = m(S_i, J_i) + R_j − m(S_j, J_j),      j = j(i) the nearest older row in (S, J),

a matching estimator with its bias corrected by regression (Abadie and Imbens 2011). Rows that share an older row are
one cluster, so that the variance holds both samples; where many rows share one it is too large rather than too small,
since rows of a cluster are alike. Older rows are split into folds too: rows of fold k are matched to older rows of
fold k, and m of fold k is fitted on the others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy import special

from offpolicy._arguments import checks_arguments
from offpolicy._threads import few_threads
from offpolicy.errors import DataError, UsageError
from offpolicy.kinds.labels import Labels
from offpolicy.kinds.seen_in_part import beside
from offpolicy.logs.frame import Columns, Context
from offpolicy.logs.kinds import like_actions
from offpolicy.logs.outcome import named_columns
from offpolicy.models.fitting.encode import LinearDesign
from offpolicy.models.fitting.store import REWARD, seed_of
from offpolicy.models.fitting.tables import Tables
from offpolicy.models.rewards.resolve import as_reward_model
from offpolicy.models.rewards.reward import RewardData
from offpolicy.splits.folds import Plan
from offpolicy.trust.check import Check, Threshold, Topic, declare
from offpolicy.trust.finding import judged, not_applicable
from offpolicy.trust.moments import z_score

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.logs.bandit import BanditLog
    from offpolicy.logs.outcome import Given
    from offpolicy.splits.folds import Folds, Part
    from offpolicy.trust.finding import Finding

ASSUMES = (
    "assumes that, given the context and the proxies, the reward does not depend on the action and arises as it "
    "did in the older log"
)
REMEDY = "Wait for the reward of some rows of this log, which are used to check the assumption."
FEWEST = 10  # rows of an action with their reward from which on it is compared
ENOUGH = 100  # rows with their reward from which on the assumption counts as checked
JITTER = 1e-6  # of a standard deviation: rows that are alike are matched to each other at random
APART = 0.999  # share of older rows that have a neighbor within the distance taken for near


@checks_arguments
@dataclass(frozen=True, eq=False)
class LongTerm:
    """A reward that only an older log has, such as the value of a customer after a year.

    Parameters
    ----------
    history : BanditLog
        The older log, with the reward.
    proxies : list of column names, or (n, p) array
        What both logs show early: visits in the first week, a rating. Names of columns of both frames, or an array for
        this log.
    history_proxies : (m, p) array, optional
        The same for the older log, where it was built from arrays.
    model : learner or "auto", optional
        Predicts the reward from context and proxies; default: the reward model of the evaluation, else "auto".

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> rng = np.random.default_rng(0)
    >>> def visits(action): return rng.normal(1.0 + action, size=len(action))
    >>> before, now = rng.integers(2, size=1000), rng.integers(2, size=1000)
    >>> early, later = visits(before), visits(now)
    >>> history = op.BanditLog.from_arrays(None, before, 3 * early + rng.normal(size=1000))
    >>> outcome = op.LongTerm(history, proxies=later, history_proxies=early)
    >>> nothing = np.full(1000, np.nan)
    >>> log = op.BanditLog.from_arrays(None, now, nothing, np.full(1000, 0.5), outcome=outcome)
    >>> ev = op.evaluate(log, op.policies.Fixed(1), estimators=["DML"])
    >>> abs(ev["DML"].value - 6) < 4 * ev["DML"].std_error
    True
    """

    history: Any
    proxies: Any
    history_proxies: Any = None
    model: Any = None

    counts_rows: ClassVar[bool] = False  # a row is matched to a row: cells will not do

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns of the log besides the reward."""
        return named_columns(self.proxies)

    def held(self, given: Given, reward: Floats, metric: str) -> LongTermReward:
        """What a log holds of this outcome."""
        history = self.history
        if getattr(history, "kind", None) != "bandit" or not history.in_memory:
            raise UsageError("history= must be a BanditLog: the older log, with the reward.")
        if np.isnan(history.reward).any():
            raise DataError("history=: rewards of the older log are missing. Leave out the rows without one.")
        proxies = given.table(self.proxies, "proxies")
        if proxies is None:
            raise UsageError("proxies= must name the early outcomes that both logs have.")
        if self.history_proxies is not None:
            early: Context = Context(np.asarray(self.history_proxies, dtype=np.float64).reshape(history.rows, -1))
        elif given.columns is None or history.source is None:
            raise UsageError("history_proxies= must be the proxies of the older log, one entry per row.")
        else:
            columns = Columns(history.source)
            names = [self.proxies] if isinstance(self.proxies, str) else list(self.proxies)
            for name in names:
                columns.require(name, "proxies of history")
            early = Context.from_frame(columns.subset(names))
        if tuple(history.context.names or ()) != tuple(given.context) and given.columns is not None:
            raise DataError(
                f"history= has the context {list(history.context.names or ())}, but this log has "
                f"{list(given.context)}. Build both with the same columns."
            )
        return LongTermReward(~np.isnan(reward), reward, proxies, history, early, self.model)


@dataclass(frozen=True, eq=False)
class LongTermReward:
    """What a log holds of a reward that only an older log has."""

    seen: Bools
    reward: Floats
    proxies: Context
    history: Any
    early: Context
    model: Any

    def take(self, rows: Ints) -> LongTermReward:
        """The same for some rows."""
        return replace(self, seen=self.seen[rows], reward=self.reward[rows], proxies=self.proxies.take(rows))

    def settled(self, log: BanditLog, folds: Folds, model: Any, seed: int) -> LongTermRewards:
        """Pseudo-rewards of all rows."""
        if not log.unit_kind.decides_once:
            raise UsageError(
                f"LongTerm is for single decisions; rewards of {log.unit_kind.unit}s cannot be predicted from an older "
                "log."
            )
        if log.is_counted:
            raise UsageError("LongTerm matches single rows to rows of the older log. Build the log without count=.")
        if log.has_clusters:
            raise UsageError(
                "LongTerm makes its own clusters by linking rows to the older log, but this log already has clusters. "
                "Build it without cluster=, one row per unit."
            )
        return LongTermRewards(self, replace(log, outcomes={}), folds, model, seed)


@dataclass(frozen=True, eq=False)
class LongTermRewards:
    """Pseudo-rewards of a reward that only an older log has."""

    held: LongTermReward
    log: BanditLog
    folds: Folds
    given_model: Any
    seed: int
    _predictions: dict[Any, tuple[Floats, Floats]] = field(default_factory=dict, repr=False)

    @cached_property
    def _tables(self) -> tuple[Any, Any, Any]:
        """The model, and what it reads of this log and of the older one: one table, so that levels are the same."""
        own, given = self.held.model, self.given_model
        given = None if isinstance(given, np.ndarray | list | tuple | dict) else given
        model = as_reward_model(given if own is None else own)
        sides = (beside(self.log.context, self.held.proxies), beside(self.held.history.context, self.held.early))
        tables = [side.learner_table for side in sides]
        if hasattr(tables[0], "iloc"):
            import pandas as pd

            whole = Context.from_frame(pd.concat(tables, ignore_index=True))
        else:
            whole = Context(np.concatenate(tables))
        rows: Any = _Rows(whole)
        read = Tables(rows)
        return model, read, len(tables[0])

    def predictions(self, train: Ints, key: tuple[Any, ...]) -> tuple[Floats, Floats]:
        """M of this log's rows and of the older ones, fitted on some of the older ones."""
        if key not in self._predictions:
            model, read, n = self._tables
            history, every = self.held.history, len(read.log.action)
            code = np.zeros(every, dtype=np.int64)
            weight = np.asarray(history.weight * history.count, dtype=np.float64)[train]
            data = RewardData(
                read.rows(model, n + train), code[train], np.asarray(history.reward[train]),
                None if np.ptp(weight) == 0 else weight, ("any",), "action",
            )  # fmt: skip
            with few_threads(len(train)):
                fit = model.fit_reward(data, seed_of(self.seed, REWARD, (8, *key)))
                made = np.asarray(fit.predict(read.rows(model, np.arange(every)), code))
            self._predictions[key] = (made[:n], made[n:])
        return self._predictions[key]

    @cached_property
    def _older(self) -> Ints:
        """(R, m) folds of the older rows."""
        plan = Plan(self.folds.k, self.folds.repeats, self.seed + 1)
        return plan.block(self.held.history.units).labels

    @cached_property
    def _matched(self) -> tuple[Ints, Floats, float]:
        """Older row of each row, from the same fold; how far it is; and what is near."""
        from scipy.spatial import cKDTree

        _, read, n = self._tables
        encoded = read.of(encoded=True)
        points = LinearDesign.learn(encoded).transform(encoded)
        points = np.asarray(points.toarray() if hasattr(points, "toarray") else points, dtype=np.float64)
        rng = np.random.default_rng(self.seed)
        points = points + JITTER * rng.normal(size=points.shape)
        new, old = points[:n], points[n:]
        match, far, near = np.empty(n, dtype=np.int64), np.empty(n), 0.0
        for k in range(self.folds.k):
            own, theirs = (np.flatnonzero(self.folds.labels[0] == k), np.flatnonzero(self._older[0] == k))
            if len(theirs) < 2:
                raise DataError("history= has too few rows for the folds. Use fewer folds, or a longer history.")
            tree = cKDTree(old[theirs])
            far[own], at = tree.query(new[own])
            match[own] = theirs[at]
            near = max(near, float(np.quantile(tree.query(old[theirs], k=2)[0][:, 1], APART)))
        return match, far, near

    @property
    def cluster(self) -> Ints:
        """(n,) the older row of each row: what rows have in common."""
        return np.unique(self._matched[0], return_inverse=True)[1]

    @cached_property
    def _foretold(self) -> tuple[Floats, Floats]:
        """(n,) m of each row, and the error of the older row that is most like it."""
        made, error, match = np.empty(len(self.log.action)), np.empty(len(self.log.action)), self._matched[0]
        for k in range(self.folds.k):
            new, old = self.predictions(np.flatnonzero(self._older[0] != k), ("fold", 0, k))
            own = np.flatnonzero(self.folds.labels[0] == k)
            made[own] = new[own]
            error[own] = (self.held.history.reward - old)[match[own]]
        return made, error

    @property
    def _predicted(self) -> Floats:
        return self._foretold[0]

    @cached_property
    def reward(self) -> Floats:
        """(n,) m, and the error of the older row that is most like the row."""
        return self._foretold[0] + self._foretold[1]

    @property
    def observed(self) -> Floats:
        """(n,) rewards, as the older log has them of the rows that these are matched to."""
        return np.asarray(self.held.history.reward[self._matched[0]], dtype=np.float64)

    def training(self, part: Part) -> Floats:
        """(n,) m without a part's fold: a reward model learns it without the noise of matches."""
        train = np.arange(len(self._older[0]))
        if part.key[0] == "fold":
            train = np.flatnonzero(self._older[part.key[1]] != part.key[2])
        return self.predictions(train, part.key)[0]

    @cached_property
    def about(self) -> dict[str, Any]:
        """Which rewards are where, and what is assumed."""
        return {
            "seen": int(self.held.seen.sum()),
            "of": len(self.held.seen),
            "history": len(self._older[0]),
            "matched": len(np.unique(self._matched[0])),
            "assumes": ASSUMES,
        }

    @property
    def note(self) -> str:
        """Where the rewards come from."""
        about = self.about
        return f"predicted from {about['history']:,} rows of an older log, {about['matched']:,} of which are used"

    @property
    def doubts(self) -> list[str]:
        """Surrogacy is an assumption until it is checked."""
        if self.held.seen.sum() >= ENOUGH:
            return []
        return [f"The number {ASSUMES}. {REMEDY}"]

    def findings(self) -> list[Finding]:
        """Checks: are rows like older ones, and do predictions hold where the reward is seen?"""
        return [self._overlap(), self._surrogacy()]

    def policy_findings(self, view: Any) -> list[Finding]:
        """How many older rows carry the estimate of one policy."""
        weight = np.zeros(len(self.held.seen))
        weight[view.rows] = view.weight
        by_older = np.bincount(self.cluster, weights=weight)
        total = float(by_older.sum())
        size = total**2 / float(by_older @ by_older) if total > 0 else 0.0
        sentence = f"after weighting, the older log is worth about {size:.3g} of its rows for this policy."
        return [judged("effective_labels", size, sentence, remedy="Give a longer history.")]

    def label_plan(self, *_: Any) -> None:
        """None: rewards come with time, and are not drawn."""

    def _overlap(self) -> Finding:
        _, far, near = self._matched
        share = float(np.mean(far > near + 10 * JITTER))
        return judged(
            "history_overlap",
            share,
            f"{share:.2%} of the rows are unlike any row of the older log in context and proxies.",
        )

    def _surrogacy(self) -> Finding:
        """Where the reward is seen, its mean against its prediction, by action."""
        name, seen = "surrogacy", self.held.seen
        if not seen.any():
            return not_applicable(name, "no row of this log has its reward yet.")
        # Predictions as such: the errors of older rows would only add noise.
        gap = self.held.reward[seen] - self._predicted[seen]
        groups = like_actions(self.log.space, self.log.action[seen])
        zs = []
        for code in np.unique(groups):
            g, rest = gap[groups == code], gap[groups != code]
            if len(g) < FEWEST:
                continue
            spread = float(g.var(ddof=1)) / len(g)
            zs.append(z_score(float(g.mean()), math.sqrt(spread), 0.0))
            if len(rest) >= FEWEST:  # what one action does beyond the others is what surrogacy denies
                apart = spread + float(rest.var(ddof=1)) / len(rest)
                zs.append(z_score(float(g.mean() - rest.mean()), math.sqrt(apart), 0.0))
        if not zs:
            return not_applicable(name, "too few rows of this log have their reward yet.")
        worst = max(zs, key=abs)
        p = min(1.0, len(zs) * float(special.erfc(abs(worst) / math.sqrt(2))))
        return judged(
            name,
            p,
            f"in {int(seen.sum()):,} rows with a reward, the reward differs from its prediction by "
            f"{float(gap.mean()):.3g} on average (p = {p:.2g} of {len(zs)} comparisons of actions).",
        )


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows for `Tables`: a context, and no action that matters."""

    context: Context
    space: ClassVar[Labels] = Labels()

    @property
    def action(self) -> Ints:
        return np.zeros(len(self.context), dtype=np.int64)


declare(
    Check(
        "history_overlap",
        Threshold(0.01, 0.1, "above", "Use an older log of rows like these, or fewer proxies.", decides=True),
        topic=Topic("Some rows are unlike any row of the older log."),
        value="share of rows unlike any row of the older log", part_of="history",
    ),
    Check(
        "surrogacy",
        Threshold(
            0.002, 0.0001, "below",
            "The proxies miss part of the action's effect on the reward. Add proxies, or wait for the reward.",
            decides=True, false_alarms=0.002,
        ),
        topic=Topic("The older log predicts the reward poorly."),
        value="p-value of the largest difference between rewards and predictions from the older log, by action",
        part_of="history",
    ),
)  # fmt: skip
