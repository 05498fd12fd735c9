"""Context columns that know the reward: the same but for a linear map, or rows that agree in both."""

from __future__ import annotations

import numpy as np
import pytest

import offpolicy as op
from offpolicy.trust import leaks
from offpolicy.trust.check import CHECKS
from offpolicy.trust.duplicates import Twins
from offpolicy.trust.sums import log_sums


def leak(context, reward, **options):
    n = len(reward)
    log = op.BanditLog.from_arrays(context, np.arange(n) % 2, reward, np.full(n, 0.5), **options)
    return leaks.finding(log, log_sums(log).leaks)


def test_a_column_that_is_the_reward():
    rng = np.random.default_rng(1)
    r = rng.normal(size=200)
    weight = np.arange(200) % 3 + 1.0
    x = np.column_stack([rng.normal(size=200), 3 - 2 * r, rng.normal(size=200)])
    found = leak(x, r, weight=weight)
    assert (found.value, found.level, found.decides) == (1.0, "alarm", True)
    assert found.details == {"column": "column 1", "correlation": pytest.approx(1.0)}
    assert found.sentence == (
        "the context column 'column 1' is a linear function of the reward. No policy can have "
        "known it when choosing, and a model that sees it predicts without error."
    )
    assert found.remedy == CHECKS["leaks"].limits.remedy
    log = op.BanditLog.from_arrays(x, np.arange(200) % 2, r, weight=weight)
    squares = leaks.correlations(log_sums(log).leaks)
    for j in range(3):
        c = np.cov(x[:, j], r, aweights=weight)
        assert squares[j] == pytest.approx(c[0, 1] ** 2 / (c[0, 0] * c[1, 1]))
    noise = rng.normal(size=200)
    for size, same in ((0.025, True), (0.045, False)):
        made = leak(r + size * noise, r)
        square = np.corrcoef(r + size * noise, r)[0, 1] ** 2
        assert (square > 0.999, made.value) == (same, 1.0 if same else 0.75)


def test_a_column_that_determines_the_reward():
    levels = np.arange(300) % 6
    r = (levels % 3 == 0) * 1.0
    found = leak(levels * 1.0, r)
    assert found.value == 1.0
    assert "the context column 'column 0' determines the reward. No policy" in found.sentence
    mixed = r.copy()
    mixed[:40] = 1 - mixed[:40]
    calm = leak(levels * 1.0, mixed)
    assert (calm.value, calm.sentence) == (0.0, "no context column determines the reward.")
    assert leak(None, r).sentence == "the context has no columns."
    assert leak(levels * 1.0, np.full(300, 2.0)).sentence == "rewards do not vary."
    text = leak(np.array([f"v{x}" for x in levels]), r)
    assert text.value == 1.0
    assert text.details["correlation"] == 0.0
    part = np.where(np.arange(300) % 4 == 0, np.nan, 2 * np.random.default_rng(0).normal(size=300))
    known = np.isfinite(part)
    noisy = np.where(known, part, 7.0) + np.random.default_rng(1).normal(size=300)
    gaps = op.BanditLog.from_arrays(part, np.arange(300) % 2, noisy)
    square = np.corrcoef(part[known], noisy[known])[0, 1] ** 2
    assert leaks.correlations(log_sums(gaps).leaks)[0] == pytest.approx(square)
    for x, y in ((1e6 + 1e-3 * noisy, noisy), (noisy, 1e6 + 1e-3 * noisy)):
        flat = op.BanditLog.from_arrays(x, np.arange(300) % 2, y)
        assert leaks.correlations(log_sums(flat).leaks).tolist() == [0.0]
    small = op.BanditLog.from_arrays(1e-6 * noisy, np.arange(300) % 2, 1e-6 * noisy)
    assert leaks.correlations(log_sums(small).leaks)[0] == pytest.approx(1.0)
    missing = np.where(levels == 0, np.nan, 5.0)
    assert leak(missing, r).value == 0.0


def pairs_of(sizes, agree):
    """Twins of groups of so many rows, of which so many agree with each other."""
    outer, inner, count = [], [], []
    for g, (size, alike) in enumerate(zip(sizes, agree, strict=True)):
        outer += [g, g] if alike < size else [g]
        inner += [1, 2] if alike < size else [1]
        count += [alike, size - alike] if alike < size else [size]
    as_hash = [np.array(x, dtype=np.uint64) for x in (outer, inner)]
    return Twins.of(*as_hash, np.array(count, float), np.zeros(len(count)))


def test_how_many_pairs_it_takes():
    determined = leaks._determined
    assert determined(pairs_of([12], [12]), 0.5) == 1.0  # 66 pairs, 33 expected to differ
    assert determined(pairs_of([11], [11]), 0.5) == 0.0  # 55 pairs: 27.5
    assert determined(pairs_of([5] * 6, [5] * 6), 0.5) == 1.0  # 60 pairs: 30, and five rows share a value
    assert determined(pairs_of([5] * 6, [5] * 6), 0.499) == 0.0
    assert determined(pairs_of([5] * 10, [5] * 10), 0.5) == 1.0  # five rows share a value: 100 pairs of 50 rows
    assert determined(pairs_of([4] * 40, [4] * 40), 0.5) == 0.0  # copies of rows agree in everything
    assert determined(pairs_of([5, 4] * 40, [5, 4] * 40), 0.5) == 0.0
    # Up to 1% of those that are expected to differ may: 100 rows have 4,950 pairs.
    assert determined(pairs_of([100] * 4, [100, 100, 100, 99]), 0.5) == 1.0  # 99 of 9,900
    assert determined(pairs_of([100] * 4, [100, 100, 100, 99]), 0.499) == 0.0


def test_a_column_that_tells_too_much_is_worth_a_caution():
    rng = np.random.default_rng(4)
    click = (rng.random(3000) < 0.1) * 1.0
    dwell = np.exp(rng.normal(size=3000) + 2.5 * click)  # written after the click
    habit = np.exp(rng.normal(size=3000) + 0.8 * click)  # known before, and telling
    made = leak(dwell, click)
    assert (made.level, made.decides) == ("caution", False)
    assert "Was it known when the action was chosen?" in made.sentence
    assert leak(habit, click).level == "ok"
    spend = rng.normal(size=3000)
    assert leak(spend + 0.2 * rng.normal(size=3000), spend).level == "caution"
    assert leak(spend + 0.5 * rng.normal(size=3000), spend).level == "ok"
