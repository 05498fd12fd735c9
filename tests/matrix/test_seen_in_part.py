"""Rewards seen in part: the same rows give the same answer on every path and in every layout."""

import numpy as np
import pandas as pd
import pytest
from extension.four_ways import CHUNK, WAYS, answers, source
from sklearn.linear_model import LinearRegression

import offpolicy as op
from offpolicy.errors import UsageError

MODEL = LinearRegression()
ROLES = {"context": ["x", "city"], "action": "arm", "reward": ["label", "cost"], "propensity": "p", "id": "id"}
OUTCOMES = {
    "labels": op.Labeled(proxies=["judge", "mood"], probability="p_label"),
    "fitted": op.Labeled(proxies=["judge"]),
    "alone": op.Labeled(probability=0.3),
    "late": op.Delayed("hours", "age", 20, proxies=["judge"]),
}


def frame(n=900, seed=0):
    rng = np.random.default_rng(seed)
    x, new = rng.integers(4, size=n), rng.random(n) < 0.4
    truth = 1.0 * (rng.random(n) < 0.2 + 0.1 * x + 0.2 * new)
    judge = np.where(rng.random(n) < 0.8, truth, 1 - truth)
    chance = np.where(judge == 1, 0.4, 0.2)
    hours = np.where(truth == 1, rng.integers(1, 30, n), np.nan)
    age = rng.integers(1, 40, n).astype(float)
    hours = np.where(hours <= age, hours, np.nan)
    return pd.DataFrame(
        {
            "id": np.arange(n), "x": x, "city": np.array(["Graz", "Linz", "Wien"])[rng.integers(3, size=n)],
            "arm": np.where(new, "new", "old"), "p": np.where(new, 0.4, 0.6), "judge": judge,
            "mood": np.array(["bad", "good"])[(rng.random(n) < 0.5 + 0.3 * truth) * 1], "cost": 1.0 + new,
            "p_label": chance, "label": np.where(rng.random(n) < chance, truth, np.nan),
            "hours": hours, "age": age, "came": 1.0 * np.isfinite(hours),
        }
    )  # fmt: skip


def roles_of(outcome):
    late = isinstance(outcome, op.Delayed)
    return {
        **ROLES,
        "reward": ["came", "cost"] if late else ["label", "cost"],
        "outcome": {"came" if late else "label": outcome},
    }


def everything(log):
    ev = op.evaluate(
        log, {"new": "always:new", "even": "uniform"}, estimators=["DML", "IPW", "auto"], reward_model=MODEL
    )
    found, checks = answers(ev)
    metric = next(iter(ev.problem.store.log.metrics))
    margin = ev.combine({metric: 2.0, "cost": -1.0})
    other, _ = answers(margin)
    policy = {(p, name): f.value for p in ("new", "even") for name, f in ev.diagnostics.policies[p].items()}
    return found, other, checks, policy, ev.verdict("new").level


def alike(got, want):
    for one, two in zip(got[:4], want[:4], strict=True):
        assert one.keys() == two.keys()
        for key in two:
            np.testing.assert_allclose(one[key], two[key], rtol=1e-7, atol=1e-8, err_msg=str(key))
    assert got[4] == want[4]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", OUTCOMES)
def test_every_engine_gives_the_answer_of_the_frame(way, name, tmp_path):
    if way == "spark" and name not in {"labels", "late"}:
        pytest.skip("two outcomes show it")
    roles, rows = roles_of(OUTCOMES[name]), frame()
    where, told = source(way, rows, tmp_path, __name__)
    with op.scan(where, **roles, **told) as scanned:
        alike(everything(scanned), everything(op.BanditLog.from_frame(rows, **roles)))


@pytest.mark.parametrize("way", ["rows", "cells", "auto"])
@pytest.mark.parametrize("name", OUTCOMES)
def test_rows_and_cells_give_the_answer_of_the_frame(way, name, tmp_path):
    roles, rows = roles_of(OUTCOMES[name]), frame()
    rows.to_parquet(tmp_path / "log.parquet")
    scanned = op.scan(str(tmp_path / "log.parquet"), way=way, chunk_rows=CHUNK, **roles)
    alike(everything(scanned), everything(op.BanditLog.from_frame(rows, **roles)))
    if way == "cells":
        assert scanned.compress().rows < len(rows)


def test_counts_are_rows():
    rows = frame().drop(columns=["id", "hours", "age", "came"])
    rows["label"] = rows["label"].fillna(-1)
    counted = rows.groupby(list(rows.columns), as_index=False).size()
    for each in (rows, counted):
        each["label"] = each["label"].replace(-1, np.nan)
        each["fold"] = (each["x"] + (each["city"] == "Graz")) % 2
    roles = {**roles_of(OUTCOMES["labels"]), "fold": "fold"}
    roles.pop("id")
    whole = op.BanditLog.from_frame(rows, **roles)
    alike(everything(op.BanditLog.from_frame(counted, count="size", **roles)), everything(whole))


def test_a_long_run_is_foretold_on_every_path(tmp_path):
    rng = np.random.default_rng(1)

    def drawn(n):
        arm, x = rng.integers(2, size=n), rng.normal(size=n)
        early = 0.5 * arm + 0.3 * x + rng.normal(size=n)
        return pd.DataFrame({"id": np.arange(n), "x": x, "arm": arm, "p": 0.5, "early": early})

    old = drawn(500).assign(year=lambda f: 2 * f["early"] + f["x"] + rng.normal(size=500))
    roles = {"context": ["x"], "action": "arm", "reward": "year", "propensity": "p"}
    outcome = op.LongTerm(op.BanditLog.from_frame(old, **roles), proxies=["early"])
    new = drawn(600).assign(year=np.nan)
    new.to_parquet(tmp_path / "log.parquet")
    logs = [
        op.BanditLog.from_frame(new, outcome=outcome, **roles),
        op.scan(str(tmp_path / "log.parquet"), outcome=outcome, way="stream", chunk_rows=CHUNK, **roles),
    ]
    one, two = (op.evaluate(log, "always:1", estimators=["DML"], reward_model=MODEL)["DML"] for log in logs)
    assert (one.value, one.std_error) == pytest.approx((two.value, two.std_error), abs=1e-9)
    cells = op.scan(str(tmp_path / "log.parquet"), outcome=outcome, way="cells", **roles)
    with pytest.raises(UsageError, match="needs single rows"):
        op.evaluate(cells, "always:1")


def units(n=400, seed=0, share=0.4):
    """Units of three decisions whose rewards are labeled for some rows."""
    rng = np.random.default_rng(seed)
    m = 3 * n
    s, a = rng.normal(size=m), rng.integers(2, size=m)
    reward = 0.5 * a + 0.3 * s + rng.normal(size=m)
    return pd.DataFrame(
        {
            "unit": np.repeat(np.arange(n), 3), "t": np.tile(np.arange(3), n), "s": s, "a": a, "p": 0.5,
            "truth": reward,
            "judge": reward + 0.5 * rng.normal(size=m), "label": np.where(rng.random(m) < share, reward, np.nan),
        }
    )  # fmt: skip


LAYOUTS = {
    "episodes": (op.Trajectories, {"episode": "unit", "step": "t", "state": ["s"]}),
    "slates": (op.Slates, {"slate": "unit", "position": "t", "context": ["s"]}),
    "independent": (op.Slates, {"slate": "unit", "position": "t", "context": ["s"], "interaction": "independent"}),
}
NAMES = ["IPW", "DML"]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_units_with_every_reward_seen_are_as_without_an_outcome(layout):
    made, roles = LAYOUTS[layout]
    rows = units()
    roles = {**roles, "action": "a", "reward": "truth", "propensity": "p"}
    seen = op.Labeled(proxies=["judge"], probability=0.5)
    evs = [op.evaluate(made.from_frame(rows, outcome=o, **roles), "always:1", estimators=NAMES) for o in (None, seen)]
    for name in NAMES:
        np.testing.assert_allclose(evs[0][name].psi, evs[1][name].psi, atol=1e-9)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_labels_of_decisions_of_a_unit_are_made_whole(layout):
    """The value of always 1 is 1.5; labels and a judge are nearer to all labels than labels alone."""
    made, roles = LAYOUTS[layout]
    roles = {**roles, "action": "a", "propensity": "p"}
    errors = {"all": [], "labels": [], "judge": []}
    for seed in range(6):
        rows = units(seed=seed)
        outcomes = {"all": None, "labels": op.Labeled(probability=0.4), "judge": op.Labeled(["judge"], probability=0.4)}
        for name, outcome in outcomes.items():
            log = made.from_frame(rows, reward="truth" if outcome is None else "label", outcome=outcome, **roles)
            e = op.evaluate(log, "always:1", estimators=["DML"])["DML"]
            assert abs(e.value - 1.5) < 4 * e.std_error
            errors[name].append(e.std_error)
    assert np.mean(errors["all"]) < np.mean(errors["judge"]) < np.mean(errors["labels"])


@pytest.mark.parametrize("way", ["rows", "stream"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_scanned_units_are_those_of_the_frame(layout, way, tmp_path):
    made, roles = LAYOUTS[layout]
    rows = units()
    roles = {**roles, "action": "a", "reward": "label", "propensity": "p"}
    roles["outcome"] = op.Labeled(proxies=["judge"], probability=0.4)
    rows.to_parquet(tmp_path / "log.parquet")
    logs = [made.from_frame(rows, **roles), made.scan(str(tmp_path / "log.parquet"), way=way, **roles)]
    evs = [op.evaluate(log, "always:1", estimators=NAMES) for log in logs]
    for name in NAMES:
        assert evs[0][name].value == pytest.approx(evs[1][name].value, abs=1e-9)
        assert evs[0][name].std_error == pytest.approx(evs[1][name].std_error, abs=1e-9)
    assert "label_balance" in evs[0].diagnostics.log
    assert "assumes" not in str(evs[0].verdict()) or "probabilities" in str(evs[0].verdict())


@pytest.mark.parametrize(
    ("more", "words"),
    [({"reward_of": "slate"}, "one row per slate"), ({"interaction": "auto"}, "Name the interaction")],
)
def test_slates_say_where_an_outcome_does_not_fit(more, words):
    made, roles = LAYOUTS["slates"]
    with pytest.raises(UsageError, match=words):
        made.from_frame(
            units(20), action="a", reward="label", propensity="p", outcome=op.Labeled(), **{**roles, **more}
        )  # fmt: skip


def test_the_long_run_is_for_single_decisions():
    made, roles = LAYOUTS["episodes"]
    history = op.BanditLog.from_frame(units(30), context=["s"], action="a", reward="truth")
    roles = {**roles, "action": "a", "reward": "label", "propensity": "p"}
    log = made.from_frame(units(30), outcome=op.LongTerm(history, proxies=["judge"]), **roles)
    with pytest.raises(UsageError, match="single decisions"):
        op.evaluate(log, "always:1")
