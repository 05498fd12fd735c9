"""`Trials`: what a ratio may try on a log before the question is answered, on the same units, folds and fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from offpolicy.evaluation.estimates import CUT, Estimates
from offpolicy.evaluation.passes import prepare
from offpolicy.inference.intervals.tails import effective_size
from offpolicy.inference.score_table import ScoreTable
from offpolicy.trust.check import Tried
from offpolicy.trust.view import View

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from offpolicy.evaluation.problem import Problem
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator


@dataclass(frozen=True, eq=False)
class Trials:
    """A problem before what it is to be is settled; see `offpolicy.trust.check.Trials`."""

    problem: Problem
    estimators: Sequence[Estimator]
    behavior: Any

    @property
    def log(self) -> Any:
        """The log as it was opened."""
        return self.problem.store.log

    @property
    def kept(self) -> dict[Any, Any]:
        """What was decided before, by key."""
        return self.problem.store.chosen

    def key(self, *what: Any) -> tuple[Any, ...]:
        """What a decision about something depends on."""
        return (*what, *self.problem.facets("crossfit"))

    def token(self, policy: Any) -> Any:
        """A policy as a part of keys."""
        return self.problem.store.tokens.of(policy)

    def names(self, targets: Mapping[str, Target]) -> list[tuple[str, Any]]:
        """Policies as parts of keys."""
        return [(name, self.problem.keys.policies[name]) for name in targets]

    def views(self, targets: Mapping[str, Target], probe: Estimator) -> dict[str, View]:
        """Policies with all that one estimator needs."""
        everyone = list(targets.values())
        prepare(self.problem, everyone, [probe])
        self.problem.need(self.problem.names.of(everyone, [probe], 0))
        return {name: View.of(self.problem, target) for name, target in targets.items()}

    def run(self, policies: dict[str, Any], probes: Sequence[Estimator]) -> dict[str, Tried]:
        """Estimates of some policies and of all that they try beside themselves."""
        problem, probes = self.problem, list(probes)
        widest = list(problem.resolve(policies).values())
        prepare(problem, widest, probes)
        resolved = {t.name: t for target in widest for t in target.all}
        made = Estimates(problem, ScoreTable(problem.units)).run(resolved, probes, closes=False)
        return {
            name: Tried(
                {probe.name: made[name, probe.name] for probe in probes},
                effective_size(problem.columns["pi_e", name], None),
                problem.reach(target).cut_share > CUT,
            )
            for name, target in resolved.items()
        }

    def adopt(self, renamed: Mapping[str, tuple[str, Any]], tried: set[str]) -> None:
        """Keep what a stream predicted for some trials under {new: (old, policy)} names, and let go of all trials."""
        problem, reaches, known = self.problem, ("full", "half"), self.problem.store.targets
        sums, columns = problem.summed, problem.columns
        for new, (old, policy) in renamed.items():
            problem.keys.policies[new] = self.token(policy)
            if problem.streams:  # no further pass is needed for these
                for name in list(columns):
                    if isinstance(name, tuple) and name[-1] == old:
                        columns.alias((*name[:-1], new), name)
                for which in reaches:
                    sums["reach", which, new] = sums["reach", which, old]
        columns.drop(lambda name: isinstance(name, tuple) and name[-1] in tried)
        for trial in tried:
            for which in reaches:
                sums.pop(("reach", which, trial))
            problem.policies.pop(trial, None)
            problem.targets.pop(trial, None)
        for key in [key for key in known if key[0] in tried]:
            del known[key]
