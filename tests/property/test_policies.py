"""Properties of policies that hold for any contexts, scores and parameters."""

from fractions import Fraction
from math import comb

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import special, stats

from offpolicy.policies import (
    BetaThompson,
    EpsilonGreedy,
    Fixed,
    GaussianThompson,
    Greedy,
    Mixture,
    Softmax,
    Uniform,
    beta_thompson_probabilities,
    gaussian_thompson_probabilities,
)

relaxed = settings(deadline=None, max_examples=60)

KINDS = ["greedy", "epsilon", "softmax", "gaussian", "beta", "mixture"]
numbers = st.floats(-20, 20)
seeds = st.integers(0, 2**32 - 1)
matrices = st.tuples(st.integers(1, 6), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=numbers)
)


def labels(K):
    return tuple(f"action {k}" for k in range(K))


def identity(x):
    return x


def softplus(x):
    return np.logaddexp(0, x) + 0.1


def policy_of(kind):
    """Policies whose context is the matrix of scores itself."""
    return {
        "greedy": Greedy(identity),
        "epsilon": EpsilonGreedy(identity, 0.3),
        "softmax": Softmax(identity, temperature=2.0),
        "gaussian": GaussianThompson(identity, softplus),
        "beta": BetaThompson(softplus, lambda x: softplus(-x)),
        "mixture": Mixture([Uniform(), Softmax(identity)], [0.5, 0.5]),
    }[kind]


@relaxed
@given(matrices, st.sampled_from(KINDS), seeds)
def test_rows_sum_to_one_and_follow_their_row(x, kind, seed):
    policy = policy_of(kind).bind(labels(x.shape[1]))
    p = policy.probabilities(x)
    assert p.shape == x.shape
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-9)
    order = np.random.default_rng(seed).permutation(len(x))
    np.testing.assert_allclose(policy.probabilities(x[order]), p[order], atol=1e-13)
    one_by_one = np.concatenate([policy.probabilities(x[i : i + 1]) for i in range(len(x))])
    np.testing.assert_allclose(one_by_one, p, atol=1e-13)


@relaxed
@given(matrices, st.sampled_from(KINDS), seeds)
def test_relabeling_actions_permutes_columns(x, kind, seed):
    K = x.shape[1]
    # Ties are broken by order, which relabeling changes; make every score of a row its own.
    x = x + np.arange(K) * 1e-3 * np.pi
    if any(len(set(row)) < K for row in x):
        return
    order = np.random.default_rng(seed).permutation(K)
    p = policy_of(kind).bind(labels(K)).probabilities(x)
    permuted = policy_of(kind).bind(tuple(labels(K)[k] for k in order)).probabilities(x[:, order])
    np.testing.assert_allclose(permuted, p[:, order], atol=1e-10)


@relaxed
@given(matrices, st.sampled_from(KINDS), seeds)
def test_ineligible_actions_are_as_good_as_absent(x, kind, seed):
    n, K = x.shape
    keep = np.random.default_rng(seed).random(K) < 0.6
    keep[int(seed) % K] = True
    mask = np.broadcast_to(keep, (n, K))
    p = policy_of(kind).bind(labels(K)).probabilities(x, eligible=np.array(mask))
    kept = tuple(a for a, k in zip(labels(K), keep, strict=True) if k)
    without = policy_of(kind).bind(kept).probabilities(x[:, keep])
    assert (p[:, ~keep] == 0).all()
    np.testing.assert_allclose(p[:, keep], without, atol=1e-10)


@relaxed
@given(matrices, st.floats(0, 1))
def test_epsilon_greedy_is_the_formula_of_the_appendix(x, epsilon):
    n, K = x.shape
    p = EpsilonGreedy(identity, epsilon).bind(labels(K)).probabilities(x)
    for i in range(n):
        best = int(np.argmax(x[i]))
        for a in range(K):
            assert p[i, a] == (1 - epsilon + epsilon / K if a == best else epsilon / K)


@relaxed
@given(matrices, st.floats(0, 1))
def test_epsilon_greedy_of_a_policy_is_a_mixture(x, epsilon):
    actions = labels(x.shape[1])
    direct = EpsilonGreedy(Softmax(identity), epsilon).bind(actions).probabilities(x)
    mixed = Mixture([Softmax(identity), Uniform()], [1 - epsilon, epsilon]).bind(actions)
    np.testing.assert_allclose(direct, mixed.probabilities(x), atol=1e-15)


@relaxed
@given(matrices, st.lists(st.floats(0.01, 1), min_size=3, max_size=3))
def test_mixtures_are_linear(x, raw):
    weights = np.array(raw) / sum(raw)
    actions = labels(x.shape[1])
    members = [Uniform(), Greedy(identity), Fixed(actions[-1])]
    p = Mixture(members, weights).bind(actions).probabilities(x)
    by_hand = sum(w * m.bind(actions).probabilities(x) for w, m in zip(weights, members, strict=True))
    np.testing.assert_allclose(p, by_hand, atol=1e-15)


@relaxed
@given(matrices, st.floats(0.05, 20), st.floats(-50, 50))
def test_softmax_ignores_a_shift_and_is_the_formula(x, temperature, shift):
    actions = labels(x.shape[1])
    policy = Softmax(identity, temperature).bind(actions)
    p = policy.probabilities(x)
    np.testing.assert_allclose(policy.probabilities(x + shift), p, atol=1e-11)
    np.testing.assert_allclose(p, special.softmax(x / temperature, axis=1), atol=1e-12)


@relaxed
@given(matrices)
def test_choices_and_probabilities_agree(x):
    policy = Greedy(identity).bind(labels(x.shape[1]))
    codes = policy.choices(x)
    assert codes.tolist() == x.argmax(axis=1).tolist()
    assert (policy.probabilities(x).argmax(axis=1) == codes).all()


@relaxed
@given(st.tuples(numbers, numbers), st.tuples(st.floats(-6, 3), st.floats(-6, 3)))
def test_two_gaussian_arms_have_a_closed_form(mean, log_std):
    std = 10.0 ** np.array(log_std)
    first, second = gaussian_thompson_probabilities(mean, std)
    # Φ((μ₁ − μ₂) / √(σ₁² + σ₂²))
    z = (mean[0] - mean[1]) / np.hypot(*std)
    np.testing.assert_allclose([first, second], [special.ndtr(z), special.ndtr(-z)], atol=1e-11)


def exact_beta(parameters):
    """P(i = argmax) for integer parameters: F_j are polynomials, so the integral is a fraction."""

    def density(a, b):  # coefficients of x^(a−1) (1−x)^(b−1) / B(a, b)
        scale = Fraction(a * comb(a + b - 1, a))
        out = [Fraction(0)] * (a - 1)
        return out + [scale * comb(b - 1, k) * (-1) ** k for k in range(b)]

    def integral(p):
        return [Fraction(0)] + [c / (k + 1) for k, c in enumerate(p)]

    def product(p, q):
        out = [Fraction(0)] * (len(p) + len(q) - 1)
        for i, c in enumerate(p):
            for j, d in enumerate(q):
                out[i + j] += c * d
        return out

    result = []
    for i, arm in enumerate(parameters):
        p = density(*arm)
        for j, other in enumerate(parameters):
            if j != i:
                p = product(p, integral(density(*other)))
        result.append(sum(integral(p)))
    return result


@relaxed
@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=5))
def test_integer_beta_arms_against_exact_fractions(parameters):
    expected = exact_beta(parameters)
    assert sum(expected) == 1
    alpha, beta = zip(*parameters, strict=True)
    p = beta_thompson_probabilities(alpha, beta)
    np.testing.assert_allclose(p, [float(e) for e in expected], atol=1e-12)


@relaxed
@given(st.integers(1, 60), st.floats(0.05, 1e5), st.floats(0.05, 1e5), st.floats(0.05, 1e5))
def test_two_beta_arms_have_a_known_sum(a, b, c, d):
    # P(X > Y), X ~ Beta(a, b), a an integer: 1 − F_X(y) is a finite sum, integrated against f_Y.
    k = np.arange(a)
    log_terms = special.betaln(c + k, b + d) - np.log(b + k) - special.betaln(1 + k, b) - special.betaln(c, d)
    p = beta_thompson_probabilities([a, c], [b, d])
    np.testing.assert_allclose(p[0], np.exp(log_terms).sum(), atol=2e-9)


@relaxed
@given(st.lists(st.tuples(st.floats(-2, 7), st.floats(-2, 7)), min_size=2, max_size=20))
def test_any_beta_arms_sum_to_one_and_mirror_to_the_minimum(logs):
    alpha, beta = 10.0 ** np.array(logs).T
    p = beta_thompson_probabilities(alpha, beta)
    assert abs(p.sum() - 1) < 1e-9
    if len(p) == 2:  # X₁ > X₂ exactly when 1 − X₁ < 1 − X₂
        np.testing.assert_allclose(beta_thompson_probabilities(beta, alpha), p[::-1], atol=1e-10)


@settings(deadline=None, max_examples=5)
@given(seeds)
def test_quadrature_and_draws_agree_for_55_arms(seed):
    rng = np.random.default_rng(seed)
    # What an ad log looks like after a while: few clicks, very unequal numbers of impressions.
    shows = rng.integers(50, 30_000, 55)
    clicks = rng.binomial(shows, 0.002)
    arms = (1 + clicks, 1 + shows - clicks)
    actions, x = labels(55), np.zeros(1)
    draws = 40_000
    exact = BetaThompson(*arms).bind(actions).probabilities(x)[0]
    drawn = BetaThompson(*arms, method="monte-carlo", draws=draws, seed=seed).bind(actions)
    share = drawn.probabilities(x)[0]
    # Binomial tail areas, Bonferroni over 55 arms: one false alarm in 10⁷ runs.
    counts = np.rint(share * draws)
    two_sided = np.minimum(stats.binom.cdf(counts, draws, exact), stats.binom.sf(counts - 1, draws, exact))
    assert two_sided.min() > 1e-7 / 55 / 2
