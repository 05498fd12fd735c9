"""`Exact`: weights are ratios of the probabilities of the logged actions themselves."""

from __future__ import annotations

from offpolicy.logs.kinds import Ratio


class Exact(Ratio):
    """π_e(A|x) / π_b(A|x), and nothing has to be summed, smoothed or chosen."""

    @property
    def asked(self) -> str:
        """By name."""
        return "exact"

    @property
    def key(self) -> None:
        """Columns are those of the logged actions."""
        return


EXACT = Exact()
