"""The part of a report about algorithms that learn: what each has earned so far, block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from offpolicy._document import Axis, Mark, Paragraph, Picture, Table
from offpolicy._doors import door
from offpolicy.inference.figures import count
from offpolicy.policies.target import LOGGING_POLICY
from offpolicy.show.parts import Part, per_unit, span

if TYPE_CHECKING:
    from offpolicy._document import Block
    from offpolicy.show.parts import Subject

MOST = 60  # blocks of a picture


def learning(s: Subject) -> list[Block]:
    """The mean over all blocks up to each, with its band, beside the logged one."""
    made = s.ev.replayed
    if made is None or len(made.blocks) < 2:
        return []
    curve = door("learning curve")(s.ev, level=s.level)
    own, logged = (curve[curve.policy == name] for name in (s.policy, LOGGING_POLICY))
    shown = np.unique(np.linspace(0, len(own) - 1, min(len(own), MOST)).round().astype(int))
    rows = [
        {
            "group": str(mine.block), "value": mine.so_far, "low": mine.so_far_low, "high": mine.so_far_high,
            "inside": mine.value, "logged": theirs.so_far, "n": mine.n,
        }
        for mine, theirs in zip(own.iloc[shown].itertuples(), logged.iloc[shown].itertuples(), strict=True)
    ]  # fmt: skip
    table = Table.of(
        rows,
        [("Block", "group", str), ("In the block", "inside", "{:.4g}".format), ("So far", "value", "{:.4g}".format),
         (s.interval, "low high", span), ("Logged so far", "logged", "{:.4g}".format), ("Rows", "n", count)],
        f"What {s.policy} earned block by block",
    )  # fmt: skip
    picture = Picture(
        "learning",
        rows,
        [
            Mark("band"),
            Mark("line", y="logged", color="logged", is_dashed=True),
            Mark("line", y="value"),
            Mark("point", y="inside", color="soft"),
        ],
        "The mean of all blocks up to each with its interval, the value of each block, and the logged mean so far.",
        Axis("block"),
        Axis.over(rows, "low high value inside logged", per_unit(s.ev)),
        table,
        ticks="group",
        legend=(("accent", "so far, with its interval"), ("soft", "in the block"), ("logged", "logged so far")),
    )
    return [Paragraph(_about(s), "about"), picture]


def _about(s: Subject) -> str:
    made = s.ev.replayed
    if made.method == "progressive":
        return (
            f"Block {made.burn_in} only trained. The policy of each later block was learned from the blocks before it, "
            "and its rows are scored without having been seen."
        )
    return (
        f"It made {made.steps[s.policy]:,} decisions of its own: each row was accepted with probability "
        f"{made.accept:.3g} on average, and it learned from accepted rows only. Every row is scored by the policy of "
        "its moment."
    )


PARTS = (
    Part(
        "learning",
        "What it earns as it learns",
        "A line that rises says that the algorithm gains from what it sees.",
        learning,
        nothing="the policies do not learn",
        shown=frozenset(("page", "json")),
    ),
)
