"""The tests of this folder on an earlier commit: names that have moved since, where the tests look for them.

In a checkout of that commit, with this folder copied to ``tests/hostile``:

    PYTHONPATH=src:tests/hostile pytest -p earlier tests/hostile/test_losses.py tests/hostile/test_readers.py …
    PYTHONPATH=src:tests/hostile python tests/hostile/earlier.py 2500       # so many crossings
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType, SimpleNamespace
from typing import Any


def absent(*_: Any, **__: Any) -> Any:
    """What that commit did not have."""
    raise AttributeError("that commit did not have it")


class Absent:
    """A class that it did not have."""

    def __init__(self, *_: Any, **__: Any) -> None:
        absent()


def put(module: str, name: str, value: Any = absent) -> None:
    """A name in a module, both made where they are not there."""
    try:
        place = importlib.import_module(module)
    except ImportError:
        place = sys.modules[module] = ModuleType(module)
        above, _, last = module.rpartition(".")
        setattr(importlib.import_module(above), last, place)
    if not hasattr(place, name):
        setattr(place, name, value)


def moved() -> None:
    """Every name that the tests import and that commit 786cdac has elsewhere, or not at all."""
    import offpolicy as op
    from offpolicy import errors

    sources = importlib.import_module("offpolicy.engines.sources")
    put("offpolicy.engines.csv", "read_csv", getattr(sources, "read_csv", absent))
    files = importlib.import_module("offpolicy.cli.files")
    put("offpolicy.logs.formats.lines", "read_table", lambda path: files.read_table(str(path)).frame)
    for name in ("not_numbers", "positive"):
        put("offpolicy.cli.changes", name)
    put("offpolicy.errors", "UnknownNameError", errors.UsageError)
    put("offpolicy.errors", "ArgumentError", errors.UsageError)
    put("offpolicy._arguments", "checks_arguments", lambda target: target)
    for name in ("KINDS", "RANGES"):
        put("offpolicy._arguments", name, {})
    for name in ("Labeled", "Delayed", "LongTerm"):
        put("offpolicy", name, Absent)
    learners = SimpleNamespace(LinUCB=Absent, EpsilonGreedy=Absent, __all__=[])
    put("offpolicy", "learners", learners)
    if not hasattr(op.Slates, "scan"):
        scan = importlib.import_module("offpolicy.engines.slate_scan").scan_slates
        op.Slates.scan = staticmethod(scan)


moved()

if __name__ == "__main__":
    import random
    from collections import Counter
    from dataclasses import replace
    from pathlib import Path
    from tempfile import TemporaryDirectory

    import generated

    generated.KINDS = tuple(
        replace(kind, open_scan=None) if kind.name == "episodes" else kind for kind in generated.KINDS
    )
    every = list(generated.cases())
    chosen = random.Random(30).sample(every, min(int(sys.argv[1]), len(every)))
    counts: Counter[str] = Counter()
    with TemporaryDirectory() as folder:
        for i, case in enumerate(chosen):
            place = Path(folder) / str(i)
            place.mkdir()
            result, said = generated.outcome(case, place)
            counts[result] += 1
            if result in {generated.WRONG, generated.OBSCURE}:
                print(f"{result}: {case}: {said}"[:200], flush=True)
    print(dict(counts))
