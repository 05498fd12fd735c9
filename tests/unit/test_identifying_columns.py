"""Dates, ids and free text in the context are pointed out, on every path alike."""

import numpy as np
import pandas as pd
import pytest

import offpolicy as op

ROLES = {"action": "ad", "reward": "r", "propensity": "p"}


def frame(n=600):
    rng = np.random.default_rng(0)
    df = pd.DataFrame({"x": rng.choice(["north", "south"], n), "p": 0.5, "id": np.arange(n)})
    df["seen"] = pd.date_range("2026-01-01", periods=n, freq="h").astype(str)
    df["ad"] = rng.choice(["u", "v"], n)
    df["r"] = rng.normal(size=n)
    return df


def finding(log):
    ev = op.evaluate(log, {"new": op.policies.Fixed("u")}, estimators=["SNIPW"])
    return ev.diagnostics.log["identifying_columns"]


@pytest.mark.parametrize("way", ["rows", "cells", "stream"])
def test_text_with_a_level_for_every_row(way):
    roles = {**ROLES, "context": ["x", "seen"], "id": "id"}
    here = finding(op.BanditLog.from_frame(frame(), **roles))
    there = finding(op.scan(frame(), **roles, way=way, chunk_rows=100))
    assert (here.level, here.value, here.details["column"]) == ("note", 1.0, "seen")
    assert "context=" in here.remedy
    assert (there.level, there.value, there.sentence) == (here.level, here.value, here.sentence)


def test_a_few_levels_or_numbers_are_nothing_to_say():
    assert finding(op.BanditLog.from_frame(frame(), **ROLES, context=["x"])).level == "ok"
    numbers = finding(op.BanditLog.from_frame(frame(), **ROLES, context=["id"]))
    assert not numbers.ran
