"""Do 95% intervals cover in the ad world? New logs of the same cells, evaluated by IPW.

No reward model and no estimated probabilities: what is tested is the interval, on scores as skewed
as rarely shown designs make them.
"""

from dataclasses import replace

import numpy as np
import pytest

import offpolicy as op
from offpolicy_studies.ads.config import AdConfig
from offpolicy_studies.ads.estimate import ChoiceTable, counted_log
from offpolicy_studies.ads.simulate import simulate_campaign
from offpolicy_studies.ads.world import make_world

LOGS = 60


def new_logs(world, cell, rng):
    """New logs of a cell whose contexts are those of the old one, and the value they estimate."""
    k, here = len(cell.propensity), cell.present
    share = world.campaigns[cell.campaign].share[here]
    share = share / share.sum()
    mu = world.click_probabilities(cell.campaign, cell.batch)[here]
    value = share @ (cell.choice / cell.draws * mu).sum(axis=1)
    for _ in range(LOGS):
        shown = rng.multinomial(cell.shown.sum(), np.outer(share, cell.propensity).ravel())
        pair = np.flatnonzero(shown)
        context, design = np.divmod(pair, k)
        seen = np.unique(context)
        drawn = replace(
            cell,
            context=here[context],
            design=design.astype(np.uint8),
            shown=shown[pair],
            clicks=rng.binomial(shown[pair], mu.ravel()[pair]),
            present=here[seen],
            choice=cell.choice[seen],
        )
        yield value, drawn


@pytest.mark.verify
def test_normal_intervals_are_short_and_default_ones_are_not():
    world, rng = make_world(AdConfig().scaled(0.1), seed=0), np.random.default_rng(0)
    sizes = tuple(levels for _, levels in world.config.columns)
    inside = {"normal": [], "auto": []}
    for campaign in range(4):
        for cell in simulate_campaign(world, campaign):
            if cell.batch % 4 != 1:
                continue
            for value, drawn in new_logs(world, cell, rng):
                policy = ChoiceTable(world.contexts[drawn.present], sizes, drawn.choice, drawn.draws)
                log = counted_log(world, drawn, 2)
                found = op.evaluate(log, {"cb": policy}, estimators=["IPW"])["cb", "IPW"]
                for method, hits in inside.items():
                    hits.append(found.interval(0.95, method).covers(value))
    coverage = {name: float(np.mean(hits)) for name, hits in inside.items()}
    print(coverage)
    assert 0.86 < coverage["normal"] < 0.94
    assert 0.93 < coverage["auto"] < 0.99
