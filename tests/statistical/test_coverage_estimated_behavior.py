"""Standard errors with an estimated behavior policy: right for DML with a good model, else conservative.

With shares in place of π_b the influence function is the score less its mean given the action, plus its mean:
the residual on the scores of the share model. What the library reports is the plain variance of the score,
which is larger; both are compared here with the spread over simulated logs.
"""

import numpy as np
import pytest

import offpolicy as op
from offpolicy_studies.coverage.bandits import Bandit

REPLICATIONS = 400


def simulated(world, names):
    """{estimator: (errors, reported standard errors, standard errors of the projected score)}."""
    rows = {name: [] for name in names}
    for i in range(REPLICATIONS):
        drawn = world.draw(np.random.default_rng([31, i]))
        ev = op.evaluate(drawn.log, drawn.policy, estimators=names, seed=i, **drawn.models)
        for name in names:
            e = ev[name]
            psi, action = e.psi[0], drawn.log.action
            means = np.bincount(action, weights=psi) / np.bincount(action)
            left = (psi - means[action]).std() / np.sqrt(len(psi))
            rows[name].append((e.value - drawn.truth, e.std_error, left))
    return {name: np.array(r).T for name, r in rows.items()}


def test_shares_with_a_weak_model_are_conservative_by_what_the_projection_says():
    found = simulated(Bandit(n=600, propensities="shares", model="weak"), ["IPW", "IPW-cf", "DML"])
    for name, (error, reported, projected) in found.items():
        spread = error.std()
        assert reported.mean() / spread > 1.05, name
        assert projected.mean() < 0.9 * reported.mean(), name
        assert (np.abs(error) < 1.96 * reported).mean() > 0.94, name
    for name in ("IPW", "IPW-cf"):
        error, _, projected = found[name]
        assert projected.mean() / error.std() == pytest.approx(1, abs=0.1), name


@pytest.mark.parametrize(
    "world",
    [Bandit(n=600, propensities="shares"), Bandit(n=1000, propensities="classifier", overlap="logistic")],
    ids=["shares", "logistic"],
)
def test_dml_with_a_good_model_has_the_right_standard_error(world):
    error, reported, _ = simulated(world, ["DML"])["DML"]
    assert reported.mean() / error.std() == pytest.approx(1, abs=0.12)
    assert 0.915 < (np.abs(error) < 1.96 * reported).mean() < 0.98
