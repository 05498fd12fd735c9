"""A condensed sample gives the intervals of the whole one, by every method and in every kind of world."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from offpolicy.errors import DataError, UsageError
from offpolicy.inference.condense import condense, condense_evidence
from offpolicy.inference.intervals import (
    Evidence,
    Sample,
    automatic,
    bca,
    bootstrap,
    by_name,
    hoeffding,
    lumpiness,
    tail_index,
)

SMALL, LARGE = 10_000, 1_000_000
NAMED = [
    "normal", "t", "empirical-likelihood", "cautious-likelihood", "empirical-bernstein",
    "clopper-pearson", "cressie-read", "confidence-sequence",
]  # fmt: skip

# Scores alone: (rng, n) -> psi.
SCORES = {
    "normal": lambda g, n: g.normal(size=n),
    "far from 0": lambda g, n: 1e6 + g.normal(size=n),
    "exponential": lambda g, n: g.exponential(size=n),
    "mixed signs": lambda g, n: g.laplace(size=n) * np.where(g.random(n) < 0.1, 20, 1),
    "lognormal": lambda g, n: g.lognormal(sigma=2, size=n),
    "pareto 3": lambda g, n: g.pareto(3, size=n),
    "pareto 1.5": lambda g, n: g.pareto(1.5, size=n),
    "two heavy tails": lambda g, n: g.pareto(1.1, size=n) * g.choice([-1, 1], size=n),
    "cauchy": lambda g, n: g.standard_cauchy(size=n),
    "one outlier": lambda g, n: np.append(g.normal(size=n - 1), 1e6),
    "constant": lambda g, n: np.full(n, 0.1),
    "lattice": lambda g, n: 0.1 * g.poisson(3, size=n),
    "rounded money": lambda g, n: np.round(g.gamma(2, 30, size=n), 2),
    "money": lambda g, n: np.where(g.random(n) < 0.02, g.gamma(2, 30, size=n), 0),
    "rare money": lambda g, n: np.where(g.random(n) < 0.001, g.lognormal(4, 1.5, size=n), 0),
    "rare losses": lambda g, n: np.where(g.random(n) < 0.004, -200.0, 1.0),
    "rare clicks": lambda g, n: 50.0 * (g.random(n) < 0.0005),
}
# Units of unequal size: (rng, n) -> sizes.
SIZES = {
    "clusters": lambda g, n: np.ceil(10 * np.exp(0.7 * g.normal(size=n))),
    "heavy clusters": lambda g, n: np.ceil(g.pareto(2, size=n) * 5),
    "weights": lambda g, n: g.exponential(size=n) + 0.01,
    "weights or none": lambda g, n: g.exponential(size=n) * (g.random(n) < 0.5),
    "two sizes": lambda g, n: g.choice([1.0, 3.0], size=n),
}
CONTENTS = {
    "normal": lambda g, n: g.normal(size=n),
    "clicks": lambda g, n: 1.0 * (g.random(n) < 0.02),
    "uniform": lambda g, n: g.random(n),
}
WEIGHTS = {
    "ones": lambda g, n: np.ones(n),
    "rare arm": lambda g, n: 50.0 * (g.random(n) < 0.02),
    "very rare arm": lambda g, n: 2000.0 * (g.random(n) < 0.0005),
    "softmax": lambda g, n: g.lognormal(-0.125, 0.5, size=n),
    "heavy": lambda g, n: 0.3 * g.pareto(1.3, size=n),
}
REWARDS = {
    "clicks": (lambda g, w: 1.0 * (g.random(len(w)) < 0.01), (0.0, 1.0)),
    "uniform": (lambda g, w: g.random(len(w)), (0.0, 1.0)),
    "with weight": (lambda g, w: np.clip(g.random(len(w)) + 0.2 * np.minimum(w, 9) - 0.2, 0, 1), (0.0, 1.0)),
    "money": (lambda g, w: SCORES["money"](g, len(w)), None),
    "mixed signs": (lambda g, w: g.uniform(-3, 5, size=len(w)), (-3.0, 5.0)),
}
WORLDS = (
    [("scores", name, "") for name in SCORES]
    + [("sizes", name, content) for name in SIZES for content in CONTENTS]
    + [("weighted", name, reward) for name in WEIGHTS for reward in REWARDS]
)


def world(kind: str, first: str, second: str, n: int) -> tuple[Sample, Evidence]:
    rng = np.random.default_rng([ord(c) for c in kind + first + second])
    if kind == "scores":
        x = SCORES[first](rng, n)
        low, high = float(x.min()), float(x.max())
        bounded = first in {"lattice", "rare losses", "rare clicks"}
        known = {"score_low": low, "score_high": high + 1} if bounded else {}
        if first in {"lattice", "rounded money"}:
            values, count = np.unique(x, return_counts=True)
            return Sample.of_mean(values, count), Evidence(**known)
        return Sample.of_mean(x), Evidence(**known)
    if kind == "sizes":
        size = SIZES[first](rng, n)
        known = {} if second == "normal" else {"score_low": 0.0, "score_high": 1.0}
        return Sample(size * CONTENTS[second](rng, n), size), Evidence(**known)
    w = WEIGHTS[first](rng, n)
    draw, bounds = REWARDS[second]
    r = draw(rng, w)
    low, high = bounds or (None, None)
    top = None if first == "heavy" else 1.2 * float(w.max())
    product = second != "with weight"
    psi = w * r if product else 0.3 + w * (r - 0.3)
    evidence = Evidence(w, r, None, top, low, high, is_product=product)
    return Sample.of_mean(psi), evidence


def methods(replicates: int):
    yield from ((name, partial(by_name, name)) for name in NAMED)
    yield "hoeffding", lambda s, e: hoeffding(s, low=e.score_low, high=e.score_high)
    for draw in (bootstrap, bca):
        yield draw.__name__, lambda s, e, draw=draw: draw(s, number=replicates)


def outcome(method, sample, evidence):
    try:
        return method(sample, evidence)
    except (DataError, UsageError, TypeError) as error:
        return type(error)


def check(sample: Sample, evidence: Evidence, replicates: int) -> None:
    few, fewer = condense(sample, 0), condense_evidence(evidence, 0)
    assert few.total == pytest.approx(sample.total, rel=1e-12)
    assert few.is_mean == sample.is_mean
    for name, method in methods(replicates):
        whole, part = outcome(method, sample, evidence), outcome(method, few, fewer)
        if isinstance(whole, type):
            assert part == whole, name
            continue
        close = 1e-6 * whole.width + 1e-12 * abs(whole.low)  # a constant has no width
        assert abs(part.low - whole.low) <= close, name
        assert abs(part.high - whole.high) <= close, name
        assert part.sufficient == whole.sufficient, name
    whole, part = automatic(sample, evidence), automatic(few, fewer)
    assert (part.method, part.note, part.sufficient) == (whole.method, whole.note, whole.sufficient)
    # Rules compare it with 0.1 and more. Where sizes vary, third moments of the scores are kept only nearly.
    expected = lumpiness(sample, evidence)
    assert lumpiness(few, fewer) == pytest.approx(expected, rel=1e-6, abs=1e-8)
    if evidence.weights is not None:
        before = tail_index(evidence.weights, evidence.count)
        assert tail_index(fewer.weights, fewer.count) == pytest.approx(before, rel=1e-9, nan_ok=True)


def test_there_are_many_worlds():
    assert len(WORLDS) >= 50


@pytest.mark.parametrize(("kind", "first", "second"), WORLDS)
def test_condensed_intervals_are_those_of_the_whole(kind, first, second):
    check(*world(kind, first, second, SMALL), replicates=100)


@pytest.mark.verify
@pytest.mark.parametrize(("kind", "first", "second"), WORLDS)
def test_condensed_intervals_are_those_of_a_large_whole(kind, first, second):
    check(*world(kind, first, second, LARGE), replicates=1000)


@pytest.mark.parametrize("first", SIZES)
def test_counted_rows_condense_like_the_rows_they_stand_for(first):
    rng = np.random.default_rng(3)
    size = np.round(SIZES[first](rng, SMALL), 3)
    score = np.round(rng.exponential(size=SMALL), 3)
    count = rng.integers(1, 4, size=SMALL)
    order = rng.permutation(int(count.sum()))
    many = [np.repeat(x, count)[order] for x in (size * score, size)]
    for method in (bootstrap, bca):
        a = method(condense(Sample(size * score, size, count), 0), number=100)
        b = method(condense(Sample(*many), 0), number=100)
        assert tuple(a) == pytest.approx(tuple(b), abs=1e-6 * a.width)


@pytest.mark.verify
@pytest.mark.parametrize("second", REWARDS)
def test_forty_million_units_fit_in_a_few_megabytes(second):
    n, goal = 4_000_000, 40_000_000
    sample, evidence = world("weighted", "softmax", second, n)
    rows = len(condense(sample).numerator), len(condense_evidence(evidence).weights)
    # Beyond the cells, whose number does not grow, only 3√N units per tail are kept: two and four tails.
    more = 3 * (goal**0.5 - n**0.5)
    bytes_ = 24 * (sum(rows) + 6 * more)
    assert bytes_ < 8 * 2**20
