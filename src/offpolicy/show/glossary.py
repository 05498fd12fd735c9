"""Words of the report explained in a sentence each, on hover and focus where they stand and in a list at the end."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from offpolicy._visible import esc

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offpolicy.show.answer import Figure

WORDS: dict[str, tuple[str, str]] = {
    "value": (
        "Estimated value",
        "What the policy would have earned on average, had it made the decisions in this log.",
    ),
    "logged": ("Logged value", "What the policy that made this log earned on average."),
    "change": (
        "Against the log",
        "The estimated value compared with the logged value, in percent of it where that makes sense.",
    ),
    "interval": (
        "Interval",
        (
            "The range that the data are compatible with. A 95% interval misses the true number in about 1 of 20 "
            "such analyses."
        ),
    ),
    "together": (
        "Corrected interval",
        (
            "Widened so that the intervals of all policies hold at once: the best of several policies looks better "
            "than it is."
        ),
    ),
    "effective": (
        "Effective sample",
        (
            "How many rows of data the log is worth for this policy. Rows where the policy would have done something "
            "else count little or not at all."
        ),
    ),
    "test": (
        "A/B test to settle it",
        (
            "An experiment that gives half of the traffic to each policy. The size is what it takes to notice the "
            "difference beside it 4 times in 5: less than the estimate, since what stands out is too large on average, "
            "or 10% of the logged value where there may be none."
        ),
    ),
    "weight": (
        "Importance weight",
        (
            "How much more often the policy would have done what was logged than the policy that made the log. "
            "0: never; 1: as often; 10: ten times as often."
        ),
    ),
    "propensity": (
        "Propensity",
        "The probability with which the logged action was chosen when it was chosen.",
    ),
    "overlap": ("Overlap", "Whether the log has tried what the policy does, and how often."),
    "paired": (
        "Paired difference",
        "Both sides are compared on the same rows, so that luck which they share cancels out.",
    ),
    "estimator": (
        "Estimator",
        "A method of computing the value from the log. Several are shown; the one in bold speaks.",
    ),
    "segment": ("Segment", "Rows that are alike in one column of the context."),
    "batch": ("Batch", "Rows that were logged in the same period."),
    "model": (
        "Reward model",
        "A prediction of the reward of each action in each context, learned from the log.",
    ),
    "clipping": (
        "Cutting weights",
        "Treating every weight above a limit as if it were the limit: steadier, but off.",
    ),
    "verdict": (
        "Verdict",
        (
            "Trust: no check speaks against the number. Caution: some do. Insufficient evidence: the log cannot "
            "answer the question."
        ),
    ),
}
ESTIMATORS: dict[str, str] = {
    "auto": "The recommended estimator: as much of the reward model as makes the answer more precise.",
    "DML": "Corrects a reward model by the logged rewards; no row is predicted by a model that has seen it.",
    "DM": "The reward model alone: precise, and wrong by as much as the model is.",
    "IPW": "Reweights logged rewards by how often the policy would have done the same; uses no model.",
    "SNIPW": "Like IPW, divided by the sum of the weights: steadier, slightly off in small logs.",
    "SNDR": "Like DML, with weights that are divided by their sum.",
    "DR-full": "Corrects a reward model by the logged rewards; the model has seen the rows it predicts.",
    "DR-half": "Like DML, with one half of the log to learn from and the other to score.",
    "SWITCH": "Like DML, but trusts the model alone where weights are large.",
    "DRos": "Like DML, with weights that are shrunk.",
    "MRDR": "Like DML, with a model that is fitted to make the answer precise.",
    "MinVar": "Blends the reward model and reweighted rewards so that the answer varies least.",
    "WDR": "Like DML for episodes, with weights that are divided by their sum at each step.",
    "MAGIC": "Blends a value model and reweighted rewards, step by step.",
    "DRL": "Like DML for episodes, with ratios of how often states are visited in place of products of weights.",
}


TITLES = {word: key for key, (word, _) in WORDS.items()}
MARKED = re.compile(r"\[(\w+)\|([^\]]+)\]")


def term(key: str, text: str | None = None) -> str:
    """A word that explains itself on hover, focus and touch."""
    shown = WORDS[key][0] if text is None else text
    return f'<button type="button" class="term" aria-describedby="word-{key}">{esc(shown)}</button>'


def explained(text: str) -> str:
    """A text whose words in brackets explain themselves: "[weight|weights]"."""

    def word(match: re.Match[str]) -> str:
        key, shown = match.groups()
        return term(key, html.unescape(shown)) if key in WORDS else match.group()

    return MARKED.sub(word, esc(text))


def tiles(figures: Iterable[Figure]) -> str:
    """Large numbers side by side; what should not be relied on is gray and says so."""

    def tile(f: Figure) -> str:
        label = term(TITLES[f.label]) if f.label in TITLES else esc(f.label)
        kind = ' class="doubtful"' if f.doubtful else ""
        note = "not to be relied on" if f.doubtful else f.remark
        return (
            f"<div{kind}><dt>{label}</dt><dd>{esc(f.number)}<small>{esc(note)}</small></dd></div>"
        )

    return f'<dl class="strip">{"".join(map(tile, figures))}</dl>'


def described(estimator: str) -> str:
    """The attribute by which a control explains an estimator; empty for those of users."""
    return f' aria-describedby="word-{esc(estimator)}"' if estimator in ESTIMATORS else ""


def listed(estimators: Iterable[str]) -> str:
    """All words, and the estimators of this report."""
    entries = [(f"word-{key}", word, meaning) for key, (word, meaning) in WORDS.items()]
    entries += [(f"word-{e}", e, ESTIMATORS[e]) for e in estimators if e in ESTIMATORS]
    inner = "".join(
        f'<div><dt>{esc(word)}</dt><dd id="{esc(key)}">{esc(meaning)}</dd></div>'
        for key, word, meaning in entries
    )
    return f'<dl class="facts">{inner}</dl>'
