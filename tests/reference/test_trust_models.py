"""Checks of reward and behavior models: every figure and sentence, by plain sums."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from trust_logs import drawn
from trust_views import by_name, checked, of_models, several, view_of

from offpolicy.trust import models
from offpolicy.trust.check import CHECKS, MODEL, OVERLAP

N = 200


def world(q=0.0, v=0.0, seed=2, noise=0.0, **options):
    d = drawn(seed, N)
    reward = options.pop("reward", d["r"])
    rng = np.random.default_rng(seed)
    base = 0.3 * d["a"] + 0.2 * d["x"] + noise * rng.normal(size=N)
    pi = options.pop("pi", np.full((N, 3), 1 / 3))
    return d, view_of(pi, options.pop("p", d["p"]), d["a"], reward, q=base + q, v=base.mean() + v + 0 * base, **options)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("split", ["crossfit", "full"])
@pytest.mark.parametrize("shift", [0.04, 0.5, 3.0])
def test_skill_and_calibration_of_a_reward_model(known, split, shift):
    weight = np.arange(N) % 3 + 1.0
    d, view = world()
    r = d["r"]
    off = weight @ (r - view.decisions.q) / weight.sum()
    d, view = world(q=off - shift * r.std(), known=known, split=split, weight=weight)
    q = view.decisions.q
    mean = weight @ r / weight.sum()
    r2 = 1 - weight @ (r - q) ** 2 / (weight @ (r - mean) ** 2)
    residual = weight @ (r - q) / weight.sum()
    error = math.sqrt(weight**2 @ (r - q - residual) ** 2) / weight.sum()
    where = "out of fold" if split == "crossfit" else "on the rows it was fitted on"
    skill, calibration = several(view, "reward_model_r2", "reward_model_calibration")
    assert skill.value == pytest.approx(r2)
    assert skill.sentence == f"the reward model explains {100 * r2:.3g}% of the variance {where}" + (
        " (worse than predicting the mean)." if r2 < 0 else "."
    )
    assert skill.level == ("note" if r2 < -0.01 else "ok")
    z = abs(residual / error)
    usual = math.sqrt(view.estimate(r).variance)
    material = abs(residual) > 0.05 * usual
    assert material == (shift > 0.05)
    assert calibration.value == pytest.approx(z if material else 0.0)
    assert calibration.sentence == (f"rewards exceed predictions by {residual:.3g} on average (z = {z:.2g}) {where}.")
    assert calibration.details["mean_residual"] == pytest.approx(residual)
    assert calibration.details["z"] == pytest.approx(z)
    level = "alarm" if z > 8 else "caution" if z > 4 else "ok"
    level = level if material else "ok"
    assert calibration.level == ("note" if known and level != "ok" else level)
    assert calibration.remedy == ("" if level == "ok" else MODEL)
    assert sum(row["mass"] for row in calibration.details["bins"]) == pytest.approx(weight.sum())


def test_where_there_is_no_skill_to_judge():
    d = drawn(2, N)
    plain = view_of(np.full((N, 3), 1 / 3), d["p"], d["a"], d["r"])
    for f in several(plain, "reward_model_r2", "reward_model_calibration"):
        assert (f.ran, f.sentence) == (False, "no estimate needed a reward model.")
    same = view_of(np.full((N, 3), 1 / 3), d["p"], d["a"], np.full(N, 0.1), q=np.full(N, 0.1), v=np.full(N, 0.1))
    assert [f.sentence for f in several(same, "reward_model_r2", "reward_model_calibration")] == [
        "rewards do not vary."
    ] * 2
    assert math.isnan(models.skill(np.ones(3), np.zeros(3), np.ones(3)))
    r, q, m = np.array([0.0, 1.0, 4.0]), np.array([0.5, 0.5, 3.0]), np.array([1.0, 2.0, 1.0])
    assert models.skill(r, q, m) == pytest.approx(1 - (0.25 + 2 * 0.25 + 1) / (1.5**2 + 2 * 0.25 + 2.5**2))


def test_bins_of_equal_mass():
    predicted = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8])
    reward = np.arange(8.0)
    rows = models.reliability(reward, predicted, np.ones(8), bins=4)
    assert [row["mass"] for row in rows] == [2.0] * 4
    assert [row["predicted"] for row in rows] == pytest.approx([0.15, 0.35, 0.55, 0.75])
    assert [row["observed"] for row in rows] == pytest.approx([0.5, 2.5, 4.5, 6.5])
    uneven = models.reliability(reward, predicted, np.array([10.0, 1, 1, 1, 1, 1, 1, 1]), bins=2)
    # The middle of the first lies at 5 of 17, all others above one half.
    assert [row["mass"] for row in uneven] == [10.0, 7.0]
    ties = models.reliability(reward, np.array([0.5] * 6 + [0.7] * 2), np.ones(8))
    assert [row["mass"] for row in ties] == [6.0, 2.0]
    assert ties[0]["observed"] == pytest.approx(2.5)
    counted = models.reliability(np.array([1.0, 0.0]), np.array([0.2, 0.9]), np.array([3.0, 5.0]))
    assert [(row["predicted"], row["observed"]) for row in counted] == [
        (pytest.approx(0.2), 1.0),
        (pytest.approx(0.9), 0.0),
    ]
    assert len(models.reliability(np.arange(100.0), np.arange(100.0), np.ones(100))) == 10


# -- variance ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_efficiency_ratio_by_a_loop(binary, weighted):
    d = drawn(3, N)
    r = (np.arange(N) % 3 == 0) * 1.0 if binary else d["r"]
    q, v = np.clip(0.3 + 0.2 * d["x"], -0.1, 1.1), 0.3 + 0.1 * d["x"]
    weight = np.arange(N) % 2 + 1.0 if weighted else np.ones(N)
    pi = np.full((N, 3), [0.5, 0.3, 0.2])
    view = view_of(pi, d["p"], d["a"], r, q=q, v=v, weight=weight if weighted else None)
    w = pi[np.arange(N), d["a"]] / d["p"]
    inside = np.clip(q, 0, 1)
    noise = inside * (1 - inside) if binary else (r - q) ** 2
    psi = w * (r - q) + v
    mean = weight @ psi / weight.sum()
    variance = weight**2 @ (psi - mean) ** 2 / (weight**2).sum()
    center = weight @ v / weight.sum()
    bound = weight**2 @ ((v - center) ** 2 + w**2 * noise) / (weight**2).sum()
    found = checked("efficiency_ratio", view)
    assert found.value == pytest.approx(variance / bound)
    assert found.details == {"variance": pytest.approx(variance), "bound": pytest.approx(bound)}
    assert found.sentence == (
        f"the variance of the doubly robust score is {variance / bound:.3g} times the estimated efficiency bound."
    )
    if not weighted:
        assert models.efficiency_bound(view.decisions) == pytest.approx(bound)


def rates(q, successes, n=400, ratio=1.0):
    """0/1 rewards, of which some are 1, and a model that says q."""
    r = (np.arange(n) < successes) * 1.0
    return view_of(np.full((n, 2), 0.5), np.full(n, 0.5), np.arange(n) % 2, r, q=np.full(n, q), v=np.full(n, q),
                   ratio=np.full(n, ratio))  # fmt: skip


def test_no_score_can_beat_the_bound():
    view = rates(0.2, 12)
    gap = 12 * 0.8**2 + 388 * 0.2**2 - 400 * 0.16
    sure = gap < -4 * math.sqrt(400 * 0.16 * 0.6**2)
    assert sure
    found = checked("efficiency_ratio", view)
    assert (found.level, found.remedy) == ("caution", OVERLAP)
    assert found.sentence.endswith(" No score can be below 1, so the standard error is too small.")
    assert found.value < 0.5
    assert models._surely_less_noise(view)
    assert not models._surely_less_noise(rates(0.2, 60))
    # At 48 successes the gap is the bound itself, and rounding decides.
    counts = [s for s in range(80) if s != 48]
    near = [s for s in counts if models._surely_less_noise(rates(0.2, s))]
    gaps = [s for s in counts if s * 0.64 + (400 - s) * 0.04 - 64 < -4 * math.sqrt(64 * 0.36)]
    assert near == gaps
    assert not models._surely_less_noise(rates(0.5, 0))  # nothing varies: nothing is known
    numbers = view_of(np.full((4, 2), 0.5), np.full(4, 0.5), [0, 1, 0, 1], np.arange(4.0), q=np.ones(4), v=np.ones(4))
    assert not models._surely_less_noise(numbers)
    counted = view_of(np.full((2, 2), 0.5), np.full(2, 0.5), [0, 1], [1.0, 0.0], q=[0.2, 0.2], v=[0.2, 0.2],
                      count=[12.0, 388.0])  # fmt: skip
    assert models._surely_less_noise(counted)
    calm = checked("efficiency_ratio", rates(0.2, 60))
    assert (calm.level, calm.value < 1) == ("ok", True)


def test_where_variances_cannot_be_compared():
    d = drawn(2, N)
    plain = view_of(np.full((N, 3), 1 / 3), d["p"], d["a"], d["r"])
    assert checked("efficiency_ratio", plain).sentence == "no estimate needed a reward model."
    none = view_of(np.full((N, 3), 1 / 3), d["p"], d["a"], d["r"], q=d["r"], v=d["r"], ratio=np.zeros(N))
    assert checked("efficiency_ratio", none).sentence == "there is no overlap to compare variances on."
    exact = view_of(np.full((N, 3), 1 / 3), d["p"], d["a"], d["r"], q=d["r"], v=np.ones(N))
    assert checked("efficiency_ratio", exact).sentence == (
        "the estimated bound is 0 because the model predicts without error."
    )


# -- behavior ----------------------------------------------------------------------------------------------------


def losses(a, p, k, batch, m):
    """Log-loss of propensities and of the shares of actions in each batch."""
    shares = np.array([
        m[(a == a[i]) & (batch == batch[i])].sum() / m[batch == batch[i]].sum() for i in range(len(a))
    ])  # fmt: skip
    return -m @ np.log(p) / m.sum(), -m @ np.log(shares) / m.sum(), np.log(shares) - np.log(p)


@pytest.mark.parametrize("case", ["right", "wrong", "batches", "little", "weighted"])
@pytest.mark.parametrize("known", [True, False])
def test_log_loss_of_the_logged_actions(case, known):
    d = drawn(6, N)
    a, p, k = d["a"], d["p"], 3
    batch, m = np.zeros(N, int), np.ones(N)
    roles = {}
    if case == "wrong":
        p = d["whole"][np.arange(N), (a + 1) % 3]
    if case == "little":  # a little worse than shares
        p = np.full(N, 1 / 3) * 0.97
    if case == "batches":
        batch = np.arange(N) // 50
        a, p = batch % 3, np.full(N, 1 / 3)
        roles = {"batch": batch}
    if case == "weighted":
        m = np.arange(N) % 2 + 1.0
        roles = {"weight": m}
        p = d["whole"][np.arange(N), (a + 1) % 3]
    view = view_of(np.full((N, 3), 1 / 3), p, a, d["r"], known=known, **roles)
    loss, plain, gap = losses(a, p, k, batch, m)
    mean = m @ gap / m.sum()
    error = math.sqrt(m**2 @ (gap - mean) ** 2) / m.sum()
    z = (mean / error if error > 1e-12 else math.inf) if loss > plain + 1e-9 else 0.0
    used = 2 * len(set(batch)) / min(m.sum(), N)
    worse = loss - plain > (0.01 if known else 0.05) + used
    found = checked("behavior_log_loss", view)
    assert found.value == pytest.approx(loss)
    assert found.details == {"shares": pytest.approx(plain), "z": pytest.approx(z)}
    sentence = f"π_b predicts the logged actions with log-loss {loss:.4g}; plain shares of actions have {plain:.4g}"
    contradicts = worse and z > 4
    sentence += f", which contradicts these propensities (z = {z:.2g})." if contradicts else "."
    assert found.sentence == sentence
    assert found.level == ("ok" if not worse or z <= 4 else "caution" if z <= 6 else "alarm")
    assert found.remedy == ("" if found.level == "ok" else CHECKS["behavior_log_loss"].limits.remedy)
    assert contradicts == (case in {"wrong", "weighted", "batches"} or (case == "little" and known))


def test_rows_of_probability_0():
    raised = np.zeros(N, bool)
    raised[[3, 50, 77]] = True
    count = np.arange(N) % 2 + 1.0
    pi = np.full((N, 3), 1 / 3)
    pi[77] = 0.0
    d = drawn(6, N)
    view = view_of(pi, d["p"], d["a"], d["r"], known=False, raised=raised, count=count)
    found = checked("floored", view)
    number, total = count[3] + count[50], count.sum() - count[77]
    assert found.value == pytest.approx(number / total)
    assert found.details == {"rows": number}
    assert found.sentence == (
        f"{number:,.0f} rows ({100 * number / total:.2g}%) have an action with fitted probability "
        "0, which was replaced by 1 / (n + K)."
    )
    assert found.remedy == CHECKS["floored"].limits.remedy
    none = checked("floored", replace(view, problem=view_of(pi, d["p"], d["a"], d["r"], known=False).problem))
    assert (none.value, none.sentence) == (0.0, "no action of the policy has a fitted probability of 0.")
    logged = checked("floored", view_of(pi, d["p"], d["a"], d["r"]))
    assert (logged.value, logged.sentence) == (0.0, "logged propensities are used unchanged.")


def test_a_model_that_is_sure():
    p = np.r_[np.full(30, 0.999), np.full(10, 0.99), np.full(60, 0.5)]
    weight = np.r_[np.full(30, 2.0), np.ones(70)]
    view = view_of(np.full((100, 2), 0.5), p, np.arange(100) % 2, np.zeros(100), known=False, weight=weight)
    found = checked("deterministic_logging", view)
    assert found.value == pytest.approx(60 / 130)
    assert found.sentence == "the behavior model is more than 99% sure of the action in 46.2% of rows."
    assert "deterministic_logging" in by_name(of_models(view))
    known = view_of(np.full((100, 2), 0.5), p, np.arange(100) % 2, np.zeros(100))
    assert "deterministic_logging" not in by_name(of_models(known))
