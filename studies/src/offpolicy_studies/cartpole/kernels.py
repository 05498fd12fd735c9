"""Two small GPU kernels for `convolution`: laying windows out as columns, and adding them back.

The framework does both by strided copies (25 of them for the way back), which took two thirds of a
training step on an H200; here each is one pass over memory. Where Triton is missing (a CPU),
`convolution` keeps the plain version, and both give the same numbers.
"""

from __future__ import annotations

from typing import Any

try:
    import triton  # type: ignore[import-not-found,unused-ignore]
    import triton.language as tl  # type: ignore[import-not-found,unused-ignore]
except ImportError:
    triton = None

BLOCK = 1024


if triton is not None:

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def _windows(  # type: ignore[no-untyped-def] # noqa: ANN202
        x, out, group_stride, channel_stride, image_stride, channels, width, h, w, size,  # noqa: ANN001
        BLOCK: tl.constexpr,
    ):  # fmt: skip
        plane = tl.program_id(0).to(tl.int64)
        at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        inside = at < size
        column = at % w
        row = (at // w) % h
        image = (at // (w * h)).to(tl.int64)
        source = x + (plane // channels) * group_stride + (plane % channels) * channel_stride
        source = source + image * image_stride + 2 * row * width + 2 * column
        goal = out + plane * 25 * size + at
        for tap in tl.static_range(25):
            value = tl.load(source + (tap // 5) * width + tap % 5, mask=inside)
            tl.store(goal + tl.full((), tap, tl.int64) * size, value, mask=inside)

    @triton.jit  # type: ignore[untyped-decorator,unused-ignore]
    def _fold(columns, out, height, width, h, w, size, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        # One lane makes a 2 × 2 square of the image: with stride 2 each tap feeds one of its corners.
        plane = tl.program_id(0).to(tl.int64)
        at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
        half_height = (height + 1) // 2
        half_width = (width + 1) // 2
        column = at % half_width
        row = (at // half_width) % half_height
        image = at // (half_width * half_height)
        inside = image * (h * w) < size
        source = columns + plane * 25 * size + image * (h * w) + row * w + column
        goal = out + plane * (size // (h * w)) * height * width
        goal = goal + (image * height + 2 * row) * width + 2 * column
        for corner in tl.static_range(4):
            total = tl.zeros((BLOCK,), tl.float32)
            for i in tl.static_range(corner // 2, 5, 2):
                for j in tl.static_range(corner % 2, 5, 2):
                    # i // 2 and j // 2 are how many windows further up and left this tap belongs to.
                    hit = inside & (row >= i // 2) & (row < h + i // 2)
                    hit = hit & (column >= j // 2) & (column < w + j // 2)
                    place = source + tl.full((), i * 5 + j, tl.int64) * size - (i // 2) * w - j // 2
                    total += tl.load(place, mask=hit, other=0.0).to(tl.float32)
            fits = inside & (2 * row + corner // 2 < height) & (2 * column + corner % 2 < width)
            spot = goal + (corner // 2) * width + corner % 2
            tl.store(spot, total.to(out.dtype.element_ty), mask=fits)


def usable(tensor: Any) -> bool:
    """Tell whether the kernels can run where ``tensor`` lies."""
    return triton is not None and tensor.is_cuda


def windows(x: Any, h: int, w: int) -> Any:
    """Do what `convolution.windows` does; rows and columns of x must be contiguous."""
    groups, channels, batch, _, width = x.shape
    size = batch * h * w
    out = x.new_empty(groups, channels * 25, size)
    grid = (groups * channels, triton.cdiv(size, BLOCK))
    _windows[grid](x, out, x.stride(0), x.stride(1), x.stride(2), channels, width, h, w, size, BLOCK=BLOCK)
    return out


def fold(columns: Any, shape: tuple[int, int, int, int, int], h: int, w: int) -> Any:
    """Do what `convolution.fold` does, adding in float32."""
    groups, channels, batch, height, width = shape
    out = columns.new_empty(shape)
    squares = batch * ((height + 1) // 2) * ((width + 1) // 2)
    grid = (groups * channels, triton.cdiv(squares, BLOCK))
    _fold[grid](columns, out, height, width, h, w, batch * h * w, BLOCK=BLOCK)
    return out
