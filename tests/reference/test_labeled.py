"""Rewards seen in part: laws that hold to the digit, whatever the data."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.tree import DecisionTreeRegressor

import offpolicy as op

NAMES = ["DM", "IPW", "SNIPW", "DR-full", "DR-half", "DML", "SNDR", "auto"]


def world(seed=0, n=600, share=0.3, binary=False):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    p = 1 / (1 + np.exp(-x))
    action = rng.binomial(1, p)
    mean = 0.3 * x + 0.5 * action
    reward = rng.binomial(1, 1 / (1 + np.exp(-mean))) if binary else mean + rng.normal(size=n)
    judge = reward + rng.normal(size=n)
    labeled = rng.random(n) < share
    return pd.DataFrame(
        {
            "x": x,
            "action": np.where(action == 1, "new", "old"),
            "p": np.where(action == 1, p, 1 - p),
            "truth": reward.astype(float),
            "judge": judge,
            "label": np.where(labeled, reward, np.nan),
            "p_label": share,
            "fold": rng.integers(3, size=n),
        }
    )


def log_of(frame, reward="label", outcome=None, **more):
    return op.BanditLog.from_frame(
        frame, context=["x"], action="action", reward=reward, propensity="p", outcome=outcome, **more
    )


def policy(context):
    return np.where(context["x"] > 0, "new", "old")


def scores(log, names=NAMES, **more):
    ev = op.evaluate(log, {"p": policy, "new": op.policies.Fixed("new")}, estimators=names, **more)
    return {key: e.psi for key, e in ev.estimates.items()}


def same(left, right):
    assert left.keys() == right.keys()
    for key in left:
        np.testing.assert_allclose(left[key], right[key], rtol=0, atol=1e-9, err_msg=str(key))


@pytest.mark.parametrize("probability", [None, 1.0, "p_label"])
@pytest.mark.parametrize("repeats", [1, 2])
def test_with_every_reward_seen_it_is_the_plain_estimator(probability, repeats):
    frame = world()
    seen = op.Labeled(proxies=["judge"], probability=probability)
    same(scores(log_of(frame, "truth", seen), repeats=repeats), scores(log_of(frame, "truth"), repeats=repeats))


@pytest.mark.parametrize("folds", [2, 3])
def test_a_judge_that_is_the_reward_gives_the_score_of_all_labels(folds):
    frame = world().assign(judge=lambda f: f["truth"])
    outcome = op.Labeled(proxies=["judge"], probability="p_label", model="given")
    same(scores(log_of(frame, outcome=outcome), folds=folds), scores(log_of(frame, "truth"), folds=folds))


def loop(frame, target, proxies=(), labels=None):
    """The estimator for rewards missing at random, fold by fold, as one would write it down."""
    folds = frame["fold"].to_numpy() if labels is None else labels
    seen = frame["label"].notna().to_numpy()
    e = frame["p_label"].to_numpy()
    one = (frame["action"] == "new").to_numpy().astype(float)
    x = frame["x"].to_numpy()
    s = np.column_stack([x, one])
    r = np.where(seen, frame["label"], 0.0)
    go = np.where(target == "new", 1.0, 0.0)
    psi = np.empty(len(frame))
    for k in np.unique(folds):
        rest, own = folds != k, folds == k
        m = LinearRegression().fit(s[rest & seen], r[rest & seen]).predict(s)
        made = m + np.where(seen, (r - m) / e, 0.0)
        q = LinearRegression().fit(s[rest], made[rest])
        v = q.predict(np.column_stack([x, go]))
        w = (one == go) / frame["p"].to_numpy()
        psi[own] = (v + w * (made - q.predict(s)))[own]
    return psi


def test_without_proxies_it_is_the_plain_loop_for_rewards_missing_at_random():
    frame = world()
    log = log_of(frame, outcome=op.Labeled(probability="p_label"), fold="fold")
    ev = op.evaluate(log, {"p": policy}, estimators=["DML"], reward_model=LinearRegression())
    np.testing.assert_allclose(ev["DML"].psi[0], loop(frame, policy(frame)), rtol=0, atol=1e-9)


def test_no_fold_learns_from_itself():
    """Rewards, labels and judges of a fold may change at will: what its q learns from stays."""
    frame = world()
    other = frame.copy()
    own = frame["fold"] == 0
    other.loc[own, "label"] = np.where(frame.loc[own, "label"].isna(), 9.0, np.nan)
    other.loc[own, "judge"] = -7.0
    learned = []
    for each in (frame, other):
        outcome = op.Labeled(proxies=["judge"])
        log = log_of(each, outcome=outcome, fold="fold")
        ev = op.evaluate(log, policy, estimators=["DML"], reward_model=DecisionTreeRegressor())
        settled = ev.problem.log.outcomes["label"]
        part = ev.problem.folds.parts("crossfit", 0)[0]
        fit = settled.fit(part.training, part.key)
        learned.append(fit.parts[:2, part.training])
    np.testing.assert_array_equal(*learned)


def test_rows_may_be_taken_and_put_in_the_order_of_their_ids():
    frame = world().assign(id=lambda f: f.index)
    outcome = op.Labeled(proxies=["judge"], probability="p_label")
    shuffled = frame.sample(frac=1, random_state=1)
    same(
        scores(log_of(frame, outcome=outcome, id="id"), ["DML"]),
        scores(log_of(shuffled, outcome=outcome, id="id").take(np.arange(600)), ["DML"]),
    )


def test_one_metric_is_labeled_and_another_is_seen():
    frame = world().assign(cost=lambda f: np.where(f["action"] == "new", 2.0, 1.0) + f["x"] ** 2)
    outcome = op.Labeled(proxies=["judge"], probability="p_label")
    both = op.BanditLog.from_frame(
        frame, context=["x"], action="action", reward=["cost", "label"], propensity="p",
        outcome={"label": outcome},
    )  # fmt: skip
    ev = op.evaluate(both, policy, estimators=["DML"])
    alone = op.evaluate(log_of(frame, outcome=outcome), policy, estimators=["DML"])
    np.testing.assert_allclose(ev.metric("label")["DML"].psi, alone["DML"].psi, atol=1e-9)
    cost = op.evaluate(log_of(frame, "cost"), policy, estimators=["DML"])
    np.testing.assert_allclose(ev["DML"].psi, cost["DML"].psi, atol=1e-9)
    margin = ev.combine({"label": 2.0, "cost": -1.0})
    np.testing.assert_allclose(margin["DML"].psi, 2 * alone["DML"].psi - cost["DML"].psi, atol=1e-9)
