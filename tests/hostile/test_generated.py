"""Crossings of readers, kinds, roles and faults: a log written another way gives the same answer, or an error."""

from __future__ import annotations

import pytest
from generated import CLEAR, FEW, KINDS, OBSCURE, READERS, RIGHT, WRONG, Case, cases, outcome, run, sample

PARTS = 20


@pytest.mark.parametrize("part", range(PARTS))
def test_a_sample_of_the_crossings(part):
    assert len(sample()) == FEW
    chosen = sample()[part::PARTS]
    counts, bad = run(chosen)
    assert bad == []
    # Not everything may be refused: much of what is sound is computed.
    assert sum(counts[kind.name, RIGHT] for kind in KINDS) > len(chosen) / 4
    assert sum(counts[kind.name, CLEAR] for kind in KINDS) > len(chosen) / 20


@pytest.mark.verify
@pytest.mark.timeout(3600)
def test_every_crossing():
    counts, bad = run(list(cases()))
    assert bad == []
    assert sum(counts.values()) >= 5_000


def test_the_crossings_are_many_and_differ():
    everything = list(cases())
    assert len(everything) >= 5_000
    assert len({str(case) for case in everything}) == len(everything)
    assert {case.reader.name for case in everything} == {reader.name for reader in READERS}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_generator_can_fail(kind, tmp_path):
    """A table that says something else than the loop was told, and a fault that must be refused and is not."""
    reader = READERS[0]
    roles = kind.roles
    other = {**kind.table, roles["reward"]: [1.0 - r for r in kind.table[roles["reward"]]]}

    def case(must, table, truth=kind):
        return Case(truth, reader, "", "table", "made up", must, table, roles, kind.takes)

    assert outcome(case("number", kind.table), tmp_path)[0] == RIGHT
    assert outcome(case("error", kind.table), tmp_path)[0] == WRONG
    assert outcome(case("number", {**other, roles["reward"]: ["x"] * len(other["x"])}), tmp_path)[0] != RIGHT
    assert outcome(case("number", {k: v for k, v in kind.table.items() if k != "x"}), tmp_path)[0] == OBSCURE
