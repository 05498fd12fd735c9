"""Weights and overlap against closed forms and plain loops."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

import offpolicy as op
from offpolicy.trust.check import CHECKS
from offpolicy.trust.confounding import Sensitivity, breaking_point
from offpolicy.trust.moments import adjusted_z, normal_from_student, symmetric
from offpolicy.trust.overlap import top_share

PROMISED = [
    "mean_weight",
    "mean_weight_z",
    "effective_sample_size",
    "largest_weight",
    "largest_weight_share",
    "unsupported_mass",
    "pareto_k",
    "top_share",
    "reward_model_r2",
    "behavior_log_loss",
    "floored",
    "efficiency_ratio",
    "sample_ratio_mismatch",
    "rounded_propensities",
    "propensity_calibration",
    "deterministic_logging",
    "duplicates",
    "reward_maturity",
    "batch_drift",
    "estimator_disagreement",
    "clipping_sensitivity",
    "confounding",
]

RNG = np.random.default_rng(5)
K = 3
X = RNG.integers(4, size=600)
P = RNG.dirichlet(np.full(K, 4.0), size=4)
A = np.array([RNG.choice(K, p=P[s]) for s in X])
R = (RNG.random(600) < 0.2 + 0.2 * (X % K == A)).astype(float)
PI = RNG.dirichlet(np.full(K, 3.0), size=4)


def target(x):
    return PI[np.asarray(x).ravel()]


def diagnosed(log, policy=target, **options):
    options.setdefault("estimators", ["IPW", "SNIPW"])
    return op.evaluate(log, policy, **options).diagnostics


@pytest.fixture(scope="module")
def found():
    return diagnosed(op.BanditLog.from_arrays(X, A, R, P[X, A]))


W = PI[X, A] / P[X, A]


def test_plain_numbers(found):
    n = len(W)
    assert float(found["mean_weight"]) == pytest.approx(W.mean())
    z, off = (W.mean() - 1) / (W.std() / np.sqrt(n)), W - W.mean()
    skewed = symmetric(z, (off**3).sum() / (off**2).sum() ** 1.5)
    assert float(found["mean_weight_z"]) == pytest.approx(normal_from_student(skewed, n))
    assert float(found["effective_sample_size"]) == pytest.approx(W.sum() ** 2 / (W**2).sum())
    assert float(found["largest_weight"]) == pytest.approx(W.max())
    assert float(found["largest_weight_share"]) == pytest.approx(W.max() / W.sum())
    size = W.sum() ** 2 / (W**2).sum()
    assert float(found["top_unit_share"]) == pytest.approx(1 / (R.mean() * size))


def test_amounts_on_one_unit_are_those_that_were_paid():
    amounts = R * (1 + RNG.random(600))
    found = diagnosed(op.BanditLog.from_arrays(X, A, amounts, P[X, A]))
    carried = W * amounts
    assert float(found["top_unit_share"]) == pytest.approx(carried.max() / carried.sum())


def test_rows_that_were_kept_rarely_carry_no_rewards():
    """Clicks are kept, one in ten of the others: a hundred clicks are a hundred, whatever the others stand for."""
    clicks = np.repeat([1.0, 0.0], [100, 900])
    log = op.BanditLog.from_arrays(
        None, np.arange(1000) % 2, clicks, np.full(1000, 0.5), keep_probability=np.where(clicks, 1, 0.1)
    )
    ev = op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW"])
    assert ev.diagnostics["top_unit_share"].value == pytest.approx(1 / 50)


def test_a_lucky_policy_is_not_trusted_for_its_luck():
    """Ten clicks in the whole log: whether one or all of them fell to the policy, as much is known about it."""
    n = 1000
    action = np.arange(n) % 2
    levels = []
    for lucky in (0, 1, 5, 10):
        clicks = np.zeros(n)
        clicks[1 : 2 * lucky : 2] = 1  # shown what the policy would
        clicks[0 : 2 * (10 - lucky) : 2] = 1
        log = op.BanditLog.from_arrays(None, action, clicks, np.full(n, 0.5))
        ev = op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW"])
        finding = ev.diagnostics["top_unit_share"]
        assert finding.value == pytest.approx(1 / (0.01 * 500))
        levels.append((finding.level, ev.verdict().level))
    assert len(set(levels)) == 1


def test_three_ways_to_the_same_finding(found):
    by_pair = found["policy", "effective_sample_size"]
    assert by_pair is found["policy"]["effective_sample_size"]
    assert by_pair is found["effective_sample_size"]
    assert found["sample_ratio_mismatch"].name == "sample_ratio_mismatch"
    with pytest.raises(KeyError, match="effective_sample_size"):
        found["effective_sample_sise"]
    several = diagnosed(op.BanditLog.from_arrays(X, A, R, P[X, A]), {"a": target, "b": op.policies.Uniform()})
    with pytest.raises(KeyError, match="name the policy"):
        several["effective_sample_size"]
    assert several["duplicates"].name == "duplicates"
    assert several["b", "effective_sample_size"].value != several["a", "effective_sample_size"].value


def test_every_promised_name_is_there_and_printable():
    log = op.BanditLog.from_arrays(X, A, R, P[X, A], batch=np.arange(600) // 100)
    d = op.evaluate(log, target).diagnostics
    names = PROMISED
    text = str(d)
    for name in names:
        assert d[name].level in {"ok", "note", "caution", "alarm"}
        assert d[name].sentence.endswith(".")
        assert f"{CHECKS[name].listed}: " in text
    assert {statistic["name"] for row in d.rows() for statistic in row["statistics"]} >= set(names)
    assert {f["name"] for f in d.rows()} <= {check.listed for check in CHECKS.values()}


def test_there_are_at_most_thirty_names():
    listed = {check.listed for check in CHECKS.values()}
    assert len(listed) <= 30
    ev = op.evaluate(op.BanditLog.from_arrays(X, A, R, P[X, A]), target)
    assert set(ev.diagnostics["policy"]) <= listed
    for name, finding in ev.diagnostics["policy"].items():
        assert {CHECKS[s.name].listed for s in finding.statistics} == {name}
        assert finding.speaker in finding.statistics


def test_weights_by_action_equal_a_loop(found):
    z = found["mean_weight_by_action"].details["z"]
    for a in range(K):
        terms = (a == A) * W - PI[X, a]
        exact = terms.sum() / np.sqrt((terms**2).sum())
        # The spread may only be raised, where few of an action's weights were seen.
        assert np.sign(z[a]) == np.sign(exact)
        assert abs(z[a]) <= abs(exact) * (1 + 1e-9)
    terms = np.array([((a == A) * W - PI[X, a]) for a in range(K)])
    assert max(abs(v) for v in z.values()) > 0.5 * np.abs(terms.sum(axis=1) / np.sqrt((terms**2).sum(axis=1))).max()


def test_top_share_counts_positive_weights_only():
    w = np.array([0.0] * 900 + [1.0] * 99 + [101.0])
    assert top_share(w, np.ones(1000)) == pytest.approx(101 / 200)
    assert top_share(np.ones(50), np.ones(50)) == pytest.approx(0.01)
    assert math.isnan(top_share(np.zeros(5), np.ones(5)))


def test_adjusted_z_is_bonferroni():
    from scipy import stats

    p = 2 * stats.norm.sf(3.2) * 20
    assert adjusted_z(-3.2, 20) == pytest.approx(stats.norm.isf(p / 2))


def test_counts_are_repeated_rows():
    count = RNG.integers(1, 5, size=600)
    again = np.repeat(np.arange(600), count)
    fold, batch = np.arange(600) % 2, np.arange(600) // 150
    small = op.BanditLog.from_arrays(X, A, R, P[X, A], count=count, fold=fold, batch=batch)
    large = op.BanditLog.from_arrays(X[again], A[again], R[again], P[X, A][again], fold=fold[again], batch=batch[again])
    q = np.broadcast_to(np.array([0.2, 0.3, 0.25]), (600, K)).copy()
    one = diagnosed(small, reward_model=q, estimators=["DML", "SNIPW"])["policy"]
    two = diagnosed(large, reward_model=q[again], estimators=["DML", "SNIPW"])["policy"]
    for name, finding in one.items():
        if name == "duplicates":
            continue
        assert finding.value == pytest.approx(two[name].value, nan_ok=True, rel=1e-9), name


def test_clusters_of_identical_rows_leave_the_effective_size():
    cluster = np.repeat(np.arange(600), 2)
    double = op.BanditLog.from_arrays(
        np.repeat(X, 2), np.repeat(A, 2), np.repeat(R, 2), np.repeat(P[X, A], 2), cluster=cluster
    )
    single = diagnosed(op.BanditLog.from_arrays(X, A, R, P[X, A]))
    found = diagnosed(double)
    for name in ("effective_sample_size", "mean_weight_z", "mean_weight"):
        assert float(found[name]) == pytest.approx(float(single[name]))


def test_analysis_weights_enter_the_means():
    weight = RNG.uniform(0.5, 2, size=600)
    d = diagnosed(op.BanditLog.from_arrays(X, A, R, P[X, A], weight=weight))
    assert float(d["mean_weight"]) == pytest.approx(np.average(W, weights=weight))
    product = W * weight
    assert float(d["effective_sample_size"]) == pytest.approx(product.sum() ** 2 / (product**2).sum())


# -- overlap ---------------------------------------------------------------------------------------


def test_unsupported_mass_is_exact_with_the_whole_distribution():
    whole = np.where(np.arange(K) == 2, 0.0, 0.5)[None, :].repeat(600, axis=0)
    whole[:300] = 1 / K
    rng = np.random.default_rng(0)
    action = np.array([rng.choice(K, p=p) for p in whole])
    policy = np.tile([0.1, 0.2, 0.7], (600, 1))
    d = diagnosed(op.BanditLog.from_arrays(X, action, R, whole), policy)
    assert float(d["unsupported_mass"]) == pytest.approx(0.35)
    assert d["unsupported_mass"].level == "alarm"


def test_actions_never_logged_are_unsupported():
    log = op.BanditLog.from_arrays(X, A, R, P[X, A], actions=range(4))
    d = diagnosed(log, np.tile([0.4, 0.2, 0.2, 0.2], (600, 1)))
    assert float(d["unsupported_mass"]) == pytest.approx(0.2)
    assert "never logged" in d["unsupported_mass"].sentence


def test_a_shortfall_of_the_mean_weight_is_unsupported_mass():
    # In context 0 only action 0 is ever taken, with propensity 1; the target never takes it there.
    x = np.arange(2000) % 2
    rng = np.random.default_rng(1)
    a = np.where(x == 0, 0, rng.integers(2, size=2000))
    log = op.BanditLog.from_arrays(x, a, rng.random(2000), np.where(x == 0, 1.0, 0.5))
    d = diagnosed(log, op.policies.Fixed(1))
    assert float(d["unsupported_mass"]) == pytest.approx(0.5, abs=0.05)
    assert d["unsupported_mass"].level == "alarm"
    assert d["deterministic_logging"].value == pytest.approx(0.5)


def test_no_overlap_at_all():
    log = op.BanditLog.from_arrays(None, [0] * 50, [1.0] * 50, [0.5] * 50, actions=[0, 1])
    d = diagnosed(log, op.policies.Fixed(1))
    assert float(d["unsupported_mass"]) == 1
    assert float(d["effective_sample_size"]) == 0
    assert d["mean_weight"].level == "alarm"
    assert "no overlap" in d["unsupported_mass"].sentence


def test_full_overlap_is_well():
    d = diagnosed(op.BanditLog.from_arrays(X, A, R, P[X]))
    assert float(d["unsupported_mass"]) == 0
    assert d["largest_weight"].details["largest_possible"] == pytest.approx((PI / P).max())


# -- confounding -----------------------------------------------------------------------------------


class OneStep:
    """What a bound looks at: single decisions with a reward model that is right."""

    has_model = True

    def __init__(self, reward, pi_e, pi_b, q, v):
        ratio = pi_e / pi_b
        self.decisions = SimpleNamespace(reward=reward, pi_e=pi_e, pi_b=pi_b, q=q, v=v, ratio=ratio)
        self.mass = np.ones(len(reward))
        self.weight = ratio

    def estimate(self, psi):
        return op.Estimate.from_scores(psi)


@pytest.mark.parametrize("gamma", [1.0, 1.3, 2.5])
def test_bounds_of_binary_rewards_are_the_sharp_ones(gamma):
    rng = np.random.default_rng(3)
    n, e, mu = 400_000, 0.3, np.array([0.1, 0.7])
    x = rng.integers(2, size=n)
    took = rng.random(n) < e
    reward = (rng.random(n) < mu[x]).astype(float)
    pi_b = np.where(took, e, 1 - e)
    view = OneStep(reward, took.astype(float), pi_b, mu[x], mu[x])
    # An unseen reward is 1 with odds ratios in [1/Γ, Γ] to a seen one: the ends of that, by hand.
    top = np.minimum(gamma * mu, 1 - (1 - mu) / gamma)
    bottom = np.maximum(mu / gamma, 1 - gamma * (1 - mu))
    high, low = ((e * mu + (1 - e) * end).mean() for end in (top, bottom))
    bounds = Sensitivity.of(view)
    assert bounds.bound(gamma).value == pytest.approx(high, abs=4 * bounds.bound(gamma).std_error)
    assert bounds.bound(1 / gamma).value == pytest.approx(low, abs=4 * bounds.bound(gamma).std_error)
    ends = bounds.ends(gamma)
    assert ends[0] < bounds.bound(1 / gamma).value <= bounds.bound(gamma).value < ends[1]


def test_breaking_point_is_where_the_interval_meets_no_difference():
    rng = np.random.default_rng(3)
    n = 20_000
    took = rng.random(n) < 0.5
    reward = (rng.random(n) < np.where(took, 0.6, 0.3)).astype(float)
    half = np.full(n, 0.5)
    view = OneStep(reward, took.astype(float), half, np.where(took, 0.6, 0.3), np.full(n, 0.6))
    bounds = Sensitivity.of(view)
    gamma = breaking_point(bounds)
    assert 1.5 < gamma < 4
    assert bounds.difference(gamma / 1.02)[0] > 0 >= bounds.difference(gamma * 1.02)[0]


def test_logged_propensities_leave_no_room_for_confounding():
    known = diagnosed(op.BanditLog.from_arrays(X, A, R, P[X, A]))["confounding"]
    assert known.level == "ok"
    assert "logged" in known.sentence
    fitted = diagnosed(op.BanditLog.from_arrays(X, A, R), behavior_model="shares")["confounding"]
    assert "unobserved" in fitted.sentence


def test_rewards_without_a_variance_are_a_caution():
    rng = np.random.default_rng(0)
    n = 5_000
    action = rng.integers(2, size=n)
    for noise, heavy in ((rng.standard_t(1.3, size=n), True), (rng.normal(size=n), False)):
        log = op.BanditLog.from_arrays(None, action, action + noise, np.full(n, 0.5))
        ev = op.evaluate(log, op.policies.Fixed(1), estimators=["DML"])
        assert (ev.diagnostics["policy"]["reward_tail"].level != "ok") == heavy
        named = any("tail of the rewards" in reason for reason in ev.verdict().reasons)
        assert named == heavy
        assert (ev.verdict().level == "trust") != heavy


def test_a_remedy_for_fitted_propensities_does_not_speak_of_a_column():
    rng = np.random.default_rng(4)
    context = rng.normal(size=(4000, 1))
    action = (rng.random(4000) < 1 / (1 + np.exp(-3 * context[:, 0] ** 2 + 2))).astype(int)
    log = op.BanditLog.from_arrays(context, action, rng.random(4000))
    target = np.tile([0.5, 0.5], (4000, 1))
    shares = op.evaluate(log, target, behavior_model="shares", estimators=["IPW"])
    wrong = np.tile([0.8, 0.2], (4000, 1))
    fitted = op.evaluate(log, target, behavior_model=wrong, estimators=["IPW"])
    assert shares.diagnostics["policy"]["mean_weight"].remedy == ""
    remedy = fitted.diagnostics["policy"]["mean_weight"].remedy
    assert "propensity column" not in remedy
    assert "behavior_model=" in remedy
