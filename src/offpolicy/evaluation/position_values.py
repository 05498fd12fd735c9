"""What a policy earns at each position of its slates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from offpolicy._arguments import checks_arguments
from offpolicy.errors import UsageError

if TYPE_CHECKING:
    from offpolicy.evaluation.result import Evaluation


@checks_arguments
def position_values(ev: Evaluation, policy: str | None = None, level: float = 0.95) -> list[dict[str, Any]]:
    """Value of each position of slates, with intervals that hold together, and what the log earned there.

    Values are by self-normalized weights (SNIPW); ``ev.plot("positions")`` and the report draw them.

    Parameters
    ----------
    policy : str, optional
        Which; may be left out when there is one.
    level : float
        Probability with which all intervals hold.

    Examples
    --------
    >>> import numpy as np, pandas as pd, offpolicy as op
    >>> rng = np.random.default_rng(0)
    >>> frame = pd.DataFrame({"s": np.repeat(np.arange(500), 2), "k": np.tile([1, 2], 500),
    ...                       "item": rng.integers(2, size=1000), "p": 0.5})
    >>> frame["click"] = (rng.random(1000) < 0.2 + 0.3 * frame["item"]) * 1.0
    >>> log = op.Slates.from_frame(frame, slate="s", position="k", context=None, action="item", reward="click",
    ...                            propensity="p")
    >>> ev = op.evaluate(log, op.policies.Fixed(1), estimators=["SNIPW"])
    >>> [(row["position"], abs(row["value"] - 0.5) < 0.1) for row in ev.position_values()]
    [('1', True), ('2', True)]
    """
    from offpolicy._doors import door
    from offpolicy.trust.verdict import policy_name
    from offpolicy.trust.view import View

    name = policy_name(ev, policy)
    rows = door("positions")(View.of(ev.problem, ev.targets[name]), level)
    if not rows:
        raise UsageError("position_values() is for slates with a reward of each slot.")
    return [{"position": row.pop("group"), **row} for row in rows]
