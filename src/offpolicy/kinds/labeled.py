"""`Labeled`: a reward that few rows have, such as a human label, beside proxies that all have, such as a judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import DataError, UsageError
from offpolicy.kinds.seen_in_part import PseudoRewards, SeenInPart, predicted, refuse_copies
from offpolicy.logs import checks
from offpolicy.logs.outcome import named_columns
from offpolicy.models.fitting.store import BEHAVIOR, seed_of
from offpolicy.models.rewards.auto import LinearReward
from offpolicy.models.rewards.reward import ConstantReward, RewardData

if TYPE_CHECKING:
    from offpolicy._arrays import Floats, Ints
    from offpolicy.logs.outcome import Given
    from offpolicy.models.rewards.reward import FittedReward

KNOWN = "assumes that rows were labeled with the given probabilities"
FITTED = "assumes that whether a row was labeled depends only on its context, its action{proxies}"
REMEDY = "Draw the rows to label at random and give the probability: Labeled(…, probability=…)."


@checks_arguments
@dataclass(frozen=True, eq=False)
class Labeled:
    """A reward that is missing where nobody labeled the row.

    Labels correct what the proxies say, so that a biased judge does not bias the estimate. How much the proxies count
    is chosen by variance: a useless judge costs nothing.

    Parameters
    ----------
    proxies : list of column names, frame or (n, p) array, optional
        What every row shows after its action: the scores of one judge or of several, early metrics. Missing values
        are allowed. None: labels alone.
    probability : column name, number, (n,) array or None
        Probability with which a row was labeled, where it is known; None: fitted.
    model : learner, "auto" or "given", optional
        Predicts the label from context, action and proxies; "given": the first proxy is that prediction, made
        elsewhere. Default: the reward model of the evaluation, else "auto".

    Examples
    --------
    >>> import numpy as np, offpolicy as op
    >>> rng = np.random.default_rng(0)
    >>> action = rng.integers(2, size=2000)
    >>> truth = rng.binomial(1, 0.4 + 0.2 * action)
    >>> judge = np.where(rng.random(2000) < 0.8, truth, 1 - truth)
    >>> label = np.where(rng.random(2000) < 0.25, truth, np.nan)
    >>> outcome = op.Labeled(proxies=judge, probability=0.25)
    >>> log = op.BanditLog.from_arrays(None, action, label, np.full(2000, 0.5), outcome=outcome)
    >>> ev = op.evaluate(log, op.policies.Fixed(1), estimators=["DML"])
    >>> abs(ev["DML"].value - 0.6) < 4 * ev["DML"].std_error
    True
    """

    proxies: Any = None
    probability: Any = None
    model: Any = None

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns of the log besides the reward."""
        return named_columns(self.proxies, self.probability)

    def held(self, given: Given, reward: Floats, metric: str) -> SeenInPart:
        """What a log holds of this outcome."""
        seen = ~np.isnan(reward)
        if not seen.any():
            raise DataError(f"column {metric!r} is missing in every row, so there is no label to learn from.")
        checks.check(reward[seen], metric, "reward")
        proxies = given.table(self.proxies, "proxies")
        refuse_copies(proxies, seen, reward, metric)
        if isinstance(self.model, str) and self.model == "given" and proxies is None:
            raise UsageError("model='given' uses the first proxy as the prediction. Name it: proxies=[…].")
        chance: Fitted | Known = Fitted()
        words, remedy = FITTED.format(proxies="" if proxies is None else " and its proxies"), REMEDY
        if self.probability is not None:
            p = given.numbers(self.probability, "probability")
            column = self.probability if isinstance(self.probability, str) else "probability"
            chance = Known(checks.check(p, column, "probability of a label", "propensity"))
            words, remedy = KNOWN, ""
        rewards = np.where(seen, reward, 0.0)
        return SeenInPart(seen, rewards, proxies, chance, self.model, words=words, remedy=remedy)


@dataclass(frozen=True, eq=False)
class Known:
    """Probabilities of labels as they were given."""

    values: Floats

    def take(self, rows: Ints) -> Known:
        """The same for some rows."""
        return Known(self.values[rows])

    def probability(self, settled: PseudoRewards, rows: Ints, key: tuple[Any, ...]) -> Floats:
        """(n,) e of all rows."""
        return self.values


@dataclass(frozen=True, eq=False)
class Fitted:
    """Probabilities of labels fitted on (S, A, J)."""

    def take(self, rows: Ints) -> Fitted:
        """The same for some rows."""
        return self

    def probability(self, settled: PseudoRewards, rows: Ints, key: tuple[Any, ...]) -> Floats:
        """(n,) e of all rows."""
        tables = settled.tables[-1]
        seed = seed_of(settled.seed, BEHAVIOR, (7, *key))
        return predicted(LabelModel(), tables, rows, settled.seen.astype(np.float64), tables.mass(rows), seed)


@dataclass(frozen=True)
class LabelModel:
    """One share for all rows, or a logistic regression, whichever predicts labels better."""

    wants_encoded = True
    merges_rows = True

    def fit_reward(self, data: RewardData, seed: int) -> FittedReward:
        """The regression where it gains more likelihood than its coefficients would by chance (Akaike)."""
        constant = ConstantReward(data.mean())
        if data.size < 20 or np.ptp(data.reward) == 0:
            return constant
        fit = LinearReward().fit_reward(data, seed)
        gain = _log_loss(np.full(len(data.reward), data.mean()), data) - _log_loss(
            fit.predict(data.X, data.action), data
        )
        coefficients = (data.X.matrix.shape[1] + 1) * max(len(data.actions), 1) - 1
        return fit if gain * data.size > coefficients else constant


def _log_loss(p: Floats, data: RewardData) -> float:
    p = np.clip(p, 1e-9, 1 - 1e-9)
    return float(np.average(-np.log(np.where(data.reward == 1, p, 1 - p)), weights=data.weight))
