"""The battery of rewards seen in part: resumable, with tables; its worlds are as true as they say."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import offpolicy as op
from offpolicy_studies import lope, outcomes
from offpolicy_studies.seen_worlds import labels, rows, truth_of, worlds

ROOT = Path(__file__).parents[2]


def test_a_run_is_taken_up_and_sums_up(tmp_path, monkeypatch):
    chosen = [w for w in worlds() if w.name in {"number, 25%, judge: good", "25%, told 50%"}]
    monkeypatch.setattr(outcomes, "worlds", lambda: chosen)
    monkeypatch.setattr(lope, "SIZES", (200,))
    outcomes.reproduce(outcomes.Args(replications=1, out=tmp_path))
    first = (tmp_path / "logs.jsonl").read_text()
    result = outcomes.reproduce(outcomes.Args(quick=True, out=tmp_path))
    assert (tmp_path / "logs.jsonl").read_text().startswith(first)
    assert {r["logs"] for r in result["battery"]} == {2}
    wrong = next(r for r in result["battery"] if r["told"])
    assert wrong["warned"] == 1
    text = outcomes.show(result)
    assert "| number, 25%, judge: good | 2 |" in text
    assert "width within 15% of the plan" in text
    assert lope.BOTH in text


def test_there_are_twenty_worlds_and_more_that_are_told_something_wrong():
    told = [w.told for w in worlds()]
    assert told.count("") >= 20
    assert len([t for t in told if t]) >= 7
    assert len({w.name for w in worlds()}) == len(told)


@pytest.mark.parametrize("kind", ["number", "binary", "heavy"])
def test_values_are_those_of_many_rows(kind):
    r = rows(np.random.default_rng(0), 200_000, kind)
    weight = (r.action == 1) / r.propensity
    new, logged = truth_of(kind)
    assert np.average(r.reward, weights=weight) == pytest.approx(new, abs=0.02)
    assert r.reward.mean() == pytest.approx(logged, abs=0.02)


def test_a_log_is_a_log():
    log = labels("number", "two judges", "by context")(np.random.default_rng(0), 50)
    assert isinstance(log, op.BanditLog)
    assert np.isnan(log.reward).any()


def test_the_tables_of_the_pages_are_those_of_the_results():
    spec = importlib.util.spec_from_file_location("make_outcomes", ROOT / "docs" / "make_outcomes.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    for name in made.SHOWN:
        assert made.page(name) == (made.FOLDER / f"{name}.md").read_text("utf-8"), "python docs/make_outcomes.py"
