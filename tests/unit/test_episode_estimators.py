"""Ratios of marginals, the blend that speaks for episodes, value models and π_b by state."""

from dataclasses import replace

import numpy as np
import pytest

import offpolicy as op
from offpolicy.logs.layout import Layout
from offpolicy.models.values.auto_q import AutoQ
from offpolicy.scores.blend import BARELY, blended, candidates, ladder, products_supported, ratios_back
from offpolicy.scores.catalog import AUTO_EPISODES
from offpolicy.scores.decisions import Decisions, mean_step_weight
from offpolicy.scores.formulas import doubly_robust, marginalized
from offpolicy.scores.tuning import ratios_alone
from offpolicy.trust import marginals
from offpolicy_studies.episodes.cart import Cart
from offpolicy_studies.episodes.clinic import clinic
from offpolicy_studies.episodes.outcomes import greedy
from offpolicy_studies.episodes.worlds import problem
from offpolicy_studies.tabular.chain import Chain


def drawn(name, n, seed=0, propensities=True):
    p = problem(name)
    return p, p.draw(n, np.random.default_rng([seed, 7]), propensities=propensities)


def ratios(ev, name="policy"):
    return ev.problem.columns["marginal", "crossfit", 0, name]


def test_ratios_of_marginals_stay_where_the_truth_can_be():
    p, log = drawn("FrozenLake 8x8", 600)
    ev = op.evaluate(log, p.target, estimators=["DRL"])
    w = ratios(ev)
    d = ev.problem.decisions(ev.targets["policy"], ev.estimators[0])
    assert w.min() >= 0
    assert w.max() <= d.rho.max()
    # Every step's ratios have the mean that the target's running episodes have: at first all of them.
    first = log.layout.step == 0
    assert w[first].mean() == pytest.approx(1.0, abs=1e-9)
    assert w.max() < 0.2 * d.rho.max()


@pytest.mark.parametrize(("name", "n"), [("FrozenLake 8x8", 1000), ("Taxi, 50 steps", 600)])
def test_drl_is_right_where_products_are_lost_or_states_are_many(name, n):
    errors = []
    for seed in range(6):
        p, log = drawn(name, n, seed)
        e = op.evaluate(log, p.target, estimators=["DRL"])["DRL"]
        errors.append((e.value - p.truth) / e.std_error)
    assert np.abs(errors).max() < 4
    assert abs(np.mean(errors)) < 2.5


def test_ratios_against_the_truth_of_a_known_world():
    world = clinic()
    q = world.optimal()
    pi_e, pi_b = greedy(q, 0.3), greedy(q, 0.7)
    log = world.simulate(pi_b, 4_000, np.random.default_rng(1), propensities=True)
    ev = op.evaluate(log, lambda s: pi_e[s], estimators=["DRL"])
    # Exact marginals by the world's own outcomes.
    p_e, p_b = world.initial.copy(), world.initial.copy()

    def moved(p, pi):
        out = np.zeros_like(p)
        mass = (p[:, None] * pi)[:, :, None] * world.chance * ~world.ends
        np.add.at(out, world.to, mass)
        return out

    for _ in range(5):
        p_e, p_b = moved(p_e, pi_e), moved(p_b, pi_b)
    at = np.flatnonzero(log.layout.step == 5)
    state = np.asarray(log.context.table)[log.context.positions(at)]
    truth = p_e[state] / p_b[state] * pi_e[state, log.action[at]] / log.propensity[at]
    often = p_b[state] > 0.02
    made = ratios(ev)[at]
    assert np.corrcoef(made[often], truth[often])[0, 1] > 0.97


def test_auto_is_drl_where_products_are_lost_and_its_verdict_is_about_it():
    p, log = drawn("FrozenLake 8x8", 1000)
    ev = op.evaluate(log, p.target)
    assert ev["auto"].value == pytest.approx(ev["DRL"].value, abs=1e-12)
    assert "do not support products of ratios" in " ".join(ev["auto"].notes)
    assert ev.verdict().level != "insufficient evidence"
    assert ev.verdict(estimator="DML").level == "insufficient evidence"
    assert abs(ev["auto"].value - p.truth) < 3 * ev["auto"].std_error


def unmarkov(n, seed):
    """The first action decides what the second step earns, and no state says so: DRL is wrong, DML is right."""
    rng = np.random.default_rng(seed)
    first = rng.random(n) < 0.7
    second = rng.random(n) < 0.5
    rewards = np.column_stack([np.zeros(n), np.where(first, 1.0, -1.0) + rng.normal(0, 0.2, n)])
    actions = np.column_stack([first, second]).astype(int)
    chances = np.column_stack([np.where(first, 0.7, 0.3), np.full(n, 0.5)])
    return op.Trajectories.from_arrays(np.tile([0, 1], (n, 1)), actions, rewards, propensities=chances, labels=[0, 1])


def rarely(states):
    first = np.where(np.asarray(states) == 0, 0.3, 0.5)
    return np.column_stack([1 - first, first])


def test_a_gap_of_many_standard_errors_refuses_drl_and_moves_auto_to_dml():
    ev = op.evaluate(unmarkov(3_000, 0), rarely)
    assert abs(ev["DRL"].value - -0.4) > 0.5
    assert ev["auto"].value == pytest.approx(-0.4, abs=4 * ev["auto"].std_error)
    assert ev.diagnostics["marginal_ratios"].value > 5
    assert ev.verdict(estimator="DRL").level == "insufficient evidence"
    assert ev.verdict().level != "insufficient evidence"


def test_the_blend_is_no_worse_than_its_parts():
    errors = {name: [] for name in ("auto", "DML", "DRL", "WDR")}
    for seed in range(12):
        p, log = drawn("clinic, far target", 400, seed)
        ev = op.evaluate(log, p.target, estimators=list(errors))
        for name, kept in errors.items():
            kept.append(ev[name].value - p.truth)
    mse = {name: np.mean(np.square(x)) for name, x in errors.items()}
    # Twelve logs: a ratio of mean squares has an error of about 0.4.
    assert mse["auto"] < 1.5 * min(mse[name] for name in ("DML", "DRL", "WDR"))


def test_blended_without_support_is_the_marginal_score():
    p, log = drawn("FrozenLake 8x8", 300)
    ev = op.evaluate(log, p.target, estimators=["DRL"])
    d = ev.problem.decisions(ev.targets["policy"], ev.estimators[0])
    assert not products_supported(d)
    made = blended(d)
    np.testing.assert_allclose(made.psi, marginalized(d))
    assert made.products == 0
    near = op.evaluate(log, lambda s: 0.98 * greedy(np.eye(64, 4), 1.0)[np.asarray(s)] + 0.005)
    assert near.problem is not None
    assert np.isfinite(doubly_robust(d)).all()


def test_thin_products_speak_only_where_they_contradict_ratios_of_marginals():
    """Ten of 200 episodes carry the weights: 12 effective ones, with a mean of 1."""
    n, steps = 200, 4
    rng = np.random.default_rng(5)
    one = np.ones(n * steps)
    weight = np.where(np.arange(n) < 10, 18.0, 0.1 * n / (n - 10))
    pi_e = np.repeat(0.5 * weight**0.25, steps)
    reward = 1 + 0.1 * rng.standard_normal(n * steps)
    made = {}
    for ratio in (1.0, 3.0):
        d = Decisions(Layout.ragged([steps] * n), reward, pi_e, 0.5 * one, 0 * one, 0 * one, marginal=ratio * one)
        assert not products_supported(d)
        assert products_supported(d, *BARELY)
        made[ratio] = candidates(d, None)
    assert set(made[1.0][0]) == {"DRL"}
    assert set(made[3.0][0]) == {"DML", "WDR"}
    assert "DRL disagrees" in made[3.0][1]


def test_intervals_of_sums_use_the_weight_of_each_step():
    """A reward of the first step is not charged with the weights of later ones."""
    rng = np.random.default_rng(3)
    n, steps = 400, 12
    actions = rng.integers(2, size=(n, steps))
    rewards = np.zeros((n, steps))
    rewards[:, 0] = actions[:, 0] * (rng.random(n) < 0.5)
    log = op.Trajectories.from_arrays(
        np.tile(np.arange(steps), (n, 1)), actions, rewards, propensities=np.full((n, steps), 0.5)
    )
    ev = op.evaluate(log, lambda s: np.tile([0.35, 0.65], (len(s), 1)), estimators=["IPW", "DML"])
    interval = ev["IPW"].interval(0.95)
    assert interval.sufficient
    assert interval.high - interval.low < 1.5 * 2 * 1.96 * ev["IPW"].std_error


def test_the_mean_weight_of_steps():
    layout = op.Trajectories.from_arrays([[0, 0], [0]], [[0, 0], [0]], [[1.0, 1], [1]]).layout
    half = np.full(3, 0.5)
    d = Decisions(layout, half, np.ones(3), half, half, half, discount=0.5)
    assert mean_step_weight(d) == pytest.approx([(2 + 0.5 * 4) / 1.5, 2.0])


# -- value models --------------------------------------------------------------------------------------


def test_the_default_value_model_holds_over_a_long_horizon():
    chain = Chain(horizon=50)
    log = chain.simulate(250, np.random.default_rng(5))
    ev = op.evaluate(log, chain.target, estimators=["DM-cf"])
    # Trees by themselves are off by more than a third here.
    assert ev["DM-cf"].value == pytest.approx(chain.value(), rel=0.2)
    off = op.evaluate(log, chain.target, estimators=["DM-cf"], value_model=AutoQ(("trees",)))
    assert off["DM-cf"].value < 0.75 * chain.value()
    assert "q: " in ev["DM-cf"].notes[0]


def test_quadratic_values_are_found_where_they_are_quadratic():
    rng = np.random.default_rng(6)
    n, steps = 300, 6
    states = rng.normal(size=(n, steps, 2))
    actions = rng.integers(2, size=(n, steps))
    rewards = states[:, :, 0] ** 2 * (2 * actions - 1) + 0.1 * rng.normal(size=(n, steps))
    log = op.Trajectories.from_arrays(states, actions, rewards, propensities=np.full((n, steps), 0.5))

    def always(s):
        return np.tile([0.0, 1.0], (len(s), 1))

    ev = op.evaluate(log, always, estimators=["DM-cf"])
    assert "quadratic" in ev["DM-cf"].notes[0]
    assert ev["DM-cf"].value == pytest.approx(6.0, abs=0.5)


def test_skill_is_one_number_between_minus_one_and_one():
    p, log = drawn("CliffWalking", 200)
    wild = 1e4 * np.random.default_rng(0).normal(size=(log.rows, 4))
    ev = op.evaluate(log, p.target, value_model=wild, estimators=["DML"])
    found = ev.diagnostics["value_model_skill"]
    assert found.value == -1
    assert "%" not in found.sentence


def test_scores_that_do_not_vary_are_no_certainty():
    p, log = drawn("CliffWalking", 200)
    ev = op.evaluate(log, p.target, estimators=["DM", "DML"])
    assert ev["DM"].std_error < 1e-9
    assert any("the error of the value model" in note for note in ev["DM"].notes)
    line = next(text for text in repr(ev).splitlines() if " DM " in text)
    assert line.split()[3] == "—"


# -- π_b by state --------------------------------------------------------------------------------------


def sparse_log(n, seed):
    """Many states, each seen a few times, with a logging policy that is nearly sure of itself."""
    rng = np.random.default_rng(seed)
    steps, n_states, k = 6, 150, 4
    states = rng.integers(n_states, size=(n, steps))
    best = np.arange(n_states) % k
    pi_b = np.full((n_states, k), 0.02)
    pi_b[np.arange(n_states), best] = 0.94
    drawn_actions = (pi_b[states].cumsum(axis=2) < rng.random((n, steps, 1))).sum(axis=2)
    rewards = (drawn_actions == best[states]).astype(float)
    pi_e = np.full((n_states, k), 0.01)
    pi_e[np.arange(n_states), best] = 0.97
    return op.Trajectories.from_arrays(states, drawn_actions, rewards, labels=range(k)), pi_e


def test_shares_by_state_are_smoothed_as_the_likelihood_says():
    log, pi_e = sparse_log(300, 1)

    def weight_error(**options):
        ev = op.evaluate(log, lambda s: pi_e[s], estimators=["IPW-cf"], **options)
        return abs(ev["IPW-cf"].value - 6 * 0.97), ev

    default, ev = weight_error()
    heavy, _ = weight_error(behavior_model=op.models.StateShares(smoothing=20.0))
    assert default < 0.5 * heavy
    assert any("pseudo-steps" in note for note in ev["IPW-cf"].notes)


def test_epsilon_greedy_logging_is_recognized():
    p, log = drawn("Taxi, 50 steps", 500, propensities=False)
    ev = op.evaluate(log, p.target, estimators=["DRL"])
    assert any("most frequent action" in note for note in ev["DRL"].notes)


def two_each(n, seed, n_states=400, k=8, steps=12):
    """Each state has an action of .9 and one of .1, the same second wherever the first is the same; no others."""
    rng = np.random.default_rng(seed)
    first = rng.integers(k, size=n_states)
    pi_b = 0.9 * np.eye(k)[first] + 0.1 * np.eye(k)[first ^ 2]
    states = np.minimum(rng.geometric(0.006, size=(n, steps)) - 1, n_states - 1)
    actions = (pi_b[states].cumsum(axis=2) < rng.random((n, steps, 1))).sum(axis=2)
    return states, actions, pi_b


def test_states_of_a_kind_tell_the_shares_of_those_seen_a_few_times():
    """Shares of the state itself say half or more of an action of .1 that was taken once in a few steps."""
    states, actions, pi_b = two_each(300, 3)
    log = op.Trajectories.from_arrays(states, actions, np.zeros(states.shape), labels=range(8))
    visits = np.bincount(states.ravel(), minlength=400)[states]
    own = np.take_along_axis(pi_b[states], actions[..., None], axis=2)[..., 0]
    few = ((own < 0.5) & (visits >= 3) & (visits <= 8)).ravel()
    assert few.sum() > 20

    def weight(**options):
        ev = op.evaluate(log, np.full((len(pi_b), 8), 1 / 8), estimators=["IPW"], **options)
        fitted = ev.problem.decisions(ev.targets["policy"], ev.estimators[0]).pi_b
        return float(np.mean(0.1 / fitted[few]))

    assert weight(behavior_model=op.models.StateShares(smoothing=0.5)) < 0.6
    assert 0.75 < weight() < 1.25


def test_folds_suit_the_number_of_states():
    """Half of the episodes lack pairs that four fifths of them have, where a state has few steps."""
    states, actions, _ = two_each(200, 4)
    rewards = np.random.default_rng(0).random(states.shape)

    def folds(states, **options):
        log = op.Trajectories.from_arrays(states, actions, rewards, labels=range(8))
        return op.evaluate(log, "uniform", estimators=["DM"], **options).settings["folds"]

    assert (folds(states), folds(states % 3), folds(states, folds=2), folds(states / 7)) == (5, 2, 2, 2)


def test_shares_by_state_count_the_steps_they_divide():
    """Weights by the shares of the same steps have mean 1 in every state in which all actions of the target occur."""
    p, log = drawn("clinic, near target", 300, propensities=False)
    ev = op.evaluate(log, p.target, estimators=["DRL"], behavior_model=op.models.StateShares(smoothing=0.0))
    d = ev.problem.decisions(ev.targets["policy"], ev.estimators[0])
    state = log.context.positions(np.arange(log.rows))
    count = np.zeros((log.context.n_table, 4))
    np.add.at(count, (state, log.action), 1.0)
    np.testing.assert_allclose(d.pi_b, count[state, log.action] / count.sum(axis=1)[state])
    mean = np.bincount(state, weights=d.ratio) / np.maximum(np.bincount(state), 1)
    np.testing.assert_allclose(mean[(count > 0).all(axis=1)], 1.0)


def test_with_estimated_propensities_few_visits_are_no_reason_to_be_far_off():
    """Taxi: 400 states, most of them seen a few times. Shares of other folds were off by 0.6 here."""
    errors = []
    for seed in range(6):
        p, log = drawn("Taxi, 50 steps", 1_000, seed, propensities=False)
        e = op.evaluate(log, p.target, estimators=["DRL"], seed=seed)["DRL"]
        errors.append((e.value - p.truth) / e.std_error)
    assert np.mean(np.square(errors)) < 2.5  # χ²₆ / 6 is below that in 98% of draws
    assert abs(np.mean(errors)) < 1.0  # 2.4 standard errors of such a mean


def test_ratios_of_marginals_stay_small_where_rare_states_hold_an_episode():
    """What leaves a state is never more than what was there: shares that do not sum to 1 grew by cycles before."""
    p, log = drawn("FrozenLake 8x8", 600, propensities=False)
    ev = op.evaluate(log, p.target, estimators=["DRL"])
    d = ev.problem.decisions(ev.targets["policy"], ev.estimators[0])
    assert p.ratios is not None
    assert d.marginal.max() < 3 * p.ratios(log).max()


def test_a_model_without_errors_does_not_make_an_estimate_certain():
    """On the cliff a table leaves 10⁻⁴ of the value over; a standard error of that size covered seven logs in ten."""
    p, log = drawn("published cliff", 400)
    ev = op.evaluate(log, p.target)
    e = ev["auto"]
    alone = ratios_alone(ev.problem.decisions(ev.targets["policy"], AUTO_EPISODES))
    floor = np.sqrt(3 / log.n) * alone.std() / np.sqrt(log.n)
    assert e.std_error == pytest.approx(floor, rel=1e-2)
    assert abs(e.value - p.truth) < 0.01
    assert any("may have missed" in note for note in e.notes)
    assert ev.verdict().level != "insufficient evidence"


def test_torch_behavior_holds_out_episodes():
    torch = pytest.importorskip("torch")
    from offpolicy.models.values.torch import Training

    seen = []

    class Spy(Training):
        def held_out(self, unit, seed):
            seen.append(np.asarray(unit))
            return super().held_out(unit, seed)

    log = Chain(horizon=4).simulate(40, np.random.default_rng(0))
    log = op.Trajectories.from_arrays(
        np.asarray(log.context.table).reshape(40, 4, 1), log.action.reshape(40, 4), log.reward.reshape(40, 4)
    )
    model = op.models.TorchBehavior(torch.nn.Linear(1, 2), Spy(epochs=1))
    op.evaluate(log, Chain().target, behavior_model=model, estimators=["IPW-cf"])
    assert len(seen) == 2
    assert all(len(np.unique(unit)) < len(unit) for unit in seen)


# -- regressed ratios and the ladder between DRL and DML ---------------------------------------------


def chain_decisions(horizon, n, seed, marginal=None):
    """A chain without a value model: what ratios say, they say alone."""
    chain = Chain(horizon=horizon)
    log = chain.simulate(n, np.random.default_rng([seed, 3]))
    state = np.asarray(log.context.table).reshape(-1)[log.context.positions(np.arange(log.rows))]
    pi_e = chain.target(state)[np.arange(log.rows), log.action]
    zero = np.zeros(log.rows)
    w = pi_e / log.propensity if marginal is None else marginal(chain, log)
    d = Decisions(log.layout, log.reward, pi_e, log.propensity, zero, zero, marginal=w, regressed=True)
    return chain, d


def test_ratios_regressed_on_a_continuous_state_follow_the_true_ones():
    chain = Chain(horizon=20)
    log = chain.simulate(1_500, np.random.default_rng(5))
    ev = op.evaluate(log, chain.target, estimators=["DRL"], value_model=AutoQ(candidates=("quadratic",)))
    made, truth = ratios(ev), chain.ratios(log)
    late = log.layout.step >= 10
    assert made.min() > 0
    # Linear in the state and its products, and held above 0, they were off by 0.58 on average.
    assert np.sqrt(np.mean((made - truth)[late] ** 2)) < 0.35


def test_looking_back_corrects_ratios_that_are_wrong():
    # Ratios of single steps, as if states were visited alike by both policies: wrong, and said to be right.
    chain, d = chain_decisions(20, 3_000, 1)
    truth = chain.value()
    wrong = marginalized(d)
    assert abs(wrong.mean() - truth) > 8 * wrong.std() / np.sqrt(d.n)
    rungs = ladder(d)
    assert [rung.steps for rung in rungs][:4] == [0, 1, 2, 4]
    away = [abs(rung.psi.mean() - truth) for rung in rungs]
    assert away[-1] < 0.2 * away[0]
    auto = blended(d)
    assert auto.products + auto.looks_back > 0.95
    error = auto.psi.std() / np.sqrt(d.n)
    assert abs(auto.psi.mean() - truth) < 3 * error
    # Counted ratios are taken at their word where products are lost.
    counted = blended(replace(d, regressed=False))
    assert counted.looks_back == 0


def test_right_ratios_need_not_look_back_far():
    chain, d = chain_decisions(30, 2_000, 1, lambda chain, log: chain.ratios(log))
    auto, plain = blended(d), marginalized(d)
    assert abs(auto.psi.mean() - chain.value()) < 3.5 * auto.psi.std() / np.sqrt(d.n)
    # The bias that it cannot rule out widens the interval, by less than the products would.
    assert plain.std() < auto.psi.std() < 0.7 * ladder(d)[-1].psi.std()


def test_the_longest_look_back_is_the_product():
    _, d = chain_decisions(6, 400, 2)
    np.testing.assert_allclose(ratios_back(d, 6), d.rho)
    np.testing.assert_allclose(ratios_back(d, 0), d.marginal)


def test_a_blend_that_accepts_a_bias_says_so_in_its_standard_error():
    _, d = chain_decisions(20, 3_000, 0)
    made = blended(d)
    assert "the standard error allows for a bias of" in made.note


@pytest.mark.parametrize(("horizon", "n", "answered"), [(12, 2_000, True), (60, 400, False)])
def test_wrong_ratios_refuse_drl_and_auto_where_looking_back_has_not_settled(horizon, n, answered):
    chain = Chain(horizon=horizon)
    log = chain.simulate(n, np.random.default_rng(8))
    state = np.asarray(log.context.table).reshape(-1)[log.context.positions(np.arange(log.rows))]
    wrong = chain.target(state)[np.arange(log.rows), log.action] / log.propensity
    nothing = np.zeros((log.rows, 2))
    ev = op.evaluate(log, chain.target, estimators=["auto", "DRL"], ratio=wrong, value_model=nothing)
    assert ev.verdict(estimator="DRL").level == "insufficient evidence"
    check = ev.diagnostics["marginal_ratios"]
    assert check.level == "alarm"
    assert (ev.verdict().level != "insufficient evidence") == answered
    if answered:
        assert abs(ev["auto"].value - chain.value()) < 3 * ev["auto"].std_error
    else:
        assert "steps back" in check.sentence
        assert check.details["drift"] > 0.5


@pytest.mark.parametrize("continuous", [False, True])
def test_episodes_of_weight_zero_may_be_the_longest(continuous):
    rng = np.random.default_rng(1)
    n, lengths = 60, np.where(np.arange(60) % 2, 3, 5)
    states = rng.normal(size=(n, 5, 2)) if continuous else rng.integers(0, 3, (n, 5))
    log = op.Trajectories.from_arrays(
        states,
        rng.integers(0, 2, (n, 5)),
        rng.normal(size=(n, 5)),
        lengths=lengths,
        propensities=np.full((n, 5), 0.5),
        weight=(np.arange(n) % 2).astype(float),
    )
    ev = op.evaluate(log, lambda x: np.tile([0.6, 0.4], (len(x), 1)))
    assert np.isfinite([ev[name].value for name in ("auto", "DRL", "DML", "IPW")]).all()
    assert ev.verdict().level


def test_ratios_that_nothing_can_check_are_refused():
    """A target far from the log: no products, not four steps back. The intervals of DRL missed one time in five."""
    cart = Cart(horizon=60, target_slope=0.3)
    log = cart.simulate(150, np.random.default_rng(2), propensities=True)
    verdict = op.evaluate(log, cart.target, estimators=["auto"]).verdict("policy")
    assert verdict.level == "insufficient evidence"
    assert any(marginals.UNCHECKED in reason for reason in verdict.reasons)
    # Whoever gives ratios vouches for them.
    given = op.evaluate(log, cart.target, estimators=["auto"], ratio=np.ones(log.rows))
    assert not any(marginals.UNCHECKED in reason for reason in given.verdict("policy").reasons)


def test_rungs_without_a_value_model_take_part():
    cart = Cart(horizon=100)
    log = cart.simulate(150, np.random.default_rng(1), propensities=True)
    ev = op.evaluate(log, cart.target, estimators=["auto"])
    assert "SNIPW looking 16 steps back" in ev["auto"].notes[0]
    assert ev.verdict("policy").level == "caution"
