"""The default grid of a value curve is the same in memory and from a file."""

import numpy as np
import pandas as pd

import offpolicy as op
from offpolicy._arrays import place_of, quantiles

ROLES = {
    "context": ["x"],
    "action": "price",
    "reward": "paid",
    "propensity": "density",
    "action_kind": "continuous",
    "id": "id",
}


def test_the_default_grid_does_not_depend_on_the_path(tmp_path):
    rng = np.random.default_rng(0)
    price = rng.exponential(size=400)  # the middle of its range is far from the middle of its rows
    frame = pd.DataFrame({"id": np.arange(400), "x": rng.normal(size=400), "price": price})
    frame["density"], frame["paid"] = np.exp(-price), price + rng.normal(size=400)
    frame.to_parquet(tmp_path / "log.parquet")
    settings = {"estimators": ["auto"], "reward_model": op.models.SplineReward(), "ratio": op.KernelRatio(0.3)}
    read = op.evaluate(op.BanditLog.from_frame(frame, **ROLES), 1.0, **settings).value_curve()
    path = str(tmp_path / "log.parquet")
    with op.scan(path, way="stream", **ROLES) as log:
        streamed = op.evaluate(log, 1.0, **settings).value_curve()
    assert read.action[[0, -1]].tolist() == np.sort(price)[[19, 379]].tolist()
    np.testing.assert_array_equal(read.action, streamed.action)
    np.testing.assert_allclose(read.value, streamed.value, rtol=1e-9)
    np.testing.assert_allclose(read.high, streamed.high, rtol=1e-9)


def test_places_are_those_of_quantiles():
    values = np.random.default_rng(1).normal(size=37)
    for share in (0.0, 0.05, 0.5, 0.95, 1.0):
        assert quantiles(values, [share])[0] == np.sort(values)[place_of(share, 37)]
