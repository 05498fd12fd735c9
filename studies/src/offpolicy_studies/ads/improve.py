"""Figure 2's numbers: the counterfactual policy against the logging policy in the last batch.

As in the paper both values are DML with the estimated behavior policy, the logging policy evaluated on its own
log, and the bars are Proposition 1's. The intervals that the library chooses by itself stand beside them.
"""

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
    world: World, earlier: Iterable[AdCell], last: AdCell, log: op.BanditLog, *, training: Training | None = None
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
        DML of both policies (``new``, ``logged``) and their paired ``lift``, each with its value and two 95%
        intervals, ``normal`` (Proposition 1) and ``automatic``; and the true values.
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
    alike = np.broadcast_to(last.propensity, (len(last.present), own.n_designs))
    logging = ChoiceTable(world.contexts[last.present], sizes, alike)
    ev = op.evaluate(
        log,
        {"new": policy, "logging": logging},
        estimators=["DML"],
        reward_model=TunedBoosting(),
        behavior_model="shares",
        seed=world.seed,
    )
    new, logged = ev["new", "DML"], ev["logging", "DML"]
    mu = world.click_probabilities(last.campaign, last.batch)
    truth = float(own.share @ mu[np.arange(len(best)), best])
    return {
        "campaign": last.campaign,
        "rounds": rounds,
        "new": _with_intervals(new),
        "logged": _with_intervals(logged),
        # Without a logged click there is nothing to be relative to.
        "lift": _with_intervals(new.lift(logged)) if logged.value > 0 else None,
        "true_new": truth,
        "true_logged": last.true_logged,
        "true_lift": truth / last.true_logged - 1,
    }


def _with_intervals(estimate: Any) -> dict[str, Any]:
    return {
        "value": float(estimate.value),
        "normal": [float(end) for end in estimate.interval(0.95, "normal")],
        "automatic": [float(end) for end in estimate.interval(0.95)],
    }
