"""`Slates`: rankings and other lists of items shown together, as episodes whose steps are the slots.

The state of a slot is the context, its position and the items above; its action is the item. ``interaction`` says which
slots a reward depends on, from which the weights follow (`offpolicy.logs.interaction`): IPW then is what the literature
calls IIPS (independent), RIPS (cascade) or SIPS (full), and DML is cascade-DR.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np

from offpolicy._arguments import checks_arguments, takes
from offpolicy._arrays import picked, read_only
from offpolicy._visible import printable
from offpolicy.errors import DataError, UsageError, check_choice, check_count
from offpolicy.logs.columns import NOT_GIVEN
from offpolicy.logs.frame import Context, with_categories
from offpolicy.logs.interaction import (
    Candidates,
    Interaction,
    check_paid,
    one_reward,
    repeats_items,
    shown_items,
    without_above,
)
from offpolicy.logs.kinds import space_of
from offpolicy.logs.layout import Layout
from offpolicy.logs.outcome import with_outcomes
from offpolicy.logs.reader import read, settled
from offpolicy.logs.roles import SLATES, Roles, UnitRoles
from offpolicy.logs.steps import Steps, elsewhere, some_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from offpolicy._arrays import Array, Bools, Floats, Ints
    from offpolicy.logs.actions import Label
    from offpolicy.logs.link import Link

UNDECIDED = "auto"
ALONE = Interaction("cascade", np.ones((1, 1), dtype=bool))


@dataclass(frozen=True, eq=False)
class Slates(Steps):
    """A log of slates. Build it with `from_frame`.

    Attributes
    ----------
    interaction : Interaction
        Which slots the reward of each depends on.
    slot_reward : (S,) array
        Rewards as they were logged.
    bare : Context
        Context and position of each slot, without the items of others.
    allowed : (S, K) bool array or None
        Candidates of each slot, where they were given.
    positions : tuple of int
        The numbers of the slots, as logged.
    distinct : bool
        Whether no slate shows an item twice, so that an item above cannot be chosen again.
    undecided : bool
        Whether the interaction is to be chosen when the log is evaluated.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"request": [1, 1, 2, 2], "pos": [1, 2, 1, 2], "item": ["a", "b", "b", "a"],
    ...                       "click": [0, 1, 1, 0], "p": [0.5, 1.0, 0.5, 1.0]})
    >>> log = Slates.from_frame(frame, slate="request", position="pos", context=None, action="item", reward="click",
    ...                         propensity="p")
    >>> log
    Slates(2 slates, 4 slots, at most 2 each, 2 distinct items, cascade, mean reward 1, propensities logged)
    >>> log.context.native([1])["item_1"].tolist()
    ['a']
    """

    interaction: Interaction = ALONE
    slot_reward: Floats = NOT_GIVEN
    bare: Context = NOT_GIVEN
    allowed: Bools | None = None
    positions: tuple[int, ...] = ()
    distinct: bool = False
    reward_of: str = "slot"
    kind: ClassVar[str] = "slates"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (("slot_reward", self.reward), ("bare", self.context)):
            if getattr(self, name) is NOT_GIVEN:
                object.__setattr__(self, name, value)
        for name in ("slot_reward", "allowed"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    @printable
    def __repr__(self) -> str:
        known = "logged" if self.propensity is not None else "unknown"
        items = "distinct items" if self.distinct else "items"
        earned = self.layout.sum(self.reward) + self.layout.surplus(self.reward)
        mean = f"{float(np.average(earned, weights=self.weight)):.6g}" if not self.outcomes else "seen in part"
        return (
            f"Slates({self.n:,} slates, {self.rows:,} slots, at most {self.horizon} each, {len(self.actions)} {items}, "
            f"{UNDECIDED if self.undecided else self.interaction.name}, mean reward "
            f"{mean}, propensities {known})"
        )

    def estimand(self, discount: float = 1.0) -> str:
        """Which value estimates from this log are about, and what is assumed for it."""
        return f"value per slate of up to {self.horizon} slots, where {self.interaction.says}"

    @property
    def own_context(self) -> Context:
        """What was logged before each slot, without the items of others."""
        return self.bare

    def sent(self, passes: Any) -> Slates:
        """As any log, without what slots earned."""
        made = super().sent(passes)
        return replace(made, slot_reward=np.empty(0), bare=made.context, allowed=None)

    def with_levels(self, levels: dict[str, list[Any]]) -> Slates:
        """The same slates with all values of their text columns."""
        return replace(super().with_levels(levels), bare=replace(self.bare, levels=levels))

    @property
    def policy_context(self) -> Context:
        """What policies see of a slot."""
        return self.context if self.interaction.shows_above else self.bare

    @property
    def excludes_above(self) -> bool:
        """Whether the items above are no candidates, as when items are drawn without replacement."""
        return self.distinct and self.interaction.due is not None

    def up_to(self, steps: int) -> Slates:
        """Refused: the value of the first slots is that of a log in which the others earn nothing."""
        raise UsageError(
            f"horizon={steps!r} is for episodes. To value only the first slots of a slate, set the rewards of the "
            "others to 0."
        )

    def _pick(self, units: Array, rows: Ints, layout: Layout) -> Slates:
        streamed = self.passes is not None
        whole = replace(self, eligible=None) if streamed else self
        made: Slates = replace(
            Steps._pick(whole, units, rows, layout),  # noqa: SLF001
            slot_reward=self.slot_reward[rows],
            bare=some_rows(self.bare, rows),
            allowed=picked(self.allowed, rows),
        )
        return made.assuming(self.interaction) if streamed else made

    def _as_this(self, block: Any) -> Any:
        block = block.with_reward(self.names.reward)
        if block.interaction.name == "mask" or block.interaction.name != self.interaction.name:
            block = block.assuming(self.interaction)
        return self._passes.coded(block)

    @property
    def metrics(self) -> dict[str, Floats]:
        """Every reward by its name, as logged at the slots."""
        return {self.names.reward: self.slot_reward, **self.further}

    def with_reward(self, name: str) -> Slates:
        """The same slates with another of their metrics as the reward."""
        changed = super().with_reward(name)
        if changed is self:
            return self
        bare = replace(changed, slot_reward=changed.reward)
        return replace(bare, **bare._paid(self.interaction))  # noqa: SLF001

    def with_rewards(self, rewards: Mapping[str, Floats]) -> Slates:
        """The same slates with other numbers for some of their metrics, paid where the interaction says."""
        changed = super().with_rewards(rewards)
        bare = replace(changed, slot_reward=rewards.get(self.names.reward, self.slot_reward))
        return replace(bare, **bare._paid(self.interaction))  # noqa: SLF001

    def assuming(self, interaction: Any) -> Slates:
        """The same slates under another interaction: its states, weights and rewards.

        >>> import pandas as pd
        >>> frame = pd.DataFrame({"s": [1, 1], "k": [0, 1], "a": [0, 1], "r": [1.0, 2.0], "p": [0.5, 0.5]})
        >>> log = Slates.from_frame(frame, slate="s", position="k", context=None, action="a", reward="r",
        ...                         propensity="p")
        >>> log.assuming("full").reward.tolist()
        [0.0, 3.0]
        """
        known = isinstance(interaction, Interaction)
        chosen = interaction if known else Interaction.of(interaction, self.horizon)
        check_paid(chosen, self.reward_of)
        if self.passes is not None:
            return self._assuming_elsewhere(chosen)
        unit, step = self.layout.unit, self.layout.step
        wide = shown_items(self.action, unit, step, self.horizon)
        context = self.bare
        others = chosen.shown
        shown = {
            self._column(j): np.where(others[step, j], wide[unit, j], -1)
            for j in np.flatnonzero(others.any(axis=0)).tolist()
        }
        if shown:
            frame = with_categories(self.bare.table, shown, self.actions)
            context = Context.from_frame(frame)
        return replace(
            self,
            interaction=chosen,
            context=context,
            eligible=self._some(chosen, lambda: without_above(self.allowed, wide, self.layout, len(self.actions))),
            undecided=False,
            **self._paid(chosen),
        )

    def _assuming_elsewhere(self, chosen: Interaction) -> Slates:
        """The same where contexts are not held: items above are made when they are asked for."""
        assert self.bare.load is not None
        loads, others = self.bare.load, chosen.shown
        above = {self._column(j): j for j in np.flatnonzero(others.any(axis=0)).tolist()}

        def load(name: str) -> Array:
            return self._items_at(above[name], others) if name in above else loads(name)

        return replace(
            self,
            interaction=chosen,
            context=elsewhere(self.rows, (*(self.bare.names or ()), *above), load),
            eligible=self._some(chosen, lambda: Candidates(self.action, self.layout, len(self.actions))),
            undecided=False,
            **self._paid(chosen),
        )

    def _some(self, chosen: Interaction, less: Callable[[], Any]) -> Any:
        """(S, K) candidates of each slot: those given, ``less`` the items above where none is shown twice."""
        return less() if self.distinct and chosen.due is not None and self.horizon > 1 else self.allowed

    def _items_at(self, slot: int, others: Bools) -> Array:
        """Labels of the items at a slot, in the rows that may look at it."""
        unit, step = self.layout.unit, self.layout.step
        wide = shown_items(self.action, unit, step, self.horizon)
        codes = np.where(others[step, slot], wide[unit, slot], -1)
        labels = np.empty(len(self.actions) + 1, dtype=object)
        labels[:-1] = list(self.actions)
        return np.asarray(labels[codes])

    def _column(self, slot: int) -> str:
        name = f"{self.names.action}_{self.positions[slot]}"
        if name in (self.bare.names or ()):
            raise UsageError(
                f"the context has a column {name!r}, a name reserved for the item at position "
                f"{self.positions[slot]}. Rename it."
            )
        return name

    def _paid(self, chosen: Interaction) -> dict[str, Any]:
        """Rewards at the slots at which they are paid, and the layout with its link."""
        layout, rewards = self.layout, self.slot_reward
        lengths = np.diff(layout.offsets)
        if chosen.due is None or chosen.name == "additive" or layout.is_single:
            return {"reward": rewards, "layout": self._runs(lengths, chosen.link)}
        due = np.minimum(chosen.due[layout.step], lengths[layout.unit] - 1)
        if self.reward_of == "slate":
            rewards = np.where(layout.step == 0, rewards, 0.0)
        at = layout.offsets[layout.unit] + due
        paid = np.bincount(at, weights=rewards, minlength=len(rewards)).astype(np.float64)
        return {"reward": paid, "layout": self._runs(lengths)}

    def _runs(self, lengths: Ints, link: Link | None = None) -> Layout:
        """Slates as runs of slots; a part of a longer log keeps its layout also where all its slates have one slot."""
        if self.horizon == 1:
            return Layout.ragged(lengths, link)
        return Layout(lengths, len(lengths), link)

    @classmethod
    @checks_arguments
    @takes(UnitRoles)
    def from_frame(
        cls,
        frame: Any,
        *,
        slate: str,
        position: str,
        context: Sequence[str] | str | None,
        action: str,
        reward: str | Sequence[str],
        propensity: str | Sequence[str] | None = None,
        interaction: Any = "cascade",
        reward_of: str | None = None,
        candidates: str | None = None,
        distinct: bool | None = None,
        actions: Sequence[Label] | None = None,
        slots: int | None = None,
        outcome: Any = None,
        **columns: Unpack[UnitRoles],
    ) -> Slates:
        """Build a log from a pandas, polars or pyarrow table with one row per slot; slates may differ in length.

        Parameters
        ----------
        frame : table
            Rows in any order.
        slate, position : column names
            Which slate a row belongs to, and its place there: consecutive whole numbers, the same first one everywhere.
        context : list of column names, or None
            What is known before the slate is made.
        action, reward : column names
            The item shown in the slot, and what it earned (or, with ``reward_of="slate"``, what the slate did); several
            rewards as a list of columns.
        propensity : column name, list of K columns, or None
            Probability of the shown item given the context and the items above it; with "independent", "additive" and
            masks that are not closed, its probability at that position whatever else is shown. None: fitted from the
            context, the position and the items that the slot may look at.
        interaction : {"cascade", "independent", "full", "additive", "auto"} or (slots, slots) mask
            What the reward of a slot depends on: its own item and those above; its own item; all items; or, for one
            reward of the slate, a sum of what each item adds (the pseudo-inverse estimator). Row k, column j of a mask
            says whether the reward of slot k depends on the item of slot j. "auto" chooses among independent, cascade
            and full when the log is evaluated, on a quarter of the slates, which no estimate then uses; the others
            may widen the choice.
        reward_of : {"slot", "slate"}, optional
            "slate": the reward column repeats one number for the whole slate. Default for "additive"; else "slot".
        candidates : column name, optional
            Lists of the items that could be shown in a slot; default: all.
        distinct : bool, optional
            Whether an item can be shown only once: the items above are then no candidates. Default: whether no slate
            of the log shows one twice.
        cluster, weight, fold : column names, optional
            Constant inside a slate.
        actions : sequence of labels, optional
            All items, also those never shown.
        slots : int, optional
            Most slots that a slate can have, where these rows are a part of a log with longer ones. Default: of these.
        outcome : `Labeled`, `Delayed` or {metric: outcome}, optional
            Why rewards of slots are missing, and how they are made whole. Default: every slot has its reward.

        Notes
        -----
        A policy is asked about rows with the context, the position and, where ``interaction`` lets it look, the items
        above in columns ``{action}_{position}``, missing where there is none; or is `offpolicy.policies.PlackettLuce`.

        Examples
        --------
        See the class.
        """
        if isinstance(frame, str) or hasattr(frame, "collect") or hasattr(frame, "toPandas"):
            raise DataError(
                f"from_frame reads tables in memory, and a {type(frame).__name__} is not in memory. Scan it in "
                "place: offpolicy.Slates.scan(source, …)."
            )
        roles = Roles.of(
            SLATES,
            {
                "slate": slate, "position": position, "context": context, "action": action, "reward": reward,
                "propensity": propensity, "candidates": candidates, **columns,
            },
            space_of(actions),
        )  # fmt: skip
        return cls.built(
            frame, roles, interaction=interaction, reward_of=reward_of, distinct=distinct, slots=slots, outcome=outcome
        )

    @classmethod
    def built(
        cls, frame: Any, roles: Roles, *, interaction: Any, reward_of: str | None, distinct: bool | None,
        slots: int | None, outcome: Any = None,
    ) -> Slates:  # fmt: skip
        """The log of a table whose columns play these roles."""
        undecided = isinstance(interaction, str) and interaction == UNDECIDED
        asked = "cascade" if undecided else interaction
        kind = reward_of or ("slate" if isinstance(asked, str) and asked == "additive" else "slot")
        check_choice("reward_of", kind, "slot", "slate")
        if outcome is not None and kind == "slate":
            raise UsageError(
                "outcome= is for rewards of single slots: a reward of the whole slate is one label for all its rows. "
                "Give rewards of slots (reward_of='slot'), or make one row per slate and use BanditLog."
            )
        if outcome is not None and undecided:
            raise UsageError(
                "interaction='auto' compares rewards of slots, which outcome= says are missing in part. Name the "
                "interaction."
            )
        slate, position = str(roles.unit), str(roles.step)
        if position in roles.context:
            raise UsageError(
                f"context= contains the position column {position!r}, which models always see. Leave it out."
            )
        if slate in roles.context:
            raise UsageError(
                f"context= contains the slate column {slate!r}, which only identifies slates. Leave it out."
            )
        rows = read(frame, roles, beside=(position,))
        lengths, parts = rows.lengths, rows.parts
        if slots is not None:
            check_count("slots=", slots)
            if slots < lengths.max():
                raise UsageError(f"slots={slots}, but the longest slate has {lengths.max()} slots.")
        horizon = max(int(lengths.max()), slots or 0)
        start = int(rows.columns.numeric(position, "position").min())
        log: Slates = cls(
            **parts,
            actions=rows.space.labels,
            layout=Layout.ragged(lengths),
            horizon=horizon,
            ended=np.ones(len(lengths), dtype=bool),
            allowed=parts["eligible"],
            positions=tuple(range(start, start + horizon)),
            reward_of=kind,
        )
        log = with_outcomes(log, outcome, roles, rows.columns)
        log = settled(log, rows.given, roles, unseen=log.outcomes)
        unit, layout = log.layout.unit, log.layout
        if kind == "slate":
            for name, values in log.metrics.items():
                one_reward(values, unit, layout.offsets[:-1], name)
        repeated = repeats_items(shown_items(log.action, unit, layout.step, log.horizon))
        if distinct and repeated:
            raise UsageError("distinct=True, but the log has slates that show an item twice.")
        log = replace(log, distinct=not repeated if distinct is None else distinct)
        return replace(log.assuming(asked), undecided=undecided)
