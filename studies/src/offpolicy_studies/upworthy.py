"""Sample-ratio mismatch in the Upworthy archive of A/B tests of headlines (Matias et al. 2021).

Each test showed every package (headline and picture) to an equal share of readers, until a bug that the
archive's authors date 2013-06-25 to 2014-01-10 broke the assignment. The log check of this library is run on
the archive as it would be on any log: a package is an action, a test a batch, a reader's propensity is one
over the number of packages. A test is flagged when its p-value is below 0.001.

Weeks are counted as in the archive: year and week of the year that begin with its first Sunday, so the bug
lasted from week 2013-25 to week 2014-01.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path  # noqa: TC003  (the command line reads the types of Args)
from typing import TYPE_CHECKING, Any

import numpy as np

import offpolicy as op
from offpolicy_studies.folder import locate
from offpolicy_studies.monte_carlo import share

if TYPE_CHECKING:
    from offpolicy_studies.arrays import Array, Floats

FILE = "upworthy_clean.parquet"
BUG = (201325, 201401)
FLAGGED = 0.001  # p-value of a test below which it is flagged
PERIODS = ("before the bug", "bug window", "after the bug")


@dataclass(frozen=True)
class Args:
    """Options of the Upworthy study."""

    data: Path | None = None
    """Folder with upworthy_clean.parquet (or with upworthy/ inside); default: the variable OFFPOLICY_DATA."""


@dataclass(frozen=True, eq=False)
class Tests:
    """What the archive says about each arm of each test, one entry per arm.

    Attributes
    ----------
    test : (m,) array of str
    week : (m,) int array
        Year and week, 201325 for the 25th week of 2013.
    impressions, clicks : (m,) arrays
    """

    test: Array
    week: Array
    impressions: Floats
    clicks: Floats


def load(folder: Path) -> Tests:
    """Read the arms of all tests."""
    from pyarrow import parquet

    columns = ["clickability_test_id", "test_week", "impressions", "clicks"]
    table = parquet.read_table(folder / FILE, columns=columns)
    return Tests(*(table[c].to_numpy() for c in columns))


def as_log(tests: Tests) -> op.BanditLog:
    """The archive as one log: clicks and non-clicks of an arm as two counted rows."""
    code, arms = _arms(tests.test)
    number = np.bincount(code)
    clicks, rest = tests.clicks, tests.impressions - tests.clicks
    count = np.concatenate([clicks, rest]).astype(np.float64)
    reward = np.repeat([1.0, 0.0], len(code))
    keep = count > 0
    twice = np.tile(code, 2)
    return op.BanditLog.from_arrays(
        None,
        np.tile(arms, 2)[keep],
        reward[keep],
        (1.0 / number[twice])[keep],
        batch=np.tile(tests.test, 2)[keep],
        count=count[keep],
    )


def _arms(test: Array) -> tuple[Array, Array]:
    """Code of each row's test, and the number of the arm inside it."""
    _, code = np.unique(test, return_inverse=True)
    order = np.argsort(code, kind="stable")
    start = np.concatenate([[0], np.cumsum(np.bincount(code))[:-1]])
    arm = np.empty(len(code), dtype=np.int64)
    arm[order] = np.arange(len(code)) - start[code[order]]
    return code, arm


def period(first: Array, last: Array) -> Array:
    """(n,) 0 before, 1 inside, 2 after the bug; −1 for tests that straddle a border."""
    low, high = BUG
    inside = (first >= low) & (last <= high)
    out = np.where(last < low, 0, np.where(first > high, 2, -1))
    return np.asarray(np.where(inside, 1, out))


def reproduce(options: Args) -> dict[str, Any]:
    """Check every test.

    Returns
    -------
    dict
        ``periods``: tests, flagged tests and their share in each period; ``straddling``: tests left out
        because they run over a border of the window; ``log``: what the check says about the whole log.
    """
    folder = locate(options.data, ["upworthy"], [FILE], "osf.io/jd64p")
    tests = load(folder)
    finding = op.trust.check_log(as_log(tests))["sample_ratio_mismatch"]
    p_values = finding.details["batches"]
    names, code = np.unique(tests.test, return_inverse=True)
    first, last = np.full(len(names), 10**6), np.zeros(len(names), dtype=np.int64)
    np.minimum.at(first, code, tests.week)
    np.maximum.at(last, code, tests.week)
    p = np.array([p_values.get(str(name), np.nan) for name in names])
    where = period(first, last)
    rows = []
    for k, name in enumerate(PERIODS):
        asked = (where == k) & np.isfinite(p)
        flagged = p[asked] < FLAGGED
        rows.append(
            {
                "period": name,
                "tests": int(asked.sum()),
                "flagged": int(flagged.sum()),
                "share": share(flagged)._asdict(),
            }
        )
    return {
        "alarm": FLAGGED,
        "periods": rows,
        "straddling": int((where < 0).sum()),
        "untestable": int(np.isnan(p).sum()),
        "log": {"level": finding.level, "sentence": finding.sentence},
    }


def show(result: dict[str, Any]) -> str:
    """The table, in Markdown."""
    lines = ["| period | tests | flagged | share | s.e. |", "|---|---|---|---|---|"]
    lines += [
        f"| {r['period']} | {r['tests']:,} | {r['flagged']:,} | {r['share']['value']:.1%} | {r['share']['error']:.1%} |"
        for r in result["periods"]
    ]
    note = (
        f"Flagged: p < {result['alarm']:g}. {result['straddling']} tests run over a border of the "
        f"window and are left out; {result['untestable']} have too few readers to test."
    )
    log = result["log"]
    return "\n".join([*lines, "", note, f"The whole archive as one log: {log['level']}: {log['sentence']}"])
