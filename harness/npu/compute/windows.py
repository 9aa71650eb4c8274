"""The input that a kernel reads: upscaling, padding, and each OFM position's window, for convolutions and pools."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.harness.npu.isa.feature_map import FeatureMap
from ethos_hil.harness.npu.isa.operations import Kernel, Upscale

Array = npt.NDArray[Any]


def input_size(kernel: Kernel, ofm_height: int, ofm_width: int) -> tuple[int, int]:
    """Return height and width of the IFM after upscaling. No register holds them; they follow from the OFM's."""
    return (
        (ofm_height - 1) * kernel.stride_y + (kernel.height - 1) * kernel.dilation_y + 1 - kernel.top - kernel.bottom,
        (ofm_width - 1) * kernel.stride_x + (kernel.width - 1) * kernel.dilation_x + 1 - kernel.left - kernel.right,
    )


def enlarge(source: Array, mode: Upscale, kernel: Kernel, ofm: FeatureMap, zero: int) -> Array:
    """Return `source` (height, width, depth) as the kernel reads it: unchanged, or enlarged by two and cut to size.

    Upscale.ZEROS inserts elements of the value `zero`.
    """
    if mode is Upscale.NONE:
        return source
    height, width = input_size(kernel, ofm.height, ofm.width)
    if mode is Upscale.NEAREST:
        return source.repeat(2, axis=0).repeat(2, axis=1)[:height, :width]
    large = np.full((source.shape[0] * 2, source.shape[1] * 2, source.shape[2]), zero, source.dtype)
    large[::2, ::2] = source
    return large[:height, :width]


def pad(source: Array, kernel: Kernel, value: int) -> Array:
    """Return `source` (height, width, depth) with the kernel's padding around it."""
    if not kernel.padded:
        return source
    height, width, depth = source.shape
    padded = np.full(
        (height + kernel.top + kernel.bottom, width + kernel.left + kernel.right, depth), value, source.dtype
    )
    padded[kernel.top : kernel.top + height, kernel.left : kernel.left + width] = source
    return padded


def view(padded: Array, kernel: Kernel, rows: int, columns: int) -> Array:
    """Return a view of shape (rows, columns, kernel height, kernel width, depth): the taps of each OFM position."""
    y, x, c = padded.strides
    return np.lib.stride_tricks.as_strided(
        padded,
        (rows, columns, kernel.height, kernel.width, padded.shape[2]),
        (y * kernel.stride_y, x * kernel.stride_x, y * kernel.dilation_y, x * kernel.dilation_x, c),
        writeable=False,
    )


def rows(padded: Array, kernel: Kernel, first: int, count: int) -> Array:
    """Return the part of `padded` that OFM rows [first, first + count) depend on."""
    begin = first * kernel.stride_y
    return padded[begin : begin + (count - 1) * kernel.stride_y + (kernel.height - 1) * kernel.dilation_y + 1]


def gather(padded: Array, kernel: Kernel, rows: int, columns: int) -> Array:
    """Return the taps of each OFM position as `view` does, but contiguous. `padded` must be contiguous.

    Adjacent taps are moved as one element of unspecified type, which numpy does several times faster than byte by byte.
    """
    taps = view(padded, kernel, rows, columns)
    if kernel.dilation_x > 1:
        return np.ascontiguousarray(taps)
    run = np.dtype((np.void, taps.shape[3] * taps.shape[4] * padded.itemsize))
    runs: Array = np.ndarray(taps.shape[:3], run, padded, 0, taps.strides[:3])
    return np.ascontiguousarray(runs).view(padded.dtype).reshape(taps.shape)


def planes(padded: Array, kernel: Kernel, rows: int, columns: int, dtype: Any) -> Iterator[tuple[Array, slice]]:
    """Yield every stride_x-th column for each set of taps that share them, and the slice of taps in x in that set.

    Each plane is a view of shape (rows, kernel height, taps in x, columns * depth): along its last axis lies everything
    that a tap contributes to an OFM row.
    """
    depth = padded.shape[2]
    step = kernel.stride_x // math.gcd(kernel.stride_x, kernel.dilation_x)
    for first in range(min(step, kernel.width)):
        start = first * kernel.dilation_x
        part = padded[:, start :: kernel.stride_x].astype(dtype, order="C")
        y, x, c = part.strides
        across = step * kernel.dilation_x // kernel.stride_x * x
        taps = range(first, kernel.width, step)
        shape = (rows, kernel.height, len(taps), columns * depth)
        strides = (y * kernel.stride_y, y * kernel.dilation_y, across, c)
        yield np.lib.stride_tricks.as_strided(part, shape, strides, writeable=False), slice(first, None, step)


def valid_taps(kernel: Kernel, height: int, width: int, ofm: FeatureMap) -> Array:
    """Return the number of taps inside a `height` x `width` IFM for each OFM position; int64 (rows, columns, 1)."""
    rows = _inside(ofm.height, kernel.height, kernel.stride_y, kernel.dilation_y, kernel.top, height)
    columns = _inside(ofm.width, kernel.width, kernel.stride_x, kernel.dilation_x, kernel.left, width)
    return (rows[:, None] * columns[None, :])[:, :, None]


def _inside(positions: int, taps: int, stride: int, dilation: int, before: int, size: int) -> Array:
    at = np.arange(positions)[:, None] * stride + np.arange(taps)[None, :] * dilation - before
    return np.asarray(((at >= 0) & (at < size)).sum(axis=1, dtype=np.int64))
