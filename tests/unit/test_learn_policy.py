"""Policies learned from a log: found, exported, and valued on rows they have not seen."""

from __future__ import annotations

import itertools
import json

import duckdb
import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyRegressor

import offpolicy as op
from offpolicy.cli import main
from offpolicy.decide.features import Feature, coded, learn_features
from offpolicy.decide.policies import TreePolicy, leaves
from offpolicy.decide.tree import Leaf, Search, choose
from offpolicy.errors import PolicyError, UsageError

N = 900


def shop(seed=0, n=N):
    """Phones want ad b when young, ad a when old; everyone else wants c."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, n).astype(float),
            "device": rng.choice(["phone", "tv", "tablet"], n),
            "ad": rng.choice(["a", "b", "c"], n),
        }
    )
    frame["p"] = 1 / 3
    frame["r"] = (frame.ad == best(frame)) + 0.5 * rng.normal(size=n)
    return frame


def best(frame):
    young = np.where(frame.age <= 40, "b", "a")
    return np.where(frame.device == "phone", young, "c")


def log_of(frame):
    return op.BanditLog.from_frame(frame, context=["age", "device"], action="ad", reward="r", propensity="p")


@pytest.fixture(scope="module")
def learned():
    return op.learn_policy(log_of(shop()), reward_model=op.models.PerAction(_mean()))


def _mean():
    from sklearn.dummy import DummyRegressor

    return DummyRegressor()


def test_a_tree_finds_the_rule(learned):
    fresh = shop(1)
    chosen = np.array(learned.policy.labels)[learned.policy.choices(fresh[["age", "device"]])]
    assert (chosen == best(fresh)).mean() > 0.95


def test_the_tree_is_told_in_words_sql_and_json(learned):
    fresh = shop(2)
    said = [row["action"] for row in learned.policy.table()]
    assert sorted(said) == ["a", "b", "c"]
    assert "device is phone" in str(learned.policy)
    by_sql = duckdb.sql(f"SELECT {learned.policy.to_sql()} FROM fresh").df()["action"].to_numpy()
    chosen = np.array(learned.policy.labels)[learned.policy.choices(fresh[["age", "device"]])]
    assert (by_sql == chosen).all()
    root = json.loads(learned.policy.to_json())
    assert {"column", "yes", "no"} <= set(root)


def test_a_tree_comes_back_from_json_and_answers_on_the_command_line(learned, tmp_path, capsys):
    fresh = shop(4, 400)
    odd = pd.DataFrame({"age": [np.nan, 20.0, np.nan], "device": ["phone", None, "fridge"]})
    again = TreePolicy.from_json(learned.policy.to_json()).bind(learned.policy.labels)
    for rows in (fresh[["age", "device"]], odd):
        assert (again.choices(rows) == learned.policy.choices(rows)).all()
    (tmp_path / "tree.json").write_text(learned.policy.to_json(), encoding="utf-8")
    fresh.to_csv(tmp_path / "log.csv", index=False)
    flags = ["--context", "age,device", "--action", "ad", "--reward", "r", "--propensity", "p", "--estimator", "IPW"]
    out = tmp_path / "result.json"
    question = ["--policy", f"tree={tmp_path / 'tree.json'}", "--json", str(out)]
    assert main(["evaluate", str(tmp_path / "log.csv"), *flags, *question]) == 0
    ev = op.evaluate(log_of(fresh), {"tree": learned}, estimators=["IPW"])
    found = json.loads(out.read_text("utf-8"))["estimates"]
    assert found[0]["value"] == pytest.approx(ev["tree", "IPW"].value, rel=1e-12)
    with pytest.raises(PolicyError, match="neither a leaf"):
        TreePolicy.from_json('{"column": "age"}')


def test_the_report_draws_the_tree(learned, tmp_path):
    text = learned.report(tmp_path / "learned.html").read_text("utf-8")
    drawing = text[text.index("<svg viewBox") :]
    drawing = drawing[: drawing.index("</svg>")]
    assert "device is phone?" in drawing
    assert drawing.count(" rows</text>") == len(learned.policy.table())
    assert "too optimistic" in text
    assert "WHEN &quot;device&quot;" in text


def test_sql_sends_missing_and_unseen_values_where_the_tree_does(learned):
    odd = pd.DataFrame({"age": [np.nan, 20.0, np.nan], "device": ["phone", None, "fridge"]})
    by_sql = duckdb.sql(f"SELECT {learned.policy.to_sql()} FROM odd").df()["action"].to_numpy()
    chosen = np.array(learned.policy.labels)[learned.policy.choices(odd)]
    assert (by_sql == chosen).all()


def test_a_learned_policy_can_be_evaluated_elsewhere(learned):
    ev = op.evaluate(log_of(shop(3)), {"tree": learned, "same": learned.policy}, estimators=["IPW"])
    assert ev["tree", "IPW"].value == ev["same", "IPW"].value
    assert ev["tree", "IPW"].interval().covers(1.0)


def test_a_learned_policy_is_not_judged_by_the_rows_it_was_learned_from(learned, tmp_path):
    own = shop()
    elsewhere = own.assign(p=0.4, day=1)  # other propensities and columns: the lessons are the same
    own.sample(frac=1, random_state=0).to_parquet(tmp_path / "own.parquet")
    roles = {"context": ["age", "device"], "action": "ad", "reward": "r", "propensity": "p"}
    scan = op.scan(tmp_path / "own.parquet", **roles, way="stream", chunk_rows=200)
    tree = TreePolicy.from_json(learned.policy.to_json())
    for log in (log_of(own), log_of(elsewhere), scan):
        for policy in (learned, learned.policy, tree):
            with pytest.raises(PolicyError, match=r"'new' was learned from these very rows.*learned.evaluation"):
                op.evaluate(log, {"new": policy}, estimators=["IPW"], learned_elsewhere=True)
    assert op.evaluate(log_of(own[:-1]), {"new": tree}, estimators=["IPW"]).policies == ["new"]
    by_hand = json.loads(learned.policy.to_json())
    del by_hand["learned_from"]
    assert op.evaluate(log_of(own), TreePolicy.from_json(json.dumps(by_hand)), estimators=["IPW"]).policies == [
        "policy"
    ]


@pytest.mark.parametrize("learner", ["boosted", lambda *_: "always:a"])
def test_other_learners_know_their_rows_too(learner):
    log = log_of(shop(n=300))
    learned = op.learn_policy(log, learner, reward_model=DummyRegressor(), folds=2)
    with pytest.raises(PolicyError, match="these very rows"):
        op.evaluate(log, learned, estimators=["IPW"])


def test_value_verdict_and_gain_are_those_of_an_evaluation(learned):
    assert learned.value.interval().covers(1.0)
    assert learned.gain.interval().low > 0
    assert learned.evaluation.policies == ["learned"]
    assert learned.evaluation.verdict().level in {"trust", "caution"}
    assert "honest value" in str(learned)


def test_pure_noise_flatters_the_naive_value_and_not_the_honest_one():
    gaps, naive = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x, a = rng.normal(size=(300, 3)), rng.integers(3, size=300)
        log = op.BanditLog.from_arrays(x, a, rng.normal(size=300), np.full(300, 1 / 3))
        found = op.learn_policy(log, reward_model=_mean(), min_rows=20, folds=2)
        gaps.append(found.value.value)
        naive.append(found.naive.value)
    error = np.std(gaps, ddof=1) / np.sqrt(len(gaps))
    assert abs(np.mean(gaps)) < 3 * error
    assert np.mean(naive) > 0.15
    assert np.mean(naive) > np.mean(gaps) + 3 * error


def test_rows_that_ids_put_in_another_order_are_valued_by_their_own_scores():
    """The log sorts rows by id; what is learned in that order is not given to the evaluation as if in the frame's."""
    frame = shop(5, 600)
    ids = np.random.default_rng(0).permutation(600)
    sorted_frame = frame.assign(id=ids).sort_values("id", ignore_index=True)
    found = [
        op.learn_policy(
            op.BanditLog.from_frame(rows, context=["age", "device"], action="ad", reward="r", propensity="p", id="id"),
            reward_model=op.models.PerAction(_mean()),
            folds=2,
        )
        for rows in (frame.assign(id=ids), sorted_frame)
    ]
    assert found[0].value.value == pytest.approx(found[1].value.value, rel=1e-12)
    assert found[0].naive.value == pytest.approx(found[1].naive.value, rel=1e-12)


def test_rows_count_by_their_weights():
    """Action 1 is better in most rows, action 0 in those that carry the weight."""
    rng = np.random.default_rng(0)
    n = 800
    heavy, a = rng.random(n) < 0.2, rng.integers(2, size=n)
    r = np.where(heavy, 1.0 - a, 1.0 * a) + 0.1 * rng.normal(size=n)
    p, x = np.full(n, 0.5), rng.normal(size=(n, 1))
    actions = []
    for weight in (None, np.where(heavy, 20.0, 1.0)):
        log = op.BanditLog.from_arrays(x, a, r, p, weight=weight)
        found = op.learn_policy(log, max_depth=0, reward_model=_mean(), folds=2)
        actions.append(found.policy.table()[0]["action"])
    assert actions == [1, 0]


def closed_shop(seed=0, n=1500):
    """As `shop`, but one ad of the three is not eligible, a different one in every row."""
    rng = np.random.default_rng([seed, 1])
    frame = shop(seed, n)
    labels = np.array(["a", "b", "c"])
    eligible = rng.integers(3, size=n)[:, None] != np.arange(3)
    frame["ad"] = [rng.choice(labels[row]) for row in eligible]
    frame["p"] = 0.5
    frame["r"] = (frame.ad == best(frame)) + 0.2 * rng.normal(size=n)
    frame["may"] = [labels[row].tolist() for row in eligible]
    return frame, eligible


def closed_log(frame):
    return op.BanditLog.from_frame(
        frame, context=["age", "device"], action="ad", reward="r", propensity="p", eligible="may"
    )


@pytest.mark.parametrize("learner", ["tree", "boosted"])
def test_only_eligible_actions_are_chosen(learner):
    frame, _ = closed_shop()
    learned = op.learn_policy(closed_log(frame), learner, reward_model=op.models.PerAction(_mean()))
    fresh, eligible = closed_shop(1)
    context = fresh[["age", "device"]]
    chosen = learned.policy.bind(("a", "b", "c")).choices(context, eligible=eligible)
    assert eligible[np.arange(len(fresh)), chosen].all()
    right = np.array(["a", "b", "c"])[chosen] == best(fresh)
    possible = np.array([ad in may for ad, may in zip(best(fresh), fresh.may, strict=True)])
    assert right[possible].mean() > 0.9
    assert learned.interval().covers(float(right.mean()))
    ev = op.evaluate(closed_log(fresh), {"learned": learned}, estimators=["IPW"])
    assert ev["learned", "IPW"].interval().covers(float(right.mean()))


def test_a_tree_says_what_it_does_where_its_action_is_not_eligible():
    frame, eligible = closed_shop(n=600)
    policy = op.learn_policy(closed_log(frame), reward_model=op.models.PerAction(_mean()), folds=2).policy
    assert "if that is not eligible, the first eligible of" in str(policy)
    assert "-- if that is not eligible" in policy.to_sql()
    again = TreePolicy.from_json(policy.to_json()).bind(("a", "b", "c"))
    context = frame[["age", "device"]]
    bound = policy.bind(("a", "b", "c"))
    same = again.choices(context, eligible=eligible) == bound.choices(context, eligible=eligible)
    assert same.all()


def test_the_interval_of_the_policy_returned_allows_for_the_policies_of_the_folds(learned):
    """They differ in some rows, so that it is wider than that of the honest value; of a rule all agree on it is not."""
    own = learned.value.interval()
    assert learned.interval().low <= own.low
    assert learned.interval().high >= own.high
    rng = np.random.default_rng(0)
    x, a = rng.normal(size=(300, 2)), rng.integers(3, size=300)
    noise = op.BanditLog.from_arrays(x, a, rng.normal(size=300), np.full(300, 1 / 3))
    found = op.learn_policy(noise, reward_model=_mean(), folds=2)
    apart = (found.naive - found.value).std_error
    assert found.interval().width == pytest.approx(found.value.interval().width + 2 * 1.959964 * apart)
    assert found.gain_interval().width > found.gain.interval().width
    flat = op.learn_policy(noise, max_depth=0, reward_model=_mean(), folds=2, min_rows=300)
    if (flat.naive - flat.value).std_error == 0:
        assert flat.interval() == flat.value.interval()


def brute_force(features, codes, scores, smallest, depth):
    """The most a tree of this depth can earn, by trying every one."""

    def earn(rows, left):
        plain = scores[rows].sum(axis=0).max() if len(rows) else 0.0
        if left == 0 or len(rows) < 2 * smallest:
            return plain
        found = [plain]
        for j, feature in enumerate(features):
            for at in range(feature.bins - 1):
                side = feature.goes_left(codes[j][rows], at)
                if min(side.sum(), (~side).sum()) >= smallest:
                    found.append(earn(rows[side], left - 1) + earn(rows[~side], left - 1))
        return max(found)

    return earn(np.arange(len(scores)), depth)


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("seed", range(4))
def test_small_logs_are_searched_exhaustively(seed, depth):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"x": rng.integers(5, size=80) * 1.0, "y": rng.choice(list("uvw"), 80)})
    scores = rng.normal(size=(80, 3))
    features = learn_features(frame, ("x", "y"))
    codes = coded(frame, features)
    root = Search(features, codes, scores, smallest=5).grow(depth)
    earned = scores[np.arange(80), choose(root, features, codes, 80)].sum()
    assert earned == pytest.approx(brute_force(features, codes, scores, 5, depth), abs=1e-9)


def test_where_pairs_are_many_they_are_judged_by_a_share_of_the_rows():
    """Which of two columns matters is seen by a tenth of the rows; leaves still have as many as they must."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(4000, 3))
    sign = np.where((x[:, 0] > 0) ^ (x[:, 2] > 0.5), 1.0, -1.0)
    scores = np.column_stack([sign, -sign]) + 0.5 * rng.normal(size=(4000, 2))
    features = learn_features(x, None)
    codes = coded(x, features)
    for most in (1e9, 4000 * 3 * 6 / 10):
        search = Search(features, codes, scores, smallest=100, most_additions=most)
        root = search.grow(2)
        earned = scores[np.arange(4000), choose(root, features, codes, 4000)].mean()
        assert earned > 0.9
        assert min(leaf.rows for leaf in leaves(root)) >= 100


def test_the_lower_bound_keeps_to_actions_the_log_knows():
    """Action 1 looks better by a few rows with a huge spread; the bound does not fall for it."""
    scores = np.column_stack([np.full(100, 1.0), np.r_[np.full(99, 0.0), 150.0]])
    feature = Feature("x", cuts=(0.0,))
    search = [Search([feature], [np.zeros(100, dtype=int)], scores, 20, z) for z in (0.0, 1.28)]
    assert [s.grow(1) for s in search] == [Leaf(1, 100), Leaf(0, 100)]


def test_boosted_policies_learn_what_trees_cannot_say():
    rng = np.random.default_rng(0)
    x, a = rng.normal(size=(1000, 2)), rng.integers(2, size=1000)
    r = np.where((x[:, 0] > 0) ^ (x[:, 1] > 0), a, 1 - a) + 0.3 * rng.normal(size=1000)
    log = op.BanditLog.from_arrays(x, a, r, np.full(1000, 0.5))
    flat = op.learn_policy(log, max_depth=1, reward_model=_mean(), folds=2)
    boosted = op.learn_policy(log, "boosted", max_depth=3, reward_model=_mean(), folds=2)
    assert boosted.value.value > flat.value.value + 0.2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"learner": "tre"}, "Did you mean 'tree'"),
        ({"objective": "mean"}, "objective="),
        ({"max_depth": -1}, "max_depth="),
        ({"min_rows": 0}, "min_rows="),
    ],
)
def test_bad_arguments_are_named(change, words):
    with pytest.raises(UsageError, match=words):
        op.learn_policy(log_of(shop(n=60)), **change)


def test_contexts_that_cannot_be_asked_about_are_refused():
    rng = np.random.default_rng(0)
    a, r, p = rng.integers(2, size=60), rng.random(60), np.full(60, 0.5)
    for context, learner, words in (
        (rng.normal(size=(60, 2, 2)), "tree", "table of features"),
        (None, "boosted", "needs a context column"),
    ):
        log = op.BanditLog.from_arrays(context, a, r, p)
        with pytest.raises(UsageError, match=words):
            op.learn_policy(log, learner)
    frame = shop(n=60).assign(day=pd.Timestamp("2026-01-01"))
    log = op.BanditLog.from_frame(frame, context=["day"], action="ad", reward="r", propensity="p")
    with pytest.raises(UsageError, match="'day' has dates"):
        op.learn_policy(log)


def test_logs_that_cannot_be_learned_from_are_refused(tmp_path):
    path = tmp_path / "log.parquet"
    shop(n=200).to_parquet(path)
    streamed = op.scan(path, context=["age", "device"], action="ad", reward="r", propensity="p", way="stream")
    with pytest.raises(UsageError, match="in memory"):
        op.learn_policy(streamed)


@pytest.mark.verify
def test_the_honest_value_covers():
    """Coverage of the learned policy's true value; its training value beside it covers less."""
    honest, naive = [], []
    for seed, depth in itertools.product(range(100), (1, 2)):
        frame, fresh = shop(seed, 600), shop(10_000, 20_000)
        found = op.learn_policy(log_of(frame), max_depth=depth, reward_model=op.models.PerAction(_mean()), seed=seed)
        chosen = np.array(found.policy.labels)[found.policy.choices(fresh[["age", "device"]])]
        truth = float((chosen == best(fresh)).mean())
        honest.append(found.interval().covers(truth))
        naive.append(found.naive.interval().covers(truth))
    error = np.sqrt(0.05 * 0.95 / len(honest))
    assert np.mean(honest) >= 0.93 - 2 * error


def test_boosted_regressions_with_caution_keep_to_what_the_log_knows():
    rng = np.random.default_rng(12)
    n = 1200
    x = rng.normal(size=(n, 1))
    action = rng.choice(3, size=n, p=[0.49, 0.49, 0.02])
    # The rare action is worth as much as the others, but its scores are wild.
    reward = 1.0 + 0.3 * rng.normal(size=n)
    p = np.array([0.49, 0.49, 0.02])[action]
    log = op.BanditLog.from_arrays(x, action, reward, p)
    nothing = DummyRegressor(strategy="constant", constant=0.0)
    asked = {"learner": "boosted", "reward_model": nothing, "folds": 2}
    bold = op.learn_policy(log, **asked)
    wary = op.learn_policy(log, **asked, objective="lower bound")
    share = [float(np.mean(learned.policy.choices(x) == 2)) for learned in (bold, wary)]
    assert share[1] < share[0] / 2
    assert wary.value.interval().sufficient


def test_numbers_are_not_learned_from():
    rng = np.random.default_rng(3)
    price = rng.uniform(size=100)
    log = op.BanditLog.from_arrays(rng.normal(size=(100, 1)), price, price, np.ones(100), action_kind="continuous")
    with pytest.raises(UsageError, match="the actions of this log are numbers"):
        op.learn_policy(log)


@pytest.mark.parametrize("learner", ["tree", "boosted"])
def test_of_a_cost_the_policy_is_learned_that_costs_least(learner):
    """What earns most of a reward costs least of its opposite, in the same words but for the sign."""
    frame = shop().assign(cost=lambda f: -f.r, other=0.0)
    roles = {"context": ["age", "device"], "action": "ad", "propensity": "p"}
    earned = op.BanditLog.from_frame(frame, reward="r", **roles)
    spent = op.BanditLog.from_frame(frame, reward=["other", "cost"], **roles)
    settings = {"learner": learner, "reward_model": _mean(), "objective": "lower bound"}
    most = op.learn_policy(earned, **settings)
    least = op.learn_policy(spent, metric="cost", minimize=["cost"], **settings)
    context = frame[["age", "device"]]
    assert (most.probabilities(context) == least.probabilities(context)).all()
    assert least.value.value == pytest.approx(-most.value.value, rel=1e-9)
    assert least.optimism == pytest.approx(most.optimism, rel=1e-9)
    assert least.gain_interval().high == pytest.approx(-most.gain_interval().low, rel=1e-9)
    assert (least.evaluation.metric_name, least.evaluation.minimize) == ("cost", True)
    assert "change from the current policy -" in str(least)
    assert str(least).endswith("lower is better")
    with pytest.raises(UsageError, match="minimize=True does not say which metric"):
        op.learn_policy(spent, minimize=True)
    with pytest.raises(UsageError, match="no metric is called 'costs'"):
        op.learn_policy(spent, metric="costs")


def test_where_actions_are_closed_the_cheapest_open_one_stands_in():
    """The order in which others are taken goes by cost as well."""
    rng = np.random.default_rng(3)
    n = 600
    eligible = np.ones((n, 3), dtype=bool)
    eligible[np.arange(n), rng.integers(3, size=n)] = False
    action = np.array([rng.choice(np.flatnonzero(e)) for e in eligible])
    cost = np.array([1.0, 2.0, 3.0])[action] + 0.1 * rng.normal(size=n)
    log = op.BanditLog.from_arrays(rng.normal(size=(n, 1)), action, cost, np.full(n, 0.5), eligible=eligible)
    found = op.learn_policy(log, max_depth=0, minimize=True, reward_model=_mean())
    cheapest = np.where(eligible[:, 0], 0, 1)
    p = found.policy.bind((0, 1, 2)).choices(np.zeros((n, 1)), eligible=eligible)
    assert (p == cheapest).all()
