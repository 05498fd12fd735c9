"""Known vulnerabilities by the index's page of each project: ``make audit-newest``.

``make audit`` asks for every locked version, which mirrors of an index often do not pass on. A project's own page is
passed on and tells what is known of its newest version; a locked version that is not the newest stays without an answer
and is named.
"""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path

from pip._internal.models.index import PyPI

LOCK = Path(__file__).with_name("test.lock")


def locked() -> dict[str, str]:
    """Version by name."""
    lines = [line.split(";")[0].strip() for line in LOCK.read_text().splitlines()]
    return dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))


def page(name: str) -> dict:
    """What the index says of a project."""
    with urllib.request.urlopen(f"{PyPI.pypi_url}/{name}/json", timeout=60) as answer:  # noqa: S310 (pip's own)
        return json.load(answer)


def main() -> int:
    """Ask for each project; fail if anything is known of one of the versions."""
    asked, older, found = 0, [], []
    for name, version in locked().items():
        told = page(name)
        if told["info"]["version"] != version:
            older.append(f"{name} {version} (newest {told['info']['version']})")
            continue
        asked += 1
        found += [f"{name} {version}: {v['id']}" for v in told["vulnerabilities"]]
    print(f"{asked} of {asked + len(older)} locked versions are the newest of their project.")
    print("Known vulnerabilities of these:", ", ".join(found) or "none")
    print("Not looked up:", ", ".join(older) or "none")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
