"""`KernelRatio`: weights of a policy that names a number are a kernel around it over the logged density.

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

from offpolicy._arguments import checks_arguments
from offpolicy.errors import NotIdentifiedError, UsageError
from offpolicy.inference.estimate import INTERIOR, UNSEEN
from offpolicy.inference.family import covariance
from offpolicy.logs.kinds import Ratio
from offpolicy.policies.densities import Window
from offpolicy.policies.numbers import Smoothed, has_density, trial_stem
from offpolicy.scores import catalog

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offpolicy._arrays import Floats
    from offpolicy.inference.estimate import Estimate
    from offpolicy.logs.log import Log, Scan
    from offpolicy.scores.catalog import Estimator
    from offpolicy.trust.check import Trials

CONTRADICTS = 2.5
WIDEST, CANDIDATES, STEP = 0.5, 15, 2**-0.5  # widest as a share of the range of the log
CUT_WIDEST = 0.125
NORMAL = 1.96
ENOUGH = 30.0  # units' worth of information that the narrowest window must hold


@checks_arguments
@dataclass(frozen=True)
class KernelRatio(Window, Ratio):
    """Importance weights of a policy that names a number: a kernel around it over the logged density.

    Parameters
    ----------
    bandwidth : "auto" or float
        Half the width of the window around the policy's number (its standard deviation for "gaussian"), in the units
        of the action. "auto" takes, policy by policy, the widest of a grid that no narrower one contradicts
        (Lepski's rule). Every interval is widened by an allowance for the bias that the window brings.
    kernel : {"epanechnikov", "triangular", "cosine", "uniform", "gaussian"}
    edge : {"renormalize", "reflect", "none"}
        What becomes of a kernel that reaches over the end of the range of logged actions: the part inside is scaled
        to 1, the part outside is folded back, or it is lost.
    smooth_model : bool
        Whether the reward model is averaged over the kernel as well, so that every estimator values the smoothed
        policy. By default it is asked at the policy's own number, so that only what the model leaves of the
        reward is smoothed: less bias for estimators with a reward model.

    Examples
    --------
    >>> KernelRatio(0.5).density(np.array([1.0, 1.25]), np.array([1.0, 1.0]), (0.0, 2.0)).tolist()
    [1.5, 1.125]
    """

    def cells(self, log: Log | Scan) -> None:
        """None: every number is weighted by itself. Logs of labels are refused."""
        if log.space.span is None:
            raise UsageError(
                "KernelRatio is for actions that are numbers. Build the log with action_kind='continuous', or leave "
                "ratio= out."
            )

    def smoothed(self, policies: dict[str, Any], trials: Trials) -> dict[str, Any]:
        """Those that name a number get a kernel and its bandwidth."""
        points = {n: p for n, p in policies.items() if not has_density(p) and not isinstance(p, Smoothed)}
        if self.bandwidth != "auto":
            return {**policies, **{n: Smoothed(p, self, judged=True) for n, p in points.items()}}
        probes, kept = _probes(trials.estimators), trials.kept
        keys = {n: trials.key("bandwidth", n, trials.token(p), *probes) for n, p in points.items()}
        new = {name: policy for name, policy in points.items() if keys[name] not in kept}
        if new:
            kept.update((keys[name], final) for name, final in _chosen(trials, new, self, probes))
        return {**policies, **{name: kept[key] for name, key in keys.items()}}

    def settings(self, policies: Mapping[str, Any]) -> dict[str, Any]:
        """Bandwidths of the policies that have one."""
        smooth = {n: p for n, p in policies.items() if isinstance(p, Smoothed)}
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
    trials: Trials, points: dict[str, Any], ratio: KernelRatio, probes: list[Estimator]
) -> list[tuple[str, Smoothed]]:
    """Each policy with its bandwidth by Lepski's rule, one for each probe."""
    low, high = trials.log.space.ends(np.zeros(1))
    room = float(np.max(high) - np.max(low))
    widths = candidates(room)
    first = replace(ratio, bandwidth=widths[0])
    tried = trials.run(
        {
            trial_name(name, widths[0]): Smoothed(
                policy,
                first,
                None if ratio.smooth_model else name,
                tried=tuple((trial_name(name, h), h) for h in widths[1:]),
            )
            for name, policy in points.items()
        },
        probes,
    )
    most = CUT_WIDEST * room
    out, renamed = [], {}
    for name, policy in points.items():
        own = []
        for probe in probes:
            enough = [
                (h, e, t.is_cut)
                for h in reversed(widths)
                if (t := tried[trial_name(name, h)]).size >= ENOUGH and (e := t.estimates[probe.name]).is_defined
            ]
            narrow = [(h, e) for h, e, is_cut in enough if h <= most or not is_cut]
            # Three are needed: where the log is thin at the end, the three narrowest there are.
            own.append(_widest(name, narrow if len(narrow) > 2 else [(h, e) for h, e, _ in enough[:3]]))
        final = Smoothed(policy, replace(ratio, bandwidth=own[0]), judged=True, alone=own[1] if own[1:] else None)
        out.append((name, final))
        for new, each in _named(name, final):
            width = min(widths, key=lambda h: abs(h - each.ratio.width))
            renamed[new] = (trial_name(name, width), final)
    trials.adopt(renamed, set(tried))
    return out


def _named(name: str, policy: Smoothed) -> list[tuple[str, Smoothed]]:
    """A policy and all its variants, by name."""
    others = (_named(*each) for each in policy.variants(name).values())
    return [(name, policy), *(pair for other in others for pair in other)]


def _widest(name: str, tried: list[tuple[float, Estimate]]) -> float:
    """The bandwidth to take of those tried, from narrow to wide."""
    # Half of a bandwidth must be there as well: by it the bias is judged.
    if len(tried) < 3:
        raise NotIdentifiedError(
            f"policy {name!r}: too few logged actions are close to the policy's, at any bandwidth up to half of the "
            "logged range. Evaluate a policy closer to the current one, or give a bandwidth: "
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
