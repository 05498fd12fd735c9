"""What `advise` answers: widths by rows and exploration, for each policy, in words and as JSON."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from scipy.optimize import brentq

from offpolicy._output import write
from offpolicy._visible import printable
from offpolicy.errors import UnknownNameError, UsageError
from offpolicy.inference.figures import align
from offpolicy.trust.trial import rounded_up

#: How much faster than 1/√n widths shrink since models learn from more rows, as a power of n: a round number between
#: nothing (a model that knows all) and what the study of routing showed at most. Beyond a factor of FARTHEST, no more.
LEARNING, FARTHEST = 0.025, 16.0
#: How many times the skewness an interval is widened by rewards that are larger than any seen: nine of ten logs with
#: log-normal rewards have less.
LARGER = 4.0
#: Widths that differ by less than this share are the same.
FLAT = 0.005
NO_EXPLORATION = (
    "Every decision was taken with probability 1, so the log has no exploration and cannot show what another "
    "action would have earned, however many rows it has. Draw some decisions uniformly, and log the propensity."
)


@dataclass(frozen=True)
class Curve:
    """Width by rows: scale / √n · (1 + (excess / n)²) · (alike / n)^LEARNING.

    Attributes
    ----------
    scale, excess : float
    alike : float
        Rows that hold as much information as the log that the curve is from; None where nothing is learned.
    """

    scale: float
    excess: float = 0.0
    alike: float | None = None

    def width(self, n: float) -> float:
        """Of the interval of a log of n rows."""
        return self._at(n) * self.learned(n)

    def _at(self, n: float) -> float:
        """The same with models that have learned no more than now."""
        return self.scale / math.sqrt(n) * (1 + (self.excess / n) ** 2)

    def learned(self, n: float) -> float:
        """What models that learn from n rows instead leave of a width.

        >>> Curve(1.0, alike=400.0).learned(400), round(Curve(1.0, alike=400.0).learned(1600), 3)
        (1.0, 0.966)
        """
        if self.alike is None:
            return 1.0
        return float(min(max(self.alike / n, 1 / FARTHEST), FARTHEST) ** LEARNING)

    def rows(self, width: float) -> float:
        """Rows for a width, should models learn nothing more; ∞ where none are enough.

        >>> Curve(2.0).rows(0.1), Curve(math.inf).rows(0.1)
        (400, inf)
        """
        if not math.isfinite(self.scale) or not width > 0:
            return math.inf
        if self.scale == 0:
            return 1
        first = (self.scale / width) ** 2
        last = max(4 * first, 4 * self.excess, 1.0)
        n = brentq(lambda t: math.log(self._at(math.exp(t)) / width), math.log(first) - 1, math.log(last))
        return rounded_up(math.exp(n))


@dataclass(frozen=True)
class Forecast:
    """Width by rows, and how far off it may be.

    Attributes
    ----------
    curve : Curve
    uncertainty : float
        Standard error of the width, as a share of it: this log is a sample. NaN where it is not known.
    luck : float
        √n times the standard deviation of the widths of logs of n rows, as a share of them.
    tail : float
        √n times the skewness of the estimate, where the range of the rewards is not known: larger rewards than any of
        this log may widen the interval of the next.
    """

    curve: Curve
    uncertainty: float = math.nan
    luck: float = math.nan
    tail: float = 0.0

    def width(self, n: float) -> float:
        """Of the interval of a log of n rows."""
        return self.curve.width(n)

    def between(self, n: float) -> tuple[float, float]:
        """(low, high): where the width of one log of n rows is to be expected; NaN where that is not known.

        Two standard deviations on each side, of this log and of that one; the excess over a normal interval may be
        off by half. Models may learn nothing more, or twice as much as expected. Rewards of unknown range may be larger
        in that log than any seen here, which widens its interval by up to four times the skewness of the estimate.

        >>> low, high = Forecast(Curve(2.0), 0.03, 0.8).between(1600)
        >>> round(low, 4), round(high, 4)
        (0.0464, 0.0536)
        """
        width, learned = self.width(n), self.curve.learned(n)
        bend = 1 - 1 / (1 + (self.curve.excess / n) ** 2)
        off = 2 * math.hypot(self.uncertainty, self.luck / math.sqrt(n), bend / 4)
        most, least = max(learned, 1 / learned), min(learned, 1 / learned)
        larger = 1 + LARGER * self.tail / math.sqrt(n)
        return width * max(0.0, 1 - off) * least, width * (1 + off) * most * larger


@dataclass(frozen=True)
class Plan:
    """What one amount of exploration would give.

    Attributes
    ----------
    exploration : float
        Share of decisions drawn uniformly among the eligible actions, the others as they are now.
    width : float
        Of the interval of a log as long as this one; ∞ where no log of any length would answer.
    rows : float
        Independent units (rows, clusters, episodes) for the wanted width, should models learn nothing more from them.
    low, high : float
        Between which the width of one such log is to be expected; NaN where that is not known.
    forecast : Forecast
        The same for other lengths: ``plan.forecast.width(10_000)``, ``plan.forecast.between(10_000)``.
    """

    exploration: float
    width: float
    rows: float
    low: float
    high: float
    forecast: Forecast

    @property
    def shown(self) -> str:
        """The width and its range."""
        if not math.isfinite(self.width):
            return "no answer"
        said = f"{self.width:.3g}"
        return said + (f" ({self.low:.2g} to {self.high:.2g})" if math.isfinite(self.high) else "")


@dataclass(frozen=True)
class PolicyAdvice:
    """Advice on one policy.

    Attributes
    ----------
    policy : str
    answered : bool
        Whether this log answers for the policy as it is.
    reason : str
        Why not.
    value, width : float or None
        Estimate and width of its interval, where it does.
    uncovered : float
        Share of the policy's decisions that the log holds nothing about.
    wanted : float
        Width that rows are counted for.
    plans : tuple of Plan
        As it is now first, then with more exploration.
    run_itself : float or None
        Episodes in which the policy itself is run that give the wanted width together with this log; None where a unit
        is one decision, where units come in clusters, and where no width was asked for or answered.
    """

    policy: str
    answered: bool
    reason: str
    value: float | None
    width: float | None
    uncovered: float
    wanted: float
    plans: tuple[Plan, ...]
    run_itself: float | None = None

    def plan(self, exploration: float) -> Plan:
        """The plan with so much more exploration."""
        for plan in self.plans:
            if math.isclose(plan.exploration, exploration):
                return plan
        known = [p.exploration for p in self.plans]
        raise UsageError(f"there is no plan with exploration {exploration!r}. Plans: {known}.")

    def lines(self, unit: str, n: float) -> list[str]:
        """In words, and a table."""
        if self.answered:
            said = f"{self.policy}: {self.value:.4g}, interval {self.width:.3g} wide."
        else:
            said = f"{self.policy}: this log cannot answer. {self.reason}"
        if self.uncovered > 0:
            said += f" It has no data on {100 * self.uncovered:.3g}% of the policy's decisions."
        headings = ("exploration", f"width with {n:,.0f} {unit}", f"{unit} for a width of {self.wanted:.3g}")
        rows = [
            (
                "as now" if p.exploration == 0 else f"{100 * p.exploration:.3g}% more",
                p.shown,
                f"{p.rows:,.0f}" if math.isfinite(p.rows) else "no number is enough",
            )
            for p in (self.plans[:1] if self.is_flat else self.plans)
        ]
        more = ["", "More exploration would not make the interval narrower."] if self.is_flat else []
        if self.run_itself is not None:
            more += [
                "",
                f"Or run the policy itself: {self.run_itself:,.0f} {unit} of it, added to this log, are as good.",
            ]
        return [said, "", align(headings, rows), *more]

    @property
    def is_flat(self) -> bool:
        """Whether exploration makes no difference, as where decisions are drawn evenly already."""
        now = self.plans[0].width
        return len(self.plans) > 1 and math.isfinite(now) and all(abs(p.width - now) <= FLAT * now for p in self.plans)


@dataclass(frozen=True)
class Advice:
    """How much exploration and how many rows a log needs; print it.

    Attributes
    ----------
    n : float
        Independent units of the log.
    unit : str
        What they are: "rows", "clusters", "episodes" or "slates".
    randomness : float or None
        Probability that a second draw would have taken another action; None for episodes.
    policies : tuple of PolicyAdvice
    labels : {policy: LabelPlan}
        How many labels the width takes, where rewards are labels.
    """

    n: float
    unit: str
    randomness: float | None
    policies: tuple[PolicyAdvice, ...]
    labels: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, policy: str) -> PolicyAdvice:
        """Advice on one policy, by its name."""
        named = {p.policy: p for p in self.policies}
        if policy not in named:
            raise UnknownNameError(f"no policy is called {policy!r}. Policies: {list(named)}.")
        return named[policy]

    @property
    def explores(self) -> bool:
        """Whether decisions could have gone another way at all."""
        return self.randomness is None or self.randomness > 0

    @property
    def answered(self) -> bool:
        """Whether the log answers for every policy as it is."""
        return all(p.answered for p in self.policies)

    def to_json(self) -> str:
        """All of it; what is not finite is null."""
        facts: dict[str, Any] = {"explores": self.explores, "answered": self.answered}
        if self.labels:
            facts["labels"] = {name: plan.summary() for name, plan in self.labels.items()}
        own = asdict(replace(self, labels={}))
        del own["labels"]
        return write({**own, **facts})

    @printable
    def __str__(self) -> str:
        said = []
        if self.randomness is not None and self.explores:
            said = [f"If redrawn, the logged action would differ in {100 * self.randomness:.3g}% of rows."]
        elif not self.explores:
            said = [NO_EXPLORATION]
        parts = [line for p in self.policies for line in ["", *p.lines(self.unit, self.n)]]
        plans = [line for name, plan in self.labels.items() for line in ("", f"{name}, labels: {plan}")]
        return "\n".join([*said, *parts, *plans]).strip()

    @printable
    def __repr__(self) -> str:
        return str(self)
