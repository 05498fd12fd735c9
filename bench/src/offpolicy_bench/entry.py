"""An entry: an adapter file with its pinned requirements, or a command in any language.

An adapter is one Python file with a function ``answer(log)`` and inline script metadata (PEP 723):

    # /// script
    # requires-python = ">=3.11"
    # dependencies = ["somebody==1.2.3"]
    # [tool.offpolicy-bench]
    # name = "somebody"
    # kinds = ["bandit"]
    # recipe = "Somebody's quickstart: DR with two folds"
    # ///

A package under development adds ``package = "somebody"`` and no requirement: it runs in this environment, and results
are kept for as long as its files do not change.

A command is a TOML file with ``name``, ``kinds``, ``recipe`` and ``command``, a list of words.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from offpolicy_bench.task import FIELDS

HERE = Path(__file__).parent
BLOCK = re.compile(r"^# /// script\n(?P<body>(?:^#(?: .*)?\n)+?)^# ///$", re.MULTILINE)
SCRIPT = re.compile(r"\.(py|toml)$")


@dataclass(frozen=True)
class Entry:
    """Who takes part, and how it is asked.

    Attributes
    ----------
    name, recipe : str
        What the page calls it, and which documented recipe it follows.
    kinds : tuple of str
        Kinds of logs it can value; the others are not put to it.
    requires : tuple of str
        Pinned requirements of its environment; none: it runs in this one.
    path : Path
        The adapter, or the TOML file of a command.
    command : tuple of str
        Words of a command; empty for an adapter.
    package : str
        The package of this environment that answers, where it is one under development; "": the requirements say it.
    """

    name: str
    recipe: str
    kinds: tuple[str, ...]
    requires: tuple[str, ...]
    path: Path
    command: tuple[str, ...] = ()
    package: str = ""

    @cached_property
    def code(self) -> str:
        """Digest of what decides its answers: its file, its requirements, and its package where that may change."""
        total = hashlib.sha256(self.path.read_bytes())
        for source in _sources(self.package):
            total.update(source.read_bytes())
        return total.hexdigest()[:12]


def _sources(package: str) -> list[Path]:
    """The files of a package that is installed here."""
    if not package:
        return []
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise ValueError(f"the entry's package {package!r} is not installed here")
    return sorted(Path(spec.submodule_search_locations[0]).rglob("*.py"))


def shipped() -> dict[str, Path]:
    """The entries of this package, by name of their file."""
    return {path.stem.replace("_", "-"): path for path in sorted((HERE / "entries").glob("*.py"))}


def read(name: str) -> Entry:
    """The entry of a name (one of this package) or of a file."""
    own = shipped()
    path = own[name] if name in own else Path(name)
    if not SCRIPT.search(path.name) or not path.exists():
        raise ValueError(f"no entry is called {name!r}, and no such file exists. Entries here: {', '.join(own)}")
    text = path.read_text(encoding="utf-8")
    settings = tomllib.loads(text) if path.suffix == ".toml" else _metadata(text, path)
    own_settings: dict[str, Any] = settings.get("tool", {}).get("offpolicy-bench", settings)
    kinds = tuple(own_settings.get("kinds", ()))
    if not kinds or set(kinds) - set(FIELDS):
        raise ValueError(f"{path}: `kinds` must be a list of some of {', '.join(FIELDS)}. Got {list(kinds)}")
    return Entry(
        own_settings.get("name", path.stem),
        own_settings.get("recipe", ""),
        kinds,
        tuple(settings.get("dependencies", ())),
        path.resolve(),
        tuple(own_settings.get("command", ())),
        own_settings.get("package", ""),
    )


def _metadata(text: str, path: Path) -> dict[str, Any]:
    block = BLOCK.search(text)
    if block is None:
        raise ValueError(f"{path} has no block of inline script metadata (# /// script … # ///)")
    return tomllib.loads("\n".join(line[2:] for line in block["body"].splitlines()))


def interpreter(entry: Entry, folder: Path, *, install: bool = True) -> str:
    """The interpreter of an entry, its environment made on demand in ``folder``/venvs.

    Entries with the same requirements share one; none at all means this very interpreter.
    """
    if not entry.requires:
        return sys.executable
    name = f"{entry.name}-{hashlib.sha256(repr(entry.requires).encode()).hexdigest()[:8]}"
    place = folder / "venvs" / name
    python, done = place / "bin" / "python", place / ".installed"
    if not done.exists():
        if not install:
            raise FileNotFoundError(f"{place} does not exist yet")
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)  # noqa: S603
        _install(python, entry.requires)
        done.write_text("\n".join(entry.requires) + "\n", encoding="utf-8")
    return str(python)


def _install(python: Path, requires: tuple[str, ...]) -> None:
    """Install, or say with which words the installer gave up."""
    words = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requires]
    done = subprocess.run(words, check=False, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()[-1:]
        raise RuntimeError(f"cannot be installed: {' '.join(said)[:300]}")
