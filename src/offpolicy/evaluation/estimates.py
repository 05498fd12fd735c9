"""From columns to a table of scores, and from scores to estimates, written once for every kind of log."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._progress import FITTING, track
from offpolicy.columns.keys import smoothed_for
from offpolicy.errors import NotIdentifiedError
from offpolicy.evaluation import passes
from offpolicy.evaluation.evidence import (
    NO_OVERLAP,
    NO_SPREAD,
    NO_SURVIVOR,
    evidence_columns,
    is_constant,
    model_notes,
    residual,
    smoothing_note,
    spread_note,
)
from offpolicy.inference.estimate import EDGE, INTERIOR, Estimate
from offpolicy.inference.expression import Smoothed
from offpolicy.inference.score_table import Affine, EvidenceColumns, ScoreTable, embedded
from offpolicy.scores import catalog
from offpolicy.scores.decisions import Ledger
from offpolicy.trust.ratios import bent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from offpolicy._arrays import Floats
    from offpolicy.evaluation.problem import Problem
    from offpolicy.policies.target import Target
    from offpolicy.scores.catalog import Estimator
    from offpolicy.splits.folds import Split

TURNS: tuple[Split, ...] = ("full", "crossfit", "half")
CUT = 0.01  # share of the target's mass whose window is cut from which on it counts
MOST_PASSES = 8


def _turn(estimator: Estimator) -> tuple[bool, int]:
    """When an estimator comes, so that little waits for a fit on another thread.

    The half-sample split comes after the cross-fitted one, whose predictions it takes over with two folds.
    """
    return "value" in estimator.needs, TURNS.index(estimator.split)


@dataclass(frozen=True, eq=False)
class Estimates:
    """Makes the estimates of one problem over a table of scores."""

    problem: Problem
    table: ScoreTable

    def run(
        self, targets: dict[str, Target], estimators: Sequence[Estimator], *, closes: bool = True
    ) -> dict[tuple[str, str], Estimate]:
        """Every policy by every estimator; ``closes`` says that no more fits are needed afterwards."""
        p, order, everyone = self.problem, sorted(estimators, key=_turn), list(targets.values())
        try:
            passes.prepare(p, everyone, order)
            self.logged()  # puts the column of rewards into the table
            made = {}
            with (
                track("estimates", len(order) * len(everyone)) as advance,
                track(FITTING, passes.unfitted(p, p.names.of(everyone, order))),
            ):
                for estimator in order:
                    for name, target in targets.items():
                        made[name, estimator.name] = self._estimated(target, estimator, everyone)
                        advance(note=f"{name} by {estimator.name}")
        finally:
            if closes:
                passes.close(p)
        return self._referred(made, targets, estimators)

    def _referred(
        self, made: dict[tuple[str, str], Estimate], targets: dict[str, Target], estimators: Sequence[Estimator]
    ) -> dict[tuple[str, str], Estimate]:
        """The estimates in the order asked for; those with a bias refer to one whose interval covers."""
        known, sound = self.problem.weights_known, [e for e in estimators if e.is_robust]
        lead = catalog.headline(sound).name if sound else None
        out = {}
        for e in estimators:
            why = e.why_biased(weights_known=known)
            if not why and not known and not e.is_robust and e.needs == catalog.BEHAVIOR:
                # Weights alone stand or fall with the fitted π_b; where a model speaks as well, it is heard.
                why = "" if lead is None else catalog.FITTED
            for name in targets:
                estimate = made[name, e.name]
                if why:
                    reference = None if lead is None else made[name, lead]
                    estimate = replace(estimate, bias=why, reference=reference)
                out[name, e.name] = estimate
        return out

    def logged(self) -> Estimate:
        """The logging policy's own value: the mean of Σ γ^t R_t."""
        p, table = self.problem, self.table
        if p.earning not in table.columns:
            layout, reward = p.log.layout, p.log.reward
            total = layout.sum(np.power(p.discount, layout.step) * reward) + layout.surplus(reward)
            table.put(p.earning, np.asarray(total))
        if "one" not in table.columns:
            table.put("one", np.ones(p.units.n_rows))
        left, plain = residual(p, table, None), p.units.are_plain
        evidence = EvidenceColumns("one", p.earning, 1.0, is_product=True, residual=left, is_plain=plain)
        label = f"logged {p.label}".rstrip()
        return Estimate(table, (Affine.column(p.earning),), label, evidence=evidence, reward=p.earning)

    def _key(self, target: str, estimator: Estimator) -> tuple[Any, ...]:
        """All that an estimate depends on."""
        p = self.problem
        return (target, p.keys.policies.get(target), estimator, *p.facets(estimator.split))

    def _draws(self, split: Split) -> int:
        """How often folds were drawn for a split; a full-sample estimate uses none."""
        return 1 if split == "full" else self.problem.repeats

    def _estimated(self, target: Target, estimator: Estimator, together: Sequence[Target]) -> Estimate:
        """The estimate, made once for all questions that are alike in what it depends on."""
        store = self.problem.store
        if self.table is not store.table:
            return self.estimate(target, estimator, together)
        made, key = store.estimates, (
            self.problem.label, self._draws(estimator.split), *self._key(target.name, estimator)
        )  # fmt: skip
        if key not in made:
            made[key] = self.estimate(target, estimator, together)
        estimate: Estimate = made[key]
        return estimate

    def estimate(self, target: Target, estimator: Estimator, together: Sequence[Target]) -> Estimate:
        """One policy by one estimator; what models predict for it is predicted for the others ``together``."""
        p, table = self.problem, self.table
        repeats, half = self._draws(estimator.split), estimator.split == "half"
        label = f"{target.name} ({estimator.name})"
        label = f"{p.label} of {label}" if p.label else label
        target = smoothed_for(target, estimator)
        rows: list[Affine] = []
        models: list[Any] = []
        notes: list[str] = [*p.log.notes, *p.store.notes]
        scored = evidence = None
        for repeat in range(repeats):
            try:
                # Where each policy has models of its own, one that fails must not take the others with it.
                everyone = [] if p.fits_by_policy else [t for t in together if t is not target]
                p.need(p.names.of([target, *everyone], [estimator], repeat))
                psi, note, model = self._scores(target, estimator, repeat)
            except NotIdentifiedError as error:
                # One estimator that a horizon defeats must not take the others with it.
                nothing, said = Affine(math.nan, ()), tuple(dict.fromkeys([*notes, str(error)]))
                return Estimate(table, (nothing,), label, said, reward=p.earning)
            notes += [note] if note else []
            notes += model_notes(p, target, estimator, repeat)
            if half:
                psi, mask = embedded(psi, p.units, np.flatnonzero(p.folds.half[repeat]))
                scored = ("scored", p.keys(("half", repeat)))
                if scored not in table.columns:
                    table.put(scored, mask)
            if evidence is None and (not half or repeats == 1):
                evidence = evidence_columns(self, target, estimator, repeat, scored)
            name = ("psi", *self._key(target.name, estimator), repeat)
            table.put(name, psi)
            rows.append(Affine.column(name))
            if model is not None and not half and p.weights_known:
                models.append(("model", *name[1:]))
                table.put(models[-1], model)
        estimate = Estimate(
            table,
            tuple(rows),
            label,
            tuple(dict.fromkeys(notes)),
            scored if repeats == 1 else None,
            evidence,
            reward=p.earning,
            shares_means=not estimator.linear_in_reward,
            models=tuple(models) if len(models) == repeats else (),
        )
        if target.smoothing.finer is not None and "behavior" in estimator.needs:
            estimate = self._with_finer(estimate, target, target.smoothing.finer, estimator, notes)
        said_last = spread_note(estimate)
        if "value" in estimator.needs and not p.log.layout.is_single and is_constant(estimate):
            said_last.append(NO_SPREAD)
        return replace(estimate, notes=(*estimate.notes, *said_last))

    def _with_finer(
        self, estimate: Estimate, target: Target, half: Target, estimator: Estimator, notes: list[str]
    ) -> Estimate:
        """The estimate beside that with half the bandwidth, by which the bias of the bandwidth is judged."""
        finer = self.estimate(half, estimator, [half])
        cut, broken = self.problem.reach(target).cut_share, bent(self.problem, target, estimator)
        # At a corner, as at the end of the range, the bias grows with the window and not with its square: half the
        # change of slope times how far the window reaches on average.
        cornered = broken is not None and broken.kind == "corner"
        estimate = replace(
            estimate,
            smoothed=Smoothed(
                finer,
                EDGE if cornered or cut > CUT else INTERIOR,
                broken.size / 2 * target.smoothing.mean_distance if broken and cornered else 0.0,
            ),
        )
        notes = [*notes, smoothing_note(estimate, target, cut)]
        return replace(estimate, notes=tuple(dict.fromkeys(notes)))

    # -- scores --------------------------------------------------------------------------------------

    def _scores(self, target: Target, estimator: Estimator, repeat: int) -> tuple[Floats, str, Any]:
        """(N,) scores of the units that a split scores, what the score has to say, and its model."""
        p, single = self.problem, self.problem.log.layout.is_single
        truncated = 0 if single else len(p.log.bootstrapped)
        if truncated and "value" not in estimator.needs:
            raise NotIdentifiedError(
                f"{truncated:,} episodes were truncated, and weights alone cannot fill in later rewards. Use an "
                "estimator with a value model, or truncated='cut'."
            )
        if "behavior" in estimator.needs and not self._overlaps(target):
            size = int(p.folds.half[repeat].sum()) if estimator.split == "half" else p.units.n_rows
            return np.full(size, math.nan), NO_OVERLAP, None
        if p.by_rows and p.columns.blocks > 1 and estimator.by_block:
            return scores_by_block(p, target, estimator, repeat), "", None
        d = p.gathered(target, estimator, repeat)
        scores = catalog.apply(estimator, d if estimator.counts else d.unfolded())
        said, key = p.store.said, self._key(target.name, estimator)
        said["blend", *key] = (scores.products, scores.looks_back)
        said["model share", *key, repeat] = scores.model_share
        if d.is_counted and not estimator.counts:
            # Units that are alike in all that a score may look at have one score.
            first = np.concatenate([[0], np.cumsum(np.rint(d.count).astype(np.int64))[:-1]])
            scores = replace(scores, psi=scores.psi[first])
        if not single and np.isnan(scores.psi).all() and not scores.note:
            return scores.psi, NO_SURVIVOR, scores.model
        return scores.psi, scores.note, scores.model

    def model_share(self, target: Target, estimator: Estimator, repeat: int) -> float:
        """How much of a reward model's predictions a score takes from the rewards."""
        key = ("model share", *self._key(target.name, estimator), repeat)
        return float(self.problem.store.said.get(key, 1.0))

    def _overlaps(self, target: Target) -> bool:
        cache, key = self.problem.cache, ("overlaps", target.name)
        if key not in cache:
            cache[key] = bool(self.problem.columns[("pi_e", target.name)].any())
        overlaps: bool = cache[key]
        return overlaps


def scores_by_block(p: Problem, target: Target, estimator: Estimator, repeat: int) -> Floats:
    """Scores of one block after another, in passes until every mean is the whole log's."""
    known: list[float] = []
    for _ in range(MOST_PASSES):
        parts: list[Floats] = []
        asked: list[list[tuple[float, float]]] = []
        for block in range(p.columns.blocks):
            d = p.gathered(target, estimator, repeat, block)
            if d.n == 0:
                continue
            ledger = Ledger(known)
            parts.append(catalog.apply(estimator, replace(d, ledger=ledger)).psi)
            asked.append(ledger.asked)
        means = _means(asked)
        settled = len(means) == len(known) and np.allclose(means, known, rtol=1e-13, atol=0.0, equal_nan=True)
        if not estimator.whole_log_means or settled:
            return np.concatenate(parts)
        known = means
    raise AssertionError(f"the means that {estimator.name} asks for did not settle.")


def _means(asked: list[list[tuple[float, float]]]) -> list[float]:
    """Means over all blocks, in the order in which a score asked for them."""
    longest = max((len(each) for each in asked), default=0)
    means = []
    for place in range(longest):
        pairs = [each[place] for each in asked if place < len(each)]
        total, mass = (math.fsum(x) for x in zip(*pairs, strict=True))
        means.append(total / mass if mass else math.nan)
    return means
