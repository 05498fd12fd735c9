"""The words of every page: what a value, a change, a check and a term are in plain English.

Sentences are data here, so that a reader can judge them together (`docs/reference/sentences.md` lists them).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from offpolicy.inference.figures import DASH, decimals, measured, percent
from offpolicy.inference.intervals.evidence import two_values
from offpolicy.logs.kinds import unit_word

if TYPE_CHECKING:
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.inference.comparison import Change
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.intervals.sample import Interval

MINUS = "−"
# Rewards of 0 and 1 whose column is the name of a thing: "would get a click on 12% of impressions".
THINGS = {
    "booking", "click", "conversion", "install", "like", "open", "order", "purchase", "reply", "response", "sale",
    "save", "share", "signup", "subscription", "success", "view", "visit",
}  # fmt: skip
# Participles that read well after "be": "would be clicked on 12% of impressions"; not "would be voted".
DONE = {"accepted", "booked", "bookmarked", "clicked", "installed", "liked", "opened", "ordered", "played", "purchased",
        "saved", "shared", "streamed", "tapped", "viewed", "watched"}  # fmt: skip


# -- values -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measure:
    """How values of one reward are written: 0/1 rewards as percentages of units, others as averages.

    Attributes
    ----------
    reward, unit : str
        Names of the column and of what one value is an average over.
    is_rate : bool
        Whether every reward is 0 or 1.
    is_total : bool
        Whether a unit sums up rewards of several decisions.
    """

    reward: str
    unit: str
    is_rate: bool = False
    is_total: bool = False

    @classmethod
    def of(cls, ev: Evaluation) -> Measure:
        """The reward of an evaluation."""
        log = ev.problem.log
        single = log.layout.is_single
        ends = two_values(ev.problem.table.columns[ev.problem.earning])
        rate = single and ends is not None and set(ends) <= {0.0, 1.0}
        return cls(ev.metric_name, unit_word(log), rate, not single)

    def text(self, value: float, std_error: float) -> str:
        """A value with the digits that its standard error supports.

        >>> Measure("click", "impression", is_rate=True).text(0.12341, 0.0031)
        '12.3%'
        """
        if not self.is_rate or not math.isfinite(value):
            return measured(value, std_error)
        return f"{100 * value:.{max(1, decimals(100 * std_error) - 1)}f}%"

    def between(self, e: Estimate, interval: Interval) -> str:
        """An interval of an estimate."""
        if not e.is_defined:
            return "no estimate"
        if not interval.sufficient:
            return "refused"
        return " to ".join(self.text(end, e.std_error) for end in interval)

    def worth(self, value: float, std_error: float) -> str:
        """What a policy would do, after "would".

        >>> Measure("clicked", "impression", is_rate=True).worth(0.12341, 0.0031)
        'be clicked on 12.3% of impressions'
        >>> Measure("voted", "impression", is_rate=True).worth(0.38212, 0.0073)
        'have voted = 1 on 38.2% of impressions'
        >>> Measure("revenue", "impression").worth(4.5812, 0.12)
        'have an average revenue of 4.58 per impression'
        """
        number = self.text(value, std_error)
        if self.is_rate:
            share = f"on {number} of {self.unit}s"
            if self.reward in THINGS:
                return f"get {_article(self.reward)} {self.reward} {share}"
            if self.reward in DONE:
                return f"be {self.reward} {share}"
            return f"have {self.reward} = 1 {share}"
        what = f"total {self.reward}" if self.is_total else self.reward
        return f"have an average {what} of {number} per {self.unit}"

    def total(self, number: str, *, more: bool) -> str:
        """So many more of it: "900 more clicks", "27,000 less in revenue".

        >>> Measure("click", "impression", is_rate=True).total("900", more=False)
        '900 fewer clicks'
        """
        if not self.is_rate:
            return f"{number} {'more' if more else 'less'} in {self.reward}"
        number = f"{number} {'more' if more else 'fewer'}"
        if self.reward in THINGS:
            return f"{number} {self.reward if self.reward.endswith('s') else self.reward + 's'}"
        if self.reward in DONE:
            return f"{number} {self.reward} {self.unit}s"
        return f"{number} {self.unit}s with {self.reward} = 1"

    @property
    def axis(self) -> str:
        """What an axis of values counts."""
        return f"value per {self.unit}"


def _article(noun: str) -> str:
    return "an" if noun[:1] in "aeiou" else "a"


# -- changes ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChangeWords:
    """A change in words: relative where the logged value is clearly above 0.

    Attributes
    ----------
    size : str
        "20% more", "0.3 less".
    reach : str
        From where to where: "8% to 33% more", "3% less to 40% more".
    short, ends : str
        The same as figures, for tables: "+20%" and "+8% to +33%".
    sign : int
        1 for the better, −1 for the worse, 0 where it may be either.
    """

    size: str
    reach: str
    short: str
    ends: str
    sign: int

    @classmethod
    def undefined(cls) -> ChangeWords:
        """Nothing is known."""
        return cls("", "", DASH, "no estimate", 0)

    @classmethod
    def of(cls, against: Change, *, minimize: bool = False) -> ChangeWords:
        """A lift or a difference in words; ``sign`` says whether it is for the better."""
        value, error = against.estimate.value, against.estimate.std_error

        def text(x: float) -> str:
            if not math.isfinite(x):
                return "any amount"
            if not against.is_lift:
                return measured(abs(x), error)
            return percent(abs(x), 0 if error >= 0.0095 else 1 if error >= 0.00095 else 2)

        def signed(x: float) -> str:
            if not math.isfinite(x):
                return f"{MINUS}∞" if x < 0 else "∞"
            size = text(x)
            mark = MINUS if x < 0 else "+"
            return f"{mark}{size}" if size.strip("0.%,") else size

        size, short = f"{text(value)} {_word(value)}", signed(value)
        if not against.interval.sufficient:
            return cls(size, "", short, "refused", 0)
        low, high = against.interval
        sign = against.better(minimize=minimize)
        ends = f"{signed(low)} to {signed(high)}"
        if low > 0 or high < 0:
            near, far = sorted((abs(low), abs(high)))
            return cls(size, f"{text(near)} to {text(far)} {_word(value)}", short, ends, sign)

        def end(x: float) -> str:
            size = text(x)
            return f"{size} {_word(x)}" if size.strip("0.%,") else "no change"

        return cls(size, f"{end(low)} to {end(high)}", short, ends, sign)


def _word(x: float) -> str:
    return "less" if x < 0 else "more"


# -- checks -------------------------------------------------------------------------------------------

# What supports a number that no check raises anything about, in this order.
SUPPORT = ("effective_sample_size", "mean_weight", "unsupported_mass", "estimator_disagreement")


# -- terms --------------------------------------------------------------------------------------------

WORDS: dict[str, tuple[str, str]] = {
    "value": ("Estimated value", "The average reward the policy would have earned on the decisions in this log."),
    "logged": ("Logged value", "The average reward the current policy earned in this log."),
    "change": (
        "Against the current policy",
        "The estimated value compared with the logged value, in percent of it where that makes sense.",
    ),
    "interval": (
        "Interval",
        (
            "The range of values compatible with the data. A 95% interval misses the true value in about 1 of 20 "
            "such analyses."
        ),
    ),
    "together": (
        "Corrected interval",
        (
            "Widened so that the intervals of all policies hold at once, because the best of several policies "
            "tends to look better than it is."
        ),
    ),
    "effective": (
        "Effective sample",
        (
            "How many units the log is worth for this policy. Units where the policy would have acted differently "
            "count little or not at all."
        ),
    ),
    "test": (
        "A/B test to settle it",
        (
            "An experiment that gives half of the traffic to each policy. Its size gives an 80% chance of detecting "
            "the difference shown with it. That difference is smaller than the estimate, to offset selection, or 10% "
            "of the logged value where there may be no difference."
        ),
    ),
    "weight": (
        "Importance weight",
        (
            "How much more often the policy takes the logged action than the current policy does. "
            "0: never; 1: equally often; 10: ten times as often."
        ),
    ),
    "propensity": ("Propensity", "The probability with which the current policy chose the logged action."),
    "overlap": ("Overlap", "Whether the policy's actions appear in the log, and how often."),
    "paired": ("Paired difference", "Both sides are compared on the same rows, so shared luck cancels out."),
    "estimator": (
        "Estimator",
        "A method of computing the value from the log. Several are shown; the one in bold is the headline.",
    ),
    "segment": ("Segment", "Rows with the same value in one context column."),
    "batch": ("Batch", "Rows that were logged in the same period."),
    "model": ("Reward model", "A prediction of the reward of each action in each context, learned from the log."),
    "clipping": (
        "Capped weights",
        "Treating every weight above a cap as if it were the cap: lower variance, some bias.",
    ),
    "verdict": (
        "Verdict",
        (
            "Trust: no check raises doubts about the number. Caution: some do. Insufficient evidence: the log cannot "
            "answer the question."
        ),
    ),
    "gate": ("Gate", "A condition set in advance. It passes only if the whole interval clears the bar."),
}
ESTIMATORS: dict[str, str] = {
    "auto": "The headline estimator: it uses the reward model only as far as that lowers the variance.",
    "DML": "Corrects a reward model with the logged rewards; each row is predicted by a model that has not seen it.",
    "DM": "The reward model alone: precise, but as wrong as its model.",
    "IPW": "Reweights logged rewards by how often the policy would have acted the same way; uses no model.",
    "SNIPW": "Like IPW, divided by the sum of the weights: lower variance, some bias in small logs.",
    "SNDR": "Like DML, with weights divided by their sum.",
    "DR-full": "Corrects a reward model with the logged rewards; the model has seen the rows it predicts.",
    "DR-half": "Like DML, with one half of the log to learn from and the other half to score.",
    "SWITCH": "Like DML, but relies on the model alone where weights are large.",
    "DRos": "Like DML, with shrunk weights.",
    "MRDR": "Like DML, with a model fitted for a precise answer.",
    "MinVar": "Blends the reward model and reweighted rewards for the lowest variance.",
    "WDR": "Like DML for episodes, with weights divided by their sum at each step.",
    "MAGIC": "Blends a value model and reweighted rewards, step by step.",
    "DRL": "Like DML for episodes, with state-visit ratios in place of products of weights.",
}
TITLES = {word: key for key, (word, _) in WORDS.items()}
VERDICTS = {"trust": "Trust", "caution": "Caution", "insufficient evidence": "Insufficient evidence"}
