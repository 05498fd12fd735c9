"""Cart and pole, thousands of episodes at once: Gymnasium's CartPole as one batched Euler step.

With force F = ±10 and temp = (F + m_p l θ̇² sin θ) / (m_c + m_p),

    θ̈ = (g sin θ − cos θ temp) / (l (4/3 − m_p cos² θ / (m_c + m_p)))
    ẍ = temp − m_p l θ̈ cos θ / (m_c + m_p)

and (x, ẋ, θ, θ̇) move by τ = 0.02 times the *old* derivatives.
"""

from __future__ import annotations

import math
from typing import Any

GRAVITY = 9.8
CART_MASS = 1.0
POLE_MASS = 0.1
HALF_LENGTH = 0.5
FORCE = 10.0
TAU = 0.02
X_LIMIT = 2.4
ANGLE_LIMIT = 12 * 2 * math.pi / 360
RESET_WIDTH = 0.05


def step(physics: Any, action: Any) -> Any:
    """Move every cart by one time step.

    Parameters
    ----------
    physics : (n, 4) tensor
        Position, velocity, angle and angular velocity, float64.
    action : (n,) integer tensor
        1 pushes right, 0 left.

    Returns
    -------
    (n, 4) tensor
        The state one step of 0.02 s later.
    """
    import torch

    x, v, angle, spin = physics.unbind(-1)
    force = (action.to(physics.dtype) * 2 - 1) * FORCE
    cos, sin = torch.cos(angle), torch.sin(angle)
    total, pole_moment = CART_MASS + POLE_MASS, POLE_MASS * HALF_LENGTH
    temp = (force + pole_moment * spin * spin * sin) / total
    turn = (GRAVITY * sin - cos * temp) / (HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * cos * cos / total))
    push = temp - pole_moment * turn * cos / total
    return torch.stack([x + TAU * v, v + TAU * push, angle + TAU * spin, spin + TAU * turn], -1)


def failed(physics: Any) -> Any:
    """Tell which carts have left the track or dropped the pole (n,)."""
    return (physics[..., 0].abs() > X_LIMIT) | (physics[..., 2].abs() > ANGLE_LIMIT)
