"""What rests on contexts and n × K arrays is summed block by block: blocks give what the whole log gives."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import offpolicy as op
from offpolicy.inference.reach import calibration_sums, largest_weight, masses, reach
from offpolicy.policies import target as targets
from offpolicy.trust import hashes
from offpolicy.trust.diagnose import log_findings
from offpolicy.trust.sums import log_sums
from offpolicy.trust.view import Draws, draws_of

N = 1000


def frame_of(n=N):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": rng.normal(size=n),
            "place": rng.choice(["north", "süd", None], size=n),
            "user": rng.integers(120, size=n),
            "hour": rng.integers(6, size=n),
        }
    )
    p = rng.dirichlet(np.ones(3), size=n)
    p[rng.random(n) < 0.05] = [0.5, 0.5, 0.0]
    a = np.minimum((rng.random(n)[:, None] > p.cumsum(axis=1)).sum(axis=1), 2)
    a = np.where(p[np.arange(n), a] > 0, a, 0)
    frame["a"] = np.array(["u", "v", "w"])[a]
    frame["r"] = rng.random(n).round(1)
    for j, name in enumerate("uvw"):
        frame[f"p_{name}"] = p[:, j]
    again = np.concatenate([np.arange(n), np.arange(5)])  # five rows come twice
    return frame.iloc[again].reset_index(drop=True)


ROLES = {
    "context": ["x", "place"], "action": "a", "reward": "r", "propensity": ["p_u", "p_v", "p_w"],
    "batch": "hour", "cluster": "user",
}  # fmt: skip
LOG = op.BanditLog.from_frame(frame_of(), **ROLES)


def blocks(log, sizes=(1, 300, 17)):
    """Rows of a log in blocks, in no particular order."""
    order = np.random.default_rng(1).permutation(log.rows)
    return np.split(order, np.cumsum(sizes))


def policy(context):
    x = np.asarray(context["x"], dtype=float)
    p = 1 / (1 + np.exp(-x))
    return np.column_stack([0.5 * p, 0.5 * (1 - p), np.full(len(x), 0.5)])


@pytest.mark.parametrize("made", [policy, op.policies.Fixed("v")], ids=["mixed", "fixed"])
@pytest.mark.parametrize("whole", [True, False], ids=["distribution", "propensity"])
def test_reach(made, whole):
    log = LOG
    if not whole:
        frame = frame_of().assign(p=0.4)
        log = op.BanditLog.from_frame(frame, **{**ROLES, "propensity": "p"})
    mass, square = np.full(log.rows, 2.0), np.full(log.rows, 4.0)
    expected = reach(log, targets.resolve("new", made, log), mass, square)
    parts = []
    for rows in blocks(log):
        block = log.take(rows)
        parts.append(reach(block, targets.resolve("new", made, block), mass[rows], square[rows]))
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    assert total.share == pytest.approx(expected.share)
    assert total.square == pytest.approx(expected.square)
    assert total.chooses == expected.chooses == (made is not policy)
    if whole:
        assert total.largest == pytest.approx(expected.largest)
        assert total.forbidden_share == pytest.approx(expected.forbidden_share)
        assert expected.forbidden_share > 0 or made is not policy
    assert largest_weight(log, total) == largest_weight(log, expected)


def test_decisions_of_mass_0_do_not_count():
    mass = np.zeros(LOG.rows)
    mass[:200] = 1.0
    target = targets.resolve("new", policy, LOG)
    half = reach(LOG, target, mass, mass)
    alone = LOG.take(np.arange(200))
    expected = reach(alone, targets.resolve("new", policy, alone), np.ones(200), np.ones(200))
    assert half.share == pytest.approx(expected.share)
    assert half.total == 200


def test_sums_of_a_log():
    whole, drawn = log_sums(LOG), draws_of(LOG)
    total = None
    for rows in blocks(LOG):
        part = log_sums(LOG.take(rows), Draws(drawn.number[rows], drawn.weight[rows]))
        total = part if total is None else total + part
    assert total.digest == whole.digest
    assert np.array_equal(total.units.hashes, whole.units.hashes)
    assert np.array_equal(total.units.counts, whole.units.counts)
    assert total.distribution.levels == pytest.approx(whole.distribution.levels)
    for a, b in zip(log_findings(LOG, whole), log_findings(LOG, total), strict=True):
        assert (a.level, a.sentence) == (b.level, b.sentence)
        assert a.value == pytest.approx(b.value, nan_ok=True)
    assert total.units.repeated_share == 5 / 1005
    assert total.balance.gap == pytest.approx(whole.balance.gap)
    assert total.leaks.products == pytest.approx(whole.leaks.products, nan_ok=True)


def test_calibration_sums():
    matrix, action = LOG.distribution, LOG.action
    mass = np.random.default_rng(0).random(LOG.rows)
    columns = (matrix, action, mass, mass**2, np.ones(LOG.rows))
    whole = calibration_sums(*columns)
    total = None
    for rows in blocks(LOG):
        part = calibration_sums(*(c[rows] for c in columns))
        total = part if total is None else total + part
    for name, value in vars(whole).items():
        assert vars(total)[name] == pytest.approx(value)


def test_masses_of_counted_weighted_units():
    from offpolicy.inference.estimate import Units

    mass, square = masses(Units(2, np.array([3.0, 1.0]), np.array([2.0, 0.5])))
    assert mass.tolist() == [6.0, 0.5]
    assert square.tolist() == [12.0, 0.25]


def test_few_hashes_are_kept_and_the_same_ones_by_every_path(monkeypatch):
    monkeypatch.setattr(hashes, "MOST", 50)
    rng = np.random.default_rng(0)
    keys = hashes.mixed(rng.integers(400, size=5000).astype(np.uint64))
    whole = hashes.HashCounts.of(keys, np.ones(5000))
    parts = [hashes.HashCounts.of(k, np.ones(len(k))) for k in np.split(keys, [3, 700, 4000])]
    total = parts[2] + parts[0] + (parts[3] + parts[1])
    assert len(whole.hashes) <= 50
    assert total.bits == whole.bits > 0
    assert np.array_equal(total.hashes, whole.hashes)
    assert np.array_equal(total.counts, whole.counts)
    assert 200 < whole.distinct < 800
    assert whole.repeated_share == pytest.approx(1 - 400 / 5000, abs=0.03)


def test_the_same_row_has_the_same_hash_in_every_kind_of_frame():
    day = pd.Timestamp("2024-01-02 03:04:05").to_pydatetime()
    pandas = pd.DataFrame(
        {
            "number": [1.5, np.nan, -0.0],
            "whole": pd.array([1, None, 3], dtype="Int64"),
            "text": ["a", None, "b"],
            "kind": pd.Categorical(["k", "l", "k"]),
            "flag": [True, False, True],
            "day": pd.to_datetime([day, None, day]),
            "a": ["u", "v", "u"],
            "r": [1, 0, 1],
        }
    )
    kinds = {
        "pandas": pandas,
        "polars": pl.DataFrame(
            {
                "number": [1.5, None, 0.0],
                "whole": [1, None, 3],
                "text": ["a", None, "b"],
                "kind": ["k", "l", "k"],
                "flag": [True, False, True],
                "day": [day, None, day],
                "a": ["u", "v", "u"],
                "r": [1.0, 0.0, 1.0],
            }
        ),
        "arrow": pa.Table.from_pandas(pandas.assign(kind=["k", "l", "k"])),
    }
    columns = ["number", "whole", "text", "kind", "flag", "day"]
    made = {
        name: hashes.row_hashes(op.BanditLog.from_frame(frame, context=columns, action="a", reward="r"))
        for name, frame in kinds.items()
    }
    assert made["pandas"].tolist() == made["polars"].tolist() == made["arrow"].tolist()
    assert len(set(made["pandas"].tolist())) == 3


def test_codes_do_not_matter_to_a_hash():
    few = op.BanditLog.from_arrays([[1.0]], ["v"], [1.0], batch=[7])
    many = op.BanditLog.from_arrays([[0.0], [1.0]], ["u", "v"], [0.0, 1.0], batch=[3, 7])
    assert hashes.row_hashes(few)[0] == hashes.row_hashes(many)[1]


def test_a_value_is_hashed_in_its_role():
    as_reward = op.BanditLog.from_arrays(None, ["u"], [0.5], [1.0])
    as_propensity = op.BanditLog.from_arrays(None, ["u"], [1.0], [0.5])
    assert hashes.row_hashes(as_reward)[0] != hashes.row_hashes(as_propensity)[0]


def test_steps_of_an_episode_are_hashed_together():
    def of(rewards):
        log = op.Trajectories.from_arrays(
            [[0.1, 0.2], [0.3, 0.4]], [[0, 1], [1, 0]], rewards, propensities=[[0.5] * 2] * 2
        )
        return log_sums(log).digest

    swapped = [[1.0, 4.0], [3.0, 2.0]]  # the same steps' rewards, in other episodes
    assert of([[1.0, 2.0], [3.0, 4.0]]) != of(swapped)
