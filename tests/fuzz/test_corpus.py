"""The corpus of the fuzzers, and what they found, is read or refused with an error of the library."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(p for p in CORPUS.glob("*/*") if p.is_file())


@pytest.mark.parametrize("path", FILES, ids=[f"{p.parent.name}-{p.name}" for p in FILES])
def test_an_input_is_read_or_refused(path):
    TARGETS[path.parent.name](path.read_bytes())


def test_every_target_has_a_corpus():
    assert {p.parent.name for p in FILES} == set(TARGETS)
