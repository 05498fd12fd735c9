"""Learners of other libraries, for `offpolicy.replay`: Vowpal Wabbit, river and MABWiser."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.decide.online.own import Labels, check_share, codes_of, explored, greedy, table_of
from offpolicy.errors import UsageError, missing_dependency
from offpolicy.logs.frame import is_frame
from offpolicy.policies.distribution import one_hot, uniform
from offpolicy.policies.protocol import bound, n_rows

if TYPE_CHECKING:
    from offpolicy._arrays import Floats


def _records(context: Any) -> list[dict[str, Any]]:
    """Rows as mappings from a column's name to its value."""
    if is_frame(context):
        return list(table_of(context).to_dict("records"))
    table = table_of(context)
    return [{f"x{j}": float(v) for j, v in enumerate(row)} for row in table]


@checks_arguments
@dataclass
class VowpalWabbit:
    """A Vowpal Wabbit workspace with action-dependent features (``--cb_explore_adf``).

    Parameters
    ----------
    arguments : str
        As on VW's command line; the exploration algorithm is part of it.

    Notes
    -----
    Rewards become costs, −reward. Numbers are features with a value, anything else is a feature by its name and value.
    """

    arguments: str = "--cb_explore_adf --epsilon 0.1 -q sa --quiet"
    actions: Labels | None = field(default=None, kw_only=True, repr=False)
    workspace: Any = field(default=None, kw_only=True, repr=False)

    def bind(self, actions: Labels) -> VowpalWabbit:
        """Return the learner for these actions, in this order."""
        self.actions = tuple(actions)
        return self

    def _open(self) -> Any:
        if self.workspace is None:
            try:
                import vowpalwabbit
            except ImportError as error:
                raise missing_dependency("vowpalwabbit", None, "op.learners.VowpalWabbit") from error
            self.workspace = vowpalwabbit.Workspace(self.arguments)
        return self.workspace

    def frozen(self) -> VowpalWabbit:
        """A workspace of its own with the weights of this moment."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "weights.vw"
            self._open().save(str(path))
            workspace = type(self.workspace)(f"{self.arguments} -i {path} -t")
        return VowpalWabbit(self.arguments, actions=self.actions, workspace=workspace)

    def _lines(self, row: dict[str, Any], label: str = "", taken: int = -1) -> list[str]:
        shared = " ".join(
            f"{_token(name)}:{float(value)}"
            if isinstance(value, int | float | np.number)
            else f"{_token(name)}={_token(value)}"
            for name, value in row.items()
        )
        arms = [
            f"{label if code == taken else ''} |a arm={code}".strip() for code in range(len(bound(self.actions, self)))
        ]
        return [f"shared |s {shared}", *arms]

    def probabilities(self, context: Any) -> Floats:
        """What VW's exploration would draw from, action by action."""
        workspace, k = self._open(), len(bound(self.actions, self))
        out = np.empty((n_rows(context), k))
        for i, row in enumerate(_records(context)):
            out[i] = workspace.predict(self._lines(row))
        return np.asarray(out / out.sum(axis=1, keepdims=True))  # VW computes in single precision

    def update(self, context: Any, action: Any, reward: Any, propensity: Any) -> None:
        """Learn from each decision in turn."""
        if propensity is None:
            raise UsageError("VowpalWabbit needs propensities, but this log has none.")
        workspace = self._open()
        codes = codes_of(action, bound(self.actions, self))
        for row, code, r, p in zip(_records(context), codes, reward, propensity, strict=True):
            workspace.learn(self._lines(row, f"{code}:{-float(r)}:{float(p)}", int(code)))


def _token(value: Any) -> str:
    """A name that VW's text format can hold."""
    return "".join("_" if c in " |:\t\n\r" else c for c in str(value))


@checks_arguments
@dataclass
class River:
    """A river regressor or classifier for each action, learned one row at a time, with ε-greedy choice.

    Parameters
    ----------
    model : river model
        With ``learn_one`` and ``predict_one`` (of a binary classifier ``predict_proba_one``).
    epsilon : float
        Share of decisions drawn uniformly.
    """

    model: Any
    epsilon: float = 0.1
    actions: Labels | None = field(default=None, kw_only=True, repr=False)
    models: list[Any] = field(default_factory=list, kw_only=True, repr=False)

    def __post_init__(self) -> None:
        check_share(self, "epsilon")
        if not hasattr(self.model, "learn_one"):
            raise UsageError(f"River takes a model with learn_one. Got {type(self.model).__name__} instead.")

    def bind(self, actions: Labels) -> River:
        """Return the learner for these actions, in this order."""
        self.actions = tuple(actions)
        self.models = [self.model.clone() for _ in actions]
        return self

    def probabilities(self, context: Any) -> Floats:
        """(1 − ε)·1{a is predicted best} + ε/K."""
        bound(self.actions, self)
        rows = _records(context)
        predicted = np.array([[self._mean(model, row) for model in self.models] for row in rows])
        return explored(greedy(predicted, None), self.epsilon, None)

    def update(self, context: Any, action: Any, reward: Any, propensity: Any = None) -> None:
        """Learn from each decision in turn."""
        codes = codes_of(action, bound(self.actions, self))
        for row, code, r in zip(_records(context), codes, reward, strict=True):
            self.models[code].learn_one(row, bool(r) if self._classifies else float(r))

    @property
    def _classifies(self) -> bool:
        from river.base import Classifier

        steps = getattr(self.model, "steps", None)  # a pipeline is what its last step is
        return isinstance(list(steps.values())[-1] if steps else self.model, Classifier)

    def _mean(self, model: Any, row: dict[str, Any]) -> float:
        if self._classifies:
            return float(model.predict_proba_one(row).get(True, 0.0))
        return float(model.predict_one(row))


@checks_arguments
@dataclass
class MABWiser:
    """A MABWiser bandit: the arm with the largest expectation, or shares of draws for policies that draw.

    Parameters
    ----------
    mab : mabwiser.mab.MAB
        Not fitted; its arms are the log's actions.
    draws : int
        0 takes the arm with the largest expectation. For policies that draw (Thompson sampling), how often to ask:
        probabilities are shares of the draws, and an action that is never drawn has 0.
    """

    mab: Any
    draws: int = 0
    actions: Labels | None = field(default=None, kw_only=True, repr=False)
    is_fitted: bool = field(default=False, kw_only=True, repr=False)

    def bind(self, actions: Labels) -> MABWiser:
        """Return the learner for these actions, in this order."""
        if set(self.mab.arms) != set(actions):
            raise UsageError(
                f"the arms of the MABWiser bandit are {list(self.mab.arms)[:5]}, but the log has {list(actions)[:5]}. "
                "Build it with MAB(arms=list(log.actions), …)."
            )
        self.actions = tuple(actions)
        return self

    @property
    def _reads_context(self) -> bool:
        return bool(self.mab.is_contextual)

    def probabilities(self, context: Any) -> Floats:
        """Of the actions, in the order of the log; uniform before the first update."""
        actions, n = bound(self.actions, self), n_rows(context)
        if not self.is_fitted:
            return np.asarray(uniform(n, len(actions), None))
        table = np.asarray(table_of(context), dtype=np.float64)
        given = (table,) if self._reads_context else ()
        if self.draws:
            drawn = [self._labels(self.mab.predict(*given), n) for _ in range(self.draws)]
            shares = [one_hot(codes_of(d, actions), len(actions)) for d in drawn]
            return np.asarray(np.mean(shares, axis=0))
        expected = self.mab.predict_expectations(*given)
        rows = expected if isinstance(expected, list) else [expected] * n
        return greedy(np.array([[row[a] for a in actions] for row in rows], dtype=np.float64), None)

    def _labels(self, predicted: Any, n: int) -> list[Any]:
        return list(predicted) if isinstance(predicted, list) else [predicted] * n

    def update(self, context: Any, action: Any, reward: Any, propensity: Any = None) -> None:
        """Learn from n decisions."""
        contexts = np.asarray(table_of(context), dtype=np.float64) if self._reads_context else None
        learn = self.mab.partial_fit if self.is_fitted else self.mab.fit
        learn(decisions=list(action), rewards=np.asarray(reward), contexts=contexts)
        self.is_fitted = True
