"""Doors for what people hold: score columns, models of context and action, SQL, files, rankings, tables by state."""

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMRegressor
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import offpolicy as op
from offpolicy.errors import ModelError, PolicyError, UsageError

N = 240
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "age": RNG.integers(18, 70, size=N),
        "device": RNG.choice(["tv", "phone"], size=N),
        "ad": RNG.choice(["a", "b", "c"], size=N),
        "click": RNG.integers(2, size=N) * 1.0,
        "p": 1 / 3,
        "s_a": RNG.normal(size=N),
        "s_b": RNG.normal(size=N),
        "s_c": RNG.normal(size=N),
    }
)
ROLES = {"context": ["age", "device"], "action": "ad", "reward": "click", "propensity": "p"}
LOG = op.BanditLog.from_frame(FRAME, **ROLES)
BEST = np.array(["a", "b", "c"])[FRAME[["s_a", "s_b", "s_c"]].to_numpy().argmax(1)]


def chosen(policy, log=LOG):
    ev = op.evaluate(log, {"new": policy}, estimators=["IPW"])
    return np.array(log.actions)[ev.targets["new"].codes]


def value(log, policy):
    return op.evaluate(log, {"new": policy}, estimators=["IPW"])["new", "IPW"].value


@pytest.mark.parametrize(
    "policy",
    [
        "greedy:s_a,s_b, s_c",
        op.policies.Greedy(columns=["s_a", "s_b", "s_c"]),
        op.policies.Greedy(columns={"b": "s_b", "c": "s_c", "a": "s_a"}),
    ],
)
def test_score_columns(policy, tmp_path):
    np.testing.assert_array_equal(chosen(policy), BEST)
    FRAME.to_parquet(tmp_path / "log.parquet")
    for way in ("rows", "cells", "stream"):
        with op.scan(str(tmp_path / "log.parquet"), way=way, **ROLES) as log:
            assert value(log, policy) == pytest.approx(value(LOG, BEST))


def test_score_columns_that_do_not_fit_say_so():
    with pytest.raises(PolicyError, match="2 score columns for 3 actions"):
        chosen("greedy:s_a,s_b")
    with pytest.raises(PolicyError, match=r"If they are scores.*'greedy:s_a,s_b,s_c'"):
        chosen("s_a,s_b,s_c")
    with pytest.raises(UsageError, match="columns= as a list"):
        op.policies.Greedy(columns="s_a")
    gap = op.BanditLog.from_frame(FRAME.assign(s_a=FRAME["s_a"].where(FRAME.index != 3)), **ROLES)
    with pytest.raises(PolicyError, match=r"scores are missing in .*row 3"):
        chosen("greedy:s_a,s_b,s_c", gap)


def test_a_fitted_model_of_context_and_action():
    table = FRAME[["age", "device", "ad"]].rename(columns={"ad": "shown"})
    pipe = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["device", "shown"]), remainder="passthrough"), LinearRegression()
    ).fit(table, FRAME["click"])
    asked = [pipe.predict(table.assign(shown=label)) for label in LOG.actions]
    expected = np.array(LOG.actions)[np.argmax(asked, axis=0)]
    np.testing.assert_array_equal(chosen(op.policies.Greedy(pipe, action="shown")), expected)
    with pytest.raises(PolicyError, match="fitted on a column 'shown'"):
        chosen(op.policies.Greedy(pipe, action="ad"))
    with pytest.raises(UsageError, match=r"Greedy\(model, action=…\)"):
        op.policies.Greedy(pipe)


def test_lightgbm_reads_the_action_as_a_category():
    table = FRAME[["age", "ad"]].astype({"ad": "category"})
    model = LGBMRegressor(n_estimators=5, min_child_samples=5, verbose=-1).fit(table, FRAME["click"])
    log = op.BanditLog.from_frame(FRAME, **{**ROLES, "context": ["age"]})
    kinds = pd.CategoricalDtype(["a", "b", "c"])
    asked = [model.predict(table.assign(ad=pd.Series([k] * N, dtype=kinds))) for k in log.actions]
    expected = np.array(log.actions)[np.argmax(asked, axis=0)]
    np.testing.assert_array_equal(chosen(op.policies.Greedy(model, action="ad"), log), expected)


def test_a_model_of_an_array_reads_the_action_last():
    x, a = RNG.normal(size=(N, 2)), RNG.integers(2, size=N)
    log = op.BanditLog.from_arrays(x, a, x[:, 0] * a, np.full(N, 0.5))
    model = LinearRegression().fit(np.c_[x, a], x[:, 0] + a)
    np.testing.assert_array_equal(chosen(op.policies.Greedy(model, action="a"), log), np.ones(N))


RULE = "sql:case when AGE > 40 and device = 'tv' then 'a' when s_b > 0 then 'b' else 'c' end"


def test_a_rule_in_sql_is_the_same_on_every_path(tmp_path):
    tv = (FRAME["age"] > 40) & (FRAME["device"] == "tv")
    expected = np.where(tv, "a", np.where(FRAME["s_b"] > 0, "b", "c"))
    np.testing.assert_array_equal(chosen(RULE), expected)
    FRAME.to_parquet(tmp_path / "log.parquet")
    for way in ("rows", "cells", "stream"):
        with op.scan(str(tmp_path / "log.parquet"), way=way, **ROLES) as log:
            assert value(log, RULE) == pytest.approx(value(LOG, expected))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("case when agee > 3 then 'a' end", "no column 'agee'. Did you mean 'age'"),
        ("case when age > 40 then 'a' end", "gives no action"),
        ("case when age > (select avg(age) from rows) then 'a' else 'b' end", "looks beyond one row"),
        ("case when age > avg(age) then 'a' else 'b' end", r"calls avg\(\)"),
        ("case when random() > 0.5 then 'a' else 'b' end", r"calls random\(\)"),
        ("case when row_number() over () > 5 then 'a' else 'b' end", "looks beyond one row"),
        ("(select content from read_text('/etc/hostname'))", "looks beyond one row"),
        ("age) as choice from rows where (age > 3", "sql"),
        ("age); drop table rows; select (1", "sql"),
        ("case when", "sql"),
        ("nosuch(age)", "no function 'nosuch'"),
        ("'a'", "uses no column"),
        ("case when age > 40 then 'z' else 'a' end", "chooses 'z'"),
    ],
)
def test_what_is_no_rule_of_one_row_is_refused(text, words):
    with pytest.raises(PolicyError, match=words):
        chosen(f"sql:{text}")


def test_a_function_in_a_file(tmp_path, monkeypatch):
    (tmp_path / "rules.py").write_text("def choose(c):\n    return ['a'] * len(c)\n")
    monkeypatch.chdir(tmp_path)
    assert set(chosen("rules.py:choose")) == {"a"}
    with pytest.raises(PolicyError, match=r"there is no file 'rule.py'"):
        chosen("rule.py:choose")
    with pytest.raises(PolicyError, match=r"has no 'chose'. Did you mean 'choose'"):
        chosen("rules.py:chose")


def slates(distinct=True):
    rng = np.random.default_rng(1)
    shown = np.array([rng.permutation(5)[:2] for _ in range(400)])
    rows = pd.DataFrame({"s": np.repeat(np.arange(400), 2), "k": np.tile([1, 2], 400)})
    rows["item"] = [f"i{i}" for i in shown.ravel()]
    rows["p"], rows["click"] = np.tile([1 / 5, 1 / 4], 400), rng.integers(2, size=800) * 1.0
    log = op.Slates.from_frame(
        rows, slate="s", position="k", context=None, action="item", reward="click", propensity="p"
    )
    return rows, log


def test_one_ranking_for_all_slates():
    rows, log = slates()
    ev = op.evaluate(log, {"best": ["i4", "i3", "i2"]}, estimators=["IPW"])
    items = rows["item"].to_numpy().reshape(-1, 2)
    click = rows["click"].to_numpy().reshape(-1, 2)
    top, second = items[:, 0] == "i4", items[:, 1] == "i3"
    by_hand = np.mean(top * 5 * click[:, 0] + (top & second) * 20 * click[:, 1])
    assert ev["best", "IPW"].value == pytest.approx(by_hand)
    with pytest.raises(PolicyError, match="ranking of 1 items cannot fill slates of 2 positions"):
        op.evaluate(log, {"best": ["i4"]}, estimators=["IPW"])
    with pytest.raises(PolicyError, match="must list each item once"):
        op.evaluate(log, {"best": ["i4", "i4"]}, estimators=["IPW"])


def episodes():
    rng = np.random.default_rng(2)
    states, actions = rng.integers(4, size=(50, 3)), rng.integers(2, size=(50, 3))
    return op.Trajectories.from_arrays(states, actions, actions * 1.0, propensities=np.full((50, 3), 0.5))


def test_policies_and_logging_policies_by_state():
    log, table = episodes(), np.array([[1.0, 0], [0, 1], [0, 1], [1, 0]])
    by_table = op.evaluate(log, table, estimators=["IPW"])["IPW"].value
    assert op.evaluate(log, [0, 1, 1, 0], estimators=["IPW"])["IPW"].value == by_table
    assert op.evaluate(log, np.array([0, 1, 1, 0]), estimators=["IPW"])["IPW"].value == by_table
    flat = np.full((4, 2), 0.5)
    known = op.evaluate(log, table, estimators=["IPW"], behavior_model=flat)
    assert known["IPW"].value == by_table
    with pytest.raises(PolicyError, match=r"table by state is \(states, 2\), one action per state"):
        op.evaluate(log, np.full((4, 3), 1 / 3), estimators=["IPW"])
    with pytest.raises(PolicyError, match="has 3 rows, one for each state"):
        op.evaluate(log, [0, 1, 1], estimators=["IPW"])


def test_models_have_the_words_of_the_command_line():
    settings = {"estimators": ["DML"], "seed": 1}
    words = op.evaluate(LOG, "always:a", reward_model="linear", **settings)["DML"].value
    assert words != op.evaluate(LOG, "always:a", reward_model="lightgbm", **settings)["DML"].value
    with pytest.raises(ModelError, match=r"'lightgbm', 'paper'. Got 'lightgb'. Did you mean 'lightgbm'"):
        op.evaluate(LOG, "always:a", reward_model="lightgb", **settings)
    table = op.evaluate(episodes(), "always:1", value_model="tabular", estimators=["DML"])
    assert (
        table["DML"].value
        == op.evaluate(episodes(), "always:1", value_model=op.Tabular(), estimators=["DML"])["DML"].value
    )
    with pytest.raises(ModelError, match="value_model= as a word"):
        op.evaluate(episodes(), "always:1", value_model="tab", estimators=["DML"])


def test_an_error_says_what_a_function_was_given():
    with pytest.raises(PolicyError, match=r"It was given a DataFrame with the columns age, device\."):
        chosen(lambda context: context[:, 2])
    log = op.BanditLog.from_arrays(np.zeros((9, 4)), [0, 1, 0] * 3, np.ones(9), np.full(9, 0.5))
    with pytest.raises(PolicyError, match=r"It was given an array of shape \(n, 4\)\."):
        chosen(lambda context: context["x"], log)


def test_an_unknown_action_is_named():
    with pytest.raises(PolicyError, match=r"policy 'new' chooses 'banner' \(in .*row 0.*Actions: 'a', 'b', 'c'"):
        chosen(np.array(["banner"] * N))


def test_columns_that_end_in_the_labels_are_matched_by_label(tmp_path):
    assert LOG.actions == ("a", "b", "c")
    for policy in ("greedy:s_c,s_a,s_b", op.policies.Greedy(columns=["s_c", "s_a", "s_b"])):
        np.testing.assert_array_equal(chosen(policy), BEST)
    frame = FRAME.assign(p_a=0.2, p_b=0.3, p_c=0.5)
    log = op.BanditLog.from_frame(frame, **ROLES | {"propensity": ["p_b", "p_c", "p_a"]})
    np.testing.assert_allclose(log.propensity, frame["ad"].map({"a": 0.2, "b": 0.3, "c": 0.5}))
    right = value(log, {"a": 0.2, "b": 0.3, "c": 0.5})
    swapped = op.policies.ProbabilityColumns(["p_c", "p_b", "p_a"])
    assert value(log, "p_c,p_a,p_b") == value(log, ["p_c", "p_b", "p_a"]) == pytest.approx(right)
    assert swapped.bind(LOG.actions).probabilities(frame)[0].tolist() == [0.2, 0.3, 0.5]
    frame.to_parquet(tmp_path / "log.parquet")
    for way in ("rows", "cells", "stream"):
        with op.scan(str(tmp_path / "log.parquet"), way=way, **ROLES) as scan:
            assert value(scan, "greedy:s_c,s_a,s_b") == pytest.approx(value(LOG, BEST))
    other = op.policies.Greedy(columns={"a": "s_b", "b": "s_a", "c": "s_c"})  # as it was said, whatever the names
    assert (chosen(other) != BEST).any()
