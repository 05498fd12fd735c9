"""Scores of a user's own: what is declared decides how a log reaches them, never the number."""

import numpy as np
import pytest

import offpolicy as op
from offpolicy.scores.decisions import Decisions


def ranked(d):
    """Looks at all weighted rewards at once: those above the 90% quantile are cut off."""
    products = d.rho * d.reward
    return np.minimum(products, np.quantile(products, 0.9))


def linear(d):
    return d.rho * d.reward


@pytest.fixture
def logs():
    """A log of counted rows, and the same log with every row written as often as it counts."""
    rng = np.random.default_rng(0)
    n = 60
    a, r, p = rng.integers(3, size=n), rng.normal(size=n).round(1), rng.uniform(0.2, 0.5, n)
    count, fold, weight = rng.integers(1, 6, n), np.arange(n) % 2, rng.uniform(0.5, 2, n)

    def made(**more):
        picked = more.pop("rows", slice(None))
        parts = (x[picked] for x in (a, r, p, fold, weight))
        a_, r_, p_, fold_, weight_ = parts
        return op.BanditLog.from_arrays(None, a_, r_, p_, fold=fold_, weight=weight_, **more)

    return made(count=count), made(rows=np.repeat(np.arange(n), count))


@pytest.mark.parametrize("split", ["full", "half", "crossfit"])
@pytest.mark.parametrize("options", [{}, {"linear_in_reward": True}, {"whole_log_means": True}], ids=str)
def test_a_counted_log_gives_the_number_of_its_rows(logs, split, options):
    score = linear if options else ranked
    mine = op.Estimator("mine", score, split, {"behavior"}, **options)
    counted, written = (op.evaluate(log, op.policies.Uniform(), estimators=[mine])["mine"] for log in logs)
    assert counted.n == written.n
    assert counted.value == pytest.approx(written.value, rel=1e-12)
    assert counted.std_error == pytest.approx(written.std_error, rel=1e-12)


def test_the_number_would_be_another_one_with_cells_for_units(logs):
    wrong = op.Estimator("wrong", ranked, "full", {"behavior"}, takes_counts=True)
    counted, written = (op.evaluate(log, op.policies.Uniform(), estimators=[wrong])["wrong"] for log in logs)
    assert counted.value != pytest.approx(written.value, rel=1e-6)


def test_unfolded_decisions_have_the_same_means():
    from offpolicy.logs.layout import Layout

    x, count = np.array([1.0, 2.0, 5.0]), np.array([2.0, 1.0, 3.0])
    d = Decisions(Layout.single(3), x, x, x, x, x, weight=count * 0.5, count=count)
    every = d.unfolded()
    assert every.n == every.size == d.size == 6
    assert every.reward.tolist() == [1, 1, 2, 5, 5, 5]
    assert every.mean(every.reward) == pytest.approx(d.mean(d.reward))
