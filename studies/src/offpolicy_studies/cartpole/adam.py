"""Adam over one flat buffer of parameters, with a learning rate per network (Kingma and Ba, 2015).

Everything, the step count included, is a tensor: the update can be captured in a CUDA graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BETA1, BETA2, EPS = 0.9, 0.999, 1e-8


@dataclass
class Adam:
    """First and second moments (networks, parameters), rates (networks, 1) and the step count."""

    first: Any
    second: Any
    rate: Any
    count: Any

    @classmethod
    def create(cls, flat: Any, rate: Any) -> Adam:
        """Start at zero for parameters ``flat`` with one learning rate per row."""
        import torch

        return cls(
            torch.zeros_like(flat), torch.zeros_like(flat), rate.to(flat)[:, None], torch.zeros((), device=flat.device)
        )

    def update(self, flat: Any, grad: Any) -> None:
        """Take one step in place."""
        self.count += 1
        self.first.lerp_(grad, 1 - BETA1)
        self.second.mul_(BETA2).addcmul_(grad, grad, value=1 - BETA2)
        scale = (1 - BETA2**self.count).sqrt()
        step = self.rate * scale / (1 - BETA1**self.count)
        flat.sub_(self.first / (self.second.sqrt() + EPS * scale) * step)
