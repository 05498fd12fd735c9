"""Which column plays which part, guessed from the facts of a sample.

Names suggest, values decide: a column called ``p`` is a propensity only if it lies in (0, 1], and a column
without such a name is one if the mean of its inverse is near the number of actions, as it is for true
propensities. Whatever is guessed is printed with its reason and written where it can be changed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from offpolicy.cli.changes import positive

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from offpolicy.cli.init import ColumnFacts

# Words of names that suggest a role, the likeliest first.
NAMES: dict[str, tuple[str, ...]] = {
    "action": (
        "action", "treatment", "arm", "variant", "variation", "ad", "banner", "design", "creative", "offer",
        "chosen", "choice", "item", "campaign", "group", "decision", "template", "channel", "dose", "price",
    ),
    "reward": (
        "reward", "click", "clicked", "clicks", "conversion", "converted", "convert", "purchase", "purchased",
        "bought", "buy", "revenue", "sales", "sale", "outcome", "response", "success", "profit", "spend", "cost",
        "rating", "watched", "y", "r", "label",
    ),
    "propensity": (
        "propensity", "pscore", "propensities", "prob", "probability", "p", "pi", "pib",
    ),
    "cluster": (
        "cluster", "user", "customer", "visitor", "client", "member", "account", "person", "patient", "student",
        "session", "household", "hh", "device", "uid", "cookie",
    ),
    "time": ("time", "timestamp", "date", "day", "datetime", "ts", "at", "created"),
    "id": ("id", "uuid", "guid", "key", "hash", "index", "row", "event", "request"),
    "policy": ("recommended", "recommendation", "new", "candidate", "target", "policy", "proposed", "model", "v2"),
    "episode": ("episode", "trajectory", "traj", "rollout"),
    "step": ("step", "t", "timestep"),
    "terminated": ("terminated", "terminal", "done"),
}  # fmt: skip
SCORES = {"score", "scores", "q", "pred", "prediction", "logit", "logits", "utility"}
PERCENT = {"pct", "percent", "percentage", "perc"}
IDENTIFIER = ("id", "uuid", "guid", "uid", "key", "hash", "cookie")
MOST_ACTIONS = 1_000
MOST_LEVELS = 50  # different texts of a context column
PLAUSIBLE = 1.25  # factor by which the mean of 1 / propensity may miss the number of actions


@dataclass
class Guess:
    """Roles by name, and why.

    Attributes
    ----------
    roles : {role: column or columns}
    policies : {name: spec}
    why : {column: reason}
        Why each column has its role, or none.
    left_out : list of str
        Columns without a role.
    advice : list of str
        What the owner of the log should look at.
    """

    roles: dict[str, object] = field(default_factory=dict)
    policies: dict[str, str] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)

    def give(self, role: str, column: str, why: str) -> None:
        """Give a column a role."""
        self.roles[role] = column
        self.why[column] = why

    def leave(self, column: str, why: str) -> None:
        """Leave a column out."""
        self.left_out.append(column)
        self.why[column] = why

    @property
    def taken(self) -> set[str]:
        """Columns that have been dealt with."""
        return set(self.why)


def hinted(facts: ColumnFacts, role: str) -> float:
    """How strongly a name suggests a role: 2 for the likeliest word as the whole name, 0 for none.

    >>> from offpolicy.cli.init import ColumnFacts
    >>> reward, clicks = ColumnFacts("reward", "whole", 9), ColumnFacts("n_clicks", "whole", 9)
    >>> hinted(reward, "reward") > hinted(clicks, "reward") > hinted(clicks, "action")
    True
    """
    names = NAMES[role]
    best = 0.0
    for word in facts.words:
        if word in names:
            near = 1 - names.index(word) / (2 * len(names))
            best = max(best, near + (1.0 if len(facts.words) == 1 else 0.0))
    return best


def guess(
    facts: Sequence[ColumnFacts],
    sums_to_one: Callable[[Sequence[str]], bool] = lambda _: True,
    given: Mapping[str, str] | None = None,
    tells: Callable[[str, str], bool] = lambda _, __: False,
    earns: Callable[[str, str], bool] = lambda _, __: False,
) -> Guess:
    """Roles of the columns of a log.

    Parameters
    ----------
    facts : sequence of ColumnFacts
    sums_to_one : callable
        Whether some columns add up to 1 in every row.
    given : {role: column}, optional
        Roles that are known already.
    tells : callable
        Whether rows that agree in the first column have the same action, which is the second.
    earns : callable
        Whether the first column tells which rows have a reward, which is the second.
    """
    made = Guess()
    by_name = {f.name: f for f in facts}
    for role, column in (given or {}).items():
        made.give(role, column, "as you said")
    _impossible(made, facts)
    _episodes(made, facts)
    _reward(made, facts)
    _action(made, facts)
    actions = by_name.get(str(made.roles.get("action")))
    labels = actions.values if actions else ()
    number = actions.distinct if actions else 0
    _policy_columns(made, facts, actions)
    _distributions(made, facts, labels, sums_to_one)
    _scores(made, facts, labels)
    _propensity(made, facts, number)
    _percentages(made, facts, number)
    _cluster(made, facts)
    _time(made, facts)
    _telling(made, facts, tells)
    _earning(made, facts, earns)
    _context(made, facts)
    _advise(made, by_name, number)
    return made


def _free(made: Guess, facts: Sequence[ColumnFacts]) -> list[ColumnFacts]:
    return [f for f in facts if f.name not in made.taken]


def _best(
    made: Guess, facts: Sequence[ColumnFacts], role: str, fits: Callable[[ColumnFacts], bool]
) -> ColumnFacts | None:
    """The free column whose name suggests a role most and whose values fit it; the first of equals."""
    able = [f for f in _free(made, facts) if hinted(f, role) > 0 and fits(f)]
    return max(able, key=lambda f: hinted(f, role), default=None)


def _impossible(made: Guess, facts: Sequence[ColumnFacts]) -> None:
    for f in _free(made, facts):
        if f.kind == "empty":
            made.leave(f.name, "empty")
        elif f.kind == "list":
            made.leave(f.name, "contains lists, but an action or a feature is one value per row")
        elif f.kind == "json":
            made.leave(f.name, "JSON as text; put the fields you need into columns of their own")


def _episodes(made: Guess, facts: Sequence[ColumnFacts]) -> None:
    def repeats(f: ColumnFacts) -> bool:
        return f.kind in {"whole", "text"} and 1 < f.distinct <= 0.7 * f.filled

    episode = _best(made, facts, "episode", repeats)
    step = _best(made, facts, "step", lambda f: f.kind == "whole" and f.low >= 0)
    if episode is None or step is None:
        return
    made.give("episode", episode.name, "groups the steps of an episode")
    made.give("step", step.name, "counts up inside each episode")
    end = _best(made, facts, "terminated", lambda f: f.distinct <= 2)
    if end is not None:
        made.give("terminated", end.name, "true where an episode ends")


def _reward(made: Guess, facts: Sequence[ColumnFacts]) -> None:
    if "reward" not in made.roles:
        found = _best(made, facts, "reward", can_be_reward)
        if found is not None:
            made.give("reward", found.name, "named like an outcome")
    named = next((f for f in facts if f.name == made.roles.get("reward")), None)
    if named is not None and named.kind in {"text", "truth"}:
        words = positive(list(named.values))
        if words and named.kind == "text":
            made.roles["success"] = words[0] if len(words) == 1 else words
            shown = " and ".join(map(repr, words))
            made.why[named.name] += f"; {shown} counts as 1, anything else as 0"


def can_be_reward(f: ColumnFacts) -> bool:
    """Numbers, true and false, or two words one of which means success."""
    if f.kind in {"number", "whole"}:
        return not (f.unique and f.kind == "whole")
    return f.kind == "truth" or (f.kind == "text" and f.distinct == 2 and bool(positive(list(f.values))))


def can_be_action(f: ColumnFacts) -> bool:
    """Few enough labels, each of them seen again."""
    labels = f.kind in {"text", "whole", "truth"} or (f.kind == "number" and f.distinct <= 20)
    return labels and 2 <= f.distinct <= min(MOST_ACTIONS, max(2, f.filled // 2)) and not f.missing


def _action(made: Guess, facts: Sequence[ColumnFacts]) -> None:
    if "action" in made.roles:
        return

    def plain(f: ColumnFacts) -> bool:
        return can_be_action(f) and not hinted(f, "policy") and f.words[-1:] != ("id",)

    named = [f for f in _free(made, facts) if hinted(f, "action") > 0 and plain(f)]
    found = max(named, key=lambda f: hinted(f, "action") + 2 * _repeated(f, facts), default=None)
    found = found or _best(made, facts, "action", can_be_action)
    if found is not None:
        made.give("action", found.name, "named like a choice, with few labels")
        return
    # Without a name that tells: the column whose labels another column repeats, as a policy's choice does.
    able = [f for f in _free(made, facts) if can_be_action(f) and not hinted(f, "policy")]
    repeated = [f for f in able if _repeated(f, facts)]
    if repeated:
        made.give("action", repeated[0].name, "another column uses the same labels")


def _repeated(f: ColumnFacts, facts: Sequence[ColumnFacts]) -> bool:
    """Whether other columns speak of the labels of this one, as policies do."""
    labels = set(f.values)
    if f.kind != "text" or not labels:
        return False
    columns = [o for o in facts if o.name != f.name]
    choices = any(o.kind == "text" and o.values and set(o.values) <= labels for o in columns)
    return choices or all(any(o.name.endswith(label) for o in columns) for label in labels)


def _policy_columns(made: Guess, facts: Sequence[ColumnFacts], actions: ColumnFacts | None) -> None:
    """Columns that hold labels of the action: what another policy would do."""
    if actions is None or not actions.values:
        return
    for f in _free(made, facts):
        same = f.kind == actions.kind and bool(f.values) and set(f.values) <= set(actions.values)
        sure = actions.kind == "text" or hinted(f, "policy") > 0
        if same and sure and not f.missing:
            made.policies[_policy_name(f.name, made.policies)] = f.name
            made.why[f.name] = f"contains labels of {actions.name}, so probably another policy's choices"


def _policy_name(column: str, used: Collection[str]) -> str:
    name = "".join(c if c.isalnum() or c in "._" else "_" for c in column).strip("_") or "policy"
    name = name if name[0].isalpha() else f"policy_{name}"
    return name if name not in used else f"{name}_{len(used)}"


def _distributions(
    made: Guess, facts: Sequence[ColumnFacts], labels: Sequence[str], sums_to_one: Callable[[Sequence[str]], bool]
) -> None:
    """Sets of columns called prefix + label that add up to 1: a policy's probabilities."""
    if len(labels) < 2:
        return
    shares = {f.name: f for f in _free(made, facts) if f.kind in {"number", "whole"} and f.low >= 0 and f.high <= 1}
    prefixes = {n[: -len(labels[0])] for n in shares if n.endswith(labels[0]) and n != labels[0]}
    for prefix in sorted(prefixes):
        columns = [f"{prefix}{label}" for label in labels]
        if not all(c in shares for c in columns) or not sums_to_one(columns):
            continue
        stem = prefix.strip("_ .-")
        words = {*stem.lower().replace("-", "_").split("_")}
        logging = bool(words & {"propensity", "pscore", "logging", "behavior", "behaviour", "b", "pib", "logged"})
        if logging and "propensity" not in made.roles:
            made.roles["propensity"] = columns
            why = "probabilities of the logging policy, one column per action"
        else:
            made.policies[_policy_name(stem, made.policies)] = ",".join(columns)
            why = "probabilities of a policy, one column per action"
        made.why.update(dict.fromkeys(columns, why))


def _scores(made: Guess, facts: Sequence[ColumnFacts], labels: Sequence[str]) -> None:
    """Sets of columns called prefix + label whose prefix says score: a policy that takes the highest."""
    numbers = {f.name for f in _free(made, facts) if f.kind in {"number", "whole"}}
    prefixes = {n[: -len(label)] for label in labels[:1] for n in numbers if n.endswith(label)}
    for prefix in sorted(prefixes):
        columns = [f"{prefix}{label}" for label in labels]
        stem = prefix.strip("_ .-")
        if len(labels) > 1 and numbers.issuperset(columns) and SCORES & {*stem.lower().replace("-", "_").split("_")}:
            made.policies[_policy_name(stem, made.policies)] = f"greedy:{','.join(columns)}"
            made.why.update(dict.fromkeys(columns, "a score per action; the policy takes the highest"))


def _propensity(made: Guess, facts: Sequence[ColumnFacts], number: int) -> None:
    if "propensity" in made.roles:
        return

    def near(f: ColumnFacts, factor: float) -> bool:
        return number > 1 and number / factor <= f.mean_inverse <= number * factor

    found = _best(made, facts, "propensity", lambda f: f.is_probability)
    why = "in (0, 1] and named like a probability"
    if found is None:
        able = [f for f in _free(made, facts) if f.is_probability and near(f, PLAUSIBLE)]
        found = able[0] if len(able) == 1 else None
        why = "in (0, 1], and the mean of 1/p is close to the number of actions"
    if found is None:
        return
    made.give("propensity", found.name, why)
    if not near(found, 2.0) and not math.isnan(found.mean_inverse):
        made.advice.append(
            f"the mean of 1/{found.name} is {found.mean_inverse:.3g}, but for true propensities of {number} actions it "
            f"would be close to {number}. Is {found.name} the probability of the logged action?"
        )


def _percentages(made: Guess, facts: Sequence[ColumnFacts], number: int) -> None:
    """A propensity written in percent: it is named like a probability, and goes from 0 to 100."""
    given = next((f for f in facts if f.name == made.roles.get("propensity")), None)
    found = given or _best(made, facts, "propensity", lambda f: f.is_percentage)
    if found is None or not found.is_percentage or "propensity_unit" in made.roles:
        return
    if found is not given and not PERCENT & set(found.words) and not _like_percentages(found, number):
        made.leave(found.name, "named like a probability, but above 1; if it is in percent, name it with --propensity")
        return
    if found is not given:
        made.give("propensity", found.name, "named like a probability, and in percent (0 to 100)")
    made.roles["propensity_unit"] = "percent"


def _like_percentages(f: ColumnFacts, number: int) -> bool:
    return number > 1 and number / 2 <= f.mean_inverse <= number * 2


def _telling(made: Guess, facts: Sequence[ColumnFacts], tells: Callable[[str, str], bool]) -> None:
    """Columns that tell the action are left out: most were written after it."""
    action = made.roles.get("action")
    if not isinstance(action, str) or "episode" in made.roles:
        return
    for f in _free(made, facts):
        if unfit(f) is None and tells(f.name, action):
            made.leave(f.name, f"tells the {action}: rows with the same value have the same {action}")
            made.advice.append(
                f"{f.name} tells the {action}, so it was probably written afterwards. Add it to the context only if it "
                f"was known before the {action} was chosen"
            )


def _earning(made: Guess, facts: Sequence[ColumnFacts], earns: Callable[[str, str], bool]) -> None:
    """Columns that tell which rows have a reward are left out: they were written after it."""
    reward = made.roles.get("reward")
    if not isinstance(reward, str) or "episode" in made.roles:
        return
    for f in _free(made, facts):
        if unfit(f) is None and earns(f.name, reward):
            made.leave(f.name, f"tells which rows have a nonzero {reward}, so it was probably written afterwards")


def _cluster(made: Guess, facts: Sequence[ColumnFacts]) -> None:
    if {"cluster", "episode"} & set(made.roles):
        return

    def repeats(f: ColumnFacts) -> bool:
        return f.kind in {"whole", "text"} and f.distinct >= 10 and f.distinct <= 0.95 * f.filled and not f.missing

    named = [f for f in facts if any(w in IDENTIFIER for w in f.words) or f.words[0:1] != ("device",)]
    found = _best(made, named, "cluster", repeats)
    if found is None:  # an id that repeats often enough to be someone's
        ids = [f for f in _free(made, facts) if f.words[-1:] == ("id",) and repeats(f) and f.distinct > MOST_LEVELS]
        found = max(ids, key=lambda f: f.distinct, default=None)
    if found is not None:
        per = found.filled / found.distinct
        made.give("cluster", found.name, f"{per:.1f} rows per value, which depend on each other")


def _time(made: Guess, facts: Sequence[ColumnFacts]) -> None:
    dates = [f for f in _free(made, facts) if f.kind == "date"]
    found = max(dates, key=lambda f: (f.iso, len(f.time_formats) == 1, hinted(f, "time")), default=None)
    readable = found is not None and (found.iso or len(found.time_formats) == 1)
    if found is not None and readable and not found.missing and "episode" not in made.roles:
        made.give("time", found.name, "dates, which show changes from day to day")
        if not found.iso:
            made.roles["time_format"] = found.time_formats[0]
    elif found is not None and len(found.time_formats) > 1:
        both = " or ".join(map(repr, found.time_formats[:2]))
        made.advice.append(
            f"{found.name} may be written as {both}. Say which: --time {found.name} --time-format FORMAT"
        )
    for f in dates:
        if f.name not in made.taken:
            made.leave(f.name, "dates; treated as text, each would be its own category")


def _context(made: Guess, facts: Sequence[ColumnFacts]) -> None:
    context = []
    outcome = made.roles.get("reward")
    for f in _free(made, facts):
        reason = unfit(f)
        if reason is None and outcome is not None and _is_outcome(f):
            reason = "looks like a second outcome, known only after the action"
        if reason is None:
            context.append(f.name)
            made.why[f.name] = "probably known before the action"
        else:
            made.leave(f.name, reason)
    made.roles["state" if "episode" in made.roles else "context"] = context


def _is_outcome(f: ColumnFacts) -> bool:
    """Named like nothing but an outcome."""
    return hinted(f, "reward") > 0.6 and f.words[:1] not in {("past",), ("previous",), ("last",), ("prior",)}


def unfit(f: ColumnFacts) -> str | None:
    """Why a column is no context, None where it may be."""
    if f.distinct <= 1:
        return "always the same"
    if f.kind == "text" and f.distinct > max(MOST_LEVELS, 0.0) and f.distinct > 0.02 * f.filled:
        return f"text with {f.distinct:,} different values in {f.filled:,} rows, too many for a model"
    if f.kind in {"whole", "text"} and f.unique:
        return "a different value in nearly every row, so probably an id"
    identifies = f.kind == "whole" or (f.kind == "text" and f.distinct > MOST_LEVELS)
    if any(w in IDENTIFIER for w in f.words) and identifies:
        return "an id"
    return None


def _advise(made: Guess, by_name: Mapping[str, ColumnFacts], number: int) -> None:
    for role in ("action", "reward"):
        if role not in made.roles:
            made.advice.append(f"no column looks like the {role}. Name it: --{role} COL")
    action = by_name.get(str(made.roles.get("action")))
    if action is not None and action.kind in {"whole", "number"}:
        made.advice.append(f"the {number} numbers in {action.name} are treated as labels, without order or size")
    if action is not None and action.alike:
        some = " and ".join(map(repr, action.alike))
        made.advice.append(
            f"labels of {action.name} differ only by spaces or letter case: {some}. They count as different actions; "
            "correct the file if they are the same"
        )
    if "propensity" not in made.roles:
        made.advice.append(
            "no column looks like a propensity. The logging policy will be estimated from the context, which must "
            "then contain everything that determined the action"
        )
    if not made.policies:
        made.advice.append("no column looks like a policy. The run file uses 'uniform': replace it with your own")
