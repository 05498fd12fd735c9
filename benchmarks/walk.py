"""How far a row walks: files visited and crossings between rooms, from a frame to a report.

    python benchmarks/walk.py

Counted by tracing calls of library functions on a log of 240 rows with predictions given, stage by stage. A crossing is
a call from a function of one room to a function of another.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import offpolicy as op

SRC = Path(op.__file__).parent


class Walk:
    """Counts files, calls and crossings while it is entered."""

    def __enter__(self):
        self.files, self.calls, self.crossings = set(), 0, 0
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    def _see(self, frame, event, _):
        if event != "call":
            return
        here = self._place(frame)
        if here is None:
            return
        self.calls += 1
        self.files.add(here)
        back = frame.f_back
        while back is not None and self._place(back) is None:
            back = back.f_back
        there = None if back is None else self._place(back)
        if there is not None and there.parts[0] != here.parts[0]:
            self.crossings += 1

    def _place(self, frame):
        path = Path(frame.f_code.co_filename)
        return path.relative_to(SRC) if path.is_relative_to(SRC) else None


def frame():
    rng = np.random.default_rng(0)
    n = 240
    df = pd.DataFrame({"x": rng.normal(size=n), "a": rng.choice(["u", "v"], n), "p": 0.5})
    return df.assign(r=(rng.random(n) < 0.3) * 1)


def main():
    df = frame()
    roles = {"context": ["x"], "action": "a", "reward": "r", "propensity": "p"}
    q = np.full((len(df), 2), 0.3)
    log = op.BanditLog.from_frame(df, **roles)
    op.evaluate(log, "always:v", reward_model=q).report(_scratch())  # loads every module once
    rows, everything = [], set()

    def stage(name, task):
        with Walk() as walk:
            answer = task()
        everything.update(walk.files)
        rows.append((name, len(walk.files), walk.calls, walk.crossings))
        return answer

    log = stage("from_frame", lambda: op.BanditLog.from_frame(df, **roles))
    ev = stage("evaluate", lambda: op.evaluate(log, "always:v", reward_model=q))
    stage("interval", ev["DML"].interval)
    stage("diagnostics", lambda: ev.diagnostics)
    stage("verdict", ev.verdict)
    stage("gate", lambda: ev.gate("value > 0"))
    stage("to_json", ev.to_json)
    stage("report", lambda: ev.report(_scratch()))
    print("| stage | files | calls | crossings |\n|---|---|---|---|")
    for name, files, calls, crossings in rows:
        print(f"| {name} | {files} | {calls:,} | {crossings} |")
    print(f"\n{len(everything)} files in all")


def _scratch():
    import tempfile

    return Path(tempfile.gettempdir()) / "offpolicy-walk.html"


if __name__ == "__main__":
    main()
