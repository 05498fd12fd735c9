"""Studies use the library by its public names: the test reads every import of theirs."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

import offpolicy_studies

ROOT = Path(offpolicy_studies.__file__).parent
DOORS = {
    "offpolicy",
    *(f"offpolicy.{name}" for name in ("errors", "formats", "models", "policies", "testing", "trust")),
}


def imports(path: Path):
    """(module, name) of every import of the library in a file."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "offpolicy":
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names if alias.name.split(".")[0] == "offpolicy")


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_studies_import_public_names_only(path):
    for module, name in imports(path):
        assert module in DOORS, f"{path.name} imports {module}"
        if name is not None and module != "offpolicy.errors":
            assert name in importlib.import_module(module).__all__, f"{path.name} imports {module}.{name}"
