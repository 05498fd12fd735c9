"""Convolutions of many small networks at once, each as one batched matrix product.

Network g has its own kernel, 5 × 5 with stride 2 and no padding. Its windows are laid out as columns
(im2col), so that for all g together

    out[g] = W[g]ᵀ columns(x[g]),   ∂W[g] = columns(x[g]) ∂out[g]ᵀ,   ∂x[g] = fold(W[g] ∂out[g]).

Activations are stored (network, channel, image, row, column): the product then comes out in the
order in which batch normalization and the next layer read it. On the CPU, where memory traffic is
not what counts, the framework's own grouped convolution does the same.
"""

from __future__ import annotations

from typing import Any

from offpolicy_studies.cartpole import kernels

KERNEL = 5
STRIDE = 2
TAPS = KERNEL * KERNEL


def out_size(size: int) -> int:
    """Return how many windows fit along an axis.

    >>> [out_size(40), out_size(90)]
    [18, 43]
    """
    return (size - KERNEL) // STRIDE + 1


def windows(x: Any) -> Any:
    """Lay out the windows of x (G, C, B, H, W), of any strides, as columns (G, C·25, B·h·w)."""
    groups, channels, batch, height, width = x.shape
    sg, sc, sb, sh, sw = x.stride()
    h, w = out_size(height), out_size(width)
    if kernels.usable(x) and (sh, sw) == (width, 1):
        return kernels.windows(x, h, w)
    view = x.as_strided(
        (groups, channels, KERNEL, KERNEL, batch, h, w),
        (sg, sc, sh, sw, sb, STRIDE * sh, STRIDE * sw),
        x.storage_offset(),
    )
    return view.reshape(groups, channels * TAPS, batch * h * w)


def fold(columns: Any, shape: tuple[int, int, int, int, int]) -> Any:
    """Add columns (G, C·25, B·h·w) back into images of ``shape``: the transpose of `windows`."""
    groups, channels, batch, height, width = shape
    h, w = out_size(height), out_size(width)
    if kernels.usable(columns) and columns.is_contiguous():
        return kernels.fold(columns, shape, h, w)
    parts = columns.view(groups, channels, KERNEL, KERNEL, batch, h, w)
    image = columns.new_zeros(shape)
    for i in range(KERNEL):
        for j in range(KERNEL):
            rows = slice(i, i + STRIDE * h - 1, STRIDE)
            across = slice(j, j + STRIDE * w - 1, STRIDE)
            image[..., rows, across] += parts[:, :, i, j]
    return image


def grouped_convolution(x: Any, weight: Any) -> Any:
    """Convolve x (G, C, B, H, W) with the kernels of each group.

    Parameters
    ----------
    x : (G, C, B, H, W) tensor
        Images; a group's networks share them.
    weight : (G, C·25, D) tensor
        D output channels: those of one network or, side by side, of all networks of the group.

    Returns
    -------
    (G, D, B, h, w) tensor
    """
    return _function().apply(x, weight) if x.is_cuda else _by_library(x, weight)


def _by_library(x: Any, weight: Any) -> Any:
    from torch.nn import functional

    groups, channels, batch, height, width = x.shape
    images = x.permute(2, 0, 1, 3, 4).reshape(batch, groups * channels, height, width)
    kernel = weight.transpose(1, 2).reshape(-1, channels, KERNEL, KERNEL)
    out = functional.conv2d(images, kernel, stride=STRIDE, groups=groups)
    return out.view(batch, groups, -1, *out.shape[-2:]).permute(1, 2, 0, 3, 4)


_FUNCTION: list[Any] = []


def _function() -> Any:
    """Build the differentiable function once; torch is imported only when it is needed."""
    if _FUNCTION:
        return _FUNCTION[0]
    import torch

    class GroupedConvolution(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, weight: Any) -> Any:
            columns = windows(x)
            ctx.save_for_backward(columns, weight)
            ctx.shape = tuple(x.shape)
            out = torch.bmm(weight.transpose(1, 2), columns)
            batch, height, width = x.shape[2:]
            return out.view(*out.shape[:2], batch, out_size(height), out_size(width))

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            columns, weight = ctx.saved_tensors
            flat = grad.reshape(*grad.shape[:2], -1)
            d_weight = torch.bmm(columns, flat.transpose(1, 2))
            d_x = fold(torch.bmm(weight, flat), ctx.shape) if ctx.needs_input_grad[0] else None
            return d_x, d_weight

    _FUNCTION.append(GroupedConvolution)
    return GroupedConvolution
