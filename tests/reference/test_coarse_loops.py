"""Coarse ratios against plain loops, and against MIPS of the Open Bandit Pipeline (``make_obp_mips.py``)."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

import offpolicy as op

HERE = Path(__file__).parent
MADE = runpy.run_path(str(HERE / "make_obp_mips.py"))
PEER = json.loads((HERE / "fixtures" / "obp_mips.json").read_text())["values"]
D = MADE["inputs"]()
N, K = len(D["action"]), D["pi_b"].shape[1]


def coarse_weights():
    """w(x, c) = Σ_{a in c} π_e(a|x) / Σ_{a in c} π_b(a|x), one row and action at a time."""
    out = []
    for i in range(N):
        own = tuple(D["features"][D["action"][i]])
        target = behavior = 0.0
        for a in range(K):
            if tuple(D["features"][a]) == own:
                target += D["pi_e"][i, a]
                behavior += D["pi_b"][i, a]
        out.append(target / behavior)
    return out


def loop(name):
    """The value and its standard error."""
    w, r, q = coarse_weights(), D["reward"], D["q"]
    scores = []
    for i in range(N):
        model = sum(D["pi_e"][i, a] * q[i, a] for a in range(K))
        scores.append(w[i] * r[i] if name == "IPW" else model + w[i] * (r[i] - q[i, D["action"][i]]))
    mean = sum(scores) / N
    return mean, (sum((s - mean) ** 2 for s in scores) / N / N) ** 0.5


def log_of(propensity):
    return op.BanditLog.from_arrays(
        D["context"], D["action"], D["reward"], propensity, actions=range(K),
        action_features=D["features"],
    )  # fmt: skip


@pytest.mark.parametrize("name", ["IPW", "DML", "DR-full"])
@pytest.mark.parametrize(("propensity", "behavior"), [(D["pi_b"], None), (None, D["pi_b"])])
def test_coarse_scores_are_the_loops(name, propensity, behavior):
    ev = op.evaluate(
        log_of(propensity), D["pi_e"], estimators=[name], reward_model=D["q"],
        behavior_model=behavior, ratio=op.CoarseRatio(),
    )  # fmt: skip
    value, error = loop(name)
    assert ev["policy", name].value == pytest.approx(value, abs=1e-10)
    assert ev["policy", name].std_error == pytest.approx(error, rel=2 / N)


@pytest.mark.parametrize(
    ("name", "world", "features"), [("IPW", "features", None), ("SNIPW", "one feature", ["feature0"])]
)
def test_coarse_ratios_are_mips_of_obp(name, world, features):
    ratio = op.CoarseRatio(features)
    ev = op.evaluate(log_of(D["pi_b"]), D["pi_e"], estimators=[name], ratio=ratio)
    assert ev["policy", name].value == pytest.approx(PEER[world], abs=1e-10)


def test_embeddings_that_are_drawn_are_actions_of_a_log():
    """Σ_a p(e|a) π(a|x) is a policy that chooses embeddings: its exact ratio is MIPS with drawn embeddings."""
    joint = np.einsum("kc,kd->kcd", *np.moveaxis(D["chances"], 2, 0)).reshape(K, -1)
    taken = D["drawn"][:, 0] * MADE["CATEGORIES"] + D["drawn"][:, 1]
    log = op.BanditLog.from_arrays(D["context"], taken, D["reward"], D["pi_b"] @ joint, actions=range(joint.shape[1]))
    ev = op.evaluate(log, D["pi_e"] @ joint, estimators=["IPW"])
    assert ev["policy", "IPW"].value == pytest.approx(PEER["drawn"], abs=1e-10)
