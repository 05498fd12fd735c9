"""Checks of your own: columns whose means should be 0, a limit, a sentence and a remedy, beside the library's checks.

A check names columns g, one number per decision, with E[g] = 0 where all is well. The largest of their z-scores, with
skewness and clusters allowed for and adjusted for their number, is judged by the check's limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import UsageError
from offpolicy.trust.finding import Finding, judged, not_applicable
from offpolicy.trust.moments import mean_z
from offpolicy.trust.significance import adjusted_z, first_largest
from offpolicy.trust.thresholds import THRESHOLDS, Threshold

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from offpolicy._arrays import Floats
    from offpolicy.trust.view import View


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


def _anywhere(_: View) -> str:
    """A check that can always be made."""
    return ""


@dataclass(frozen=True)
class Check:
    """A check of policies on a log.

    Attributes
    ----------
    name : str
        Under which ``ev.diagnostics`` has it.
    limits : Threshold
        When |z| is worth a note, a caution or an alarm, whether an alarm decides, and what to do then.
    columns : callable
        From a `View` to {label: (S,) array}, columns whose means should be 0.
    sentence : callable
        From the `Moment` that is furthest off to what it means.
    applies : callable
        From a `View` to why the check cannot be made there; "" where it can.

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
    columns: Callable[[View], Mapping[Any, Floats]]
    sentence: Callable[[Moment], str]
    applies: Callable[[View], str] = _anywhere

    def finding(self, view: View) -> Finding:
        """What the check finds about one policy."""
        if why := self.applies(view):
            return not_applicable(self.name, why)
        worst = furthest(view, self.columns(view), self.limits)
        if worst is None:
            return not_applicable(self.name, "there is nothing to compare.")
        return judged(self.name, worst.value, self.sentence(worst), {"z": worst.z, "of": worst.label})


def furthest(view: View, columns: Mapping[Any, Floats], limits: Threshold) -> Moment | None:
    """The column whose mean is furthest from 0, in standard errors; None where there is none."""
    if not columns:
        return None
    means = [view.over_decisions(np.asarray(g, dtype=np.float64)) for g in columns.values()]
    z = np.array([mean_z(mean.sample(), 0.0) for mean in means])
    worst = first_largest(np.abs(z))
    value = adjusted_z(float(z[worst]), len(z))
    fine = limits.level(value) == "ok"
    return Moment(list(columns)[worst], means[worst].value, float(z[worst]), value, fine)


REGISTERED: dict[str, Check] = {}


def register(check: Check) -> Check:
    """Run a check of your own with every evaluation from now on."""
    if check.name in THRESHOLDS and REGISTERED.get(check.name) is not check:
        raise UsageError(f"a check is called {check.name!r} already. Choose another name.")
    REGISTERED[check.name] = check
    THRESHOLDS[check.name] = check.limits
    return check


def forget(name: str) -> None:
    """Take a check of your own back."""
    if name not in REGISTERED:
        raise UsageError(f"no check of your own is called {name!r}.")
    del REGISTERED[name], THRESHOLDS[name]
