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
from offpolicy.decide import online, replay_checks
from offpolicy.decide.accepted import rejection
from offpolicy.decide.online.own import fresh
from offpolicy.decide.past import Telling, is_trained, past_rewards, progressive
from offpolicy.decide.time_blocks import TimedLog, timed
from offpolicy.errors import UsageError
from offpolicy.evaluation.evaluate import evaluate
from offpolicy.evaluation.question import Asked
from offpolicy.logs.layout import in_log_order
from offpolicy.logs.metrics import check_metric
from offpolicy.logs.outcome import arrivals
from offpolicy.models.behavior.logging_policy import as_logging_policy
from offpolicy.models.rewards.resolve import beside_behavior
from offpolicy.policies.target import LOGGING_POLICY
from offpolicy.scores.catalog import headline

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Array, Bools, Ints
    from offpolicy.decide.time_blocks import Timed
    from offpolicy.evaluation.result import Evaluation
    from offpolicy.logs.log import Log, Scan

Method = Literal["progressive", "rejection"]
CURVE = ["policy", "block", "n", "value", "low", "high", "so_far", "so_far_low", "so_far_high"]


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
    rows : (n,) array or None
        Row of the log that each scored row is; None of a log that is not held.
    accept : float
        c of a replay by rejection; 1 otherwise.
    accepted : {learner: (n,) array of bool}
        Which rows a learner saw by rejection; empty otherwise.
    moved : {learner: float}
        Mean distance of the last block's policy from the one before it, on the same contexts, between 0 and 1.
    trained : tuple of str
        Learners whose policy differed between contexts before they saw anything.
    """

    method: str
    blocks: tuple[Any, ...]
    burn_in: Any
    block: Ints = field(repr=False)
    rows: Ints | None = field(repr=False)
    accept: float = 1.0
    accepted: Mapping[str, Bools] = field(default_factory=dict, repr=False)
    moved: Mapping[str, float] = field(default_factory=dict)
    trained: tuple[str, ...] = ()

    @property
    def steps(self) -> dict[str, int]:
        """How many decisions of its own each learner made."""
        return {name: int(taken.sum()) for name, taken in self.accepted.items()}


@checks_arguments
def replay(
    log: Log | Scan,
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
    log : BanditLog, or a scan of one
        Of labels. A scan (`offpolicy.scan`, with ``id=``) that is too large for memory is read block by block.
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
    asked = Asked.of(log.metrics, minimize, reward_model, "reward_model")
    own = metric or asked.names[0]
    check_metric(own, asked.names)
    in_time = timed(log, blocks, time, method, own)
    _check_seen(in_time, own, method)
    ready = {name: fresh(each, log.actions) for name, each in _named(learners).items()}
    telling = Telling(own, minimize if isinstance(minimize, bool) else own in asked.minimized)
    total = int(in_time.sizes[1:].sum())
    first = next(iter(in_time.steps()))[1]
    trained = tuple(name for name, each in ready.items() if is_trained(name, each, first))
    accepted: dict[str, Bools] = {}
    c = 1.0
    with track("replaying", len(ready) * total) as advance:
        if method == "progressive":
            course = progressive(in_time, ready, telling, advance)
        else:
            held = cast("TimedLog", in_time)
            c = _acceptance(held.log, held.rows, accept)
            course, accepted = rejection(held, ready, telling, c, seed, advance)
    behavior = as_logging_policy(behavior_model, log)
    models = {each: beside_behavior(model, log, behavior) for each, model in asked.models.items()}
    predicted, notes = past_rewards(in_time, models, seed)
    ev = evaluate(
        in_time.scored(),
        course.policies,
        estimators=estimators,
        reward_model=predicted if len(predicted) > 1 else next(iter(predicted.values())),
        behavior_model=_of_scored(behavior_model, in_time),
        minimize=minimize,
        randomized=randomized,
        # Learners that started blank were trained on earlier blocks, or on rows accepted before.
        learned_elsewhere=[name for name in ready if name not in trained],
        seed=seed,
    )
    replayed = Replayed(
        method,
        in_time.labels[1:],
        in_time.labels[0],
        np.asarray(ev.problem.log.batch),
        in_time.rows if isinstance(in_time, TimedLog) else None,
        c,
        accepted,
        course.moved,
        trained,
    )
    return _marked(ev, replayed, [*_notes(replayed, in_time), *notes])


def _of_scored(behavior_model: Any, in_time: Timed) -> Any:
    """``behavior_model=`` of the scored rows, where it is an array of all of them."""
    if not isinstance(in_time, TimedLog) or not isinstance(behavior_model, np.ndarray | list):
        return behavior_model
    given = np.asarray(in_log_order(np.asarray(behavior_model), in_time.log))
    return given[in_time.rows] if given.ndim > 0 and len(given) == in_time.log.rows else behavior_model


def _marked(ev: Evaluation, replayed: Replayed, notes: list[str]) -> Evaluation:
    """The evaluation, which knows that its policies learned, with what every estimate has to say of that."""
    store = ev.problem.store
    store.replayed, store.notes = replayed, (*store.notes, *notes)
    made = {key: replace(e, notes=tuple(dict.fromkeys((*notes, *e.notes)))) for key, e in ev.estimates.items()}
    return replace(ev, estimates=made)


def learning_curve(ev: Evaluation, estimator: str | None = None, level: float = 0.95) -> Any:
    """What each learner earned in each block: a frame with one row per learner and block.

    Columns ``value``, ``low`` and ``high`` are of the block, ``so_far`` is the mean of all blocks up to it, with its
    own interval. The row of the log itself is called "(logging policy)".
    """
    import pandas as pd

    made = ev.replayed
    if made is None:
        raise UsageError("learning_curve() is for the result of op.replay.")
    name = headline(ev.estimators).name if estimator is None else estimator
    every = {**{policy: ev[policy, name] for policy in ev.policies}, LOGGING_POLICY: ev.logged}
    rows = []
    for policy, e in every.items():
        for number, label in enumerate(made.blocks):
            here, so_far = e.within(made.block == number), e.within(made.block <= number)
            rows.append((policy, label, 0 if here is None else here.n, *_ends(here, level), *_ends(so_far, level)))
    return pd.DataFrame(rows, columns=CURVE)


def _ends(e: Any, level: float) -> tuple[float, float, float]:
    """Value and interval; NaN where there is none."""
    if e is None:
        return np.nan, np.nan, np.nan
    return (e.value, *e.interval(level).shown)


def _named(learners: Any) -> dict[str, Any]:
    if isinstance(learners, str):
        return {learners: online.named(learners)}
    if not isinstance(learners, Mapping):
        return {type(learners).__name__: learners}
    if not learners:
        raise UsageError("learners= is empty. Name at least one, such as {'LinUCB': 'linucb'}.")
    return {str(name): online.named(each) if isinstance(each, str) else each for name, each in learners.items()}


def _check_log(log: Log | Scan, method: str) -> None:
    if not (log.unit_kind.decides_once and log.space.finite):
        raise UsageError("replay() needs a log of single decisions whose actions are labels.")
    if method == "rejection" and not log.has_propensity:
        raise UsageError(
            "method='rejection' needs logged propensities, but this log has none. Use "
            "method='progressive', which can estimate them."
        )


def _check_seen(in_time: Timed, metric: str, method: str) -> None:
    """Refuse rewards that a learner could not have seen."""
    if not isinstance(in_time, TimedLog) or metric not in in_time.log.outcomes:
        return
    held = in_time.log.outcomes[metric]
    if not held.seen.any():
        raise UsageError(
            f"no row of this log has {metric!r}, so a learner has nothing to learn from. Let it learn from "
            "another metric: metric=…"
        )
    if method == "rejection" and arrivals(in_time.log, metric) is not None:
        raise UsageError(
            f"{metric!r} comes late, but method='rejection' shows a row to the learner as soon as it is accepted. Use "
            "method='progressive', whose learners see a reward once it has come."
        )


def _acceptance(log: Log, rows: Ints, accept: float | None) -> float:
    if accept is None:
        return float(np.min(log.propensity[rows]))
    if isinstance(accept, bool) or not isinstance(accept, int | float) or not 0 < accept <= 1:
        raise UsageError(f"accept= must be a number in (0, 1]. Got {accept!r} instead.")
    return float(accept)


def _notes(made: Replayed, in_time: Timed) -> list[str]:
    burn_in, scored = int(in_time.sizes[0]), int(in_time.sizes[1:].sum())
    first = f"the {burn_in:,} rows of the first block ({made.burn_in}) were used only for training"
    notes = [f"{first}; {scored:,} rows in {len(made.blocks)} blocks were scored"]
    if made.method == "progressive":
        notes.append("each block's policy and reward model were trained on earlier blocks only")
    if isinstance(in_time, TimedLog) and len(in_time.order) < in_time.log.rows:
        left = in_time.log.rows - len(in_time.order)
        notes.append(f"{left:,} rows of the last blocks were left out because some of their rewards may still come")
    for name, steps in made.steps.items():
        few = " (too few to show how it learns)" if steps < replay_checks.FEWEST_STEPS else ""
        notes.append(f"{name} made {steps:,} of its own decisions out of {scored:,} rows{few}")
    return notes
