"""Tasks are frozen: the digests of their first logs, and truths that can be had another way."""

import numpy as np
import pytest

from offpolicy_bench.task import FIELDS, SIZES, digest
from offpolicy_bench.tasks import TASKS, sepsis
from offpolicy_bench.tasks.bandits import POOLS, pool

DIGESTS = {
    "clicks": "3cd458a91744b541",
    "money": "f751859c8e7885c3",
    "rare-arm": "9f5c11a18625d7ec",
    "unknown-linear": "e17564e3ff2314aa",
    "unknown-nonlinear": "9189e2b66cdf06ea",
    "adaptive": "3a2bdd1ccc78b0bc",
    "clusters": "da0369e859300030",
    "difference": "e6022433d4b2afc2",
    "many-actions": "9149efee0ccb87ab",
    "slates": "ca90dee99f3a1784",
    "doses": "b4f242ef907e8711",
    "prices": "b164d801ff946e52",
    "episodes-tabular": "255494596fac6d88",
    "episodes-continuous": "0c7691f125d420ff",
    "sepsis": "b751ab46838943de",
    "corrupted-values": "7290cf151de17822",
    "corrupted-propensities": "3a5639d09036b698",
    "no-overlap": "2eb1cbdb357eb137",
    "heavy-tails": "2a2462a5002bc2e3",
}
#: Their policies are learned: other versions of the learners may choose otherwise in a few contexts.
LEARNED = {"delta-1": "f4bb9c9f0ec2cba0", "delta-2": "6248563dcf323236", "delta-4": "c688bf975a59d390"}
WITHOUT_DATA = [name for name, task in TASKS.items() if not task.data]


def test_there_are_enough_tasks():
    assert len(TASKS) >= 14
    assert all(set(task.rows) == set(SIZES) and task.kind in FIELDS for task in TASKS.values())


@pytest.mark.parametrize("name", [n for n in WITHOUT_DATA if n != "sepsis" and n not in LEARNED])
def test_logs_are_frozen(name):
    """Whoever changes a generator makes another task: give it another name."""
    drawn = TASKS[name].log("quick", 0, None)
    assert digest(drawn.arrays) == DIGESTS[name]
    assert (drawn.truth is None) == TASKS[name].refuse
    again = TASKS[name].log("quick", 0, None)
    assert all(np.array_equal(drawn.arrays[k], again.arrays[k], equal_nan=True) for k in drawn.arrays)


@pytest.mark.parametrize("name", sorted(LEARNED))
def test_logs_of_learned_policies_are_frozen_but_for_the_policies(name):
    arrays = TASKS[name].log("quick", 0, None).arrays
    assert digest({k: arrays[k] for k in ("context", "action", "reward", "propensity")}) == LEARNED[name]
    for policy in ("target", "baseline"):
        np.testing.assert_array_equal(arrays[policy].sum(axis=1), 1.0)
    assert 0.1 < (arrays["target"] != arrays["baseline"]).any(axis=1).mean() < 0.9


def test_a_file_that_is_not_the_frozen_one_is_refused(tmp_path):
    task = TASKS["routing"]
    assert "--data" in task.missing(None)
    assert "--data" in task.missing(tmp_path)
    (tmp_path / "router").mkdir()
    (tmp_path / "router" / "router_mmlu.csv.gz").write_bytes(b"other")
    assert "SHA-256" in task.missing(tmp_path)


@pytest.mark.parametrize("name", sorted(POOLS))
def test_policies_of_pools_are_distributions(name):
    here = pool(name)
    for pi in (here.logging, here.target):
        np.testing.assert_allclose(pi.sum(axis=1), 1)
        assert (pi >= 0).all()


@pytest.mark.parametrize("name", ["clicks", "money", "clusters", "adaptive", "episodes-tabular", "episodes-continuous"])
def test_truths_agree_with_weighted_logs(name):
    """Importance weighting of many small logs finds the truth within five standard errors."""
    values = []
    for i in range(40):
        drawn = TASKS[name].log("quick", i, None)
        log = drawn.arrays
        w = log["target"][np.arange(len(log["action"])), log["action"]] / log["propensity"]
        if "length" not in log:
            values.append((w * log["reward"]).mean())
            continue
        steps = int(log["horizon"])
        rho = w.reshape(-1, steps).cumprod(axis=1)
        values.append((rho * log["reward"].reshape(-1, steps)).sum(axis=1).mean())
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    assert abs(np.mean(values) - drawn.truth) < 5 * error


@pytest.mark.verify
def test_sepsis_has_the_published_values():
    """Tang and Wiens: V* over the infinite horizon, and the logging policy's value over twenty steps."""
    paid, v = sepsis.outcomes(), np.zeros(sepsis.STATES)
    for _ in range(3_000):
        v = np.where(paid != 0, paid, (sepsis.DISCOUNT * sepsis.ahead(v)).max(axis=1))
    assert sepsis.initial() @ v == pytest.approx(0.6775418119, abs=1e-9)
    logging, _ = sepsis.policies()
    v = np.zeros(sepsis.STATES)
    for _ in range(sepsis.STEPS):
        v = (logging * sepsis.DISCOUNT * sepsis.ahead(np.where(paid != 0, paid, v))).sum(axis=1)
    assert sepsis.initial() @ v == pytest.approx(0.2503835479385116, abs=1e-9)
    assert digest(TASKS["sepsis"].log("quick", 0, None).arrays) == DIGESTS["sepsis"]


def test_a_step_of_the_sepsis_simulator_follows_its_factors():
    """Next states that were drawn have the probabilities that values are computed from."""
    rng = np.random.default_rng(0)
    state, action = 700, 5
    drawn = sepsis._next(np.full(20_000, state), np.full(20_000, action), rng)
    value = rng.normal(size=sepsis.STATES)
    expected = sepsis.ahead(value)[state, action]
    error = value[drawn].std() / np.sqrt(len(drawn))
    assert abs(value[drawn].mean() - expected) < 5 * error
