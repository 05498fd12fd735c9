"""Fitted models by what they were trained on, made once, on threads when asked; and what they predict."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from offpolicy._progress import FITTING, tick
from offpolicy.errors import ModelError, doing
from offpolicy.logs.layout import in_log_order
from offpolicy.policies.coarse import Cells, Exact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future

    from offpolicy._arrays import Bools, Floats
    from offpolicy.logs.log import Log

Key: TypeAlias = tuple[Any, ...]
REWARD, BEHAVIOR, MRDR, RATIO, POLICY = 1, 2, 3, 4, 5
WHAT = {
    REWARD: "the reward model",
    BEHAVIOR: "the behavior model",
    RATIO: "the ratio model",
    POLICY: "the learner of a policy",
}


def seed_of(seed: int, kind: int, key: Key) -> int:
    """A seed for one fit that depends on nothing but what is fitted."""
    numbers = [len(key), *(k for k in key if isinstance(k, int))]
    return int(np.random.SeedSequence([seed, kind, *numbers]).generate_state(1)[0])


@dataclass(frozen=True)
class Specs:
    """The models that a user asked for: of one metric, of π_b, of ratios of marginals."""

    model: Any = None
    behavior_model: Any = None
    ratio_model: Any = None
    seed: int = 0
    n_jobs: int | None = None
    discount: float = 1.0
    cells: Cells | None = None  # that ratios are of; None: of the logged actions themselves

    @property
    def ratios(self) -> Cells | Exact:
        """What is weighted: cells of actions, or actions."""
        return self.cells or Exact()

    @property
    def is_given(self) -> bool:
        """Whether what models would predict was computed elsewhere."""
        return isinstance(self.model, np.ndarray | Mapping) or hasattr(self.model, "on_rows")

    def in_order(self, log: Log) -> Specs:
        """The same with arrays in the order of a log's rows; predictions that are made block by block are made here."""
        given = {name: in_log_order(getattr(self, name), log) for name in ("model", "behavior_model", "ratio_model")}
        if hasattr(self.model, "on_rows"):
            given["model"] = self.model.on_rows(log)
        return replace(self, **given)


@dataclass(frozen=True)
class Spent:
    """What is left of a fit whose predictions are columns: it is made again where it is needed again."""

    note: str


def note_of(fit: Any) -> str:
    """What a fit says of itself; nothing, where it does not speak."""
    return str(getattr(fit, "note", ""))


def by_name(key: Key) -> Any:
    """What a fit is kept under where its name says all."""
    return (key,)


@dataclass(eq=False)
class FitStore:
    """Fits under the keys of their training units; equal keys mean the same fit.

    Attributes
    ----------
    fits : {key: fit}
        Fits of all questions about a log, by all that they depend on.
    n_jobs : int or None
        Threads that fit while scores are made; None fits when asked.
    sealed : bool
        Whether a fit that is not here is a mistake: blocks of a larger log are predicted, never fitted on.
    key : callable
        Makes the whole key of a fit of what it is called in one question, which comes first in it.
    """

    fits: dict[Any, Any] = field(default_factory=dict)
    n_jobs: int | None = None
    sealed: bool = False
    key: Callable[[Key], Any] = by_name
    _started: dict[Key, Future[Any]] = field(default_factory=dict, repr=False)
    _pool: ThreadPoolExecutor | None = field(default=None, repr=False)

    def __contains__(self, key: Key) -> bool:
        return self.key(key) in self.fits

    def __len__(self) -> int:
        """How many fits this question has."""
        return len(self.own)

    @property
    def own(self) -> dict[Key, Any]:
        """The fits of this question by what they are called in it."""
        return {full[0]: fit for full, fit in self.fits.items() if self.key(full[0]) == full}

    def closed(self) -> FitStore:
        """The fits of this question as plain values, to predict other rows with."""
        return FitStore({by_name(key): fit for key, fit in self.own.items()}, sealed=True)

    def put(self, key: Key, fit: Any) -> None:
        """Keep a fit that was made elsewhere."""
        self.fits[self.key(key)] = fit

    def spend(self, keys: list[Key]) -> None:
        """Let go of fits that have predicted all there is to predict; what they say of themselves stays."""
        if not self.sealed:
            for key in map(self.key, keys):
                self.fits[key] = Spent(note_of(self.fits[key]))

    def notes(self, *kinds: int) -> list[str]:
        """What fits of some kinds have to say about themselves, each thing once."""
        said = (note_of(fit) for key, fit in self.own.items() if key[0] in kinds)
        return list(dict.fromkeys(note for note in said if note))

    def peek(self, key: Key) -> Any:
        """The fit called ``key``, or None."""
        return self.fits.get(self.key(key))

    def get(self, key: Key, make: Callable[[], Any]) -> Any:
        """The fit called ``key``, made now if need be."""
        full = self.key(key)
        if isinstance(self.fits.get(full, Spent("")), Spent):
            if self.sealed:
                raise AssertionError(f"no model was fitted for {key}.")
            started = self._started.pop(key, None)
            with doing(f"fitting {WHAT.get(key[0], 'the value model')}", ModelError):
                self.fits[full] = make() if started is None else started.result()
            tick(FITTING)
        return self.fits[full]

    def get_all(self, keys: list[Key], makers: list[Callable[[], Any]]) -> Iterator[Any]:
        """Fits, each as soon as it is there; the seeds make the order irrelevant."""
        self.start(keys, makers)
        for key, make in zip(keys, makers, strict=True):
            yield self.get(key, make)

    def start(self, keys: list[Key], makers: list[Callable[[], Any]]) -> None:
        """Begin what is neither fitted nor begun, where there are threads."""
        if self.n_jobs is None or self.sealed:
            return
        from joblib import effective_n_jobs

        for key, make in zip(keys, makers, strict=True):
            if key in self or key in self._started:
                continue
            if self._pool is None:
                self._pool = ThreadPoolExecutor(effective_n_jobs(self.n_jobs))
            self._started[key] = self._pool.submit(make)

    def close(self) -> None:
        """Give up fits that have not begun."""
        for started in self._started.values():
            started.cancel()
        self._started.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=False)
            self._pool = None


@dataclass(frozen=True, eq=False)
class Values:
    """q at the logged action and v = Σ π_e q, (S,) each; NaN where a split does not score."""

    q: Floats
    v: Floats
    note: str = ""


@dataclass(frozen=True, eq=False)
class Behavior:
    """π_b of the logged action, (S,), and which entries were raised to the floor (None: none)."""

    probability: Floats
    raised: Bools | None = None
    note: str = ""


@dataclass(frozen=True, eq=False)
class Ratios:
    """w_t(S_t, A_t), (S,), and how far the means of their steps were from what they must be.

    ``off`` is the largest |log| of what the ratios of a step were divided by to have the mean they must have.
    """

    ratio: Floats
    off: float = 0.0
