"""Every Python block and every `offpolicy` command of the README and the docs runs and prints what the page shows."""

import importlib
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
REFERENCE = "\n".join(p.read_text("utf-8") for p in (ROOT / "docs" / "reference").glob("*.md"))


def _script(name):
    found = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses look themselves up
    found.loader.exec_module(module)
    return module


pages = _script("pages")


@pytest.mark.parametrize("page", [p for p in pages.PAGES if pages.blocks(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_the_code_of_a_page_runs_and_prints_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = pages.outputs(page)
    for block, output in zip(pages.blocks(page), printed, strict=True):
        assert not (said := pages.differs(block.output, output)), f"{said}\nrun: make outputs"


def test_rounding_is_no_difference_and_another_number_or_word_is():
    shown = "new   DML  0.03766  [0.032, 0.04432]\nTRUST\n"
    assert not pages.differs(shown, "new  DML 0.03801  [0.0316, 0.0443]\nTRUST\n")
    assert pages.differs(shown, "new   DML  0.13766  [0.032, 0.04432]\nTRUST\n")
    assert pages.differs(shown, "new   DML  0.03766  [0.032, 0.04432]\nCAUTION\n")
    assert pages.differs(shown, "new   DML  0.03766  [0.032, 0.04432]\n")


def test_an_output_is_written_behind_its_block_once():
    page = "```python\nprint(1)\n```\n\ntext\n"
    once = pages.filled(page, ["1\n"])
    assert once == "```python\nprint(1)\n```\n\n```output\n1\n```\n\ntext\n"
    assert pages.filled(once, ["1\n"]) == once
    assert pages.filled(once, [""]) == page


def public():
    """Every public name, with the module that defines it."""
    rooms = ("", ".policies", ".logs.formats", ".models", ".testing")
    modules = [importlib.import_module(f"offpolicy{room}") for room in rooms]
    found = {}
    for module in modules:
        for name in module.__all__:
            thing = getattr(module, name)
            if not isinstance(thing, str | ModuleType):
                # A table, such as the formats that are known, stands in the module that shows it.
                found[name] = f"{getattr(thing, '__module__', module.__name__)}.{name}"
    return found


def test_every_public_name_is_on_a_reference_page():
    assert missing(REFERENCE) == []


def test_a_missing_name_is_found():
    assert missing(REFERENCE.replace("::: offpolicy.logs.trajectories.Trajectories\n", "")) == ["Trajectories"]


def missing(text):
    """Public names that no page shows."""
    shown = set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))
    return [name for name, path in public().items() if path not in shown]


def test_every_public_method_is_documented_and_so_shown():
    silent = []
    for path in re.findall(r"^::: (\S+)$", REFERENCE, re.MULTILINE):
        module, _, name = path.rpartition(".")
        thing = getattr(importlib.import_module(module), name)
        if not isinstance(thing, type):
            continue
        for method, value in vars(thing).items():
            is_code = callable(value) or isinstance(value, property | classmethod | staticmethod)
            if not method.startswith("_") and is_code and not getattr(value, "__doc__", None):
                silent.append(f"{name}.{method}")
    assert silent == []


def test_reference_pages_name_what_exists():
    for path in re.findall(r"^::: (\S+)$", REFERENCE, re.MULTILINE):
        module, _, name = path.rpartition(".")
        found = importlib.import_module(module)
        assert hasattr(found, name), path
        assert getattr(getattr(found, name), "__doc__", None), path


def test_the_table_of_diagnostics_is_that_of_the_code():
    module = _script("make_tables")
    page = (ROOT / "docs" / "reference" / "diagnostics.md").read_text(encoding="utf-8")
    assert page.endswith(module.diagnostics() + "\n"), "run: python docs/make_tables.py"


def test_every_page_is_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:")[2]
    listed = set(re.findall(r": (\S+\.md)$", nav, re.MULTILINE))
    written = {p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")}
    assert written | {"reference/sentences.md"} == listed  # that one is written when the site is built


def test_the_map_for_language_models_is_that_of_the_navigation():
    module = _script("make_llms")
    assert module.TARGET.read_text("utf-8") == module.made(), "run: make tables"
    for target in re.findall(r"\]\((\S+\.md)\)", module.made()):
        assert (ROOT / "docs" / target).exists() or target == "reference/sentences.md", target


def test_the_page_of_what_is_added_from_outside_is_that_of_the_tests():
    module = _script("make_extensions")
    assert module.PAGE.read_text("utf-8") == module.made(), "run: make tables"
    shown = {path.name.removeprefix("test_own_").removesuffix(".py") for path in module.TESTS.glob("test_own_*.py")}
    assert shown == set(module.TOPICS)
    assert all(len(path.read_text("utf-8").splitlines()) <= 120 for path in module.TESTS.glob("test_own_*.py"))


def _pages_of(tabs):
    """Pages under some tabs of the navigation."""
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    parts = re.split(r"^  - (\w+):$", nav, flags=re.MULTILINE)
    listed = dict(zip(parts[1::2], parts[2::2], strict=True))
    return [ROOT / "docs" / name for tab in tabs for name in re.findall(r": (\S+\.md)$", listed[tab], re.MULTILINE)]


def test_guides_and_concepts_can_be_read():
    found = _pages_of(["Guides", "Concepts"])
    assert len(found) > 25
    assert sum(len(page.read_text("utf-8").split()) for page in found) <= 35_000


def test_the_page_of_sentences_holds_those_of_every_room_and_is_made_with_the_site():
    module = _script("make_sentences")
    assert "docs/make_sentences.py" in (ROOT / "mkdocs.yml").read_text("utf-8").partition("nav:")[0]
    page = module.page()
    rooms = {p.parent.name for p in module.SOURCE.glob("*/__init__.py")}
    assert rooms == set(module.ROOMS)
    assert all(f"## {room}\n" in page for room in module.ROOMS)
    assert "Every action the policy takes appears in the log." in page


def test_habits_that_were_given_up_are_found_and_none_is_left():
    module = _script("make_sentences")
    assert module.habits() == []
    for text in (
        "59% more than the log",
        "the columns are no probabilities",
        "something else than 0",
        "Lgb, so that it",
    ):
        assert module._habits_of("here", text), text
    assert module.prose("Use `beside` here.\n```\nbeside\n```\nend") == "Use `…` here. end"


def test_a_tutorial_is_a_notebook_with_what_its_page_shows():
    module = _script("make_notebooks")
    assert "docs/make_notebooks.py" in (ROOT / "mkdocs.yml").read_text("utf-8")
    for page in module.TUTORIALS:
        made = module.notebook(page)
        code = [c for c in made["cells"] if c["cell_type"] == "code"]
        shown = ["".join(o["text"]) for c in code for o in c["outputs"]]
        assert shown == [b.output for b in pages.blocks(page) if b.output]
        assert len(code) == len(pages.blocks(page))
        assert "\n# " in "\n" + "".join(made["cells"][0]["source"])
