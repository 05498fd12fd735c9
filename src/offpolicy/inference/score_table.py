"""`ScoreTable`: per independent unit one column for each score, importance weight and logged reward.

An estimate is an expression over its columns. Columns are arrays in memory or, beyond a limit, files that are read
when asked for; nothing here or to the right of here knows which.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arrays import picked, ranked, some_of
from offpolicy.columns.store import Columns
from offpolicy.inference.condense import condense, condense_evidence
from offpolicy.inference.intervals.evidence import Evidence, carried_by, known_range
from offpolicy.inference.intervals.sample import Sample
from offpolicy.inference.intervals.tails import Moments, Pool, effective_size, has_heavy_tail, tail_index
from offpolicy.logs.columns import DEFAULTS, NOT_GIVEN, HasColumns, fill

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Bools, Floats, Ints
    from offpolicy.columns.store import Name


MOST_ROWS = 1_000_000  # samples of more rows are condensed, once for every interval, bound and check
SMALL = 100_000  # rows up to which a sample is kept as it is
ROUNDING = 1e-12


@dataclass(frozen=True)
class Affine:
    """constant + Σ coefficient · column: one number per unit.

    >>> (Affine.column("a") - Affine.column("b")).terms
    (('a', 1.0), ('b', -1.0))
    """

    constant: float
    terms: tuple[tuple[Name, float], ...]

    @classmethod
    def column(cls, name: Name) -> Affine:
        """A single column."""
        return cls(0.0, ((name, 1.0),))

    def scaled(self, factor: float, shift: float = 0.0) -> Affine:
        """Factor · self + shift."""
        terms = tuple((name, factor * a) for name, a in self.terms)
        return Affine(factor * self.constant + shift, terms)

    def __add__(self, other: Affine) -> Affine:
        total: dict[Name, float] = {}
        for name, a in (*self.terms, *other.terms):
            total[name] = total.get(name, 0.0) + a
        kept = tuple((name, a) for name, a in total.items() if a)
        return Affine(self.constant + other.constant, kept)

    @classmethod
    def mean(cls, expressions: Sequence[Affine]) -> Affine:
        """The mean of several expressions."""
        out = expressions[0]
        for other in expressions[1:]:
            out = out + other
        return out if len(expressions) == 1 else out.scaled(1 / len(expressions))

    def __sub__(self, other: Affine) -> Affine:
        return self + other.scaled(-1.0)


@dataclass(frozen=True)
class EvidenceColumns:
    """Which columns hold what an interval may know besides the scores.

    Attributes
    ----------
    weight, reward : column names
        Importance weight and discounted return of each unit.
    weight_high : float or None
        Largest weight that can occur.
    sizes : array or None
        As in `Evidence`.
    largest : float or None
        Largest weight seen, of a difference that of either policy.
    is_product, is_value : bool
        As in `Evidence`.
    scored : column name or None
        Which units count, where a split scores some only.
    scale : float
        Rewards are divided by it: a lift is in units of its baseline.
    residual : Moments or None
        Of what a model leaves of the rewards of all units of the log: the tails that units of this policy may have
        missed.
    carried : Affine or None
        Weight at which a unit's residual enters the estimate, as an expression; ``weight`` by default.
    is_plain : bool
        Whether units are independent and count alike; otherwise only residuals and their weights are known.
    levels : (low, high) or None
        The range of all rewards of the whole log where few levels show it, or the only one twice; looked up unless
        ``has_levels``.
    """

    weight: Name
    reward: Name
    weight_high: float | None = None
    is_product: bool = False
    is_value: bool = True
    scored: Name | None = None
    scale: float = 1.0
    residual: Moments | None = None
    carried: Affine | None = None
    is_plain: bool = True
    levels: tuple[float, float] | None = None
    has_levels: bool = False
    sizes: Floats | None = field(default=None, compare=False)
    largest: float | None = None

    @property
    def carries(self) -> Affine:
        """Weight of a unit's residual in the estimate."""
        return Affine.column(self.weight) if self.carried is None else self.carried


def _farthest(column: Floats, middle: float = 0.0) -> float:
    """Largest distance from the middle."""
    return float(max(column.max(initial=middle) - middle, middle - column.min(initial=middle)))


@dataclass(eq=False)
class ScoreTable:
    """Columns of all units of one evaluation, and who the units are."""

    units: Units
    columns: Columns = field(default_factory=Columns)
    anonymous: bool = False  # scores given by hand, of no log in particular
    stages: int = 0  # sets of models that have scored the units
    _cache: dict[Any, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def shared(cls, units: Units) -> ScoreTable:
        """The table of scores that are given by hand for the same units."""
        known = vars(units).get("_table")
        table: ScoreTable | None = None if known is None else known()
        if table is None:
            table = cls(units)
            # The table refers to its units: with a plain reference back, neither would ever be let go.
            vars(units)["_table"] = weakref.ref(table)
        return table

    def adopt(self, expression: Affine, other: ScoreTable) -> Affine:
        """An expression over another table of the same units as one over this table."""
        terms = []
        for name, a in expression.terms:
            mine = (id(other), name)
            if mine not in self.columns:
                self.put(mine, other.columns[name])
            terms.append((mine, a))
        return Affine(expression.constant, tuple(terms))

    def stage(self) -> int:
        """A number that keeps the columns of one set of models apart from those of the others."""
        self.stages += 1
        return self.stages

    def put(self, name: Name, values: Floats | Bools) -> None:
        """Keep a column of all units."""
        self.columns.put(name, 0, values)

    def scores(self, expression: Affine) -> Floats:
        """(N,) an expression on every unit; what is constant up to rounding is constant.

        A policy that equals the logging policy must not differ from it significantly by 10⁻¹⁸.
        """
        if expression.constant == 0 and len(expression.terms) == 1 and expression.terms[0][1] == 1:
            column: Floats = self.columns[expression.terms[0][0]]
            return column
        last: tuple[Affine, Floats] | None = self._cache.get("last")  # a value, its error and its sample ask in turn
        if last is not None and last[0] == expression:
            return last[1]
        out = np.full(self.units.n_rows, expression.constant)
        scale = abs(expression.constant)
        for name, a in expression.terms:
            column = self.columns[name]
            scale = max(scale, abs(a) * _farthest(column))
            out += a * column
        middle = self.units.mean(out)
        if _farthest(out, middle) <= ROUNDING * scale:
            out = np.full(len(out), 0.0 if abs(middle) <= ROUNDING * scale else middle)
        self._cache["last"] = expression, out
        return out

    def sample(self, psi: Floats, scored: Bools | None) -> Sample:
        """Scores in the form intervals take, condensed where there are very many."""
        sample = self.units.sample(psi, scored)
        return condense(sample) if len(sample.numerator) > MOST_ROWS else sample

    def levels(self, which: EvidenceColumns) -> tuple[float, float] | None:
        """The range of the rewards of the whole log, scored or not, where few levels show it; the only one twice."""
        if which.has_levels:
            return which.levels
        key = ("levels", which.reward)
        if key not in self._cache:
            self._cache[key] = known_range(self.columns[which.reward], self.units.count)
        ends: tuple[float, float] | None = self._cache[key]
        return ends

    def pool(self, which: EvidenceColumns) -> Pool | None:
        """How the residuals of the whole log would carry an estimate of these weights."""
        if which.residual is None:
            return None
        key = ("pool", which.residual, which.carries, which.scored)
        if key not in self._cache:
            weights, mass = self.scores(which.carries), self.units.relative_mass
            if which.scored is not None:
                scored = self.columns[which.scored]
                weights, mass = weights[scored], mass[scored]
            self._cache[key] = Pool.of(which.residual, weights, mass)
        made: Pool = self._cache[key]
        return made

    def evidence(self, which: EvidenceColumns) -> Evidence:
        """Weights, rewards and their ranges; condensed where there are very many."""
        ends = self.levels(which)
        shown: dict[str, Any] = {"pool": self.pool(which), "constant": ends is not None and ends[0] == ends[1]}
        if not which.is_plain:
            return Evidence(**shown)
        key = EvidenceColumns(which.weight, which.reward, scored=which.scored)
        known: Evidence = self._cache.get(key) or self._evidence(key)
        tail = ("heavy", which.reward, which.scored)
        if tail not in self._cache and ends is None and known.rewards is not None:
            self._cache[tail] = has_heavy_tail(known.rewards, known.count)
        index = ("tail", which.weight, which.scored)
        if index not in self._cache and which.weight_high is None and known.weights is not None:
            self._cache[index] = tail_index(known.weights, known.count)
        if self.units.n_rows <= SMALL or self.units.n_rows > MOST_ROWS:
            self._cache[key] = known
        known = replace(
            known,
            tail=self._cache.get(index),
            weight_high=which.weight_high,
            carried=self._carried(which),
            sizes=which.sizes,
            is_product=which.is_product,
            is_value=which.is_value,
            is_complete=True,
            heavy=self._cache.get(tail, False),
            **shown,
        )
        if ends is not None and ends[0] < ends[1]:
            known = replace(known, reward_low=ends[0], reward_high=ends[1])
        if which.scale == 1.0:
            return known

        def by_scale(value: Any) -> Any:
            return None if value is None else value / which.scale

        return replace(
            known,
            rewards=by_scale(known.rewards),
            reward_low=by_scale(known.reward_low),
            reward_high=by_scale(known.reward_high),
        )

    def _carried(self, which: EvidenceColumns) -> tuple[float, float, float] | None:
        """Largest and typical weights at which rewards enter a difference; None for the value of one policy."""
        if which.carried is None:
            return None
        key = ("carried", which.carried)
        if key not in self._cache:
            self._cache[key] = carried_by(self.scores(which.carried), self.units.count)
        largest, up, down = self._cache[key]
        # Where two policies agree their weights cancel: how large weights are is seen in each alone.
        top = which.scale * largest if which.largest is None else which.largest
        return top, which.scale * up, which.scale * down

    def _evidence(self, which: EvidenceColumns) -> Evidence:
        weights, rewards = self.columns[which.weight], self.columns[which.reward]
        count = self.units.count if self.units.is_counted else None
        if which.scored is not None:
            scored = self.columns[which.scored]
            weights, rewards = weights[scored], rewards[scored]
            count = picked(count, scored)
        evidence = Evidence(weights, rewards, count)
        return condense_evidence(evidence) if len(weights) > MOST_ROWS else evidence

    def effective_size(self, weight: Name) -> float:
        """Kish's effective sample size of a column of weights."""
        key = ("effective_size", weight)
        if key not in self._cache:
            self._cache[key] = effective_size(self.columns[weight], self.units.count)
        size: float = self._cache[key]
        return size


@dataclass(frozen=True, eq=False)
class Units(HasColumns):
    """N units, in the order of every column of scores."""

    n_rows: int
    count: Floats = NOT_GIVEN
    weight: Floats = NOT_GIVEN
    cluster: Ints = NOT_GIVEN
    batch: Ints = NOT_GIVEN

    def __post_init__(self) -> None:
        fill(self, self.n_rows)

    @cached_property
    def clusters(self) -> tuple[int, Ints]:
        """How many clusters there are, and which of them each unit is in."""
        if not self.has_clusters:
            return self.n_rows, np.arange(self.n_rows)
        return ranked(self.cluster)

    @property
    def are_plain(self) -> bool:
        """Whether units are independent and count alike."""
        return not self.has_clusters and not self.is_weighted

    def total(self, scored: Bools | None = None) -> int:
        """Units, counted."""
        return int(self.count.sum() if scored is None else self.count[scored].sum())

    def mean(self, psi: Floats) -> float:
        """Weighted mean of a score."""
        if not self.is_counted and not self.is_weighted:
            return float(psi.mean())
        return float(psi @ self.mass / self.mass.sum())

    @cached_property
    def relative_mass(self) -> Floats:
        """(n,) mass with analysis weights of mean 1: they have no unit, and rules about single units look at them."""
        if not self.is_weighted:
            return self.mass
        low, high = float(self.weight.min()), float(self.weight.max())
        mean = low if low == high else float(self.mass.sum() / self.count.sum())
        return self.mass / mean if mean > 0 else self.mass

    def part(self, scored: Bools | Ints) -> Units:
        """Some of the units, by a mask or by their positions."""
        size = int(np.count_nonzero(scored)) if scored.dtype == bool else len(scored)
        return Units(size, **{name: some_of(getattr(self, name), scored) for name in DEFAULTS})

    def sample(self, psi: Floats, scored: Bools | None = None) -> Sample:
        """Scores summed inside clusters, in the form intervals take."""
        if scored is not None:
            return self.part(scored).sample(psi[scored])
        if not self.has_clusters:
            weight = self.relative_mass / self.count if self.is_weighted else self.weight
            weighted = weight * psi if self.is_weighted else psi
            count = self.count if self.is_counted else None
            return Sample(np.asarray(weighted, dtype=np.float64), weight, count)
        size, group = self.clusters
        mass = self.relative_mass
        return Sample(
            np.bincount(group, weights=mass * psi, minlength=size).astype(np.float64),
            np.bincount(group, weights=mass, minlength=size).astype(np.float64),
        )


def embedded(psi: Floats, units: Units, rows: Ints) -> tuple[Floats, Bools]:
    """Scores of some units as scores of all: same mean, same standard error.

    ψ_i = value + (Σω / Σ_scored ω) 1{i scored} (ψ_i − value), so that estimates of different splits can be
    paired on the same N units.
    """
    scored = np.zeros(units.n_rows, dtype=bool)
    scored[rows] = True
    mass = units.mass
    own = mass[rows]
    held = float(own.sum())
    value = float(psi @ own) / held
    out = np.full(units.n_rows, value)
    out[rows] = value + (float(mass.sum()) / held) * (psi - value)
    return out, scored
