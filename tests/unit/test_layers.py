"""Imports go one way: data → folds → policies → nuisances → scores → inference → evaluation → report → cli.

A module imports, when it is loaded, only from its own layer and those before it. Imports for type checking do
not count; imports inside functions may reach forward only where listed.
"""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "offpolicy"
LAYERS = [
    {"errors", "_arrays", "_threads", "_progress"},
    {"logs"},
    {"policies"},
    {"splits"},
    {"models"},
    {"scores"},
    {"inference"},
    {"trust"},
    {"report"},
    {"engines"},
    {"evaluation"},
    {"experiments"},
    {"cli"},
]
LAYER = {name: i for i, names in enumerate(LAYERS) for name in names}
# The redesign removes these one by one.
FORWARD = {
    ("inference", "report"),
    ("inference", "trust"),
    ("engines", "evaluation"),
}
HEAVY = {
    "pandas", "polars", "pyarrow", "narwhals", "torch", "duckdb", "ibis", "pyspark", "lightgbm",
    "matplotlib", "altair", "gymnasium", "rich",
}  # fmt: skip
FILES = sorted(SOURCE.rglob("*.py"))


def module_of(path):
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path):
    """Yield (imported module, whether at load time), leaving out what only type checkers read."""
    return list(_walk(ast.parse(path.read_text()), loading=True))


def _walk(node, *, loading):
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if isinstance(child, ast.Import):
            yield from ((alias.name, loading) for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield from ((f"{child.module}.{alias.name}", loading) for alias in child.names)
        inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        yield from _walk(child, loading=loading and not inside)


def wrong_imports(unit, found):
    """Imports of one top-level unit that break the order."""
    wrong = []
    for name, _ in found:
        other = name.removeprefix("offpolicy.").split(".")[0]
        if not name.startswith("offpolicy.") or other not in LAYER or unit not in LAYER:
            continue
        allowed = (unit, other) in FORWARD
        if LAYER[other] > LAYER[unit] and not allowed:
            wrong.append(name)
    return wrong


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_imports_go_one_way(path):
    unit = module_of(path).split(".")[0]
    assert wrong_imports(unit, imports(path)) == []


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_heavy_libraries_are_imported_where_they_are_used(path):
    if module_of(path).startswith("experiments"):
        return
    loaded = {name.split(".")[0] for name, loading in imports(path) if loading}
    assert loaded & HEAVY == set()


def test_no_module_waits_for_itself():
    modules = {f"offpolicy.{module_of(p)}" for p in FILES}

    def loaded(path):
        names = {name for name, loading in imports(path) if loading}
        return {n if n in modules else n.rpartition(".")[0] for n in names} & modules

    graph = {f"offpolicy.{module_of(path)}": loaded(path) for path in FILES}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"a circle of imports: {error.args[1]}")


def test_dataframes_are_seen_in_one_place():
    core = [p for p in FILES if LAYER.get(module_of(p).split(".")[0], 99) <= LAYER["evaluation"]]
    users = {
        module_of(p) for p in core if any(n.split(".")[0] == "narwhals" for n, _ in imports(p))
    }
    # Policies hand rows on to the functions of their users, in the kind of frame they came in.
    assert users == {"logs.frame", "policies.context"}


def test_the_check_can_fail():
    assert wrong_imports("logs", [("offpolicy.trust.gate", True)]) == ["offpolicy.trust.gate"]
    assert wrong_imports("scores", [("offpolicy.report.text", False)]) == ["offpolicy.report.text"]
