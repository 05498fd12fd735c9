"""Every Python block and every `offpolicy` command of the README and the docs runs, page by page."""

import importlib
import importlib.util
import re
import shlex
from pathlib import Path

import pytest

import offpolicy as op
from offpolicy import _NAMES
from offpolicy.cli import main

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
REFERENCE = "\n".join(p.read_text("utf-8") for p in (ROOT / "docs" / "reference").glob("*.md"))
BLOCK = re.compile(
    r"(<!-- not run: [^>]+ -->\s*)?^```(python|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL
)


def blocks(page):
    return [(kind, code) for skip, kind, code in BLOCK.findall(page.read_text("utf-8")) if not skip]


# Ibis asks pandas for an option that pandas 3 is about to drop.
@pytest.mark.filterwarnings("ignore:The 'future.infer_string' option:DeprecationWarning")
@pytest.mark.parametrize(
    "page", [p for p in PAGES if blocks(p)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "__page__"}
    for kind, code in blocks(page):
        if kind == "python":
            exec(compile(code, str(page), "exec"), names)
            continue
        for line in code.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == ["offpolicy"]:
                assert main(words[1:]) == 0, line


def test_every_public_name_is_on_a_reference_page():
    assert missing(REFERENCE) == []


def test_a_missing_name_is_found():
    path = f"::: {_NAMES['Trajectories']}.Trajectories"
    assert missing(REFERENCE.replace(f"{path}\n", "")) == ["Trajectories"]


def missing(text):
    """Public names that no page shows."""
    shown = set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))
    places = {name: getattr(op, name).__module__ for name in _NAMES}
    return [name for name, module in places.items() if f"{module}.{name}" not in shown]


def test_reference_pages_name_what_exists():
    for path in re.findall(r"^::: (\S+)$", REFERENCE, re.MULTILINE):
        module, _, name = path.rpartition(".")
        found = importlib.import_module(module)
        assert hasattr(found, name), path
        assert getattr(getattr(found, name), "__doc__", None), path


def test_the_table_of_diagnostics_is_that_of_the_code():
    found = importlib.util.spec_from_file_location("make_tables", ROOT / "docs" / "make_tables.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    page = (ROOT / "docs" / "reference" / "diagnostics.md").read_text(encoding="utf-8")
    assert page.endswith(module.diagnostics() + "\n"), "run: python docs/make_tables.py"
