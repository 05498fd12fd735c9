"""LightGBM on encoded contexts: the built-in tree model, and the paper's tuned procedure.

Section 5.2: split the data into a training and a validation part, tune the hyper-parameters on the
validation part, then refit the tuned model on all of it. Limits that LightGBM counts in rows are left to
weights here (``min_data_in_leaf=0``, ``min_sum_hessian_in_leaf``), so that a row that stands for many
(a compressed log) is the same fit as the many rows, but for what LightGBM counts all the same:
cut points of numeric columns with more than 255 values are quantiles of the rows it is given, and splits of
a category of more than 4 levels skip levels that weigh less than ``cat_smooth`` average rows. (Gradients are
32-bit inside LightGBM, so a near-tie between two splits may also fall either way.)
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy._threads import spin_briefly, threads_for
from offpolicy.models.fitting.learners import are_numbers
from offpolicy.models.rewards.reward import ConstantReward, FittedReward, RewardData
from offpolicy.models.rewards.tree_grid import TreeGrid

if TYPE_CHECKING:
    from collections.abc import Callable

    from offpolicy._arrays import Floats, Ints
    from offpolicy.models.fitting.encode import Encoded

PARAMETERS: dict[str, Any] = {
    "learning_rate": 0.1,
    "num_leaves": 31,
    "min_data_in_leaf": 0,
    "min_data_in_bin": 1,
    "min_sum_hessian_in_leaf": 5.0,
    "min_data_per_group": 1,
    "cat_smooth": 10.0,
    "cat_l2": 10.0,
    "max_cat_threshold": 64,
    "feature_pre_filter": False,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}
GRID: tuple[dict[str, Any], ...] = (
    {"num_leaves": 7, "learning_rate": 0.1},
    {"num_leaves": 31, "learning_rate": 0.1},
    {"num_leaves": 31, "learning_rate": 0.05, "min_sum_hessian_in_leaf": 20.0},
)


def lightgbm() -> Any:
    """LightGBM, imported when a model first needs it; its threads wait briefly only."""
    spin_briefly()
    import lightgbm as lgb

    return lgb


def small_regression(X: Ints, y: Floats, categorical: list[int], leaves: int, smallest: int, seed: int) -> Any:
    """A hundred trees of a few leaves each, for the scores of one action."""
    model = lightgbm().LGBMRegressor(
        n_estimators=100,
        learning_rate=0.05,
        num_leaves=leaves,
        min_child_samples=smallest,
        random_state=seed,
        n_jobs=1,
        deterministic=True,
        verbose=-1,
    )
    return model.fit(X, y, categorical_feature=categorical or "auto")


def has_lightgbm() -> bool:
    """Whether LightGBM is installed."""
    from importlib.util import find_spec

    return find_spec("lightgbm") is not None


def joined(X: Encoded, codes: Ints) -> tuple[Floats, list[int]]:
    """Context columns and the action as one matrix, and which columns are categories: codes, but not numbers."""
    matrix = np.column_stack([X.matrix, codes.astype(np.float64)])
    coded = [] if are_numbers(codes) else [matrix.shape[1] - 1]
    return matrix, [*X.categorical, *coded]


def objective_of(reward: Floats) -> str:
    """Log-loss for rewards in {0, 1}, squared error otherwise."""
    return "binary" if bool(((reward == 0.0) | (reward == 1.0)).all()) else "regression"


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows that LightGBM is fitted on, and its objective."""

    matrix: Floats
    reward: Floats
    weight: Floats | None
    categories: list[int]
    objective: str

    @classmethod
    def of(cls, data: RewardData, objective: str) -> _Rows:
        """Neighbors with 0/1 rewards, equal features and weights become one row with their mean reward.

        Log-loss is linear in the reward, so that the fit is the same, and a compressed log has such pairs
        side by side: the clicks and the rest of a context and action.
        """
        matrix, categories = joined(data.X, data.action)
        if objective == "regression" or data.weight is None:
            return cls(matrix, data.reward, data.weight, categories, objective)
        new = np.ones(len(matrix), dtype=bool)
        new[1:] = False
        for column in matrix.T:
            # Missing values are not equal to themselves here: their rows stay apart.
            new[1:] |= column[1:] != column[:-1]
        starts = np.flatnonzero(new)
        weight = np.add.reduceat(data.weight, starts)
        gained = np.add.reduceat(data.weight * data.reward, starts)
        reward = np.divide(gained, weight, out=np.zeros_like(weight), where=weight > 0)
        return cls(matrix[starts], reward, weight, categories, "cross_entropy")

    def dataset(self, parameters: dict[str, Any], reference: Any = None) -> Any:
        """LightGBM's dataset of the rows, binned like ``reference``."""
        return lightgbm().Dataset(
            self.matrix,
            label=self.reward,
            weight=self.weight,
            categorical_feature=self.categories,
            reference=reference,
            params=parameters,
            free_raw_data=True,
        )


@dataclass(frozen=True, eq=False)
class _Booster:
    model: Any

    def predict(self, X: Encoded, codes: Ints) -> Floats:
        matrix, _ = joined(X, codes)
        threads = threads_for(len(matrix))
        return np.asarray(self.model.predict(matrix, num_threads=threads), dtype=np.float64)

    @cached_property
    def _grid(self) -> TreeGrid | None:
        return TreeGrid.of(self.model)

    def predict_grid(self, X: Encoded, n_actions: int) -> Floats | None:
        """(m, K) predictions of every action, the same numbers as `predict` in a fraction of the time."""
        return None if self._grid is None else self._grid.predict(X.matrix, n_actions)


@checks_arguments
@dataclass(frozen=True)
class BoostedReward:
    """A LightGBM reward model with given or tuned settings.

    Parameters
    ----------
    rounds : int
        Largest number of trees.
    grid : tuple of dict
        Settings to choose among on a validation part; one setting means no choice but the rounds.
    validation : float
        Share of the training rows held out to choose settings and rounds; 0 uses ``rounds`` as is.
    patience : int
        Rounds without improvement after which a fit stops.
    threads : int
        LightGBM threads; 0 means one for up to 50,000 rows, and as many as it likes beyond.

    Examples
    --------
    >>> BoostedReward(rounds=100, grid=({"num_leaves": 20},), validation=0).rounds
    100
    """

    rounds: int = 300
    grid: tuple[dict[str, Any], ...] = ({},)
    validation: float = 0.25
    patience: int = 15
    threads: int = 0

    wants_encoded = True
    merges_rows = True
    bins_blocks = True

    def fit_reward(self, data: RewardData, seed: int) -> FittedReward:
        """Choose settings and rounds on the validation part, then fit on everything."""
        if np.ptp(data.reward) == 0:
            return ConstantReward(float(data.reward[0]))
        settings, rounds = self.grid[0], self.rounds
        if self.validation > 0:
            settings, rounds = self._validated(data, seed)
        rows = _Rows.of(data, objective_of(data.reward))
        del data  # the rows are a copy, and large
        parameters = self.parameters(rows.objective, seed, settings, len(rows.reward))
        binned = rows.dataset(parameters).construct()
        del rows  # bins are all that training needs
        return _Booster(lightgbm().train(parameters, binned, num_boost_round=rounds))

    def _validated(self, data: RewardData, seed: int) -> tuple[dict[str, Any], int]:
        """Settings and rounds by a validation part; its copies of the rows are gone afterwards."""
        held, rest = (_Rows.of(part, objective_of(data.reward)) for part in data.split(self.validation, seed))

        def parts(parameters: dict[str, Any]) -> tuple[Any, Any]:
            training = rest.dataset(parameters)
            return training, held.dataset(parameters, training)

        return self.tuned(rest.objective, seed, len(rest.reward), parts)

    def parameters(self, objective: str, seed: int, settings: dict[str, Any], rows: int) -> dict[str, Any]:
        """LightGBM's parameters of one fit on so many rows."""
        return {
            **PARAMETERS,
            "objective": objective,
            "seed": seed % 2**31,
            "num_threads": self.threads or threads_for(rows),
            **settings,
        }

    def tuned(
        self, objective: str, seed: int, rows: int, parts: Callable[[dict[str, Any]], tuple[Any, Any]]
    ) -> tuple[dict[str, Any], int]:
        """Settings and rounds with the lowest validation loss.

        ``parts`` gives LightGBM's datasets of the training and the validation part for some parameters.
        """
        best: tuple[float, dict[str, Any], int] | None = None
        for settings in self.grid:
            parameters = self.parameters(objective, seed, settings, rows)
            training, held = parts(parameters)
            model = lightgbm().train(
                parameters,
                training,
                num_boost_round=self.rounds,
                valid_sets=[held],
                valid_names=["held"],
                callbacks=[lightgbm().early_stopping(self.patience, verbose=False)],
            )
            loss = float(next(iter(model.best_score["held"].values())))
            if best is None or loss < best[0]:
                best = (loss, settings, max(1, model.best_iteration))
        assert best is not None
        return best[1], best[2]


def fit_dataset(model: BoostedReward, dataset: Any, rows: Ints, objective: str, seed: int) -> FittedReward:
    """Fit on some rows of a dataset that is binned already; settings are chosen as in `fit_reward`."""
    settings, rounds = model.grid[0], model.rounds
    if model.validation > 0:
        order = np.random.default_rng(seed).permutation(len(rows))
        cut = max(1, round(model.validation * len(rows)))
        held, train = np.sort(rows[order[:cut]]), np.sort(rows[order[cut:]])
        settings, rounds = model.tuned(
            objective, seed, len(train), lambda _: (dataset.subset(train), dataset.subset(held))
        )
    parameters = model.parameters(objective, seed, settings, len(rows))
    return _Booster(lightgbm().train(parameters, dataset.subset(rows), num_boost_round=rounds))


@checks_arguments
def paper_reward(threads: int = 0) -> BoostedReward:
    """The paper's reward model: LightGBM, tuned on a validation part, refitted on all (section 5.2).

    >>> len(paper_reward().grid)
    3
    """
    return BoostedReward(grid=GRID, threads=threads)
