"""Readers that take bytes from outside: each may refuse with an error of the library, and do nothing else."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

ROLES = {"context": ["x"], "action": "ad", "reward": "click", "propensity": "p"}


def _file(data: bytes, name: str, read: Callable[[Path], object]) -> None:
    from offpolicy.errors import OffPolicyError

    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        with contextlib.suppress(OffPolicyError):
            read(path)


def dsjson(data: bytes) -> None:
    """Lines of decision-service JSON."""
    from offpolicy.logs.formats import read_dsjson

    _file(data, "log.json", lambda path: read_dsjson(path).log())


def jsonl(data: bytes) -> None:
    """Lines of a trace."""
    from offpolicy.logs.formats import read_jsonl

    _file(data, "log.jsonl", lambda path: read_jsonl(path).log())


def csv(data: bytes) -> None:
    """A CSV file, read whole."""
    from offpolicy.engines.csv import read_csv
    from offpolicy.logs.bandit import BanditLog

    _file(data, "log.csv", lambda path: BanditLog.from_frame(read_csv(str(path), ["ad"]), **ROLES))


def parquet(data: bytes) -> None:
    """A Parquet file, scanned."""
    from offpolicy.engines.scan import scan

    def read(path: Path) -> None:
        with scan(str(path), **ROLES) as log:
            log.check()

    _file(data, "log.parquet", read)


def gate(data: bytes) -> None:
    """A gate expression."""
    from offpolicy.errors import OffPolicyError
    from offpolicy.trust.gate_text import verify

    with contextlib.suppress(OffPolicyError):
        verify(data.decode("utf-8", "replace"), ["new", "my policy"])


def toml(data: bytes) -> None:
    """A run file."""
    from offpolicy.cli import runfile
    from offpolicy.cli.commands import build_parser

    options = vars(build_parser().parse_args(["evaluate"]))
    _file(data, "run.toml", lambda path: runfile.apply(argparse.Namespace(**{**options, "config": str(path)})))


TARGETS: dict[str, Callable[[bytes], None]] = {
    "dsjson": dsjson,
    "jsonl": jsonl,
    "csv": csv,
    "parquet": parquet,
    "gate": gate,
    "toml": toml,
}
