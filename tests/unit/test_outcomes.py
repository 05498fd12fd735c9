"""Rewards seen in part: what is refused, what is said, and what checks find."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

import offpolicy as op
from offpolicy.errors import DataError, ModelError, UsageError
from offpolicy.models.fitting.policy_fits import predictions_apart


def world(seed=0, n=3000, labels=None, judge=None):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    new = rng.random(n) < 0.3
    truth = rng.binomial(1, 1 / (1 + np.exp(-x - 0.5 * new))).astype(float)
    judged = np.where(rng.random(n) < 0.85, truth, 1 - truth) + 0.1 * rng.normal(size=n)
    judged = judged if judge is None else judge(judged, new)
    p = np.full(n, 0.3) if labels is None else labels(truth, judged)
    return pd.DataFrame(
        {
            "x": x,
            "arm": np.where(new, "new", "old"),
            "p": np.where(new, 0.3, 0.7),
            "judge": judged,
            "label": np.where(rng.random(n) < p, truth, np.nan),
            "truth": truth,
            "p_label": p,
        }
    )


def log_of(frame, outcome, reward="label"):
    return op.BanditLog.from_frame(frame, context=["x"], action="arm", reward=reward, propensity="p", outcome=outcome)


def evaluated(frame, outcome):
    return op.evaluate(log_of(frame, outcome), {"new": op.policies.Fixed("new")}, estimators=["DML", "IPW"])


def test_a_missing_reward_needs_an_outcome_that_says_why():
    with pytest.raises(DataError, match=r"'label'.*outcome=op\.Labeled"):
        log_of(world(), None)


def test_an_array_that_is_the_reward_is_no_proxy():
    label = world(n=200)["label"].to_numpy()
    with pytest.raises(DataError, match="column 0 is 'reward' itself"):
        op.BanditLog.from_arrays(None, [0, 1] * 100, label, outcome=op.Labeled(proxies=label))


def test_a_metric_that_every_row_shows_may_be_a_proxy_of_another():
    outcome = {"label": op.Labeled(proxies=["judge"], probability="p_label")}
    log = log_of(world(), outcome, ["label", "judge"])
    assert op.evaluate(log, "always:new", estimators=["DML"]).metric("label")["DML"].value > 0


def test_a_model_that_takes_no_missing_proxies_says_so():
    frame = world(n=400)
    frame.loc[frame.index % 5 == 0, "judge"] = np.nan
    log = log_of(frame, op.Labeled(proxies=["judge"], probability="p_label"))
    with pytest.raises(ModelError, match=r"proxies= has missing values \(judge\)"):
        op.evaluate(log, "always:new", estimators=["DML"], reward_model=Ridge())
    assert op.evaluate(log, "always:new", estimators=["DML"])["DML"].value > 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"hours_since": -1.0}, "column 'hours_since'.*at least 0"),
        ({"hours": -1.0}, "column 'hours'.*after the action"),
        ({"hours": 1e6}, "column 'hours'.*'hours_since'"),
        ({"bought": np.nan}, "column 'bought'.*'hours' says when"),
    ],
)
def test_what_is_wrong_with_a_delay_names_the_columns(change, words):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"arm": [0, 1] * 50, "p": 0.5, "bought": 1.0, "hours": 1.0, "hours_since": rng.uniform(5, 99, 100)}
    )
    frame.loc[7, list(change)] = list(change.values())
    with pytest.raises(DataError, match=words):
        op.BanditLog.from_frame(
            frame, context=None, action="arm", reward="bought", propensity="p",
            outcome=op.Delayed("hours", "hours_since", 50),
        )  # fmt: skip


def test_the_age_is_no_proxy():
    frame = pd.DataFrame({"arm": [0, 1] * 50, "p": 0.5, "bought": 1.0, "hours": 1.0, "since": 99.0})
    with pytest.raises(DataError, match="'since', which says when the reward came"):
        op.BanditLog.from_frame(
            frame, context=None, action="arm", reward="bought", propensity="p",
            outcome=op.Delayed("hours", "since", 50, proxies=["since"]),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("outcome", "words"),
    [
        (op.Labeled(proxies=["x"]), "context both contain 'x'"),
        (op.Labeled(proxies=["label"]), "which is the reward itself"),
        (op.Labeled(proxies=["judge", "copy"]), "'copy' is 'label' itself"),
        (op.Labeled(proxies=["arm"]), "the column of action="),
        (op.Labeled(proxies=["p"]), "the column of propensity="),
        (op.Labeled(proxies=["jugde"]), "no such column"),
        (op.Labeled(proxies=["judge", "judge"]), "twice"),
        (op.Labeled(probability="zero"), "zero"),
        (op.Labeled(probability=1.5), "probability"),
        (op.Labeled(model="given"), "Name it: proxies"),
        ("labeled", "must be an outcome"),
        (op.Labeled, "must be an outcome"),
        (op.Labeled(probability="sometimes"), "the row was labeled, whether it was or not, which cannot be 0"),
        ({"lable": op.Labeled()}, "no metric is called 'lable'"),
    ],
)
def test_what_contradicts_itself_is_refused(outcome, words):
    frame = world(n=200).assign(zero=0.0, sometimes=lambda f: 0.3 * f["label"].notna(), copy=lambda f: f["label"])
    with pytest.raises((DataError, UsageError), match=words):
        log_of(frame, outcome)


def test_of_several_metrics_the_one_seen_in_part_is_named():
    with pytest.raises(UsageError, match=r"outcome=\{'label'"):
        log_of(world(n=200), op.Labeled(), ["label", "truth"])


def test_no_label_at_all_is_refused():
    with pytest.raises(DataError, match="missing in every row"):
        log_of(world(n=200).assign(label=np.nan), op.Labeled(proxies=["judge"]))


def test_arrays_are_the_columns_of_a_frame():
    frame = world()
    named = evaluated(frame, op.Labeled(proxies=["judge"], probability="p_label"))
    log = op.BanditLog.from_arrays(
        frame[["x"]].to_numpy(), frame["arm"].to_numpy(), frame["label"].to_numpy(), frame["p"].to_numpy(),
        outcome=op.Labeled(proxies=frame["judge"].to_numpy(), probability=0.3),
    )  # fmt: skip
    given = op.evaluate(log, {"new": op.policies.Fixed("new")}, estimators=["DML"])
    assert given["DML"].value == pytest.approx(named["DML"].value, abs=1e-9)


def test_the_result_says_how_many_labels_there_are_and_what_it_assumes():
    frame = world()
    ev = evaluated(frame, op.Labeled(proxies=["judge"], probability="p_label"))
    n = int(frame["label"].notna().sum())
    assert f"observed in {n:,} of 3,000 rows" in str(ev)
    assert "labeled with the given probabilities" in str(ev.verdict())
    about = json.loads(ev.to_json())["settings"]["outcome"]["label"]
    assert (about["seen"], about["of"]) == (n, 3000)
    assert 0.5 < about["share_of_proxies"] <= 1


def test_fitted_probabilities_of_labels_are_an_assumption_and_no_reason_to_trust():
    ev = evaluated(world(), op.Labeled(proxies=["judge"]))
    assert ev.verdict().level == "caution"
    assert "whether a row was labeled depends only on" in str(ev.verdict())


@pytest.mark.parametrize("seed", range(5))
def test_clean_labels_raise_nothing(seed):
    ev = evaluated(world(seed), op.Labeled(proxies=["judge"], probability="p_label"))
    assert {name: ev.diagnostics[name].level for name in ("label_balance", "effective_labels")} == {
        "label_balance": "ok",
        "effective_labels": "ok",
    }


@pytest.mark.parametrize("seed", range(5))
def test_labels_that_depend_on_the_reward_are_noticed_where_their_probability_was_given(seed):
    frame = world(seed, labels=lambda truth, judged: np.where(truth == 1, 0.4, 0.2))
    ev = evaluated(frame, op.Labeled(proxies=["judge"], probability=0.3))
    assert ev.diagnostics["label_balance"].level != "ok"
    assert ev.verdict().level != "trust"


@pytest.mark.parametrize("seed", range(5))
def test_labels_drawn_by_the_judge_are_fitted(seed):
    frame = world(seed, labels=lambda truth, judged: np.where(judged > 0.5, 0.5, 0.1))
    ev = evaluated(frame, op.Labeled(proxies=["judge"]))
    truth = frame["truth"][frame["arm"] == "new"].mean()
    assert abs(ev["DML"].value - truth) < 4 * ev["DML"].std_error
    naive = frame["label"][frame["arm"] == "new"].mean()
    assert abs(naive - truth) > 0.05


def test_a_judge_that_prefers_an_arm_is_noticed_and_does_no_harm():
    frame = world(judge=lambda judged, new: judged + 0.5 * new)
    ev = evaluated(frame, op.Labeled(proxies=["judge"], probability="p_label"))
    assert ev.diagnostics["proxy_preference"].level == "note"
    truth = frame["truth"][frame["arm"] == "new"].mean()
    assert abs(ev["DML"].value - truth) < 4 * ev["DML"].std_error


def test_few_labels_of_what_the_policy_does_are_counted():
    frame = world()
    frame.loc[(frame["arm"] == "new") & (frame.index > 200), "label"] = np.nan
    ev = evaluated(frame, op.Labeled(proxies=["judge"], probability="p_label"))
    assert ev.diagnostics["new", "effective_labels"].level in {"caution", "alarm"}
    assert ev.verdict().level != "trust"


def test_rows_of_a_file_are_the_rows_of_a_frame(tmp_path):
    frame = world(n=800)
    frame.to_parquet(tmp_path / "log.parquet")
    outcome = op.Labeled(proxies=["judge"], probability="p_label")
    roles = {"context": ["x"], "action": "arm", "reward": "label", "propensity": "p"}
    scanned = op.scan(str(tmp_path / "log.parquet"), outcome=outcome, **roles)
    values = [op.evaluate(log, "always:new", estimators=["DML"])["DML"] for log in (scanned, log_of(frame, outcome))]
    assert values[0].value == pytest.approx(values[1].value, abs=1e-12)
    assert values[0].std_error == pytest.approx(values[1].std_error, abs=1e-12)


def test_more_rows_than_memory_may_hold_are_refused():
    roles = {"context": ["x"], "action": "arm", "reward": "label", "propensity": "p"}
    scanned = op.scan(world(n=100), outcome=op.Labeled(), max_rows=50, fit_rows=50, **roles)
    with pytest.raises(UsageError, match="max_rows"):
        op.evaluate(scanned, "always:new")


def test_a_scan_says_which_column_of_an_outcome_is_not_there():
    with pytest.raises(DataError, match=r"outcome= names 'jugde': the source has no such column. Did you mean 'judge'"):
        op.scan(world(n=50), context=["x"], action="arm", reward="label", outcome=op.Labeled(proxies=["jugde"]))


def test_what_needs_every_reward_says_so():
    log = log_of(world(n=300), op.Labeled())
    with pytest.raises(UsageError, match="needs every reward"):
        predictions_apart(log, np.arange(300) < 100, "auto")


def command(capsys, *words):
    from offpolicy.cli import main

    code = main([str(word) for word in words])
    return code, capsys.readouterr().out


def test_the_command_line_takes_judges_and_delays(tmp_path, capsys):
    path, out = tmp_path / "log.csv", tmp_path / "out.json"
    world().to_csv(path, index=False)
    flags = ["--context", "x", "--action", "arm", "--reward", "label", "--propensity", "p"]
    labeled = [*flags, "--proxies", "judge", "--label-probability", "0.3"]
    code, _ = command(
        capsys, "evaluate", path, *labeled, "--policy", "new=always:new", "--estimator", "DML", "--json", out
    )  # fmt: skip
    about = json.loads(out.read_text())["settings"]["outcome"]["label"]
    assert (code, about["of"]) == (0, 3000)
    for more in ([], ["--engine", "duckdb"]):
        code, said = command(capsys, "check", path, *labeled, *more)
        assert code == 0
        assert "labels: " in said
    run = tmp_path / "run.toml"
    run.write_text(
        'log = "log.csv"\ncontext = ["x"]\naction = "arm"\nreward = "label"\npropensity = "p"\n'
        'proxies = ["judge"]\nlabel-probability = "p_label"\nestimators = ["DML"]\n[policies]\nnew = "always:new"\n'
    )
    assert command(capsys, "evaluate", run)[0] == 0


def test_the_command_line_writes_which_rows_to_label(tmp_path, capsys):
    path, out = tmp_path / "log.csv", tmp_path / "plan.csv"
    frame = world(n=2000).assign(id=lambda f: f.index[::-1])
    frame.to_csv(path, index=False)
    flags = ["--context", "x", "--action", "arm", "--reward", "label", "--propensity", "p", "--proxies", "judge"]
    flags += ["--label-probability", "0.3", "--policy", "new=always:new", "--label-plan", out, "--id", "id"]
    command(capsys, "advise", path, *flags, "--width", "0.1")
    plan = pd.read_csv(out)
    assert plan["row"].tolist() == list(range(2000))
    new = frame["arm"] == "new"
    assert plan.loc[new, "new"].mean() > 2 * plan.loc[~new, "new"].mean()
    code, _ = command(capsys, "advise", path, *flags, "--width", "0.0001")
    assert code == 1


@pytest.mark.parametrize("kind", ["engine", "episodes", "slates"])
def test_the_command_line_takes_judges_with_an_engine_and_for_units(kind, tmp_path, capsys):
    path, out = tmp_path / "log.parquet", tmp_path / "out.json"
    world(n=600).assign(unit=lambda f: f.index // 2, t=lambda f: f.index % 2).to_parquet(path)
    flags = [
        "--action",
        "arm",
        "--reward",
        "label",
        "--propensity",
        "p",
        "--proxies",
        "judge",
        "--label-probability",
        "0.3",
    ]
    flags += {
        "engine": ["--context", "x", "--engine", "duckdb"],
        "episodes": ["--state", "x", "--episode", "unit", "--step", "t"],
        "slates": ["--context", "x", "--slate", "unit", "--position", "t", "--interaction", "independent"],
    }[kind]
    code, _ = command(
        capsys, "evaluate", path, *flags, "--policy", "new=always:new", "--estimator", "DML", "--json", out
    )  # fmt: skip
    assert (code, json.loads(out.read_text())["settings"]["outcome"]["label"]["of"]) == (0, 600)


def test_a_delay_needs_all_its_flags(tmp_path, capsys):
    path = tmp_path / "log.csv"
    world(n=200).to_csv(path, index=False)
    flags = ["--context", "x", "--action", "arm", "--reward", "label", "--policy", "uniform"]
    code, _ = command(capsys, "evaluate", path, *flags, "--age", "x")
    assert code == 1


def test_a_classifier_predicts_the_label_and_not_the_pseudo_reward():
    frame = world(n=600)
    with pytest.raises(ModelError, match="Use a regressor"):
        op.evaluate(
            log_of(frame, op.Labeled(probability="p_label")), "always:new", estimators=["DML"],
            reward_model=LogisticRegression(),
        )  # fmt: skip
    outcome = op.Labeled(proxies=["judge"], probability="p_label", model=LogisticRegression())
    ev = op.evaluate(log_of(frame, outcome), "always:new", estimators=["DML"])
    assert 0 < ev["DML"].value < 1


def test_labels_in_one_fold_are_too_few():
    frame = world(n=200).assign(fold=lambda f: f.index % 2)
    frame["label"] = np.where(frame["fold"] == 0, frame["truth"], np.nan)
    log = op.BanditLog.from_frame(
        frame, context=["x"], action="arm", reward="label", propensity="p", fold="fold", outcome=op.Labeled()
    )  # fmt: skip
    with pytest.raises(DataError, match="are in one fold"):
        op.evaluate(log, "always:new", estimators=["DML"])


def test_a_plan_says_how_many_labels_a_width_takes():
    frame = world()
    log = log_of(frame, op.Labeled(proxies=["judge"], probability="p_label"))
    advice = op.advise(log, {"new": "always:new"}, width=0.08)
    plan = advice.labels["new"]
    assert plan.now == frame["label"].notna().sum()
    assert plan.least_width < 0.08 < plan.width_now
    assert plan.now < plan.labels <= 3000
    assert plan.best_labels < plan.labels
    new = log.action == log.actions.index("new")
    assert plan.probability.sum() == pytest.approx(plan.best_labels, abs=2)
    assert plan.probability[new].min() > plan.probability[~new].max()  # rows that the policy would not have
    assert 0 < plan.probability.min() <= plan.probability.max() <= 1
    assert json.loads(advice.to_json())["labels"]["new"]["labels"] == plan.labels
    assert "labels: " in str(advice)
    impossible = op.advise(log, {"new": "always:new"}, width=0.001).labels["new"]
    assert impossible.labels is None
    assert "log more rows" in str(impossible)
