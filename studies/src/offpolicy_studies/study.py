"""A study as the command line sees it: flags come from the fields of its `Args`, with a line of help each."""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import re
import textwrap
import types
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints


@dataclass(frozen=True)
class Study:
    """A study by name; its module is imported when its flags are asked for.

    The module has a dataclass ``Args``, ``reproduce(Args)`` which returns a result, and ``show(result)``
    which returns the text to print.
    """

    name: str
    help: str
    module: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add a flag for each field of ``Args`` that a command line can give."""
        kind = importlib.import_module(self.module).Args
        types_of, helps = get_type_hints(kind), field_docs(kind)
        for f in fields(kind):
            settings = _flag(types_of[f.name], f)
            if settings is not None:
                flag = f"--{f.name.replace('_', '-')}"
                parser.add_argument(flag, dest=f.name, help=helps.get(f.name, ""), **settings)

    def run(self, arguments: argparse.Namespace) -> str:
        """Run the study with the flags that were given, and return its tables."""
        module = importlib.import_module(self.module)
        given = {k: v for k, v in vars(arguments).items() if v is not None}
        text: str = module.show(module.reproduce(module.Args(**given)))
        return text


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
        example = ",".join(map(str, default)) if default else "A,B"
        return {"type": lambda text: tuple(inner(p) for p in text.split(",")), "metavar": example[:30]}
    return None


def field_docs(kind: Any) -> dict[str, str]:
    """The string under each field of a dataclass, or the ``#:`` comment above it.

    >>> from offpolicy_studies.upworthy import Args
    >>> field_docs(Args)["data"][:38]
    'Folder with upworthy_clean.parquet (or'
    """
    source = textwrap.dedent(inspect.getsource(kind))
    body = ast.parse(source).body[0].body  # type: ignore[attr-defined]
    lines = source.splitlines()
    docs: dict[str, str] = {}
    for node, after in zip(body, [*body[1:], None], strict=True):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        above = re.match(r"\s*#: ?(.*)", lines[node.lineno - 2])
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            docs[node.target.id] = " ".join(str(after.value.value).split())
        elif above:
            docs[node.target.id] = above.group(1)
    return {name: text.replace("%", "%%") for name, text in docs.items()}
