"""Views of a policy on a log from plain arrays, without a model that is fitted or a pipeline that runs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import offpolicy as op
from offpolicy.inference.reach import Reach
from offpolicy.inference.score_table import Units
from offpolicy.logs.layout import Layout
from offpolicy.scores.decisions import Decisions
from offpolicy.trust import models, overlap, weights
from offpolicy.trust.check import CHECKS
from offpolicy.trust.diagnose import found
from offpolicy.trust.view import View


def reach_of(pi: Any, mass: Any, square: Any, pi_b: Any = None, **given: Any) -> Reach:
    """Where a target puts its mass, row by row."""
    total = np.zeros((2, pi.shape[1]))
    forbidden, largest = 0.0, 0.0
    for i in range(len(pi)):
        for a in range(pi.shape[1]):
            total[:, a] += mass[i] * pi[i, a], square[i] * pi[i, a] ** 2
            if pi_b is not None and pi_b[i, a] == 0:
                forbidden += mass[i] * pi[i, a]
            elif pi_b is not None:
                largest = max(largest, pi[i, a] / pi_b[i, a])
    known = {} if pi_b is None else {"forbidden": forbidden, "largest": largest}
    return Reach(float(sum(mass)), *total, **{"chooses": False, **known, **given})


def view_of(
    pi: Any,
    pi_b: Any,
    action: Any,
    reward: Any,
    *,
    q: Any = None,
    v: Any = None,
    split: str = "crossfit",
    known: bool = True,
    raised: Any = None,
    reach: dict[str, Any] | None = None,
    shown: Any = None,
    cells: Any = None,
    exact: Any = None,
    leaning: Any = None,
    ratio: Any = None,
    **roles: Any,
) -> View:
    """The target's probabilities (n, K) and those of the logging policy, (n,) of the logged action or (n, K)."""
    pi, pi_b, action = np.asarray(pi, float), np.asarray(pi_b, float), np.asarray(action)
    reward = np.asarray(reward, float)
    n, k = pi.shape
    log = op.BanditLog.from_arrays(
        roles.pop("context", None), action, reward, pi_b, actions=roles.pop("actions", range(k)), **roles
    )
    count = log.count
    weight = log.weight
    units = Units(n, log.count, log.weight, log.cluster, log.batch)
    own = pi_b if pi_b.ndim == 1 else pi_b[np.arange(n), action]
    taken = pi[np.arange(n), action] if ratio is None else np.asarray(ratio) * own
    blank = np.zeros(n)
    d = Decisions(
        Layout.single(n), reward, taken, own, blank if q is None else np.asarray(q, float),
        blank if v is None else np.asarray(v, float), weight=units.mass, count=log.count,
    )  # fmt: skip
    where = reach_of(pi, count * weight, count * weight**2, pi_b if pi_b.ndim == 2 else None, **(reach or {}))
    columns = {("own", "leaning"): leaning}
    if exact is not None:
        columns |= {("own", "pi_b"): np.ones(n), ("own", "pi_e", "policy"): np.asarray(exact)}
    problem = SimpleNamespace(
        log=log, ratio_log=log, weights_known=known, units=units,
        decisions=lambda target, probe: d,
        folds=SimpleNamespace(scored=lambda split, repeat: None),
        reach=lambda target, split: where,
        behavior=lambda split, repeat: SimpleNamespace(raised=raised),
        cells=cells, behavior_given=False, columns=columns, specs=SimpleNamespace(model=None, is_given=False),
    )  # fmt: skip
    return View(problem, SimpleNamespace(shown=shown, name="policy"), split, None if q is None else split)


def all_on(action: int, n: int, k: int) -> Any:
    """A policy that takes one action."""
    pi = np.zeros((n, k))
    pi[:, action] = 1.0
    return pi


def by_name(findings: Any) -> dict[str, Any]:
    """Findings by their name."""
    return {f.name: f for f in findings}


def checked(name: str, view: View) -> Any:
    """What the check of a name finds about a policy, or why it cannot be made; None where it is not mentioned."""
    return found(CHECKS[name], view)


def several(view: View, *names: str) -> list[Any]:
    """The findings of several checks, without those that are not mentioned."""
    return [f for f in (checked(name, view) for name in names) if f is not None]


def of_weights(view: View) -> list[Any]:
    """The checks of weights."""
    return several(view, *(c.name for c in (*weights.CHECKS, *overlap.CHECKS) if c.name != "unsupported_mass"))


def of_models(view: View) -> list[Any]:
    """The checks of models."""
    return several(view, *(c.name for c in models.CHECKS), "deterministic_logging")


def of_cells(view: View) -> list[Any]:
    """The checks of coarse ratios."""
    return several(view, "coarse_ratio", "cell_leaning")


def smoothed(estimates: Any, estimators: Any) -> Any:
    """The check of a window around a number, of estimates alone."""
    return checked("smoothing_bias", View(None, None, "crossfit", None, estimates, estimators))
