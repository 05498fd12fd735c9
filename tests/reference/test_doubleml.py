"""Against DoubleML's average potential outcomes; ``make_doubleml.py`` says how they were made."""

import json
import runpy
from pathlib import Path

import pytest

from offpolicy import BanditLog, evaluate, policies
from offpolicy.models import PerAction

HERE = Path(__file__).parent
MADE = runpy.run_path(str(HERE / "make_doubleml.py"))
PEER = json.loads((HERE / "fixtures" / "doubleml.json").read_text())["apo"]


@pytest.mark.parametrize("level", [0, 1])
def test_dml_of_a_constant_policy_is_doublemls_apo(level):
    d = MADE["inputs"]()
    reward_learner, propensity_learner = MADE["learners"]()
    ev = evaluate(
        BanditLog.from_arrays(d["context"], d["action"], d["reward"]),
        policies.Fixed(level),
        estimators=["DML"],
        reward_model=PerAction(reward_learner),
        behavior_model=propensity_learner,
        folds=d["folds"],
    )
    mine, peer = ev["policy", "DML"], PEER[str(level)]
    assert mine.value == pytest.approx(peer["value"], abs=1e-8)
    assert mine.std_error == pytest.approx(peer["std_error"], abs=1e-8)
    assert mine.notes == ()
