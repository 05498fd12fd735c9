"""Linear policies fitted to these very rows, and whether a policy is nearer to one of them than chance allows.

A regression of the rewards of each action on these rows, θ̂, is the truth θ and noise of this log. A policy that knows
nothing of that noise is at least as far from the greedy policy of θ̂ as θ itself is: a region around θ̂ is most likely
to hold θ when it lies around θ (Anderson's inequality). How far θ is from θ̂ the covariance of θ̂ tells, by policies of
θ̂ + noise. A policy that was fitted to these rows is nearer than any of them. Where a fit leaves something out, its
residuals are more than noise, and a policy that knows better may be somewhat nearer too: only a quarter of the usual
distance counts as near.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special

from offpolicy.models.fitting.encode import LinearDesign

if TYPE_CHECKING:
    from collections.abc import Iterator

    from offpolicy._arrays import Floats, Ints
    from offpolicy.models.fitting.encode import Encoded

DRAWS = 100
MOST_ASKED = 2_000  # contexts in which choices are compared
WIDEST, WIDEST_CURVED = 250, 90  # columns of a linear table, and of one with squares and products
MOST_CELLS = 1_000_000  # columns² × actions
MOST_ACTIONS = 50
PENALTIES = (0.001, 1.0, 50.0)
FREE = 1e-6  # penalty of the constant
NEAR = 0.25  # share of the usual distance beyond which a policy is not called near, however unlikely
STEPS = 8
LINEAR = "linear fit"
FEWEST = 20  # values of a column from which on a table by it is tried
TINY = 1e-12


class Rows(NamedTuple):
    """Decisions that policies are fitted to: context (by its place), action, reward, mass and 1 / π_b of each."""

    context: Ints
    action: Ints
    reward: Floats
    mass: Floats
    weight: Floats


@dataclass(frozen=True)
class Nearness:
    """How near a policy is to one that was fitted to these rows.

    Attributes
    ----------
    z : float
        Standard normal quantile of the chance to be as near by luck, negated; adjusted for the fits tried.
    apart : float
        Share of the contexts in which both choose differently.
    usual : float
        The same of the truth, as far as the noise of the fit tells.
    form : str
        Of the fit, in words.
    """

    z: float = 0.0
    apart: float = 1.0
    usual: float = 1.0
    form: str = ""


def nearest(table: Encoded, rows: Rows, best: Ints, n_actions: int) -> Nearness:
    """The fit that a policy is nearest to.

    Parameters
    ----------
    table : Encoded
        The contexts, in an order that has nothing to do with them.
    rows : Rows
    best : (m,) int array
        The likeliest action of the policy in each context.
    n_actions : int

    Examples
    --------
    >>> from offpolicy.models.fitting.encode import encode_table
    >>> rng = np.random.default_rng(0)
    >>> x, a, r = rng.normal(size=(2000, 4)), rng.integers(2, size=2000), rng.normal(size=2000)
    >>> z = np.column_stack([np.ones(2000), x])
    >>> fits = [np.linalg.lstsq(z[half], r[half])[0] for half in (a == 1, a == 0)]
    >>> own = (z @ (fits[0] - fits[1]) > 0).astype(int)
    >>> rows = Rows(np.arange(2000), a, r, np.ones(2000), np.full(2000, 2.0))
    >>> nearest(encode_table(x), rows, own, 2).z > 4, nearest(encode_table(x), rows, (x[:, 0] > 0) * 1, 2).z < 3
    (True, True)
    """
    asked = slice(MOST_ASKED)
    if len(np.unique(best[asked])) == 1 or n_actions > MOST_ACTIONS:
        return Nearness()
    found: list[tuple[float, float, float, str]] = []
    tried = 0
    for form, policies in _fits(table, rows, n_actions):
        tried += 1
        apart = float(np.mean(policies[0] != best[asked]))
        usual = np.mean(policies[1:] != policies[0], axis=-1)
        middle = float(np.median(usual))
        if apart <= NEAR * middle:
            found.append((_tail(apart, usual, len(policies[0])), apart, middle, form))
    if not found:
        return Nearness()
    chance, apart, middle, form = min(found)
    z = -float(special.ndtri(min(1.0, max(tried * chance, 1e-300))))
    return Nearness(max(0.0, z), apart, middle, form)


def _tail(apart: float, usual: Floats, size: int) -> float:
    """The chance that a share is as small: squared shares as a gamma distribution of the same mean and variance."""
    squares = np.square(usual)
    mean, spread = float(squares.mean()), float(squares.var())
    if mean < TINY or spread < TINY * mean:
        return 1.0
    shape = mean * mean / spread
    return float(special.gammainc(shape, shape * max(apart, 0.5 / size) ** 2 / mean))


def _fits(table: Encoded, rows: Rows, k: int) -> Iterator[tuple[str, Ints]]:
    """Words for each fit, and the choices in the contexts asked about: (1 + draws, m), those of the fit first."""
    rng = np.random.default_rng(0)
    binary = bool(np.isin(rows.reward, (0.0, 1.0)).all())
    for form, design, scale in _designs(table):
        if design.shape[1] ** 2 * k > MOST_CELLS:
            continue
        forms = [(form, _Ridge(scale, weighted=weighted)) for weighted in (False, True)]
        if binary and form == LINEAR:
            forms.append(("logistic fit", _Logistic(scale)))
        for words, learner in forms:
            for scores in _scores(design, rows, k, learner, rng):
                yield words, scores.argmax(axis=-1)
                yield words, scores.argmin(axis=-1)
    for j in _groups(table):
        scores = _by_group(table.matrix[:, j], rows, k, rng)
        for chosen in (scores.argmax(axis=-1), scores.argmin(axis=-1)):
            yield "table of means by one column", chosen


def _designs(table: Encoded) -> Iterator[tuple[str, Floats, Floats]]:
    """Tables to fit to (all columns, numbers alone, squares and products) and the scales that columns had."""
    whole = LinearDesign.learn(table)
    if whole.width > WIDEST:
        return
    linear = whole.transform(table).toarray()
    numbers = len(whole.numeric)
    scale = np.append(whole.scale, np.ones(whole.width - numbers))
    yield LINEAR, _with_one(linear), scale
    if 0 < numbers < whole.width:
        yield LINEAR, _with_one(linear[:, :numbers]), scale[:numbers]
    left, right = np.triu_indices(linear.shape[1])
    if 0 < len(left) <= WIDEST_CURVED:
        products = linear[:, left] * linear[:, right]
        spread = products.std(axis=0)
        products /= np.where(spread > 0, spread, 1.0)
        curved = np.append(scale, scale[left] * scale[right] * np.where(spread > 0, spread, 1.0))
        yield "fit with squares and products", _with_one(np.hstack([linear, products])), curved


def _with_one(columns: Floats) -> Floats:
    return np.hstack([np.ones((len(columns), 1)), columns])


@dataclass(frozen=True, eq=False)
class _Ridge:
    """Regressions of the rewards of the rows with an action or, weighted, of 1{A = a} R / π_b over all rows."""

    scale: Floats
    weighted: bool = False

    @property
    def penalties(self) -> tuple[Floats, ...]:
        """Of columns of unit variance, and of columns as they came."""
        return (*(np.full(len(self.scale), each) for each in PENALTIES), np.square(1.0 / self.scale))

    def rows(self, rows: Rows, a: int) -> tuple[Ints, Floats, Floats]:
        """Contexts, goals and masses to learn an action's rewards from."""
        mine = rows.action == a
        if self.weighted:
            return rows.context, np.where(mine, rows.reward * rows.weight, 0.0), rows.mass
        return rows.context[mine], rows.reward[mine], rows.mass[mine]

    def fit(self, z: Floats, goal: Floats, mass: Floats, penalty: Floats) -> tuple[Floats, Floats]:
        """Coefficients, and a root of their covariance."""
        inverse: Floats = _inverse(z, mass, np.append(FREE, penalty))
        center = inverse @ (z.T @ (mass * goal))
        return center, _spread(z, inverse, mass, goal - z @ center, mass)


@dataclass(frozen=True, eq=False)
class _Logistic(_Ridge):
    """Logistic regressions of rewards that are 0 or 1."""

    @property
    def penalties(self) -> tuple[Floats, ...]:
        """Of columns of unit variance, and of columns as they came."""
        return (np.ones(len(self.scale)), np.square(1.0 / self.scale))

    def fit(self, z: Floats, goal: Floats, mass: Floats, penalty: Floats) -> tuple[Floats, Floats]:
        """Newton's steps, none longer than a few units of the logit."""
        full = np.append(FREE, penalty)
        center = np.zeros(z.shape[1])
        for _ in range(STEPS):
            p = np.asarray(special.expit(z @ center), dtype=np.float64)
            curve: Floats = mass * np.maximum(p * (1 - p), 1e-6)
            inverse: Floats = _inverse(z, curve, full)
            step = inverse @ (z.T @ (mass * (goal - p)) - full * center)
            center = center + step * min(1.0, 3.0 / max(float(np.abs(z @ step).max(initial=0.0)), TINY))
        return center, _spread(z, inverse, mass, goal - special.expit(z @ center), curve)


def _scores(design: Floats, rows: Rows, k: int, learner: _Ridge, rng: np.random.Generator) -> Floats:
    """(penalties, 1 + draws, m, K) predictions of each action by regressions, and by these with noise."""
    asked = design[:MOST_ASKED]
    out = np.zeros((len(learner.penalties), 1 + DRAWS, len(asked), k))
    for a in range(k):
        context, goal, mass = learner.rows(rows, a)
        for which, penalty in enumerate(learner.penalties):
            center, root = learner.fit(design[context], goal, mass, penalty)
            drawn = center + rng.normal(size=(DRAWS, len(center))) @ root.T
            out[which, ..., a] = np.vstack([center, drawn]) @ asked.T
    return out


def _spread(z: Floats, inverse: Floats, mass: Floats, off: Floats, curve: Floats) -> Floats:
    """A root of the covariance of coefficients; residuals are as large as they are without the pull of their rows."""
    own = curve * np.einsum("ij,jk,ik->i", z, inverse, z, optimize=True)
    off = mass * off / np.sqrt(np.maximum(1 - own, 0.1))
    return np.asarray(inverse @ _root((z * np.square(off)[:, None]).T @ z))


def _inverse(z: Floats, weight: Floats, penalty: Floats) -> Floats:
    return np.asarray(np.linalg.inv((z * weight[:, None]).T @ z + np.diag(penalty)), dtype=np.float64)


def _root(square: Floats) -> Floats:
    """A matrix whose product with its transpose is this one."""
    values, vectors = np.linalg.eigh(square)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def _groups(table: Encoded) -> list[int]:
    """Columns of levels or whole numbers whose values repeat, and are many."""
    out = []
    for j, column in enumerate(table.matrix.T):
        known = column[np.isfinite(column)]
        if (j in table.categorical or bool((known % 1 == 0).all())) and FEWEST <= len(np.unique(known)) <= len(
            column
        ) / 2:
            out.append(j)
    return out


def _by_group(column: Floats, rows: Rows, k: int, rng: np.random.Generator) -> Floats:
    """(1 + draws, m, K) means of each action by the value of a column, drawn to the mean of all, and with noise."""
    _, group = np.unique(column, return_inverse=True)
    shape = int(group.max()) + 1, k
    at = group[rows.context], rows.action
    count, total = np.zeros(shape), np.zeros(shape)
    np.add.at(count, at, rows.mass)
    np.add.at(total, at, rows.mass * rows.reward)
    mean = float(rows.mass @ rows.reward / rows.mass.sum())
    center = (total + mean) / (count + 1)
    spread = float(np.sqrt(rows.mass @ np.square(rows.reward - center[at]) / rows.mass.sum()))
    noise = spread * np.sqrt(count) / (count + 1)
    drawn = np.concatenate([center[None], center + noise * rng.normal(size=(DRAWS, *shape))])
    return np.asarray(drawn[:, group[:MOST_ASKED]])
