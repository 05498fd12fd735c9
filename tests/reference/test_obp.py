"""Against the Open Bandit Pipeline; ``make_obp.py`` says how its values were made."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from offpolicy import BanditLog, evaluate
from offpolicy.logs.layout import Layout
from offpolicy.scores import formulas as scores
from offpolicy.scores.decisions import Decisions

HERE = Path(__file__).parent
MADE = runpy.run_path(str(HERE / "make_obp.py"))
PEER = json.loads((HERE / "fixtures" / "obp.json").read_text())["values"]


@pytest.mark.parametrize("name", ["DM", "IPW", "SNIPW", "DR-full", "SNDR"])
def test_estimators_equal_obp(name):
    d = MADE["inputs"]()
    log = BanditLog.from_arrays(d["context"], d["action"], d["reward"], d["pi_b"])
    ev = evaluate(log, d["pi_e"], estimators=[name], reward_model=d["q"])
    assert ev["policy", name].value == pytest.approx(PEER[name], abs=1e-10)


@pytest.mark.parametrize(("name", "constant"), [("switched", "SWITCH_TAU"), ("shrunk", "SHRINK_LAMBDA")])
def test_scores_with_a_given_constant_equal_obp(name, constant):
    d = MADE["inputs"]()
    rows = np.arange(len(d["action"]))
    decisions = Decisions(
        Layout.single(len(rows)),
        d["reward"],
        d["pi_e"][rows, d["action"]],
        d["pi_b"][rows, d["action"]],
        d["q"][rows, d["action"]],
        (d["pi_e"] * d["q"]).sum(axis=1),
    )
    psi = getattr(scores, name)(decisions, MADE[constant])
    assert psi.mean() == pytest.approx(PEER[name], abs=1e-10)
