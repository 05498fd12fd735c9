"""`Evaluation`: estimates by (policy, estimator), what they rest on, and ways to show them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._doors import door
from offpolicy._progress import track
from offpolicy._visible import printable
from offpolicy.errors import (
    PolicyError,
    UnknownNameError,
    UsageError,
    did_you_mean,
    missing_dependency,
)
from offpolicy.evaluation import position_values as positions
from offpolicy.evaluation import ranking
from offpolicy.evaluation import returns as distributions
from offpolicy.evaluation import step_curves as curves_by_step
from offpolicy.evaluation import value_curve as curves
from offpolicy.evaluation.bandwidths import smoothed
from offpolicy.evaluation.combined import checked_weights
from offpolicy.evaluation.metrics import Asked
from offpolicy.evaluation.pipeline import combined
from offpolicy.logs.metrics import check_metric
from offpolicy.policies import target as targets
from offpolicy.policies.learned import aimed
from offpolicy.scores.catalog import headline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from offpolicy.evaluation.pipeline import Pipeline
    from offpolicy.evaluation.shown import Decision, Origin
    from offpolicy.inference.comparison import Comparison
    from offpolicy.inference.estimate import Estimate
    from offpolicy.inference.pareto import Pareto
    from offpolicy.logs.log import Log
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

    problem: Pipeline
    targets: dict[str, Target]
    estimators: list[Estimator]
    estimates: dict[tuple[str, str], Estimate]
    settings: dict[str, Any]
    asked: Asked
    origin: Origin | None = None
    redraw: Callable[..., Evaluation] | None = None
    added: dict[str, Any] = field(default_factory=dict)
    root: Evaluation | None = None
    remake: Callable[[Evaluation], Evaluation] | None = None
    replayed: Any = None

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
        'assumes that nothing but the context columns moved both the action and the reward'
        """
        from offpolicy.trust.assumption import assumption

        return assumption(self)

    @cached_property
    def logged(self) -> Estimate:
        """Estimate of the logging policy's own value."""
        return self.problem.logged()

    def __getitem__(self, key: tuple[str, str] | str) -> Estimate:
        """``ev["policy", "DML"]``; with a single policy ``ev["DML"]`` will do."""
        if isinstance(key, str):
            if len(self.targets) != 1:
                raise UsageError(
                    f"name the policy as well: ev[policy, {key!r}]. Policies: {self.policies}."
                )
            key = (self.policies[0], key)
        if key not in self.estimates:
            policy, estimator = key
            if policy not in self.targets:
                raise UnknownNameError(
                    f"no policy is called {policy!r}.{did_you_mean(policy, self.targets)}"
                )
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
        return str(self.settings.get("metric", self.asked.names[0]))

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
        if self.root is not None:
            return self.root.metric(name)
        check_metric(name, self.asked.names)
        if name == self.metric_name:
            return self
        if name not in self._by_metric:
            self._by_metric[name] = self._of_metric(name)
        return self._by_metric[name]

    @cached_property
    def _by_metric(self) -> dict[str, Evaluation]:
        return {}

    def _of_metric(self, name: str) -> Evaluation:
        model = self.asked.models[name]
        problem = self.problem.with_reward(name, model)
        which = "reward_model" if self.settings["value_model"] is None else "value_model"
        settings = {
            **self.settings,
            which: describe(model),
            "minimize": name in self.asked.minimized,
            "metric": name,
        }
        return replace(
            self,
            problem=problem,
            estimates=problem.run(self.targets, self.estimators),
            settings=settings,
            redraw=None if self.redraw is None else partial(self.redraw, metric=name),
            root=self,
            remake=lambda root: root.metric(name),
        )

    @checks_arguments
    def combine(
        self, weights: Mapping[str, float], *, name: str = "combination", minimize: bool = False
    ) -> Evaluation:
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
        if self.root is not None:
            return self.root.combine(weights, name=name, minimize=minimize)
        given = checked_weights(weights, self.metrics, name)
        problem = combined([(w, self.metric(m).problem) for m, w in given.items()], name)

        def again(root: Evaluation) -> Evaluation:
            return root.combine(given, name=name, minimize=minimize)

        def redraw(*call: Any, **how: Any) -> Evaluation:
            assert self.redraw is not None
            return again(self.redraw(*call, **how))

        return replace(
            self,
            problem=problem,
            estimates=problem.run(self.targets, self.estimators),
            settings={**self.settings, "metric": name, "weights": given, "minimize": minimize},
            asked=Asked((name,), (name,) if minimize else (), {name: None}),
            redraw=None if self.redraw is None else redraw,
            root=self,
            remake=again,
        )

    @checks_arguments
    def add(self, policies: Any) -> Evaluation:
        """Evaluate more policies with the models already fitted; nothing is refitted."""
        if self.root is not None and self.remake is not None:
            return self.remake(self.root.add(policies))
        source = self.problem.source
        named = targets.named_policies(policies, of_numbers=source.log_is_continuous)
        for name in named:
            if name in self.targets:
                raise PolicyError(f"a policy called {name!r} is here already. Choose another name.")
        if source.log_is_continuous:
            named = smoothed(source, source.adapted(named), self.estimators)
        new = source.resolve(aimed(source.adapted(named), lowest=self.minimize))
        estimates = {**self.estimates, **self.problem.run(new, self.estimators)}
        return replace(
            self,
            targets={**self.targets, **new},
            estimates=estimates,
            added={**self.added, **named},
        )

    @checks_arguments
    def instead(self, policies: Any) -> Evaluation:
        """Other policies in place of these, with the models already fitted."""
        if self.root is not None and self.remake is not None:
            return self.remake(self.root.instead(policies))
        return replace(self, targets={}, estimates={}, added={}).add(policies)

    def redrawn(
        self, repeats: int, estimator: str | None = None, *, seed: int | None = None
    ) -> Evaluation | None:
        """The same with folds drawn several times, for the estimator that speaks (or ``estimator``).

        Models are fitted anew for every draw. ``estimate.fold_spread`` of the result says how far an estimate moves
        from draw to draw. ``seed`` is that of the draws, the evaluation's own where not given. None where folds were
        not drawn but given, or π_b was exchanged after the fact.
        """
        if self.redraw is None:
            return None
        named = {e.name: e for e in self.estimators}
        chosen = headline(self.estimators) if estimator is None else named[estimator]
        key = (repeats, chosen.name, seed)
        if key not in self._redrawn:
            self._redrawn[key] = self.redraw(repeats, [chosen], self.added, other_seed=seed)
        return self._redrawn[key]

    @cached_property
    def _redrawn(self) -> dict[tuple[int, str, int | None], Evaluation]:
        return {}

    def with_behavior(self, behavior_model: Any) -> Evaluation:
        """The same policies with another π_b; what did not depend on π_b is not refitted.

        Parameters
        ----------
        behavior_model : classifier, "shares", "auto" or None
            As in `evaluate`; None uses the logged propensities.
        """
        if self.root is not None and self.remake is not None:
            return self.remake(self.root.with_behavior(behavior_model))
        problem = self.problem.with_behavior(behavior_model)
        settings = {**self.settings, "behavior_model": describe(behavior_model, self.problem.log)}
        estimates = problem.run(self.targets, self.estimators)
        return replace(self, problem=problem, estimates=estimates, settings=settings, redraw=None)

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
    def frame(self, *, backend: str | None = None, level: float = 0.95) -> Any:
        """Table of estimates as pandas (default) or polars.

        Of a log with several metrics it holds all of them, with a column ``metric``; ``ev.metric("cost").frame()``
        holds one.

        Parameters
        ----------
        backend : {"pandas", "polars"}, optional
            Kind of frame; default: polars when the log came from polars, else pandas.
        level : float
            Level of the intervals.
        """
        if backend is None:
            source = getattr(self.problem.log, "source", None)
            backend = "polars" if type(source).__module__.startswith("polars") else "pandas"
        rows = self.rows(level)
        if self.asked.are_several and self.root is None:
            rows = [
                {"metric": name, **row}
                for name in self.metrics
                for row in self.metric(name).rows(level)
            ]
        try:
            if backend == "pandas":
                import pandas as pd

                return pd.DataFrame(rows)
            if backend == "polars":
                import polars as pl

                return pl.DataFrame(rows)
        except ImportError as error:
            raise missing_dependency(backend, None, "ev.frame()") from error
        raise UsageError(f"backend= must be 'pandas' or 'polars'. Got {backend!r} instead.")

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """Overlap, weights, effective sample size and model quality, by policy."""
        from offpolicy.trust import diagnose

        declared = self.settings.get("learned_elsewhere", ())
        return diagnose(self.problem, self.targets, self.estimates, self.estimators, declared)

    @checks_arguments
    def verdict(
        self, policy: str | None = None, estimator: str | None = None, *, level: float = 0.95
    ) -> Verdict:
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
        self, expression: str, *, level: float = 0.95, estimator: str | None = None
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
        """
        from offpolicy.trust.gate import check

        return check(self, expression, level, estimator=estimator)

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

        if self.root is not None:
            return self.root.pareto(level, estimator)
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
    ) -> str:
        """Versioned JSON of everything shown, after the schema that ``offpolicy schema`` prints.

        Parameters
        ----------
        path : path, optional
            File to write.
        level : float
            Of the intervals.
        gates : sequence of GateResult
            What gates said about this result, to be kept with it.
        """
        return str(door("json")(self, path, level, gates))

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
        )
        return written

    def log_mlflow(
        self,
        *,
        level: float = 0.95,
        report: bool = True,
        folder: str = "offpolicy",
        decision: Decision | None = None,
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
        return str(
            door("mlflow")(self, level=level, report=report, folder=folder, decision=decision)
        )

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


def describe(model: Any, log: Log | None = None) -> str:
    """A model in a few words, for the settings of a result."""
    if model is None:
        known = log is not None and log.has_propensity
        return "logged propensities" if known else "auto"
    if isinstance(model, np.ndarray | list | tuple):
        return "given array"
    if isinstance(model, Mapping):
        return "given arrays"
    return model if isinstance(model, str) else repr(model).split("\n", maxsplit=1)[0][:200]
