"""`FittedQ`: backward recursion over t with any regressor.

For t = T, …, 0 regress R_t + γ v_{t+1}(S_{t+1}) on (S_t, A_t), where v_{t+1} = Σ_a π_e(a|·) q_{t+1}(·, a)
comes from the regression before. Each regression is a reward regression (the same adapters as for bandits),
so with one step per episode this is the bandit's reward model.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._arrays import picked
from offpolicy.errors import ModelError, check_choice
from offpolicy.models.fitting.encode import Encoded
from offpolicy.models.fitting.learners import is_learner, weight_argument, with_action
from offpolicy.models.fitting.predictions import predict_values, take_rows
from offpolicy.models.fitting.tables import abilities
from offpolicy.models.rewards.resolve import as_reward_model
from offpolicy.models.rewards.reward import ActionFeature, ConstantReward, RewardData
from offpolicy.models.values.values import by_step, check_finite, next_values
from offpolicy.policies.distribution import blocks

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints
    from offpolicy.models.rewards.reward import FittedReward
    from offpolicy.models.values.values import FittedValues, StatePolicy, ValueData

FEW_ROWS = 10


@checks_arguments
@dataclass(frozen=True, eq=False)
class FittedQ:
    """Fitted Q evaluation with any scikit-learn regressor.

    Parameters
    ----------
    learner : regressor, reward model, or "auto"
        As ``reward_model=`` of a bandit: the action is a feature, or use `PerAction`. "auto" chooses among a
        constant, a linear model and LightGBM at every step. A learner with ``warm_start=True`` starts each
        step from the fit before (neural nets, lasso, SGD).
    time : {"step", "feature", "pooled"}
        "step": one model for each t, fitted to the steps with that t. "feature": one model with t as a
        column, refitted as t goes back, to all steps from t on. "pooled": the environment is stationary, so
        each t is fitted to all transitions. The last two cost T + 1 fits to (nearly) all steps.

    Notes
    -----
    A step with fewer than 10 training rows gets their mean; one without any, the model of the nearest
    earlier step.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> FittedQ(Ridge()).time
    'step'
    """

    learner: Any = "auto"
    time: Literal["step", "feature", "pooled"] = "step"

    def __post_init__(self) -> None:
        check_choice("time", self.time, "step", "feature", "pooled")

    #: Fits can be asked about rows that were not there when they were made.
    moves: ClassVar[bool] = True

    @property
    def one_step(self) -> Any:
        """The reward model that this is where every episode has one step."""
        return self.learner

    def fit_values(self, data: ValueData, seed: int) -> FittedValues:
        """Regress backward from the horizon."""
        model = _warm_model(self.learner) or as_reward_model(self.learner)
        encoded = abilities(model).wants_encoded
        timed = self.time == "feature"
        if self.time == "pooled" and data.policy.is_timed:
            raise ModelError(
                "time='pooled' treats all steps alike, which does not work for a time-dependent policy. "
                "Use time='step' or time='feature'."
            )
        fits = _Fits(data, data.table(encoded=encoded), timed, {}, encoded)
        v = np.zeros(len(data.log.action))
        y = data.reward.copy()
        previous: Any = None
        everyone = np.arange(len(data.rows))
        for t, at in data.backward():
            if len(at):
                y[at] = data.reward[at] + data.discount * next_values(data.following[at], v)
            use, outcome = at[data.complete[at]], y
            if self.time == "feature":
                use = everyone[(data.step >= t) & data.complete]
            elif self.time == "pooled":
                use = everyone
                if t < data.horizon - 1:
                    use = everyone[data.following >= -1]
                    outcome = data.reward + data.discount * next_values(data.following, v)
            previous = fits.add(t, model, use, outcome, seed, previous)
            if previous is not None and t > 0:
                ask = at if self.time != "pooled" else everyone
                v[data.rows[ask]] = fits.ask(previous, data.rows[ask])[1]
                check_finite(v[data.rows[ask]], model)
        if timed and previous is not None:
            fits.models.clear()
            fits.models[0] = previous
        return fits


@dataclass(frozen=True, eq=False)
class _Fits:
    """The regression of each t, and its predictions."""

    data: ValueData
    table: Any
    timed: bool
    models: dict[int, FittedReward]
    encoded: bool

    def moved(self, data: ValueData) -> FittedValues:
        """The same regressions at the rows of another part of the log."""
        return replace(self, data=data, table=data.table(encoded=self.encoded))

    @property
    def note(self) -> str:
        """What the regressions have to say about themselves."""
        return next((n for fit in self.models.values() if (n := getattr(fit, "note", ""))), "")

    def add(self, t: int, model: Any, use: Ints, y: Floats, seed: int, previous: Any) -> FittedReward | None:
        """Fit step t and keep it."""
        data, log = self.data, self.data.log
        weight = picked(data.weight, use)
        if weight is not None:
            use, weight = use[weight > 0], weight[weight > 0]
        if len(use) == 0:
            return None
        rows = data.rows[use]
        X = take_rows(self.table, log.context.positions(rows))
        if self.timed:
            X = with_time(X, log.layout.step[rows])
        training = RewardData(X, log.action[rows], y[use], weight, log.actions, log.names.action)
        fit: FittedReward
        if len(use) < FEW_ROWS and data.horizon > 1:
            fit = ConstantReward(training.mean())
        elif previous is not None and hasattr(model, "fit_from"):
            fit = model.fit_from(training, seed, previous)
        else:
            fit = model.fit_reward(training, seed)
        self.models[t] = fit
        return fit

    def ask(self, fit: FittedReward, rows: Ints) -> tuple[Floats, Floats]:
        """(m,) q and v of one regression at rows of the log."""
        log, policy = self.data.log, self.data.policy
        if self.timed:
            X = take_rows(self.table, log.context.positions(rows))
            X = with_time(X, log.layout.step[rows])
            return rowwise_values(fit, X, rows, policy)
        target = policy.target
        q, v = predict_values(fit, self.table, log.context, rows, log.action[rows], [target])
        return q, v[target.name]

    def predict(self, rows: Ints) -> tuple[Floats, Floats]:
        q, v = np.zeros(len(rows)), np.zeros(len(rows))
        for t, at in by_step(self.data.log, rows).items():
            model = self._nearest(t)
            q[at], v[at] = self.ask(model, rows[at])
        return q, v

    def _nearest(self, t: int) -> FittedReward:
        earlier = [s for s in self.models if s <= t]
        return self.models[max(earlier) if earlier else min(self.models)]


def with_time(X: Any, step: Ints) -> Any:
    """The learner's table with t as its last column."""
    if hasattr(X, "iloc"):
        return X.assign(step=step)
    if isinstance(X, Encoded):
        return Encoded(np.column_stack([X.matrix, step]), X.categorical)
    return np.column_stack([X, step])


def rowwise_values(fit: FittedReward, X: Any, rows: Ints, policy: StatePolicy) -> tuple[Floats, Floats]:
    """(m,) q and v where each row has its own features; only actions with π_e > 0 are predicted."""
    k = policy.target.n_actions
    q, v = np.empty(len(rows)), np.empty(len(rows))
    for block in blocks(len(rows), k):
        row, code, pi = policy.needed(rows[block])
        predicted = np.zeros(pi.shape)
        predicted[row, code] = fit.predict(take_rows(X, block[row]), code)
        q[block], v[block] = policy.read_off(predicted, rows[block], pi)
    return q, v


def _warm_model(learner: Any) -> _WarmStart | None:
    """A warm-starting model, when the learner asks for one and means the solution, not more trees."""
    if not is_learner(learner):
        return None
    parameters = learner.get_params()
    adds_trees = "n_estimators" in parameters or "max_leaf_nodes" in parameters
    return _WarmStart(learner) if parameters.get("warm_start") is True and not adds_trees else None


@dataclass(frozen=True, eq=False)
class _WarmStart:
    """One model of (state, action) whose next fit starts at the solution of the one before."""

    learner: Any

    def fit_reward(self, data: RewardData, seed: int) -> FittedReward:
        return ActionFeature(self.learner).fit_reward(data, seed)

    def fit_from(self, data: RewardData, seed: int, previous: FittedReward) -> FittedReward:
        if not hasattr(previous, "model"):
            return self.fit_reward(data, seed)
        after = deepcopy(previous)
        X = with_action(data.X, data.action, data.actions, data.action_name, self.learner)
        model = after.model.model
        net = getattr(model, "learned", model)
        # A neural net remembers its best loss so far, which was for other targets: without this it would
        # stop at once, or return to the weights of the step before.
        for name, fresh in (("best_loss_", np.inf), ("best_validation_score_", -np.inf)):
            if getattr(net, name, None) is not None:
                setattr(net, name, fresh)
        if hasattr(net, "_no_improvement_count"):
            net._no_improvement_count = 0  # noqa: SLF001
        keywords = {} if data.weight is None else {weight_argument(net): data.weight}
        model.fit(X, data.reward, **keywords)
        return after
