"""The default behavior model: shares, multinomial logits or boosted trees, whichever predicts held-out actions best.

Logits are of the columns, of their squares and products, or of splines and their products; each has a penalty from a
grid. Trees begin from the best of shares and logits, so that they have to find only what that leaves. Everything is
chosen by log-loss inside the training part, on at most `SELECTION_ROWS` rows, and fitted anew on all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from offpolicy.models.auto import best_of, downhill, mean_loss
from offpolicy.models.behavior.behavior import (
    BehaviorData,
    FittedBehavior,
    FittedClassifier,
    Shares,
    floor_at,
    share_of_unseen,
)
from offpolicy.models.fitting.encode import LinearDesign
from offpolicy.models.fitting.learners import quiet
from offpolicy.models.fitting.tables import TrainingRows, held_out
from offpolicy.models.rewards.boosted import PARAMETERS, has_lightgbm, lightgbm

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints

Form: TypeAlias = Literal["linear", "quadratic", "splines"]

SELECTION_ROWS = 20_000
TREE_ROWS = 200_000  # that trees are fitted on, at most
SMALL, DRAWS = 5_000, 3  # below so many units a choice takes the mean of several held-out parts
ROUNDS, PATIENCE = 400, 20
FEWEST = 200  # units from which on trees are tried
PENALTIES = (1 / 0.003, 100.0, 1 / 0.03, 10.0, 1 / 0.3, 1.0, 1 / 3, 0.1)  # C from 0.003 to 10
USUAL = PENALTIES.index(1.0)
WIDE = 3_000_000  # rows × actions up to which a grid is searched
KNOTS, CURVED_COLUMNS, CURVED_CELLS = (5, 600, 20_000_000)  # limits of tables of squares, splines and products
AT_ONCE = 20_000
TINY = 1e-9
MOST_ACTIONS = 30  # of trees, which are as many again for each action


def take(data: BehaviorData, part: TrainingRows) -> BehaviorData:
    """Chosen training rows."""
    batch = None if data.batch is None else data.batch[part.rows]
    X, action = data.X.rows(part.rows), data.action[part.rows]
    return BehaviorData(X, action, part.weight, data.n_actions, batch, part.count)


@dataclass(frozen=True)
class LogisticBehavior:
    """Multinomial logistic regression on one-hot and standardized context columns.

    Parameters
    ----------
    penalty : float
        Strength of the ridge penalty.
    form : {"linear", "quadratic", "splines"}
        Of the columns, of their squares and products as well, or of cubic splines of the numbers and the products of
        all.
    """

    penalty: float = 1.0
    form: Form = "linear"
    wants_encoded = True
    merges_rows = True

    def fit_behavior(self, data: BehaviorData, seed: int) -> FittedBehavior:
        """Fit on the training rows."""
        from sklearn.linear_model import LogisticRegression

        if len(np.unique(data.action)) == 1:
            return Shares(per_batch=False).fit_behavior(data, seed)
        design = _design(self.form, data)
        learner = LogisticRegression(C=1.0 / self.penalty, max_iter=200, tol=1e-4)
        with quiet():  # slow convergence only costs accuracy, which is validated
            learner.fit(design.transform(data.X), data.action, sample_weight=data.weight)
        return _Logit(learner, data.n_actions, share_of_unseen(data), design.transform)


def _design(form: Form, data: BehaviorData) -> Any:
    base = LinearDesign.learn(data.X, data.weight)
    return base if form == "linear" else _Curved.learn(base, form, data)


@dataclass(frozen=True, eq=False)
class _Logit(FittedClassifier):
    """A fitted logit, asked about some rows at a time: its table may be wide."""

    def predict(self, X: Any, batch: Ints | None) -> Floats:
        if len(X) <= AT_ONCE:
            return super().predict(X, batch)
        starts = range(0, len(X), AT_ONCE)
        parts = (X.rows(slice(start, start + AT_ONCE)) for start in starts)
        return np.concatenate([super(_Logit, self).predict(part, None) for part in parts])


@dataclass(frozen=True, eq=False)
class _Curved:
    """Squares or splines of the numbers of a design, and products of its columns, standardized."""

    base: LinearDesign
    splines: Any
    center: Floats
    scale: Floats

    @classmethod
    def learn(cls, base: LinearDesign, form: Form, data: BehaviorData) -> _Curved:
        from sklearn.preprocessing import SplineTransformer

        splines = None
        if form == "splines":
            numbers = base.transform(data.X).toarray()[:, : len(base.numeric)]
            splines = SplineTransformer(KNOTS, knots="quantile", extrapolation="linear", include_bias=False).fit(
                numbers, sample_weight=data.weight
            )
        raw = cls(base, splines, np.zeros(1), np.ones(1)).transform(data.X)
        mass = np.ones(len(raw)) if data.weight is None else data.weight
        center = mass @ raw / mass.sum()
        spread = np.sqrt(np.maximum(mass @ raw**2 / mass.sum() - center**2, 0.0))
        return cls(base, splines, center, np.where(spread > TINY, spread, 1.0))

    @staticmethod
    def width(base: LinearDesign, form: Form) -> int:
        """Columns of such a table."""
        numbers = len(base.numeric)
        if form == "quadratic":
            return base.width * (base.width + 1) // 2 + numbers
        own = numbers * (KNOTS + 1) + base.width - numbers
        return own * (own + 1) // 2

    def transform(self, X: Any) -> Floats:
        """(n, p) table."""
        table = self.base.transform(X).toarray()
        numbers = len(self.base.numeric)
        if self.splines is None:
            table = np.hstack([table, table[:, :numbers] ** 2])
            own = self.base.width
        else:
            table = np.hstack([self.splines.transform(table[:, :numbers]), table[:, numbers:]])
            own = table.shape[1]
        left, right = np.triu_indices(own, k=1)
        table = np.hstack([table, table[:, left] * table[:, right]])
        return np.asarray((table - self.center) / self.scale)


@dataclass(frozen=True)
class BoostedBehavior:
    """Trees that begin from another behavior model and add what it leaves.

    Parameters
    ----------
    start : behavior model
    rounds : int
        Number of trees per action.
    """

    start: Any
    rounds: int
    wants_encoded = True
    merges_rows = True

    def fit_behavior(self, data: BehaviorData, seed: int) -> FittedBehavior:
        """Fit the first model on all training rows, the trees on at most 200,000."""
        start = self.start.fit_behavior(data, seed)
        some = data
        if len(data.action) > TREE_ROWS:
            rows = np.sort(np.random.default_rng(seed).permutation(len(data.action))[:TREE_ROWS])
            weight = None if data.weight is None else data.weight[rows]
            some = take(data, TrainingRows(rows, weight, None if data.count is None else data.count[rows]))
        model = lightgbm().train(_parameters(data, seed), _dataset(some, start), self.rounds)
        return _Boosted(start, model, start.floor)


@dataclass(frozen=True, eq=False)
class _Boosted:
    start: FittedBehavior
    model: Any
    floor: float | Floats

    def predict(self, X: Any, batch: Ints | None) -> Floats:
        return _added(_logits(self.start, X, batch), self.model.predict(X.matrix, raw_score=True))


def _logits(start: FittedBehavior, X: Any, batch: Ints | None) -> Floats:
    """(m, K) logarithms of the first model's probabilities."""
    floor = np.reshape(floor_at(start, batch), (-1, 1))
    return np.log(np.maximum(start.predict(X, batch), floor))


def _added(logits: Floats, scores: Any) -> Floats:
    """Probabilities of the first model's logarithms and what the trees add to them."""
    if logits.shape[1] == 2:
        z = logits + np.column_stack([np.zeros(len(logits)), np.asarray(scores)])
    else:
        z = logits + np.asarray(scores)
    z = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(z / z.sum(axis=1, keepdims=True))


def _parameters(data: BehaviorData, seed: int) -> dict[str, Any]:
    several = {"objective": "multiclass", "num_class": data.n_actions}
    return {
        **PARAMETERS,
        **({"objective": "binary"} if data.n_actions == 2 else several),
        "num_leaves": 8,
        "learning_rate": 0.05,
        "bagging_fraction": 0.7,
        "bagging_freq": 1,
        "min_sum_hessian_in_leaf": 5.0,
        "boost_from_average": False,
        "num_threads": 1,
        "seed": seed % 2**31,
    }


def _dataset(data: BehaviorData, start: FittedBehavior, reference: Any = None) -> Any:
    logits = _logits(start, data.X, data.batch)
    score = logits[:, 1] - logits[:, 0] if data.n_actions == 2 else logits
    return lightgbm().Dataset(
        data.X.matrix,
        label=data.action,
        weight=data.weight,
        init_score=score,
        categorical_feature=list(data.X.categorical),
        reference=reference,
        params=_parameters(data, 0),
    )


@dataclass(frozen=True)
class AutoBehavior:
    """The behavior model of the smallest held-out log-loss inside the training part.

    Parameters
    ----------
    validation : float
        Share of the training rows (at most 20,000 are used) on which candidates are compared.
    regression : behavior model, optional
        What is compared with shares in place of logits of several penalties and trees.
    """

    validation: float = 0.3
    regression: Any = None
    wants_encoded = True
    merges_rows = True

    def fit_behavior(self, data: BehaviorData, seed: int) -> FittedBehavior:
        """Compare on validation parts, refit the winner on all training rows."""
        if data.size < 20 or data.X.matrix.shape[1] == 0 or len(np.unique(data.action)) == 1:
            return Shares().fit_behavior(data, seed)
        fit: FittedBehavior = self._chosen(data, seed).fit_behavior(data, seed)
        return fit

    def _chosen(self, data: BehaviorData, seed: int) -> Any:
        # Several draws only where the choice is among many: the two of an agent that explores are far apart.
        draws = DRAWS if data.size < SMALL and self.regression is None else 1
        parts = [self._parts(data, seed + draw) for draw in range(draws)]

        def loss(model: Any) -> float:
            return float(np.mean([_loss(model.fit_behavior(t, seed), h) for h, t in parts]))

        if self.regression is not None:
            return best_of((Shares(), self.regression), loss)[0]
        if min(len(data.action), SELECTION_ROWS) * data.n_actions > WIDE:
            return best_of((Shares(), LogisticBehavior()), loss)[0]
        forms, first = forms_of(data), _best_logit("linear", parts)
        plain = best_of([(Shares(), loss(Shares())), first], itemgetter(1))[0]
        found = [plain]
        trees = data.size >= FEWEST and data.n_actions <= MOST_ACTIONS and has_lightgbm()
        if trees:
            found += [_with_trees(start, parts, seed) for start in dict.fromkeys([Shares(), plain[0]])]
        # What is richer is tried where something a little richer was better: splines cost most.
        for form in forms[1:]:
            if form == "quadratic" or best_of(found, itemgetter(1))[0] is not plain:
                found.append(_best_logit(form, parts))
        best = best_of(found, itemgetter(1))[0]
        if trees and isinstance(best[0], LogisticBehavior) and best is not plain:
            found.append(_with_trees(best[0], parts, seed))
        return best_of(found, itemgetter(1))[0][0]

    def _parts(self, data: BehaviorData, seed: int) -> tuple[BehaviorData, BehaviorData]:
        """A validation part, and the rest."""
        held, rest = held_out(
            len(data.action), data.weight, data.count, share=self.validation, seed=seed, limit=SELECTION_ROWS
        )
        return take(data, held), take(data, rest)


def _best_logit(form: Form, parts: list[tuple[BehaviorData, BehaviorData]]) -> tuple[LogisticBehavior, float]:
    """The logit of the best penalty, and its loss; every table is made once, and each fit begins from the last."""
    from sklearn.linear_model import LogisticRegression

    trials = []
    for held, train in parts:
        design = _design(form, train)
        learner = LogisticRegression(max_iter=200, tol=1e-4, warm_start=True)
        read = _Ready(design.transform(train.X), design.transform(held.X))
        trials.append((learner, read, held, train))

    def loss(model: LogisticBehavior, some: int | None = None) -> float:
        losses = []
        for learner, read, held, train in trials[:some]:
            with quiet():
                learner.set_params(C=1.0 / model.penalty).fit(read.train, train.action, sample_weight=train.weight)
            fit = FittedClassifier(learner, held.n_actions, share_of_unseen(train), lambda X: X)
            losses.append(_loss(fit, held, read.held))
        return float(np.mean(losses))

    if any(len(np.unique(train.action)) == 1 for _, train in parts):
        return LogisticBehavior(), np.inf
    if form == "linear":
        return downhill([LogisticBehavior(each, form) for each in PENALTIES], USUAL, loss)
    # Wide tables need more of a penalty, and cost more: a coarser grid, on one of the parts.
    found, _ = downhill([LogisticBehavior(each, form) for each in PENALTIES[1::2]], 1, lambda m: loss(m, 1))
    return found, loss(found)


class _Ready(NamedTuple):
    """Tables of a training part and of what it is judged by."""

    train: Any
    held: Any


def forms_of(data: BehaviorData) -> list[Form]:
    """Logits to choose among: those with squares, splines and products where their tables are not too large."""
    base = LinearDesign.learn(data.X, data.weight)
    curved: list[Form] = ["quadratic", "splines"] if base.numeric else ["quadratic"]
    widths = {form: _Curved.width(base, form) for form in curved if base.width > 1 or base.numeric}
    most = min(CURVED_COLUMNS, CURVED_CELLS // max(len(data.action), 1))
    return ["linear", *(form for form, width in widths.items() if width <= most)]


def _with_trees(start: Any, parts: list[tuple[BehaviorData, BehaviorData]], seed: int) -> tuple[BoostedBehavior, float]:
    """Trees on a model, as many as the held-out parts like together, and their loss."""
    curves = [_curve(start, held, train, seed) for held, train in parts]
    length = min(len(curve) for curve in curves)
    losses = np.mean([curve[:length] for curve in curves], axis=0)
    rounds = int(losses.argmin())
    return BoostedBehavior(start, rounds + 1), float(losses[rounds])


def _curve(plain: Any, held: BehaviorData, train: BehaviorData, seed: int) -> Floats:
    """Held-out log-loss after each round."""
    start = plain.fit_behavior(train, seed)
    data = _dataset(train, start)
    seen: dict[str, Any] = {}
    lgb = lightgbm()
    lgb.train(
        {**_parameters(train, seed), "metric": "binary_logloss" if train.n_actions == 2 else "multi_logloss"},
        data,
        ROUNDS,
        valid_sets=[_dataset(held, start, data)],
        valid_names=["held"],
        callbacks=[lgb.record_evaluation(seen), lgb.early_stopping(PATIENCE, verbose=False)],
    )
    return np.asarray(next(iter(seen["held"].values())))


def _loss(model: FittedBehavior, held: BehaviorData, table: Any = None) -> float:
    """Mean log-loss of the logged actions."""
    X = held.X if table is None else table
    p = model.predict(X, held.batch)[np.arange(len(held.action)), held.action]
    return mean_loss(-np.log(np.maximum(p, floor_at(model, held.batch))), held.weight)
