"""`PolicyLearner`: `learn_policy` as a scikit-learn estimator, for GridSearchCV with `policy_scorer`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy.decide.learn import learn_policy
from offpolicy.errors import UsageError, did_you_mean
from offpolicy.evaluation.ranking import rows_in

if TYPE_CHECKING:
    from offpolicy._arrays import Array, Floats
    from offpolicy.decide.learned import Learned
    from offpolicy.logs.bandit import BanditLog


SETTINGS = ("log", "learner", "objective", "max_depth", "min_rows", "reward_model", "seed")


class PolicyLearner:
    """A policy learned from the rows that a search gives it; its settings are those of `learn_policy`.

    Parameters
    ----------
    log : BanditLog
        Built from a pandas frame with a unique index: a search's rows are found by their labels.
    learner, objective, max_depth, min_rows, reward_model, seed
        As in `learn_policy`.

    Examples
    --------
    >>> import numpy as np, pandas as pd, offpolicy as op
    >>> from sklearn.dummy import DummyRegressor
    >>> from sklearn.model_selection import GridSearchCV
    >>> from offpolicy.evaluation.ranking import policy_scorer
    >>> rng = np.random.default_rng(0)
    >>> df = pd.DataFrame({"x": rng.normal(size=600), "a": rng.integers(2, size=600), "p": 0.5})
    >>> df["r"] = 1.0 * (df["a"] == (df["x"] > 0))
    >>> log = op.BanditLog.from_frame(df, context=["x"], action="a", reward="r", propensity="p")
    >>> model = PolicyLearner(log, reward_model=DummyRegressor())
    >>> search = GridSearchCV(model, {"max_depth": [0, 1]}, scoring=policy_scorer(log), cv=2)
    >>> search.fit(df[["x"]]).best_params_
    {'max_depth': 1}
    """

    def __init__(
        self,
        log: BanditLog,
        learner: Any = "tree",
        objective: str = "value",
        max_depth: int = 2,
        min_rows: int | None = None,
        reward_model: Any = None,
        seed: int = 0,
    ) -> None:
        self.log = log
        self.learner = learner
        self.objective = objective
        self.max_depth = max_depth
        self.min_rows = min_rows
        self.reward_model = reward_model
        self.seed = seed

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: FBT001, FBT002  (scikit-learn's)
        """The settings by name."""
        return {name: getattr(self, name) for name in SETTINGS}

    def set_params(self, **settings: Any) -> PolicyLearner:
        """Change settings."""
        for name, value in settings.items():
            if name not in SETTINGS:
                raise UsageError(f"PolicyLearner has no setting {name!r}.{did_you_mean(name, SETTINGS)}")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks of an estimator: no target is needed."""
        from sklearn.utils import Tags, TargetTags

        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def __sklearn_clone__(self) -> PolicyLearner:
        """A copy with the same settings and the same log, which is data and is not copied."""
        return type(self)(**self.get_params())

    def fit(self, X: Any, y: Any = None) -> PolicyLearner:
        """Learn from the rows of the log that X names by its index."""
        self.learned_: Learned = learn_policy(
            self.log.take(rows_in(self.log, X, "PolicyLearner")),
            self.learner,
            objective=self.objective,  # type: ignore[arg-type]
            max_depth=self.max_depth,
            min_rows=self.min_rows,
            reward_model=self.reward_model,
            seed=self.seed,
        )
        return self

    def fit_policy(self, log: BanditLog) -> Any:
        """The policy learned from a log, with these settings: what `offpolicy.policies.CrossFitted` asks for."""
        settings = {name: getattr(self, name) for name in SETTINGS if name != "log"}
        return learn_policy(log, **settings).policy

    def bind(self, actions: Any) -> Any:
        """Return the learned policy for these actions, in this order."""
        return self._fitted().bind(actions)

    def probabilities(self, context: Any) -> Floats:
        """(n, K) probabilities of the learned policy."""
        return self._fitted().probabilities(context)

    def predict(self, X: Any) -> Array:
        """(n,) labels of the actions it takes."""
        learned = self._fitted()
        labels: Array = np.array(learned.policy.labels, dtype=object)
        return np.asarray(labels[learned.probabilities(X).argmax(axis=1)])

    def _fitted(self) -> Learned:
        if not hasattr(self, "learned_"):
            raise UsageError("PolicyLearner is not fitted: call fit(X) with rows of the log's frame.")
        return self.learned_
