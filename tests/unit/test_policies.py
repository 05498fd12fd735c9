"""Each adapter on contexts small enough to work out by hand, and what it refuses."""

from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import integrate, stats
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression

from offpolicy.errors import PolicyError, UsageError
from offpolicy.policies import (
    BetaThompson,
    Deterministic,
    EpsilonGreedy,
    Fixed,
    GaussianThompson,
    Greedy,
    Mixture,
    ProbabilityColumns,
    Softmax,
    Table,
    TimeDependent,
    Uniform,
    beta_thompson_probabilities,
    gaussian_thompson_probabilities,
    n_rows,
)
from offpolicy.policies.protocol import take
from offpolicy.testing import check_policy

ACTIONS = ("a", "b", "c")
X = np.array([[0.0, 1.0], [2.0, -1.0], [0.5, 0.5], [-3.0, 4.0]])
FRAME = {"ad": ["c", "a", "a", "b"], "p1": [0.2, 0, 1, 0.5], "p2": [0.3, 1, 0, 0], "p3": [0.5, 0, 0, 0.5]}
KINDS = [pd.DataFrame, pl.DataFrame, pa.table]


def scores(x):
    return np.column_stack([x[:, 0], x[:, 1], np.full(len(x), 0.25)])


def all_adapters():
    return {
        "uniform": Uniform(),
        "fixed": Fixed("b"),
        "deterministic": Deterministic(lambda x: np.where(x[:, 0] > 0, "a", "c")),
        "greedy": Greedy(scores),
        "epsilon": EpsilonGreedy(scores, 0.3),
        "epsilon of a policy": EpsilonGreedy(Fixed("c"), 0.3),
        "softmax": Softmax(scores, temperature=0.5),
        "gaussian": GaussianThompson(scores, [1.0, 2.0, 0.1]),
        "beta": BetaThompson(lambda x: 1 + np.abs(scores(x)), {"a": 1, "b": 2, "c": 3}),
        "monte carlo": BetaThompson([1, 2, 3], [3, 2, 1], method="monte-carlo", draws=500, seed=1),
        "mixture": Mixture([Uniform(), Softmax(scores)], [0.25, 0.75]),
        "time": TimeDependent(lambda s, t: np.eye(3)[t % 3]),
    }


@pytest.mark.parametrize("name", all_adapters())
def test_every_adapter_passes_the_checker(name):
    check_policy(all_adapters()[name], X, ACTIONS)


@pytest.mark.parametrize("name", [k for k in all_adapters() if k != "time"])
def test_eligible_actions_are_respected_where_it_is_claimed(name):
    policy = all_adapters()[name].bind(ACTIONS)
    eligible = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1], [1, 1, 1]], dtype=bool)
    p = policy.probabilities(X, eligible=eligible)
    assert p.sum(axis=1) == pytest.approx(1, abs=1e-9)
    leaks = bool((p[~eligible] > 0).any())
    assert policy.respects_eligible is not leaks
    if policy.respects_eligible:
        assert p[2] == pytest.approx([0, 0, 1])
        assert p[3] == pytest.approx(policy.probabilities(X[3:])[0], abs=1e-12)


@pytest.mark.parametrize("name", ["uniform", "greedy", "epsilon", "softmax", "gaussian", "beta"])
def test_a_row_without_eligible_actions_is_refused(name):
    policy = all_adapters()[name].bind(ACTIONS)
    eligible = np.ones((4, 3), dtype=bool)
    eligible[2] = False
    with pytest.raises(PolicyError, match=r"row 2.*no eligible action"):
        policy.probabilities(X, eligible=eligible)
    with pytest.raises(PolicyError, match="boolean array of shape"):
        policy.probabilities(X, eligible=eligible[:, :2])
    with pytest.raises(PolicyError, match="boolean array of shape"):
        policy.probabilities(X, eligible=eligible.astype(float))


def test_eligible_arms_of_thompson_sampling_are_the_smaller_problem():
    eligible = np.array([[True, False, True]])
    both = beta_thompson_probabilities([3, 9, 5], [4, 1, 5], eligible=eligible)[0, [0, 2]]
    assert both == pytest.approx(beta_thompson_probabilities([3, 5], [4, 5]), abs=1e-12)
    policy = BetaThompson([3, 9, 5], [4, 1, 5], method="monte-carlo", draws=40_000).bind(ACTIONS)
    assert policy.probabilities(X[:1], eligible=eligible)[0, [0, 2]] == pytest.approx(both, abs=0.02)


@pytest.mark.parametrize("policy", [Uniform(), Fixed("a"), Greedy(scores), BetaThompson([1], [1])])
def test_an_unbound_policy_says_so(policy):
    with pytest.raises(PolicyError, match=r"bind\(log.actions\)"):
        policy.probabilities(X)


def test_labels_the_log_does_not_have():
    with pytest.raises(PolicyError, match=r"no action 'banner1'\. Did you mean 'banner_1'"):
        Fixed("banner1").bind(("banner_1", "video"))
    with pytest.raises(PolicyError, match=r"row 0 = 'd'"):
        Deterministic(lambda x: ["d"] * len(x)).bind(ACTIONS).choices(X)
    with pytest.raises(PolicyError, match=r"row 1 = None"):
        Deterministic(lambda x: ["a", None, "b", "c"]).bind(ACTIONS).choices(X)
    with pytest.raises(PolicyError, match="one action label per row"):
        Deterministic(lambda x: ["a"]).bind(ACTIONS).choices(X)
    with pytest.raises(PolicyError, match="no action 'z'"):
        BetaThompson({"a": 1, "b": 1, "z": 1}, [1, 1, 1]).bind(ACTIONS)
    with pytest.raises(PolicyError, match="no entry for action 'c'"):
        GaussianThompson({"a": 1, "b": 1}, [1, 1, 1]).bind(ACTIONS)
    with pytest.raises(PolicyError, match="no entry for action 'b'"):
        Greedy({"a": LinearRegression(), "c": LinearRegression()}).bind(ACTIONS)


@pytest.mark.parametrize("labels", [(3, 1, 7), ("x", 2, None), (True, False, "maybe"), ((1, 2), (3,), 0)])
def test_labels_of_any_type(labels):
    given = [labels[2], labels[0], labels[1]]
    if None not in labels:
        policy = Deterministic(lambda x: given).bind(labels)
        assert policy.choices(np.zeros(3)).tolist() == [2, 0, 1]
    assert Fixed(labels[1]).bind(labels).choices(np.zeros(2)).tolist() == [1, 1]


def test_integer_labels_meet_float_columns():
    assert Deterministic(lambda x: x).bind((2, 5)).choices(np.array([5.0, 2.0])).tolist() == [1, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_any_frame(kind):
    frame = kind(FRAME)
    assert n_rows(frame) == 4
    assert n_rows(take(frame, np.array([2, 0]))) == 2
    assert Deterministic("ad").bind(ACTIONS).choices(frame).tolist() == [2, 0, 0, 1]
    policy = ProbabilityColumns(["p1", "p2", "p3"]).bind(ACTIONS)
    assert policy.probabilities(frame)[0].tolist() == [0.2, 0.3, 0.5]
    check_policy(policy, frame, ACTIONS)
    with pytest.raises(PolicyError, match=r"no column 'add'\. Did you mean 'ad'"):
        Deterministic("add").bind(ACTIONS).choices(frame)


def test_categorical_and_boolean_columns():
    frame = pd.DataFrame({"ad": pd.Categorical(["b", "a"]), "flag": [True, False]})
    assert Deterministic("ad").bind(("a", "b")).choices(frame).tolist() == [1, 0]
    assert Deterministic("flag").bind((False, True)).choices(frame).tolist() == [1, 0]


def test_columns_need_a_frame():
    with pytest.raises(PolicyError, match="array without names"):
        Deterministic("ad").bind(ACTIONS).choices(X)
    with pytest.raises(UsageError, match="column name or a function"):
        Deterministic(3)


def test_probability_columns_are_checked():
    frame = pd.DataFrame(FRAME)
    frame.loc[2, "p1"] = 0.9
    with pytest.raises(PolicyError, match=r"row 2 = 0.9"):
        ProbabilityColumns(["p1", "p2", "p3"]).bind(ACTIONS).probabilities(frame)
    with pytest.raises(PolicyError, match="names 2 columns, but the log has 3 actions"):
        ProbabilityColumns(["p1", "p2"]).bind(ACTIONS)
    with pytest.raises(UsageError, match="list of column names"):
        ProbabilityColumns("p1")
    frame.loc[2, "p1"] = np.nan
    with pytest.raises(PolicyError, match=r"NaN or infinite in.*row 2"):
        ProbabilityColumns(["p1", "p2", "p3"]).bind(ACTIONS).probabilities(frame)


def per_action_models():
    rng = np.random.default_rng(0)
    y = (rng.random(4) < 0.5).astype(int)
    y[:2] = [0, 1]
    return {
        "b": LinearRegression().fit(X, [1.0, 2.0, 3.0, 5.0]),
        "a": LogisticRegression().fit(X, np.where(y == 1, 10, -2)),
        "c": LinearRegression().fit(X, [0.0, 0.0, 0.0, 9.0]),
    }


def test_models_per_action_and_classes_as_rewards():
    models = per_action_models()
    p = models["a"].predict_proba(X)
    by_hand = np.column_stack([-2 * p[:, 0] + 10 * p[:, 1], models["b"].predict(X), models["c"].predict(X)])
    policy = Softmax(models).bind(ACTIONS)
    weights = np.exp(by_hand)
    assert policy.probabilities(X) == pytest.approx(weights / weights.sum(axis=1, keepdims=True))
    assert Greedy(models).bind(ACTIONS).choices(X).tolist() == by_hand.argmax(axis=1).tolist()
    words = {a: LogisticRegression().fit(X, ["no", "yes", "no", "yes"]) for a in ACTIONS}
    with pytest.raises(PolicyError, match="not numbers"):
        Greedy(words).bind(ACTIONS).choices(X)


def test_reward_model_asked_by_code():
    class Model:
        def predict(self, context, codes):
            return scores(context)[np.arange(len(context)), codes]

    assert Greedy(Model()).bind(ACTIONS).choices(X).tolist() == scores(X).argmax(axis=1).tolist()


def test_one_model_for_all_actions_is_not_a_score():
    with pytest.raises(UsageError, match="mapping from action"):
        Greedy(LinearRegression())
    with pytest.raises(UsageError, match="mapping from action"):
        Softmax(GaussianProcessRegressor())


def test_scores_must_be_numbers_of_the_right_shape():
    with pytest.raises(PolicyError, match=r"shape \(n, K\) = \(4, 3\)"):
        Greedy(lambda x: x).bind(ACTIONS).choices(X)
    bad = scores(X)
    bad[1, 2] = np.nan
    for policy in (Greedy(lambda x: bad), Softmax(lambda x: bad)):
        with pytest.raises(PolicyError, match=r"action 'c'.*row 1"):
            policy.bind(ACTIONS).probabilities(X)
    nothing = np.full((4, 3), -np.inf)
    for policy in (Greedy(lambda x: nothing), Softmax(lambda x: nothing)):
        with pytest.raises(PolicyError, match="every preference is −∞"):
            policy.bind(ACTIONS).probabilities(X)


def test_ties_go_to_the_first_action_of_the_log():
    policy = Greedy(lambda x: np.array([[1.0, 1.0, 0.0], [0.0, 2.0, 2.0]])).bind(ACTIONS)
    assert policy.choices(np.zeros(2)).tolist() == [0, 1]
    eligible = np.array([[False, True, True], [True, False, True]])
    assert policy.choices(np.zeros(2), eligible=eligible).tolist() == [1, 2]


def test_softmax_does_not_overflow():
    policy = Softmax(lambda x: np.array([[1e308, -1e308, -np.inf]]), temperature=1e-300)
    assert policy.bind(ACTIONS).probabilities(X[:1]).tolist() == [[1.0, 0.0, 0.0]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: EpsilonGreedy(scores, 1.5),
        lambda: EpsilonGreedy(scores, float("nan")),
        lambda: Softmax(scores, temperature=0),
        lambda: Mixture([Uniform()], [0.5]),
        lambda: Mixture([Uniform(), Uniform()], [1.5, -0.5]),
        lambda: Mixture([], []),
        lambda: Mixture(["column"], [1.0]),
        lambda: BetaThompson([1], [1], method="exact"),
        lambda: BetaThompson([1], [1], draws=0),
        lambda: TimeDependent(3),
    ],
)
def test_impossible_parameters(make):
    with pytest.raises(UsageError):
        make()


def test_time_dependent_policies():
    policy = TimeDependent(lambda s, t: np.where(t[:, None] == 0, [1.0, 0.0], [0.5, 0.5]))
    p = policy.bind(("a", "b")).probabilities(np.zeros(3), np.array([0, 1, 0]))
    assert p.tolist() == [[1, 0], [0.5, 0.5], [1, 0]]
    assert policy.time_dependent
    with pytest.raises(PolicyError, match="time-dependent"):
        Mixture([policy], [1.0])
    with pytest.raises(PolicyError, match="integer array"):
        policy.bind(("a", "b")).probabilities(np.zeros(3), 0)


TABLE = {
    "device": ["tv", "tv", "phone", "tv", "phone"],
    "hour": [1, 1, 1, 2, 2],
    "ad": ["a", "c", "b", "b", "a"],
    "p": [0.25, 0.75, 1.0, 1.0, 1.0],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", KINDS)
def test_table_look_up_across_kinds_of_frames(kind, other):
    table = Table(kind(TABLE), context=["device", "hour"], action="ad", probability="p").bind(ACTIONS)
    frame = other({"hour": [2, 1, 1], "x": [0, 0, 0], "device": ["tv", "phone", "tv"]})
    assert table.probabilities(frame).tolist() == [[0, 1, 0], [0, 1, 0], [0.25, 0, 0.75]]
    again = table.bind(("c", "b", "a", "d")).probabilities(frame)
    assert again.tolist() == [[0, 1, 0, 0], [0, 1, 0, 0], [0.75, 0, 0.25, 0]]
    check_policy(table, frame, ACTIONS)


def test_table_refuses_what_it_does_not_have():
    def table(**change):
        frame = pd.DataFrame({**TABLE, **change})
        return Table(frame, context=["device", "hour"], action="ad", probability="p").bind(ACTIONS)

    unseen = pd.DataFrame({"device": ["tv", "phone", "radio"], "hour": [1, 2, 1]})
    with pytest.raises(PolicyError, match=r"row 2\): .*radio"):
        table().probabilities(unseen)
    with pytest.raises(PolicyError, match="row 0"):
        table().probabilities(pd.DataFrame({"device": ["phone"], "hour": [99]}))
    # Both values are known, but not together.
    with pytest.raises(PolicyError, match="row 0"):
        table(hour=[1, 1, 1, 2, 1], ad=["a", "c", "b", "b", "a"], p=[0.25, 0.75, 0.5, 1, 0.5]).probabilities(
            pd.DataFrame({"device": ["phone"], "hour": [2]})
        )
    with pytest.raises(PolicyError, match=r"sum to 1: .*row 0 = 0.95"):
        table(p=[0.2, 0.75, 1, 1, 1])
    with pytest.raises(PolicyError, match=r"row 1 = -0.75"):
        table(p=[0.25, -0.75, 1, 1, 1])
    with pytest.raises(PolicyError, match=r"twice: .*row 1"):
        table(ad=["a", "a", "b", "b", "a"])
    with pytest.raises(PolicyError, match=r"row 4 = 'cc'"):
        table(ad=["a", "c", "b", "b", "cc"])
    with pytest.raises(PolicyError, match="no rows"):
        Table(pd.DataFrame(TABLE).iloc[:0], ["device"], "ad", "p").bind(ACTIONS)
    with pytest.raises(UsageError, match=r"\['device'\]"):
        Table(pd.DataFrame(TABLE), "device", "ad", "p")
    with pytest.raises(PolicyError, match="bind"):
        Table(pd.DataFrame(TABLE), ["device"], "ad", "p").probabilities(unseen)


def test_table_of_integer_states_missing_values_and_no_context():
    states = pd.DataFrame({"s": [0, 1, 1], "a": ["a", "a", "b"], "p": [1, 0.5, 0.5]})
    policy = Table(states, context=["s"], action="a", probability="p").bind(("a", "b"))
    assert policy.probabilities(np.array([1, 0])).tolist() == [[0.5, 0.5], [1, 0]]
    with pytest.raises(PolicyError, match="keyed by 1 columns"):
        policy.probabilities(np.zeros((2, 2)))
    gaps = pd.DataFrame({"s": ["x", None], "a": ["a", "b"], "p": [1.0, 1.0]})
    policy = Table(gaps, context=["s"], action="a", probability="p").bind(("a", "b"))
    assert policy.probabilities(pl.DataFrame({"s": [None, "x"]})).tolist() == [[0, 1], [1, 0]]
    always = pd.DataFrame({"a": ["a", "b"], "p": [0.3, 0.7]})
    policy = Table(always, context=[], action="a", probability="p").bind(("b", "a"))
    assert policy.probabilities(np.zeros(2)).tolist() == [[0.7, 0.3]] * 2


def test_table_keyed_by_times_of_another_resolution():
    times = pd.to_datetime(["2024-01-01", "2024-01-02"])
    frame = pd.DataFrame({"day": times.as_unit("ns"), "a": ["a", "b"], "p": [1.0, 1.0]})
    policy = Table(frame, context=["day"], action="a", probability="p").bind(("a", "b"))
    asked = pd.DataFrame({"day": times.as_unit("us")[::-1]})
    assert policy.probabilities(asked).tolist() == [[0, 1], [1, 0]]


def by_adaptive_quadrature(arms):
    """P(i = argmax) one arm at a time, by QUADPACK between quantiles."""
    edges = {a.ppf(q) for a in arms for q in (1e-12, 0.1, 0.5, 0.9, 1 - 1e-12)}
    points = sorted({*arms[0].support(), *edges}) if arms[0].support()[0] == 0 else sorted(edges)

    def probability(i):
        def integrand(x):
            return arms[i].pdf(x) * np.prod([a.cdf(x) for j, a in enumerate(arms) if j != i])

        return sum(integrate.quad(integrand, a, b, epsabs=1e-13)[0] for a, b in pairwise(points))

    return [probability(i) for i in range(len(arms))]


@pytest.mark.parametrize(
    "parameters",
    [
        [(360, 300_000), (1, 1), (50_000, 5e7), (2, 900)],
        [(1.5, 40), (1, 12), (30, 400)],
        [(900, 3), (5_000, 12), (40, 1)],
    ],
)
def test_beta_quadrature_against_an_adaptive_integrator(parameters):
    expected = by_adaptive_quadrature([stats.beta(a, b) for a, b in parameters])
    alpha, beta = zip(*parameters, strict=True)
    assert beta_thompson_probabilities(alpha, beta) == pytest.approx(expected, abs=1e-10)


def test_gaussian_quadrature_against_an_adaptive_integrator():
    mean, std = [0.0, 0.3, -1.0, 0.299], [1.0, 0.01, 4.0, 0.001]
    expected = by_adaptive_quadrature([stats.norm(m, s) for m, s in zip(mean, std, strict=True)])
    assert gaussian_thompson_probabilities(mean, std) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("arm", [(0.5, 0.5), (0.01, 0.02), (1, 1), (1, 3e5), (7e4, 2), (5e4, 5e7)])
@pytest.mark.parametrize("K", [1, 2, 55, 1000])
def test_equal_arms_share_equally(arm, K):
    p = beta_thompson_probabilities(np.full(K, arm[0]), np.full(K, arm[1]))
    assert p == pytest.approx(1 / K, abs=1e-10)


def test_small_probabilities_keep_their_digits():
    # P(N(0, 1) > N(m, 1)) = Φ(−m/√2), down to one in 10¹².
    for m in (5.0, 8.0, 10.0):
        p = gaussian_thompson_probabilities([0.0, m], [1.0, 1.0])[0]
        assert p == pytest.approx(stats.norm.sf(m / np.sqrt(2)), rel=1e-4)


def test_a_common_offset_of_gaussian_arms_changes_nothing():
    mean, std = np.array([0.0, 0.5, 1.0]), np.array([1.0, 0.25, 2.0])
    shifted = gaussian_thompson_probabilities(mean + 2.0**40, std)
    assert shifted == pytest.approx(gaussian_thompson_probabilities(mean, std), abs=1e-12)


def test_narrow_gaussian_arms_far_from_a_wide_one():
    step = 2.0**-30
    p = gaussian_thompson_probabilities([0.0, 1024.0, 1024.0 + step], [1.0, step, step])
    expected = [0.0, stats.norm.sf(1 / np.sqrt(2)), stats.norm.cdf(1 / np.sqrt(2))]
    assert p == pytest.approx(expected, abs=1e-12)


def test_thompson_refuses_what_it_cannot_integrate():
    with pytest.raises(PolicyError, match="'std' must be positive"):
        gaussian_thompson_probabilities([0, 1], [1, 0])
    with pytest.raises(PolicyError, match="'mean' must be finite"):
        gaussian_thompson_probabilities([0, np.nan], [1, 1])
    with pytest.raises(PolicyError, match=r"'(alpha|beta)' must be positive"):
        beta_thompson_probabilities([1, -1], [1, 1])
    with pytest.raises(PolicyError, match="have different shapes"):
        beta_thompson_probabilities([1, 1, 1], [1, 1])
    with pytest.raises(PolicyError, match=r"shape \(K,\) or \(n, K\)"):
        beta_thompson_probabilities(1, 1)
    with pytest.raises(PolicyError, match="no eligible action"):
        beta_thompson_probabilities([1, 1], [1, 1], eligible=[False, False])
    with pytest.raises(PolicyError, match="has an error of"):
        beta_thompson_probabilities([3e20, 3e20], [1e20, 1e20])
    policy = GaussianThompson(scores, lambda x: np.where(x[:, :1] < -1, 0.0, [[1.0, 1.0, 1.0]]))
    with pytest.raises(PolicyError, match=r"'std'.*row 3"):
        policy.bind(ACTIONS).probabilities(X)
    with pytest.raises(PolicyError, match="one number per action"):
        BetaThompson([1, 1], [1, 1]).bind(ACTIONS)
    with pytest.raises(PolicyError, match="must return an array of shape"):
        BetaThompson(lambda x: x, [1, 1, 1]).bind(ACTIONS).probabilities(X)


def test_thompson_integrates_each_distinct_row_once():
    x = np.repeat(X, 3, axis=0)
    policy = GaussianThompson(scores, [1.0, 2.0, 3.0]).bind(ACTIONS)
    one_by_one = [gaussian_thompson_probabilities(row, [1, 2, 3]) for row in scores(x)]
    assert policy.probabilities(x) == pytest.approx(np.array(one_by_one), abs=1e-13)
    asked = []
    counting = BetaThompson(lambda x: 1 + x[:, :1] ** 2 + [0, 1, 2], [2, 2, 2], method="monte-carlo")
    original = BetaThompson._monte_carlo

    def spy(self, alpha, beta, **keywords):
        asked.append(len(alpha))
        return original(self, alpha, beta, **keywords)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BetaThompson, "_monte_carlo", spy)
        counting.bind(ACTIONS).probabilities(x)
    assert asked == [4]


class Custom:
    """A user's policy, with one thing wrong."""

    def __init__(self, function):
        self.function = function

    def probabilities(self, context):
        return self.function(context)


def flat(x):
    return np.full((len(x), 3), 1 / 3)


def with_row(x, row, values):
    p = flat(x)
    if len(x) > row:
        p[row] = values
    return p


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: flat(x)[:, :2], r"shape \(n, K\) = \(4, 3\)"),
        (lambda x: flat(x).T, "shape"),
        (lambda x: with_row(x, 2, [np.nan, 0.5, 0.5]), "NaN or infinite in.*row 2"),
        (lambda x: with_row(x, 1, [-0.5, 1.0, 0.5]), "negative in.*row 1 = -0.5"),
        (lambda x: with_row(x, 3, [0.5, 0.5, 0.5]), "row 3 = 1.5"),
        (lambda x: [["x"] * 3] * len(x), "must be numbers"),
        (lambda x: with_row(x, 0, [1, 0, 0]), "different order"),
        (lambda x: np.eye(3)[np.argsort(np.argsort(x[:, 0])) % 3], "two parts"),
    ],
)
def test_the_checker_names_what_is_wrong(function, message):
    with pytest.raises(PolicyError, match=message):
        check_policy(Custom(function), X, ACTIONS)


def test_the_checker_sees_state_and_randomness():
    rng = np.random.default_rng(0)
    with pytest.raises(PolicyError, match="second call"):
        check_policy(Custom(lambda x: rng.dirichlet([1, 1, 1], len(x))), X, ACTIONS)
    buffer = np.zeros((4, 3))

    def reuse(x):
        buffer[:, 0] = (buffer[:, 0] + 0.5) % 1
        buffer[:, 1] = 1 - buffer[:, 0]
        return buffer

    with pytest.raises(PolicyError, match="second call"):
        check_policy(Custom(reuse), X, ACTIONS)


def test_the_checker_takes_functions_and_labels():
    check_policy(flat, X, list(ACTIONS))
    check_policy(lambda x: np.where(x[:, 0] > 0, "a", "b"), X, ACTIONS)
    with pytest.raises(PolicyError, match="not in the log"):
        check_policy(lambda x: np.where(x[:, 0] > 0, "a", "q"), X, ACTIONS)
    with pytest.raises(PolicyError, match="is not a policy"):
        check_policy(3, X, ACTIONS)
    with pytest.raises(UsageError, match="at least one row"):
        check_policy(flat, X[:0], ACTIONS)
    check_policy(TimeDependent(lambda s, t: np.eye(3)[t]), X, ACTIONS, t=np.array([0, 1, 2, 1]))
