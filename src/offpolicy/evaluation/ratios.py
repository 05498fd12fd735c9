"""What a user passes as ``ratio=``: whose probabilities the importance weights are ratios of."""

from __future__ import annotations

from typing import Any

from offpolicy.errors import UsageError

EXACT = "exact"


def as_ratio(ratio: Any, log: Any) -> Any:
    """Resolve ``ratio=`` against a log: None for the ratio of the logged action itself, else what the object makes.

    An object with ``for_log(log)`` is asked once, before any model is fitted, and refuses logs it is not for.
    """
    if isinstance(ratio, str) and ratio == EXACT:
        return None
    if isinstance(ratio, type):
        raise UsageError(
            f"ratio= is the class {ratio.__name__}. Give an instance: {ratio.__name__}(…)."
        )
    if hasattr(ratio, "for_log"):
        return ratio.for_log(log)
    raise UsageError(f"ratio= must be 'exact' or a ratio of offpolicy. Got {ratio!r} instead.")


def described(ratio: Any) -> str:
    """A ratio in the settings of a result."""
    return ratio if isinstance(ratio, str) else repr(ratio)
