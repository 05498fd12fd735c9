"""The command line reads CSV, Parquet, patterns and databases: the same exit codes and the same JSON."""

import json

import pytest
from matrix import worlds
from matrix.answers import assert_same, without_provenance
from matrix.paths import WARNINGS

from offpolicy.cli import main

pytestmark = WARNINGS
KINDS = ("csv", "glob", "duckdb-file")
POLICIES = ["--policy", "sharp=choice", "--policy", "soft=t_u,t_v,t_w"]


@pytest.fixture(scope="module")
def run(engines, tmp_path_factory, request):
    """Exit code and JSON of ``offpolicy evaluate``, kept by file and gates."""
    folder, kept = tmp_path_factory.mktemp("json"), {}

    def call(kind, world, *gates):
        key = (kind, world, gates)
        if key not in kept:
            made = worlds.world(world)
            out = folder / f"{len(kept)}.json"
            flags = ["evaluate", engines.path(kind, made), "--id", "id", "--json", str(out)]
            for role, column in made.roles.items():
                flags += [f"--{role}", ",".join(column) if isinstance(column, list) else column]
            flags += ["--table", "log"] if kind == "duckdb-file" else []
            flags += ["--reward-model", "linear", *POLICIES]
            flags += [f for name in ("DML", "SNIPW", "auto") for f in ("--estimator", name)]
            flags += [f for gate in gates for f in ("--gate", gate)]
            if "behavior_model" in made.settings:
                flags += ["--behavior-model", made.settings["behavior_model"]]
            code = main(flags)
            kept[key] = code, json.loads(out.read_text(encoding="utf-8")) if out.exists() else None
        return kept[key]

    return call


WORLDS = ["hours", *(pytest.param(w, marks=pytest.mark.verify) for w in worlds.NAMES if w != "hours")]


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_json(run, kind, world, capsys):
    ours, theirs = run("parquet", world), run(kind, world)
    assert ours[0] == theirs[0] == 0, capsys.readouterr().err
    found = [without_provenance(document) for _, document in (ours, theirs)]
    assert_same(*found, what=f"{world}: parquet ≠ {kind}")


# (gates, exit code): passed, failed, not enough evidence; of several, the worst.
GATES = [
    (("soft value < 1e6",), 0),
    (("soft value > 1e6",), 3),
    (("soft value > 0.3",), 4),
    (("soft value < 1e6", "soft value > 1e6"), 3),
    (("soft value > 1e6", "soft value < 1e6"), 3),
    (("soft value > 0.3", "soft value < 1e6"), 4),
]


@pytest.mark.parametrize(("gates", "code"), GATES, ids=str)
@pytest.mark.parametrize("kind", ["parquet", *KINDS])
def test_the_same_exit_code(run, kind, gates, code, capsys):
    found = run(kind, "hours", *gates)[0]
    said = capsys.readouterr()
    assert found == code, f"{said.out}\n{said.err}"
