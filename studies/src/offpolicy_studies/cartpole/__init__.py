"""Pixel CartPole: Table 1 of the paper (section 5.1), from the Q-network to the printed table."""

from __future__ import annotations

from offpolicy_studies.cartpole.study import Args, Results, reproduce

__all__ = ["Args", "Results", "reproduce"]
