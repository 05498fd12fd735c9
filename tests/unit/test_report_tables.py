"""Facts behind charts and sentences, against plain loops and closed forms."""

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy.inference.comparison import change
from offpolicy.show import evidence, segments, svg, tables
from offpolicy.show.answer import answers, question
from offpolicy.show.document import command, digest
from offpolicy.show.segments import grouped
from offpolicy.show.words import ChangeWords
from offpolicy.trust.view import View

N = 600


def table(seed=0, n=N):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "place": rng.choice(["north", "south", "west"], size=n),
            "hour": np.sort(rng.integers(5, size=n)),
            "user": rng.integers(80, size=n),
            "w": rng.uniform(0.5, 2.0, size=n),
        }
    )
    p1 = 1 / (1 + np.exp(-frame["x"].to_numpy()))
    action = (rng.random(n) < p1).astype(int)
    frame["a"] = np.where(action == 1, "b", "a")
    frame["p"] = np.where(action == 1, p1, 1 - p1)
    frame["r"] = 1.0 + action * frame["x"] + rng.normal(size=n)
    return frame


def evaluated(frame, policies=None, **more):
    named = {"context": ["x", "place"], "action": "a", "reward": "r", "propensity": "p"}
    log = op.BanditLog.from_frame(frame, **named, **more)
    policies = policies or {"half": op.policies.Uniform(), "b": op.policies.Fixed("b")}
    return op.evaluate(log, policies, estimators=["DML", "IPW", "DR-half"], reward_model="auto")


@pytest.fixture(scope="module")
def ev():
    return evaluated(table(), batch="hour")


def test_batches_are_means_of_scores_inside_each_batch(ev):
    frame = table()
    rows = tables.batches(ev, "b")
    psi = ev["b", "DML"].psi[0]
    for code, row in enumerate(rows):
        inside = (frame["hour"] == code).to_numpy()
        assert row["value"] == pytest.approx(psi[inside].mean())
        assert row["logged"] == pytest.approx(frame["r"][inside].mean())
        assert row["n"] == inside.sum()
    assert sum(r["share"] for r in rows) == pytest.approx(1.0)


def test_half_sample_scores_are_restricted_to_the_units_they_score(ev):
    e = ev["b", "DR-half"]
    members = np.zeros(N, dtype=bool)
    members[::2] = True
    part = e.within(members)
    half = ev.problem.folds.parts("half", 0)[0].score
    estimator = next(x for x in ev.estimators if x.name == "DR-half")
    d = ev.problem.decisions(ev.targets["b"], estimator)
    raw = d.ratio * (d.reward - d.q) + d.v
    assert part.value == pytest.approx(raw[members[half]].mean())
    assert part.n == int(members[half].sum())
    everyone = e.within(np.ones(N, dtype=bool))
    assert everyone.value == pytest.approx(e.value)
    assert everyone.std_error == pytest.approx(e.std_error)


def test_segments_of_weighted_clustered_units_have_the_clustered_error():
    frame = table(1)
    ev = evaluated(frame, cluster="user", weight="w")
    rows = segments.by_segment(ev, "b", segments.groupings(ev, ["place"]))
    assert [r["group"] for r in rows] == ["north", "south", "west"]
    psi, w = ev["b", "DML"].psi[0], frame["w"].to_numpy()
    inside = (frame["place"] == "south").to_numpy()
    value = np.average(psi[inside], weights=w[inside])
    assert rows[1]["value"] == pytest.approx(value)
    sums = {}
    for i in np.flatnonzero(inside):
        sums[frame["user"][i]] = sums.get(frame["user"][i], 0.0) + w[i] * (psi[i] - value)
    error = np.sqrt(sum(u**2 for u in sums.values())) / w[inside].sum()
    members = ev["b", "DML"].within(inside)
    assert members.std_error == pytest.approx(error)


def test_counted_rows_give_the_same_facts_as_the_rows_they_stand_for():
    frame = table(2, 200)
    frame["fold"] = np.arange(200) % 2
    more = frame.loc[frame.index.repeat(3)].reset_index(drop=True)
    counted = frame.assign(count=3)
    policy = {"b": op.policies.Fixed("b")}
    fits = {"estimators": ["DML", "IPW"]}
    names = {"context": ["x", "place"], "action": "a", "reward": "r", "propensity": "p"}
    names |= {"fold": "fold", "batch": "hour"}
    q = np.column_stack([np.ones(200), 1 + frame["x"]])
    few = op.evaluate(op.BanditLog.from_frame(counted, count="count", **names), policy, reward_model=q, **fits)
    many = op.evaluate(op.BanditLog.from_frame(more, **names), policy, reward_model=np.repeat(q, 3, axis=0), **fits)
    views = [View.of(e.problem, e.targets["b"]) for e in (few, many)]
    for kind in (evidence.weights, evidence.overlap, evidence.clipping, lambda v: evidence.inverse_propensities(v)[0]):
        a, b = (pd.DataFrame(kind(v)) for v in views)
        pd.testing.assert_frame_equal(a, b, rtol=1e-9)
    a, b = (pd.DataFrame(tables.batches(e, "b")) for e in (few, many))
    pd.testing.assert_frame_equal(a[["value", "logged", "n"]], b[["value", "logged", "n"]])


def test_histogram_of_weights_holds_every_unit_and_all_of_the_weight(ev):
    view = View.of(ev.problem, ev.targets["b"])
    rows = evidence.weights(view)
    frame = table()
    weight = np.where(frame["a"] == "b", 1 / frame["p"], 0.0)
    zero = float((weight == 0).mean())
    assert evidence.zero_share(view) == pytest.approx(zero)
    assert sum(r["share"] for r in rows) == pytest.approx(1 - zero)
    assert sum(r["carried"] for r in rows) == pytest.approx(1.0)
    last = [w for w in weight if rows[-1]["low"] <= w]
    assert rows[-1]["carried"] == pytest.approx(sum(last) / weight.sum())


def test_overlap_sums_probabilities_by_action(ev):
    rows = {r["action"]: r for r in evidence.overlap(View.of(ev.problem, ev.targets["half"]))}
    frame = table()
    assert rows["b"]["logged"] == pytest.approx((frame["a"] == "b").mean())
    assert rows["b"]["target"] == pytest.approx(0.5)
    covered = np.mean((frame["a"] == "b") * 0.5 / frame["p"]) / 0.5
    assert rows["b"]["ratio"] == pytest.approx(covered)


def test_actions_beyond_the_limit_are_summed():
    rng = np.random.default_rng(0)
    a = rng.integers(40, size=2000)
    log = op.BanditLog.from_arrays(None, a, rng.random(2000), np.full(2000, 1 / 40))
    ev = op.evaluate(log, op.policies.Uniform(), estimators=["IPW"])
    rows = evidence.overlap(View.of(ev.problem, ev.targets["policy"]), most=10)
    assert len(rows) == 11
    assert rows[-1]["action"] == "30 other actions"
    assert sum(r["target"] for r in rows) == pytest.approx(1.0)
    assert sum(r["logged"] for r in rows) == pytest.approx(1.0)


def test_clipping_ends_at_the_estimate_itself(ev):
    rows = evidence.clipping(View.of(ev.problem, ev.targets["b"]))
    assert rows[-1]["value"] == pytest.approx(ev["b", "DML"].value)
    assert rows[-1]["clipped"] == 0
    assert [r["clipped"] for r in rows] == sorted((r["clipped"] for r in rows), reverse=True)
    frame, threshold = table(), rows[8]["threshold"]
    view = View.of(ev.problem, ev.targets["b"])
    d = view.decisions
    w = np.minimum(np.where(frame["a"] == "b", 1 / frame["p"], 0.0), threshold)
    assert rows[8]["value"] == pytest.approx(float(np.mean(w * (d.reward - d.q) + d.v)))


def test_reward_calibration_bins_hold_all_rows_and_their_means(ev):
    view = View.of(ev.problem, ev.targets["b"])
    rows = evidence.reward_bins(view)
    assert sum(r["n"] for r in rows) == N
    total = sum(r["n"] * r["observed"] for r in rows) / N
    assert total == pytest.approx(table()["r"].mean())
    assert [r["predicted"] for r in rows] == sorted(r["predicted"] for r in rows)


def test_behavior_calibration_of_a_logged_distribution_counts_hits():
    rng = np.random.default_rng(0)
    whole = rng.dirichlet(np.ones(3), size=900)
    a = (rng.random(900)[:, None] > whole.cumsum(axis=1)).sum(axis=1)
    log = op.BanditLog.from_arrays(None, a, rng.random(900), whole, actions=range(3))
    ev = op.evaluate(log, op.policies.Uniform(), estimators=["IPW"])
    rows = evidence.behavior_bins(View.of(ev.problem, ev.targets["policy"]))
    assert sum(r["n"] for r in rows) == 2700
    assert sum(r["n"] * r["observed"] for r in rows) == pytest.approx(900)
    assert sum(r["n"] * r["predicted"] for r in rows) == pytest.approx(900)
    # Nobody has seen that what never happened in a few rows cannot happen.
    assert all(r["low"] < r["high"] for r in rows)
    top = whole >= 0.9
    assert rows[-1]["observed"] == pytest.approx(top[np.arange(900), a].sum() / top.sum())


def test_calibration_by_action_is_of_what_the_target_plays_at_a_level_for_all_of_them():
    rng = np.random.default_rng(0)
    n, k = 4000, 200
    a = rng.integers(k, size=n)
    log = op.BanditLog.from_arrays(None, a, rng.random(n), np.full(n, 1 / k), actions=range(k))
    probabilities = np.zeros((n, k))
    probabilities[:, [3, 7, 11]] = [0.2, 0.5, 0.3]
    ev = op.evaluate(log, probabilities, estimators=["IPW"])
    rows, played = evidence.inverse_propensities(View.of(ev.problem, ev.targets["policy"]))
    assert [r["action"] for r in rows] == ["7", "11", "3"]
    assert played == 3
    view = View.of(ev.problem, ev.targets["policy"])
    alone = view.over_decisions((a == 7) * float(k)).interval(1 - 0.05 / 3)
    assert (rows[0]["low"], rows[0]["high"]) == pytest.approx(tuple(alone))
    everywhere = op.evaluate(log, op.policies.Uniform(), estimators=["IPW"])
    rows, played = evidence.inverse_propensities(View.of(everywhere.problem, everywhere.targets["policy"]))
    assert len(rows) == 30
    assert played == k
    # The thirty most frequent of 200 alike would all lie above 1.
    assert min(r["value"] for r in rows) < 1


def test_fitted_behavior_is_calibrated_out_of_fold():
    frame = table(3, 4000).drop(columns="p")
    log = op.BanditLog.from_frame(frame, context=["x"], action="a", reward="r")
    ev = op.evaluate(log, op.policies.Uniform(), estimators=["IPW-cf"], behavior_model="auto")
    rows = evidence.behavior_bins(View.of(ev.problem, ev.targets["policy"]))
    assert sum(r["n"] for r in rows) == 8000
    for r in rows:
        if r["n"] > 500:
            assert abs(r["observed"] - r["predicted"]) < 0.1


@pytest.mark.parametrize("model", ["auto", "shares"])
def test_fitted_behavior_of_episodes_sums_to_one_a_step(model):
    rng = np.random.default_rng(0)
    states = rng.integers(3, size=(200, 4))
    actions = (rng.random((200, 4)) < 0.3 + 0.1 * states).astype(int)
    log = op.Trajectories.from_arrays(states, actions, rng.random((200, 4)))
    ev = op.evaluate(log, op.policies.Fixed(0), estimators=["IPW-cf"], behavior_model=model)
    rows = evidence.behavior_bins(View.of(ev.problem, ev.targets["policy"]))
    assert sum(r["n"] for r in rows) == 1600
    assert sum(r["n"] * r["predicted"] for r in rows) == pytest.approx(800)
    assert sum(r["n"] * r["observed"] for r in rows) == pytest.approx(800)


def test_horizon_of_a_hand_made_log():
    states = [[0, 0], [0, 0], [0]]
    log = op.Trajectories.from_arrays(
        states, [[0, 0], [0, 1], [1]], [[1.0, 1.0], [1.0, 1.0], [1.0]], propensities=[[0.5] * 2] * 2 + [[0.5]]
    )
    ev = op.evaluate(log, op.policies.Fixed(0), estimators=["IPW"])
    rows = evidence.horizon(View.of(ev.problem, ev.targets["policy"]))
    assert [r["step"] for r in rows] == [1, 2]
    assert rows[0]["effective"] == pytest.approx(2 / 3)  # weights 2, 2, 0
    assert rows[1]["effective"] == pytest.approx(1 / 3)  # weights 4, 0, 0
    assert [r["surviving"] for r in rows] == pytest.approx([2 / 3, 1 / 3])
    assert [r["running"] for r in rows] == pytest.approx([1.0, 2 / 3])


@pytest.mark.parametrize(
    ("values", "in_order"),
    [
        (np.array([2.0, 1.0, np.nan]), ["2", "1", "missing"]),
        (np.array(["b", None, "a"], dtype=object), ["b", "missing", "a"]),
        (np.array([True, False, True]), ["True", "False", "True"]),
        (np.array(["2024-01-02", "2024-01-01"], dtype="datetime64[s]"), ["2024-01-02", "2024-01-01"]),
    ],
)
def test_groups_of_few_values(values, in_order):
    labels = sorted(set(in_order), key=lambda text: (text == "missing", text))
    groups = grouped("x", values, np.ones(len(values)))
    assert groups.labels == labels
    assert [groups.labels[c] for c in groups.codes] == in_order


def test_numbers_are_cut_in_fifths_and_rare_categories_pooled():
    values = np.concatenate([np.arange(100.0), [np.nan]])
    fifths = grouped("x", values, np.ones(101))
    assert np.bincount(fifths.codes).tolist() == [20, 20, 20, 20, 20, 1]
    assert fifths.labels[-1] == "missing"
    names = np.array([f"c{i:02d}" for i in range(30)] + ["c00"] * 5, dtype=object)
    pooled = grouped("name", names, np.ones(35))
    assert len(pooled.labels) == 12
    assert pooled.labels[-1] == "19 others"
    assert np.bincount(pooled.codes)[-1] == 19


@pytest.mark.parametrize("kind", ["few", "many", "skewed", "texts", "normal"])
def test_groups_do_not_depend_on_order_or_counts(kind):
    rng = np.random.default_rng(0)
    n = 30_000
    values = {
        "few": rng.integers(5, size=n) * 1.0,
        "many": rng.integers(500, size=n) * 0.5,
        "skewed": np.maximum(rng.normal(size=n).round(2), 0.0),
        "texts": np.array([f"t{i}" for i in rng.geometric(0.1, size=n)], dtype=object),
        "normal": rng.normal(size=n),
    }[kind]
    if kind != "texts":
        values[rng.random(n) < 0.01] = np.nan
    whole = grouped("x", values, np.ones(n))
    order = rng.permutation(n)
    again = grouped("x", values[order], np.ones(n))
    assert again.labels == whole.labels
    assert np.array_equal(again.codes, whole.codes[order])
    if kind == "normal":
        sizes = np.bincount(whole.codes)
        assert abs(sizes[:5] - sizes[:5].mean()).max() < 0.01 * n
    if kind != "texts":
        different, count = np.unique(values, return_counts=True)
        assert grouped("x", different, count * 1.0).labels == whole.labels


def test_segments_name_a_column_that_exists(ev):
    with pytest.raises(UsageError, match="Did you mean 'place'"):
        segments.groupings(ev, "plase")
    assert segments.groupings(ev, "hour")[0].labels == ["0", "1", "2", "3", "4"]


def test_differences_are_paired(ev):
    rows = tables.differences(ev)
    own = next(r for r in rows if r["policy"] == "b" and r["estimator"] == "DML")
    gap = ev["b", "DML"] - ev.logged
    assert own["value"] == pytest.approx(gap.value)
    assert own["std_error"] == pytest.approx(gap.std_error)
    between = [r for r in rows if r["versus"] != "log"]
    assert [(r["policy"], r["versus"]) for r in between] == [("b", "half")]


def test_answers_put_the_most_promising_policy_first(ev):
    first, second = answers(ev)
    assert {first.policy, second.policy} == {"half", "b"}
    gains = {p: (ev[p, "DML"] - ev.logged).interval()[0] for p in ("half", "b")}
    if first.level == second.level:
        assert gains[first.policy] >= gains[second.policy]
    assert "Which policy" in question(ev)[0][0]


def test_no_overlap_is_said_in_the_answer():
    rng = np.random.default_rng(0)
    log = op.BanditLog.from_arrays(None, [0] * 50, rng.random(50), [0.5] * 50, actions=[0, 1])
    ev = op.evaluate(log, {"never": op.policies.Fixed(1)}, estimators=["IPW", "SNIPW"])
    (only,) = answers(ev)
    assert only.text == "The log has no evidence about never."
    assert only.level == "insufficient evidence"
    assert only.cells[:3] == ("—", "no estimate", "—")


def test_a_negative_base_shows_the_difference():
    base = op.Estimate.from_scores(np.array([-1.0, -2.0, -3.0] * 20))
    better = op.Estimate.from_scores(np.array([-0.5, -1.5, -2.0] * 20))
    words = ChangeWords.of(change(better, base, 0.95))
    assert (words.short, words.size) == ("+0.667", "0.667 more")
    assert words.reach.endswith(" more")
    assert "%" not in words.reach
    assert words.sign == 1
    assert ChangeWords.of(change(better, base, 0.95), minimize=True).sign == -1


def test_an_axis_is_not_spoiled_by_one_wide_interval():
    rows = [{"value": 1.0, "low": 0.9, "high": 1.1} for _ in range(4)]
    rows.append({"value": 1.2, "low": -500.0, "high": 900.0})
    low, high = svg.domain(rows, (0.8,))
    assert low > -5
    assert high < 5
    assert low < 0.8
    assert svg.domain([], ()) == (0.0, 1.0)


def test_the_digest_changes_with_the_log_and_not_with_its_order(ev):
    frame = table()
    assert digest(evaluated(frame, batch="hour")) == digest(ev)
    shuffled = frame.sample(frac=1.0, random_state=0).reset_index(drop=True)
    assert digest(evaluated(shuffled, batch="hour")) == digest(ev)
    for column, value in (("r", 9.0), ("p", 0.123), ("place", "east"), ("x", 0.5), ("hour", 9)):
        changed = frame.copy()
        changed.loc[3, column] = value
        assert digest(evaluated(changed, batch="hour")) != digest(ev)


def test_the_command_can_be_read_as_python(ev):
    import ast

    tree = ast.parse(command(ev).replace("…", "None"))
    assert {k.arg for k in tree.body[0].value.keywords} == {"estimators", "seed"}
