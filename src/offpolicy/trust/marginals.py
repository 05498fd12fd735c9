"""Ratios of state-action marginals: do they have the mean they must have, who carries them, do they fit?

With the right ratios w_t, Σ γ^t w_t R_t has the same mean as DRL, whatever the value model; and so has DML, where
products of ratios are not lost altogether, and the highest rung of the ladder between them (`scores.look_back`). A
distance of many standard errors means that the ratios are badly fitted, or that the state is not Markov: then DRL is
not to be trusted. An estimate that looks back is no longer concerned, if the last two rungs agree: where looking back
twice as far still moves it by more than half a standard error, nobody knows where it would come to rest. And where
ratios were regressed on a continuous state and neither products nor four steps back leave enough episodes, nothing can
tell how wrong the regression is, and it is not trusted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from offpolicy.inference.figures import capitalized
from offpolicy.scores import formulas as scores
from offpolicy.scores.blend import BARELY, ladder, products_supported
from offpolicy.scores.catalog import ALL, Estimator
from offpolicy.scores.tuning import ratios_alone
from offpolicy.trust.check import Check, Threshold, Topic
from offpolicy.trust.finding import Finding, judged, not_applicable
from offpolicy.trust.moments import z_score
from offpolicy.trust.stability import MOSTLY
from offpolicy.trust.view import several

if TYPE_CHECKING:
    from offpolicy._arrays import Floats
    from offpolicy.scores.blend import Rung
    from offpolicy.scores.decisions import Decisions
    from offpolicy.trust.check import Level
    from offpolicy.trust.view import View

NAME = "marginal_ratios"
# Standard errors by which the last doubling of the look back may move an estimate.
SETTLED = 0.5
# Steps back that have to be supported for a regression to be checked, where episodes are as long as that.
CHECKED = 4
REMEDY = (
    "Give better ratios (ratio=), or states that contain everything that affects later steps; if products of "
    "ratios are supported, use DML."
)
UNCHECKED = (
    "The ratios come from a regression on a continuous state that cannot be checked here: products of ratios are not "
    "supported, and looking back leaves too few episodes."
)
NEARER = "Log more episodes, or some with a policy closer to this one; or give known ratios (ratio=)."


def finding(view: View) -> Finding:
    """The distance of DRL from its reference, with what the ratios look like."""
    users = [e for e in view.estimators if "marginal" in e.needs and e.split == view.split]
    if not users or not view.has_model:
        return not_applicable(NAME, "no estimate uses ratios of marginals.")
    probe = Estimator("check", scores.marginalized, view.split, ALL)
    d = view.problem.decisions(view.target, probe)
    robust = scores.marginalized(d)
    alone = _distance(view, robust - ratios_alone(d))
    rungs = ladder(d) if d.regressed else []
    witness = products_supported(d) or (len(rungs) < 2 and products_supported(d, *BARELY))
    if witness:
        name, (z, gap) = "DML", _distance(view, robust - scores.doubly_robust(d))
    elif len(rungs) > 1:
        back = rungs[-1].steps
        name = f"its score with ratios {back} step{'s' if back > 1 else ''} back"
        z, gap = _distance(view, robust - rungs[-1].psi)
    else:
        name, (z, gap) = "the ratios alone", alone
    mean, largest = by_step(d)
    share = float(np.nanmax(largest))
    sentence = (
        f"DRL and {name} differ by {z:.2g} standard errors ({gap:+.3g}); a single episode carries up to "
        f"{100 * share:.3g}% of the weight at some step."
    )
    details = {
        "z": z,
        "reference": name,
        "z_of_ratios_alone": alone[0],
        "mean": mean.tolist(),
        "largest_share": largest.tolist(),
        "largest_ratio": float(d.marginal.max()) if d.marginal is not None else None,
        "look_back": rungs[-1].steps if rungs else None,
        "drift": _drift(view, rungs),
        "checked": not d.regressed or _is_checked(rungs, d.layout.horizon),
    }
    # Ratios counted in a table may be off and DRL right, which a value model corrects; what a regression made of a
    # continuous state has no other witness.
    at_most: Level = "alarm" if witness or not view.log.is_discrete else "caution"
    found = judged(NAME, z, capitalized(sentence), details, at_most=at_most, remedy=REMEDY)
    if view.problem.regresses_ratios and not (details["checked"] or products_supported(d)):
        return replace(found, level="alarm", sentence=f"{found.sentence} {UNCHECKED}", remedy=NEARER)
    return found


def _is_checked(rungs: list[Rung], horizon: int) -> bool:
    """Whether the ladder reaches far enough to show what a regression got wrong."""
    reached = rungs[-1].steps
    return horizon == 1 or reached >= CHECKED or 2 * reached >= horizon


def _drift(view: View, rungs: list[Rung]) -> float | None:
    """Standard errors by which the last doubling moved the estimate, beyond two of the move's own."""
    if len(rungs) < 2:
        return None
    top, move = view.estimate(rungs[-1].psi), view.estimate(rungs[-1].psi - rungs[-2].psi)
    beyond = max(abs(move.value) - 2 * move.std_error, 0.0)
    return float(beyond / top.std_error) if top.std_error > 0 else 0.0


def softened(f: Finding, looks_back: float) -> Finding:
    """What the check means for an estimate of which a share looks back: a caution, where that has settled."""
    drift = f.details.get("drift")
    if f.level != "alarm" or looks_back <= MOSTLY or drift is None or drift > SETTLED:
        return f
    if not f.details.get("checked", True):
        return f
    sentence = (
        f"{f.sentence} The estimate looks back instead, by at most {f.details['look_back']} steps; the last doubling "
        f"of that number moved it by {drift:.2g} standard errors beyond chance."
    )
    return replace(f, level="caution", sentence=sentence)


def _distance(view: View, difference: Floats) -> tuple[float, float]:
    gap = view.estimate(difference)
    if not gap.std_error > 0:
        return 0.0, gap.value
    return abs(z_score(gap.value, gap.std_error, 0.0)), gap.value


def by_step(d: Decisions) -> tuple[Floats, Floats]:
    """(T+1,) sum of the ratios over all episodes' mass, and the largest share of them that one episode carries."""
    assert d.marginal is not None
    mean, largest = np.full(d.layout.horizon, np.nan), np.full(d.layout.horizon, np.nan)
    size = float(d.mass.sum())
    for t, units, rows in d.layout.by_step():
        weight = d.mass[units] * d.marginal[rows]
        total = float(weight.sum())
        mean[t] = total / size
        # A handful of episodes that are still running carry what they carry.
        if total > 0.01 * size:
            largest[t] = float(weight.max()) / total
    return mean, largest


CHECKS = (
    Check(
        NAME,
        Threshold(
            3.0, 5.0, "above",
            "Give better ratios (ratio=), or states that contain everything that affects later steps.",
            decides=True, about_marginals=True,
        ),
        policy=finding, where=lambda view: view.log.unit_kind.leads_on and several(view.log),
        topic=Topic("How often the policy visits each state is uncertain."),
        value="standard errors between DRL and its reference (DML, ratios steps back, or the ratios alone)",
    ),
)  # fmt: skip
