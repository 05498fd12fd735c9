"""The coverage battery: worlds with the values they claim, a quick run, and what its table says."""

import numpy as np
import pytest

from offpolicy.errors import UsageError
from offpolicy_studies.coverage import bandits, study, summary
from offpolicy_studies.coverage.worlds import QUICK, WORLDS


def test_there_are_enough_worlds_of_every_kind():
    kinds = [type(w).__name__ for w in WORLDS.values()]
    assert len(WORLDS) >= 30
    assert min(kinds.count(k) for k in ("Episodes", "Adaptive", "RareArm")) >= 2
    assert set(QUICK) <= set(WORLDS)
    assert sum(w.easy for w in WORLDS.values()) >= 10
    # The command line separates names by commas.
    assert not any("," in name for name in WORLDS)


# Worlds in which the weights are light enough for a mean over few draws to be close to its expectation.
LIGHT = [
    name
    for name, w in WORLDS.items()
    if not any(word in name for word in ("hardly", "heavy", "poor", "far", "long", "rare", "11 steps"))
    and getattr(w, "known", True)
    and getattr(w, "propensities", "") not in {"shares", "classifier"}
    and getattr(w, "model", "") != "auto"
]


@pytest.mark.parametrize("name", LIGHT)
def test_weighted_rewards_average_to_the_stated_value(name):
    rng = np.random.default_rng(7)
    means = []
    for _ in range(30):
        drawn = WORLDS[name].draw(rng)
        log = drawn.log
        if log.kind == "trajectories":
            ratio = drawn.policy.probabilities(log.context.table[log.context.index])
        elif isinstance(drawn.policy, np.ndarray):
            ratio = drawn.policy
        else:
            ratio = drawn.policy.bind(log.actions).probabilities(np.empty((len(log.action), 0)))
        ratio = ratio[np.arange(len(log.action)), log.action] / log.propensity
        if log.kind == "trajectories":
            steps = log.horizon
            rho = np.cumprod(ratio.reshape(-1, steps), axis=1)
            means.append((rho * log.reward.reshape(-1, steps)).sum(axis=1).mean())
        else:
            means.append((ratio * log.reward).mean())
    error = np.std(means, ddof=1) / np.sqrt(len(means))
    assert abs(np.mean(means) - drawn.truth) < 4 * error


def test_a_cluster_effect_leaves_binary_rates_alone():
    rng = np.random.default_rng(0)
    n = 200_000
    effect = 0.7 * rng.standard_normal(20_000)[rng.integers(20_000, size=n)]
    reward = bandits.noisy("binary", np.full(n, 0.3), effect, rng)
    assert reward.mean() == pytest.approx(0.3, abs=0.01)


def test_the_quick_battery_reports_every_cell():
    result = study.reproduce(study.Args(replications=2, quick=True, workers=1))
    assert set(result["worlds"]) == set(QUICK)
    text = study.show(result)
    assert text.count("| rare arm / 1000 rows |") == 1 + 2 * len(study.BANDIT)
    assert "batch-pooled" in text
    assert "Below 94% among answered" in text


def test_worlds_are_found_by_the_beginning_of_their_names():
    chosen = study._chosen(study.Args(worlds=("rare arm",)))
    assert chosen == ["rare arm / 1000 rows", "rare arm / 5000 rows"]
    with pytest.raises(UsageError, match="no world is called"):
        study._chosen(study.Args(worlds=("rare leg",)))


def rows(covered, level, error=0.1):
    return {
        "auto": {
            "error": error,
            "se": 0.1,
            "level": level,
            "chosen": "normal",
            "intervals": {"auto": [float(covered), 0.4]},
        }
    }


def test_refused_results_do_not_count_as_covered_or_missed():
    found = [rows(True, "trust")] * 95 + [rows(False, "caution")] * 5
    found += [rows(False, "insufficient evidence")] * 100
    world = summary.summarize(found)["auto"]
    assert world["refused"].value == 0.5
    assert world["intervals"]["auto"]["kept_coverage"].value == 0.95
    assert world["intervals"]["auto"]["coverage"].value == 0.475
    assert summary.meets({"easy": False, "estimators": {"auto": world}}) == (True, True)
    assert summary.meets({"easy": True, "estimators": {"auto": world}}) == (True, False)


def test_a_clear_miss_is_named():
    found = [rows(True, "trust")] * 160 + [rows(False, "trust")] * 40
    world = {"easy": True, "estimators": summary.summarize(found)}
    assert summary.meets(world) == (False, True)
    text = summary.markdown({"bad world": world})
    assert "more than two Monte Carlo errors: bad world." in text


def test_the_default_alone_sees_the_same_logs():
    both = [
        study.reproduce(study.Args(replications=3, worlds=("60 rows / cont",), workers=1, default_only=alone))[
            "worlds"
        ]["60 rows / continuous"]["estimators"]["auto"]
        for alone in (True, False)
    ]
    assert both[0]["rmse"] == pytest.approx(both[1]["rmse"])
    assert both[0]["refused"] == both[1]["refused"]
