"""The grid: an estimator is a score in a sample split.

A plain name that uses a value model means the cross-fitted estimator; DM, IPW and SNIPW keep the paper's
meaning, the full sample. ``-full``, ``-half`` and ``-cf`` ask for another split: ``SNDR-full``, ``DM-half``,
``IPW-cf``; ``DR-cf`` is DML.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast, get_args

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import UsageError, check_choice, did_you_mean, doing, first_rows
from offpolicy.logs.given import plain_numbers
from offpolicy.scores import formulas as scores
from offpolicy.scores.blend import blended
from offpolicy.scores.control_variates import best_combination, optimal_control
from offpolicy.scores.formulas import Scored
from offpolicy.scores.tuning import floored_marginalized, magic, tuned_shrinkage, tuned_switch

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy.logs.log import Log
    from offpolicy.scores.decisions import Decisions
    from offpolicy.splits.folds import Split

FITTED = "its standard error treats the fitted π_b as the true one"

LARGEST_SCORE = 1e100  # sums of squares of scores stay numbers
SAME = 1e-9  # two calls of a score may add in another order

Need: TypeAlias = Literal["value", "behavior", "marginal"]


@checks_arguments
@dataclass(frozen=True, eq=False)
class Estimator:
    """A score in a sample split; write your own score as a function of `Decisions`.

    Parameters
    ----------
    name : str
        What the result is called.
    score : callable
        Takes `Decisions` (arrays ``reward``, ``rho``, ``q``, ``v``, … with one entry per decision) and
        returns one number per unit, whose mean is the estimate.
    split : {"crossfit", "full", "half"}
        On whom the nuisances are fitted and the score is taken.
    needs : set of {"value", "behavior", "marginal"}
        Nuisances the score looks at; those it does not need are not fitted.
    emphasis : {"mrdr"} or None
        Fits the value model with weights that minimize the variance of the score.
    linear_in_reward : bool
        The score of a unit depends on that unit alone, and linearly on its rewards: a log that does not fit
        in memory is scored block by block.
    whole_log_means : bool
        The score looks at other units through ``d.mean(…)`` only: blocks again, with means of the whole log
        from an earlier pass. A score that declares neither gets the whole log at once.
    takes_counts : bool
        The score heeds ``d.count``, how many identical units each stands for. A score that declares none of the
        three gets a compressed log unfolded, one entry per unit.
    is_product : bool
        The score is importance weight × reward and nothing else.
    biased : bool
        The score trades bias for variance on purpose: that it differs from others says nothing about the log, and
        its own standard error does not bound its error.
    is_robust : bool
        The score is right when π_b or the value model is: its interval covers what biased ones estimate.
    needs_known_weights : bool
        Coefficients rest on weights of mean 1, which a fitted π_b need not give.
    rank : int
        Which estimate speaks for a policy: the computed one of lowest rank.

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> def clipped(d):
    ...     return d.sum(d.gamma * np.minimum(d.rho, 10) * (d.reward - d.q)) + d.v
    >>> op.Estimator("clipped", clipped).split
    'crossfit'
    """

    name: str
    score: Callable[[Decisions], Any]
    split: Split = "crossfit"
    needs: frozenset[Need] = frozenset({"value", "behavior"})
    emphasis: Literal["mrdr"] | None = None
    kinds: frozenset[str] = frozenset({"bandit", "trajectories", "slates"})
    linear_in_reward: bool = False
    whole_log_means: bool = False
    takes_counts: bool = False
    is_product: bool = False
    biased: bool = False
    is_robust: bool = False
    needs_known_weights: bool = False
    rank: int = 100
    is_asked_twice: bool = field(default=False, repr=False)  # set by `resolve` for scores of the user's own

    @property
    def by_block(self) -> bool:
        """Whether blocks of a log can be scored one after another."""
        return self.linear_in_reward or self.whole_log_means

    @property
    def counts(self) -> bool:
        """Whether units that stand for several can be scored as they are."""
        return self.by_block or self.takes_counts

    @property
    def is_direct(self) -> bool:
        """Whether the estimate rests on its model alone."""
        return not self.needs & {"behavior", "marginal"}

    @property
    def uses_products(self) -> bool:
        """Whether the score multiplies ratios over the steps of an episode."""
        return "behavior" in self.needs and "marginal" not in self.needs

    def why_biased(self, *, weights_known: bool) -> str:
        """Why the standard error does not bound the error; empty where it does.

        >>> named("DML").why_biased(weights_known=False), named("DM").why_biased(weights_known=True)[:34]
        ('', 'its standard error ignores the err')
        """
        if self.is_direct:
            return "its standard error ignores the error of its model"
        if self.biased:
            return "its standard error ignores the bias that it accepts for less variance"
        if self.needs_known_weights and not weights_known:
            return FITTED
        return ""

    def __post_init__(self) -> None:
        check_choice("split", self.split, "crossfit", "full", "half")
        if not callable(self.score):
            raise UsageError(f"score= must be a function of Decisions. Got {self.score!r} instead.")
        known, needs = get_args(Need), cast("Any", self.needs)
        many = isinstance(needs, Iterable) and not isinstance(needs, str)
        if not many or not {*map(repr, needs)} <= {*map(repr, known)}:
            raise UsageError(f"needs= must be a set of {', '.join(map(repr, known))}. Got {self.needs!r} instead.")
        object.__setattr__(self, "needs", frozenset(self.needs))


BOTH: frozenset[Need] = frozenset({"value", "behavior"})
ALL: frozenset[Need] = frozenset({"value", "behavior", "marginal"})
VALUE: frozenset[Need] = frozenset({"value"})
BEHAVIOR: frozenset[Need] = frozenset({"behavior"})
TRAJECTORIES = frozenset({"trajectories"})
SEQUENCES = frozenset({"trajectories", "slates"})

FAMILIES: dict[str, Estimator] = {
    e.name: e
    for e in (
        Estimator("DM", scores.direct, "full", VALUE, linear_in_reward=True, biased=True, rank=50),
        Estimator(
            "IPW", scores.importance_weighted, "full", BEHAVIOR,
            linear_in_reward=True, is_product=True, rank=14,
        ),
        Estimator("SNIPW", scores.self_normalized, "full", BEHAVIOR, whole_log_means=True, rank=9),
        Estimator(
            "DR", scores.doubly_robust, "full", BOTH, linear_in_reward=True, is_robust=True, rank=11
        ),
        Estimator(
            "SNDR", scores.self_normalized_dr, "crossfit", BOTH,
            whole_log_means=True, is_robust=True, rank=5,
        ),
        Estimator("SWITCH", tuned_switch, "crossfit", BOTH, takes_counts=True, biased=True),
        Estimator("DRos", tuned_shrinkage, "crossfit", BOTH, takes_counts=True, biased=True),
        Estimator(
            "MRDR", scores.doubly_robust, "crossfit", BOTH, "mrdr",
            linear_in_reward=True, is_robust=True,
        ),
        Estimator(
            "MinVar", optimal_control, "crossfit", BOTH,
            takes_counts=True, needs_known_weights=True, rank=3,
        ),
        Estimator("auto", best_combination, "crossfit", BOTH, takes_counts=True, rank=1),
        Estimator("TIS", scores.trajectory_weighted, "full", BEHAVIOR, None, SEQUENCES),
        Estimator("WIS", scores.trajectory_normalized, "full", BEHAVIOR, None, SEQUENCES),
        Estimator("WDR", scores.self_normalized_dr, "crossfit", BOTH, None, SEQUENCES, is_robust=True, rank=6),
        Estimator("MAGIC", magic, "crossfit", BOTH, None, TRAJECTORIES, biased=True),
        Estimator("DRL", floored_marginalized, "crossfit", ALL, None, TRAJECTORIES, rank=4),
    )
}  # fmt: skip
SPECIAL: dict[str, Estimator] = {"DML": replace(FAMILIES["DR"], name="DML", split="crossfit", rank=2)}
# Kernels smooth what a model leaves of the reward less than the reward itself: `auto` does not blend the two.
AUTO_NUMBERS = replace(FAMILIES["auto"], score=scores.self_normalized_dr, whole_log_means=True, is_robust=True)
# A fitted π_b is never exact: `auto` keeps to the score that a good reward model mends, whatever its variance.
AUTO_FITTED = replace(FAMILIES["SNDR"], name="auto", rank=1)
# For episodes `auto` looks at ratios of marginals as well.
AUTO_EPISODES = replace(FAMILIES["auto"], score=blended, needs=ALL)
OWN = (*FAMILIES.values(), *SPECIAL.values())
SUFFIXES: dict[str, Split] = {"-full": "full", "-half": "half", "-cf": "crossfit"}
DEFAULT = ("auto", "DML", "SNDR", "SNIPW", "IPW", "DM")
DEFAULT_NUMBERS = ("auto", "DML", "SNIPW", "IPW", "DM")  # where `auto` is SNDR
DEFAULT_TRAJECTORIES = ("auto", "DML", "DRL", "WDR", "SNIPW", "IPW", "DM")


def known_names() -> list[str]:
    """Every name that `named` understands."""
    names = [n for n in FAMILIES if n != "DR"] + list(SPECIAL)
    return [*names, *(f"{n}{s}" for n in FAMILIES for s in SUFFIXES)]


def named(name: str) -> Estimator:
    """Look up an estimator by its exact name.

    >>> named("DML").split, named("DR-half").split, named("IPW").split
    ('crossfit', 'half', 'full')
    """
    if name in SPECIAL:
        return SPECIAL[name]
    if name in FAMILIES and name != "DR":
        return FAMILIES[name]
    for suffix, split in SUFFIXES.items():
        family = name.removesuffix(suffix)
        if name.endswith(suffix) and family in FAMILIES:
            own = FAMILIES[family]
            # In-sample versions of a cross-fitted estimator speak after it, and for no other.
            return replace(
                own,
                name=name,
                split=split,
                rank=own.rank + (split != own.split),
                is_robust=own.is_robust and split != "full",
            )
    raise UsageError(f"no estimator is called {name!r}.{did_you_mean(name, known_names())}")


def sensible(log: Log) -> tuple[str, ...]:
    """Names of the estimators to use when none are asked for."""
    return log.space.default or log.unit_kind.estimators(log)


def for_log(estimators: Iterable[Estimator], log: Log, *, fitted: bool = False) -> list[Estimator]:
    """The same estimators as a log needs them: in its cross-fitted default, `auto` blends other scores for episodes.

    ``fitted``: π_b of single decisions is fitted to their contexts.
    """
    auto = AUTO_FITTED if fitted else log.space.auto or log.unit_kind.auto(log)
    return [auto if auto is not None and e is FAMILIES["auto"] else e for e in estimators]


def headline(estimators: Iterable[Estimator]) -> Estimator:
    """The estimator that speaks for a policy among those computed.

    >>> headline([named("IPW"), named("DML")]).name
    'DML'
    """
    return min(estimators, key=lambda e: e.rank)


def resolve(estimators: Any, kind: str) -> list[Estimator]:
    """Names and objects as a list of estimators."""
    if isinstance(estimators, str | Estimator):
        estimators = [estimators]
    out: list[Estimator] = []
    if not isinstance(estimators, Iterable) or isinstance(estimators, bytes):
        raise UsageError(f"estimators= takes names and offpolicy.Estimator objects. Got {estimators!r:.80}.")
    for entry in estimators:
        chosen = entry if isinstance(entry, Estimator) else named(entry) if isinstance(entry, str) else None
        if chosen is None:
            raise UsageError(f"estimators= takes names and offpolicy.Estimator objects. Got {entry!r}.")
        if chosen is entry and chosen not in OWN:
            chosen = replace(chosen, is_asked_twice=True)
        if kind not in chosen.kinds:
            raise UsageError(f"{chosen.name} is not defined for a {kind} log.")
        if any(e.name == chosen.name for e in out):
            raise UsageError(f"estimators= lists {chosen.name!r} twice. Give each its own name.")
        out.append(chosen)
    if not out:
        raise UsageError("estimators= is empty. Name at least one, or leave it out.")
    return out


def apply(estimator: Estimator, d: Decisions) -> Scored:
    """Scores of one estimator, checked: one finite number per unit, or all NaN when not identified.

    A score of the user's own is asked twice, since one that draws or remembers gives no estimate.
    """
    scored = _scored(estimator, d)
    if estimator.is_asked_twice:
        again = _scored(estimator, d).psi
        differs = ~np.isclose(scored.psi, again, rtol=SAME, atol=0.0, equal_nan=True)
        if differs.any():
            raise UsageError(
                f"the score of {estimator.name!r} gives different numbers in a second call: "
                f"{first_rows(differs, again)}. A score may depend only on its decisions: no random draws, no memory."
            )
    return scored


def _scored(estimator: Estimator, d: Decisions) -> Scored:
    with doing(f"the score of {estimator.name!r} on {d.n:,} units", UsageError):
        result = estimator.score(d)
    scored = result if isinstance(result, Scored) else Scored(result)
    what = f"the score of {estimator.name!r}"
    scored = replace(scored, psi=plain_numbers(scored.psi, what, UsageError, LARGEST_SCORE))
    if scored.psi.shape != (d.n,):
        raise UsageError(
            f"the score of {estimator.name!r} returned shape {scored.psi.shape} for {d.n} units. "
            "Return one number per unit; sum over steps with d.sum(…)."
        )
    bad = ~np.isfinite(scored.psi)
    if bad.any() and not np.isnan(scored.psi).all():
        raise UsageError(f"the score of {estimator.name!r} is not finite in {first_rows(bad, scored.psi)}.")
    return scored
