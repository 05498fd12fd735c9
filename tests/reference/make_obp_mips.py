"""Values of MIPS of the Open Bandit Pipeline (obp 0.5.7) on a seeded log, kept in ``fixtures/obp_mips.json``.

    pip install --no-deps --ignore-requires-python obp==0.5.7 seaborn tqdm pyyaml
    python tests/reference/make_obp_mips.py

Inputs follow from the seed; only the outputs are stored.
"""

import json
from pathlib import Path

import numpy as np

SEED, N, K, DIMENSIONS, CATEGORIES = 20_222, 500, 60, 2, 4


def inputs():
    """A log of many actions: features that follow from the action, and embeddings that are drawn for each row."""
    rng = np.random.default_rng(SEED)
    x = rng.uniform(-1, 1, size=(N, 3))
    logits = x @ rng.uniform(-1, 1, size=(3, K))
    pi_b = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    pi_e = np.exp(-2 * logits) / np.exp(-2 * logits).sum(axis=1, keepdims=True)
    action = (rng.uniform(size=(N, 1)) > pi_b.cumsum(axis=1)).sum(axis=1)
    features = rng.integers(CATEGORIES, size=(K, DIMENSIONS))
    chances = rng.uniform(0.1, 1, size=(K, CATEGORIES, DIMENSIONS))
    chances /= chances.sum(axis=1, keepdims=True)
    drawn = (rng.uniform(size=(N, 1, DIMENSIONS)) > chances[action].cumsum(axis=1)).sum(axis=1)
    reward = x[:, 0] * features[action, 0] + features[action, 1] + rng.uniform(-1, 1, size=N)
    return {
        "context": x,
        "action": action,
        "reward": reward,
        "pi_b": pi_b,
        "pi_e": pi_e,
        "features": features,
        "chances": chances,
        "drawn": drawn,
        "q": 0.5 * x[:, [0]] * np.arange(K) / K + 0.2,
    }


def certain(features):
    """(K, categories, dimensions) distribution of embeddings that follow from the action."""
    return np.stack([np.eye(CATEGORIES)[column] for column in features.T], axis=2)


def main():
    from obp.ope import estimators_embed as obp

    d = inputs()
    mips = obp.MarginalizedInverseProbabilityWeighting(n_actions=K)
    # Its self-normalized twin multiplies the marginals of dimensions: with one they are the joint distribution.
    normalized = obp.SelfNormalizedMarginalizedInverseProbabilityWeighting(n_actions=K)
    one, both = d["features"][:, :1], d["features"]
    worlds = {
        "features": (mips, both[d["action"]], certain(both)),
        "one feature": (normalized, one[d["action"]], certain(one)),
        "drawn": (mips, d["drawn"], d["chances"]),
    }
    values = {
        world: float(
            peer.estimate_policy_value(
                reward=d["reward"],
                action=d["action"],
                action_embed=embedding,
                pi_b=d["pi_b"][:, :, None],
                action_dist=d["pi_e"][:, :, None],
                context=d["context"],
                p_e_a=chances,
                position=np.zeros(N, dtype=int),
            )
        )
        for world, (peer, embedding, chances) in worlds.items()
    }
    text = json.dumps({"obp": "0.5.7", "seed": SEED, "values": values}, indent=2)
    (Path(__file__).parent / "fixtures" / "obp_mips.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
