"""What stands beside an answer has its interval too, and says which ones hold together."""

import re

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.show import segments, tables
from offpolicy.show.about_all import differences
from offpolicy.show.document import Document
from offpolicy.show.parts import Subject
from offpolicy.show.text import table


def logged(n=3000, seed=0, policies=("new",)):
    rng = np.random.default_rng(seed)
    group, a = rng.choice(["x", "y", "z"], n), rng.integers(2, size=n)
    r = 2.0 + 0.3 * a * (group == "x") + rng.normal(size=n)
    frame = pd.DataFrame({"group": group, "a": a, "r": r, "p": 0.5})
    log = op.BanditLog.from_frame(frame, context=["group"], action="a", reward="r", propensity="p")
    targets = {name: op.policies.Fixed(j % 2) for j, name in enumerate(policies, start=1)}
    return op.evaluate(log, targets, estimators=["DML", "DR-half", "SNIPW"]), frame


def test_segments_have_the_difference_to_the_log_with_its_interval():
    ev, frame = logged()
    rows = segments.by_segment(ev, "new", segments.groupings(ev, ["group"]))
    score = ev["DML"].psi[0] - frame["r"].to_numpy()
    for row in rows:
        own = score[(frame["group"] == row["group"]).to_numpy()]
        error = own.std() / np.sqrt(len(own))
        assert row["gap"] == pytest.approx(own.mean())
        assert row["gap"] == pytest.approx(row["value"] - row["logged"])
        z = 2.3940  # of 1 − 0.05/3: three segments
        assert row["gap_low"] == pytest.approx(own.mean() - z * error, rel=1e-3)
        assert row["gap_high"] == pytest.approx(own.mean() + z * error, rel=1e-3)
    shown = {row["group"]: row["gap_low"] > 0 for row in rows}
    assert shown["x"]
    assert not shown["y"]


def test_a_half_sample_has_no_difference_inside_a_segment():
    ev, _ = logged()
    alone = op.evaluate(ev.problem.log, {"new": op.policies.Fixed(1)}, estimators=["DR-half"])
    rows = segments.by_segment(alone, "new", segments.groupings(alone, ["group"]))
    assert rows
    assert all(np.isnan(row["gap"]) for row in rows)


def test_lifts_of_the_paired_differences_have_their_intervals():
    ev, _ = logged(policies=("one", "two"))
    about, picture = differences(Subject(Document(ev), "one"))
    rows = tables.differences(ev, 0.95)
    for row in rows:
        assert row["lift_refused"] is None
    told = [re.fullmatch(r"[+−][\d.]+% \([+−][\d.]+% to [+−][\d.]+%\)", row[-1]) for row in picture.table.rows]
    assert len(told) == len(rows)
    assert all(told)
    assert "not corrected for comparing several" in about.text


def test_a_table_of_several_policies_says_that_its_intervals_stand_alone():
    several, _ = logged(policies=("one", "two"))
    single, _ = logged()
    assert "not corrected for comparing several" in str(several)
    assert "not corrected for comparing" not in str(single)


def test_a_difference_that_is_corrected_says_so():
    ev, _ = logged(300, policies=("one", "two", "three"))
    told = [" ".join(ev.verdict(p).reasons) for p in ev.policies]
    unsure = [text for text in told if "may be no difference" in text]
    assert unsure
    assert all("corrected for 3 policies" in text for text in unsure)


def test_a_level_is_printed_with_all_its_digits(tmp_path):
    ev, _ = logged(300, policies=("one", "two"))
    ev.report(tmp_path / "r.html", level=0.975)
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "97.5% interval" in page
    assert "98% interval" not in page
    assert "98% probability" not in page
    assert "97.5% interval" in table(ev, 0.975)
    assert "97.5% interval" in ev.gate("one value > 0", level=0.975).sentence
