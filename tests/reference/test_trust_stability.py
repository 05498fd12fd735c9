"""Drift between batches, disagreement of estimators and tails of rewards, by plain loops."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from trust_views import checked, view_of

from offpolicy.inference.estimate import Estimate
from offpolicy.inference.expression import Smoothed
from offpolicy.inference.intervals.evidence import lumpiness
from offpolicy.inference.intervals.sample import Sample
from offpolicy.inference.intervals.tails import tail_index
from offpolicy.inference.score_table import Units
from offpolicy.scores.catalog import named
from offpolicy.trust import stability
from offpolicy.trust.check import CHECKS
from offpolicy.trust.moments import exceedances, surely_above


def scored(psi, **options):
    """A view whose scores are these numbers: weights of 1, rewards as scores."""
    n = len(psi)
    return view_of(np.full((n, 2), 0.5), np.full(n, 0.5), np.arange(n) % 2, psi, **options)


# -- batches -------------------------------------------------------------------------------------------------------


def by_batch(psi, batch, m, square, cluster=None):
    """Mean and standard error of each batch."""
    out = []
    for b in range(batch.max() + 1):
        mine = batch == b
        mean = m[mine] @ psi[mine] / m[mine].sum()
        residual = psi[mine] - mean
        if cluster is None:
            spread = square[mine] @ residual**2
        else:
            spread = sum((m[mine] * residual)[cluster[mine] == c].sum() ** 2 for c in set(cluster[mine]))
        out.append((mean, math.sqrt(spread) / m[mine].sum()))
    return np.array(out).T


def contrasts(psi, batch, m, square, cluster=None, parts=10):
    """Smallest p-value of one part of the time against the rest, adjusted."""
    number = batch.max() + 1
    parts = min(number, parts)
    part = batch * parts // number
    best = 1.0
    for own in range(parts):
        inside = part == own
        here = m[inside] @ psi[inside] / m[inside].sum()
        there = m[~inside] @ psi[~inside] / m[~inside].sum()
        share = np.where(inside, m.sum() / m[inside].sum(), -m.sum() / m[~inside].sum())
        weight = square / m
        each = share * (psi - np.where(inside, here, there))
        if cluster is None:
            units, count = weight * each, m / weight
        else:
            units = np.array([(m * each)[cluster == c].sum() for c in sorted(set(cluster))])
            count = np.ones(len(units))
        error = math.sqrt(count @ units**2) / m.sum()
        skew = count @ units**3 / (count @ units**2) ** 1.5
        z = (here - there) / error
        z = z + skew * z**2 / 3 + skew**2 * z**3 / 27 + skew / 6
        best = min(best, 2 * stats.norm.sf(-stats.norm.ppf(stats.t.cdf(-abs(z), count.sum() - 1))))
    return min(1.0, parts * best)


@pytest.mark.parametrize("batches", [3, 14])
@pytest.mark.parametrize("kind", ["plain", "counted", "clusters"])
@pytest.mark.parametrize("moved", [0.0, 2.5])
def test_drift_between_batches_by_a_loop(batches, kind, moved):
    rng = np.random.default_rng(8)
    n = 30 * batches
    batch = np.repeat(np.arange(batches), 30)
    roles = {
        "plain": {},
        "counted": {"count": np.arange(n) % 2 + 1.0, "weight": np.arange(n) % 3 + 1.0},
        "clusters": {"cluster": np.arange(n) // 2},
    }[kind]
    psi = rng.exponential(size=n) + moved * (batch == 1)
    count, weight = roles.get("count", np.ones(n)), roles.get("weight", np.ones(n))
    m, square, cluster = count * weight, count * weight**2, roles.get("cluster")
    found = checked("batch_drift", scored(psi, batch=batch, **roles))
    mean, error = by_batch(psi, batch, m, square, cluster)
    precision = 1 / error**2
    center = precision @ mean / precision.sum()
    q = precision @ (mean - center) ** 2
    p = max(stats.chi2.sf(q, batches - 1), contrasts(psi, batch, m, square, cluster))
    assert found.details["Q"] == pytest.approx(q)
    assert found.value == pytest.approx(p)
    assert [row["value"] for row in found.details["batches"]] == pytest.approx(mean)
    assert [row["std_error"] for row in found.details["batches"]] == pytest.approx(error)
    verb = "does not differ" if p >= 0.001 else "differs"
    assert found.sentence == f"the estimate {verb} between {batches} batches beyond noise (p = {p:.2g})."
    assert found.level == ("ok" if p >= 0.001 else "note")
    assert (p < 0.001) == (moved > 0)


def test_batches_that_cannot_be_compared():
    psi = np.random.default_rng(1).normal(size=60)
    assert checked("batch_drift", scored(psi)).sentence == "the log has no batches."
    batch = np.r_[np.zeros(41, int), np.ones(19, int)]
    few = "fewer than two batches have enough rows to compare."
    assert checked("batch_drift", scored(psi, batch=batch)).sentence == few
    assert checked("batch_drift", scored(psi, batch=np.sort(np.arange(60) % 3))).ran
    assert checked("batch_drift", scored(psi, batch=np.sort(np.arange(60) % 2))).ran
    same = np.where(np.arange(60) < 30, 0.1, psi)
    assert checked("batch_drift", scored(same, batch=np.repeat([0, 1], 30))).sentence == few
    none = scored(psi, batch=np.repeat([0, 1], 30), ratio=np.zeros(60))
    assert checked("batch_drift", none).sentence == "there is no overlap to compare batches on."


# -- estimators ------------------------------------------------------------------------------------------------------

RNG = np.random.default_rng(5)
BASE = RNG.normal(size=500)
UNITS = Units(500)


def estimates(**scores):
    return {name.replace("_", "-"): Estimate.from_scores(BASE + psi, units=UNITS) for name, psi in scores.items()}


def hall(x, null=0.0):
    """A mean against a null, by Hall's transformation and Student's tails."""
    e = x - x.mean()
    t, skew = (x.mean() - null) / (x.std() / math.sqrt(len(x))), (e**3).sum() / (e**2).sum() ** 1.5
    t = t + skew * t**2 / 3 + skew**2 * t**3 / 27 + skew / 6
    return -stats.norm.ppf(stats.t.cdf(-abs(t), len(x) - 1)) * np.sign(t)


def test_estimators_that_are_apart():
    noise = 0.4 * RNG.normal(size=500)
    given = estimates(DML=0 * BASE, SNDR=noise + 0.09, IPW=0.3 * noise, DM=0.5 * BASE)
    found = stability.disagreement(given, [named(n) for n in ("DML", "SNDR", "IPW", "DM")])
    z = {name: hall(given["DML"].psi[0] - given[name].psi[0]) for name in ("SNDR", "IPW", "DM")}
    assert found.details["z"] == {name: pytest.approx(value) for name, value in z.items()}
    worst = "SNDR"
    p = min(1.0, 2 * 2 * stats.norm.sf(abs(z[worst])))  # the direct method is no witness
    apart = abs(given["DML"].value - given[worst].value) / given["DML"].std_error
    assert found.value == pytest.approx(p)
    assert found.details["reference"] == "DML"
    assert found.details["apart"] == pytest.approx(apart)
    assert found.sentence == (
        f"DML and SNDR differ by {abs(z[worst]):.2g} standard errors of their difference, "
        f"{apart:.2g} standard errors of the estimate (direct method: DM z = {z['DM']:.2g})."
    )
    assert apart > 1
    assert found.level == ("alarm" if p < 0.0001 else "caution" if p < 0.001 else "ok")
    assert found.remedy == (CHECKS["estimator_disagreement"].limits.remedy if p < 0.001 else "")


def test_a_distance_below_a_standard_error_is_a_note():
    noise = 0.02 * RNG.normal(size=500)
    given = estimates(DML=0 * BASE, IPW=noise + 0.8 * BASE.std() / math.sqrt(500))
    found = stability.disagreement(given, [named("DML"), named("IPW")])
    assert (found.level, found.value < 1e-4, found.details["apart"] < 1) == ("note", True, True)
    assert found.sentence.endswith(" standard errors of the estimate.")
    far = estimates(DML=0 * BASE, IPW=noise + 1.2 * BASE.std() / math.sqrt(500))
    assert stability.disagreement(far, [named("DML"), named("IPW")]).level == "alarm"
    other = stability.disagreement(far, [named("DML"), named("IPW")], named("IPW"))
    assert other.details["reference"] == "IPW"
    assert list(other.details["z"]) == ["DML"]


def test_who_is_no_witness():
    few = "fewer than two weighted estimators to compare."
    given = estimates(DML=0 * BASE, DM=0.3 * BASE, DML_full=0.2 * BASE)
    seen = replace(named("DML"), name="DML-full", split="full")
    everyone = [named("DML"), named("DM"), seen]
    assert stability.disagreement(given, [named("DML")]).sentence == few
    assert stability.disagreement(given, []).sentence == few
    assert stability.disagreement(given, [named("DML"), seen]).sentence == few
    two = stability.disagreement({**given, "IPW": given["DM"]}, [*everyone, named("IPW")])
    assert set(two.details["z"]) == {"DM", "DML-full", "IPW"}
    assert stability.disagreement(given, everyone, named("IPW")).sentence == few
    same = estimates(DML=0 * BASE, IPW=1e-12 + 0 * BASE)
    assert stability.disagreement(same, [named("DML"), named("IPW")]).value == 1.0
    still = {"DML": Estimate.from_scores(np.ones(500), units=UNITS), "IPW": given["DML"]}
    assert stability.disagreement(still, [named("DML"), named("IPW")]).sentence == few


def test_what_smoothing_explains_is_no_disagreement():
    wide = Estimate.from_scores(BASE + 0.5, units=UNITS)
    fine = Estimate.from_scores(BASE + 0.1 * RNG.normal(size=500), units=UNITS)
    smooth = replace(wide, smoothed=Smoothed(fine, 4 / 3))
    exact = Estimate.from_scores(BASE + 0.02 * RNG.normal(size=500), units=UNITS)
    assert stability._paired_z(smooth, exact) == 0.0
    assert abs(stability._paired_z(wide, exact)) > 100
    half = Estimate.from_scores(BASE + 0.4 + 0.01 * RNG.normal(size=500), units=UNITS)
    noisy = Estimate.from_scores(BASE + RNG.normal(size=500), units=UNITS)
    for one, other in (
        (replace(wide, smoothed=Smoothed(half)), noisy),
        (noisy, replace(wide, smoothed=Smoothed(half))),
    ):
        x = one.psi[0] - other.psi[0]
        allowed = abs(wide.value - half.value) + (wide.psi[0] - half.psi[0]).std() / math.sqrt(500)
        assert stability._paired_z(one, other) == pytest.approx(hall(x, math.copysign(allowed, x.mean())))


# -- tails -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("heavy", [0.4, 5.0])
@pytest.mark.parametrize("usual", [False, True])
def test_the_tail_of_rewards(heavy, usual):
    rng = np.random.default_rng(3)
    n = 600
    reward = rng.pareto(1 / heavy if heavy < 1 else 6.0, n).round(6)
    if usual:
        reward[np.arange(n) % 5 < 3] = 0.0
    found = checked("reward_tail", scored(reward))
    distance = np.abs(reward - reward.mean())
    if usual:
        distance = distance[reward != 0]
    k = tail_index(distance.round(9 - math.ceil(math.log10(distance.max()))))
    sure = surely_above(k, exceedances(float(len(distance))))
    assert found.value == pytest.approx(k)
    assert found.details["surely_above"] == pytest.approx(sure)
    assert found.details["skewness"] == pytest.approx(lumpiness(Sample.of_mean(reward)))
    level = "alarm" if sure > 0.25 else "caution" if sure > 0.15 else "ok"
    if found.details["skewness"] <= 0.1 and level == "alarm":
        level = "caution"
    assert found.level == level
    more = " (their variance needs k < 0.5, and k < 0.25 to be known)" if level != "ok" else ""
    assert found.sentence == f"the tail of the rewards has a Pareto index of {k:.2f}{more}."


def test_the_lighter_tail_around_a_model():
    rng = np.random.default_rng(4)
    q = rng.pareto(1.5, 400)
    reward = q + rng.random(400)
    view = scored(reward, q=q, v=q)
    k = tail_index(np.abs(reward - q))
    assert checked("reward_tail", view).value == pytest.approx(k, rel=1e-3)
    assert k < tail_index(np.abs(reward - reward.mean()))


def test_rewards_without_a_tail():
    for reward, why in (
        (np.arange(50) % 2, "rewards are 0 or 1, which have no tail."),
        (np.arange(50) % 2 + 1.0, "too few different rewards to judge their tail."),
        (np.arange(10.0), "too few different rewards to judge their tail."),
        (np.full(50, 0.3), "too few different rewards to judge their tail."),
    ):
        assert checked("reward_tail", scored(np.asarray(reward, float))).sentence == why
    none = scored(np.arange(50.0), ratio=np.zeros(50))
    assert checked("reward_tail", none).sentence == "there is no overlap, so there are no scores."
    assert CHECKS["reward_tail"].limits.decides


def test_a_heavy_tail_is_an_alarm_where_it_shows_in_the_mean():
    few = checked("reward_tail", scored(np.random.default_rng(3).pareto(1.0, 2000)))
    assert few.details["skewness"] > 0.1
    assert (few.level, few.details["surely_above"] > 0.25) == ("alarm", True)
    n = 200_000
    many = ((np.arange(n) + 0.5) / n) ** -0.36 * np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    large = checked("reward_tail", scored(many))
    assert large.details["skewness"] <= 0.1
    assert (large.level, large.details["surely_above"] > 0.25) == ("caution", True)
