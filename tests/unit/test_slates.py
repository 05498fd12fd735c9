"""Slates: what is read, what policies see, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import offpolicy as op
from offpolicy.errors import DataError, PolicyError, UsageError
from offpolicy.logs.interaction import Interaction
from offpolicy.trust.slots import settled

ITEMS = np.array(["a", "b", "c", "d"])
ROLES = {
    "slate": "request", "position": "pos", "context": ["x"], "action": "item", "reward": "click", "propensity": "p",
}  # fmt: skip


def frame_of(n=400, slots=3, *, distinct=True, seed=0):
    """Slates filled by Plackett–Luce, or with each slot drawn by itself."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    logits = 0.5 * x[:, None] * np.array([1.0, -1.0, 0.5, 0.0])
    shown = np.zeros((n, 4), dtype=bool)
    rows = []
    for k in range(slots):
        weight = np.where(shown & distinct, 0.0, np.exp(logits))
        p = weight / weight.sum(axis=1, keepdims=True)
        a = (rng.uniform(size=(n, 1)) > p.cumsum(axis=1)).sum(axis=1)
        shown[np.arange(n), a] = True
        click = rng.uniform(size=n) < 1 / (1 + np.exp(1 - (a == 0) - 0.5 * (a == 1)))
        rows.append(
            {"request": np.arange(n), "pos": k + 1, "x": x, "item": ITEMS[a], "click": click * 1.0,
             "p": p[np.arange(n), a]}
        )  # fmt: skip
    frame = pd.concat([pd.DataFrame(r) for r in rows])
    return frame.sample(frac=1.0, random_state=seed).reset_index(drop=True)


def scorer(frame):
    return -0.5 * frame["x"].to_numpy()[:, None] * np.array([1.0, -1.0, 0.5, 0.0])


@pytest.mark.parametrize("interaction", ["cascade", "full"])
def test_policies_see_context_position_and_the_items_above(interaction):
    log = op.Slates.from_frame(frame_of(), **ROLES, interaction=interaction)
    assert log.distinct
    seen = []

    def policy(rows):
        seen.append(rows)
        able = np.ones((len(rows), 4))
        for name in ("item_1", "item_2"):
            codes = rows[name].cat.codes.to_numpy()
            above = np.flatnonzero(codes >= 0)
            able[above, codes[above]] = 0.0
        return able / able.sum(axis=1, keepdims=True)

    ev = op.evaluate(log, {"mine": policy, "words": "uniform"}, estimators=["IPW", "DML"])
    assert list(seen[0].columns) == ["x", "pos", "item_1", "item_2"]
    first = seen[0][seen[0]["pos"] == 1]
    assert first[["item_1", "item_2"]].isna().all().all()
    assert seen[0].loc[seen[0]["pos"] == 2, "item_2"].isna().all()
    assert ev["mine", "DML"].value == pytest.approx(ev["words", "DML"].value, abs=1e-12)


@pytest.mark.parametrize("interaction", ["cascade", "full"])
def test_items_drawn_without_replacement_are_balanced(interaction):
    """What is shown below depends on a slot's own item, and is no part of what its propensity is given."""
    log = op.Slates.from_frame(frame_of(2000), **ROLES, interaction=interaction)
    ev = op.evaluate(log, op.policies.PlackettLuce(scorer), estimators=["IPW"])
    assert ev.diagnostics["balance"].level == "ok"
    fitted = op.Slates.from_frame(frame_of(2000), **{**ROLES, "propensity": None}, interaction=interaction)
    guessed = op.evaluate(fitted, op.policies.PlackettLuce(scorer), estimators=["SNIPW"])
    known = op.evaluate(log, op.policies.PlackettLuce(scorer), estimators=["SNIPW"])
    assert guessed["policy", "SNIPW"].value == pytest.approx(
        known["policy", "SNIPW"].value, abs=2 * known["policy", "SNIPW"].std_error
    )


def test_one_item_for_every_slot_is_refused_with_the_reason():
    log = op.Slates.from_frame(frame_of(50), **ROLES)
    with pytest.raises(PolicyError, match=r"not eligible.*shows an item twice.*distinct=False"):
        op.evaluate(log, "always:a", estimators=["IPW"])


def test_auto_takes_distinct_items_for_a_cascade_at_least():
    """Their probabilities are given the items above, which "independent" slots have no use for."""

    def chosen(seed, *, distinct):
        frame = frame_of(400, distinct=distinct, seed=seed)
        return settled(op.Slates.from_frame(frame, **ROLES, interaction="auto"), 2, 0)

    ranked = [chosen(seed, distinct=True) for seed in range(8)]
    assert {"cascade"} <= {log.interaction.name for log in ranked} <= {"cascade", "full"}
    assert "independent" in [chosen(seed, distinct=False).interaction.name for seed in range(8)]
    for log in ranked:
        op.evaluate(log, op.policies.PlackettLuce(scorer), estimators=["IPW"])


def test_plackett_luce_is_softmax_over_what_is_left():
    log = op.Slates.from_frame(frame_of(), **ROLES)
    policy = op.policies.PlackettLuce(scorer)

    def by_hand(rows):
        weight = np.exp(scorer(rows))
        for name in ("item_1", "item_2"):
            codes = rows[name].cat.codes.to_numpy()
            above = np.flatnonzero(codes >= 0)
            weight[above, codes[above]] = 0.0
        return weight / weight.sum(axis=1, keepdims=True)

    ev = op.evaluate(log, {"pl": policy, "hand": by_hand}, estimators=["IPW", "DML"])
    for name in ("IPW", "DML"):
        assert ev["pl", name].value == pytest.approx(ev["hand", name].value, abs=1e-12)


@pytest.mark.parametrize("interaction", ["independent", [[1, 0, 0], [0, 1, 1], [0, 1, 1]]])
def test_plackett_luce_has_no_probability_of_a_position(interaction):
    log = op.Slates.from_frame(frame_of(distinct=False), **ROLES, interaction=interaction)
    with pytest.raises(PolicyError, match="without replacement"):
        op.evaluate(log, op.policies.PlackettLuce(scorer), estimators=["IPW"])


def test_items_that_repeat_are_candidates_again():
    log = op.Slates.from_frame(frame_of(distinct=False), **ROLES)
    assert not log.distinct
    assert log.eligible is None
    with pytest.raises(UsageError, match="twice"):
        op.Slates.from_frame(frame_of(distinct=False), **ROLES, distinct=True)


def test_masks_that_are_not_closed_hide_other_items_from_policies():
    neighbors = np.array([[1, 1, 0], [1, 1, 1], [0, 1, 1]])
    log = op.Slates.from_frame(frame_of(distinct=False), **ROLES, interaction=neighbors)
    seen = []

    def policy(rows):
        seen.extend(rows.columns)
        return np.full((len(rows), 4), 0.25)

    ev = op.evaluate(log, policy)
    assert set(seen) == {"x", "pos"}
    assert list(log.context.names) == ["x", "pos", "item_1", "item_2", "item_3"]
    assert "DM" not in [e.name for e in ev.estimators]
    assert not np.isnan(ev["policy", "DML"].value)
    assert ev.verdict().level


@pytest.mark.parametrize("interaction", ["cascade", "independent", "full", "additive"])
def test_the_logging_policy_itself_is_worth_what_was_logged(interaction):
    """π_e = π_b: every weight is 1, and IPW is the logged mean to the last digit."""
    frame = frame_of(distinct=False)
    if interaction == "additive":
        frame["click"] = frame.groupby("request")["click"].transform("sum")
    log = op.Slates.from_frame(frame, **ROLES, interaction=interaction)

    def policy(rows):
        weight = np.exp(-scorer(rows))
        return weight / weight.sum(axis=1, keepdims=True)

    ev = op.evaluate(log, policy, estimators=["IPW", "SNIPW"])
    assert ev["policy", "IPW"].value == pytest.approx(ev.logged.value, abs=1e-12)
    assert ev["policy", "SNIPW"].value == pytest.approx(ev.logged.value, abs=1e-12)


def test_frames_of_every_kind_give_the_same_numbers():
    frame = frame_of()
    values = []
    for given in (frame, pl.from_pandas(frame), pl.from_pandas(frame).to_arrow()):
        log = op.Slates.from_frame(given, **ROLES)
        ev = op.evaluate(log, op.policies.PlackettLuce(lambda rows: np.tile([2.0, 1, 0, 0], (_len(rows), 1))))
        values.append([ev["policy", e.name].value for e in ev.estimators])
    assert values[0] == pytest.approx(values[1], abs=1e-12)
    assert values[0] == pytest.approx(values[2], abs=1e-12)


def _len(rows):
    return rows.num_rows if hasattr(rows, "num_rows") else len(rows)


def test_folds_do_not_depend_on_the_order_of_rows():
    frame = frame_of()
    shuffled = frame.sample(frac=1.0, random_state=5)
    one, two = (
        op.evaluate(op.Slates.from_frame(f, **ROLES), "uniform")["policy", "DML"].value for f in (frame, shuffled)
    )
    assert one == pytest.approx(two, abs=1e-12)


def test_candidates_bound_what_policies_may_show():
    frame = frame_of(distinct=False)
    few = [["a", "b"] if r % 2 else list(ITEMS) for r in frame["request"]]
    kept = frame.assign(could=few)
    kept = kept[[i in c for i, c in zip(kept["item"], kept["could"], strict=True)]]
    whole = kept.groupby("request")["pos"].transform("size") == 3
    log = op.Slates.from_frame(kept[whole], **ROLES, candidates="could")
    pi = op.evaluate(log, "uniform", estimators=["IPW"]).targets["policy"]
    rows = np.flatnonzero(log.eligible.sum(axis=1) == 2)
    assert pi.probabilities(rows[:1]).max() == 0.5
    with pytest.raises(PolicyError, match="eligible"):
        op.evaluate(log, lambda rows: np.full((len(rows), 4), 0.25), estimators=["IPW"])


def test_propensities_are_fitted_from_context_position_and_items_above():
    frame = frame_of(2000)
    roles = {**ROLES, "propensity": None}
    fitted = op.evaluate(op.Slates.from_frame(frame, **roles), "uniform", estimators=["DML"])
    known = op.evaluate(op.Slates.from_frame(frame, **ROLES), "uniform", estimators=["DML"])
    gap = fitted["policy", "DML"].value - known["policy", "DML"].value
    assert abs(gap) < 3 * known["policy", "DML"].std_error


def test_estimands_speak_of_slates():
    log = op.Slates.from_frame(frame_of(), **ROLES)
    ev = op.evaluate(log, "uniform", estimators=["IPW"])
    assert ev.settings["estimand"].startswith("value per slate of up to 3 slots")
    assert "episode" not in str(ev)
    assert "slates" in " ".join(ev.verdict().reasons)


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"interaction": "cascades"}, UsageError, "cascade"),
        ({"interaction": np.ones((2, 2))}, UsageError, "shape"),
        ({"interaction": np.zeros((3, 3))}, UsageError, "diagonal"),
        ({"interaction": "additive"}, DataError, "changes within"),
        ({"interaction": "cascade", "reward_of": "slate"}, DataError, "changes within"),
        ({"interaction": "additive", "reward_of": "slot"}, UsageError, "one reward"),
        ({"context": ["x", "pos"]}, UsageError, "models always see"),
        ({"context": ["x", "request"]}, UsageError, "only identifies slates"),
        ({"position": "place"}, DataError, "place"),
    ],
)
def test_what_cannot_be_meant_is_refused(changes, error, says):
    with pytest.raises(error, match=says):
        op.Slates.from_frame(frame_of(60), **{**ROLES, **changes})


def test_gaps_and_repeated_positions_name_the_row():
    frame = frame_of(60)
    gap = frame[~((frame["request"] == 7) & (frame["pos"] == 2))]
    with pytest.raises(DataError, match=r"'pos': position 1 of the slate in row \d+ is followed by a gap"):
        op.Slates.from_frame(gap, **ROLES)
    twice = pd.concat([frame, frame[frame["request"] == 7]])
    with pytest.raises(DataError, match="appears twice"):
        op.Slates.from_frame(twice, **ROLES)


def test_a_column_with_the_name_of_a_slot_is_refused():
    frame = frame_of(60).assign(item_1=1.0)
    with pytest.raises(UsageError, match="Rename"):
        op.Slates.from_frame(frame, **{**ROLES, "context": ["x", "item_1"]})


def test_horizons_and_discounts_are_for_episodes():
    log = op.Slates.from_frame(frame_of(60), **ROLES)
    with pytest.raises(UsageError, match="discount"):
        op.evaluate(log, "uniform", discount=0.9)
    with pytest.raises(UsageError, match="episodes"):
        op.evaluate(log.up_to(2), "uniform")
    with pytest.raises(UsageError, match="DRL is not defined for a slates log"):
        op.evaluate(log, "uniform", estimators=["DRL"])
    with pytest.raises(UsageError, match="is for trajectories"):
        op.evaluate(log, "uniform", ratio=np.ones(180))


def test_which_masks_are_products_up_to_a_slot():
    late = np.array([[1, 1, 0], [1, 1, 0], [1, 1, 1]])
    made = Interaction.of(late, 3)
    assert made.link is None
    assert made.due.tolist() == [1, 1, 2]
    assert made.shows_above
    assert Interaction.of("independent", 3).link.is_single
    assert not Interaction.of("independent", 3).shows_above
    assert Interaction.of([[1, 0, 0], [0, 1, 0], [1, 0, 1]], 3).shows_above
    assert not Interaction.of([[1, 0, 0], [1, 1, 0], [0, 1, 1]], 3).shows_above


@pytest.mark.parametrize("interaction", ["independent", "cascade"])
def test_slates_of_weight_zero_add_nothing_where_nobody_else_comes(interaction):
    frame = frame_of(300, distinct=False).assign(w=lambda f: (f["request"] % 2).astype(float))
    roles = {**ROLES, "interaction": interaction, "weight": "w"}
    longer = frame[(frame["w"] == 0) & (frame["pos"] == 3)].assign(pos=4)
    logs = [op.Slates.from_frame(f, **roles) for f in (frame, pd.concat([frame, longer]))]
    short, long = (op.evaluate(log, "uniform", estimators=["IPW", "DML"]) for log in logs)
    assert long["IPW"].value == pytest.approx(short["IPW"].value, rel=1e-12)
    assert long["IPW"].std_error == pytest.approx(short["IPW"].std_error, rel=1e-12)
    assert long.verdict("policy").level == short.verdict("policy").level


def test_some_slates_of_a_log():
    log = op.Slates.from_frame(frame_of(60), **ROLES, interaction="independent")
    part = log.take(np.arange(10))
    assert part.n == 10
    assert part.layout.link is log.layout.link
    assert len(part.policy_context) == part.rows
    assert op.evaluate(part, "uniform", estimators=["IPW"])["policy", "IPW"].n == 10


def interacting(n, seed, *, below):
    """Three slots, each drawn by itself; a reward depends on the items above, or also on those below."""
    rng = np.random.default_rng(seed)
    item = rng.integers(3, size=(n, 3))
    best = item == 0
    other = best.cumsum(axis=1) - best if not below else best.sum(axis=1, keepdims=True) - best
    click = rng.uniform(size=(n, 3)) < 0.15 + 0.25 * best + 0.2 * (other > 0)
    return pd.DataFrame(
        {"request": np.repeat(np.arange(n), 3), "pos": np.tile([1, 2, 3], n), "x": 0.0, "item": item.ravel(),
         "click": click.ravel() * 1.0, "p": 1 / 3}
    )  # fmt: skip


def often_best(rows):
    return np.tile([0.6, 0.2, 0.2], (len(rows), 1))


@pytest.mark.parametrize(
    ("below", "interaction", "wrong"),
    [(False, "cascade", False), (False, "independent", True), (True, "cascade", True), (True, "full", False)],
)
def test_rewards_that_depend_on_slots_left_out_are_noticed(below, interaction, wrong):
    log = op.Slates.from_frame(interacting(4000, 3, below=below), **ROLES, interaction=interaction)
    ev = op.evaluate(log, often_best, estimators=["DML"])
    assert (ev.diagnostics["left_out_slots"].level == "caution") == wrong
    assert (ev.diagnostics["interaction_bias"].level != "ok") == wrong
    assert (ev.verdict().level != "trust") == wrong
    if wrong:
        assert any("interaction=" in reason for reason in ev.verdict().reasons)


def test_the_difference_to_a_wider_interaction_is_the_plain_sum():
    """Σ_k (∏_j w_j − ∏_{j≤k} w_j) (R_k − r̄_k), without a model."""
    from offpolicy.trust.slots import difference, wider
    from offpolicy.trust.view import View

    frame = interacting(60, 1, below=True)
    log = op.Slates.from_frame(frame, **ROLES)
    ev = op.evaluate(log, often_best, estimators=["IPW"])
    view = View.of(ev.problem, ev.targets["policy"])
    made = difference(view, wider(view.decisions)["full"])
    w = np.where(frame["item"].to_numpy() == 0, 0.6, 0.2).reshape(60, 3) * 3
    r = frame["click"].to_numpy().reshape(60, 3)
    loop = [sum((w[i].prod() - w[i, : k + 1].prod()) * (r[i, k] - r[:, k].mean()) for k in range(3)) for i in range(60)]
    assert made == pytest.approx(np.array(loop), abs=1e-12)


def test_several_rewards():
    frame = frame_of(200).assign(cost=lambda f: 0.1 * (f["item"] == "a"))
    both = op.Slates.from_frame(frame, **{**ROLES, "reward": ["click", "cost"]}, interaction="full")
    alone = op.Slates.from_frame(frame, **{**ROLES, "reward": "cost"}, interaction="full")
    ev = op.evaluate(both, "uniform", estimators=["IPW"])
    other = op.evaluate(alone, "uniform", estimators=["IPW"])
    assert ev.metric("cost")["policy", "IPW"].value == other["policy", "IPW"].value


@pytest.mark.parametrize(("below", "name"), [(False, "cascade"), (True, "full")])
def test_auto_finds_what_rewards_depend_on(below, name):
    frame = interacting(4000, 4, below=below)
    ev = op.evaluate(op.Slates.from_frame(frame, **ROLES, interaction="auto"), often_best, estimators=["IPW"])
    log = ev.problem.log
    assert log.interaction.name == name
    assert log.n + 1000 == pytest.approx(4000, abs=100)
    assert any("not used for estimates" in note for note in ev["policy", "IPW"].notes)
    again = op.evaluate(log, often_best, estimators=["IPW"])
    assert again["policy", "IPW"].value == ev["policy", "IPW"].value


def test_the_slates_that_are_left_widen_what_a_quarter_of_a_small_log_chose():
    chosen, widened = [], []
    for seed in range(20):
        frame = interacting(400, seed, below=True)
        log = op.Slates.from_frame(frame, **ROLES, interaction="auto")
        kept = settled(log, 2, 0)
        chosen.append(kept.interaction.name)
        widened.append("widened to 'full'" in kept.notes[-1])
    assert chosen.count("full") >= 19
    assert sum(widened) >= 4  # a quarter alone had taken too narrow an interaction so often


def test_auto_needs_propensities_and_slates_to_spare():
    few = op.Slates.from_frame(interacting(60, 3, below=True), **ROLES, interaction="auto")
    with pytest.raises(UsageError, match="too few"):
        op.evaluate(few, often_best, estimators=["IPW"])
    roles = {**ROLES, "propensity": None}
    unknown = op.Slates.from_frame(interacting(400, 3, below=True), **roles, interaction="auto")
    with pytest.raises(UsageError, match="propensities"):
        op.evaluate(unknown, often_best, estimators=["IPW"])
    log = op.Slates.from_frame(interacting(400, 3, below=True), **ROLES, interaction="auto")
    with pytest.raises(UsageError, match="folds="):
        op.evaluate(log, often_best, estimators=["IPW"], folds=np.arange(400) % 2)


@pytest.mark.parametrize("interaction", ["cascade", "independent", "full"])
def test_values_by_position(interaction, tmp_path):
    frame = interacting(300, 2, below=False)
    cut = frame[(frame["pos"] < 3) | (frame["request"] % 2 == 0)]  # slates of two and three slots
    log = op.Slates.from_frame(cut, **ROLES, interaction=interaction)
    ev = op.evaluate(log, often_best, estimators=["SNIPW", "DML"])
    rows = ev.position_values()
    assert [row["position"] for row in rows] == ["1", "2", "3"]
    w = {(r, p): (0.6 if a == 0 else 0.2) * 3 for r, p, a in cut[["request", "pos", "item"]].itertuples(index=False)}
    clicks = {(r, p): c for r, p, c in cut[["request", "pos", "click"]].itertuples(index=False)}
    for k, row in enumerate(rows, start=1):
        top = bottom = 0.0
        for r in range(300):
            slots = [p for p in (1, 2, 3) if (r, p) in w]
            up_to = {"cascade": k, "full": 3, "independent": k}[interaction]
            used = [p for p in slots if (p <= up_to if interaction != "independent" else p == k)]
            weight = float(np.prod([w[r, p] for p in used]))
            top += weight * clicks.get((r, k), 0.0)
            bottom += weight
        assert row["value"] == pytest.approx(top / bottom, abs=1e-12)
        assert row["low"] < row["value"] < row["high"]
    assert rows[2]["share"] == pytest.approx(0.5)
    if interaction != "full":
        assert sum(row["value"] for row in rows) == pytest.approx(ev["policy", "SNIPW"].value, abs=1e-10)
    ev.report(tmp_path / "report.html")
    assert "Value by position" in (tmp_path / "report.html").read_text()


def test_a_picture_of_positions():
    log = op.Slates.from_frame(interacting(200, 2, below=False), **ROLES)
    axes = op.evaluate(log, often_best, estimators=["IPW"]).plot("positions")
    assert axes.get_xlabel() == "reward at the position, 95% intervals"
    assert len(axes.get_yticklabels()) == log.horizon
    with pytest.raises(UsageError, match="position_values"):
        op.evaluate(log, often_best, estimators=["IPW"]).step_curves()


@pytest.mark.parametrize("interaction", ["cascade", "independent"])
def test_a_column_with_the_probability_of_what_was_shown(interaction, tmp_path):
    frame = frame_of(300, distinct=False)
    weight = np.exp(scorer(frame))
    pi = weight / weight.sum(axis=1, keepdims=True)
    frame["p_new"] = pi[np.arange(len(frame)), np.searchsorted(ITEMS, frame["item"])]
    log = op.Slates.from_frame(frame, **ROLES, interaction=interaction)
    ev = op.evaluate(log, {"column": "p_new", "object": op.policies.ShownProbability("p_new")})
    assert [e.name for e in ev.estimators] == ["SNIPW", "IPW"]
    whole = op.evaluate(log, lambda rows: _softmax(scorer(rows)), estimators=["SNIPW", "IPW"])
    for name in ("SNIPW", "IPW"):
        for policy in ("column", "object"):
            assert ev[policy, name].value == pytest.approx(whole["policy", name].value, abs=1e-12)
    assert ev.verdict("column").level
    ev.report(tmp_path / "report.html")
    with pytest.raises(UsageError, match="only for the shown items"):
        op.evaluate(log, "p_new", estimators=["DML"])
    with pytest.raises(PolicyError, match="not probabilities"):
        op.evaluate(op.Slates.from_frame(frame.assign(p_new=2.5), **ROLES), "p_new")


def _softmax(scores):
    weight = np.exp(scores)
    return weight / weight.sum(axis=1, keepdims=True)


def test_lazy_tables_are_sent_to_the_scan():
    lazy = pl.from_pandas(interacting(40, 3, below=False)).lazy()
    for given in (lazy, "logs/*.parquet"):
        with pytest.raises(DataError, match=r"Slates\.scan"):
            op.Slates.from_frame(given, **ROLES)


def test_everything_downstream_takes_slates(tmp_path):
    frame = interacting(600, 3, below=False).assign(user=lambda f: f["request"] // 3)
    log = op.Slates.from_frame(frame, **ROLES, cluster="user", interaction="independent")
    ev = op.evaluate(log, {"often best": often_best, "uniform": "uniform"}, estimators=["DML", "IPW"])
    assert ev["uniform", "IPW"].value == pytest.approx(ev.logged.value, abs=1e-12)
    sums = pd.Series(frame["click"].to_numpy()).groupby(frame["user"].to_numpy()).sum() / 3
    assert ev.logged.std_error == pytest.approx(sums.std(ddof=0) / np.sqrt(200), rel=1e-9)
    assert ev.gate("'often best' lift > 0").passed
    assert ev.compare().best.leader == "often best"
    made = json.loads(ev.to_json(tmp_path / "result.json"))
    assert made["log"]["kind"] == "slates"
    assert made["settings"]["estimand"].startswith("value per slate")
    gap = ev["often best", "DML"] - ev.logged
    assert gap.interval(0.95).low > 0
    assert op.select(ev)


def test_the_check_of_left_out_slots_keeps_its_level():
    """Clean logs: p-values below 5% in about 5% of 200 logs; four binomial standard errors are 6.2 points."""
    from offpolicy.trust.slots import dependence

    low = 0
    for seed in range(200):
        log = op.Slates.from_frame(interacting(150, 100 + seed, below=False), **{**ROLES, "context": None})
        low += dependence(log, log.interaction.mask).p < 0.05
    assert abs(low / 200 - 0.05) < 4 * np.sqrt(0.05 * 0.95 / 200)
