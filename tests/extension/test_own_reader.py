"""A file format of one's own: read as a frame of the same rows is read, by name and by the command line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.cli import main
from offpolicy.logs.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POLICY = {"new": lambda rows: ["b"] * len(rows)}


def request(event: dict[str, Any]) -> dict[str, Any] | None:
    """A line of our ad server: what was known, which banner it drew with which odds, and whether it was clicked."""
    if event["test"]:
        return None
    odds = event["odds"]
    return {
        "action": event["banner"],
        "reward": float(event["clicked"]),
        "propensity": odds[event["banner"]] / sum(odds.values()),
        "eligible": sorted(odds),
        "context": {"hour": event["hour"], "age": event["age"]},
    }


def read_banners(path: Any) -> op.formats.Reading:
    return op.formats.read_lines(path, request)


@pytest.fixture(autouse=True)
def banners() -> Iterator[None]:
    known = list(FORMATS)
    op.formats.register(op.formats.Format("banners", (".banners",), read_banners))
    yield
    FORMATS[:] = known


def world(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    hour, age = rng.integers(0, 24, n), rng.normal(40, 9, n).round(3)
    p = np.where(hour < 12, 0.75, 0.25)
    banner = np.where(rng.random(n) < p, "a", "b")
    clicked = rng.random(n) < 0.1 + 0.2 * (banner == "b") + 0.004 * (age - 40)
    propensity = np.where(banner == "a", p, 1 - p)
    return pd.DataFrame(
        {"hour": hour, "age": age, "banner": banner, "click": clicked * 1.0, "p": propensity, "odds": p}
    )


def write(path: Path, frame: pd.DataFrame) -> Path:
    lines = [
        {"hour": r.hour, "age": r.age, "banner": r.banner, "clicked": bool(r.click), "test": False,
         "odds": {"a": 4 * r.odds, "b": 4 - 4 * r.odds}}
        for r in frame.itertuples()
    ]  # fmt: skip
    lines.insert(7, lines[0] | {"test": True})
    text = "\n".join(json.dumps(line) for line in lines) + "\n" + '{"hour": 3}\n'
    path.write_text(text)
    return path


def test_the_answer_is_that_of_a_frame(tmp_path: Path) -> None:
    frame = world()
    reading = op.formats.read(write(tmp_path / "log.banners", frame))
    assert reading.n_skipped == 1
    assert [str(bad) for bad in reading.bad] == ["line 402: no field 'test'"]
    roles = {"context": ["hour", "age"], "action": "banner", "reward": "click", "propensity": "p"}
    there = op.evaluate(op.BanditLog.from_frame(frame, **roles), POLICY)
    here = op.evaluate(reading.log(), POLICY)
    for name in ("DM", "IPW", "DML"):
        one, other = here["new", name], there["new", name]
        assert one.value == pytest.approx(other.value, abs=1e-12)
        assert one.interval() == pytest.approx(other.interval(), abs=1e-12)


def test_the_command_line_reads_it_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "log.banners", world())
    code = main(["evaluate", str(file), "--policy", "new=always:b"])
    said = capsys.readouterr()
    assert code == 0
    assert "400 impressions" in said.out
    assert "line 402" in said.err


def test_what_no_format_fits_is_said(tmp_path: Path) -> None:
    (tmp_path / "log.odd").write_text("x")
    with pytest.raises(op.errors.DataError, match=r"an unknown format\. Known formats: banners, dsjson"):
        op.formats.read(tmp_path / "log.odd")
    with pytest.raises(op.errors.UsageError, match="with their dot"):
        op.formats.register(op.formats.Format("odd", ("odd",), read_banners))
