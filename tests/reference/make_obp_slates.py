"""Values of the Open Bandit Pipeline's slate estimators (obp 0.5.7), kept in ``fixtures/obp_slates.json``.

    pip install --no-deps --ignore-requires-python obp==0.5.7 seaborn tqdm pyyaml
    python tests/reference/make_obp_slates.py

Inputs follow from the seed; only the outputs are stored.
"""

import json
from pathlib import Path

import numpy as np

SEED, N, SLOTS, K = 20_221, 300, 4, 5


def inputs():
    """Slates filled without replacement (Plackett–Luce) or slot by slot, with rewards and a wrong value model."""
    rng = np.random.default_rng(SEED)
    x = rng.uniform(-1, 1, size=(N, 2))
    logits = x @ rng.uniform(-1, 1, size=(2, K))
    out = {"x": x, "q": rng.uniform(0, 1, size=(N, SLOTS, K)), "reward": rng.uniform(-1, 1, size=(N, SLOTS))}
    for name, distinct in (("distinct", True), ("factored", False)):
        action = np.empty((N, SLOTS), dtype=int)
        pi_b, pi_e = np.empty((N, SLOTS, K)), np.empty((N, SLOTS, K))
        shown = np.zeros((N, K), dtype=bool)
        for k in range(SLOTS):
            for pi, sign in ((pi_b, 1.0), (pi_e, -1.5)):
                weight = np.where(shown & distinct, 0.0, np.exp(sign * logits))
                pi[:, k] = weight / weight.sum(axis=1, keepdims=True)
            action[:, k] = (rng.uniform(size=(N, 1)) > pi_b[:, k].cumsum(axis=1)).sum(axis=1)
            shown[np.arange(N), action[:, k]] = True
        out[name] = {"action": action, "pi_b": pi_b, "pi_e": pi_e}
    return out


def logged(world):
    """(N, SLOTS) probabilities of the shown items: π_b, π_e."""
    at = np.arange(N)[:, None], np.arange(SLOTS), world["action"]
    return world["pi_b"][at], world["pi_e"][at]


def peer_values(d, world, marginal):
    from obp import ope as obp

    p_b, p_e = logged(world)
    rows = {
        "slate_id": np.repeat(np.arange(N), SLOTS),
        "position": np.tile(np.arange(SLOTS), N),
        "reward": d["reward"].ravel(),
        "action": world["action"].ravel(),
    }

    def spread(p):
        return np.repeat(p.prod(axis=1), SLOTS)

    cascade = {
        "pscore_cascade": p_b.cumprod(axis=1).ravel(),
        "evaluation_policy_pscore_cascade": p_e.cumprod(axis=1).ravel(),
    }
    values = {
        "full": obp.SlateStandardIPS(len_list=SLOTS).estimate_policy_value(
            **rows, pscore=spread(p_b), evaluation_policy_pscore=spread(p_e)
        ),
        "cascade": obp.SlateRewardInteractionIPS(len_list=SLOTS).estimate_policy_value(**rows, **cascade),
        "cascade DR": obp.SlateCascadeDoublyRobust(len_list=SLOTS, n_unique_action=K).estimate_policy_value(
            **rows, **cascade, q_hat=d["q"].ravel(), evaluation_policy_action_dist=world["pi_e"].ravel()
        ),
    }
    if marginal:
        values["independent"] = obp.SlateIndependentIPS(len_list=SLOTS).estimate_policy_value(
            **rows, pscore_item_position=p_b.ravel(), evaluation_policy_pscore_item_position=p_e.ravel()
        )
    return {name: float(value) for name, value in values.items()}


def main():
    d = inputs()
    values = {name: peer_values(d, d[name], name == "factored") for name in ("distinct", "factored")}
    text = json.dumps({"obp": "0.5.7", "seed": SEED, "values": values}, indent=2)
    (Path(__file__).parent / "fixtures" / "obp_slates.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
