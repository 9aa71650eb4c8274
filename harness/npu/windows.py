"""What a kernel sees: upscaling, padding, and the window of each OFM position, for convolutions and pools alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from harness.npu.featuremap import FeatureMap
from harness.npu.operations import Kernel, Upscale

Array = npt.NDArray[Any]


def input_size(kernel: Kernel, ofm_height: int, ofm_width: int) -> tuple[int, int]:
    """Height and width of the IFM, after upscaling; no register holds them, they follow from the OFM's."""
    return (
        (ofm_height - 1) * kernel.stride_y + (kernel.height - 1) * kernel.dilation_y + 1 - kernel.top - kernel.bottom,
        (ofm_width - 1) * kernel.stride_x + (kernel.width - 1) * kernel.dilation_x + 1 - kernel.left - kernel.right,
    )


def enlarge(source: Array, mode: Upscale, kernel: Kernel, ofm: FeatureMap, zero: int) -> Array:
    """`source` (height, width, depth) as the kernel sees it: unchanged, or twice as high and wide and cut to size.

    With Upscale.ZEROS the inserted elements have the value `zero`.
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
    """`source` (height, width, depth) with the kernel's padding around it."""
    if not kernel.padded:
        return source
    height, width, depth = source.shape
    padded = np.full(
        (height + kernel.top + kernel.bottom, width + kernel.left + kernel.right, depth), value, source.dtype
    )
    padded[kernel.top : kernel.top + height, kernel.left : kernel.left + width] = source
    return padded


def view(padded: Array, kernel: Kernel, rows: int, columns: int) -> Array:
    """View of shape (rows, columns, kernel height, kernel width, depth): the taps of each OFM position."""
    y, x, c = padded.strides
    return np.lib.stride_tricks.as_strided(
        padded,
        (rows, columns, kernel.height, kernel.width, padded.shape[2]),
        (y * kernel.stride_y, x * kernel.stride_x, y * kernel.dilation_y, x * kernel.dilation_x, c),
        writeable=False,
    )


def valid_taps(kernel: Kernel, height: int, width: int, ofm: FeatureMap) -> Array:
    """Number of taps inside of a `height` x `width` IFM for each OFM position; int64 (rows, columns, 1)."""
    rows = _inside(ofm.height, kernel.height, kernel.stride_y, kernel.dilation_y, kernel.top, height)
    columns = _inside(ofm.width, kernel.width, kernel.stride_x, kernel.dilation_x, kernel.left, width)
    return (rows[:, None] * columns[None, :])[:, :, None]


def _inside(positions: int, taps: int, stride: int, dilation: int, before: int, size: int) -> Array:
    at = np.arange(positions)[:, None] * stride + np.arange(taps)[None, :] * dilation - before
    return np.asarray(((at >= 0) & (at < size)).sum(axis=1, dtype=np.int64))
