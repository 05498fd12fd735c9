"""The random splits: its spread is said, repetitions have the right error, and no seed can be shopped for."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import offpolicy as op
from offpolicy.trust.gate import check

RNG = np.random.default_rng(0)
CUBIC = make_pipeline(PolynomialFeatures(3), LinearRegression())


def noisy(rng, n=200, effect=0.0):
    x, a = rng.normal(size=(n, 4)), rng.integers(2, size=n)
    r = x[:, 0] + effect * a + rng.normal(size=n)
    return op.BanditLog.from_arrays(x, a, r, np.full(n, 0.5))


def evaluated(log, **how):
    return op.evaluate(log, op.policies.Fixed(1), estimators=["DML"], reward_model=CUBIC, **how)


def test_repetitions_say_how_far_the_estimate_moves():
    e = evaluated(noisy(np.random.default_rng(1)), repeats=4)["DML"]
    assert e.fold_spread == pytest.approx(e.values.std(ddof=1))
    assert any("between random splits" in note for note in e.notes)
    plain = op.evaluate(noisy(np.random.default_rng(1)), op.policies.Fixed(1), estimators=["IPW"], repeats=4)
    assert not any("random splits" in note for note in plain["IPW"].notes)


@pytest.mark.parametrize(("log", "seed"), [(1, 0), (37, 1), (41, 1)])
def test_a_lucky_seed_does_not_pass_a_gate(log, seed):
    ev = evaluated(noisy(np.random.default_rng(log)), seed=seed)
    assert (ev["DML"] - ev.logged).interval().low > 0, "the case is one that looks like a gain"
    result = check(ev, "policy - logged > 0")
    assert result.exit_code == 4
    assert "It passes with one random split but not" in result.sentence


def test_a_real_gain_passes_and_says_that_folds_were_drawn_again():
    result = check(evaluated(noisy(np.random.default_rng(0), 600, 1.0)), "policy - logged > 0")
    assert result.exit_code == 0
    assert "It also passes on average over 7 random splits" in result.sentence


def test_what_a_gate_asks_again_does_not_follow_from_the_seed(monkeypatch):
    """Else a bad learner, whose folds move it by most of a standard error, would pass with some seed."""
    log = noisy(np.random.default_rng(0), 600, 1.0)
    ends = {
        check(evaluated(log, seed=seed), "policy - logged > 0").sentence.split("also passes")[1] for seed in range(3)
    }
    assert len(ends) == 1
    # Of a large log the default seed is the one that counts, and is not asked twice.
    monkeypatch.setattr("offpolicy.trust.gate.MOST_UNITS", 100)
    sentences = [check(evaluated(log, seed=s), "policy - logged > 0").sentence for s in (0, 1)]
    assert "passes too" not in sentences[0]
    assert "It also passes with the splits of the default seed" in sentences[1]


@pytest.mark.parametrize(("log", "seed"), [(37, 1), (41, 1)])
def test_of_a_large_log_another_seed_passes_where_the_default_one_does(log, seed, monkeypatch):
    monkeypatch.setattr("offpolicy.trust.gate.MOST_UNITS", 100)
    ev = evaluated(noisy(np.random.default_rng(log)), seed=seed)
    assert (ev["DML"] - ev.logged).interval().low > 0, "the case is one that looks like a gain"
    result = check(ev, "policy - logged > 0")
    assert result.exit_code == 4
    assert "not with the splits of the default seed" in result.sentence


def test_folds_of_ones_own_are_not_drawn_again():
    log = noisy(np.random.default_rng(0), 600, 1.0)
    ev = evaluated(log, folds=np.arange(600) % 2)
    assert ev.redrawn(5) is None
    assert "random splits" not in check(ev, "policy - logged > 0").sentence


def test_a_column_of_labels_is_not_drawn_again(tmp_path):
    frame = pd.DataFrame({"x": 0.0, "a": [0, 1] * 50, "r": RNG.normal(size=100), "p": 0.5})
    frame["k"] = np.arange(100) // 50
    roles = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p", "fold": "k"}
    frame.to_parquet(tmp_path / "log.parquet")
    for log in (op.BanditLog.from_frame(frame, **roles), op.scan(str(tmp_path / "log.parquet"), **roles)):
        ev = op.evaluate(log, op.policies.Fixed(1), estimators=["DML"])
        assert ev.redrawn(2) is None


def test_added_policies_are_redrawn_too():
    ev = evaluated(noisy(np.random.default_rng(0))).add({"none": op.policies.Fixed(0)})
    again = ev.redrawn(3)
    assert again.policies == ["policy", "none"]
    assert len(again["none", "DML"].rows) == 3


@pytest.mark.parametrize("k", [2, 3, 4, 5])
def test_the_half_sample_scores_a_half_for_any_number_of_folds(k):
    log = noisy(np.random.default_rng(0), 120)
    for folds in (k, np.arange(120) % k):
        ev = op.evaluate(log, op.policies.Fixed(1), estimators=["DR-half"], folds=folds)
        assert abs(ev["DR-half"].n - 60) <= 1
