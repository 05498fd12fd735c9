"""Fuzz the readers with Atheris: ``python tests/fuzz/fuzz.py [seconds in all] [targets …]``.

Each target runs in a process of its own for its share of the time, beginning with the corpus beside this file. An input
that makes a reader raise anything but an error of the library, hang for ten seconds or take 2 GB is written to
``tests/fuzz/findings`` and the run ends with code 1.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent


def one(target: str) -> None:
    """Fuzz one target in this process; libFuzzer ends it."""
    import atheris

    with atheris.instrument_imports(include=["offpolicy", "json", "tomllib", "csv"]):
        sys.path.insert(0, str(HERE))
        import targets

        run = targets.TARGETS[target]
        seeds = sorted((HERE / "corpus" / target).iterdir())
        run(seeds[0].read_bytes())  # imports what it needs
    atheris.Setup([sys.argv[0], *sys.argv[3:]], run)
    atheris.Fuzz()


def main(seconds: int, names: list[str]) -> int:
    """All targets, one after the other."""
    findings = HERE / "findings"
    failed = 0
    for name in names:
        findings.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fuzz-corpus-") as grown:
            done = subprocess.run(
                [
                    sys.executable, __file__, "--one", name, grown, str(HERE / "corpus" / name), "-timeout=10",
                    f"-max_total_time={max(1, seconds // len(names))}", "-rss_limit_mb=2048", "-max_len=20000",
                    "-print_final_stats=1", f"-artifact_prefix={findings}/{name}-",
                ],
                capture_output=True, text=True, check=False, errors="replace",
            )  # fmt: skip
        runs = re.search(r"number_of_executed_units: (\d+)", done.stderr)
        print(f"{name}: {int(runs.group(1)) if runs else 0:,} inputs, exit code {done.returncode}", flush=True)
        if done.returncode:
            failed += 1
            print(done.stdout[-2000:], done.stderr[-600:])
    if not any(findings.iterdir()):
        findings.rmdir()
    return 1 if failed else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2])
    else:
        sys.path.insert(0, str(HERE))
        from targets import TARGETS

        sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 600, sys.argv[2:] or list(TARGETS)))
