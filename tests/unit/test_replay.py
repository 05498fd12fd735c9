"""`op.replay`: algorithms that learn, scored on blocks they have not seen, or on rows they would have chosen."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, Ridge

import offpolicy as op

L = op.learners
DATA = Path(__file__).parents[2].parent / "shared" / "data"


def world(seed, n=1200, k=3, blocks=6):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    p = np.exp(0.5 * np.outer(x[:, 0], np.arange(k) - 1))
    p /= p.sum(axis=1, keepdims=True)
    a = (p.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1)
    q = 0.3 + 0.3 * np.column_stack([x[:, 0], x[:, 1], -x[:, 0]])[:, :k]
    r = q[np.arange(n), a] + 0.3 * rng.normal(size=n)
    return {"x": x, "a": a, "r": r, "p": p[np.arange(n), a], "q": q, "day": np.arange(n) // (n // blocks)}


def log_of(w, **options):
    return op.BanditLog.from_arrays(w["x"], w["a"], w["r"], w["p"], **options)


def by_hand(w, learner, model, blocks=6):
    """Progressive doubly robust value with plain loops."""
    psi, values = [], []
    learner = learner.bind((0, 1, 2))
    fits = None
    grown = 0
    for day in range(blocks):
        now, past = w["day"] == day, w["day"] < day
        if day > 0:
            p = learner.probabilities(w["x"][now])
            if fits is None or past.sum() >= 1.2 * grown:
                X = np.column_stack([w["x"], np.eye(3)[w["a"]]])
                fits, grown = model.fit(X[past], w["r"][past]), past.sum()
            q = np.column_stack(
                [fits.predict(np.column_stack([w["x"][now], np.tile(np.eye(3)[k], (now.sum(), 1))])) for k in range(3)]
            )
            rows = np.arange(now.sum())
            weight = p[rows, w["a"][now]] / w["p"][now]
            psi.append((p * q).sum(1) + weight * (w["r"][now] - q[rows, w["a"][now]]))
            values.append((p * w["q"][now]).sum(1))
        learner.update(w["x"][now], w["a"][now], w["r"][now], w["p"][now])
    return np.concatenate(psi), np.concatenate(values)


def test_the_progressive_score_is_that_of_plain_loops():
    w = world(0)
    ev = op.replay(log_of(w, batch=w["day"]), {"u": L.LinUCB()}, estimators=["DML"], reward_model=LinearRegression())
    psi, _ = by_hand(w, L.LinUCB(), LinearRegression())
    e = ev["u", "DML"]
    assert e.value == pytest.approx(psi.mean(), rel=1e-9)
    assert e.std_error == pytest.approx(psi.std() / np.sqrt(len(psi)), rel=1e-3)
    assert e.n == 1000
    assert ev.replayed.burn_in == 0
    assert ev.replayed.blocks == (1, 2, 3, 4, 5)


def test_the_order_of_rows_does_not_matter():
    w = world(1)
    frame = pd.DataFrame({"x": w["x"][:, 0], "a": w["a"], "r": w["r"], "p": w["p"], "day": w["day"], "id": range(1200)})
    frame["t"] = frame["id"] / 7
    roles = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p", "id": "id"}
    answers = []
    for part in (frame, frame.sample(frac=1, random_state=0)):
        log = op.BanditLog.from_frame(part, **roles)
        for how in ({"blocks": "day"}, {"blocks": 6, "time": "t"}):
            ev = op.replay(log, "linucb", estimators=["DML"], reward_model=Ridge(), **how)
            answers.append(ev["linucb", "DML"].value)
        ev = op.replay(
            log, "linucb", estimators=["IPW"], reward_model=Ridge(), blocks="day", time="t", method="rejection"
        )
        answers.append(ev["linucb", "IPW"].value)
    assert answers[:3] == pytest.approx(answers[3:], rel=1e-12)
    assert answers[0] == pytest.approx(answers[1], rel=1e-12)  # days are blocks of equal size


@pytest.mark.parametrize("method", ["progressive", "rejection"])
def test_learners_are_copied_and_start_fresh(method):
    w = world(2, n=600)
    learner = L.LinUCB()
    log = log_of(w, batch=w["day"])
    answers = [
        op.replay(log, {"u": learner}, method=method, time=np.arange(600), estimators=["IPW"])["u", "IPW"].value
        for _ in range(2)
    ]
    assert learner.gram is None
    assert answers[0] == answers[1]


def test_a_learner_that_does_not_learn_is_a_policy():
    """The logged distribution replayed is the logged mean, progressively and by rejection."""
    w = world(3, n=600)

    class Uniform:
        def probabilities(self, context):
            return np.full((len(context), 3), 1 / 3)

        def update(self, context, action, reward, propensity):
            self.seen = getattr(self, "seen", 0) + len(reward)

    a = np.random.default_rng(0).integers(3, size=600)
    log = op.BanditLog.from_arrays(w["x"], a, w["r"], np.full(600, 1 / 3), batch=w["day"])
    for method in ("progressive", "rejection"):
        ev = op.replay(log, {"same": Uniform()}, method=method, time=np.arange(600), estimators=["IPW"], accept=None)
        assert ev["same", "IPW"].value == pytest.approx(w["r"][w["day"] > 0].mean(), rel=1e-12)
    every = op.replay(log, {"same": Uniform()}, method="rejection", time=np.arange(600), estimators=["IPW"], accept=1.0)
    assert every.replayed.steps == {"same": 500}  # c π/π_b = 1: each row is accepted


def test_open_bandit_data_replays_the_random_policy():
    path = DATA / "obd" / "random" / "all" / "all.csv.gz"
    if not path.exists():
        pytest.skip("the sample of the Open Bandit Dataset is not here")
    frame = pd.read_csv(path, index_col=0).sort_values("timestamp", kind="stable").reset_index(drop=True)
    frame["id"] = range(len(frame))
    log = op.BanditLog.from_frame(
        frame, context=["position"], action="item_id", reward="click", propensity="propensity_score", id="id"
    )

    class Random:
        def probabilities(self, context):
            return np.full((len(context), 80), 1 / 80)

        def update(self, *_):
            pass

    ev = op.replay(
        log,
        {"random": Random()},
        method="rejection",
        blocks=10,
        time="timestamp",
        accept=1.0,
        estimators=["IPW"],
        reward_model=Ridge(),
    )
    scored = ev.replayed.rows
    assert ev.replayed.steps["random"] == len(scored)
    assert ev["random", "IPW"].value == pytest.approx(frame["click"].to_numpy()[scored].mean(), abs=1e-12)


def test_rejection_shows_only_accepted_rows_and_scores_every_row():
    w = world(4, n=800)
    seen = []

    class Watching(L.LinUCB):
        def update(self, context, action, reward, propensity=None):
            seen.append((len(reward), float(reward[0])))
            super().update(context, action, reward, propensity)

    log = log_of(w, batch=w["day"])
    ev = op.replay(log, {"u": Watching()}, method="rejection", time=np.arange(800), estimators=["IPW"])
    steps = ev.replayed.steps["u"]
    assert [n for n, _ in seen] == [1] * steps
    assert [r for _, r in seen] == w["r"][ev.replayed.rows[ev.replayed.accepted["u"]]].tolist()
    assert ev["u", "IPW"].n == (w["day"] > 0).sum()
    expected = ev.replayed.accept * ev["u", "IPW"].n
    assert abs(steps - expected) < 4 * np.sqrt(expected)


def test_learning_curves_add_up():
    w = world(5)
    ev = op.replay(log_of(w, batch=w["day"]), "epsilon-greedy", estimators=["DML"], reward_model=Ridge())
    curve = ev.learning_curve()
    own = curve[curve.policy == "epsilon-greedy"]
    assert own.block.tolist() == [1, 2, 3, 4, 5]
    assert np.average(own.value, weights=own.n) == pytest.approx(ev["DML"].value)
    assert own.so_far.iloc[-1] == pytest.approx(ev["DML"].value)
    assert (own.so_far_low < own.so_far).sum() >= 4  # where evidence is too thin there is no interval
    assert not (own.low > own.value).any()
    with pytest.raises(op.errors.UsageError, match=r"op\.replay"):
        op.evaluate(log_of(w), "uniform", estimators=["IPW"]).learning_curve()


def test_several_metrics_and_costs():
    w = world(6)
    cost = 1.0 + w["a"]
    log = op.BanditLog.from_arrays(w["x"], w["a"], {"gain": w["r"], "cost": cost}, w["p"], batch=w["day"])
    ev = op.replay(
        log, {"cheap": L.LinUCB()}, metric="cost", minimize=["cost"], estimators=["DML"], reward_model=Ridge()
    )
    assert ev.metric("cost")["DML"].value == pytest.approx(1.0, abs=0.1)  # it learned to take action 0
    assert ev["cheap", "DML"].value == pytest.approx(0.3, abs=0.15)


OWN = {
    "linucb": L.LinUCB(), "lints": L.LinearThompson(), "logts": L.LogisticThompson(), "eps": L.EpsilonGreedy(),
    "soft": L.Softmax(), "bag": L.Bagged(Ridge(), bags=3),
}  # fmt: skip


@pytest.mark.parametrize("name", OWN)
def test_own_learners_keep_the_contract(name):
    op.testing.check_learner(OWN[name])


@pytest.mark.parametrize("name", OWN)
def test_own_learners_learn(name):
    rng = np.random.default_rng(7)
    x, a = rng.normal(size=(3000, 2)), rng.integers(2, size=3000)
    r = 1.0 * (rng.random(3000) < np.where(a == (x[:, 0] > 0), 0.8, 0.2))
    learner = L.own.fresh(OWN[name], (0, 1))
    for part in np.array_split(np.arange(2000), 5):
        learner.update(x[part], a[part], r[part], np.full(len(part), 0.5))
    p = learner.probabilities(x[2000:])
    right = p[np.arange(1000), (x[2000:, 0] > 0).astype(int)].mean()
    assert right > 0.75, right


def test_linucb_is_the_plain_formula():
    rng = np.random.default_rng(8)
    x, a, r = rng.normal(size=(50, 2)), rng.integers(2, size=50), rng.normal(size=50)
    learner = L.LinUCB(alpha=0.7).bind((0, 1))
    learner.update(x, a, r, None)
    z = np.column_stack([np.ones(50), (x - x.mean(0)) / x.std(0)])
    bounds = []
    for k in range(2):
        A = np.eye(3) + z[a == k].T @ z[a == k]
        theta = np.linalg.solve(A, z[a == k].T @ r[a == k])
        bounds.append(z @ theta + 0.7 * np.sqrt(np.einsum("ni,ij,nj->n", z, np.linalg.inv(A), z)))
    assert learner.probabilities(x)[:, 1].tolist() == (bounds[1] > bounds[0]).astype(float).tolist()


def test_other_libraries():
    pytest.importorskip("vowpalwabbit")
    from mabwiser.mab import MAB, LearningPolicy
    from river import linear_model, preprocessing

    w = world(9)
    learners = {
        "vw": L.VowpalWabbit(),
        "river": L.River(preprocessing.StandardScaler() | linear_model.LinearRegression()),
        "mabwiser": L.MABWiser(MAB(arms=[0, 1, 2], learning_policy=LearningPolicy.LinUCB(alpha=1.0))),
        "draws": L.MABWiser(MAB(arms=[0, 1, 2], learning_policy=LearningPolicy.LinTS(alpha=0.5)), draws=5),
    }
    ev = op.replay(log_of(w, batch=w["day"]), learners, estimators=["DML"], reward_model=Ridge())
    for name in learners:
        assert ev[name, "DML"].value > ev.logged.value + 0.1, name


def test_polars_frames_replay_like_pandas_ones():
    polars = pytest.importorskip("polars")
    rng = np.random.default_rng(3)
    df = pd.DataFrame({"x": rng.normal(size=300), "who": rng.choice(["a", "b"], 300), "arm": rng.integers(2, size=300)})
    df["r"], df["p"], df["day"] = (df["arm"] == (df["x"] > 0)) * 1.0, 0.5, np.arange(300) // 50
    roles = {"context": ["x", "who"], "action": "arm", "reward": "r", "propensity": "p", "batch": "day"}
    learners = {"linear": op.learners.LinUCB(), "refitted": op.learners.EpsilonGreedy()}
    both = [
        op.replay(op.BanditLog.from_frame(f, **roles), learners, estimators=["IPW"])
        for f in (df, polars.from_pandas(df))
    ]
    for name in learners:
        assert both[0][name, "IPW"].value == pytest.approx(both[1][name, "IPW"].value, rel=1e-12)


def test_frames_with_text_and_eligible_actions():
    rng = np.random.default_rng(10)
    n = 400
    frame = pd.DataFrame(
        {"city": rng.choice(["a", "b", None], n), "age": rng.normal(size=n), "day": np.arange(n) // 100}
    )
    frame["ad"] = rng.choice(["x", "y"], n)
    frame["r"], frame["p"] = (frame.ad == "x") * 1.0, 0.5
    frame["may"] = [["x", "y"]] * n
    log = op.BanditLog.from_frame(
        frame, context=["city", "age"], action="ad", reward="r", propensity="p", eligible="may"
    )
    for learner in ("linucb", "softmax", "linear-thompson"):
        assert op.replay(log, learner, blocks="day", estimators=["IPW"])["IPW"].value > 0.8

    class Careless:
        def probabilities(self, context):
            return np.full((len(context), 2), 0.5)

        def update(self, *_):
            pass

    with pytest.raises(op.errors.UsageError, match="respects_eligible"):
        op.replay(log, {"careless": Careless()}, blocks="day", estimators=["IPW"])


ERRORS = [
    ({"blocks": None}, "order in time"),
    ({"blocks": 5}, "needs time="),
    ({"blocks": True}, "must be a number"),
    ({"blocks": 1, "time": np.arange(600)}, "between 2"),
    ({"blocks": np.zeros(600)}, "at least 2 blocks"),
    ({"blocks": "day"}, "built from arrays"),
    ({"blocks": np.arange(5)}, "one entry for each"),
    ({"method": "magic", "blocks": np.arange(600) // 100}, "'progressive' or 'rejection'"),
    ({"method": "rejection", "blocks": np.arange(600) // 100}, "order inside a block"),
    ({"method": "rejection", "blocks": np.arange(600) // 100, "time": np.arange(600) // 2}, "same time="),
    ({"method": "rejection", "blocks": np.arange(600) // 100, "time": np.arange(600), "accept": 2.0}, r"\(0, 1\]"),
    ({"method": "rejection", "blocks": np.arange(600) // 100, "time": np.arange(600), "accept": 0.9}, "too large"),
    ({"learners": {}, "blocks": np.arange(600) // 100}, "empty"),
    ({"learners": "linucbb", "blocks": np.arange(600) // 100}, "Did you mean 'linucb'"),
    ({"learners": {"m": Ridge()}, "blocks": np.arange(600) // 100}, "has no probabilities"),
]


@pytest.mark.parametrize(("how", "match"), ERRORS, ids=[m for _, m in ERRORS])
def test_errors_say_what_to_do(how, match):
    w = world(11, n=600)
    with pytest.raises(op.errors.UsageError, match=match):
        op.replay(log_of(w), how.pop("learners", "linucb"), **how, estimators=["IPW"])


def test_logs_that_cannot_be_replayed():
    w = world(12, n=600)
    with pytest.raises(op.errors.UsageError, match="single decisions"):
        op.replay(op.Trajectories.from_arrays([[0, 1]], [[0, 1]], [[0.0, 1.0]]), "linucb", blocks=2)
    unknown = op.BanditLog.from_arrays(w["x"], w["a"], w["r"], batch=w["day"])
    with pytest.raises(op.errors.UsageError, match="this log has none"):
        op.replay(unknown, "linucb", method="rejection")
    assert op.replay(unknown, "linucb", estimators=["DML"], reward_model=Ridge())["DML"].value > 0.4
    users = log_of(w, batch=w["day"], cluster=np.arange(600) % 50)
    with pytest.raises(op.errors.DataError, match="more than one block"):
        op.replay(users, "linucb")


@pytest.mark.verify
@pytest.mark.parametrize("known", [True, False])
def test_progressive_intervals_hold(known):
    """Σ V(π_t)/T is known in a simulated world: 95% intervals hold it in about 95% of 200 logs."""
    held = []
    for seed in range(200):
        w = world(1000 + seed, n=2000, blocks=10)
        log = op.BanditLog.from_arrays(w["x"], w["a"], w["r"], w["p"] if known else None, batch=w["day"])
        learners = {"u": L.LinUCB(), "e": L.EpsilonGreedy()}
        ev = op.replay(log, learners, estimators=["DML"], reward_model=Ridge())
        truth = {}
        for name, learner in learners.items():
            _, values = by_hand(w, L.own.fresh(learner, (0, 1, 2)), Ridge(), blocks=10)
            truth[name] = values.mean()
        d = ev["u", "DML"] - ev["e", "DML"]
        interval = ev["u", "DML"].interval()
        held.append(interval.low <= truth["u"] <= interval.high)
        between = d.interval()
        held.append(between.low <= truth["u"] - truth["e"] <= between.high)
    assert np.mean(held) > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 200)


def test_the_command_line(tmp_path, capsys):
    from offpolicy.cli import main

    w = world(13, n=600)
    frame = pd.DataFrame({"x": w["x"][:, 0], "a": w["a"], "r": w["r"], "p": w["p"], "day": w["day"]})
    frame.to_csv(tmp_path / "log.csv", index=False)
    roles = ["--context", "x", "--action", "a", "--reward", "r", "--propensity", "p", "--blocks", "day"]
    asked = [str(tmp_path / "log.csv"), *roles, "--estimator", "DML", "--learner", "linucb"]
    passed = main(["replay", *asked, "--json", str(tmp_path / "r.json"), "--gate", "value > 0"])
    assert passed == 0
    assert "value by block" in capsys.readouterr().out
    assert '"linucb"' in (tmp_path / "r.json").read_text()
    assert main(["replay", *asked, "--gate", "value > 5"]) in {3, 4}
    assert main(["replay", *asked, "--learner", "nobody"]) == 1
    assert "no learner is called 'nobody'" in capsys.readouterr().err
