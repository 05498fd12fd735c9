"""Public checkers for what users write themselves: policies, reward models and scores."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.decide.online.own import as_array, fresh
from offpolicy.errors import ModelError, OffPolicyError, UsageError, first_rows
from offpolicy.logs.actions import action_list
from offpolicy.logs.kinds import space_of
from offpolicy.logs.layout import Layout
from offpolicy.models.rewards.resolve import as_reward_model
from offpolicy.models.rewards.reward import RewardData
from offpolicy.policies.asked import AGREEMENT, probe
from offpolicy.policies.distribution import as_rows, check_rows
from offpolicy.policies.forms import adapted
from offpolicy.policies.protocol import Surface, bind, n_rows, take
from offpolicy.scores.catalog import Estimator, apply
from offpolicy.scores.decisions import Decisions, undeclared

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from offpolicy._arguments import Rows
    from offpolicy._arrays import Array, Floats, Ints


ROWS, RELATIVE, ABSOLUTE = 80, 1e-6, 1e-8
UNITS, CLOSE = 60, 1e-9


@checks_arguments
def check_policy(policy: Any, context: Rows, actions: Iterable[Hashable], *, t: Array | None = None) -> None:
    """Check that ``policy`` gives distributions, and the same ones however rows are passed.

    The rows must be of shape (n, K), finite, not negative and sum to 1; a second call must agree
    with the first; rows in another order, and rows passed in two parts, must give the same
    distribution row by row. A policy that normalizes over the rows it is given, keeps state
    between calls, or draws random numbers fails here rather than in the middle of an evaluation.

    Parameters
    ----------
    policy
        An object with ``probabilities(context)``, a function of the context that returns (n, K)
        probabilities or one action label per row, or a model that `evaluate` takes as a policy.
    context
        Rows to try it on: an array or a frame; a few hundred rows will do.
    actions
        The log's actions, in order.
    t
        Steps of the rows, for a time-dependent policy; all 0 when not given.

    Raises
    ------
    PolicyError
        With the first bad row and a remedy.

    Examples
    --------
    >>> x = np.linspace(0, 1, 5)
    >>> check_policy(lambda x: np.column_stack([x, 1 - x]), x, ["a", "b"])
    >>> check_policy(lambda x: np.column_stack([x / x.sum(), 1 - x / x.sum()]), x, ["a", "b"])
    Traceback (most recent call last):
    offpolicy.errors.PolicyError: the policy gives different probabilities when rows are passed in two
    parts: 4 of 5 values (first: row 1, row 2, row 3, …). A row's distribution may depend only on
    that row; look for sums, ranks or scaling over all rows.
    """
    labels = action_list(actions, "check_policy")
    policy = bind(adapted("policy", policy, Surface(space_of(labels))), labels)
    if not hasattr(policy, "probabilities") and not callable(policy):
        raise UsageError(
            "The 'policy' parameter of check_policy must have probabilities(context) or be a "
            f"function of the context. Got {type(policy).__name__} instead."
        )
    n = n_rows(context)
    if n == 0:
        raise UsageError("check_policy needs at least one row of context.")
    steps = np.zeros(n, dtype=np.int64) if t is None else np.asarray(t)

    def ask(rows: Ints) -> Floats:
        return _ask(policy, take(context, rows), steps[rows], labels)

    probe(ask, np.arange(n), "the policy", tolerance=AGREEMENT)


def _ask(policy: Any, context: Any, t: Array, labels: tuple[Hashable, ...]) -> Floats:
    shape = n_rows(context), len(labels)
    if getattr(policy, "time_dependent", False):
        values = policy.probabilities(context, t)
    elif hasattr(policy, "probabilities"):
        values = policy.probabilities(context)
    else:
        return as_rows(policy(context), labels, shape, "the policy").copy()
    # A copy: a policy that hands out and then overwrites its own buffer must not pass.
    return check_rows(values, shape, "the policy").copy()


@checks_arguments
def check_reward_model(model: Any, context: Rows | None = None) -> None:
    """Check that a learner, or an object with ``fit_reward``, can serve as ``reward_model=``.

    It is fitted to a few made-up rewards and must predict one finite number per row; the same ones when fitted again
    with the same seed, when rows come in another order, and when they are passed in two parts; and it must not
    write into what it is given.

    Parameters
    ----------
    model : scikit-learn learner, or object with ``fit_reward(data, seed)``
    context : (n, p) array or pandas frame, optional
        Rows to try it on; default: eighty rows of two numbers.

    Raises
    ------
    ModelError
        That says what is wrong.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> check_reward_model(LinearRegression())
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, 2)) if context is None else context
    n = len(X)
    action = rng.integers(2, size=n)
    reward = (rng.random(n) < 0.3 + 0.4 * action).astype(np.float64)
    data = RewardData(X, action, reward, None, ("a", "b"), "action")
    kept = [np.array(part, copy=True) for part in (X, action, reward)]
    name = type(model).__name__
    resolved = as_reward_model(model)
    try:
        fits = [resolved.fit_reward(data, 0) for _ in range(2)]
        one, again = (fit.predict(X, action) for fit in fits)
    except OffPolicyError:
        raise
    except Exception as error:  # the user's own code
        raise ModelError(f"{name} failed on {n} test rows with {type(error).__name__}: {error}") from error
    predicted = _finite(one, n, name)
    _same_predictions(predicted, _finite(again, n, name), name, "when fitted again with the same seed")
    order = rng.permutation(n)
    mixed = np.empty_like(predicted)
    mixed[order] = _finite(fits[0].predict(_rows(X, order), action[order]), n, name)
    _same_predictions(predicted, mixed, name, "when rows come in a different order")
    halves = np.array_split(np.arange(n), 2)
    parts = [fits[0].predict(_rows(X, rows), action[rows]) for rows in halves]
    _same_predictions(predicted, np.concatenate(parts), name, "when rows are passed in two parts")
    for before, after in zip(kept, (X, action, reward), strict=True):
        if not np.array_equal(before, np.asarray(after)):
            raise ModelError(f"{name} changes the rows it is given. Work on a copy.")


def _rows(X: Any, rows: Any) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def _finite(values: Any, n: int, name: str) -> Any:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n,):
        raise ModelError(f"{name} returned shape {array.shape} for {n} rows. Return one number per row.")
    bad = ~np.isfinite(array)
    if bad.any():
        raise ModelError(f"{name} predicted {first_rows(bad, array)} that are not finite.")
    return array


def _same_predictions(one: Any, other: Any, name: str, when: str) -> None:
    differs = ~np.isclose(one, other, rtol=RELATIVE, atol=ABSOLUTE)
    if differs.any():
        raise ModelError(f"{name} predicts different numbers {when}: {first_rows(differs, other)}.")


@checks_arguments
def check_score(score: Any, *, trajectories: bool | None = None) -> None:
    """Check that a score, or an `Estimator` made of one, keeps what it declares.

    It must give one finite number per unit, the same twice, without writing into what it is given; look at
    nuisances only that it names in ``needs``; move with the units when they come in another order; and, where it
    declares ``linear_in_reward``, ``whole_log_means`` or ``takes_counts``, behave so.

    Parameters
    ----------
    score : Estimator or function of `Decisions`
    trajectories : bool, optional
        Whether it must work for episodes besides single decisions. Default: it is tried on them, and a warning says
        so where it works for single decisions only.

    Raises
    ------
    UsageError
        That says which promise is not kept.

    Examples
    --------
    >>> check_score(lambda d: d.sum(d.gamma * d.rho * d.reward))
    >>> check_score(lambda d: d.reward.mean())
    Traceback (most recent call last):
    offpolicy.errors.UsageError: the score of 'score' returned shape () for 60 units. Return one number per unit; sum
    over steps with d.sum(…).
    """
    estimator = score if isinstance(score, Estimator) else Estimator("score", score)
    alone = "bandit" in estimator.kinds
    if alone:
        _check_on(estimator, _decisions(Layout.single(UNITS), estimator))
    if trajectories is False or "trajectories" not in estimator.kinds:
        return
    episodes = _decisions(Layout.ragged(np.arange(UNITS) % 3 + 1), estimator)
    if alone and trajectories is None and _is_by_decision(estimator, episodes):
        warnings.warn(
            f"{estimator.name!r} works for single decisions, not for episodes: it returns one number per decision. Sum "
            'over steps with d.sum(…), or declare it: Estimator(…, kinds={"bandit"}).',
            stacklevel=2,
        )
        return
    _check_on(estimator, episodes)


def _is_by_decision(estimator: Estimator, d: Decisions) -> bool:
    try:
        return bool(np.shape(estimator.score(d)) == (d.layout.n_steps,))
    except Exception:  # noqa: BLE001  (the user's own code; checking it properly says what failed)
        return False


def _decisions(layout: Layout, estimator: Estimator) -> Decisions:
    """Made-up decisions; what a score does not declare to need cannot be looked at."""
    rng = np.random.default_rng(0)
    steps = layout.n_steps

    def drawn(low: float, high: float) -> Floats:
        values = rng.uniform(low, high, steps)
        values.flags.writeable = False
        return values

    needs = estimator.needs
    return Decisions(
        layout,
        drawn(-1, 2),
        drawn(0.1, 0.9),
        drawn(0.2, 0.8) if "behavior" in needs else undeclared("pi_b", "behavior", steps),
        drawn(-1, 1) if "value" in needs else undeclared("q", "value", steps),
        drawn(-1, 1) if "value" in needs else undeclared("v", "value", steps),
        0.9,
        marginal=drawn(0.5, 2.0) if "marginal" in needs else None,
        fold=np.arange(layout.n_units) % 2 if estimator.split == "crossfit" else None,
    )


def _check_on(estimator: Estimator, d: Decisions) -> None:
    psi = apply(estimator, d).psi
    _same_scores(estimator, psi, apply(estimator, replace(d)).psi, "in a second call")
    order = np.random.default_rng(1).permutation(d.n)
    mixed = np.empty_like(psi)
    mixed[order] = apply(estimator, d.part(order)).psi
    _same_scores(estimator, psi, mixed, "when units come in a different order")
    if estimator.linear_in_reward:
        none = apply(estimator, replace(d, reward=np.zeros_like(d.reward))).psi
        twice = apply(estimator, replace(d, reward=2 * d.reward)).psi
        _same_scores(estimator, 2 * psi - none, twice, "from twice the rewards, though linear_in_reward=True")
        half = np.arange(d.n // 2)
        part = apply(estimator, d.part(half)).psi
        _same_scores(estimator, psi[half], part, "of half the units alone, though linear_in_reward=True")
    if estimator.takes_counts and not estimator.by_block:
        counted = replace(d, count=np.full(d.n, 2.0), weight=np.full(d.n, 2.0))
        unfolded = apply(estimator, counted.unfolded()).psi[::2]
        _same_scores(estimator, unfolded, apply(estimator, counted).psi, "of counted units, though takes_counts=True")


def _same_scores(estimator: Estimator, one: Array, other: Array, when: str) -> None:
    differs = ~np.isclose(one, other, rtol=CLOSE, atol=CLOSE, equal_nan=True)
    if differs.any():
        raise UsageError(
            f"the score of {estimator.name!r} gives different numbers {when}: {first_rows(differs, other)}."
        )


@checks_arguments
def check_learner(learner: Any) -> None:
    """Check that a learner can be replayed: it acts before and after it has seen data, and keeps to its contract.

    A copy is bound to three actions. It has to give (n, K) probabilities before any update and after two updates, the
    same ones when asked twice, and the same ones for a row whichever others are asked with it. The learner that was
    passed has to be left as it was.

    Parameters
    ----------
    learner
        An object with ``probabilities(context)`` and ``update(context, action, reward, propensity)``.

    Raises
    ------
    UsageError
        That says which promise is not kept.

    Examples
    --------
    >>> import offpolicy as op
    >>> op.testing.check_learner(op.learners.LinUCB())
    """
    name, actions = type(learner).__name__, ("a", "b", "c")
    rng = np.random.default_rng(0)
    context = rng.normal(size=(UNITS, 2))
    own, other = fresh(learner, actions), fresh(learner, actions)
    for update in range(3):
        p = check_rows(own.probabilities(context), (UNITS, 3), name)
        _same(p, own.probabilities(context), f"{name} gives different probabilities in a second call")
        alone = np.vstack([own.probabilities(context[:7]), own.probabilities(context[7:])])
        _same(p, alone, f"{name} gives a row different probabilities when it is asked with other rows")
        if update < 2:
            action = as_array(np.array(actions, dtype=object)[rng.integers(3, size=UNITS)])
            reward = (rng.random(UNITS) < 0.3 + 0.3 * (action == "b")) * 1.0
            own.update(context, action, reward, np.full(UNITS, 1 / 3))
    first = check_rows(other.probabilities(context), (UNITS, 3), name)
    untouched = fresh(learner, actions).probabilities(context)
    _same(first, untouched, f"{name} shares its state with copies of itself")


def _same(a: Any, b: Any, what: str) -> None:
    gap = np.abs(np.asarray(a) - np.asarray(b)).max()
    if gap > AGREEMENT:
        raise UsageError(
            f"{what}: they differ by up to {gap:.3g}. probabilities() must depend only on its row and on the updates."
        )
