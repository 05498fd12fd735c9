"""Which steps train, validate and receive each nuisance network, and the targets of q.

Every data set is fitted on several *splits*: the full sample (for DM and DR-full) and, for each of K
folds, the other folds. A fifth of a split's training episodes is held back for early stopping and
calibration.

The evaluation policy is deterministic, so multi-step targets need no importance weights. With d the
first logged step after t whose action is not the policy's,

    y_t = r_t + … + r_{d−1} + q_d(s_d, π_e(s_d)),      and y_t = the rest of the return without such d.

This is the tree backup (Precup, Sutton and Singh, 2000) for a greedy policy: its fixed point is q, and
the value must be propagated only across deviations (a handful per episode), not across every step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

VALIDATION_SHARE = 0.2
SMOOTH = 2.0
HALF = "half"


@dataclass(frozen=True)
class Steps:
    """Where each logged step of a block of data sets stands.

    Attributes
    ----------
    data_set, episode, time : (steps,) array
        Data set, episode (numbered through all data sets) and step within the episode.
    first : (data sets + 1,) array
        First step of each data set, and the number of steps.
    gap : (steps,) array
        Steps until the next deviation from the evaluation policy or the episode's end.
    boot : (steps,) array
        The step of that deviation, −1 when the episode ends before one.
    clean : (steps,) array
        Whether no action up to and including this one deviated.
    """

    data_set: np.ndarray
    episode: np.ndarray
    time: np.ndarray
    first: np.ndarray
    gap: np.ndarray
    boot: np.ndarray
    clean: np.ndarray


def locate(lengths: np.ndarray, deviates: np.ndarray, per_set: int) -> Steps:
    """Locate every step of episodes of the given lengths, ``per_set`` episodes to a data set.

    >>> steps = locate(np.array([3, 2]), np.array([False, True, False, False, False]), 1)
    >>> steps.gap.tolist(), steps.boot.tolist()
    ([1, 2, 1, 2, 1], [1, -1, -1, -1, -1])
    """
    total = int(lengths.sum())
    ends = np.cumsum(lengths)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    row = np.arange(total)
    time = row - (ends - lengths)[episode]
    # The next deviation strictly after a row, by a running minimum from the back.
    marks = np.where(deviates, row, total)
    after = np.append(np.minimum.accumulate(marks[::-1])[::-1][1:], total)
    end = ends[episode]
    boot = np.where(after < end, after, -1)
    gap = np.where(boot >= 0, boot, end) - row
    so_far = np.cumsum(deviates)
    before = (so_far - deviates)[ends - lengths][episode]
    first = np.append(0, ends[per_set - 1 :: per_set])
    return Steps(episode // per_set, episode, time, first, gap, boot, so_far - before == 0)


@dataclass(frozen=True)
class Split:
    """One training sample of one data set, as episode numbers within the data set.

    ``held_out`` are the episodes that receive the predictions: all of them for the full sample.
    """

    data_set: int
    name: str
    fit: np.ndarray
    validation: np.ndarray
    held_out: np.ndarray


def episode_ends(steps: Steps) -> np.ndarray:
    """Return the row after the last step of each episode."""
    out: np.ndarray = np.append(np.flatnonzero(np.diff(steps.episode)) + 1, len(steps.episode))
    return out


def rows_of(steps: Steps, split: Split, episodes: np.ndarray, per_set: int) -> np.ndarray:
    """Return the steps of some episodes, numbered within the split's data set."""
    ends = episode_ends(steps)
    starts = np.append(0, ends[:-1])
    at = episodes + split.data_set * per_set
    return np.concatenate([np.arange(starts[e], ends[e]) for e in at])


def fold_labels(rng: np.random.Generator, n: int, folds: int) -> np.ndarray:
    """Assign n episodes to folds of equal size (±1) at random.

    >>> np.bincount(fold_labels(np.random.default_rng(0), 10, 3)).tolist()
    [4, 3, 3]
    """
    out: np.ndarray = rng.permutation(np.arange(n) % folds)
    return out


def split_count(folds: int) -> int:
    """Return how many splits `splits` makes: the full sample, the folds, and a half where no fold is one.

    >>> [split_count(folds) for folds in (2, 3, 4)]
    [3, 5, 6]
    """
    return folds + 1 + (folds > 2)


def splits(rng: np.random.Generator, data_set: int, labels: np.ndarray) -> list[Split]:
    """Return the full split, one per fold and, with more than two folds, half the data, each with its validation part.

    DR-half is fitted on a random half and scored on the other whatever the number of folds; of two folds the
    first is that half.
    """
    everyone = np.arange(len(labels))
    folds = int(labels.max()) + 1
    scored: dict[str, np.ndarray] = {str(k): labels == k for k in range(folds)}
    if split_count(folds) > folds + 1:
        scored[HALF] = fold_labels(rng, len(labels), 2) == 0
    out = []
    for name in ["full", *scored]:
        held_out = everyone if name == "full" else everyone[scored[name]]
        train = everyone if name == "full" else everyone[~scored[name]]
        order = rng.permutation(train)
        cut = max(1, round(VALIDATION_SHARE * len(train)))
        out.append(Split(data_set, name, np.sort(order[cut:]), np.sort(order[:cut]), held_out))
    return out


def smoothing(cap: int) -> np.ndarray:
    """Return the weights (cap, cap) with which a step borrows from its neighbors in time."""
    at = np.arange(cap)
    out: np.ndarray = (1 + np.abs(at[:, None] - at[None, :]) / SMOOTH) ** -4.0
    return out


def time_baseline(total: np.ndarray, time: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Return the smoothed mean of y_t by step, from samples of t + y_t at ``time``: (cap,).

    The episode's predicted *total* is smoothed, because it is nearly flat in t where y_t is not.

    >>> time_baseline(np.full(6, 9.0), np.arange(6), smoothing(8)).round(6).tolist()
    [9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0]
    """
    cap = len(kernel)
    sums = np.bincount(time, total, cap)
    counts = np.bincount(time, minlength=cap)
    out: np.ndarray = (kernel @ sums) / (kernel @ counts) - np.arange(cap)
    return out


@dataclass(frozen=True)
class Warm:
    """A split's starting point for q: the value by time (cap,) and the spread around it."""

    value: np.ndarray
    base: np.ndarray
    scale: float


def warm_start(steps: Steps, rows: np.ndarray, kernel: np.ndarray) -> Warm:
    """Start q from the split's own returns.

    The logged remaining reward, smoothed over time, stands in for q at deviations; the targets
    that result give the baseline b(t) and the scale, and the network then learns (q − b)/scale.
    """
    time, gap, boot = steps.time[rows], steps.gap[rows], steps.boot[rows]
    ends = np.append(np.flatnonzero(np.diff(steps.episode)), len(steps.episode) - 1)
    last = steps.time[ends][steps.episode[rows]]
    value = time_baseline(last + 1.0, time, kernel)
    target = gap + np.where(boot >= 0, value[steps.time[boot]], 0.0)
    base = time_baseline(target + time, time, kernel)
    spread = float(np.std(target - base[time]))
    return Warm(value, base, max(spread, 1e-3))


def mrdr(gap: np.ndarray, time: np.ndarray, clean: np.ndarray, follow: float) -> tuple[np.ndarray, np.ndarray]:
    """Return targets and weights of the more robust doubly robust q (Farajtabar et al., 2018).

    With a deterministic target followed with the known probability p = ``follow``, their objective is a
    regression of R̄_t = Σ_τ p^{−(τ−t)} r_τ, up to the next deviation, on the steps without any
    deviation so far, with weights p^{−2t} (constant factors left out).

    >>> mrdr(np.array([2]), np.array([1]), np.array([True]), 0.5)
    (array([3.]), array([4.]))
    """
    up = 1 / follow
    target = gap.astype(float) if follow == 1 else (up**gap - 1) / (up - 1)
    return target, np.where(clean, up ** (2.0 * time), 0.0)
