"""The episode study: its plain-numpy baselines against the library, its worlds against simulation."""

import numpy as np
import pytest

import offpolicy as op
from offpolicy.errors import UsageError
from offpolicy_studies.episodes.baselines import fitted_q, importance_sampling
from offpolicy_studies.episodes.cart import EPISODES, Cart
from offpolicy_studies.episodes.clinic import clinic
from offpolicy_studies.episodes.outcomes import softmax
from offpolicy_studies.episodes.study import Args, Cell, cells, replicate, show, summarize
from offpolicy_studies.episodes.worlds import WORLDS, problem


def test_plain_numpy_and_the_library_agree():
    p = problem("clinic, near target")
    log = p.draw(300, np.random.default_rng(0), propensities=True)
    ev = op.evaluate(log, p.target, estimators=["TIS", "WIS", "IPW", "SNIPW", "DM"])
    plain = importance_sampling(log, np.asarray(ev.problem.columns["pi_e", "policy"]))
    for name, other in (("IS", "TIS"), ("WIS", "WIS"), ("PDIS", "IPW"), ("PDWIS", "SNIPW")):
        assert plain[name] == pytest.approx(ev[other].value, rel=1e-9)
    # Pairs that were never seen are filled differently.
    assert fitted_q(log, p.target) == pytest.approx(ev["DM"].value, abs=0.05)


def test_values_of_worlds_are_those_of_simulated_episodes():
    world = clinic()
    pi = softmax(world.optimal(), 0.3)
    assert world.shape == (144, 4)
    np.testing.assert_allclose(world.chance.sum(axis=2), 1.0)
    log = world.simulate(pi, 20_000, np.random.default_rng(1), propensities=True)
    total = log.layout.sum(log.reward)
    assert total.mean() == pytest.approx(world.value(pi), abs=4 * total.std() / np.sqrt(20_000))


def test_the_value_of_a_cart_is_known_far_better_than_a_log_estimates_it():
    cart = Cart()
    log = cart.simulate(4_000, np.random.default_rng(1), propensities=False, slope=1.5)
    length = log.layout.sum(np.ones(log.rows))
    # One log of the study has 300 episodes and a standard error of 1.9.
    assert length.std() / np.sqrt(EPISODES) < 0.03 * 1.9
    error = np.hypot(length.std() / np.sqrt(4_000), length.std() / np.sqrt(20_000))
    assert length.mean() == pytest.approx(cart.value(20_000), abs=4 * error)


@pytest.mark.parametrize("name", ["clinic, near target", "published cliff", "chain, 10 steps"])
def test_true_ratios_have_mean_one_at_every_step(name):
    p = problem(name)
    log = p.draw(4_000, np.random.default_rng(3), propensities=True)
    assert p.ratios is not None
    ratio = p.ratios(log)
    first, running = (log.layout.step == t for t in (0, 4))
    assert ratio[first].mean() == pytest.approx(1.0, abs=4 * ratio[first].std() / np.sqrt(4_000))
    if running.sum() == log.n:  # nobody has ended: the target's share of running episodes is 1
        assert ratio[running].mean() == pytest.approx(1.0, abs=4 * ratio[running].std() / 60)
    earned = log.layout.sum(ratio * log.reward)
    assert earned.mean() == pytest.approx(p.truth, abs=4 * earned.std() / np.sqrt(4_000))


def test_cells_are_worlds_with_known_and_estimated_propensities():
    both = cells(Args(worlds=("clinic, near",)))
    assert len(both) == 4
    # As the command line gives it, which splits at commas.
    assert cells(Args(worlds=("clinic near",))) == both
    assert len(cells(Args())) == 2 * len(WORLDS)
    assert len(cells(Args(worlds=("wilder",), behavior="known"))) == 1
    with pytest.raises(UsageError, match="no world is called 'clinc'"):
        cells(Args(worlds=("clinc",)))


def test_a_replication_and_its_summary():
    made = replicate(Cell("clinic, near target", known=True), np.random.default_rng(2))
    assert set(made) == {
        "auto",
        "DML",
        "DRL",
        "WDR",
        "MAGIC",
        "DM",
        "DRL, true ratios",
        "fitted Q",
        "IS",
        "WIS",
        "PDIS",
        "PDWIS",
        "SNIPW",
    }
    summary = summarize([made], problem("clinic, near target").truth, 1_000)
    assert summary["answerable"] in {0, 1}
    text = show({"cells": {"clinic, π_b known": summary}})
    assert "| clinic | 1,000 | 1 | 0.2025 |" in text
    assert "MAGIC, π_b known" in text
    exact = {"auto": [1.0, 0.1, 0.8, 1.2, "trust"], "IS": [2.0]}
    far = {"auto": [3.0, 0.1, 2.8, 3.2, "caution"], "IS": [0.0]}
    refused = {"auto": [9.0, 0.1, None, None, "insufficient evidence"], "IS": [1.0]}
    found = summarize([exact, far, refused], 1.0, 10)["estimators"]["auto"]
    assert found["coverage"] == 0.5
    assert found["beyond_four"] == 1
    assert found["refused"] == pytest.approx(1 / 3)
