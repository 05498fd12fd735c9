"""Slates against the Open Bandit Pipeline; ``make_obp_slates.py`` says how its values were made."""

import json
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import offpolicy as op

HERE = Path(__file__).parent
MADE = runpy.run_path(str(HERE / "make_obp_slates.py"))
PEER = json.loads((HERE / "fixtures" / "obp_slates.json").read_text())["values"]
N, SLOTS, K = MADE["N"], MADE["SLOTS"], MADE["K"]


def log_of(d, world, interaction):
    p_b, _ = MADE["logged"](world)
    frame = pd.DataFrame(
        {
            "request": np.repeat(np.arange(N), SLOTS),
            "pos": np.tile(np.arange(SLOTS), N),
            "x": np.repeat(d["x"][:, 0], SLOTS),
            "item": world["action"].ravel(),
            "click": d["reward"].ravel(),
            "p": p_b.ravel(),
        }
    )
    return op.Slates.from_frame(
        frame,
        slate="request",
        position="pos",
        context=["x"],
        action="item",
        reward="click",
        propensity="p",
        interaction=interaction,
        actions=range(K),
    )


@pytest.mark.parametrize(("world", "interaction"), [
    ("distinct", "full"), ("distinct", "cascade"), ("factored", "full"), ("factored", "cascade"),
    ("factored", "independent"),
])  # fmt: skip
def test_weighted_estimates_equal_obp(world, interaction):
    d = MADE["inputs"]()
    log = log_of(d, d[world], interaction)
    ev = op.evaluate(log, d[world]["pi_e"].reshape(-1, K), estimators=["IPW"])
    assert ev["policy", "IPW"].value == pytest.approx(PEER[world][interaction], abs=1e-10)


@pytest.mark.parametrize("world", ["distinct", "factored"])
def test_cascade_dr_equals_obp(world):
    d = MADE["inputs"]()
    log = log_of(d, d[world], "cascade")
    ev = op.evaluate(log, d[world]["pi_e"].reshape(-1, K), estimators=["DML", "TIS"], value_model=d["q"].reshape(-1, K))
    assert ev["policy", "DML"].value == pytest.approx(PEER[world]["cascade DR"], abs=1e-10)
    assert ev["policy", "TIS"].value == pytest.approx(PEER[world]["full"], abs=1e-10)
