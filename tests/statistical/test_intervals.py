"""Coverage by simulation with fixed seeds; tolerances are binomial."""

from __future__ import annotations

import math

import numpy as np
import pytest

from offpolicy.inference.comparison import best
from offpolicy.inference.estimate import Estimate
from offpolicy.inference.family import together
from offpolicy.inference.intervals import (
    Evidence,
    Pair,
    Sample,
    automatic,
    bca,
    choose,
    clopper_pearson,
    confidence_sequence,
    cressie_read,
    empirical_bernstein,
    empirical_likelihood,
    fieller,
    hoeffding,
    normal,
    pooled,
    stabilized,
    student,
    summarize,
    trial_for_means,
)
from offpolicy.inference.score_table import Units

RANGES = {"weight_high": 50.0, "reward_low": 0.0, "reward_high": 1.0}


def at_least(hits: int, runs: int, rate: float) -> bool:
    """Whether ``hits`` of ``runs`` is compatible with a rate of at least ``rate`` (3 sigma)."""
    return hits / runs >= rate - 3 * math.sqrt(rate * (1 - rate) / runs)


def rare_arm(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights 0 or 50 with mean 1, click rate 1%."""
    return (rng.random(n) < 0.02) * 50.0, (rng.random(n) < 0.01) * 1.0


@pytest.mark.parametrize("n", [1000, *(pytest.param(n, marks=pytest.mark.verify) for n in (5000, 12_000))])
def test_rare_arm_is_covered_where_the_normal_interval_fails(n):
    rng = np.random.default_rng(n)
    runs, hits = 600, dict.fromkeys(["normal", "likelihood", "auto"], 0)
    for _ in range(runs):
        w, r = rare_arm(rng, n)
        s = Sample.of_mean(w * r)
        hits["normal"] += normal(s).covers(0.01)
        hits["likelihood"] += cressie_read(w, r, **RANGES).covers(0.01)
        hits["auto"] += automatic(s, Evidence(w, r, weight_high=50.0)).covers(0.01)
    if n < 10_000:
        assert hits["normal"] / runs < {1000: 0.25, 5000: 0.70}[n]
        assert at_least(hits["likelihood"], runs, 0.95)
    else:
        # Two or three expected clicks are the worst case of any χ²-calibrated likelihood; the
        # automatic choice is not one there.
        assert at_least(hits["likelihood"], runs, 0.90)
    assert at_least(hits["auto"], runs, 0.95)


def test_dual_likelihood_covers_bounded_rewards_of_a_rare_arm():
    rng = np.random.default_rng(0)
    for n, a in ((100, 0.3), (1000, 0.05), (1000, 2.0)):
        truth, hits = a / (a + 0.7), 0
        for _ in range(400):
            w = (rng.random(n) < 0.02) * 50.0
            hits += cressie_read(w, rng.beta(a, 0.7, size=n), **RANGES).covers(truth)
        assert at_least(hits, 400, 0.94), (n, a, hits)


def test_weighted_clopper_pearson_covers_heterogeneous_weights():
    rng = np.random.default_rng(1)
    levels, chance = np.array([0.0, 0.5, 2.0, 20.0]), np.array([0.3, 0.56, 0.12, 0.02])
    rate = np.array([0.1, 0.002, 0.02, 0.05])
    assert levels @ chance == pytest.approx(0.92)
    levels = levels / 0.92
    truth = float(chance @ (levels * rate))
    for n in (200, 1000, 5000):
        hits = 0
        for _ in range(600):
            k = rng.choice(4, p=chance, size=n)
            r = (rng.random(n) < rate[k]) * 1.0
            hits += clopper_pearson(r, levels[k], weight_high=levels[3]).covers(truth)
        assert at_least(hits, 600, 0.95), n


def test_student_is_exact_for_normal_scores_and_normal_is_not():
    x = np.random.default_rng(2).normal(size=(4000, 6))
    t = sum(student(Sample.of_mean(row)).covers(0) for row in x)
    z = sum(normal(Sample.of_mean(row)).covers(0) for row in x)
    assert abs(t / 4000 - 0.95) < 3 * math.sqrt(0.95 * 0.05 / 4000)
    assert z / 4000 < 0.90


def test_likelihood_and_bca_follow_skewness_better_than_the_normal_interval():
    rng = np.random.default_rng(3)
    misses = {"normal": [0, 0], "el": [0, 0], "bca": [0, 0]}
    for k in range(500):
        s = Sample.of_mean(rng.exponential(size=60))
        found = {"normal": normal(s), "el": empirical_likelihood(s), "bca": bca(s, number=500, seed=k)}
        for name, i in found.items():
            misses[name][0] += i.low > 1
            misses[name][1] += i.high < 1
    # The mean exceeds the normal interval far more often than it falls below.
    assert misses["normal"][1] > 3 * misses["normal"][0]
    for name in ("el", "bca"):
        assert sum(misses[name]) <= sum(misses["normal"])
        assert sum(misses[name]) / 500 < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 500)


def test_finite_sample_bounds_never_undercover():
    rng = np.random.default_rng(4)
    for method in (hoeffding, empirical_bernstein):
        hits = sum(
            method(Sample.of_mean(rng.beta(0.1, 0.9, size=25)), 0.9, low=0, high=1).covers(0.1) for _ in range(500)
        )
        assert at_least(hits, 500, 0.9)


def adaptive_log(rng, *, batches=10, size=100, rate=0.5, floor=0.05):
    """Thompson sampling on two equal arms; the value of arm 0 is wanted."""
    won, lost = np.ones(2), np.ones(2)
    w, r, batch, scale = [], [], [], []
    for b in range(batches):
        p = 0.5 if b == 0 else float((rng.beta(won[0], lost[0], 200) > rng.beta(won[1], lost[1], 200)).mean())
        p = min(max(p, floor), 1 - floor)
        arm = (rng.random(size) >= p).astype(int)
        reward = (rng.random(size) < rate) * 1.0
        for k in (0, 1):
            won[k] += reward[arm == k].sum()
            lost[k] += (1 - reward[arm == k]).sum()
        w.append((arm == 0) / p)
        r.append(reward)
        batch.append(np.full(size, b))
        scale.append(1 / math.sqrt(p))
    return np.concatenate(w), np.concatenate(r), np.concatenate(batch), np.array(scale)


def test_confidence_sequence_covers_at_every_look_under_adaptive_logging():
    rng = np.random.default_rng(5)
    runs, always, fixed = 120, 0, 0
    looks = np.array([50, 100, 200, 350, 500, 700, 1000])
    for _ in range(runs):
        w, r, _, _ = adaptive_log(rng)
        path = [confidence_sequence(w[:k], r[:k], reward_low=0, reward_high=1, weight_high=20.0) for k in looks]
        always += all(i.covers(0.5) for i in path)
        fixed += all(normal(Sample.of_mean((w * r)[:k])).covers(0.5) for k in looks)
    assert at_least(always, runs, 0.95)
    # Looking several times at a fixed-time interval is what the sequence protects from.
    assert fixed / runs < 0.88


@pytest.mark.verify
def test_adaptive_batches_naive_against_martingale_and_stabilized():
    rng = np.random.default_rng(6)
    runs = 1500
    hits = dict.fromkeys(["arm mean", "pooled", "stabilized"], 0)
    error, width = {k: [] for k in hits}, {k: [] for k in hits}
    for _ in range(runs):
        w, r, batch, scale = adaptive_log(rng, batches=20, size=100, floor=0.02)
        b = summarize(w * r, batch)
        naive = Sample.of_mean(r[w > 0])
        found = {
            "arm mean": (naive.estimate, normal(naive)),
            "pooled": (pooled(b).estimate, pooled(b).interval()),
            "stabilized": (stabilized(b, scale).estimate, stabilized(b, scale).interval()),
        }
        for name, (value, i) in found.items():
            hits[name] += i.covers(0.5)
            error[name].append(value - 0.5)
            width[name].append(i.width)
    bias = {k: float(np.mean(v)) for k, v in error.items()}
    noise = {k: float(np.std(v)) / math.sqrt(runs) for k, v in error.items()}
    # The mean of the rows that took the arm is biased down; importance weighting is not.
    assert bias["arm mean"] < -5 * noise["arm mean"]
    assert abs(bias["pooled"]) < 4 * noise["pooled"]
    assert hits["arm mean"] / runs < 0.935
    assert at_least(hits["pooled"], runs, 0.94)
    assert at_least(hits["stabilized"], runs, 0.94)
    assert np.mean(width["stabilized"]) < 0.92 * np.mean(width["pooled"])


def test_simultaneous_intervals_cover_jointly_and_single_ones_do_not():
    rng = np.random.default_rng(7)
    mix = rng.normal(size=(6, 6))
    joint, single, runs = 0, 0, 400
    for _ in range(runs):
        x = rng.exponential(size=(300, 6)) @ mix
        truth = mix.sum(axis=0)
        units = Units(len(x))
        found = together([Estimate.from_scores(column, units=units) for column in x.T]).intervals
        joint += all(i.covers(t) for i, t in zip(found, truth, strict=True))
        single += all(normal(Sample.of_mean(x[:, j])).covers(truth[j]) for j in range(6))
    assert at_least(joint, runs, 0.94)
    assert single / runs < 0.88


def test_best_policy_errs_no_more_often_than_stated():
    rng = np.random.default_rng(8)
    truth, wrong, settled, runs = np.array([0.0, 0.0, 0.15, 0.2]), 0, 0, 500
    for _ in range(runs):
        x = truth + rng.normal(size=(300, 1)) + rng.normal(size=(300, 4))
        units = Units(len(x))
        found = best({n: Estimate.from_scores(c, units=units) for n, c in zip("abcd", x.T, strict=True)}, (), 0.9)
        wrong += "d" not in found.names
        settled += found.settled
    assert wrong / runs <= 0.1
    assert 0 < settled < runs


def test_fieller_covers_when_the_baseline_is_noisy():
    rng = np.random.default_rng(9)
    hits, unbounded, runs = 0, 0, 4000
    for _ in range(runs):
        d, e = rng.normal([0.3, 0.6], 0.12)
        i = fieller(Pair(e, d, 0.0144, 0.0144))
        if math.isinf(i.high):
            unbounded += 1
            inside = (e - 2 * d) ** 2 <= 3.8415 * (0.0144 + 4 * 0.0144)
            hits += inside
        else:
            hits += i.covers(1.0)
    assert abs(hits / runs - 0.95) < 3 * math.sqrt(0.95 * 0.05 / runs)
    assert unbounded > 0


def test_trials_of_the_stated_size_have_the_stated_power():
    size = trial_for_means(0.03, 0.1 * 0.9, 0.13 * 0.87, power=0.8)
    rng = np.random.default_rng(10)
    a = rng.binomial(size.control, 0.10, size=4000) / size.control
    b = rng.binomial(size.treatment, 0.13, size=4000) / size.treatment
    se = np.sqrt(a * (1 - a) / size.control + b * (1 - b) / size.treatment)
    assert np.mean(np.abs(b - a) / se > 1.96) == pytest.approx(0.8, abs=0.025)


def mean_world(draw, truth, evidence=None):
    return lambda rng: (Sample.of_mean(draw(rng)), evidence, truth)


def softmax_world(n, *, sharp, rate, doubly_robust):
    """Ten actions, opposite softmax policies, binary rewards; the weight bound is not told."""
    slope = np.linspace(-1, 1, 10)

    def policies(x):
        b, e = np.exp(sharp * x * slope), np.exp(-sharp * x * slope)
        return b / b.sum(1, keepdims=True), e / e.sum(1, keepdims=True)

    def success(x):
        return rate * (1 + 0.5 * np.tanh(x + slope))

    nodes, mass = np.polynomial.hermite_e.hermegauss(80)
    grid = nodes[:, None]
    truth = float(mass @ (policies(grid)[1] * success(grid)).sum(1) / mass.sum())

    def draw(rng):
        x = rng.normal(size=(n, 1))
        pi_b, pi_e = policies(x)
        a = (pi_b.cumsum(1) < rng.random((n, 1))).sum(1).clip(0, 9)
        rows = np.arange(n)
        w = pi_e[rows, a] / pi_b[rows, a]
        mu = success(x)
        r = (rng.random(n) < mu[rows, a]) * 1.0
        q = 0.8 * mu
        psi = (pi_e * q).sum(1) + w * (r - q[rows, a]) if doubly_robust else w * r
        return Sample.of_mean(psi), Evidence(w, r), truth

    return draw


UNIT = Evidence(score_low=0.0, score_high=1.0)


def cluster_world(groups, spread):
    def draw(rng):
        size = np.ceil(10 * np.exp(spread * rng.normal(size=groups)))
        total = size * rng.normal(size=groups) + np.sqrt(size) * rng.normal(size=groups)
        return Sample(total, size), None, 0.0

    return draw


WORLDS = {
    "normal 15": mean_world(lambda g: g.normal(size=15), 0.0),
    "normal 40": mean_world(lambda g: g.normal(size=40), 0.0),
    "normal 500": mean_world(lambda g: g.normal(size=500), 0.0),
    "exponential 15": mean_world(lambda g: g.exponential(size=15), 1.0),
    "exponential 60": mean_world(lambda g: g.exponential(size=60), 1.0),
    "exponential 1000": mean_world(lambda g: g.exponential(size=1000), 1.0),
    "lognormal 40": mean_world(lambda g: g.lognormal(-0.5, 1, size=40), 1.0),
    "lognormal 200": mean_world(lambda g: g.lognormal(-0.5, 1, size=200), 1.0),
    "lognormal 1000": mean_world(lambda g: g.lognormal(-0.5, 1, size=1000), 1.0),
    "student3 40": mean_world(lambda g: g.standard_t(3, size=40), 0.0),
    "student3 1000": mean_world(lambda g: g.standard_t(3, size=1000), 0.0),
    "beta 15": mean_world(lambda g: g.beta(0.05, 0.95, size=15), 0.05, UNIT),
    "beta 200": mean_world(lambda g: g.beta(0.05, 0.95, size=200), 0.05, UNIT),
    "clusters 20": cluster_world(20, 0.3),
    "clusters 50 unequal": cluster_world(50, 1.0),
    "clusters 200 unequal": cluster_world(200, 1.0),
    "softmax 200 rare": softmax_world(200, sharp=0.5, rate=0.02, doubly_robust=False),
    "softmax 200 rare DR": softmax_world(200, sharp=0.5, rate=0.02, doubly_robust=True),
    "softmax 2000": softmax_world(2000, sharp=0.5, rate=0.3, doubly_robust=False),
    "softmax 2000 DR": softmax_world(2000, sharp=0.5, rate=0.3, doubly_robust=True),
    "softmax 2000 little overlap": softmax_world(2000, sharp=1.0, rate=0.3, doubly_robust=False),
    "softmax 2000 little overlap DR": softmax_world(2000, sharp=1.0, rate=0.3, doubly_robust=True),
}  # fmt: skip
EASY = ["normal 500", "exponential 1000", "beta 200", "softmax 2000", "softmax 2000 DR"]


@pytest.mark.verify
@pytest.mark.parametrize("name", WORLDS)
def test_automatic_choice_covers_or_refuses(name):
    rng = np.random.default_rng(sum(map(ord, name)))
    runs, kept, hits = 2000, 0, 0
    for _ in range(runs):
        s, evidence, truth = WORLDS[name](rng)
        if choose(s, evidence).sufficient:
            kept += 1
            hits += automatic(s, evidence).covers(truth)
    assert kept > 0.5 * runs
    assert at_least(hits, kept, 0.945), hits / kept
    if name in EASY:
        assert kept >= 0.95 * runs
