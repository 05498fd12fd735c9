"""Blacked-out pixels that move: the irrelevant part of the paper's pictures.

The paper blacks out 10% of the patch's pixels at the start of an episode and moves them
horizontally over time; it gives neither a speed nor what happens at the border. Here exactly 360 of
the 3,600 pixels are drawn without replacement, all channels turn black, and the whole pattern moves
one pixel to the right every ``period`` steps and comes back in on the left.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from offpolicy_studies.cartpole.picture import HEIGHT, PIXELS, WIDTH

SHARE = 0.1


def patterns(rng: np.random.Generator, n: int) -> np.ndarray:
    """Draw the first pattern of ``n`` episodes: (n, 40, 90) booleans, 10% true in each.

    >>> patterns(np.random.default_rng(0), 2).reshape(2, -1).sum(1).tolist()
    [360, 360]
    """
    order = rng.random((n, PIXELS), dtype=np.float32)
    count = round(SHARE * PIXELS)
    chosen = np.argpartition(order, count, axis=1)[:, :count]
    mask = np.zeros((n, PIXELS), dtype=bool)
    np.put_along_axis(mask, chosen, True, axis=1)
    return mask.reshape(n, HEIGHT, WIDTH)


def shift(time: Any, period: int) -> Any:
    """Return how far the pattern has moved at ``time``; a period of 0 means that it stands still.

    >>> [shift(t, 5) for t in (0, 4, 5, 11)]
    [0, 0, 1, 2]
    """
    return time // period if period else time * 0


def black_out(picture: Any, pattern: Any, moved: Any) -> Any:
    """Black the pattern, moved by (n,) pixels to the right, out of pictures (n, 3, 40, 90)."""
    import torch

    column = torch.arange(WIDTH, device=pattern.device)
    source = (column[None, :] - moved[:, None]) % WIDTH
    hidden = pattern.gather(2, source[:, None, :].expand(-1, HEIGHT, -1))
    return picture.masked_fill(hidden[:, None], 0.0)
