"""Imports go one way, and docs/architecture.md shows them as they are.

The order of the rooms and the reader of imports are in docs/make_architecture.py. Every module is read; imports inside
functions count, imports for type checking do not; there is no list of exceptions.
"""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = {
    "pandas", "polars", "pyarrow", "narwhals", "torch", "duckdb", "ibis", "pyspark", "lightgbm", "xgboost",
    "sklearn", "matplotlib", "gymnasium", "minari", "rich", "joblib", "mlflow",
}  # fmt: skip
# Which rooms or files a library may be seen in; learners and readers of files get pandas tables.
HOMES = {
    "torch": {"policies.fitted", "models.values.torch"},
    "lightgbm": {"models.rewards.boosted", "models.values.auto_q"},
    "duckdb": {"engines.duckdb", "policies.sql"},
    "ibis": {"engines.engine"},
    "pyspark": {"engines.spark"},
    "xgboost": {"engines.spark_boosted"},
    "matplotlib": {"show.plots"},
    "minari": {"logs.formats.rl"},
    "mlflow": {"show.tracking"},
    "rich": {"_progress", "cli.init"},
    "joblib": {"models.fitting.store"},
}


def _script(name):
    found = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses look their module up
    found.loader.exec_module(module)
    return module


house = _script("make_architecture")
MODULES = house.modules()


def test_every_module_is_in_a_room():
    assert house.homeless(MODULES) == []
    assert {m.room for m in MODULES.values()} == set(house.PLACE), "a room of the order is empty"


def test_every_module_says_what_it_is_for():
    assert [name for name, m in MODULES.items() if not m.purpose.strip(". ").removeprefix("TODO")] == []


def test_imports_go_one_way():
    assert house.wrong_ways(MODULES) == []


def test_no_circle_of_rooms():
    assert house.circle(house.arrows(MODULES)) == []


def test_no_circle_of_modules():
    assert house.circle(house.edges(MODULES)) == []


def test_heavy_libraries_are_imported_when_they_are_used():
    assert house.load_time(MODULES, HEAVY) == []


@pytest.mark.parametrize("library", HOMES)
def test_heavy_libraries_are_imported_where_they_are_used(library):
    assert house.users(MODULES, library) == HOMES[library]


def test_dataframes_are_seen_in_one_place():
    # Policies hand rows on to the functions of their users, in the kind of frame they came in.
    assert house.users(MODULES, "narwhals") == {"logs.frame", "policies.protocol"}


def test_scores_are_arithmetic():
    scores = [m for m in MODULES.values() if m.room == "scores"]
    libraries = {each.name.split(".")[0] for m in scores for each in m.imports}
    assert libraries - set(sys.stdlib_module_names) == {"numpy", "scipy", "offpolicy"}


def test_the_page_is_not_stale():
    page = house.PAGE.read_text(encoding="utf-8")
    assert page == house.filled(page, MODULES), "run: make architecture"
    assert house.PICTURE.read_text(encoding="utf-8") == house.picture(MODULES), "make architecture"


# -- the checker itself can fail ---------------------------------------------------------------------


def small(**sources):
    """A package of modules by name (two underscores for a dot) with their imports."""
    return {
        name: house.read(text, name) for name, text in ((n.replace("__", "."), text) for n, text in sources.items())
    }


def test_an_import_to_the_right_is_found_also_inside_a_function():
    text = "def late():\n    from offpolicy.show.text import table\n"
    found = small(scores__formulas=text, show__text="")
    assert house.wrong_ways(found) == ["scores.formulas imports show.text"]


def test_rooms_of_one_place_do_not_import_each_other():
    found = small(evaluation__memory="import offpolicy.engines.scan", engines__scan="")
    assert house.wrong_ways(found) == ["evaluation.memory imports engines.scan"]


def test_a_module_in_no_room_is_found():
    assert house.homeless(small(helpers="")) == ["helpers"]
    found = small(helpers="", logs__bandit="from offpolicy.helpers import x")
    assert house.wrong_ways(found) == ["logs.bandit imports helpers"]


def test_imports_for_type_checking_do_not_count_but_their_alternative_does():
    text = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from offpolicy.cli.parser import a\n"
        "else:\n    from offpolicy.trust.gate import b\n"
    )
    found = small(logs__bandit=text, cli__parser="", trust__gate="")
    assert house.wrong_ways(found) == ["logs.bandit imports trust.gate"]


def test_a_circle_of_lazy_imports_is_found():
    found = small(logs__a="def f():\n    from offpolicy.logs import b\n", logs__b="import offpolicy.logs.a")
    assert set(house.circle(house.edges(found))) == {"logs.a", "logs.b"}
    assert house.circle(house.arrows(found)) == []


def test_a_library_at_load_time_is_found():
    found = small(logs__a="import pandas as pd", logs__b="def f():\n    import pandas\n")
    assert house.load_time(found, HEAVY) == ["logs.a loads pandas"]
    assert house.users(found, "pandas") == {"logs.a", "logs.b"}


def test_arrows_that_follow_from_others_are_not_drawn():
    graph = {"a": set(), "b": {"a"}, "c": {"a", "b"}}
    assert house.direct(graph) == {"a": set(), "b": {"a"}, "c": {"b"}}
    assert house.columns_of(graph) == {"a": 0, "b": 1, "c": 2}


def test_a_page_without_its_markers_is_refused():
    with pytest.raises(SystemExit, match="has no place for rooms"):
        house.filled("# Architecture\n", MODULES)


# -- doors to the right ------------------------------------------------------------------------------


def test_every_door_opens():
    from offpolicy._doors import DOORS, door

    assert all(callable(door(name)) for name in DOORS)


def test_no_room_knows_the_pages_not_even_their_types():
    rooms = {"show", "cli"}
    knowing = [
        str(path.relative_to(house.SOURCE))
        for path in sorted(house.SOURCE.rglob("*.py"))
        if path.relative_to(house.SOURCE).parts[0] not in {*rooms, "__init__.py", "__main__.py"}
        and re.search(r"^\s*(from|import) offpolicy\.(show|cli)\b", path.read_text(), re.MULTILINE)
    ]
    assert knowing == []
