"""CartPole's picture, drawn for a whole batch straight into the 3 × 40 × 90 patch of the DQN tutorial.

The 600 × 400 screen is white; cart, pole, axle and track are drawn over each other in that order
with integer vertices, as Gymnasium does through pygame. A pixel belongs to a polygon when its
signed distance to every edge is at least −½, to the axle when it is within 5½ of its center.
Of the screen only rows 160 to 319 and 360 columns around the cart matter, and the bicubic
resizing of that window is linear: patch = clip(A W Bᵀ), with A 40 × 160 and B 90 × 360. All that
moves lies within 48 columns of the cart, so only those are drawn; the track is a constant row.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

HEIGHT, WIDTH = 40, 90
PIXELS = HEIGHT * WIDTH
CHANNELS = 3
SCREEN_WIDTH, SCREEN_HEIGHT = 600, 400
SCALE = 125.0
VIEW_WIDTH = 360
# A pole at 0.27 rad, the most a failing step reaches, ends 37 columns from the cart.
REACH = 48
TOP, BOTTOM = 160, 320
POLE_COLOR = (202, 152, 101)
AXLE_COLOR = (129, 132, 203)
TRACK_Y = 100
AXLE_Y = 107
AXLE_RADIUS = 5.5


def resize_matrix(size: int, new_size: int) -> np.ndarray:
    """Return the bicubic, anti-aliased resizing of one axis as a matrix (Pillow's, a = −½).

    >>> resize_matrix(160, 40).shape
    (40, 160)
    >>> bool(np.allclose(resize_matrix(160, 40).sum(1), 1))
    True
    """
    ratio = size / new_size
    center = (np.arange(new_size) + 0.5) * ratio
    at = np.abs((np.arange(size)[None, :] + 0.5 - center[:, None]) / ratio)
    # Keys' cubic with a = -1/2 has its support within two (scaled) pixels.
    near = (1.5 * at - 2.5) * at * at + 1
    far = ((-0.5 * at + 2.5) * at - 4) * at + 2
    weights = np.where(at < 1, near, np.where(at < 2, far, 0.0))
    out: np.ndarray = weights / weights.sum(1, keepdims=True)
    return out


@functools.lru_cache(maxsize=8)
def _constants(device: str, dtype: Any) -> tuple[Any, ...]:
    import torch

    rows = torch.tensor(resize_matrix(BOTTOM - TOP, HEIGHT), dtype=dtype, device=device)
    # Columns outside the view get weight 0: a cart near the border is cut off there.
    columns = torch.zeros(VIEW_WIDTH + 4 * REACH, WIDTH, dtype=dtype, device=device)
    columns[2 * REACH : 2 * REACH + VIEW_WIDTH] = torch.tensor(resize_matrix(VIEW_WIDTH, WIDTH).T)
    # Colors relative to white: black, pole, axle. Rows are channels.
    ink = torch.tensor(
        [[-1.0, p / 255 - 1, a / 255 - 1] for p, a in zip(POLE_COLOR, AXLE_COLOR, strict=True)],
        dtype=dtype,
        device=device,
    )
    # The screen is flipped at the end: row r shows y = 399 - r.
    y = SCREEN_HEIGHT - 1 - torch.arange(TOP, BOTTOM, device=device, dtype=dtype)
    across = torch.arange(-REACH, REACH, device=device)
    return rows, columns, ink, y, across


def _inside(corners_x: Any, corners_y: Any, x: Any, y: Any) -> Any:
    """Tell which pixels lie in a counter-clockwise polygon with corners (n, 4); (n, rows, columns)."""
    inside = None
    for k in range(4):
        px, py = corners_x[:, k], corners_y[:, k]
        ex, ey = corners_x[:, (k + 1) % 4] - px, corners_y[:, (k + 1) % 4] - py
        length = (ex * ex + ey * ey).sqrt()
        a, b = -ey / length, ex / length
        up = b[:, None] * (y[None, :] - py[:, None]) + 0.5
        distance = (a[:, None] * (x - px[:, None]))[:, None, :] + up[:, :, None]
        inside = distance >= 0 if inside is None else inside & (distance >= 0)
    return inside


def draw(position: Any, angle: Any, *, dtype: Any = None) -> Any:
    """Draw the patches of carts at ``position`` with poles at ``angle``.

    Parameters
    ----------
    position, angle : (n,) tensor
        In the units of the dynamics.
    dtype : torch.dtype, optional
        Type of the result; float32 unless given.

    Returns
    -------
    (n, 3, 40, 90) tensor
        Channels in [0, 1].
    """
    import torch

    work = torch.float32
    rows, columns, ink, y, across = _constants(str(position.device), work)
    cart = position.double() * SCALE + SCREEN_WIDTH / 2
    middle = torch.trunc(cart).long()
    left = (middle - VIEW_WIDTH // 2).clamp(0, SCREEN_WIDTH - VIEW_WIDTH)
    x = (across[None, :] + middle[:, None]).to(work)
    place = (across[None, :] + (middle - left)[:, None] + 2 * REACH).clamp(0, len(columns) - 1)

    def corners(dx: Any, dy: Any, origin_y: float) -> tuple[Any, Any]:
        return torch.trunc(cart[:, None] + dx).to(work), torch.trunc(origin_y + dy).to(work)

    box_x = torch.tensor([-25.0, 25.0, 25.0, -25.0], dtype=cart.dtype, device=cart.device)
    box_y = torch.tensor([-15.0, -15.0, 15.0, 15.0], dtype=cart.dtype, device=cart.device)
    cart_x, cart_y = corners(box_x, box_y.expand(len(cart), 4), float(TRACK_Y))
    rod_x = torch.tensor([-5.0, 5.0, 5.0, -5.0], dtype=cart.dtype, device=cart.device)
    rod_y = torch.tensor([-5.0, -5.0, 120.0, 120.0], dtype=cart.dtype, device=cart.device)
    cos, sin = torch.cos(-angle.double())[:, None], torch.sin(-angle.double())[:, None]
    pole_x, pole_y = corners(cos * rod_x - sin * rod_y, sin * rod_x + cos * rod_y, 107.5)

    seen = (y != TRACK_Y)[None, :, None]
    axle = (across * across)[None, None, :] + ((y - AXLE_Y) ** 2)[None, :, None] <= AXLE_RADIUS**2
    axle = (axle & seen).expand(len(cart), -1, -1)
    pole = _inside(pole_x, pole_y, x, y) & seen & ~axle
    black = _inside(cart_x, cart_y, x, y) & seen & ~axle & ~pole
    layers = torch.stack([black, pole, axle], 1).to(work)
    short = torch.matmul(rows, layers).flatten(1, 2)
    small = torch.bmm(short, columns[place]).view(-1, 3, HEIGHT, WIDTH)
    small[:, 0] += rows[:, SCREEN_HEIGHT - 1 - TRACK_Y - TOP, None]
    picture = 1 + torch.einsum("ck,nkhw->nchw", ink, small)
    return picture.clamp(0, 1).to(dtype or work)
