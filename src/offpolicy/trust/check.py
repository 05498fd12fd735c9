"""What a check is: a name, limits, the topic it belongs to, and what it looks at; and the one list of all checks.

Each topic file declares its checks. `diagnose`, the table in the docs, the words of the report and the levels of
findings are all read from `CHECKS`, and a check of your own (`register`) stands there beside those of the library.

Many checks test that means are 0 where all is well. Such a check names columns g, one number per decision, with
E[g] = 0; the largest of their z-scores, with skewness and clusters allowed for and adjusted for their number, is judged
by its limits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from offpolicy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from offpolicy._arrays import Floats
    from offpolicy.inference.comparison import Comparison
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.reach import Reach
    from offpolicy.inference.score_table import Units
    from offpolicy.logs.log import Log
    from offpolicy.policies.coarse import Cells
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator
    from offpolicy.scores.decisions import Decisions
    from offpolicy.splits.folds import Split
    from offpolicy.trust.finding import Diagnostics, Finding
    from offpolicy.trust.verdict import Verdict
    from offpolicy.trust.view import LogSide, View


Level: TypeAlias = Literal["ok", "note", "caution", "alarm"]


@dataclass(frozen=True)
class Threshold:
    """Where a check turns from ok to caution to alarm.

    Attributes
    ----------
    caution, alarm : float
        Limits; the value itself may still be reached.
    side : {"above", "below"}
        On which side of the limits trouble lies.
    remedy : str
        What to do about it.
    decides : bool
        Whether an alarm alone means insufficient evidence: without overlap, or with a log that contradicts its own
        propensities, no estimator and no interval can repair the number.
    about_products : bool
        Whether the check is about products of ratios over an episode, which says nothing of an estimator
        that uses a ratio of marginals in their place.
    advice : bool
        Whether the check gives advice: between its limits it makes a note, which leaves a verdict alone.
    false_alarms : float or None
        Chance of a caution where nothing is wrong; None for a limit, which is no test.
    about_marginals : bool
        Whether it is about ratios of marginals, which says nothing of an estimator that multiplies ratios.
    about_reach : bool
        Whether it is about how little of the target the log holds, which makes a lower bound that holds at any
        sample size lower, and not wrong.
    """

    caution: float
    alarm: float
    side: Literal["above", "below"]
    remedy: str
    decides: bool = False
    about_products: bool = False
    advice: bool = False
    false_alarms: float | None = None
    about_marginals: bool = False
    about_reach: bool = False

    def level(self, value: float) -> Level:
        """Judge a value; what is not defined is not judged."""
        if math.isnan(value):
            return "ok"
        sign = 1.0 if self.side == "above" else -1.0
        if sign * value > sign * self.alarm:
            return "alarm"
        beyond: Level = "note" if self.advice else "caution"
        return beyond if sign * value > sign * self.caution else "ok"


@dataclass(frozen=True)
class Topic:
    """One question that checks ask: what to say where it raises something, and where all is well ("": nothing)."""

    raised: str
    well: str = ""


@dataclass(frozen=True)
class Moment:
    """The column that is furthest from its expectation.

    Attributes
    ----------
    label : any
        Its name.
    mean, z : float
        Of the column.
    value : float
        |z| adjusted for the number of columns: what the limits judge.
    fine : bool
        Whether it is within the limits.
    """

    label: Any
    mean: float
    z: float
    value: float
    fine: bool


def anywhere(_: Any) -> str:
    """A check that can always be made."""
    return ""


def everywhere(_: Any) -> bool:
    """A check that every log is asked."""
    return True


@dataclass(frozen=True)
class Check:
    """A check of policies on a log, or of the log itself.

    Attributes
    ----------
    name : str
        Of the statistic, and of the check itself where `part_of` names no other.
    limits : Threshold
        When its value is worth a note, a caution or an alarm, whether an alarm decides, and what to do then.
    columns : callable, optional
        From a `View` to {label: (S,) array}, columns whose means should be 0.
    sentence : callable, optional
        From the `Moment` that is furthest off to what it means.
    applies : callable
        From a `View` (or `LogSide`) to why the check cannot be made there; "" where it can.
    policy, log : callable, optional
        In place of columns: from a `View` (`LogSide`) to a finding, where more than means of columns is looked at.
    where : callable
        From a `View` (or `LogSide`) to whether the check has anything to do with this kind of log at all.
    singly : str
        Why the check cannot be made of units with several decisions; "" where it can.
    topic : Topic
        The plain words of the report.
    value : str
        What its value is, for the table of checks.
    part_of : str
        Under which name ``ev.diagnostics`` lists it, together with other statistics of one question; "": its own.

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> check = Check(
    ...     "mean_ratio", Threshold(3.3, 5.0, "above", "Check the propensities."),
    ...     columns=lambda view: {"all": view.decisions.ratio - 1},
    ...     sentence=lambda worst: f"the mean weight is {1 + worst.mean:.3g}.",
    ... )
    >>> _ = register(check)
    >>> log = op.BanditLog.from_arrays(None, [0, 1] * 500, [0.0, 1.0] * 500, [0.5, 0.3] * 500)
    >>> op.evaluate(log, "always:1", estimators=["IPW"]).diagnostics["mean_ratio"].level
    'alarm'
    >>> forget("mean_ratio")
    """

    name: str
    limits: Threshold
    columns: Callable[[View], Mapping[Any, Floats]] | None = None
    sentence: Callable[[Moment], str] = str
    applies: Callable[[Any], str] = anywhere
    policy: Callable[[View], Finding] | None = None
    log: Callable[[LogSide], Finding] | None = None
    where: Callable[[Any], bool] = everywhere
    singly: str = ""
    topic: Topic = Topic("")
    value: str = ""
    part_of: str = ""

    @property
    def listed(self) -> str:
        """The name under which ``ev.diagnostics``, the report and the JSON list it."""
        return self.part_of or self.name


CHECKS: dict[str, Check] = {}
OWN: set[str] = set()


def declare(*checks: Check) -> None:
    """Put checks of the library on the list, in order."""
    CHECKS.update({check.name: check for check in checks})


def register(check: Check) -> Check:
    """Run a check of your own with every evaluation from now on."""
    if check.name in CHECKS and CHECKS[check.name] is not check:
        raise UsageError(f"a check named {check.name!r} already exists. Choose another name.")
    CHECKS[check.name] = check
    OWN.add(check.name)
    return check


def forget(name: str) -> None:
    """Take a check of your own back."""
    if name not in OWN:
        raise UsageError(f"you have not added a check named {name!r}.")
    OWN.discard(name)
    del CHECKS[name]


# What several checks advise.
PROPENSITIES = (
    "Check that the propensity column is the probability of the logged action at the moment it was "
    "logged, in (0, 1], not rounded and joined to the right rows."
)
FITTED = (
    "The fitted π_b is wrong. Try another behavior_model=, add the columns that the logging policy used, or log "
    "propensities."
)
OVERLAP = "Log with more exploration, or evaluate a policy closer to the current one (a mixture)."
WIDER = "Rewards depend on slots that interaction= leaves out. Assume a wider one ('cascade' or 'full')."
MODEL = "Try another model, more features, or leave the choice to 'auto'."


# ruff: noqa: D102


class Problem(Protocol):
    """A log with its folds, fitted models and the columns that estimates needed."""

    @property
    def log(self) -> Any: ...
    @property
    def ratio_log(self) -> Any: ...
    @property
    def specs(self) -> Any: ...
    @property
    def columns(self) -> Any: ...
    @property
    def cache(self) -> dict[Any, Any]: ...
    @property
    def table(self) -> Any: ...
    @property
    def earning(self) -> Any: ...
    @property
    def folds(self) -> Any: ...
    @property
    def units(self) -> Units: ...
    @property
    def cells(self) -> Cells | None: ...
    @property
    def weights_known(self) -> bool: ...
    @property
    def behavior_given(self) -> bool: ...
    @property
    def regresses_ratios(self) -> bool: ...
    def made(self, kind: Any) -> list[Split]: ...
    def decisions(self, target: Target, estimator: Estimator) -> Decisions: ...
    def behavior(self, split: Split, repeat: int) -> Any: ...
    def reach(self, target: Target, split: Split) -> Reach: ...
    def sums(self, *name: Any) -> Any: ...
    def blend(self, target: str, estimator: Estimator) -> tuple[float, float]: ...


@dataclass(frozen=True)
class Tried:
    """Estimates of a policy that was tried, how much information its weights hold, and whether its window is cut."""

    estimates: Mapping[str, Estimate]
    size: float
    is_cut: bool


class Trials(Protocol):
    """What a `Ratio` may try on a log before the question is answered, on the same units, folds and fits."""

    @property
    def log(self) -> Log: ...
    @property
    def estimators(self) -> Sequence[Estimator]: ...
    @property
    def behavior(self) -> Any: ...
    @property
    def kept(self) -> dict[Any, Any]: ...
    def key(self, *what: Any) -> tuple[Any, ...]: ...
    def token(self, policy: Any) -> Any: ...
    def names(self, targets: Mapping[str, Target]) -> list[tuple[str, Any]]: ...
    def views(self, targets: Mapping[str, Target], probe: Estimator) -> dict[str, View]: ...
    def run(self, policies: dict[str, Any], probes: Sequence[Estimator]) -> dict[str, Tried]: ...
    def adopt(self, renamed: Mapping[str, tuple[str, Any]], tried: set[str]) -> None: ...


class Answer(Protocol):
    """An evaluation: estimates by policy and estimator, and what they rest on."""

    @property
    def problem(self) -> Problem: ...
    @property
    def targets(self) -> Mapping[str, Target]: ...
    @property
    def estimators(self) -> Sequence[Estimator]: ...
    @property
    def policies(self) -> list[str]: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...
    @property
    def logged(self) -> Estimate: ...
    @property
    def diagnostics(self) -> Diagnostics: ...
    @property
    def assumption(self) -> str: ...
    @property
    def minimize(self) -> bool: ...
    @property
    def metric_name(self) -> str: ...
    @property
    def metrics(self) -> Sequence[str]: ...
    @property
    def draws_folds(self) -> bool: ...
    def __getitem__(self, key: tuple[str, str], /) -> Estimate: ...
    def compare(self, level: float = ..., estimator: str | None = ...) -> Comparison: ...
    def metric(self, name: str) -> Answer: ...
    def redrawn(self, repeats: int, estimator: str, *, seed: int) -> Answer | None: ...
    def verdict(self, policy: str | None = ..., estimator: str | None = ..., *, level: float = ...) -> Verdict: ...
