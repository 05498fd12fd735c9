"""What the matrix shares: the engines, started once, and every evaluation made so far."""

import sys
from pathlib import Path

import pytest

# `matrix.worlds`, `matrix.paths` and `matrix.answers` are modules beside the tests.
sys.path.insert(0, str(Path(__file__).parent.parent))

from matrix.answers import Answers
from matrix.paths import Engines


@pytest.fixture(scope="session")
def engines(tmp_path_factory):
    """Files, PostgreSQL, SQLite, DuckDB and Spark; each is started when a test first asks for it."""
    with Engines(tmp_path_factory.mktemp("matrix")) as made:
        yield made


@pytest.fixture(scope="session")
def answers(engines):
    """Evaluations by path, world and settings, each made once."""
    return Answers(engines)
