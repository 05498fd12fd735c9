"""Roll a policy out in a Gymnasium environment, keeping the probabilities it acted with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from offpolicy._arguments import checks_arguments
from offpolicy.errors import PolicyError, UsageError
from offpolicy.logs.formats.transitions import from_transitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from offpolicy.logs.trajectories import Trajectories


@checks_arguments
def roll_out(
    environment: Any,
    policy: Callable[[Any], Any] | Any,
    episodes: int,
    *,
    seed: int = 0,
    max_steps: int | None = None,
    **options: Any,
) -> Trajectories:
    """Run a policy and log states, actions, rewards and the policy's whole distribution.

    Parameters
    ----------
    environment : gymnasium.Env
        With discrete actions.
    policy : object with ``probabilities(states)``, or a callable
        Given a batch of one state, gives (1, K) probabilities.
    episodes : int
        How many.
    seed : int
        Of the environment and of the actions.
    max_steps : int, optional
        Truncate episodes there.
    **options
        Passed on to `Trajectories.from_arrays`; ``truncated="end"`` when a time limit is a part of the
        problem.

    Examples
    --------
    >>> import gymnasium, numpy as np
    >>> env = gymnasium.make("CartPole-v1")
    >>> log = roll_out(env, lambda s: np.full((len(s), 2), 0.5), 3, seed=1, truncated="end")
    >>> log.n, log.distribution.shape[1]
    (3, 2)
    """
    if isinstance(episodes, bool) or not isinstance(episodes, int | np.integer) or episodes < 1:
        raise UsageError(f"episodes must be an int of at least 1. Got {episodes!r} instead.")
    count = getattr(environment.action_space, "n", None)
    if count is None:
        raise UsageError("roll_out() needs an environment with discrete actions.")
    ask = getattr(policy, "probabilities", policy)
    options.setdefault("labels", range(int(count)))
    return from_transitions(_steps(environment, ask, int(count), int(episodes), seed, max_steps), **options)


#: The same under the name that the other readers have.
from_gymnasium = roll_out


def _steps(
    environment: Any, ask: Any, count: int, episodes: int, seed: int, max_steps: int | None
) -> Iterator[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    for number in range(episodes):
        state, _ = environment.reset(seed=seed if number == 0 else None)
        over, t = False, 0
        while not over:
            pi = np.asarray(ask(np.asarray(state)[None]), dtype=np.float64)
            if pi.shape != (1, count) or not np.isclose(pi.sum(), 1) or (pi < 0).any():
                raise PolicyError(f"the policy must give (1, {count}) probabilities for one state. Got {pi!r}.")
            action = int(min((pi[0].cumsum() < rng.random()).sum(), count - 1))
            following, reward, terminated, truncated, _ = environment.step(action)
            t += 1
            truncated = bool(truncated) or (max_steps is not None and t >= max_steps)
            yield {
                "state": np.asarray(state),
                "action": action,
                "reward": float(reward),
                "propensity": pi[0],
                "terminated": bool(terminated),
                "truncated": truncated and not terminated,
            }
            state, over = following, bool(terminated) or truncated
