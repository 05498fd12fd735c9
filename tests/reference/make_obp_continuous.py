"""Values of the Open Bandit Pipeline's kernel estimators (obp 0.5.7), kept in ``fixtures/obp_continuous.json``.

    pip install --no-deps --ignore-requires-python obp==0.5.7 seaborn tqdm pyyaml
    python tests/reference/make_obp_continuous.py

Inputs follow from the seed; only the outputs are stored.
"""

import json
from pathlib import Path

import numpy as np

SEED, N = 20_217, 500
BANDWIDTHS = (0.3, 1.0)
KERNELS = ("gaussian", "epanechnikov", "triangular", "cosine")


def inputs():
    """A log of numbers, a policy that names one, and a wrong reward model at both."""
    rng = np.random.default_rng(SEED)
    x = rng.uniform(-1, 1, size=(N, 2))
    mean = 1.0 + x[:, 0]
    action = mean + rng.normal(size=N)
    density = np.exp(-((action - mean) ** 2) / 2) / np.sqrt(2 * np.pi)
    reward = np.sin(action) + x[:, 1] * action + rng.uniform(-1, 1, size=N)
    policy = 1.0 + 0.5 * x[:, 1]

    def model(a):
        return 0.5 * a + 0.3 * x[:, 1] * a

    return {
        "context": x,
        "action": action,
        "reward": reward,
        "density": density,
        "policy": policy,
        "q": model(action),
        "v": model(policy),
    }


def main():
    from obp.ope import estimators_continuous as obp

    d = inputs()
    common = {
        "reward": d["reward"],
        "action_by_behavior_policy": d["action"],
        "pscore": d["density"],
        "action_by_evaluation_policy": d["policy"],
    }
    values = {}
    for kernel in KERNELS:
        for h in BANDWIDTHS:
            of = {"kernel": kernel, "bandwidth": h}
            ipw = obp.KernelizedInverseProbabilityWeighting(**of)
            snipw = obp.KernelizedSelfNormalizedInverseProbabilityWeighting(**of)
            dr = obp.KernelizedDoublyRobust(**of)
            values[f"{kernel} {h:g}"] = {
                "IPW": float(ipw.estimate_policy_value(**common)),
                "SNIPW": float(snipw.estimate_policy_value(**common)),
                "DML": float(
                    dr.estimate_policy_value(
                        **common,
                        # OBP uses one array twice: as the direct part, and at the logged action.
                        estimated_rewards_by_reg_model=d["v"],
                    )
                ),
            }
    text = json.dumps({"obp": "0.5.7", "seed": SEED, "values": values}, indent=2)
    path = Path(__file__).parent / "fixtures" / "obp_continuous.json"
    path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
