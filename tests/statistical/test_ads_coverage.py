"""Do 95% intervals cover in the ad world? New logs of the same cells, evaluated by IPW.

No reward model and no estimated probabilities: what is tested is the interval, on scores as skewed
as rarely shown designs make them.
"""

import numpy as np
import pytest

from offpolicy.experiments.ads.config import AdConfig
from offpolicy.experiments.ads.simulate import simulate_campaign
from offpolicy.experiments.ads.world import make_world
from offpolicy.inference.intervals import Sample, automatic, normal

LOGS = 60


def clicked_weights(world, cell, rng):
    """The weights of the clicks of new logs of a cell, and the value they estimate."""
    own, k = world.campaigns[cell.campaign], len(cell.propensity)
    mu = world.click_probabilities(cell.campaign, cell.batch)
    here = cell.present
    share = own.share[here] / own.share[here].sum()
    pi_e = cell.choice / cell.draws
    value = share @ (pi_e * mu[here]).sum(axis=1)
    n = int(cell.shown.sum())
    expected = (n * share[:, None] * cell.propensity * mu[here]).ravel()
    weight = (pi_e / cell.propensity).ravel()
    assert len(weight) == len(here) * k
    cumulative = np.cumsum(expected)
    for _ in range(LOGS):
        clicks = rng.poisson(cumulative[-1])
        at = np.searchsorted(cumulative, rng.random(clicks) * cumulative[-1])
        yield value, n, weight[at]


@pytest.mark.verify
def test_normal_intervals_are_short_and_automatic_ones_are_not():
    world, rng = make_world(AdConfig().scaled(0.1), seed=0), np.random.default_rng(0)
    inside = {"normal": [], "automatic": []}
    for campaign in range(4):
        for cell in simulate_campaign(world, campaign):
            if cell.batch % 4 != 1:
                continue
            for value, n, weights in clicked_weights(world, cell, rng):
                scores = np.append(weights, 0.0)
                count = np.append(np.ones(len(weights)), n - len(weights))
                sample = Sample.of_mean(scores, count)
                for name, interval in (
                    ("normal", normal(sample)),
                    ("automatic", automatic(sample)),
                ):
                    inside[name].append(interval.low <= value <= interval.high)
    coverage = {name: float(np.mean(hits)) for name, hits in inside.items()}
    print(coverage)
    assert 0.86 < coverage["normal"] < 0.94
    assert 0.93 < coverage["automatic"] < 0.99
