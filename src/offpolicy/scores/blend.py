"""`auto` for episodes: a blend of DML, WDR, DRL and SNIPW by estimated mean squared error.

Products of ratios (DML, WDR) need no Markov state and no model of the ratios, and die of the horizon; ratios of
marginals (DRL) live on, and are wrong where the state is not Markov or the ratios are badly fitted. So:

- products take part where they are supported: the weights of the last step leave at least 100 effective episodes, or a
  tenth of all if that is 20, none of which carries more than a tenth, and have a mean that is 1 within a fifth. With
  fewer, the spread of their scores is no guide to their error;
- products without a model (SNIPW) take part where they vary less than those with it: there the model adds noise;
- with less support (8 effective episodes, none with more than half) products do not speak unless they contradict: where
  DRL is more than 5 standard errors from DML, which is where the check `marginal_ratios` refuses DRL, they speak alone;
- where a value model leaves less over than n episodes can tell (`Floor`), scores do not say which part is better:
  that which assumes least, DML, speaks;
- where ratios were regressed on a continuous state, DRL takes part with all the rungs of its ladder (`ladder`) that
  the log supports, the higher ones without a value model too where it adds noise, and the highest is believed in
  place of products that are not supported;
- the bias b of DRL is what its distance from the better product exceeds the distance's own error by, without the one
  episode that adds most to it, since one is no evidence. Regressed ratios are known to be somewhat wrong, and of rungs
  the next may show what the highest, which varies most, does not: theirs is the largest such excess over the better
  product and every higher rung, beyond half of the error;
- x minimizes x'(Ω + b b')x over the simplex, Ω being the covariance of the scores. The bias x'b that this accepts is
  added to the standard error: the scores keep their mean, and are spread until their variance is x'(Ω + b b')x.

The x of a fold comes from the other folds' units, so that choosing is honest: a unit's score is not weighted by itself.

Ratios of marginals that look back: between DRL, which looks back no step, and DML, which looks back to the first.

The ratio of state-action marginals at t is a mean of products, w_t = E[w_{t−k} ρ_{t−k+1} … ρ_t | S_t, A_t], ρ being the
ratio of one step. So for every k

    w^k_t = w_{t−k} ρ_{t−k+1} … ρ_t          (the product of all ratios where t < k)

may take its place in the score of DRL. What a regression of w_{t−k} got wrong has k steps to be forgotten in; what it
costs is the spread of a product of k ratios. A regression of w on a continuous state is always somewhat wrong: rungs
k = 1, 2, 4, … that the log supports say how much, and take the place of DRL where it matters.

Rewards weighted by w^k_t and normalized step by step, as SNIPW is, need no value model. Nothing then corrects what the
regression of w_{t−k} got wrong, so k is 16 at least; and where a value model adds noise they vary less than DRL does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from offpolicy._arrays import MOST_LOG
from offpolicy.scores import formulas as scores
from offpolicy.scores.decisions import LARGEST_LOG_WEIGHT
from offpolicy.scores.formulas import Scored, normalized_sum
from offpolicy.scores.tuning import Floor, floored, simplex_minimum, spread

if TYPE_CHECKING:
    from offpolicy._arrays import Bools, Floats
    from offpolicy.scores.decisions import Decisions


# Effective episodes that products of ratios must leave, as a number or as a share, and the most that one may carry.
FEWEST_EPISODES = 20.0
ENOUGH_EPISODES = 100.0
ENOUGH_SHARE = 0.1
LARGEST_SHARE = 0.1
# Steps of which less than this is left, of the target's episodes or of the logged ones, are not judged.
LEFT_OVER = 0.05
FEWEST_RUNNING = 50
# Steps in which what a regression got wrong is taken to be forgotten where no value model corrects it.
FORGOTTEN = 16
MEAN_WITHIN = 0.2
# Episodes, largest share and mean weight that still make DML a witness, if not one to rest on.
BARELY = (8.0, 0.5, 0.5)
# Standard errors between DRL and such a witness from which on DRL is not believed.
CONTRADICTED = 5.0
# Standard errors of the distance that are no sign of bias: of counted ratios, and of regressed ones.
NOISE = 1.0
LITTLE_NOISE = 0.5
MODELED = {"DML": scores.doubly_robust, "WDR": scores.self_normalized_dr}
PRODUCTS = {**MODELED, "SNIPW": scores.self_normalized}
LOST = "the data do not support products of ratios at this horizon"


def products_supported(
    d: Decisions, fewest: float | None = None, largest: float = LARGEST_SHARE, within: float = MEAN_WITHIN
) -> bool:
    """Whether the weights of whole episodes leave enough of the log to rest an estimate on."""
    if fewest is None:
        fewest = enough_episodes(d.size)
    logs = d.log_weight
    highest = float(logs.max(initial=-np.inf))
    if not -np.inf < highest <= LARGEST_LOG_WEIGHT:
        return False
    weight = d.mass * np.exp(logs - highest)
    total = float(weight.sum())
    mean = float(np.exp(highest)) * total / float(d.mass.sum())
    effective = total**2 / float((weight**2).sum())
    return bool(effective >= fewest and float(weight.max()) / total <= largest and abs(mean - 1) <= within)


def products(d: Decisions) -> dict[str, Floats]:
    """The scores of products of ratios: with a value model, and without where that varies less than either."""
    made = {name: score(d) for name, score in MODELED.items()}
    if d.whole:
        plain = PRODUCTS["SNIPW"](d)
        if spread(d, plain) < min(spread(d, psi) for psi in made.values()):
            made["SNIPW"] = plain
    return made


def contradicted(d: Decisions, marginal: Floats, robust: Floats) -> bool:
    """Whether products of ratios, if barely supported, say that ratios of marginals are wrong."""
    if not (np.isfinite(robust).all() and products_supported(d, *BARELY)):
        return False
    gap, size = marginal - robust, float(d.mass.sum())
    mean = float(gap @ d.mass) / size
    return bool(abs(mean) * size > CONTRADICTED * float(np.sqrt(d.mass**2 @ (gap - mean) ** 2)))


def candidates(d: Decisions, floor: Floor | None) -> tuple[dict[str, Floats], str]:
    """The scores that take part, by name, what is believed last; and why where it is not all of them."""
    if d.marginal is None:
        return {name: score(d) for name, score in MODELED.items()}, ""
    supported = products_supported(d)
    rungs = with_plain(d, ladder(d)) if d.regressed else [Rung(0, scores.marginalized(d))]
    marginal = {rung.name: rung.psi for rung in rungs}
    if supported:
        made = {**marginal, **products(d)}
        if floor is not None and all(floor.is_above(d, psi) for psi in made.values()):
            return {"DML": made["DML"]}, ""
        return made, ""
    if len(rungs) > 1:
        return marginal, LOST
    robust = np.full(d.n, np.nan)
    if products_supported(d, *BARELY):
        robust = scores.doubly_robust(d)
    if contradicted(d, rungs[0].psi, robust):
        why = "DRL disagrees with products of ratios, which few episodes support"
        return {"DML": robust, "WDR": scores.self_normalized_dr(d)}, why
    return marginal, LOST


def blended(d: Decisions) -> Scored:
    """Σ_j x_j ψ_j over the parts that these data support."""
    floor = Floor.of(d)
    parts, why = candidates(d, floor)
    names = [name for name, psi in parts.items() if np.isfinite(psi).all()]
    if not names:
        return Scored(np.full(d.n, np.nan))
    table = np.stack([parts[name] for name in names])
    noise = LITTLE_NOISE if d.regressed else NOISE
    shares = np.zeros((len(names), d.n))
    accepted = np.zeros(d.n)
    folds = np.zeros(d.n, dtype=np.int64) if d.fold is None else d.fold
    for fold in np.unique(folds):
        others = folds != fold
        if not others.any():
            others = np.ones(d.n, dtype=bool)
        x, bias = _weights(table, names, d.mass, others, noise)
        shares[:, folds == fold] = x[:, None]
        accepted[folds == fold] = x @ bias
    mean = shares @ d.mass / d.mass.sum()
    said = ", ".join(f"{names[j]} {mean[j]:.0%}" for j in np.argsort(-mean) if mean[j] > 0.005)
    note = f"blend by estimated mean squared error: {said}"
    by_name = dict(zip(names, mean, strict=True))
    by_products = float(sum(x for name, x in by_name.items() if name in PRODUCTS))
    back = float(sum(x for name, x in by_name.items() if name not in {*PRODUCTS, "DRL"}))
    psi, allowed = _stretched(d, (shares * table).sum(axis=0), float(accepted @ d.mass / d.mass.sum()))
    psi, missed = floored(d, psi, floor)
    said = "; ".join(text for text in (note, why, allowed, missed) if text)
    return Scored(psi, said, by_products, looks_back=back)


def _stretched(d: Decisions, psi: Floats, bias: float) -> tuple[Floats, str]:
    """Scores of the same mean whose standard error allows for a bias, and what was done."""
    size = float(d.mass.sum())
    mean = float(psi @ d.mass) / size
    variance = float(d.mass**2 @ (psi - mean) ** 2) / size**2
    if bias == 0 or variance == 0:
        return psi, ""
    factor = float(np.sqrt(1 + bias**2 / variance))
    return mean + factor * (psi - mean), f"the standard error allows for a bias of {bias:.2g}"


def _weights(table: Floats, names: list[str], mass: Floats, members: Bools, noise: float) -> tuple[Floats, Floats]:
    """The x of smallest x'(Ω + b b')x, from some units, and b."""
    bias = np.zeros(len(names))
    psi, m = table[:, members], mass[members]
    total = float(m.sum())
    means = psi @ m / total
    centered = (psi - means[:, None]) * m / total
    covariance = centered @ centered.T
    believed = [i for i, name in enumerate(names) if name in PRODUCTS] or [len(names) - 1]
    best = min(believed, key=lambda i: covariance[i, i])
    rungs = [i for i, name in enumerate(names) if name not in PRODUCTS]
    if not (m < total).all():  # one unit is all there is, and no evidence of bias
        return simplex_minimum(covariance), bias
    for j in set(rungs) - set(believed):
        for k in {best, *rungs[rungs.index(j) + 1 :]}:
            gap = means[j] - means[k]
            apart = centered[j] - centered[k]
            largest = float(np.max(np.sign(gap) * apart / (1 - m / total)))
            excess = abs(gap) - noise * (float(np.sqrt(apart @ apart)) + largest)
            bias[j] = max(bias[j], excess)
    return simplex_minimum(covariance + np.outer(bias, bias)), bias


def enough_episodes(n: float) -> float:
    """Effective episodes that an estimate by products may rest on: 100, or a tenth of all if that is 20.

    >>> enough_episodes(5000.0), enough_episodes(400.0), enough_episodes(50.0)
    (100.0, 40.0, 20.0)
    """
    return max(FEWEST_EPISODES, min(ENOUGH_EPISODES, ENOUGH_SHARE * n))


@dataclass(frozen=True, eq=False)
class Rung:
    """The score of DRL with ratios that look back k steps, or of these ratios without a value model."""

    steps: int
    psi: Floats
    modeled: bool = True

    @property
    def name(self) -> str:
        """What the notes of an estimate call it."""
        kind = "DRL" if self.modeled else "SNIPW"
        if self.steps == 0:
            return kind
        return f"{kind} looking {self.steps} step{'s' if self.steps > 1 else ''} back"


def ratios_back(d: Decisions, k: int) -> Floats:
    """(S,) w_{t−k} times the ratios of the k steps up to t.

    >>> from offpolicy.logs.layout import Layout
    >>> from offpolicy.scores.decisions import Decisions
    >>> half, one = np.full(3, 0.5), np.ones(3)
    >>> d = Decisions(Layout.ragged([3]), one, one, half, one, one, marginal=np.array([2.0, 3.0, 5.0]))
    >>> ratios_back(d, 1).round(9).tolist(), ratios_back(d, 3).round(9).tolist()
    ([2.0, 4.0, 6.0], [2.0, 4.0, 8.0])
    """
    assert d.marginal is not None
    row = np.arange(d.layout.n_steps)
    reaches = d.layout.step >= k
    earlier = np.where(reaches, row - k, row)
    with np.errstate(invalid="ignore"):  # −∞ − (−∞): no weight before, none after
        since = np.where(reaches, d.log_rho - d.log_rho[earlier], d.log_rho)
    product = np.exp(np.minimum(np.where(np.isnan(since), -np.inf, since), MOST_LOG))
    return np.where(reaches, d.marginal[earlier], 1.0) * product


def is_supported(d: Decisions, ratio: Floats) -> bool:
    """Whether at every step the ratios leave enough episodes, none of which carries too much."""
    size = float(d.mass.sum())
    for _, units, rows in d.layout.by_step():
        weight = d.mass[units] * ratio[rows]
        total = float(weight.sum())
        if len(units) < FEWEST_RUNNING or total < LEFT_OVER * size:
            continue
        effective = total**2 / float((weight**2).sum())
        if effective < enough_episodes(d.size) or float(weight.max()) / total > LARGEST_SHARE:
            return False
    return True


def ladder(d: Decisions) -> list[Rung]:
    """DRL, then the scores that look back 1, 2, 4, … steps, as far as the log supports them."""
    rungs = [Rung(0, scores.marginalized(d))]
    k = 1
    while k < d.layout.horizon:
        ratio = ratios_back(d, k)
        if not is_supported(d, ratio):
            break
        rungs.append(Rung(k, scores.marginalized(replace(d, marginal=ratio))))
        k *= 2
    return rungs


def with_plain(d: Decisions, rungs: list[Rung]) -> list[Rung]:
    """The rungs, those of `FORGOTTEN` steps and more after the same without a value model where that varies less."""
    made = []
    for rung in rungs:
        if d.whole and rung.steps >= FORGOTTEN:
            plain = normalized(d, ratios_back(d, rung.steps))
            if spread(d, plain) < spread(d, rung.psi):
                made.append(Rung(rung.steps, plain, modeled=False))
        made.append(rung)
    return made


def normalized(d: Decisions, ratio: Floats) -> Floats:
    """ψ linearizes Σ_t γ^t Σ_i w_it R_it / Σ_i w_it, an episode keeping its last ratio after its end."""
    with np.errstate(divide="ignore"):
        logs = np.log(ratio)
    return normalized_sum(d, d.reward, np.zeros(d.layout.n_steps), logs)
