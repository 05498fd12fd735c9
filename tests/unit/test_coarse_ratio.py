"""Ratios of cells of actions: the same on every path, the bandit's where cells are single actions, and tested."""

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.errors import DataError, ModelError, UsageError
from offpolicy.evaluation.evidence import largest_weight
from offpolicy.policies.coarse import Cells
from offpolicy.trust import gate
from offpolicy.trust.ratios import COARSE as NAME
from offpolicy.trust.ratios import LEANING

K, STATES = 40, 4
RNG = np.random.default_rng(11)
TILT = RNG.normal(size=(STATES, K))
GENRE = np.array(["rock", "folk", "jazz", "soul", "punk"])[np.arange(K) % 5]
EFFECT = dict(zip(GENRE[:5], [0.2, 0.35, 0.5, 0.3, 0.6], strict=True))


class Soft:
    """π(a | x) ∝ exp(strength · tilt)."""

    def __init__(self, strength):
        self.strength = strength

    def probabilities(self, context):
        p = np.exp(self.strength * TILT[np.asarray(context["x"])])
        return p / p.sum(axis=1, keepdims=True)


def frame_of(n=3000, seed=0, direct=0.0):
    """A log whose rewards follow from the genre, and from the action itself where ``direct`` is not 0."""
    rng = np.random.default_rng(seed)
    x = rng.integers(STATES, size=n)
    p = Soft(0.5).probabilities({"x": x})
    a = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1)
    own = np.array([EFFECT[g] for g in GENRE])
    mean = np.clip(own[a] + 0.03 * x + direct * TILT[x, a], 0.01, 0.99)
    frame = pd.DataFrame({"x": x, "a": a, "r": (rng.random(n) < mean).astype(float), "p": p[np.arange(n), a]})
    return frame.assign(genre=GENRE[a], id=np.arange(n), **{f"p{k}": p[:, k] for k in range(K)})


FRAME = frame_of()
ROLES = {
    "context": ["x"], "action": "a", "reward": "r", "actions": list(range(K)), "id": "id",
    "action_features": ["genre"],
}  # fmt: skip
TARGETS = {"soft": Soft(1.0), "always 7": op.policies.Fixed(7)}
ESTIMATORS = ["DML", "IPW", "SNIPW", "DR-half"]


@pytest.fixture(scope="module")
def parquet(tmp_path_factory):
    path = tmp_path_factory.mktemp("coarse") / "log.parquet"
    FRAME.to_parquet(path)
    return str(path)


def held(way, parquet, **more):
    if way == "frame":
        return op.BanditLog.from_frame(FRAME, **ROLES, **more)
    return op.scan(parquet, **ROLES, **more, way=way, chunk_rows=700)


def answer(log, **more):
    ev = op.evaluate(log, TARGETS, estimators=ESTIMATORS, **{"ratio": op.CoarseRatio(), **more})
    numbers = [x for e in ev.estimates.values() for x in (e.value, e.std_error)]
    checks = [float(ev.diagnostics[t][name]) for t in TARGETS for name in (NAME, LEANING) if name in ev.diagnostics[t]]
    levels = [ev.verdict(t).level for t in TARGETS]
    return numbers, checks, levels, ev.settings["ratio"], ev.assumption


KNOWN = {
    "logged action": {"propensity": "p"},
    "unknown": {},
    "whole distribution": {"propensity": [f"p{k}" for k in range(K)]},
    "logging policy": {"propensity": "p", "behavior_model": Soft(0.5)},
    "policy alone": {"behavior_model": Soft(0.5)},
    "shares": {"behavior_model": "shares"},
    "auto": {"propensity": "p", "behavior_model": Soft(0.5), "ratio": "auto"},
}


@pytest.mark.parametrize("known", KNOWN.values(), ids=KNOWN.keys())
def test_the_same_answer_on_every_path(known, parquet):
    roles = {k: v for k, v in known.items() if k == "propensity"}
    more = {k: v for k, v in known.items() if k != "propensity"}
    first = answer(held("frame", parquet, **roles), **more)
    for way in ("cells", "stream"):
        other = answer(held(way, parquet, **roles), **more)
        np.testing.assert_allclose(other[0], first[0], rtol=1e-9)
        np.testing.assert_allclose(other[1], first[1], rtol=1e-6)
        assert other[2:] == first[2:]


def test_the_largest_weight_of_cells_is_known_on_every_path(parquet):
    bounds = []
    for way in ("frame", "cells", "stream"):
        log = held(way, parquet, propensity=[f"p{k}" for k in range(K)])
        ev = op.evaluate(log, Soft(1.0), estimators=["IPW"], ratio=op.CoarseRatio())
        bounds.append(largest_weight(ev.problem, ev.targets["policy"]))
    assert bounds[0] > 1
    assert bounds == pytest.approx(bounds[:1] * 3, rel=1e-12)


def test_the_whole_distribution_is_the_logging_policy(parquet):
    whole = answer(held("frame", parquet, propensity=[f"p{k}" for k in range(K)]))
    asked = answer(held("frame", parquet, propensity="p"), behavior_model=Soft(0.5))
    np.testing.assert_allclose(whole[0], asked[0], rtol=1e-9)
    array = FRAME[[f"p{k}" for k in range(K)]].to_numpy()
    given = answer(held("frame", parquet), behavior_model=array)
    np.testing.assert_allclose(whole[0], given[0], rtol=1e-9)


def test_weights_have_mean_one_and_are_means_of_exact_ones():
    log = op.BanditLog.from_frame(FRAME, **{**ROLES, "propensity": [f"p{k}" for k in range(K)]})
    ev = op.evaluate(log, Soft(1.0), estimators=["IPW"], ratio=op.CoarseRatio())
    exact = op.evaluate(log, Soft(1.0), estimators=["IPW"])
    assert float(ev.diagnostics["mean_weight"]) == pytest.approx(1, abs=0.02)
    sizes = [float(e.diagnostics["effective_sample_size"]) for e in (ev, exact)]
    assert sizes[0] > sizes[1]


def test_one_action_per_cell_gives_the_numbers_of_the_bandit(monkeypatch):
    """Also where the machinery of cells runs, and is not left out because they are single."""
    from offpolicy.evaluation import answer

    log = op.BanditLog.from_arrays(
        FRAME[["x"]].to_numpy(), FRAME.a, FRAME.r, FRAME.p, actions=range(K),
        action_features=np.arange(K),
    )  # fmt: skip
    pi = Soft(1.0).probabilities(FRAME)
    exact = op.evaluate(log, pi, estimators=ESTIMATORS)
    short = op.evaluate(log, pi, estimators=ESTIMATORS, ratio=op.CoarseRatio(bins=K))
    assert short.problem.cells is None
    own = Cells.of(range(K), ("own",))
    monkeypatch.setattr(answer, "_weighed", lambda ratio, _: (ratio, own))
    long = op.evaluate(log, pi, estimators=ESTIMATORS, ratio=op.CoarseRatio(bins=K))
    assert long.problem.cells is not None
    assert long.problem.weights_known
    for name in ESTIMATORS:
        expected = exact["policy", name]
        for ev in (short, long):
            found = ev["policy", name]
            assert found.value == expected.value
            assert found.interval() == expected.interval()
            assert (found - ev.logged).interval() == (expected - exact.logged).interval()
    of_actions = "learned_from_log"  # looked for where ratios are of actions
    assert [str(f) for f in exact.diagnostics if f.name != of_actions] == [
        str(f) for f in long.diagnostics if f.name not in {"cells", of_actions}
    ]


def test_a_cell_is_at_least_as_likely_as_the_action_that_was_logged():
    lone = np.where(np.arange(K) == 3, "three", GENRE)
    log = op.BanditLog.from_frame(FRAME.assign(genre=lone[FRAME.a]), **ROLES, propensity="p")
    ev = op.evaluate(log, Soft(1.0), estimators=["IPW"], ratio=op.CoarseRatio())
    pi_b = ev.problem.behavior("full", 0).probability
    assert (pi_b >= log.propensity).all()
    np.testing.assert_array_equal(pi_b[log.action == 3], log.propensity[log.action == 3])


def test_more_policies_redrawn_folds_and_another_behavior_keep_the_cells():
    log = op.BanditLog.from_frame(FRAME, **ROLES, propensity="p")
    ev = op.evaluate(log, TARGETS, estimators=["DML"], ratio=op.CoarseRatio())
    more = ev.add({"mild": Soft(0.7)})
    together = op.evaluate(log, {**TARGETS, "mild": Soft(0.7)}, estimators=["DML"], ratio=op.CoarseRatio())
    assert more["mild", "DML"].value == pytest.approx(together["mild", "DML"].value, rel=1e-12)
    other = ev.with_behavior(Soft(0.5))
    direct = op.evaluate(log, TARGETS, estimators=["DML"], ratio=op.CoarseRatio(), behavior_model=Soft(0.5))
    assert other["soft", "DML"].value == pytest.approx(direct["soft", "DML"].value, rel=1e-12)
    assert ev.redrawn(2).problem.cells is not None


# -- the logging policy as behavior_model= ------------------------------------------------------------


def test_a_logging_policy_is_the_propensities_it_agrees_with():
    log = op.BanditLog.from_frame(FRAME, **{**ROLES, "propensity": "p"})
    ev = op.evaluate(log, TARGETS, estimators=["IPW"], behavior_model=Soft(0.5))
    plain = op.evaluate(log, TARGETS, estimators=["IPW"])
    assert ev["soft", "IPW"].value == plain["soft", "IPW"].value
    assert ev.problem.weights_known
    unlogged = op.BanditLog.from_frame(FRAME, **ROLES)
    alone = op.evaluate(unlogged, TARGETS, estimators=["IPW"], behavior_model=Soft(0.5))
    assert alone["soft", "IPW"].value == pytest.approx(plain["soft", "IPW"].value, rel=1e-12)
    assert "given propensities" in alone.assumption


def test_a_logging_policy_that_contradicts_the_log_is_refused():
    log = op.BanditLog.from_frame(FRAME, **ROLES, propensity="p")
    with pytest.raises(DataError, match=r"differ from column 'p'.*row"):
        op.evaluate(log, TARGETS, estimators=["IPW"], behavior_model=Soft(0.6))
    unlogged = op.BanditLog.from_frame(FRAME, **ROLES)
    with pytest.raises(ModelError, match="gives logged actions probability 0"):
        op.evaluate(unlogged, TARGETS, estimators=["IPW"], behavior_model=op.policies.Fixed(7))


# -- the check, the verdict and "auto" ----------------------------------------------------------------


def test_the_check_finds_actions_of_one_cell_that_earn_differently():
    frame = frame_of(n=6000, seed=5, direct=0.12)
    log = op.BanditLog.from_frame(frame, **ROLES, propensity="p")
    lost = op.evaluate(
        log, Soft(1.5), behavior_model=Soft(0.5), estimators=["DML"], ratio=op.CoarseRatio(),
        reward_model=Genre(),
    )  # fmt: skip
    finding = lost.diagnostics[NAME]
    assert finding.level == "alarm"
    assert finding.decides
    assert lost.verdict().level == "insufficient evidence"
    decided = op.evaluate(
        log, Soft(1.5), behavior_model=Soft(0.5), estimators=["DML"], ratio="auto",
        reward_model=Genre(),
    )  # fmt: skip
    assert decided.settings["ratio"] == "exact"
    assert "ratios of cells change the value" in decided.settings["ratio_chosen"]
    exact = op.evaluate(log, Soft(1.5), behavior_model=Soft(0.5), estimators=["DML"], reward_model=Genre())
    assert decided["DML"].value == pytest.approx(exact["DML"].value, rel=1e-12)
    assert finding.details["difference"] == pytest.approx(lost["DML"].value - exact["DML"].value, rel=1e-9)


@pytest.mark.parametrize(("direct", "level"), [(0.0, "ok"), (0.12, "alarm")])
def test_a_deterministic_policy_is_judged_by_what_the_logging_policy_prefers(direct, level):
    frame = frame_of(n=2000, seed=6, direct=direct)
    log = op.BanditLog.from_frame(frame, **ROLES, propensity="p")

    def best(context):
        return TILT[np.asarray(context["x"])].argmin(axis=1)  # seldom logged

    ev = op.evaluate(
        log, best, behavior_model=Soft(0.5), estimators=["DML"], ratio=op.CoarseRatio(),
        reward_model=Genre(),
    )  # fmt: skip
    assert not ev.diagnostics[NAME].ran
    assert ev.diagnostics[LEANING].level == level
    assert ev.verdict().level == ("caution" if level == "ok" else "insufficient evidence")
    # The mean of a leaning, given the context and the cell, is 0: whatever a model says of cells changes nothing.
    p = Soft(0.5).probabilities({"x": np.arange(STATES)})
    cells = op.CoarseRatio().cells(log)
    means = np.zeros((STATES, cells.n))
    for a in range(K):
        means[:, cells.code[a]] += p[:, a] * cells.leaning(p, np.full(STATES, a))
    np.testing.assert_allclose(means, 0.0, atol=1e-12)


class Genre:
    """The mean reward of the rows, whatever the action: all of the direct effect is left to the weights."""

    def fit_reward(self, data, seed):
        from offpolicy.models.rewards.reward import ConstantReward

        return ConstantReward(data.mean())


def test_the_assumption_is_said():
    log = op.BanditLog.from_frame(FRAME, **ROLES, propensity="p")
    ev = op.evaluate(log, Soft(1.0), behavior_model=Soft(0.5), estimators=["DML"], ratio=op.CoarseRatio())
    says = "assumes that actions of one cell (same genre; 5 cells of 40 actions) earn the same"
    assert says in ev.assumption
    assert any(says in reason for reason in ev.verdict().reasons)
    assert says in gate.check(ev, "value > 0").assumption
    assert ev.verdict().level == "trust"
    fitted = op.evaluate(log, Soft(1.0), estimators=["DML"], ratio=op.CoarseRatio())
    assert any("probabilities of cells were fitted" in reason for reason in fitted.verdict().reasons)


def test_where_exact_weights_carry_nothing_the_check_is_not_run():
    log = op.BanditLog.from_frame(FRAME.head(600), **{**ROLES, "propensity": "p"})
    ev = op.evaluate(log, op.policies.Fixed(7), behavior_model=Soft(0.5), estimators=["DML"], ratio="auto")
    assert ev.settings["ratio"].startswith("CoarseRatio")
    assert not ev.diagnostics[NAME].ran
    assert any("fine enough could not be tested" in r for r in ev.verdict().reasons)
    named = op.evaluate(
        log, op.policies.Fixed(7), behavior_model=Soft(0.5), estimators=["DML"],
        ratio=op.CoarseRatio(),
    )  # fmt: skip
    assert any("fine enough could not be tested" in r for r in named.verdict().reasons)


def test_auto_needs_an_exact_ratio():
    log = op.BanditLog.from_frame(FRAME, **ROLES)
    with pytest.raises(UsageError, match="ratio='auto' compares"):
        op.evaluate(log, Soft(1.0), ratio="auto")


def test_a_clean_log_with_clusters_and_batches():
    frame = FRAME.assign(user=FRAME.index // 3, day=FRAME.index % 4)
    log = op.BanditLog.from_frame(frame, **ROLES, propensity="p", cluster="user", batch="day")
    ev = op.evaluate(log, TARGETS, behavior_model=Soft(0.5), estimators=["DML"], ratio=op.CoarseRatio())
    assert ev.diagnostics["soft"][NAME].level in {"ok", "note"}
    assert ev["soft", "DML"].lift(ev.logged).interval().sufficient


def test_every_metric_of_a_log_is_weighted_by_cells(parquet):
    frame = FRAME.assign(cost=1.0 - FRAME.r + 0.1 * FRAME.x)
    roles = {**ROLES, "reward": ["r", "cost"], "propensity": "p"}
    log = op.BanditLog.from_frame(frame, **roles)
    both = op.evaluate(log, Soft(1.0), estimators=["DML"], ratio=op.CoarseRatio()).metric("cost")
    alone = op.BanditLog.from_frame(frame, **{**roles, "reward": "cost"})
    one = op.evaluate(alone, Soft(1.0), estimators=["DML"], ratio=op.CoarseRatio())
    assert both["DML"].value == pytest.approx(one["DML"].value, rel=1e-9)


class ByAction:
    """Predicts the number of what it is told of the action: its cell, or the action itself."""

    def fit_reward(self, data, seed):
        self.seen = len(data.actions)
        return self

    def predict(self, X, codes):
        return np.asarray(codes, dtype=float)


def test_reward_models_are_told_cells_since_weights_of_cells_correct_nothing_within(parquet):
    """E[w(c) q(x, A)] = Σ π_e q only where q is the same for all actions of a cell."""
    log = held("frame", parquet, propensity="p")
    model = ByAction()
    more = {"estimators": ["DML"], "reward_model": model, "behavior_model": Soft(0.5)}
    ev = op.evaluate(log, Soft(1.0), ratio=op.CoarseRatio(), **more)
    assert model.seen == 5
    q = ev.problem.columns["q", "crossfit", 0, ""]
    np.testing.assert_array_equal(q, ev.problem.cells.code[log.action])
    assert not any("between actions of the same cell" in n for n in ev["DML"].notes)
    own = op.evaluate(log, Soft(1.0), ratio=op.CoarseRatio(model="actions"), **more)
    assert model.seen == K
    assert any("between actions of the same cell" in n for n in own["DML"].notes)
    with pytest.raises(UsageError, match="model= must be"):
        op.CoarseRatio(model="both")
