"""Context columns that should not be there: one that knows the reward, or one that identifies rows.

A column that was written after the reward, or that is the reward itself, no policy could ever have seen, and a model
that does predicts without error. Two signs: the column
and the reward are the same but for a linear map, or rows that agree in the column agree in the reward although
rewards differ between rows. A column that ranks rewards too well, or that seems to count them (no row in which it is 0
has one), makes a caution. Text with nearly as many levels as rows (dates, ids, free text) teaches models noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy import special

from offpolicy._arrays import levels
from offpolicy.trust.check import Check, Threshold, Topic
from offpolicy.trust.duplicates import Twins
from offpolicy.trust.finding import Finding, judged, not_applicable
from offpolicy.trust.hashes import HashCounts, column_hashes
from offpolicy.trust.view import counts_and_weights

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Floats
    from offpolicy.logs.log import Log
    from offpolicy.trust.hashes import Hashes

RANKED = 0.9  # share of pairs that a column known before the action hardly ranks rightly
EXPLAINED = 0.9  # share of the variance likewise
SUSPECT = 0.5
SAME = 0.999  # squared correlation from which on two columns are one
EXPECTED = 30.0  # pairs of rows that would differ in the reward if the column said nothing of it
TOGETHER = 5.0  # rows that share a value with a row on average, itself included, in a column of levels
ALLOWED = 0.01  # share of these that may differ all the same
MANY = 50  # levels of a text from which on they are compared with the number of rows

Levels: TypeAlias = dict[str, HashCounts]


@dataclass(frozen=True, eq=False)
class LeakSums:
    """Sums over rows; those of two blocks add up with ``+``.

    Attributes
    ----------
    names : tuple of str
        Columns of the context.
    products : (F, 5) array
        Σ m x, Σ m x², Σ m x r, Σ m r and Σ m r² over rows whose column is a number; NaN for labels.
    bent : (F, 5) array
        The same of arcsinh x, whose tails are light.
    mass : (F,) array
        Σ m over these rows.
    rewards : tuple of Twins
        For each column, rows by its value and by their reward.
    zeros : (F, 2) array
        Rows in which a column is 0, and those of them whose reward is not.
    """

    names: tuple[str, ...]
    products: Floats
    bent: Floats
    mass: Floats
    rewards: tuple[Twins, ...]
    zeros: Floats

    def __add__(self, other: LeakSums) -> LeakSums:
        """The sums over both blocks."""
        return LeakSums(
            self.names,
            self.products + other.products,
            self.bent + other.bent,
            self.mass + other.mass,
            tuple(a + b for a, b in zip(self.rewards, other.rewards, strict=True)),
            self.zeros + other.zeros,
        )


def leak_sums(block: Any, columns: list[tuple[str, Array, Hashes]], bits: int) -> LeakSums:
    """Sums over the decisions of a log, or of a block of it."""
    count, weight = counts_and_weights(block)
    mass, index, reward = count * weight, block.context.index, block.reward
    labels = column_hashes(reward)
    none = np.zeros(len(reward))
    products, bent, total, twins, zeros = [], [], [], [], []
    for _, values, hashes in columns:
        at = hashes if index is None else hashes[index]
        twins.append(Twins.of(at, labels, count, none, bits))
        if values.dtype.kind not in "biuf":
            products.append(np.full(5, np.nan))
            bent.append(np.full(5, np.nan))
            total.append(0.0)
            zeros.append((0.0, 0.0))
            continue
        x = np.asarray(values, dtype=np.float64)
        x = x if index is None else x[index]
        zeros.append((float(count[x == 0].sum()), float(count[(x == 0) & (reward != 0)].sum())))
        finite = np.isfinite(x)
        x, m, r = x[finite], mass[finite], reward[finite]
        products.append(_products(x, m, r))
        bent.append(_products(np.arcsinh(x), m, r))
        total.append(float(m.sum()))
    return LeakSums(
        tuple(name for name, _, _ in columns),
        np.array(products).reshape(len(columns), 5),
        np.array(bent).reshape(len(columns), 5),
        np.array(total),
        tuple(twins),
        np.array(zeros).reshape(len(columns), 2),
    )


def _products(x: Floats, m: Floats, r: Floats) -> Floats:
    mx, mr = m * x, m * r
    return np.array([mx.sum(), mx @ x, mx @ r, mr.sum(), mr @ r])


def correlations(sums: LeakSums, products: Floats | None = None) -> Floats:
    """(F,) squared correlation of each column with the reward; 0 where one of them does not vary."""
    x, xx, xr, r, rr = (sums.products if products is None else products).T
    with np.errstate(divide="ignore", invalid="ignore"):
        of_x, of_r = xx - x * x / sums.mass, rr - r * r / sums.mass
        both = xr - x * r / sums.mass
        varies = (of_x > 1e-9 * xx) & (of_r > 1e-9 * rr)
        return np.asarray(np.where(varies, both * both / (of_x * of_r), 0.0))


def finding(log: Log, sums: LeakSums) -> Finding:
    """How much of the reward the context column knows that knows most of it."""
    name = "leaks"
    if not sums.names:
        return not_applicable(name, "the context has no columns.")
    count, _ = counts_and_weights(log)
    _, place = levels(log.reward)
    shares = np.bincount(place, count) / count.sum()
    differ = 1.0 - float(shares @ shares)
    if differ == 0:
        return not_applicable(name, "rewards do not vary.")
    linear = correlations(sums)
    known = np.array([_determined(twins, differ) for twins in sums.rewards])
    same = np.where(linear > SAME, linear, 0.0)
    found = np.maximum(same, known)
    worst = int(np.argmax(found))
    if found[worst] == 0:
        return _foretold(log, sums, shares)
    column = sums.names[worst]
    how = "is a linear function of the reward" if same[worst] > 0 else "determines the reward"
    sentence = (
        f"the context column {column!r} {how}. No policy can have known it when choosing, and a model that sees it "
        "predicts without error."
    )
    return judged(name, 1.0, sentence, {"column": column, "correlation": float(linear[worst])})


def _foretold(log: Log, sums: LeakSums, shares: Floats) -> Finding:
    """Whether a column tells the reward better than what is known before an action usually can."""
    both = np.stack([correlations(sums), correlations(sums, sums.bent)])
    square = np.nan_to_num(both.max(axis=0))
    worst = int(np.argmax(square))
    most, column = float(square[worst]), sums.names[worst]
    details: dict[str, Any] = {"column": column, "correlation": most}
    count, _ = counts_and_weights(log)
    if len(shares) == 2 and most < 1:
        # The chance that of two rows with different rewards the column ranks them rightly, were it normal given each.
        apart = most / ((1 - most) * float(shares.prod()))
        chance = float(special.ndtr(np.sqrt(apart / 2)))
        what, much = (f"ranks {100 * chance:.3g}% of the pairs of different rewards correctly", chance > RANKED)
    else:
        what, much = f"explains {100 * most:.3g}% of the variance of rewards", most > EXPLAINED
    earned = float(count @ (log.reward != 0)) / float(count.sum())
    counted = (sums.zeros[:, 0] * earned >= EXPECTED) & (sums.zeros[:, 1] == 0)
    if len(shares) == 2 and not much and counted.any():
        worst = int(np.argmax(counted))
        details["column"] = sums.names[worst]
        sentence = (
            f"none of the {sums.zeros[worst, 0]:,.0f} rows in which the context column {sums.names[worst]!r} is 0 has "
            "a reward: does it count what came after the action?"
        )
        return judged("leaks", (SUSPECT + 1) / 2, sentence, details, at_most="caution")
    if not much or count.sum() < EXPECTED:
        return judged("leaks", 0.0, "no context column determines the reward.", details)
    sentence = f"the context column {column!r} {what}. Was it known when the action was chosen?"
    return judged("leaks", (SUSPECT + 1) / 2, sentence, details, at_most="caution")


def _determined(twins: Twins, differ: float) -> float:
    """1 where rows that agree in a column agree in the reward, far beyond what chance makes likely.

    Copies of rows agree in everything: that says nothing of a column with as many values as rows.
    """
    pairs, agreed = twins.pairs()
    expected, rows = differ * pairs, float(twins.count.sum())
    coarse = 2 * pairs >= (TOGETHER - 1) * rows
    return float(coarse and expected >= EXPECTED and pairs - agreed <= ALLOWED * expected)


def text_levels(columns: list[tuple[str, Array, Hashes]], bits: int) -> Levels:
    """Different values of each text column of a table of contexts, or of a block of it."""
    return {
        name: HashCounts.of(hashes, np.ones(len(hashes)), bits) for name, values, hashes in columns if is_text(values)
    }


def is_text(values: Array) -> bool:
    """Whether a column holds texts.

    >>> is_text(np.array([None, "a"], dtype=object)), is_text(np.array([1.5])), is_text(np.array(["a"]))
    (True, False, True)
    """
    if values.dtype.kind in "UT":
        return True
    return values.dtype.kind == "O" and any(isinstance(v, str) for v in values[:100])


def joined_levels(one: Levels, other: Levels) -> Levels:
    """Different values of both blocks."""
    both = {name: one[name] + other[name] for name in one if name in other}
    return {**one, **other, **both}


def identifying(log: Log, levels: Levels) -> Finding:
    """The text column with most levels for its rows."""
    if not levels:
        return not_applicable("identifying_columns", "the context has no text columns.")
    rows = float(log.count.sum()) if log.is_counted else float(len(log.action))
    shares = {n: c.distinct / rows for n, c in levels.items() if c.distinct > MANY}
    if not shares:
        return judged("identifying_columns", 0.0, f"no text column of the context has more than {MANY} levels.")
    name = max(shares, key=lambda n: shares[n])
    number = levels[name].distinct
    sentence = f"context column {name!r} is text with {number:,.0f} different values in {rows:,.0f} rows."
    return judged("identifying_columns", shares[name], sentence, {"column": name, "levels": number})


CHECKS = (
    Check(
        "leaks",
        Threshold(
            0.5, 0.5, "above",
            "Remove the column from the context: it is the reward, or was written after it.",
            decides=True, false_alarms=0.001,
        ),
        log=lambda s: finding(s.log, s.sums.leaks), singly="states of episodes may depend on earlier rewards.",
        topic=Topic("A context column seems to contain the reward or the action."),
        value="1 where a context column determines the reward",
    ),
    Check(
        "identifying_columns",
        Threshold(
            0.02, math.inf, "above",
            "Models learn noise from it. Leave it out of context=, group it (a date by weekday, an id by its "
            "category), or use it as cluster=.",
            advice=True,
        ),
        log=lambda s: identifying(s.log, s.sums.levels),
        topic=Topic("A context column looks like an id."),
        value="largest number of levels of a text column of the context, relative to the rows", part_of="leaks",
    ),
)  # fmt: skip
