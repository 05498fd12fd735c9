"""Packed keys give the cells that the columns themselves give, in the same order."""

import numpy as np
import pandas as pd
import pytest

import offpolicy as op
from offpolicy.engines import compress as packing

pytest.importorskip("duckdb")
pytest.importorskip("ibis")


def make(n=3_000):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "key": rng.permutation(n),
            "u": rng.choice(["a", "b", "c", None], n),
            "v": rng.integers(-3, 3, n),
            "arm": rng.choice(["x", "y", "z"], n),
            "r": rng.choice([-1.5, 0.0, 2.0], n),
            "p": rng.choice([0.125, 0.25, 1 / 3], n),
            "day": rng.choice(["mon", "tue"], n),
            "w": rng.choice([0.5, 1.0], n),
            "choice": rng.choice(["x", "y", "z"], n),
        }
    )


def compressed(frame, **more):
    named = {"context": ["u", "v"], "action": "arm", "reward": "r", "propensity": "p", "id": "key"}
    with op.scan(frame, **named, batch="day", weight="w", way="cells", **more) as scan:
        log = scan.compress(folds=3)
        ev = op.evaluate(scan, "choice", estimators=["IPW", "SNIPW"], folds=3)
    return log, ev


@pytest.mark.parametrize("limit", ["MOST_BITS", "MOST_VALUES"])
def test_the_same_cells_without_packing(monkeypatch, limit):
    packed, ours = compressed(make())
    used = []
    monkeypatch.setattr(packing.Packing, "pack", lambda *_: used.append(True))
    monkeypatch.setattr(packing, limit, 1)
    plain, theirs = compressed(make())
    assert not used
    assert packed.rows == plain.rows < 3_000
    for name in ("action", "reward", "propensity", "batch", "weight", "count", "fold"):
        np.testing.assert_array_equal(getattr(packed, name), getattr(plain, name))
    assert packed.batch_labels == plain.batch_labels
    np.testing.assert_array_equal(packed.context.index, plain.context.index)
    for name in ("IPW", "SNIPW"):
        assert ours[name].value == theirs[name].value
        assert ours[name].std_error == theirs[name].std_error


def test_rows_with_a_missing_key_are_not_lost():
    frame = make()
    frame.loc[5, "choice"] = None
    with pytest.raises(op.errors.OffPolicyError, match="the action is missing in 1 of"):
        compressed(frame)
