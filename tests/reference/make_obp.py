"""Values of the Open Bandit Pipeline (obp 0.5.7) on a seeded log, kept in ``fixtures/obp.json``.

    pip install --no-deps --ignore-requires-python obp==0.5.7 seaborn tqdm pyyaml
    python tests/reference/make_obp.py

Inputs follow from the seed; only the outputs are stored.
"""

import json
from pathlib import Path

import numpy as np

SEED, N, K = 20_211, 400, 4
SWITCH_TAU, SHRINK_LAMBDA = 3.0, 2.5


def inputs():
    """Rewards, actions, propensities, target probabilities and a wrong reward model."""
    rng = np.random.default_rng(SEED)
    x = rng.uniform(-1, 1, size=(N, 2))
    logits = x @ rng.uniform(-1, 1, size=(2, K))
    pi_b = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    action = (rng.uniform(size=(N, 1)) > pi_b.cumsum(axis=1)).sum(axis=1)
    pi_e = np.exp(-2 * logits) / np.exp(-2 * logits).sum(axis=1, keepdims=True)
    reward = x[:, 0] * action + rng.uniform(-1, 1, size=N)
    q = 0.5 * x[:, [0]] * np.arange(K) + 0.2
    return {"context": x, "action": action, "reward": reward, "pi_b": pi_b, "pi_e": pi_e, "q": q}


def main():
    from obp.ope import estimators as obp

    d = inputs()
    common = {
        "reward": d["reward"],
        "action": d["action"],
        "position": np.zeros(N, dtype=int),
        "pscore": d["pi_b"][np.arange(N), d["action"]],
        "action_dist": d["pi_e"][:, :, None],
        "estimated_rewards_by_reg_model": d["q"][:, :, None],
    }
    peers = {
        "DM": obp.DirectMethod(),
        "IPW": obp.InverseProbabilityWeighting(),
        "SNIPW": obp.SelfNormalizedInverseProbabilityWeighting(),
        "DR-full": obp.DoublyRobust(),
        "SNDR": obp.SelfNormalizedDoublyRobust(),
        "switched": obp.SwitchDoublyRobust(lambda_=SWITCH_TAU),
        "shrunk": obp.DoublyRobustWithShrinkage(lambda_=SHRINK_LAMBDA),
    }
    values = {name: float(peer.estimate_policy_value(**common)) for name, peer in peers.items()}
    text = json.dumps({"obp": "0.5.7", "seed": SEED, "values": values}, indent=2)
    (Path(__file__).parent / "fixtures" / "obp.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
