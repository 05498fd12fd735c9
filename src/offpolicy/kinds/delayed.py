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
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import DataError, UsageError, first_rows
from offpolicy.kinds.seen_in_part import PseudoRewards, SeenInPart
from offpolicy.logs.kinds import like_actions
from offpolicy.logs.outcome import Arrival, named_columns
from offpolicy.trust.finding import judged
from offpolicy.trust.moments import z_score

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.logs.bandit import BanditLog
    from offpolicy.logs.outcome import Given
    from offpolicy.trust.finding import Finding

ASSUMES = "assumes that rewards come as often and as late in new rows as in old ones with the same context and action"
LARGE = 3.3  # standard errors from which on new and old rows differ


@checks_arguments
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
    >>> abs(ev["DML"].value - 0.3 * (1 - float(np.exp(-168 / 60)))) < 4 * ev["DML"].std_error
    True
    """

    time: Any
    age: Any
    window: float
    proxies: Any = None
    model: Any = None

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns of the log besides the reward."""
        return named_columns(self.time, self.age, self.proxies)

    def held(self, given: Given, reward: Floats, metric: str) -> DelayedReward:
        """What a log holds of this outcome."""
        window = self.window
        if isinstance(window, bool) or not isinstance(window, int | float) or not 0 < window < math.inf:
            raise UsageError(f"window= must be a positive number. Got {window!r} instead.")
        time, age = given.numbers(self.time, "time"), given.numbers(self.age, "age")
        times, ages = given.called(self.time, "time"), given.called(self.age, "age")
        came = ~np.isnan(time)
        _refuse(~np.isfinite(age) | (age < 0), age, ages, "ages are numbers of at least 0")
        _refuse(came & (time < 0), time, times, "rewards come after the action")
        _refuse(came & (time > age), time, times, f"the reward came later than the log was read ({ages!r})")
        empty = ~came & np.isfinite(reward) & (reward != 0)
        _refuse(empty, reward, metric, f"there is a reward, but {times!r} does not say when it came")
        _refuse(came & ~np.isfinite(reward), reward, metric, f"{times!r} says when it came, but there is no reward")
        in_time = came & (time <= window)
        seen = in_time | (age >= window)
        if not (age >= window).any():
            raise DataError(
                f"column {ages!r}: no row is as old as window={window:g} (the oldest is {float(age.max()):g}), so "
                "no row is known to have earned nothing. Wait, or use a shorter window."
            )
        settling = Settling(np.where(in_time, time, window), age)
        made = np.where(in_time, reward, 0.0)
        for name in set(named_columns(self.proxies)) & {times, ages}:
            raise DataError(f"proxies= names {name!r}, which says when the reward came. Leave it out.")
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
            is_drawn=False,
            naive=np.where(came & (time <= window), reward, 0.0),
            old=age >= window,
            window=float(window),
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
        groups = like_actions(log.space, log.action)
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
    window: float = math.inf

    def take(self, rows: Ints) -> Self:
        """The same for some rows."""
        taken = super().take(rows)
        return replace(taken, naive=self.naive[rows], old=self.old[rows])

    @property
    def arrival(self) -> Arrival:
        """When rewards are known: those of a replay must not be seen before."""
        chance = cast("Settling", self.chance)
        return Arrival(-chance.age, chance.needed - chance.age, self.window - chance.age)

    def settled(self, log: BanditLog, folds: Any, model: Any, seed: int) -> DelayedRewards:
        """Pseudo-rewards of all rows."""
        return DelayedRewards(*self.prepared(log, folds, model, seed))


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
        open_rows = self.total - self.seen_count
        value, apart = self._faded()
        return judged(
            "reward_maturity",
            value,
            f"{open_rows:,} of {self.total:,} rewards may still come; if they counted as 0, the mean would be "
            f"{naive:.4g}; corrected for them it is {mean:.4g}.{apart}",
            {"naive": naive, "corrected": mean, "open": open_rows},
        )

    def _faded(self) -> tuple[float, str]:
        """What came soon, in rows younger and older than the window: their ratio where it is not 1 by more than chance.

        "Soon" is the median time of rewards, which both have seen in full; means are compared action by action.
        """
        held, chance = self.held, self.held.chance
        assert isinstance(chance, Settling)
        came = held.seen & (chance.needed <= chance.age) & (held.naive != 0)
        if not came.any():
            return 1.0, ""
        soon = float(np.median(chance.needed[came]))
        earned = np.where(came & (chance.needed <= soon), held.naive, 0.0)
        young = ~held.old & (chance.age >= soon)
        groups = like_actions(self.log.space, self.log.action)
        gap = spread = base = 0.0
        for code in np.unique(groups):
            (n, a, noise), (m, b, other) = (
                _mean(earned, self.count, at & (groups == code)) for at in (young, held.old)
            )
            if min(n, m) < 2:
                continue
            gap += n * (a - b)
            spread += n**2 * (noise + other)
            base += n * b
        z = z_score(gap, math.sqrt(spread), 0.0)
        if abs(z) <= LARGE or base == 0:
            return 1.0, ""
        ratio = 1 + gap / base
        said = f" Of new rows {ratio:.0%} as much came within {soon:.3g} as of old rows (z = {z:.2g})."
        return max(min(ratio, 1 / ratio), 0.0) if ratio > 0 else 0.0, said


def _mean(values: Floats, count: Floats, at: Bools) -> tuple[float, float, float]:
    """How many rows some are, their mean, and its variance."""
    n = float(count[at].sum())
    if n < 2:
        return n, 0.0, 0.0
    mean = float(count[at] @ values[at]) / n
    return n, mean, float(count[at] @ (values[at] - mean) ** 2) / (n - 1) / n
