"""What is left of the weights of episodes step by step, and what value models and ratios make of it, by loops."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from trust_episodes import Steps, view_of_steps
from trust_views import several

from offpolicy.inference.score_table import Units
from offpolicy.logs.kinds import kind_called
from offpolicy.logs.layout import Layout
from offpolicy.scores.decisions import Decisions
from offpolicy.trust import horizon
from offpolicy.trust.check import CHECKS

STEPS = [check.name for check in horizon.CHECKS]


def curve_loop(s, count, weight, cluster=None):
    """Effective size, share above 0, share of one, mean, active and running, step by step."""
    n, steps = len(s.lengths), max(s.lengths)
    mass = count * weight
    out = []
    for t in range(steps):
        rho = np.array([np.prod(s.ratio[i][: t + 1]) for i in range(n)])
        each = weight * rho
        if cluster is None:
            effective = (count @ each) ** 2 / (count @ each**2)
        else:
            sums = np.array([(count * each)[cluster == c].sum() for c in sorted(set(cluster))])
            effective = sums.sum() ** 2 / (sums**2).sum()
        active = np.array([length > t for length in s.lengths])
        out.append((
            effective, mass @ (rho > 0) / mass.sum(), (weight * rho).max() / (mass @ rho), mass @ rho / mass.sum(),
            count @ active, mass @ active / mass.sum(),
        ))  # fmt: skip
    return np.array(out).T


@pytest.mark.parametrize("kind", ["plain", "counted", "clusters"])
def test_the_curve_of_weights_by_a_loop(kind):
    s = Steps(1, 40)
    count = np.arange(40) % 2 + 1.0 if kind == "counted" else np.ones(40)
    weight = np.arange(40) % 3 + 1.0 if kind == "counted" else np.ones(40)
    cluster = np.arange(40) // 2 if kind == "clusters" else None
    own = kind == "counted"
    units = Units(40, count if own else None, weight if own else None, cluster)
    curve = horizon.horizon_curve(s.decisions(), units)
    loop = curve_loop(s, count, weight, cluster)
    for name, expected in zip(("effective", "surviving", "largest", "mean", "active", "running"), loop, strict=True):
        assert getattr(curve, name) == pytest.approx(expected), name
    assert curve.n == (20 if cluster is not None else count.sum())
    if own:  # what the decisions carry themselves
        carried = horizon.horizon_curve(s.decisions(weight=count * weight, count=count))
        assert carried.effective == pytest.approx(loop[0])
        assert carried.largest == pytest.approx(loop[2])
    if kind == "plain":
        assert horizon.horizon_curve(s.decisions(weight=weight * 2.0)).effective == pytest.approx(loop[0])


def test_no_episode_follows_and_weights_beyond_a_float():
    s = Steps(1, 10)
    gone = replace(s.decisions(), pi_e=np.zeros(sum(s.lengths)))
    curve = horizon.horizon_curve(gone)
    for name in ("effective", "surviving", "largest", "mean"):
        assert getattr(curve, name).tolist() == [0.0] * len(curve.effective)
    n = 4
    huge = Decisions(
        Layout.ragged([1, 2, 2, 2][:n]), np.ones(7), np.ones(7), np.full(7, 1e-300), np.ones(7), np.ones(7)
    )
    curve = horizon.horizon_curve(huge)
    assert curve.mean[1] == math.inf
    assert curve.effective == pytest.approx([4.0, 3.0])


def curve(effective, n=1000.0):
    blank = np.zeros(len(effective))
    return horizon.HorizonCurve(np.array(effective, float), blank, blank, blank, blank, blank, n)


@pytest.mark.parametrize(
    ("effective", "n", "supported"),
    [
        ([500, 200, 100], 1000, 3),
        ([500, 99, 200], 2000, 1),
        ([99, 50], 1000, 0),
        ([60, 50, 49], 500, 2),
        ([10, 9.9], 99, 2),
    ],
)
def test_steps_that_weights_support(effective, n, supported):
    made = curve(effective, n)
    assert made.supported == supported
    assert made.share == pytest.approx(np.array(effective) / n)


def words(kind="trajectories", *, is_discrete=True):
    """What a sentence about a log says of its units."""
    return SimpleNamespace(unit_kind=kind_called(kind), is_discrete=is_discrete)


def test_support_in_words():
    assert horizon.support(curve([500, 1234.4], 10_000), words()) == (
        "there are enough episodes up to the last of 2 steps (1,234 effective episodes), so DML is supported.", ""
    )  # fmt: skip
    sentence = (
        "after step 1 of 3, the log is worth fewer than 100 episodes (4.2 at the end), too few "
        "to estimate the whole horizon with products of ratios."
    )
    tabular = "Use DRL, whose ratios do not multiply over steps, or evaluate a shorter one with log.first(1)."
    assert horizon.support(curve([500, 50, 4.24], 2000), words()) == (sentence, tabular)
    said, remedy = horizon.support(curve([5, 4], 500), words(is_discrete=False))
    assert "after step 0 of 2, the log is worth fewer than 50 episodes (4.0 at the end)" in said
    assert remedy == (
        "Use DRL with a ratio model, or fall back on DM if you trust its value model, or "
        "evaluate a shorter one with log.first(1)."
    )
    assert "log.first(2)" in horizon.support(curve([500, 300, 4], 2000), words())[1]
    said, remedy = horizon.support(curve([500, 5], 1000), words(kind="slates"))
    assert said == (
        "after slot 1 of 2, the log is worth fewer than 100 slates (5.0 at the end), too few to "
        "estimate the whole slate with products of ratios."
    )
    assert remedy == horizon.SLATE_REMEDY


def test_support_as_a_finding():
    s = Steps(2, 60)
    view = view_of_steps(s)
    found = horizon._support(view)
    made = horizon.horizon_curve(view.decisions, view.units)
    assert found.value == made.supported / len(made.effective)
    assert found.details["steps"] == max(s.lengths)
    assert found.details["effective"] == made.effective.tolist()
    assert set(found.details) == {"steps", "effective", "surviving", "largest", "mean", "active", "running"}
    names = [f.name for f in several(view, *STEPS)]
    assert names == ["horizon", "beyond_log", "unseen_pairs", "value_model_skill"]
    assert [f.name for f in several(view_of_steps(s, q=False, discrete=False), *STEPS)] == ["horizon", "beyond_log"]


# -- what follows the log ------------------------------------------------------------------------------------------


def reached_loop(s, mass):
    """Steps at which an episode still follows the target, and the share of the target's episodes that get there."""
    last, share = 0, 1.0
    for t in range(max(s.lengths)):
        before = np.array([np.prod(r[:t]) for r in s.ratio]) * mass
        if before.sum() == 0:
            break
        active = np.array([length > t for length in s.lengths])
        reached = before[active].sum() / before.sum()
        if reached == 0 or not any(np.prod(r[: t + 1]) > 0 for r in s.ratio if len(r) > t):
            break
        last, share = t + 1, reached
    return last, share


@pytest.mark.parametrize("seed", range(4))
def test_how_far_the_log_follows_the_target(seed):
    s = Steps(seed, 8, zero=0.5)
    mass = np.arange(8) + 1.0
    assert horizon.last_reached(s.decisions(weight=mass)) == pytest.approx(reached_loop(s, mass))


@pytest.mark.parametrize(
    ("limit", "discount", "expected"),
    [
        (5, 0.9, 0.9**2 + 0.9**3 + 0.9**4),
        (5, 1.0, 3.0),
        (2, 0.9, 0.0),
        (None, 0.9, 0.9**2 / 0.1),
        (None, 1.0, math.inf),
    ],
)
def test_steps_that_are_left(limit, discount, expected):
    assert horizon.steps_left(2, limit, discount) == pytest.approx(expected)


def test_what_later_steps_may_add():
    s = Steps(3, 60)
    last, share = reached_loop(s, np.ones(60))
    steps = max(s.lengths)
    assert last == steps
    whole = horizon._beyond(view_of_steps(s))
    assert (whole.value, whole.sentence) == (0.0, f"episodes that follow the policy reach all {steps} steps.")
    view = view_of_steps(s, horizon=steps + 2, discount=0.5)
    found = horizon._beyond(view)
    low, high = s.reward.min(), s.reward.max()
    weight = 0.5**steps + 0.5 ** (steps + 1)
    assert found.value == pytest.approx(share)
    assert found.details == {
        "steps": steps, "low": pytest.approx(share * weight * low), "high": pytest.approx(share * weight * high)
    }  # fmt: skip
    assert found.sentence == (
        f"no logged episode follows the policy beyond step {steps}; {100 * share:.3g}% of the "
        f"policy's episodes get that far. With rewards in [{low:.4g}, {high:.4g}], later steps "
        f"add between {share * weight * low:.3g} and {share * weight * high:.3g}."
    )
    endless = horizon._beyond(view_of_steps(s, unbounded=True))
    assert endless.sentence.endswith(" get that far, and the value of later steps has no bound (γ = 1, no horizon).")
    discounted = horizon._beyond(view_of_steps(s, unbounded=True, discount=0.5))
    assert discounted.details["high"] == pytest.approx(share * 0.5**steps / 0.5 * high)


# -- pairs that were never seen --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shares_context", [False, True])
def test_pairs_that_the_training_folds_never_saw(shares_context):
    s = Steps(5, 12)
    state, action = s.state, s.action
    fold = np.arange(12) % 3
    rows = len(state)
    unit = np.repeat(np.arange(12), s.lengths)
    rng = np.random.default_rng(0)
    pi = rng.dirichlet(np.ones(4), size=6 if shares_context else rows)
    target = SimpleNamespace(shares_context=shares_context, probabilities=lambda at: pi[at])
    lost = 0.0
    for i in range(rows):
        seen = {(state[j], action[j]) for j in range(rows) if fold[unit[j]] != fold[unit[i]]}
        own = pi[state[i]] if shares_context else pi[i]
        lost += sum(own[a] for a in range(4) if (state[i], a) not in seen)
    assert lost > 0
    assert horizon.unseen_share(s.log(), target, fold) == pytest.approx(lost / rows)


def test_unseen_pairs_in_words():
    s = Steps(5, 12)
    view = view_of_steps(s)
    share = horizon.unseen_share(view.log, view.target, view.problem.folds.labels[0])
    found = horizon._unseen(view)
    assert found.value == pytest.approx(share)
    assert found.sentence == (
        f"{share:.2%} of the policy's probability is on state-action pairs that are not in the "
        "training folds; the value model guesses there, and intervals may be too narrow."
    )
    assert (found.level, found.remedy) == ("caution", CHECKS["unseen_pairs"].limits.remedy)
    log = s.log()
    all_seen = SimpleNamespace(
        context=log.context, actions=range(2), rows=len(log.action), layout=log.layout, action=log.action % 2
    )
    one_state = SimpleNamespace(n_table=1, positions=lambda rows: np.zeros(len(rows), int))
    all_seen.context = one_state
    known = replace(view, problem=SimpleNamespace(**{**vars(view.problem), "ratio_log": all_seen}))
    calm = horizon._unseen(known)
    assert (calm.value, calm.sentence) == (0.0, "every state-action pair of the policy is in the training folds.")
