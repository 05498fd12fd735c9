"""Decisions in a report: the learned tree with its rules, and the bounds of a choice."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from offpolicy._visible import esc
from offpolicy.decide.policies import TreePolicy
from offpolicy.evaluation.shown import Section
from offpolicy.inference.figures import plain
from offpolicy.show.markup import table
from offpolicy.show.sections import figure

if TYPE_CHECKING:
    from offpolicy.decide.learners import Learned
    from offpolicy.decide.select import Selection


def learned_section(learned: Learned) -> Section:
    """The policy, drawn where it is a tree, with its honest value and the one on its own rows."""
    i, own = learned.interval(), learned.value.interval()
    ends = f"95% {plain(i.low)} to {plain(i.high)}"
    honest, naive = plain(learned.value.value), plain(learned.naive.value)
    worth = (
        f"Its honest value is {honest} ({ends}): each row is scored by a policy that was learned without it. "
        f"On the rows it was learned from it is "
        + ("the same." if naive == honest else f"{naive}, which flatters it by {plain(learned.optimism, 2)}.")
    )
    if i.width > own.width:
        worth += (
            " In some rows the policy learned from all rows acts differently from those. Its interval allows for that "
            "and is wider than theirs at the top of this page."
        )
    body = f"<p>{esc(str(learned.policy))}</p>"
    if isinstance(learned.policy, TreePolicy):
        rows = [(str(r["when"]), str(r["action"]), f"{r['rows']:,}") for r in learned.policy.table()]
        rules = table(("When", "Action", "Rows"), rows, caption="The rules of the tree", words=2)
        sql = f"<details><summary>As SQL</summary><pre>{esc(learned.policy.to_sql())}</pre></details>"
        drawing = f'<div style="overflow-x:auto">{learned.policy.drawn()}</div>'
        body = figure("tree", drawing, "The learned tree: left where the answer is yes.", data=rules) + sql
    return Section("learned", "The learned policy", worth, body)


def selection_section(selection: Selection) -> Section:
    """What to adopt, and the bound of every candidate."""
    said = str(selection).splitlines()[-1]
    rows = [
        (c.policy, c.method, c.shown, c.shown_bound if math.isfinite(c.bound) else "none") for c in selection.candidates
    ]
    headings = ("Policy", "Bound by", "Difference to the logging policy", selection.word.capitalize())
    body = table(headings, rows, caption="Bounds that hold together", words=2)
    return Section("adopt", "What to adopt", said, body)
