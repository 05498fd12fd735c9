"""``offpolicy reproduce STUDY``: flags come from the study's own `Args`, one line of help a field."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import textwrap
import types
from dataclasses import MISSING, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin, get_type_hints

from offpolicy.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

STUDIES = {
    "ads": "offpolicy.experiments.ads.study",
    "cartpole": "offpolicy.experiments.cartpole.study",
    "obd": "offpolicy.experiments.obd",
    "tabular": "offpolicy.experiments.tabular.study",
    "coverage": "offpolicy.experiments.coverage.study",
    "uci": "offpolicy.experiments.uci",
    "upworthy": "offpolicy.experiments.upworthy",
}
SUMMARIES = {
    "ads": "Table 2 and Figure 2 of the paper on a simulated ad platform of its size",
    "cartpole": "Table 1 of the paper: pixel CartPole, best on a GPU",
    "obd": "the Open Bandit sample, each arm predicted from the other's log",
    "tabular": "small Markov decision processes with exact values",
    "coverage": "bias, error, coverage and refusals over many worlds",
    "uci": "classification sets turned into bandits",
    "upworthy": "sample-ratio mismatch in the Upworthy archive of A/B tests",
}


def run(options: argparse.Namespace) -> int:
    """Parse the study's own flags, run it and print its table."""
    study = options.study
    if study not in STUDIES:
        raise UsageError(f"no study is called {study!r}.{did_you_mean(study, STUDIES)}")
    module = importlib.import_module(STUDIES[study])
    arguments = parse(study, module.Args, options.rest)
    result = module.reproduce(arguments)
    print(module.show(result))
    return 0


def parse(study: str, kind: Any, arguments: Sequence[str]) -> Any:
    """Build ``Args`` from the command line."""
    parser = argparse.ArgumentParser(
        prog=f"offpolicy reproduce {study}", description=f"{SUMMARIES[study]}."
    )
    types_of = get_type_hints(kind)
    helps = field_docs(kind)
    for f in fields(kind):
        settings = _flag(types_of[f.name], f)
        if settings is not None:
            parser.add_argument(
                f"--{f.name.replace('_', '-')}", dest=f.name, help=helps.get(f.name, ""), **settings
            )
    given = {k: v for k, v in vars(parser.parse_args(list(arguments))).items() if v is not None}
    return kind(**given)


def _flag(kind: Any, f: Any) -> dict[str, Any] | None:
    """How argparse reads a field of this type; None for fields that have no flag."""
    if get_origin(kind) in {Union, types.UnionType}:
        kind = next(a for a in get_args(kind) if a is not type(None))
    default = None if f.default is MISSING else f.default
    if kind is bool:
        return {"action": argparse.BooleanOptionalAction, "default": None}
    if kind in {int, float, str, Path}:
        return {"type": kind, "metavar": kind.__name__.upper()}
    if get_origin(kind) is tuple and get_args(kind)[0] in {int, float, str}:
        inner = get_args(kind)[0]
        shown = ",".join(map(str, default)) if default else "A,B"
        return {
            "type": lambda text: tuple(inner(p) for p in text.split(",")),
            "metavar": shown[:30],
        }
    return None


def field_docs(kind: Any) -> dict[str, str]:
    """The string under each field of a dataclass, or the ``#:`` comment above it, or the comment beside it.

    >>> from offpolicy.experiments.demo import Args
    >>> field_docs(Args)["designs"]
    'actions'
    """
    source = textwrap.dedent(inspect.getsource(kind))
    body = ast.parse(source).body[0].body  # type: ignore[attr-defined]
    lines = source.splitlines()
    docs: dict[str, str] = {}
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        above = re.match(r"\s*#: ?(.*)", lines[node.lineno - 2])
        beside = re.search(r"  # (.*)$", lines[node.end_lineno - 1]) if node.end_lineno else None
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            docs[node.target.id] = " ".join(str(after.value.value).split())
        elif above:
            docs[node.target.id] = above.group(1)
        elif beside:
            docs[node.target.id] = beside.group(1)
    return {name: text.replace("%", "%%") for name, text in docs.items()}
