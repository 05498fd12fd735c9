"""Slates: rewards that depend on slots that were left out, by plain loops and Hotelling's T²."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from trust_slates import frame_of, log_of

import offpolicy as op
from offpolicy.inference.intervals.tails import effective_size
from offpolicy.models.fitting.encode import encode_table
from offpolicy.models.rewards.auto import LinearReward
from offpolicy.models.rewards.reward import RewardData
from offpolicy.splits.hashing import drawn
from offpolicy.trust import slots
from offpolicy.trust.check import CHECKS, WIDER
from offpolicy.trust.moments import mean_z
from offpolicy.trust.view import View


def products(frame, mask, weight=None, slots=3):
    """(n, terms) rewards that leave a slot out times the centered indicator of its item."""
    n = len(frame) // slots
    item, r, p = (frame[c].to_numpy().reshape(n, slots) for c in ("item", "r", "p"))
    m = np.ones(n) if weight is None else weight
    residual = np.zeros((n, slots))
    for k in range(slots):
        for a in range(3):
            mine = item[:, k] == a
            residual[mine, k] = r[mine, k] - m[mine] @ r[mine, k] / m[mine].sum()
    columns, names = [], []
    for j in range(slots):
        out = [k for k in range(slots) if not mask[k, j]]
        if not out:
            continue
        count = np.bincount(item[:, j], minlength=3)
        for a in np.argsort(-count, kind="stable"):
            if count[a] >= 20:
                columns.append(residual[:, out].sum(axis=1) * ((item[:, j] == a) / p[:, j] - 1))
                names.append((j, int(a)))
    return np.column_stack(columns), names


def hotelling(table, rank=None):
    n = len(table)
    mean, cov = table.mean(axis=0), np.cov(table.T)
    t2 = n * mean @ np.linalg.pinv(cov, rcond=1e-9, hermitian=True) @ mean
    rank = np.linalg.matrix_rank(cov / np.outer(*[np.sqrt(np.diag(cov))] * 2), tol=1e-8) if rank is None else rank
    z = math.sqrt(n) * mean / np.sqrt(np.diag(cov))
    return stats.f.sf(t2 * (n - rank) / (rank * (n - 1)), rank, n - rank), rank, z


@pytest.mark.parametrize("kind", ["plain", "weighted", "clusters"])
@pytest.mark.parametrize("effect", [0.0, 0.6])
def test_dependence_on_slots_left_out_by_a_loop(kind, effect):
    n = 240
    frame = frame_of(n, 2, effect=effect, x=np.zeros(n))
    roles, weight = {}, None
    if kind == "weighted":
        weight = np.arange(n) % 3 + 1.0
        roles = {"weight": "w"}
        frame["w"] = np.repeat(weight, 3)
    if kind == "clusters":
        frame["u"] = np.repeat(np.arange(n) // 2, 3)
        roles = {"cluster": "u"}
    log = log_of(frame, bare=True, **roles)
    mask = np.eye(3, dtype=bool)
    table, names = products(frame, mask, weight)
    if weight is not None:
        table = table * (weight / weight.mean())[:, None]
    if kind == "clusters":
        table = table.reshape(n // 2, 2, -1).sum(axis=1)
    found = slots.dependence(log, mask)
    p, rank, z = hotelling(table)
    top = int(np.argmax(np.abs(z)))
    assert found.terms == rank
    assert found.p == pytest.approx(p, rel=1e-6)
    assert (found.slot, found.item) == names[top]
    assert found.z == pytest.approx(z[top])
    said = slots.finding(log)
    assert said.value == pytest.approx(p, rel=1e-6)
    if p < 0.003:
        assert effect > 0
        higher = "higher" if z[top] > 0 else "lower"
        assert said.sentence == (
            f"rewards depend on position {names[top][0] + 1} although they should not: they are "
            f"{higher} where it shows {names[top][1]!r} (p = {found.p:.2g} over {rank} items and "
            "slots)."
        )
        assert (said.level, said.remedy) == ("caution", WIDER)
    else:
        assert effect == 0
        assert said.sentence == (
            f"no sign that rewards depend on slots that interaction= leaves out (p = {found.p:.2g})."
        )
        assert said.level == "ok"
    assert said.details == {"position": names[top][0] + 1, "item": repr(names[top][1]), "z": found.z}


def test_which_items_are_looked_at():
    frame = frame_of(240, 2, x=np.zeros(240))
    log = log_of(frame, bare=True)
    everything = np.eye(3, dtype=bool)
    assert len(list(slots._terms(log, everything))) == 9
    above = np.tril(np.ones((3, 3), dtype=bool))
    assert {j for j, _ in slots._terms(log, above)} == {1, 2}
    assert list(slots._terms(log, np.ones((3, 3), dtype=bool))) == []
    few = log_of(frame_of(89, 2, x=np.zeros(89)), bare=True)  # ten slates for each term: two items of three slots
    assert [a for _, a in slots._terms(few, everything)] == [0, 1] * 3
    item = frame["item"].to_numpy().reshape(-1, 3)
    rare = frame.copy()
    drop = np.flatnonzero(item[:, 0] == 2)[19:]
    shown = item.copy()
    shown[drop, 0] = 1
    rare["item"] = shown.ravel()
    assert (0, 2) not in set(slots._terms(log_of(rare, bare=True), everything))
    shown[drop[0], 0] = 2
    rare["item"] = shown.ravel()
    assert (0, 2) in set(slots._terms(log_of(rare, bare=True), everything))
    assert slots.dependence(few.take(np.arange(29)), everything) is None


def test_where_no_slot_is_left_out():
    frame = frame_of(120, 1)
    assert slots.finding(log_of(frame, "full")).sentence == ("rewards may depend on all slots, so none is left out.")
    unknown = log_of(frame.drop(columns="p"), propensity=None)
    assert slots.finding(unknown).sentence == "propensities of the items were not logged."
    assert slots.finding(log_of(frame_of(120, 1, slots=1))).sentence == "slates have one slot."
    few = log_of(frame_of(12, 1))
    assert slots.finding(few).sentence == "no slot that interaction= leaves out shows an item often enough."
    assert not CHECKS["left_out_slots"].limits.decides


def test_attraction_acts_through_a_linear_model():
    """Rewards that fall where an attractive item is shown elsewhere, of which the items alone tell less."""
    from offpolicy.trust.slots import attraction

    n = 500
    rng = np.random.default_rng(5)
    frame = frame_of(n, 5)
    x = frame["x"].to_numpy().reshape(n, 3)[:, 0]
    item = frame["item"].to_numpy().reshape(n, 3)
    own = np.where(item == 0, x[:, None], -x[:, None])
    reward = own - 0.6 * (own.sum(axis=1, keepdims=True) - own) + 0.5 * rng.normal(size=(n, 3))
    frame["r"] = reward.ravel()
    log = log_of(frame)
    f = attraction(log)
    assert f.shape == (1500, 3)
    assert np.corrcoef(f[np.arange(1500), log.action], log.reward)[0, 1] > 0.3
    half = np.asarray(drawn(log.units, 0.5, 1))[log.layout.unit]
    table = encode_table(log.bare.learner_table)
    for side in (half, ~half):
        rows, others = np.flatnonzero(~side), np.flatnonzero(side)
        given = RewardData(
            table.rows(rows), log.action[rows], log.slot_reward[rows], None, log.actions, log.names.action
        )
        fit = LinearReward().fit_reward(given, 0)
        for item_code in range(3):
            made = fit.predict(table.rows(others), np.full(len(others), item_code))
            assert f[others, item_code] == pytest.approx(made)
    found = slots.dependence(log, np.eye(3, dtype=bool))
    assert found.item == slots.ATTRACTIVE
    assert found.z < 0
    said = slots.finding(log)
    assert "they are lower where it shows an attractive item" in said.sentence
    columns = slots._Columns(log, np.eye(3, dtype=bool))
    p = frame["p"].to_numpy().reshape(n, 3)[:, 1]
    residual = slots._residual(log).reshape(n, 3)
    at = f.reshape(n, 3, 3)[:, 1]
    expected = (residual[:, 0] + residual[:, 2]) * (at - at.mean(axis=1)[:, None])[np.arange(n), item[:, 1]] / (3 * p)
    assert columns.of(1, slots.ATTRACTIVE, slice(None)) == pytest.approx(expected)
    assert columns.of(1, slots.ATTRACTIVE, slice(5, 9)) == pytest.approx(expected[5:9])


# -- wider interactions --------------------------------------------------------------------------------------------


def seen(n, kind, *, effect=0.0, seed=3, model=False, policy=(0.6, 0.2, 0.2)):
    frame = frame_of(n, seed, effect=effect, below=True, x=np.zeros(n))
    log = log_of(frame, kind)
    ev = op.evaluate(log, lambda rows: np.tile(policy, (len(rows), 1)), estimators=["DML" if model else "IPW"])
    view = View.of(ev.problem, ev.targets["policy"])
    w = np.array(policy)[frame["item"]] / frame["p"].to_numpy()
    return view, w.reshape(n, 3), frame["r"].to_numpy().reshape(n, 3)


@pytest.mark.parametrize("effect", [0.0, 0.9])
def test_wider_interactions_by_a_loop(effect):
    view, w, r = seen(900, "independent", effect=effect)
    centered = r - r.mean(axis=0)
    whole, chain = w.prod(axis=1), w.cumprod(axis=1)
    gaps = {"full": ((whole[:, None] - w) * centered).sum(axis=1), "cascade": ((chain - w) * centered).sum(axis=1)}
    z = {name: mean_z(view.units.sample(gap), 0.0) for name, gap in gaps.items()}
    found = slots.bias(view)
    assert found.details == {
        name: {"z": pytest.approx(z[name]), "difference": pytest.approx(gaps[name].mean())} for name in z
    }
    worst = max(z, key=lambda n: abs(z[n]))
    value = max(0.0, stats.norm.isf(min(1.0, 2 * 2 * stats.norm.sf(abs(z[worst]))) / 2))
    assert found.value == pytest.approx(value)
    words = {"full": "all slots of a slate", "cascade": "all slots up to a reward"}[worst]
    chance = "more than chance." if value > 3.3 else "no more than chance."
    assert (value > 3.3) == (effect > 0)
    assert found.sentence == (
        f"weights of {words} move the estimate by {gaps[worst].mean():+.3g}, {value:.2g} standard errors, which is "
        f"{chance}"
    )
    sizes = [slots._size(view, logs) for logs in slots.wider(view.decisions).values()]
    assert sizes == pytest.approx([effective_size(chain[:, -1]), effective_size(whole)])


def test_which_interactions_are_wider():
    view, *_ = seen(200, "cascade")
    assert list(slots.wider(view.decisions)) == ["full"]
    assert slots.bias(seen(200, "full")[0]).sentence == (
        "rewards may depend on all slots, so there is no wider assumption."
    )
    few = slots.bias(seen(90, "independent")[0])
    assert few.sentence == "too few slates follow the policy over all slots to tell."
    gone = np.full(600, -np.inf)
    assert slots._size(view, gone) == 0.0
    assert slots._size(view, np.full(600, 701.0)) == 0.0
    assert slots._size(view, np.full(600, 300.0)) == pytest.approx(200.0)


def test_a_sum_over_slots_against_the_product():
    frame = frame_of(300, 3, x=np.zeros(300))
    frame["r"] = np.repeat(frame["r"].to_numpy().reshape(300, 3).sum(axis=1), 3)
    log = log_of(frame, "additive", reward_of="slate")
    policy = (0.6, 0.2, 0.2)
    ev = op.evaluate(log, lambda rows: np.tile(policy, (len(rows), 1)), estimators=["IPW"])
    view = View.of(ev.problem, ev.targets["policy"])
    w = (np.array(policy)[frame["item"]] / frame["p"].to_numpy()).reshape(300, 3)
    reward = frame["r"].to_numpy().reshape(300, 3)[:, 0]
    expected = (w.prod(axis=1) - (1 + (w - 1).sum(axis=1))) * (reward - reward.mean())
    assert list(slots.wider(view.decisions)) == ["full"]
    assert slots.difference(view, slots.wider(view.decisions)["full"]) == pytest.approx(expected)
