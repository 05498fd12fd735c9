"""DoubleML's average potential outcome on a seeded log and given folds, kept in ``fixtures/doubleml.json``.

    pip install doubleml==0.11.4
    python tests/reference/make_doubleml.py

A constant policy's value is the average potential outcome (APO) of its action. Learners, folds and data are
the same on both sides; propensities stay away from DoubleML's clipping threshold, so that it never binds.
"""

import json
from pathlib import Path

import numpy as np

SEED, N, FOLDS = 8_128, 600, 3


def inputs():
    """Contexts, binary actions, rewards and fold labels."""
    rng = np.random.default_rng(SEED)
    x = rng.uniform(-1, 1, size=(N, 3))
    p = 1 / (1 + np.exp(-x[:, 0] + 0.5 * x[:, 1]))
    action = (rng.uniform(size=N) < p).astype(int)
    reward = 1 + x[:, 0] + action * (0.5 + x[:, 2]) + rng.uniform(-1, 1, size=N)
    return {"context": x, "action": action, "reward": reward, "folds": rng.permutation(N) % FOLDS}


def learners():
    """The reward learner (one per action) and the propensity learner."""
    from sklearn.linear_model import LinearRegression, LogisticRegression

    return LinearRegression(), LogisticRegression(C=1.0)


def main():
    import doubleml as dml

    d = inputs()
    data = dml.DoubleMLData.from_arrays(d["context"], d["reward"], d["action"])
    everyone = np.arange(N)
    split = [(everyone[d["folds"] != k], everyone[d["folds"] == k]) for k in range(FOLDS)]
    ml_g, ml_m = learners()
    values = {}
    for level in (0, 1):
        model = dml.DoubleMLAPO(data, ml_g, ml_m, treatment_level=level, draw_sample_splitting=False)
        model.set_sample_splitting([split])
        model.fit(store_predictions=True)
        fitted = model.predictions["ml_m"].ravel()
        assert 0.05 < fitted.min() < fitted.max() < 0.95, "clipping would bind"
        values[str(level)] = {"value": float(model.coef[0]), "std_error": float(model.se[0])}
    text = json.dumps({"doubleml": dml.__version__, "seed": SEED, "apo": values}, indent=2)
    (Path(__file__).parent / "fixtures" / "doubleml.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
