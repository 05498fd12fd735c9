"""Write docs/howto/own_kind.md, ten things added from outside the library, from tests/extension: make tables."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests" / "extension"
PAGE = ROOT / "docs" / "howto" / "own_kind.md"
TOPICS = {
    "action_space": "An action space",
    "layout": "A unit of several decisions",
    "ratio": "A ratio",
    "outcome": "An outcome",
    "check": "A check",
    "interval": "An interval",
    "engine": "An engine",
    "reader": "A reader of files",
    "learner": "A learner of policies",
    "section": "A section of the report",
}
NOT_SHOWN = {"answers", "frame", "log", "on", "rows", "world", "write"}  # data and harness of the tests
HEAD = """# Add what is missing

Whatever the library does for its own kinds, you can do for yours from outside, through the same doors. Each section
below is the code of a test that runs with every change of the library. Kinds, checks and intervals run there on a
frame, a Parquet stream, DuckDB and Spark, and must give the same answer on all four.

The protocols are `ActionSpace` and `UnitKind` of `offpolicy.logs.kinds`, `Check` of `offpolicy.trust`, and the ones
named below. Subclass the kind that is nearest to yours and change what differs.
"""


def made() -> str:
    """The page."""
    parts = [HEAD]
    for topic, title in TOPICS.items():
        path = TESTS / f"test_own_{topic}.py"
        text = path.read_text("utf-8")
        tree = ast.parse(text)
        _, _, about = (ast.get_docstring(tree) or "").partition(": ")
        about = about[:1].upper() + about[1:]
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and not _is_of_the_test(node)]
        code = "\n\n\n".join(_source(text, node) for node in classes or functions)
        doors = "\n".join(_source(text, node) for node in tree.body if _is_call_of(node, "register"))
        shown = "\n\n\n".join(filter(None, (code, doors)))
        block = f"```py\n{shown}\n```\n\n" if shown else ""
        parts.append(f"## {title}\n\n{about}\n\n{block}All of it: `{path.relative_to(ROOT).as_posix()}`.\n")
    return "\n".join(parts)


def _source(text: str, node: ast.AST) -> str:
    lines = text.splitlines()
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    return "\n".join(lines[first - 1 : node.end_lineno])


def _is_of_the_test(node: ast.FunctionDef) -> bool:
    return bool(node.decorator_list) or node.name.startswith("test_") or node.name in NOT_SHOWN


def _is_call_of(node: ast.AST, name: str) -> bool:
    call = getattr(node, "value", None) if isinstance(node, ast.Expr) else None
    return isinstance(call, ast.Call) and ast.unparse(call.func).rpartition(".")[2] == name


if __name__ == "__main__":
    PAGE.write_text(made(), "utf-8")
