"""`replay`: what an algorithm that learns would have earned on logged traffic.

Two questions, and both answers are means of scores.

- *progressive*: the policy of block t is trained on the logged blocks before t and scored on block t, with a reward
  model fitted on the past alone. The mean of the scores estimates Σ_t n_t V(π_t) / Σ_t n_t, the value of retraining on
  this log's own data. Given the past, the scores of a block are independent with mean V(π_t).
- *rejection*: a row is accepted with probability c · π(A | S, h) / π_b(A | S), where h are the rows accepted so far.
  The learner sees accepted rows only (Li et al. 2011). Every row, accepted or not, is scored by the policy of its
  moment (Dudík et al. 2012): the value of the learner on data that it gathers itself. A row is accepted with
  probability c whatever the policy, so that a log of n rows supports about c · n steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._progress import track
from offpolicy.decide import online
from offpolicy.decide.online.own import as_array, fresh
from offpolicy.decide.time_blocks import blocks_of, ordered
from offpolicy.errors import UsageError
from offpolicy.evaluation.evaluate import evaluate
from offpolicy.evaluation.question import Asked
from offpolicy.logs.outcome import need_seen
from offpolicy.models.fitting.policy_fits import predictions_apart
from offpolicy.policies.distribution import check_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Array, Bools, Floats, Ints
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.logs.bandit import BanditLog
    from offpolicy.logs.log import Log

Method = Literal["progressive", "rejection"]
GROWTH = 1.2  # the reward model is fitted again when the past has grown by this factor
FEWEST_STEPS = 30  # accepted rows below which a replay says nothing
CURVE = ["policy", "block", "n", "value", "low", "high", "so_far", "so_far_low", "so_far_high"]
AHEAD = 512  # most rows a learner is asked about before the next acceptance


@dataclass(frozen=True, eq=False)
class Replayed:
    """How a log was replayed.

    Attributes
    ----------
    method : {"progressive", "rejection"}
    blocks : tuple
        Labels of the scored blocks, in the order of time.
    burn_in : label
        The first block, which trains and is not scored.
    block : (n,) array
        Number of the block of each scored row, among ``blocks``.
    rows : (n,) array
        Row of the log that each scored row is.
    accept : float
        c of a replay by rejection; 1 otherwise.
    accepted : {learner: (n,) array of bool}
        Which rows a learner saw by rejection; empty otherwise.
    moved : {learner: float}
        Mean share of decisions that the last policy takes otherwise than the one before it.
    """

    method: str
    blocks: tuple[Any, ...]
    burn_in: Any
    block: Ints = field(repr=False)
    rows: Ints = field(repr=False)
    accept: float = 1.0
    accepted: Mapping[str, Bools] = field(default_factory=dict, repr=False)
    moved: Mapping[str, float] = field(default_factory=dict)

    @property
    def steps(self) -> dict[str, int]:
        """How many decisions of its own each learner made."""
        return {name: int(taken.sum()) for name, taken in self.accepted.items()}


@checks_arguments
def replay(
    log: Log,
    learners: Any,
    *,
    method: Method = "progressive",
    blocks: int | str | Array | None = None,
    time: str | Array | None = None,
    metric: str | None = None,
    accept: float | None = None,
    estimators: Any = None,
    reward_model: Any = None,
    behavior_model: Any = None,
    minimize: bool | str | Sequence[str] = False,
    randomized: bool = False,
    seed: int = 0,
) -> Evaluation:
    """Estimate what algorithms that learn would have earned, from a log of another policy.

    Parameters
    ----------
    log : BanditLog
        Of labels, in memory.
    learners : learner or {name: learner}
        Objects with ``probabilities(context)`` and ``update(context, action, reward, propensity)``, such as those of
        `offpolicy.learners`, or their words ("linucb"). Each is copied and starts fresh.
    method : {"progressive", "rejection"}
        Trained on all earlier rows of the log, or only on rows that the learner would have chosen itself.
    blocks : int, column name or array, optional
        When the learner is updated: the values of a column in sorted order, or so many blocks of equal size in the
        order of ``time``. Default: the log's batches. The first block trains and is not scored.
    time : column name or array, optional
        What puts rows in order where ``blocks`` is a number, and inside blocks. Ties follow ``id=`` of the log.
    metric : str, optional
        The reward that learners see, of several; default: the first. Of one that is minimized they see the negative.
    accept : float, optional
        c of method "rejection"; default: the smallest logged propensity, so that no probability exceeds 1.
    estimators, behavior_model, minimize, randomized, seed
        As in `evaluate`.
    reward_model : learner, "auto" or None
        As in `evaluate`; fitted on the past of each block.

    Returns
    -------
    Evaluation
        Its policies are the learners. ``ev.replayed`` says how it was made, ``ev.learning_curve()`` what each learner
        earned block by block.

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> rng = np.random.default_rng(0)
    >>> x, a = rng.normal(size=1000), rng.integers(2, size=1000)
    >>> r = 1.0 * (a == (x > 0))
    >>> log = op.BanditLog.from_arrays(x, a, r, np.full(1000, 0.5), batch=np.arange(1000) // 100)
    >>> ev = op.replay(log, {"LinUCB": op.learners.LinUCB()}, estimators=["DML"])
    >>> bool(ev["LinUCB", "DML"].value > 0.9)
    True
    """
    if method not in {"progressive", "rejection"}:
        raise UsageError(f"method= must be 'progressive' or 'rejection'. Got {method!r} instead.")
    _check_log(log, method)
    named = _named(learners)
    block, labels = blocks_of(log, blocks, time)
    order = ordered(cast("BanditLog", log), block, time, method)
    ready = {name: fresh(each, log.actions) for name, each in named.items()}
    own = log if metric is None else log.with_reward(metric)
    need_seen(own, "replay")
    asked = Asked.of(log.metrics, minimize, reward_model, "reward_model")
    lowest = minimize if isinstance(minimize, bool) else (metric or asked.names[0]) in asked.minimized
    seen = -own.reward if lowest else own.reward
    scored = order[block[order] > 0]
    c = 1.0 if method == "progressive" else _acceptance(log, scored, accept)
    world = _World(log, np.asarray(seen, dtype=np.float64), block, order, scored)
    probabilities, accepted = {}, {}
    with track("replaying", len(ready) * len(scored)) as advance:
        for number, (name, learner) in enumerate(ready.items()):
            if method == "progressive":
                probabilities[name] = world.progressive(name, learner, advance)
            else:
                rng = np.random.default_rng([seed, number])
                probabilities[name], accepted[name] = world.rejection(name, learner, c, rng, advance)
    predicted = {
        each: _past_predictions(log.with_reward(each), block, scored, model, seed)
        for each, model in asked.models.items()
    }
    replayed = Replayed(
        method,
        labels[1:],
        labels[0],
        block[scored] - 1,
        scored,
        c,
        accepted,
        {name: _moved(p, block[scored]) for name, p in probabilities.items()},
    )
    sub = replace(
        log.take(scored),
        batch=replayed.block,
        batch_labels=replayed.blocks,
        notes=(*log.notes, *_notes(replayed, int((block == 0).sum()), len(scored))),
    )
    ev = evaluate(
        sub,
        probabilities,
        estimators=estimators,
        reward_model=predicted if len(predicted) > 1 else next(iter(predicted.values())),
        behavior_model=behavior_model,
        minimize=minimize,
        randomized=randomized,
        learned_elsewhere=True,  # on earlier blocks, or on rows accepted before
        seed=seed,
    )
    return replace(ev, replayed=replayed)


def learning_curve(ev: Evaluation, estimator: str | None = None, level: float = 0.95) -> Any:
    """What each learner earned in each block: a frame with one row per learner and block.

    Columns ``value``, ``low`` and ``high`` are of the block, ``so_far`` is the mean of all blocks up to it, with its
    own interval. The row of the log itself is called "(logging policy)".
    """
    import pandas as pd

    from offpolicy.inference.estimate import Estimate
    from offpolicy.scores.catalog import headline

    made = ev.replayed
    if made is None:
        raise UsageError("learning_curve() is for the result of op.replay.")
    name = headline(ev.estimators).name if estimator is None else estimator
    scores = {policy: ev[policy, name].psi.mean(axis=0) for policy in ev.policies}
    scores["(logging policy)"] = ev.logged.psi.mean(axis=0)
    rows = []
    for policy, psi in scores.items():
        for number, label in enumerate(made.blocks):
            here = Estimate.from_scores(psi[made.block == number])
            so_far = Estimate.from_scores(psi[made.block <= number])
            rows.append(
                (policy, label, here.n, here.value, *here.interval(level), so_far.value, *so_far.interval(level))
            )
    return pd.DataFrame(rows, columns=CURVE)


@dataclass(frozen=True, eq=False)
class _World:
    """The rows of a log in the order in which learners meet them."""

    log: Log
    reward: Floats
    block: Ints
    order: Ints
    scored: Ints

    def progressive(self, name: str, learner: Any, advance: Any) -> Floats:
        """(n, K) probabilities of the scored rows, each by the learner of the blocks before its own."""
        out = np.empty((len(self.scored), len(self.log.actions)))
        at = 0
        for number in range(int(self.block.max()) + 1):
            rows = self.order[self.block[self.order] == number]
            if number > 0:
                out[at : at + len(rows)] = self._asked(name, learner, rows)
                at += len(rows)
                advance(len(rows))
            self._show(name, learner, rows)
        return out

    def rejection(
        self, name: str, learner: Any, c: float, rng: np.random.Generator, advance: Any
    ) -> tuple[Floats, Bools]:
        """Probabilities of the scored rows by the learner of the rows accepted before, and which were accepted."""
        rows, log = self.scored, self.log
        out = np.empty((len(rows), len(log.actions)))
        accepted = np.zeros(len(rows), dtype=bool)
        draws = rng.random(len(rows))
        at, ahead = 0, min(AHEAD, max(1, round(1 / c)))
        while at < len(rows):
            some = rows[at : at + ahead]
            p = self._asked(name, learner, some)
            chance = c * p[np.arange(len(some)), log.action[some]] / log.propensity[some]
            if (chance > 1 + 1e-9).any():
                k = int(np.argmax(chance))
                raise UsageError(
                    f"accept={c:g} is too large: row {int(some[k])} would be accepted with chance {chance[k]:.3g}. "
                    f"Use at most {c / chance[k]:.3g}."
                )
            taken = np.flatnonzero(draws[at : at + len(some)] < chance)
            used = len(some) if len(taken) == 0 else int(taken[0]) + 1
            out[at : at + used] = p[:used]
            if len(taken):
                accepted[at + used - 1] = True
                self._show(name, learner, some[used - 1 : used])
            at += used
            advance(used)
        return out, accepted

    def _asked(self, name: str, learner: Any, rows: Ints) -> Floats:
        log = self.log
        context = log.context.native(log.context.positions(rows))
        shape = (len(rows), len(log.actions))
        if log.eligible is None:
            return check_rows(learner.probabilities(context), shape, f"learner {name!r}")
        if not getattr(learner, "respects_eligible", False):
            raise UsageError(
                f"actions of this log are not open to all, and learner {name!r} does not say that it keeps to eligible "
                "ones. Give it respects_eligible = True and probabilities(context, eligible=mask)."
            )
        mask = log.eligible[rows]
        p = learner.probabilities(context, eligible=mask)
        return check_rows(p, shape, f"learner {name!r}", mask)

    def _show(self, name: str, learner: Any, rows: Ints) -> None:
        log = self.log
        labels = as_array([log.actions[code] for code in log.action[rows]])
        propensity = None if log.propensity is None else np.array(log.propensity[rows])
        context = log.context.native(log.context.positions(rows))
        learner.update(context, labels, self.reward[rows].copy(), propensity)


def _named(learners: Any) -> dict[str, Any]:
    if isinstance(learners, str):
        return {learners: online.named(learners)}
    if not isinstance(learners, Mapping):
        return {type(learners).__name__: learners}
    if not learners:
        raise UsageError("learners= is empty: name at least one, such as {'LinUCB': 'linucb'}.")
    return {str(name): online.named(each) if isinstance(each, str) else each for name, each in learners.items()}


def _check_log(log: Log, method: str) -> None:
    if not (log.unit_kind.decides_once and log.space.finite):
        raise UsageError(
            "replay() takes logs of single decisions whose actions are labels: learners choose among K actions."
        )
    if not log.in_memory:
        raise UsageError(
            "replay() reads rows one after another in the order of time. Read the log whole: op.scan(…, way='rows')."
        )
    if float(np.max(log.count)) > 1:
        raise UsageError(
            "rows of this log stand for several decisions, whose order is not known. Give one row per decision."
        )
    if method == "rejection" and log.propensity is None:
        raise UsageError(
            "method='rejection' accepts rows by their logged propensities, and this log has none. Use "
            "method='progressive', which can estimate them."
        )


def _acceptance(log: Log, rows: Ints, accept: float | None) -> float:
    if accept is None:
        return float(np.min(log.propensity[rows]))
    if isinstance(accept, bool) or not isinstance(accept, int | float) or not 0 < accept <= 1:
        raise UsageError(f"accept= must be a number in (0, 1]. Got {accept!r} instead.")
    return float(accept)


def _past_predictions(log: Log, block: Ints, scored: Ints, model: Any, seed: int) -> Floats:
    """(n, K) rewards of the scored rows, predicted from the blocks before theirs."""
    out = np.empty((len(scored), len(log.actions)))
    numbers = block[scored]
    sizes = np.bincount(block)
    starts = np.concatenate([[0], np.cumsum(sizes)])  # rows before each block
    first, fitted_on = 1, 0
    while first < len(sizes):
        # The same fit serves until the past has grown enough for another.
        fitted_on = starts[first]
        last = first + 1
        while last < len(sizes) and starts[last] < GROWTH * fitted_on:
            last += 1
        where = (numbers >= first) & (numbers < last)
        out[where] = predictions_apart(log, block < first, model, seed, rows=scored[where])
        first = last
    return out


def _moved(p: Floats, block: Ints) -> float:
    """Half the mean absolute change of the mean policy between the last two scored blocks."""
    last = int(block.max())
    now, before = p[block == last], p[block == last - 1]
    if len(before) == 0:
        return 0.0
    return float(0.5 * np.abs(now.mean(axis=0) - before.mean(axis=0)).sum())


def _notes(made: Replayed, burn_in: int, scored: int) -> list[str]:
    first = f"{burn_in:,} rows of the first block ({made.burn_in}) only trained the models"
    notes = [f"{first}; {scored:,} rows in {len(made.blocks)} blocks were scored"]
    if made.method == "progressive":
        notes.append("each block's policy and reward model were trained on earlier blocks only")
    for name, steps in made.steps.items():
        few = " (too few to say how it learns)" if steps < FEWEST_STEPS else ""
        notes.append(f"{name} made {steps:,} decisions of its own out of {scored:,} rows{few}")
    notes += [
        f"{name} was still changing: its mix of actions moved by {share:.0%} between the last two blocks"
        for name, share in made.moved.items()
        if share > 0.2
    ]
    return notes
