"""Which small changes of the code are tried: Cosmic Ray's operators, and an even sample of their places.

Left out are places where a change is none (annotations, blocks for type checkers) and guards against the
library's own mistakes (decorators such as ``@dataclass(frozen=True)``, ``zip(strict=True)``, ``assert``).
"""

from __future__ import annotations

import ast
import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import parso
from cosmic_ray.ast import ast_nodes
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
#: Scores, folds, inference with its intervals, and the checks, verdict and gate; then readers and checks of roles.
ROOMS = ("scores", "splits", "inference", "trust")
READERS = (
    "logs/reader.py", "logs/roles.py", "logs/checks.py", "logs/frame.py", "logs/actions.py", "logs/formats",
    "engines/csv.py", "engines/files.py", "engines/reading.py", "cli/files.py",
)  # fmt: skip


def modules(room: str) -> list[Path]:
    """The modules of a room, or a module by its name."""
    place = SOURCE / "offpolicy" / room
    return [place] if place.suffix else sorted(place.rglob("*.py"))


#: One change of each kind that may go unnoticed; a + made into a << is caught by any test that runs the line.
OPERATORS = (
    *(
        f"core/ReplaceBinaryOperator_{pair}"
        for pair in (
            "Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "Pow_Mul", "FloorDiv_Div", "Mod_FloorDiv",
            "BitAnd_BitOr", "BitOr_BitAnd", "BitXor_BitAnd",
        )
    ),
    *(
        f"core/ReplaceComparisonOperator_{pair}"
        for pair in (
            "Lt_LtE", "Lt_GtE", "LtE_Lt", "LtE_Gt", "Gt_GtE", "Gt_LtE", "GtE_Gt", "GtE_Lt",
            "Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is",
        )
    ),
    "core/ReplaceUnaryOperator_Delete_USub",
    "core/ReplaceUnaryOperator_Delete_Not",
    "core/ReplaceUnaryOperator_Delete_Invert",
    "core/AddNot",
    "core/NumberReplacer",
    "core/ReplaceAndWithOr",
    "core/ReplaceOrWithAnd",
    "core/ReplaceTrueWithFalse",
    "core/ReplaceFalseWithTrue",
    "core/ReplaceBreakWithContinue",
    "core/ReplaceContinueWithBreak",
    "core/ZeroIterationForLoop",
)  # fmt: skip


@dataclass(frozen=True, order=True)
class Mutant:
    """One change of one place."""

    path: str
    line: int
    column: int
    operator: str
    occurrence: int

    @property
    def key(self) -> str:
        """What it is called in the file of results."""
        return f"{self.path}:{self.line}:{self.column} {self.operator} {self.occurrence}"

    @property
    def module(self) -> str:
        """The module's name in Python."""
        return self.path.removeprefix("src/").removesuffix(".py").replace("/", ".")

    def code(self) -> str:
        """The module with the change."""
        changed = mutate_code(_text(self.path), get_operator(f"core/{self.operator}")(), self.occurrence)
        assert changed is not None
        return changed

    def change(self, code: str) -> tuple[str, str]:
        """The line before and after."""
        before, after = _text(self.path).splitlines(), code.splitlines()
        first = next(i for i, pair in enumerate(zip(before, after, strict=False)) if len(set(pair)) > 1)
        return before[first].strip(), after[first].strip()


def _text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def every_mutant(rooms: Sequence[str]) -> list[Mutant]:
    """All changes of all modules, in the order of the code."""
    return sorted(each for room in rooms for file in modules(room) for each in _of_file(str(file.relative_to(ROOT))))


def sample(mutants: list[Mutant], size: int, seed: int) -> list[Mutant]:
    """Every k-th one in the order of the code from a random start: each module has its share."""
    step = max(1.0, len(mutants) / size)
    at = random.Random(seed).random() * step
    chosen = []
    while at < len(mutants):
        chosen.append(mutants[int(at)])
        at += step
    return chosen


def _of_file(path: str) -> list[Mutant]:
    text = _text(path)
    tree, skipped = parso.parse(text), _left_out(text)
    nodes, found = list(ast_nodes(tree)), []
    for name in OPERATORS:
        operator = get_operator(name)()
        places = [start for node in nodes for start, _ in operator.mutation_positions(node)]
        found += [
            Mutant(path, *start, name.removeprefix("core/"), occurrence)
            for occurrence, start in enumerate(places)
            if not any(first <= start < last for first, last in skipped)
        ]
    return found


Place = tuple[int, int]


def _left_out(text: str) -> list[tuple[Place, Place]]:
    """From where to where nothing is changed."""
    nodes: list[ast.AST] = []
    signatures: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            nodes += node.decorator_list
            signatures.append(node)
        elif isinstance(node, ast.ClassDef):
            nodes += node.decorator_list
        elif isinstance(node, ast.AnnAssign):
            nodes.append(node.annotation)
            if isinstance(node.annotation, ast.Name) and node.annotation.id == "TypeAlias":
                nodes.append(node)
        elif (
            isinstance(node, ast.Assert)
            or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
            or (isinstance(node, ast.keyword) and node.arg == "strict")
        ):
            nodes.append(node)
    spans = [(_place(text, n.lineno, n.col_offset), _place(text, n.end_lineno, n.end_col_offset)) for n in nodes]
    return spans + [span for node in signatures for span in _around_defaults(text, node)]


def _around_defaults(text: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[Place, Place]]:
    """A signature without its default values: names, annotations, the mark of arguments by name."""
    given = [d for d in (*node.args.defaults, *node.args.kw_defaults) if d is not None]
    ends = [_place(text, node.lineno, node.col_offset)]
    for default in sorted(given, key=lambda d: (d.lineno, d.col_offset)):
        ends.append(_place(text, default.lineno, default.col_offset))
        ends.append(_place(text, default.end_lineno, default.end_col_offset))
    ends.append(_place(text, node.body[0].lineno, node.body[0].col_offset))
    return list(zip(ends[::2], ends[1::2], strict=True))


def _place(text: str, line: int, offset: int) -> Place:
    """Line and column in characters: ``ast`` counts bytes."""
    return line, len(text.splitlines()[line - 1].encode()[:offset].decode())
