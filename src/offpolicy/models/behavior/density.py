"""Conditional densities of actions that are numbers, for logs without them.

A density model has ``fit_density(data, seed)`` and gives something with ``density(X, action) -> (m,)``. The default
compares, on a held-out part of the training rows and by log-likelihood, the density of the actions without a look at
the context with location-scale models a = m(x) + s(x) ε, with m and s linear or boosted, s constant or not, and ε
normal or with a kernel density of its own. The winner is fitted to all training rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import ModelError
from offpolicy.models.auto import best_of, mean_loss, resolved
from offpolicy.models.fitting.encode import LinearDesign
from offpolicy.models.fitting.learners import fitted, is_classifier, is_learner, learner_input, one_each
from offpolicy.models.fitting.tables import held_out

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Floats

CELLS = 512  # of the grid that a kernel density is kept on
TAIL = 1e-4  # share of a normal density in a kernel density, so that no logged action is impossible
SELECTION_ROWS = 60_000
SMALL = 400


@dataclass(frozen=True, eq=False)
class DensityData:
    """Training rows of a density model."""

    X: Any
    action: Floats
    weight: Floats | None
    span: tuple[float, float]

    def part(self, rows: Any, weight: Floats | None) -> DensityData:
        """Some of the rows."""
        X = self.X.iloc[rows] if hasattr(self.X, "iloc") else _taken(self.X, rows)
        return DensityData(X, self.action[rows], weight, self.span)


def _taken(X: Any, rows: Any) -> Any:
    return X.rows(rows) if hasattr(X, "rows") else X[rows]


class FittedDensity(Protocol):
    """The density of one training set."""

    def density(self, X: Any, action: Floats) -> Floats:
        """(m,) density of the actions in rows of the learner table."""
        ...


class DensityModel(Protocol):
    """Anything that can be fitted to (context, action) where actions are numbers."""

    def fit_density(self, data: DensityData, seed: int) -> FittedDensity:
        """Fit on the training rows."""
        ...


# -- the density of residuals ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Shape:
    """A density on a grid, linear in between, with a little of a normal one beneath it."""

    low: float
    step: float
    values: Floats
    center: float
    spread: float

    def __call__(self, u: Floats) -> Floats:
        place = (u - self.low) / self.step
        inside = np.interp(place, np.arange(len(self.values)), self.values, left=0.0, right=0.0)
        wide = (u - self.center) / (3 * self.spread)
        normal = np.exp(-wide * wide / 2) / (math.sqrt(2 * math.pi) * 3 * self.spread)
        return np.asarray((1 - TAIL) * inside + TAIL * normal)


def kernel_shape(u: Floats, weight: Floats | None, ends: tuple[float, float] | None = None) -> _Shape:
    """Kernel density of numbers (Silverman's bandwidth), binned; what reaches over the ``ends`` is folded back."""
    mass = np.ones(len(u)) if weight is None else weight
    center = float(np.average(u, weights=mass))
    spread = float(np.sqrt(np.average((u - center) ** 2, weights=mass))) or 1.0
    size = float(mass.sum() ** 2 / (mass @ mass))
    q = np.quantile(u, (0.25, 0.75))
    width = 0.9 * min(spread, float(q[1] - q[0]) / 1.349 or spread) * size**-0.2
    margin = 4 * width
    low, high = (float(u.min()) - margin, float(u.max()) + margin) if ends is None else ends
    step = (high - low) / CELLS
    counts = np.bincount(np.clip(((u - low) / step).astype(np.int64), 0, CELLS - 1), weights=mass, minlength=CELLS)
    reach = math.ceil(margin / step)
    if ends is not None:
        reach = min(reach, CELLS)
        counts = np.concatenate([counts[:reach][::-1], counts, counts[CELLS - reach :][::-1]])
    at = np.arange(-reach, reach + 1) * step / width
    kernel = np.exp(-at * at / 2)
    values = np.convolve(counts, kernel / kernel.sum(), mode="same")
    if ends is not None:
        values = values[reach : reach + CELLS]
    values = values / (values.sum() * step)
    return _Shape(low + step / 2, step, values, center, spread)


def normal_shape(u: Floats) -> Floats:
    """The standard normal density."""
    return np.asarray(np.exp(-u * u / 2) / math.sqrt(2 * math.pi))


# -- models ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class MarginalDensity:
    """The density of the actions, whatever the context: a kernel density, folded at the ends of the range."""

    wants_encoded = True

    def fit_density(self, data: DensityData, seed: int) -> FittedDensity:
        """Fit on the training rows."""
        return _Marginal(kernel_shape(data.action, data.weight, data.span), "MarginalDensity")


@dataclass(frozen=True, eq=False)
class _Marginal:
    shape: _Shape
    choice: str

    def density(self, X: Any, action: Floats) -> Floats:
        return self.shape(action)


@checks_arguments
@dataclass(frozen=True, eq=False)
class LocationScale:
    """a = m(x) + s(x) ε: any regressor for m and, unless ``constant_scale``, for s; ε normal or a kernel density.

    Parameters
    ----------
    learner : regressor, "ridge" or "trees"
        Of the location, and of log |a − m(x)| for the scale.
    constant_scale : bool
        Whether s is one number.
    shape : {"kernel", "normal"}
        Density of the residuals.
    """

    learner: Any = "ridge"
    constant_scale: bool = True
    shape: str = "kernel"

    @property
    def wants_encoded(self) -> bool:
        """Whether it reads the encoded table: the built-in learners do."""
        return isinstance(self.learner, str)

    def fit_density(self, data: DensityData, seed: int) -> FittedDensity:
        """Fit location, scale and shape on the training rows."""
        location = _Mean.fit(self.learner, data, data.action, seed)
        left = data.action - location.predict(data.X)
        spread = float(np.sqrt(np.average(left**2, weights=data.weight)))
        if not spread > 0:
            raise ModelError(
                "the context determines the action, so no density can be fitted. Log the density, or leave the column "
                "out."
            )
        scale = None
        if not self.constant_scale:
            small = 1e-3 * spread
            scale = _Mean.fit(self.learner, data, np.log(np.abs(left) + small), seed + 1)
            size = np.exp(scale.predict(data.X))
            factor = float(np.sqrt(np.average((left / size) ** 2, weights=data.weight)))
            left, spread = left / (size * factor), factor
        else:
            left = left / spread
        shape = kernel_shape(left, data.weight) if self.shape == "kernel" else normal_shape
        return _LocationScale(location, scale, spread, shape, data.span, self.name)

    @property
    def name(self) -> str:
        """What it is, for settings and notes."""
        own = isinstance(self.learner, str)
        learner = self.learner if own else type(self.learner).__name__
        scale = "constant" if self.constant_scale else "by context"
        return f"LocationScale({learner}, scale {scale}, {self.shape})"


@dataclass(frozen=True, eq=False)
class _Mean:
    """A fitted regressor, and how a table becomes what it reads."""

    model: Any
    table: Callable[[Any], Any]

    @classmethod
    def fit(cls, learner: Any, data: DensityData, y: Floats, seed: int) -> _Mean:
        if not isinstance(learner, str):
            table = partial(learner_input, learner=learner)
            return cls(fitted(learner, table(data.X), y, data.weight, seed), table)
        if learner == "trees":
            from sklearn.ensemble import HistGradientBoostingRegressor

            trees = HistGradientBoostingRegressor(max_leaf_nodes=15, random_state=0, early_stopping=False)
            return cls(trees.fit(data.X.matrix, y, sample_weight=data.weight), attrgetter("matrix"))
        from sklearn.linear_model import Ridge

        design = LinearDesign.learn(data.X, data.weight)
        ridge = Ridge(alpha=1.0).fit(design.transform(data.X), y, sample_weight=data.weight)
        return cls(ridge, design.transform)

    def predict(self, X: Any) -> Floats:
        table = self.table(X)
        return one_each(self.model.predict(table), table.shape[0], self.model)


@dataclass(frozen=True, eq=False)
class _LocationScale:
    location: _Mean
    scale: _Mean | None
    spread: float
    shape: Any
    span: tuple[float, float]
    choice: str

    def density(self, X: Any, action: Floats) -> Floats:
        size: Any = self.spread
        if self.scale is not None:
            size = self.spread * np.exp(self.scale.predict(X))
        return np.asarray(self.shape((action - self.location.predict(X)) / size) / size)


@dataclass(frozen=True)
class AutoDensity:
    """Choose among densities by the log-likelihood of a held-out part of the training rows.

    Parameters
    ----------
    validation : float
        Share of the training rows (at most 60,000 are used) on which candidates are compared.
    """

    validation: float = 0.3
    wants_encoded = True

    def fit_density(self, data: DensityData, seed: int) -> FittedDensity:
        """Compare, then fit the winner to all training rows."""
        parts = held_out(len(data.action), data.weight, None, share=self.validation, seed=seed, limit=SELECTION_ROWS)
        held, train = (data.part(p.rows, p.weight) for p in parts)

        def loss(candidate: DensityModel) -> float:
            with np.errstate(divide="ignore"):
                return mean_loss(-np.log(candidate.fit_density(train, seed).density(held.X, held.action)), held.weight)

        return best_of(self._candidates(len(data.action)), loss)[0].fit_density(data, seed)

    def _candidates(self, n: int) -> list[DensityModel]:
        models: list[DensityModel] = [MarginalDensity()]
        models += [
            LocationScale("ridge", constant, shape) for constant in (True, False) for shape in ("normal", "kernel")
        ]
        if n >= SMALL:
            models += [LocationScale("trees", constant) for constant in (True, False)]
        return models


def as_density_model(spec: Any) -> DensityModel:
    """Resolve ``behavior_model=`` of a log whose actions are numbers."""
    words = {"auto": AutoDensity, "shares": MarginalDensity}
    model: DensityModel | None = resolved("behavior_model=", "auto" if spec is None else spec, "fit_density", words)
    if model is not None:
        return model
    if is_learner(spec) and not is_classifier(spec):
        return LocationScale(spec)
    raise ModelError(
        f"behavior_model= of actions that are numbers must be 'auto', a regressor (whose residuals get a density), an "
        f"object with fit_density(data, seed), an (n,) array of densities, or None. Got {spec!r} instead."
    )
