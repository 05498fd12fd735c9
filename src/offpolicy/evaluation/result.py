"""`Evaluation`: estimates by (policy, estimator), what they rest on, and ways to show them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakValueDictionary

from offpolicy._arguments import checks_arguments
from offpolicy._doors import door
from offpolicy._progress import track
from offpolicy._visible import printable
from offpolicy.errors import PolicyError, UnknownNameError, UsageError, did_you_mean, missing_dependency
from offpolicy.evaluation import choose, ranking
from offpolicy.evaluation import position_values as positions
from offpolicy.evaluation import returns as distributions
from offpolicy.evaluation import step_curves as curves_by_step
from offpolicy.evaluation import value_curve as curves
from offpolicy.evaluation.answer import answer
from offpolicy.evaluation.estimates import Estimates
from offpolicy.evaluation.passes import forget
from offpolicy.evaluation.question import Combination
from offpolicy.evaluation.travel import packed, unpacked
from offpolicy.logs.metrics import check_metric
from offpolicy.policies.coarse import CoarseRatio
from offpolicy.policies.target import named_policies
from offpolicy.scores.catalog import headline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from offpolicy.evaluation.problem import Problem
    from offpolicy.evaluation.question import Asked, Question
    from offpolicy.evaluation.shown import Decision, Origin, Section
    from offpolicy.evaluation.store import Store
    from offpolicy.inference.comparison import Comparison
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.pareto import Pareto
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator
    from offpolicy.trust import Diagnostics
    from offpolicy.trust.gate import GateResult
    from offpolicy.trust.verdict import Verdict


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Estimates of one or more policies by one or more estimators.

    Examples
    --------
    >>> import offpolicy as op
    >>> log = op.BanditLog.from_arrays(None, [0, 1, 1, 0], [0.0, 1.0, 1.0, 0.0], [0.5] * 4)
    >>> ev = op.evaluate(log, {"always 1": op.policies.Fixed(1)}, estimators=["IPW", "SNIPW"])
    >>> ev["always 1", "IPW"].value
    1.0
    >>> ev.logged.value
    0.5
    """

    question: Question
    problem: Problem
    targets: dict[str, Target]
    estimators: list[Estimator]
    estimates: dict[tuple[str, str], Estimate]
    settings: dict[str, Any]
    origin: Origin | None = None
    replayed: Any = None
    # Answers to other questions over the same store. Those asked for by this one are kept by it; whoever was asked
    # before is known as long as somebody else keeps it, so that no circle keeps any of them.
    _known: WeakValueDictionary[str, Evaluation] = field(default_factory=WeakValueDictionary, init=False, repr=False)
    _kept: dict[Any, Evaluation] = field(default_factory=dict, init=False, repr=False)

    @classmethod
    def of(cls, question: Question, store: Store | None = None) -> Evaluation:
        """The answer to a question."""
        made = answer(question, store)
        return cls(question, made.problem, made.targets, made.estimators, made.estimates, made.settings)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled with its columns and facts; what cannot be pickled (functions, connections) stays behind."""
        own = {k: v for k, v in vars(self).items() if k not in {"_known", "_kept"}}
        return _unpacked, (packed(own),)

    def ask(self, **changes: Any) -> Evaluation:
        """The same question but for some arguments of `evaluate`, or for its ``metric``.

        What both questions have in common is not made again: predictions and fits are kept by all that they depend
        on. Estimates of both are paired unit by unit, unless the log differs, or has to be opened anew for other folds.

        Parameters
        ----------
        **changes
            Arguments of `evaluate` by name, ``metric=`` (the reward to speak of), or ``log=`` another log.

        Examples
        --------
        >>> import numpy as np, offpolicy as op
        >>> a = np.random.default_rng(0).integers(2, size=100)
        >>> log = op.BanditLog.from_arrays(None, a, a + 0.5, np.full(100, 0.5))
        >>> ev = op.evaluate(log, op.policies.Fixed(1), estimators=["IPW"])
        >>> ev.ask(behavior_model="shares").settings["behavior_model"]
        'shares'
        """
        made = Evaluation.of(self.question.but(**changes), self.problem.store)
        return made if self.origin is None else replace(made, origin=self.origin)

    @property
    def asked(self) -> Asked:
        """The metrics of this evaluation, which of them are better low, and their models."""
        return self.question.asked

    @property
    def draws_folds(self) -> bool:
        """Whether folds were drawn, and can be drawn again."""
        return self.question.draws_folds

    @property
    def is_whole(self) -> bool:
        """Whether it speaks of all metrics of the log, and not of one of them or of a sum."""
        return self.question.metric is None and self.question.combination is None

    @property
    def policies(self) -> list[str]:
        """Names of the policies."""
        return list(self.targets)

    @property
    def minimize(self) -> bool:
        """Whether a lower value is better."""
        return bool(self.settings.get("minimize", False))

    @property
    def assumption(self) -> str:
        """What the numbers assume of hidden causes, as half a sentence; empty where propensities were logged.

        >>> import offpolicy as op
        >>> log = op.BanditLog.from_arrays(None, [0, 1, 1, 0], [0.0, 1.0, 1.0, 0.0])
        >>> op.evaluate(log, op.policies.Fixed(1), estimators=["IPW"]).assumption
        'assumes that nothing outside the context columns affected both the action and the reward'
        """
        from offpolicy.trust.assumption import assumption

        return assumption(self)

    @cached_property
    def logged(self) -> Estimate:
        """Estimate of the logging policy's own value."""
        return Estimates(self.problem, self.problem.table).logged()

    def __getitem__(self, key: tuple[str, str] | str) -> Estimate:
        """``ev["policy", "DML"]``; ``ev["policy"]`` is its headline, and with one policy ``ev["DML"]`` will do."""
        if isinstance(key, str):
            names = [e.name for e in self.estimators]
            if key in self.targets and not (len(self.targets) == 1 and key in names):
                key = (key, headline(self.estimators).name)
            elif len(self.targets) == 1:
                key = (self.policies[0], key)
            elif key in names:
                raise UsageError(f"name the policy as well: ev[policy, {key!r}]. Policies: {self.policies}.")
            else:
                raise KeyError(f"no policy is called {key!r}.{did_you_mean(key, self.targets)}")
        if key not in self.estimates:
            policy, estimator = key
            if policy not in self.targets:
                raise UnknownNameError(f"no policy is called {policy!r}.{did_you_mean(policy, self.targets)}")
            known = [e.name for e in self.estimators]
            raise UnknownNameError(f"no estimate by {estimator!r}.{did_you_mean(estimator, known)}")
        return self.estimates[key]

    @property
    def metrics(self) -> list[str]:
        """Names of the rewards of the log; the evaluation itself speaks of the first."""
        return list(self.asked.names)

    @property
    def metric_name(self) -> str:
        """The reward that this evaluation speaks of."""
        return self.question.reward

    @checks_arguments
    def metric(self, name: str) -> Evaluation:
        """The same policies and estimators for another metric of the log.

        Folds, weights and fits of π_b are shared, models of the reward are its own; estimates of different metrics
        are paired unit by unit. Made when first asked for.

        Examples
        --------
        >>> import offpolicy as op
        >>> rewards = {"click": [0, 1, 1, 0], "cost": [1.0, 2.0, 2.0, 1.0]}
        >>> log = op.BanditLog.from_arrays(None, [0, 1, 1, 0], rewards, [0.5] * 4)
        >>> ev = op.evaluate(log, op.policies.Fixed(1), estimators=["IPW"], minimize=["cost"])
        >>> ev["IPW"].value, ev.metric("cost")["IPW"].value
        (1.0, 2.0)
        """
        names = self.question.metrics.names
        check_metric(name, names)
        if name == self.metric_name and self.question.combination is None:
            return self
        if self.question.combination is None:
            self._known[self.metric_name] = self
        known = self._known.get(name)
        if known is None:
            known = self.ask(metric=None if name == names[0] else name, combination=None)
            vars(known)["_known"] = self._known
            self._known[name] = self._kept[name] = known
        return known

    @checks_arguments
    def combine(self, weights: Mapping[str, float], *, name: str = "combination", minimize: bool = False) -> Evaluation:
        """The same policies and estimators for a weighted sum of metrics, such as a margin.

        Its models are the weighted sums of the metrics' models, so that nothing is fitted; its scores are paired with
        theirs.

        Parameters
        ----------
        weights : {metric: number}
        name : str
            What the sum is called.
        minimize : bool
            Whether less of it is better.

        Examples
        --------
        >>> import offpolicy as op
        >>> rewards = {"revenue": [0, 5, 5, 0], "cost": [1.0, 2.0, 2.0, 1.0]}
        >>> log = op.BanditLog.from_arrays(None, [0, 1, 1, 0], rewards, [0.5] * 4)
        >>> ev = op.evaluate(log, op.policies.Fixed(1), estimators=["IPW"])
        >>> ev.combine({"revenue": 1, "cost": -0.5}, name="margin")["IPW"].value
        4.0
        """
        known = self.question.metrics.names
        made = self.ask(combination=Combination.of(weights, known, name, minimize=minimize))
        vars(made)["_known"] = self._known
        return made

    @checks_arguments
    def add(self, policies: Any) -> Evaluation:
        """Evaluate more policies with the models already fitted; nothing is refitted."""
        named = named_policies(policies, self.problem.log)
        for name in named:
            if name in self.targets:
                raise PolicyError(f"a policy called {name!r} is here already. Choose another name.")
        return self.ask(policies={**self.question.policies, **named})

    @checks_arguments
    def instead(self, policies: Any) -> Evaluation:
        """Other policies in place of these, with the models already fitted."""
        return self.ask(policies=policies)

    def redrawn(self, repeats: int, estimator: str | None = None, *, seed: int | None = None) -> Evaluation | None:
        """The same with folds drawn several times, for the estimator that speaks (or ``estimator``).

        Models are fitted anew for every draw. ``estimate.fold_spread`` of the result says how far an estimate moves
        from draw to draw. ``seed`` is that of the draws, the evaluation's own where not given. None where folds were
        not drawn but given.
        """
        if not self.draws_folds:
            return None
        named = {e.name: e for e in self.estimators}
        chosen = headline(self.estimators) if estimator is None else named[estimator]
        seed = self.question.seed if seed is None else seed
        key = ("redrawn", repeats, chosen.name, seed)
        if key not in self._kept:
            ratio = self.question.ratio
            if choose.is_auto(ratio):  # decided already
                coarse = self.problem.cells is not None
                ratio = CoarseRatio() if coarse else choose.EXACT
            again = self.ask(repeats=repeats, estimators=[chosen], seed=seed, ratio=ratio)
            # Of a draw of the folds the scores are all that is needed.
            same = again.question.seed == self.question.seed
            forget(again.problem, self.problem.repeats if same else 0)
            self._kept[key] = again
        return self._kept[key]

    def with_behavior(self, behavior_model: Any) -> Evaluation:
        """The same policies with another π_b; what did not depend on π_b is not refitted.

        Parameters
        ----------
        behavior_model : classifier, "shares", "auto" or None
            As in `evaluate`; None uses the logged propensities.
        """
        return self.ask(behavior_model=behavior_model)

    @checks_arguments
    def rows(self, level: float = 0.95) -> list[dict[str, Any]]:
        """One dictionary per policy and estimator: what `frame` and the reports show.

        Where ``refused`` gives a reason there is no interval: no method can be expected to cover.
        """
        table = []
        with track("intervals", len(self.estimates)) as advance:
            for (policy, estimator), e in self.estimates.items():
                interval = e.interval(level)
                low, high = interval.shown
                table.append(
                    {
                        "policy": policy,
                        "estimator": estimator,
                        "value": e.value,
                        "std_error": e.std_error,
                        "low": low,
                        "high": high,
                        "method": interval.method,
                        "refused": interval.reason or None,
                        "n": e.n,
                        "difference": (e - self.logged).value,
                        "difference_std_error": (e - self.logged).std_error,
                        "notes": "; ".join(e.notes),
                    }
                )
                advance()
        return table

    @checks_arguments
    def frame(self, *, backend: str | None = None, level: float = 0.95, verdicts: bool = True) -> Any:
        """Table of estimates as pandas (default) or polars: the current policy first, a verdict in every row.

        A log with several metrics has all of them, with a column ``metric``; ``ev.metric("cost").frame()`` has one.

        Parameters
        ----------
        backend : {"pandas", "polars"}, optional
            Kind of frame; default: polars when the log came from polars, else pandas.
        level : float
            Level of the intervals.
        verdicts : bool
            Whether to judge every estimate; False saves the checks, in simulations.
        """
        rows = door("rows")(self, level, verdicts=verdicts)
        if self.asked.are_several and self.is_whole:
            rows = [
                {"metric": name, **row}
                for name in self.metrics
                for row in door("rows")(self.metric(name), level, verdicts=verdicts)
            ]
        return self._as_frame(rows, backend, "ev.frame()")

    def summary(self, *, backend: str | None = None, level: float = 0.95) -> Any:
        """One row per policy by the headline estimator: value, interval, change, verdict and A/B test.

        The intervals of several policies are corrected for their number, as in the report.

        Examples
        --------
        >>> import numpy as np, offpolicy as op
        >>> rng = np.random.default_rng(0)
        >>> a = rng.integers(2, size=4000)
        >>> log = op.BanditLog.from_arrays(None, a, a + rng.normal(size=4000), np.full(4000, 0.5))
        >>> op.evaluate(log, {"new": op.policies.Fixed(1)}, estimators=["SNIPW"]).summary()["verdict"].tolist()
        ['', 'trust']
        """
        return self._as_frame(door("summary")(self, level), backend, "ev.summary()")

    def segments(
        self,
        columns: Sequence[str | int] | str | int | None = None,
        *,
        policy: str | None = None,
        backend: str | None = None,
        level: float = 0.95,
    ) -> Any:
        """Value, logged value and difference inside groups of rows, as a frame; all intervals hold together.

        Parameters
        ----------
        columns : column names, optional
            Context columns to group by; default: the first four of a frame's context.
        policy : str, optional
            Default: every policy.
        backend : {"pandas", "polars"}, optional
            Kind of frame, as in `frame`.
        level : float
            Probability with which all intervals of a policy hold.
        """
        rows = door("segments")(self, columns, policy, level)
        return self._as_frame(rows, backend, "ev.segments()")

    def to_latex(self, *, level: float = 0.95) -> str:
        """The table of estimates for a paper: rounded, with intervals, changes and verdicts (needs booktabs)."""
        return str(door("latex")(self, level))

    def _as_frame(self, rows: list[dict[str, Any]], backend: str | None, what: str) -> Any:
        if backend is None:
            source = getattr(self.problem.log, "source", None)
            backend = "polars" if type(source).__module__.startswith("polars") else "pandas"
        try:
            if backend == "pandas":
                import pandas as pd

                return pd.DataFrame(rows)
            if backend == "polars":
                import polars as pl

                return pl.DataFrame(rows, infer_schema_length=None)
        except ImportError as error:
            raise missing_dependency(backend, None, what) from error
        raise UsageError(f"backend= must be 'pandas' or 'polars'. Got {backend!r} instead.")

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """Overlap, weights, effective sample size and model quality, by policy."""
        from offpolicy.trust import diagnose

        declared = self.settings.get("learned_elsewhere", ())
        return diagnose(self.problem, self.targets, self.estimates, self.estimators, declared)

    @checks_arguments
    def verdict(self, policy: str | None = None, estimator: str | None = None, *, level: float = 0.95) -> Verdict:
        """Whether the estimate of a policy can be relied on: a level and its reasons.

        Parameters
        ----------
        policy : str, optional
            Name of the policy; may be left out when there is one.
        estimator : str, optional
            Whose estimate to judge; default: the recommended one among those computed.
        level : float
            Of the intervals that the reasons quote.
        """
        from offpolicy.trust.verdict import judge

        return judge(self, policy, estimator, level)

    @checks_arguments
    def gate(
        self,
        expression: str,
        *,
        level: float = 0.95,
        estimator: str | None = None,
        require: Literal["trust"] | None = None,
    ) -> GateResult:
        """Whether the log shows that a policy clears a bar: passed, failed, or not enough evidence.

        Parameters
        ----------
        expression : str
            Such as ``"lift > 0"``, ``"new - old > 0"``, or conditions on several metrics whose intervals hold
            together: ``"revenue lift > 0 and cost lift < 2%"``.
        level : float
            Of the intervals that must clear the bar.
        estimator : str, optional
            Whose estimates to use; default: the recommended one among those computed.
        require : "trust", optional
            Let nothing pass whose verdict is not "trust"; by default a verdict of "caution" may.
        """
        from offpolicy.trust.gate import check

        return check(self, expression, level, estimator=estimator, require=require)

    @checks_arguments
    def compare(self, level: float = 0.95, estimator: str | None = None) -> Comparison:
        """Simultaneous intervals of all policies, and which of them may be the best.

        Parameters
        ----------
        level : float
            Probability with which all intervals hold together.
        estimator : str, optional
            Whose estimates to compare; default: the recommended one among those computed.
        """
        from offpolicy.inference.comparison import compare

        key = (level, estimator or headline(self.estimators).name)
        if key not in self._comparisons:
            self._comparisons[key] = compare(self, *key)
        return self._comparisons[key]

    @checks_arguments
    def pareto(self, level: float = 0.95, estimator: str | None = None) -> Pareto:
        """Every policy by every metric, by intervals that hold together, and who beats whom in all of them.

        Parameters
        ----------
        level : float
            Probability with which all intervals, and all claims, hold together.
        estimator : str, optional
            Whose estimates to compare; default: the recommended one among those computed.
        """
        from offpolicy.inference.pareto import pareto

        if not self.is_whole:
            return self.metric(self.question.metrics.names[0]).pareto(level, estimator)
        key = (level, estimator)
        if key not in self._fronts:
            self._fronts[key] = pareto(self, level, estimator)
        return self._fronts[key]

    returns = distributions.returns
    step_curves = curves_by_step.step_curves
    position_values = positions.position_values
    value_curve = curves.value_curve
    against = ranking.against

    @cached_property
    def _fronts(self) -> dict[tuple[float, str | None], Pareto]:
        return {}

    @cached_property
    def _comparisons(self) -> dict[tuple[float, str], Comparison]:
        return {}

    @checks_arguments
    def to_json(
        self,
        path: str | Path | None = None,
        *,
        level: float = 0.95,
        gates: Sequence[GateResult] = (),
        segments: Sequence[str | int] | str | int | None = None,
        traffic: str | None = None,
    ) -> str:
        """Versioned JSON of everything shown, after the schema that ``offpolicy schema`` prints.

        Parameters
        ----------
        path : path, optional
            File to write.
        level : float
            Of the intervals.
        gates : sequence of GateResult
            Results of gates, to be kept with it.
        segments : column names, optional
            Columns to give the value by, as `segments` does; none by default.
        traffic : str, optional
            Such as "2M per month", to say what differences add up to.
        """
        return str(door("json")(self, path, level, gates, segments, traffic))

    @checks_arguments
    def report(
        self,
        path: str | Path,
        *,
        segments: Sequence[str | int] | str | int | None = None,
        level: float = 0.95,
        title: str | None = None,
        command: str | None = None,
        decision: Decision | None = None,
        gates: Sequence[GateResult] = (),
        traffic: str | None = None,
        sections: Sequence[Section | Callable[[Evaluation], Section]] = (),
    ) -> Path:
        """Write one HTML file that answers the question and shows what the answer rests on.

        It opens from disk and asks the network for nothing; charts can be hovered over, sorted and
        filtered, and every number is in a table as well.

        Parameters
        ----------
        path : path
            File to write, ending in .html.
        segments : column names, optional
            Context columns to show the value by; default: the first four of a frame's context.
        level : float
            Level of the intervals.
        title : str, optional
            What to call the report.
        command : str, optional
            The command that made it, shown for reproduction; default: the call of `evaluate`.
        decision : Learned or Selection, optional
            What was decided from this evaluation: the tree is drawn, the bounds are listed.
        gates : sequence of GateResult
            Results of gates, shown under the answer.
        traffic : str, optional
            Such as "2M per month", to say what the difference adds up to.
        sections : sequence of Section, or of functions of the evaluation that return one
            Sections of your own, before the evidence.

        Returns
        -------
        Path
            The file written.
        """
        written: Path = door("report")(
            self,
            path,
            segments=segments,
            level=level,
            title=title,
            command=command,
            decision=decision,
            gates=gates,
            traffic=traffic,
            sections=sections,
        )
        return written

    def log_mlflow(
        self, *, level: float = 0.95, report: bool = True, folder: str = "offpolicy", decision: Decision | None = None
    ) -> str:
        """Log the result to MLflow: the active run, or a run of its own.

        Settings become parameters (``offpolicy.seed``), numbers metrics (``new/DML/value``, ``…/low``),
        verdicts tags (``offpolicy.verdict.new``); the JSON and the report become artifacts. Where it goes is
        MLflow's business: ``mlflow.set_tracking_uri(…)`` or MLFLOW_TRACKING_URI. Needs the extra ``mlflow``.

        Parameters
        ----------
        level : float
            Of the intervals.
        report : bool
            Whether to make the HTML report too.
        folder : str
            Of the artifacts.
        decision : Learned or Selection, optional
            What was decided from this evaluation: its numbers, tags and files (a tree as JSON and SQL) go along.

        Returns
        -------
        str
            The run's id.
        """
        return str(door("mlflow")(self, level=level, report=report, folder=folder, decision=decision))

    @checks_arguments
    def learning_curve(self, estimator: str | None = None, level: float = 0.95) -> Any:
        """What each learner of `offpolicy.replay` earned block by block, as a frame."""
        return door("learning curve")(self, estimator, level)

    @checks_arguments
    def plot(
        self,
        kind: str = "forest",
        *,
        ax: Any = None,
        policy: str | None = None,
        segments: Sequence[str | int] | str | int | None = None,
        level: float = 0.95,
    ) -> Any:
        """Draw one picture with matplotlib and return its axes, to restyle or save.

        Parameters
        ----------
        kind : str
            "forest", "differences", "weights", "overlap", "batches", "calibration", "clipping",
            "segments", "horizon" or, of slates, "positions"; "pareto" for two metrics against each other.
        ax : matplotlib Axes, optional
            Where to draw; default: new axes.
        policy : str, optional
            Whose picture, for kinds that show one policy; may be left out when there is one policy.
        segments : column names, optional
            Columns of the "segments" picture.
        level : float
            Level of the intervals.
        """
        return door("plot")(self, kind, ax=ax, policy=policy, segments=segments, level=level)

    @printable
    def __repr__(self) -> str:
        return str(door("text")(self))

    def _repr_html_(self) -> str:
        return str(door("notebook")(self))


def _unpacked(data: bytes) -> Evaluation:
    made = object.__new__(Evaluation)
    vars(made).update(unpacked(data), _known=WeakValueDictionary(), _kept={})
    return made
