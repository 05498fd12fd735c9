"""Figure 2's numbers: the counterfactual policy against the logging policy in the last batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy_studies.ads.counterfactual import Training, best_designs, pooled
from offpolicy_studies.ads.estimate import ChoiceTable
from offpolicy_studies.ads.reward import TunedBoosting

if TYPE_CHECKING:
    from collections.abc import Iterable

    from offpolicy_studies.ads.simulate import AdCell
    from offpolicy_studies.ads.world import World


def improvement(
    world: World,
    earlier: Iterable[AdCell],
    last: AdCell,
    log: op.BanditLog,
    *,
    training: Training | None = None,
) -> dict[str, Any]:
    """Train on the earlier batches of a campaign and evaluate by DML on the last one.

    Parameters
    ----------
    world : World
        The platform.
    earlier : iterable of AdCell
        The campaign's batches before the last.
    last : AdCell
        The batch evaluated on.
    log : BanditLog
        Its multi-armed log.
    training : Training, optional
        How the click model is trained.

    Returns
    -------
    dict
        Estimates with 95% intervals for both policies, their paired lift, and the true values.
    """
    own = world.campaigns[last.campaign]
    pairs = pooled(earlier, len(world.contexts), own.n_designs)
    best, rounds = best_designs(
        pairs,
        world.contexts,
        np.arange(len(world.contexts), dtype=np.int32),
        own.n_designs,
        seed=world.seed,
        training=training or Training(),
    )
    sizes = tuple(levels for _, levels in world.config.columns)
    chosen = np.eye(own.n_designs, dtype=np.uint8)[best[last.present]]
    policy = ChoiceTable(world.contexts[last.present], sizes, chosen)
    ev = op.evaluate(
        log,
        {"new": policy},
        estimators=["DML"],
        reward_model=TunedBoosting(),
        behavior_model="shares",
        seed=world.seed,
    )
    new, logged = ev["new", "DML"], ev.logged
    mu = world.click_probabilities(last.campaign, last.batch)
    truth = float(own.share @ mu[np.arange(len(best)), best])
    return {
        "campaign": last.campaign,
        "rounds": rounds,
        "new": _with_interval(new),
        "logged": _with_interval(logged),
        # Without a logged click there is nothing to be relative to.
        "lift": _with_interval(new.lift(logged)) if logged.value > 0 else None,
        "true_new": truth,
        "true_logged": last.true_logged,
        "true_lift": truth / last.true_logged - 1,
    }


def _with_interval(estimate: Any) -> list[float]:
    low, high = estimate.interval(0.95)
    return [estimate.value, float(low), float(high)]
