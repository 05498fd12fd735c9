"""The words of a gate: conditions on lifts, values and differences, joined by "and".

A condition is a quantity, one of > >= < <=, and a number or percentage. A quantity is "lift", "value", the name of a
policy (its value) or the difference of two, with a metric before it where the log has several and a policy where there
are several: "lift", "new lift", "cost lift", "cost new lift", "new", "new - old", "cost new - old".
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from offpolicy.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

Kind: TypeAlias = Literal["lift", "value", "difference"]
Words: TypeAlias = list[tuple[str, str]]
LOGGED = "logged"
EXAMPLES = (
    'Examples: "lift > 0", "value > 0.02", "new - old > 0", "\'my policy\' lift > 5%", '
    '"revenue lift > 0 and cost lift < 2%".'
)
NAME = re.compile(r"[^\W\d][\w.]*")
RESERVED = {"and", "lift", "value", LOGGED}
TOKEN = re.compile(
    r"""\s*(?:
        (?P<quoted>'[^']*'|"[^"]*")
      | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*%?)(?![\w.])
      | (?P<and>and|AND)(?![\w.])
      | (?P<name>[^\W\d][\w.]*)
      | (?P<sign>>=|<=|>|<|-|\+|−)
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Expression:
    """One condition of a gate.

    Attributes
    ----------
    kind : {"lift", "value", "difference"}
    policy, other : str or None
        None stands for the only policy; ``other`` is what is subtracted.
    sign : {">", "<"}
    bar : float
    metric : str or None
        None stands for the evaluation's own metric.
    """

    kind: Kind
    policy: str | None
    other: str | None
    sign: Literal[">", "<"]
    bar: float
    metric: str | None = None


def tokens(text: str) -> list[tuple[str, str]]:
    """Split an expression into (kind, text) pairs.

    >>> tokens("'my policy' lift > 5%")
    [('name', 'my policy'), ('name', 'lift'), ('sign', '>'), ('number', '5%')]
    """
    pairs, place = [], 0
    stripped = text.rstrip()
    while place < len(stripped):
        match = TOKEN.match(stripped, place)
        if match is None:
            raise UsageError(
                f"gate {text!r}: cannot read {stripped[place:].strip()!r}. Quote a policy name that has "
                f"characters other than letters, digits, '_' and '.'. {EXAMPLES}"
            )
        kind = str(match.lastgroup)
        word = match.group(kind)
        if kind == "quoted":
            pairs.append(("name", word[1:-1]))
        else:
            pairs.append((kind, "-" if word == "−" else word.strip()))
        place = match.end()
    return pairs


def conditions(text: str) -> list[str]:
    """The conditions of a gate, each as it was written.

    >>> conditions("revenue lift > 0 and 'you and me' lift > 1%")
    ['revenue lift > 0', "'you and me' lift > 1%"]
    """
    pieces, start, place = [], 0, 0
    stripped = text.rstrip()
    while place < len(stripped):
        match = TOKEN.match(stripped, place)
        if match is None:  # said where the condition is read
            break
        if match.lastgroup == "and":
            pieces.append(stripped[start:place].strip())
            start = match.end()
        place = match.end()
    return [*pieces, stripped[start:].strip()]


def parse(text: str, policies: Sequence[str] = (), metrics: Sequence[str] = ()) -> Expression:
    """Read one condition; nothing is evaluated as code.

    Names are those of policies unless they are of ``metrics``.

    Examples
    --------
    >>> gate = parse("new - old > 0")
    >>> gate.kind, gate.policy, gate.other, gate.bar
    ('difference', 'new', 'old', 0.0)
    >>> parse("lift >= 5%").bar, parse("cost new lift < 2%", ["new"], ["click", "cost"]).metric
    (0.05, 'cost')
    """
    words = tokens(text)
    at = [i for i, (kind, word) in enumerate(words) if kind == "sign" and word[0] in "<>"]
    if len(at) != 1:
        raise UsageError(f"gate {text!r}: needs exactly one of >, >=, <, <=. {EXAMPLES}")
    (place,) = at
    left, sign, right = words[:place], words[place][1][0], words[place + 1 :]
    bar = _number(text, right)
    kind, names, other = _quantity(text, left)
    metric, policy = _placed(text, names, policies, metrics)
    return Expression(kind, policy, other, ">" if sign == ">" else "<", bar, metric)


def _number(text: str, words: list[tuple[str, str]]) -> float:
    factor = 1.0
    if len(words) == 2 and words[0][0] == "sign" and words[0][1] in "+-":
        factor = -1.0 if words[0][1] == "-" else 1.0
        words = words[1:]
    if len(words) != 1 or words[0][0] != "number":
        raise UsageError(f"gate {text!r}: the right side must be one number. {EXAMPLES}")
    word = words[0][1]
    bar = factor * (float(word[:-1]) / 100 if word.endswith("%") else float(word))
    if not math.isfinite(bar):
        raise UsageError(f"gate {text!r}: {word} is too large a number. {EXAMPLES}")
    return bar


def _quantity(text: str, words: Words) -> tuple[Kind, list[str], str | None]:
    """What is asked for: its kind, names before it, and what is subtracted."""
    kinds = [kind for kind, _ in words]
    names = [word for _, word in words]
    if kinds[-2:] == ["sign", "name"] and names[-2] == "-":
        if set(kinds[:-2]) == {"name"}:
            return "difference", names[:-2], names[-1]
    elif kinds and set(kinds) == {"name"}:
        if names[-1] in {"lift", "value"}:
            return ("lift" if names[-1] == "lift" else "value"), names[:-1], None
        return "value", names, None
    raise UsageError(f"gate {text!r}: cannot read the left side. {EXAMPLES}")


def _placed(
    text: str, names: list[str], policies: Sequence[str], metrics: Sequence[str]
) -> tuple[str | None, str | None]:
    """Metric and policy among one or two names, in any order."""
    if len(names) <= 1:
        word = names[0] if names else None
        if word in metrics and word in policies:
            raise UsageError(
                f"gate {text!r}: both a metric and a policy are called {word!r}. Name the policy after the metric."
            )
        return (word, None) if word in metrics else (None, word)
    if len(names) == 2:
        for metric, policy in (names, names[::-1]):
            if metric in metrics and (policy in policies or policy not in metrics):
                return metric, policy
    known = ["lift", "value", *policies, *metrics]
    odd = next((name for name in names if name not in known), names[-1])
    hint = did_you_mean(odd, known)
    raise UsageError(f"gate {text!r}: cannot read the left side.{hint} {EXAMPLES}")


def quoted(policy: str) -> str:
    """A policy's name as a gate can be read with it.

    >>> quoted("new"), quoted("5 for all"), quoted("lift")
    ('new', "'5 for all'", "'lift'")
    """
    if NAME.fullmatch(policy) and policy.lower() not in RESERVED:
        return policy
    mark = '"' if "'" in policy else "'"
    return f"{mark}{policy}{mark}"


def verify(expression: str, policies: Sequence[str], metrics: Sequence[str] = ()) -> list[Expression]:
    """Parse a gate and check the policies it names, before anything is fitted.

    >>> verify("new lift > 0", ["new"])[0].policy
    'new'
    """
    return [_known(text, policies, metrics) for text in conditions(expression)]


def _known(text: str, policies: Sequence[str], metrics: Sequence[str]) -> Expression:
    # With one reward a policy of the same name is meant.
    known = metrics if len(metrics) > 1 else [m for m in metrics if m not in policies]
    gate = parse(text, policies, known)
    if gate.policy is None and len(policies) != 1:
        raise UsageError(
            f"gate {text!r}: name the policy, since there are {len(policies)}: {list(policies)}. For example: "
            f"{quoted(policies[0])} {text}"
        )
    if gate.kind == "difference" and LOGGED in policies and LOGGED in (gate.policy, gate.other):
        raise UsageError(
            f"{LOGGED!r} means the current policy in a gate, but one of your policies has that name. Give it "
            "another name."
        )
    allowed = [*policies, LOGGED] if gate.kind == "difference" else list(policies)
    for name in (gate.policy, gate.other):
        if name is not None and name not in allowed:
            raise UsageError(f"no policy is called {name!r}.{did_you_mean(name, [*allowed, *known])}")
    return gate


def expressions(asked: object, policies: Sequence[str], metrics: Sequence[str] = ()) -> list[str]:
    """The gates that were asked for, each one readable; an empty or blank one is an error, never a pass.

    >>> expressions(["lift > 0"], ["new"]), expressions(None, ["new"])
    (['lift > 0'], [])
    """
    if asked is None:
        return []
    gates = asked if isinstance(asked, list | tuple) else [asked]
    if not gates:
        raise UsageError(f"the list of gates is empty. Leave it out, or write a gate. {EXAMPLES}")
    for gate in gates:
        if not isinstance(gate, str) or not gate.strip():
            raise UsageError(f"gate {gate!r} is empty. {EXAMPLES}")
        verify(gate, policies, metrics)
    return list(gates)
