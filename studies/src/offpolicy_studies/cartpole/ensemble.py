"""Many copies of the paper's network, trained side by side.

One network is conv(3→16) – conv(16→32) – conv(32→32), each 5 × 5 with stride 2, batch normalization
and ReLU, then a dense layer and two outputs (section 5.1; the width of the dense layer is not given
there). An `Ensemble` holds G groups of M such networks: the networks of a group look at the same
minibatch, so their first layer shares its windows. Two more numbers per frame (time, the
evaluation policy's choice) may enter the dense layer. All parameters live in one flat float32
buffer per kind, so Adam is a handful of kernels whatever G and M are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from offpolicy_studies.cartpole.convolution import TAPS, grouped_convolution, out_size
from offpolicy_studies.cartpole.picture import CHANNELS, HEIGHT, WIDTH

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTHS = (16, 32, 32)
DENSE = 64
EXTRAS = 2
OUTPUTS = 2
MOMENTUM = 0.1
BATCH_NORM_EPS = 1e-5


def features() -> int:
    """Return how many numbers the last convolution gives.

    >>> features()
    512
    """
    height, width = HEIGHT, WIDTH
    for _ in WIDTHS:
        height, width = out_size(height), out_size(width)
    return height * width * WIDTHS[-1]


def shapes() -> dict[str, tuple[tuple[int, ...], float]]:
    """Return each parameter's shape within one network and the bound of its uniform start.

    The bounds are PyTorch's defaults, 1/√fan-in; normalization starts at scale 1 (bound 0 here).
    """
    out: dict[str, tuple[tuple[int, ...], float]] = {}
    before = CHANNELS
    for layer, width in enumerate(WIDTHS):
        out[f"conv{layer}"] = ((before * TAPS, width), 1 / math.sqrt(before * TAPS))
        out[f"scale{layer}"] = ((width,), 0.0)
        out[f"shift{layer}"] = ((width,), 0.0)
        before = width
    inputs = features() + EXTRAS
    out["dense"] = ((inputs, DENSE), 1 / math.sqrt(inputs))
    out["dense_bias"] = ((DENSE,), 1 / math.sqrt(inputs))
    out["out"] = ((DENSE, OUTPUTS), 1 / math.sqrt(DENSE))
    out["out_bias"] = ((OUTPUTS,), 1 / math.sqrt(DENSE))
    return out


def size() -> int:
    """Return the number of parameters of one network.

    >>> size()
    72850
    """
    return sum(math.prod(shape) for shape, _ in shapes().values())


def start(seeds: Sequence[int]) -> Any:
    """Draw the first parameters of one network per seed: (len(seeds), size()), on the CPU."""
    import torch

    flat = torch.empty(len(seeds), size())
    for row, seed in zip(flat, seeds, strict=True):
        generator = torch.Generator().manual_seed(int(seed))
        row.uniform_(-1, 1, generator=generator)
    at = 0
    for name, (shape, bound) in shapes().items():
        length = math.prod(shape)
        piece = flat[:, at : at + length]
        piece.fill_(1.0) if name.startswith("scale") else piece.mul_(bound)
        at += length
    return flat


@dataclass
class Ensemble:
    """G × M networks: their parameters, running statistics and Adam's moments.

    Attributes
    ----------
    flat : (G·M, size()) tensor
        Parameters, network by network.
    running : (2, G·M, 80) tensor
        Running mean and variance of the three normalizations, side by side.
    networks : int
        M, the networks per group.
    dtype : torch.dtype
        Type of the convolutions: bfloat16 on CUDA, float32 elsewhere.
    """

    flat: Any
    running: Any
    networks: int
    dtype: Any

    @classmethod
    def create(cls, seeds: Sequence[int], networks: int, device: str) -> Ensemble:
        """Start ``len(seeds)`` networks in groups of ``networks``."""
        import torch

        flat = start(seeds).to(device)
        running = torch.zeros(2, len(seeds), sum(WIDTHS), device=device)
        running[1] = 1.0
        dtype = torch.bfloat16 if device.startswith("cuda") else torch.float32
        return cls(flat, running, networks, dtype)

    def parameters(self, flat: Any = None) -> dict[str, Any]:
        """Return views (G·M, …) into the flat buffer by name."""
        flat = self.flat if flat is None else flat
        out, at = {}, 0
        for name, (shape, _) in shapes().items():
            length = math.prod(shape)
            out[name] = flat[:, at : at + length].view(-1, *shape)
            at += length
        return out


def forward(net: Ensemble, images: Any, extras: Any, *, train: bool, flat: Any = None, running: Any = None) -> Any:
    """Run every network on its group's images.

    Parameters
    ----------
    net : Ensemble
        G groups of M networks.
    images : (G, B, 3, 40, 90) tensor
        One minibatch per group.
    extras : (G, M, B, 2) tensor
        What enters the dense layer beside the picture.
    train : bool
        Normalize by the minibatch and update the running statistics, or use the latter.
    flat, running : tensor, optional
        Parameters and statistics to use instead of the ensemble's own.

    Returns
    -------
    (G, M, B, 2) tensor
        float32.
    """
    import torch

    groups, batch = images.shape[:2]
    many = groups * net.networks
    p = net.parameters(flat)
    running = net.running if running is None else running
    x = images.to(net.dtype).transpose(1, 2)
    at = 0
    for layer, width in enumerate(WIDTHS):
        kernel = p[f"conv{layer}"].to(net.dtype)
        if layer == 0:
            # (G, M, K, D) -> (G, K, M·D): the networks of a group read the same windows.
            kernel = kernel.view(groups, net.networks, -1, width).transpose(1, 2).flatten(2)
        x = grouped_convolution(x, kernel)
        x = x.reshape(many, width, batch, *x.shape[-2:])
        mean = running[0, :, at : at + width]
        variance = running[1, :, at : at + width]
        x = _normalize(x, p[f"scale{layer}"], p[f"shift{layer}"], mean, variance, train=train)
        at += width
    x = x.transpose(1, 2).reshape(many, batch, -1)
    x = torch.cat([x, extras.reshape(many, batch, EXTRAS).to(net.dtype)], -1)
    x = torch.baddbmm(p["dense_bias"].to(net.dtype)[:, None], x, p["dense"].to(net.dtype)).relu()
    out = torch.baddbmm(p["out_bias"][:, None], x.float(), p["out"])
    return out.view(groups, net.networks, batch, OUTPUTS)


def _normalize(x: Any, scale: Any, shift: Any, mean: Any, variance: Any, *, train: bool) -> Any:
    """Batch-normalize each channel of each network, then ReLU; update the running statistics."""
    from torch.nn import functional

    flat = x.reshape(1, scale.numel(), -1)
    if train:
        # The running statistics are slices of one buffer: the kernel gets copies, then writes back.
        m, v = mean.flatten().clone(), variance.flatten().clone()
        out = functional.batch_norm(
            flat, m, v, scale.reshape(-1), shift.reshape(-1), training=True, momentum=MOMENTUM,
            eps=BATCH_NORM_EPS,
        )  # fmt: skip
        mean.copy_(m.view_as(mean))
        variance.copy_(v.view_as(variance))
    else:
        out = functional.batch_norm(
            flat, mean.reshape(-1), variance.reshape(-1), scale.reshape(-1), shift.reshape(-1),
            training=False, eps=BATCH_NORM_EPS,
        )  # fmt: skip
    return functional.relu(out, inplace=True).view_as(x)
