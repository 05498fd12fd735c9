"""`Delayed`: rewards that come late, such as conversions: what has not arrived is not a zero.

A row is *settled* where it converted, at time T after its action, or where it is as old as the window. With G(t) the
share of rows (of the same action) that are at least t old, a settled row was settled with probability e = G(T), or
G(window) if nothing came: conversions that come soon are settled more often than those that come late, and than
nothing. R̃ = m + (L / e)(R − m) allows for that (weights by the inverse probability of censoring, with the augmentation
of `seen_in_part`). The age decides e and is no proxy: m never sees it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import DataError, UsageError, first_rows
from offpolicy.kinds.seen_in_part import PseudoRewards, SeenInPart
from offpolicy.trust.finding import judged
from offpolicy.trust.significance import z_score

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.logs.outcome import Given
    from offpolicy.trust.finding import Finding

ASSUMES = (
    "assumes that rewards come as often and as late in new rows as in old ones with the same context and action"
)
LARGE = 3.3  # standard errors from which on new and old rows differ


@dataclass(frozen=True, eq=False)
class Delayed:
    """A reward that comes some time after the action, or never.

    Parameters
    ----------
    time : column name or (n,) array
        How long after the action the reward came; missing where it has not come.
    age : column name or (n,) array
        How long ago the action was, when the log was read, in the same unit.
    window : float
        Rewards count that come within this time; a row that is older and has none earned 0.
    proxies : list of column names, frame or (n, p) array, optional
        What every row shows soon after its action (a visit, an item in the basket). Not its age.
    model : learner, "auto" or "given", optional
        Predicts the reward from context, action and proxies; default: the reward model of the evaluation, else "auto".

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> rng = np.random.default_rng(0)
    >>> action, age = rng.integers(2, size=4000), rng.uniform(0, 400, 4000)
    >>> buys = rng.random(4000) < 0.2 + 0.1 * action
    >>> time = np.where(buys, rng.exponential(60, 4000), np.nan)
    >>> time[time > age] = np.nan  # still to come
    >>> outcome = op.Delayed(time=time, age=age, window=168)
    >>> log = op.BanditLog.from_arrays(None, action, 1.0 * (time <= 168), np.full(4000, 0.5), outcome=outcome)
    >>> ev = op.evaluate(log, op.policies.Fixed(1), estimators=["DML"])
    >>> abs(ev["DML"].value - 0.3 * (1 - np.exp(-168 / 60))) < 4 * ev["DML"].std_error
    True
    """

    time: Any
    age: Any
    window: float
    proxies: Any = None
    model: Any = None

    def held(self, given: Given, reward: Floats, metric: str) -> DelayedReward:
        """What a log holds of this outcome."""
        window = self.window
        if isinstance(window, bool) or not isinstance(window, int | float) or not 0 < window < math.inf:
            raise UsageError(f"window= must be a positive number. Got {window!r} instead.")
        time, age = given.numbers(self.time, "time"), given.numbers(self.age, "age")
        came = ~np.isnan(time)
        _refuse(~np.isfinite(age) | (age < 0), age, "age", "ages are numbers of at least 0")
        _refuse(came & (time < 0), time, "time", "rewards come after the action")
        _refuse(
            came & (time > age), time, "time", "this is later than the log was read: time is more than age"
        )
        empty = ~came & np.isfinite(reward) & (reward != 0)
        _refuse(empty, reward, metric, "there is a reward, and no time at which it came")
        _refuse(came & ~np.isfinite(reward), reward, metric, "there is a time, and no reward")
        in_time = came & (time <= window)
        seen = in_time | (age >= window)
        if not (age >= window).any():
            raise DataError(
                f"no row is as old as window={window:g} (the oldest: {float(age.max()):g}), so that nobody is known to "
                "have earned nothing. Wait, or take a shorter window."
            )
        settling = Settling(np.where(in_time, time, window), age)
        made = np.where(in_time, reward, 0.0)
        proxies = given.table(self.proxies, "proxies")
        return DelayedReward(
            seen,
            made,
            proxies,
            settling,
            self.model,
            weighs=True,
            words=ASSUMES,
            noun="settled rewards",
            naive=np.where(came & (time <= window), reward, 0.0),
            old=age >= window,
        )


def _refuse(bad: Bools, values: Floats, column: str, why: str) -> None:
    if bad.any():
        raise DataError(f"column {column!r}: {first_rows(bad, values)}: {why}.")


@dataclass(frozen=True, eq=False)
class Settling:
    """The probability that a row is settled: that it is at least as old as its reward, or as the window."""

    needed: Floats  # age from which on a row is settled
    age: Floats

    def take(self, rows: Ints) -> Settling:
        """The same for some rows."""
        return Settling(self.needed[rows], self.age[rows])

    def probability(self, settled: PseudoRewards, rows: Ints, key: tuple[Any, ...]) -> Floats:
        """(n,) shares of some rows, of the same action, that are old enough."""
        log, mass = settled.log, settled.mass
        e = np.empty(len(self.age))
        groups = np.zeros(len(e), dtype=np.int64) if log.is_continuous else log.action
        for code in np.unique(groups):
            own, train = np.flatnonzero(groups == code), rows[groups[rows] == code]
            order = train[np.argsort(self.age[train])]
            total = np.concatenate([[0.0], np.cumsum(mass[order])])
            younger = total[np.searchsorted(self.age[order], self.needed[own], side="left")]
            # The row itself is one of those that are old enough.
            e[own] = (total[-1] - younger + 1) / (total[-1] + 1)
        return e


@dataclass(frozen=True, eq=False)
class DelayedReward(SeenInPart):
    """What a log holds of a reward that comes late."""

    naive: Floats = None  # type: ignore[assignment]
    old: Bools = None  # type: ignore[assignment]

    def take(self, rows: Ints) -> DelayedReward:
        """The same for some rows."""
        return replace(super().take(rows), naive=self.naive[rows], old=self.old[rows])

    def settled(self, log: Any, folds: Any, model: Any, seed: int) -> DelayedRewards:
        """Pseudo-rewards of all rows."""
        return DelayedRewards(self, replace(log, outcomes={}), folds, model, seed)


@dataclass(frozen=True, eq=False)
class DelayedRewards(PseudoRewards):
    """Pseudo-rewards of rewards that come late."""

    held: DelayedReward

    def findings(self) -> list[Finding]:
        """Checks of the log, and how much was corrected."""
        return [*super().findings(), self._maturity()]

    def _maturity(self) -> Finding:
        """Rewards of new rows beside those of old rows, before and after the correction."""
        held, mass = self.held, self.mass
        mean = float(np.average(self.reward, weights=mass))
        naive = float(np.average(held.naive, weights=mass))
        open_rows = int((~self.seen).sum())
        sides = []
        for side in (~held.old, held.old):
            values = self.reward[side]
            if len(values) < 2:
                continue
            sides.append((float(values.mean()), float(values.var(ddof=1)) / len(values)))
        value, apart = 1.0, ""
        if len(sides) == 2:
            (young, a), (old, b) = sides
            z = z_score(young - old, math.sqrt(a + b), 0.0)
            if abs(z) > LARGE and old != 0:
                value = min(young / old, old / young) if young / old > 0 else 0.0
                apart = f" New rows still differ from old ones: {young:.4g} and {old:.4g} (z = {z:.2g})."
        return judged(
            "reward_maturity",
            value,
            f"{open_rows:,} of {len(self.seen):,} rewards may still come; counted as 0 they would give a mean of "
            f"{naive:.4g}, corrected it is {mean:.4g}.{apart}",
            {"naive": naive, "corrected": mean, "open": open_rows},
        )
