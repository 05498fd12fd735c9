"""What the log decides by itself: whether ratios are of cells of actions, and how wide the window around a number is.

Both compare questions that differ in one thing, by paired differences of estimates on the same units.

``ratio="auto"`` takes ratios of cells where they make an estimate clearly more precise and nothing speaks against them:
not where the paired test of both (`offpolicy.trust.ratios`) rejects them for any policy, and not for the sake of a few
percent of a standard error.

A bandwidth is as given, or chosen by Lepski's rule from the estimates themselves. A wide window has little noise and
much bias, a narrow one the reverse. From narrow to wide, a bandwidth is accepted as long as its estimate differs from
that of no narrower one by more than `CONTRADICTS` standard errors of their difference; the first contradiction ends
the search. Wider windows reach where the log is thin, so that they may have more noise again: of the accepted ones
that with the shortest interval, its allowance for bias included, is taken. Windows that the end of the logged range
cuts are no wider than `CUT_WIDEST` of it: what a reward model leaves has mean 0 over wide windows, also where it is far
off at the end. All candidates share one reward model and one π_b, and are scored on the same units, so that their
differences have exact standard errors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.errors import NotIdentifiedError, UsageError
from offpolicy.evaluation.estimates import CUT, Estimates
from offpolicy.evaluation.passes import prepare
from offpolicy.inference.estimate import INTERIOR, UNSEEN
from offpolicy.inference.family import covariance
from offpolicy.inference.intervals.tails import effective_size
from offpolicy.inference.score_table import ScoreTable
from offpolicy.models.behavior.logging_policy import LoggingPolicy
from offpolicy.policies.coarse import Cells, CoarseRatio
from offpolicy.policies.densities import KernelRatio
from offpolicy.policies.numbers import Smoothed, has_density, trial_stem
from offpolicy.scores import catalog
from offpolicy.trust.ratios import compared
from offpolicy.trust.view import View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offpolicy._arrays import Floats
    from offpolicy.evaluation.problem import Problem
    from offpolicy.inference.estimate import Estimate
    from offpolicy.logs.log import Log, Scan
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator

EXACT = "exact"
AUTO = "auto"
LEVEL = 0.05  # of the test under "auto": to reject a sound coarse ratio costs precision only
GAIN = 0.9  # ratio of standard errors above which cells are not worth their assumption
CONTRADICTS = 2.5
WIDEST, CANDIDATES, STEP = 0.5, 15, 2**-0.5  # widest as a share of the range of the log
CUT_WIDEST = 0.125
NORMAL = 1.96
ENOUGH = 30.0  # units' worth of information that the narrowest window must hold


def is_auto(ratio: Any) -> bool:
    """Whether the log is to decide."""
    return isinstance(ratio, str) and ratio == AUTO


def as_ratio(ratio: Any, log: Log | Scan) -> Any:
    """Resolve ``ratio=`` against a log: None for the ratio of the logged action itself, else what the object makes.

    An object with ``for_log(log)`` is asked once, before any model is fitted, and refuses logs it is not for.
    """
    ratio = log.space.ratio(ratio)
    if isinstance(ratio, str) and ratio == EXACT:
        return None
    if is_auto(ratio):
        ratio = CoarseRatio()
    if isinstance(ratio, type):
        raise UsageError(f"ratio= is the class {ratio.__name__}. Give an instance: {ratio.__name__}(…).")
    if hasattr(ratio, "for_log"):
        made = ratio.for_log(log)
        # One action per cell is the exact ratio.
        return None if isinstance(made, Cells) and made.single.all() else made
    raise UsageError(
        f"ratio= must be 'exact', 'auto', op.CoarseRatio([…]) or op.KernelRatio(…). Got {ratio!r} instead."
    )


@dataclass(frozen=True)
class Choice:
    """Which ratio the log decided for, and why."""

    coarse: bool
    why: str


def need_exact(log: Log, behavior_model: Any) -> None:
    """Refuse "auto" where there is no exact ratio to compare with."""
    given = isinstance(behavior_model, np.ndarray | LoggingPolicy)
    if not given and not (behavior_model is None and log.has_propensity):
        raise UsageError(
            "ratio='auto' compares ratios of cells with those of actions, which need the propensity of the logged "
            "action. Name the cells (op.CoarseRatio([…])) or say ratio='exact'."
        )


def chosen(source: Problem, targets: Mapping[str, Target], estimators: Sequence[Estimator]) -> Choice:
    """Compare both ratios on every policy, by the doubly robust score where a reward model is fitted at all."""
    modeled = any("value" in e.needs for e in estimators)
    made, policies = source.store.chosen, source.keys.policies
    key = ("ratio", modeled, *((n, policies[n]) for n in targets), *source.facets("crossfit"))
    if key not in made:
        made[key] = _choice(source, targets, catalog.named("DML" if modeled else "IPW"))
    choice: Choice = made[key]
    return choice


def _choice(source: Problem, targets: Mapping[str, Target], probe: Estimator) -> Choice:
    everyone = list(targets.values())
    prepare(source, everyone, [probe])
    source.need(source.names.of(everyone, [probe], 0))
    gains = []
    for name, target in targets.items():
        both = compared(View.of(source, target))
        if both is None or not both.possible:
            gains.append(0.0)
            continue
        if both.p < LEVEL / len(targets):
            why = f"ratios of cells move the value of {name!r} by {both.gap:+.3g} (p = {both.p:.2g})"
            return Choice(False, why)
        gains.append(both.coarse / both.exact if both.exact > 0 else 1.0)
    if min(gains) > GAIN:
        return Choice(False, f"ratios of cells would leave {100 * min(gains):.3g}% of the error")
    if max(gains) == 0:
        return Choice(True, "the exact weights carry too little to compare with")
    return Choice(True, f"the test does not object, and {100 * max(gains):.3g}% of the error are left")


def described(ratio: Any) -> str:
    """A ratio in the settings of a result."""
    return ratio if isinstance(ratio, str) else repr(ratio)


def smoothed(source: Problem, named: dict[str, Any], estimators: Sequence[Estimator]) -> dict[str, Any]:
    """Policies with what `ratio=` makes of them: those that name a number get a kernel and its bandwidth."""
    ratio = source.specs.ratio
    if not isinstance(ratio, KernelRatio):
        return named
    points = {
        name: policy for name, policy in named.items() if not has_density(policy) and not isinstance(policy, Smoothed)
    }
    if not points:
        return named
    if ratio.bandwidth != "auto":
        kernels = {n: Smoothed(p, ratio, judged=True) for n, p in points.items()}
        return {**named, **kernels}
    probes, made, tokens = _probes(estimators), source.store.chosen, source.store.tokens
    rest = (*probes, *source.facets("crossfit"))
    keys = {name: ("bandwidth", name, tokens.of(policy), *rest) for name, policy in points.items()}
    new = {name: policy for name, policy in points.items() if keys[name] not in made}
    if new:
        made.update((keys[name], final) for name, final in _chosen(source, new, ratio, probes))
    return {**named, **{name: made[key] for name, key in keys.items()}}


def bandwidths_of(named: dict[str, Any]) -> dict[str, Any]:
    """Bandwidths of the policies that have one, for the settings of a result."""
    smooth = {n: p for n, p in named.items() if isinstance(p, Smoothed)}
    if not smooth:
        return {}
    widths = {n: p.ratio.width for n, p in smooth.items()}
    alone = {n: p.alone for n, p in smooth.items() if p.alone is not None}
    return {"bandwidths": widths, **({"bandwidths_without_model": alone} if alone else {})}


def _probes(estimators: Sequence[Estimator]) -> list[Estimator]:
    """The estimators whose numbers choose bandwidths: one with a reward model, one without, as they are used."""
    modeled = [e for e in estimators if e.needs >= catalog.BOTH and e.emphasis is None]
    alone = [e for e in estimators if e.needs == catalog.BEHAVIOR]
    probes = []
    if modeled:
        first = catalog.headline(modeled)
        probes.append(replace(catalog.named("DML"), split=first.split))
    if alone or not modeled:
        probes.append(catalog.named("SNIPW"))
    return probes


def candidates(room: float) -> list[float]:
    """Bandwidths to choose from, widest first; two steps halve one."""
    return [WIDEST * room * STEP**j for j in range(CANDIDATES)]


def _chosen(
    source: Problem, points: dict[str, Any], ratio: KernelRatio, probes: list[Estimator]
) -> list[tuple[str, Smoothed]]:
    """Each policy with its bandwidth by Lepski's rule, one for each probe."""
    low, high = source.store.log.space.ends(np.zeros(1))
    room = float(np.max(high) - np.max(low))
    widths = candidates(room)
    first = replace(ratio, bandwidth=widths[0])
    trials = {
        trial_name(name, widths[0]): Smoothed(
            policy,
            first,
            None if ratio.smooth_model else name,
            tried=tuple((trial_name(name, h), h) for h in widths[1:]),
        )
        for name, policy in points.items()
    }
    widest = list(source.resolve(trials).values())
    prepare(source, widest, probes)
    resolved = {t.name: t for target in widest for t in target.all}
    made = Estimates(source, ScoreTable(source.units)).run(resolved, probes, closes=False)
    sizes = {name: effective_size(source.columns["pi_e", name], None) for name in resolved}
    cut = {t.name: source.reach(t).cut_share > CUT for t in resolved.values()}
    most = CUT_WIDEST * room
    out, renamed = [], {}
    for name, policy in points.items():
        own = []
        for probe in probes:
            tried = [
                (h, e)
                for h in reversed(widths)
                if sizes[trial_name(name, h)] >= ENOUGH and (e := made[trial_name(name, h), probe.name]).is_defined
            ]
            narrow = [(h, e) for h, e in tried if h <= most or not cut[trial_name(name, h)]]
            # Three are needed: where the log is thin at the end, the three narrowest there are.
            own.append(_widest(name, narrow if len(narrow) > 2 else tried[:3]))
        final = Smoothed(policy, replace(ratio, bandwidth=own[0]), judged=True, alone=own[1] if own[1:] else None)
        out.append((name, final))
        for new, each in _named(name, final):
            width = min(widths, key=lambda h: abs(h - each.ratio.width))
            renamed[new] = trial_name(name, width)
            source.keys.policies[new] = source.store.tokens.of(final)
    _adopt(source, renamed, {t.name for t in resolved.values()})
    return out


def _adopt(source: Problem, renamed: dict[str, str], trials: set[str]) -> None:
    """Keep what a stream predicted for some trials under {new: old} names, and let go of all trials."""
    sums, reaches, known = source.summed, ("full", "half"), source.store.targets
    if source.streams:  # no further pass is needed for these
        for new, old in renamed.items():
            for name in list(source.columns):
                if isinstance(name, tuple) and name[-1] == old:
                    source.columns.alias((*name[:-1], new), name)
            for which in reaches:
                sums["reach", which, new] = sums["reach", which, old]
    source.columns.drop(lambda name: isinstance(name, tuple) and name[-1] in trials)
    for trial in trials:
        for which in reaches:
            sums.pop(("reach", which, trial))
        source.policies.pop(trial, None)
        source.targets.pop(trial, None)
    for key in [key for key in known if key[0] in trials]:
        del known[key]


def _named(name: str, policy: Smoothed) -> list[tuple[str, Smoothed]]:
    """A policy and all its variants, by name."""
    others = (_named(*each) for each in policy.variants(name).values())
    return [(name, policy), *(pair for other in others for pair in other)]


def _widest(name: str, tried: list[tuple[float, Estimate]]) -> float:
    """The bandwidth to take of those tried, from narrow to wide."""
    # Half of a bandwidth must be there as well: by it the bias is judged.
    if len(tried) < 3:
        raise NotIdentifiedError(
            f"policy {name!r}: too few logged actions lie near its own for any bandwidth up to half of the logged "
            "range. Evaluate a policy closer to the logging one, or give a bandwidth: "
            "ratio=KernelRatio(bandwidth=…)."
        )
    values = np.array([e.value for _, e in tried])
    return tried[best_width(values, covariance([e for _, e in tried]))][0]


def trial_name(name: str, h: float) -> str:
    """What a policy is called while its bandwidth is tried."""
    return f"{trial_stem(name)}{h!r}"


def lepski(values: Floats, cov: Floats, bar: float = CONTRADICTS) -> int:
    """Position of the widest bandwidth before one that a narrower one contradicts; values from narrow to wide.

    >>> lepski(np.array([1.0, 1.1, 5.0, 1.0]), np.eye(4))
    1
    """
    variance = np.diag(cov)
    for k in range(1, len(values)):
        spread = np.sqrt(np.maximum(variance[k] + variance[:k] - 2 * cov[k, :k], 0.0))
        if (np.abs(values[k] - values[:k]) > bar * spread).any():
            return k - 1
    return len(values) - 1


def best_width(values: Floats, cov: Floats) -> int:
    """Position of the bandwidth to take: the shortest interval among those that Lepski's rule accepts."""
    error = np.sqrt(np.diag(cov))

    def length(k: int) -> float:
        gap = np.sqrt(max(cov[k, k] + cov[k - 2, k - 2] - 2 * cov[k, k - 2], 0.0))
        room = INTERIOR * (abs(values[k] - values[k - 2]) + UNSEEN * gap)
        return float(NORMAL * error[k] + room)

    return min(range(2, max(2, lepski(values, cov)) + 1), key=length)
