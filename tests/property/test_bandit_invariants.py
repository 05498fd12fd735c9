"""Invariants that hold whatever the log: identities of the estimators, and changes that must not matter."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression

from offpolicy import BanditLog, evaluate
from offpolicy.models import PerAction

SETTINGS = settings(max_examples=30, deadline=None)
FITTED = settings(max_examples=10, deadline=None)
NAMES = ["DM", "IPW", "SNIPW", "DR-full", "DML", "SNDR", "SNDR-cf", "SWITCH", "DRos"]


@st.composite
def worlds(draw, least=6, most=60):
    """A log with its whole truth: propensities, a target, a reward model, folds."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, k = draw(st.integers(least, most)), draw(st.integers(2, 5))
    pi_b = rng.dirichlet(np.full(k, draw(st.sampled_from([0.7, 2.0, 20.0]))), size=n) + 1e-3
    pi_b /= pi_b.sum(axis=1, keepdims=True)
    action = (rng.random((n, 1)) > pi_b.cumsum(axis=1)).sum(axis=1).clip(max=k - 1)
    folds = rng.permutation(n) % 2
    return {
        "x": rng.normal(size=(n, 2)),
        "pi_b": pi_b,
        "pi_e": rng.dirichlet(np.ones(k), size=n),
        "action": action,
        "reward": rng.normal(size=n) * draw(st.sampled_from([0.1, 1.0, 100.0])),
        "q": rng.normal(size=(n, k)),
        "folds": folds,
        "rng": rng,
    }


def log_of(w, **parts):
    k = w["pi_b"].shape[1]
    known = {"propensity": w["pi_b"], "actions": range(k)}
    return BanditLog.from_arrays(w["x"], w["action"], w["reward"], **{**known, **parts})


def run(w, names=NAMES, log=None, target=None, **how):
    options = {"reward_model": w["q"], "folds": w["folds"], **how}
    return evaluate(
        log_of(w) if log is None else log, w["pi_e"] if target is None else target, estimators=names, **options
    )


def same(one, other, scale=1.0, shift=0.0):
    assert other.value == pytest.approx(scale * one.value + shift, rel=1e-7, abs=1e-8)
    assert other.std_error == pytest.approx(abs(scale) * one.std_error, rel=1e-6, abs=1e-8)


def rows(w, at):
    return {k: v if k == "rng" else v[at] for k, v in w.items()}


@SETTINGS
@given(worlds())
def test_the_logging_policy_is_worth_exactly_the_logged_mean(w):
    ev = run(w, ["IPW", "SNIPW", "IPW-cf", "SNIPW-cf"], target=w["pi_b"])
    r = w["reward"]
    for _, e in ev.estimates.items():
        assert e.value == pytest.approx(r.mean(), rel=1e-12, abs=1e-12)
        assert e.std_error == pytest.approx(r.std() / np.sqrt(len(r)), rel=1e-10)
        assert (e - ev.logged).std_error == pytest.approx(0, abs=1e-9)


@SETTINGS
@given(worlds())
def test_doubly_robust_of_the_logging_policy_needs_q_to_be_constant_to_be_the_mean(w):
    flat = np.full_like(w["q"], 3.0)
    e = run(w, ["DML"], target=w["pi_b"], reward_model=flat)["DML"]
    assert e.value == pytest.approx(w["reward"].mean(), rel=1e-9, abs=1e-9)


@SETTINGS
@given(worlds())
def test_a_reward_model_of_zero_is_inverse_probability_weighting(w):
    ev = run(w, ["IPW", "DML", "DR-full", "SNIPW", "SNDR"], reward_model=0 * w["q"])
    same(ev["IPW"], ev["DML"])
    same(ev["IPW"], ev["DR-full"])
    same(ev["SNIPW"], ev["SNDR"])


@SETTINGS
@given(worlds())
def test_a_perfect_reward_model_leaves_the_direct_score(w):
    exact = w["q"].copy()
    exact[np.arange(len(exact)), w["action"]] = w["reward"]
    ev = run(w, ["DM", "DML", "SNDR", "SWITCH", "DRos"], reward_model=exact)
    for name in ("DML", "SNDR", "SWITCH", "DRos"):
        same(ev["DM"], ev[name])


@SETTINGS
@given(worlds(), st.floats(0.01, 100), st.floats(-50, 50))
def test_rewards_may_be_shifted_and_scaled(w, scale, shift):
    names = ["DM", "SNIPW", "DR-full", "DML", "SNDR"]
    moved = {**w, "reward": scale * w["reward"] + shift, "q": scale * w["q"] + shift}
    before, after = run(w, names), run(moved, names)
    for name in names:
        same(before[name], after[name], scale, shift)
    plain = run({**w, "reward": scale * w["reward"]}, ["IPW"])
    same(run(w, ["IPW"])["IPW"], plain["IPW"], scale)


@SETTINGS
@given(worlds())
def test_the_order_of_rows_does_not_matter(w):
    order = w["rng"].permutation(len(w["reward"]))
    before, after = run(w), run(rows(w, order))
    for name in NAMES:
        same(before[name], after[name])


@FITTED
@given(worlds(least=40, most=80))
def test_the_order_of_rows_does_not_matter_to_fitted_models(w):
    order = w["rng"].permutation(len(w["reward"]))
    models = {"reward_model": LinearRegression(), "behavior_model": "shares"}
    same(run(w, ["DML"], **models)["DML"], run(rows(w, order), ["DML"], **models)["DML"])


@FITTED
@given(worlds(least=40, most=80))
def test_the_order_and_names_of_actions_do_not_matter(w):
    k = w["q"].shape[1]
    to = w["rng"].permutation(k)
    back = np.argsort(to)
    relabelled = {**w, "action": to[w["action"]], **{name: w[name][:, back] for name in ("pi_b", "pi_e", "q")}}
    before, after = run(w), run(relabelled)
    for name in NAMES:
        same(before[name], after[name])
    models = {"reward_model": PerAction(LinearRegression()), "behavior_model": "shares"}
    same(run(w, ["DML"], **models)["DML"], run(relabelled, ["DML"], **models)["DML"])


@FITTED
@given(worlds(least=40, most=80), st.integers(2, 4))
def test_the_names_of_folds_do_not_matter(w, k):
    labels = w["rng"].permutation(len(w["reward"])) % k
    names = np.array(["delta", "alpha", "charlie", "bravo"])
    models = {"reward_model": LinearRegression(), "behavior_model": "shares"}
    before = run(w, ["DML", "SNDR-cf"], folds=labels, **models)
    after = run(w, ["DML", "SNDR-cf"], folds=names[labels], **models)
    for name in ("DML", "SNDR-cf"):
        same(before[name], after[name])


@FITTED
@given(worlds(least=20, most=50), st.integers(2, 4))
def test_duplicates_inside_clusters_leave_the_standard_error_unchanged(w, copies):
    n = len(w["reward"])
    again = np.repeat(np.arange(n), copies)
    more = rows(w, again)
    clustered = log_of(more, cluster=again)
    before, after = run(w), run(more, log=clustered)
    for name in ["DM", "IPW", "SNIPW", "DR-full", "DML", "SNDR"]:
        same(before[name], after[name])
    models = {"reward_model": LinearRegression(), "behavior_model": "shares"}
    # Shares and least squares do not see copies; folds keep them together.
    same(run(w, ["DR-full"], **models)["DR-full"], run(more, ["DR-full"], log=clustered, **models)["DR-full"])


@SETTINGS
@given(worlds(), st.integers(2, 5))
def test_whole_weights_move_the_value_as_copies_do(w, most):
    n = len(w["reward"])
    copies = w["rng"].integers(1, most + 1, size=n)
    again = np.repeat(np.arange(n), copies)
    weighted = run(w, log=log_of(w, weight=copies * 1.0))
    repeated = run(rows(w, again))
    counted = run(w, log=log_of(w, count=copies))
    for name in ["DM", "IPW", "SNIPW", "DR-full", "DML", "SNDR"]:
        assert weighted[name].value == pytest.approx(repeated[name].value, rel=1e-8, abs=1e-9)
        same(repeated[name], counted[name])


@SETTINGS
@given(worlds())
def test_differences_and_mixtures_are_linear(w):
    k = w["q"].shape[1]
    other = 0.9 * np.eye(k)[w["rng"].integers(0, k, size=len(w["q"]))] + 0.1 / k
    half = (w["pi_e"] + other) / 2
    ev = run(w, ["DM", "IPW", "DML"], target={"a": w["pi_e"], "b": other, "half": half})
    for name in ("DM", "IPW", "DML"):
        a, b, mixed = (ev[p, name] for p in ("a", "b", "half"))
        assert mixed.value == pytest.approx((a.value + b.value) / 2, rel=1e-8, abs=1e-9)
        assert (a - b).value == pytest.approx(a.value - b.value, rel=1e-8, abs=1e-8)
        assert (a - b).std_error == pytest.approx((b - a).std_error, rel=1e-9, abs=1e-12)
        assert (a - b).std_error <= a.std_error + b.std_error + 1e-9


@SETTINGS
@given(worlds())
def test_self_normalised_values_stay_inside_the_rewards(w):
    e = run(w, ["SNIPW"])["SNIPW"]
    assert w["reward"].min() - 1e-9 <= e.value <= w["reward"].max() + 1e-9
