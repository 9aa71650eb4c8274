"""torchao's search for the range of values that loses least when it is quantised, in numbers instead of tensors.

An observer of activations narrows the range in steps of a hundred thousandth of the values it saw. Where most of them
lie close together, it takes tens of thousands of steps, and torchao 0.18 (quantization/pt2e/observer.py,
`HistogramObserver._non_linear_param_search`) compares two tensors of one element in each. This search takes the same
steps and compares the same float32 numbers, so it finds the same range. torchao computes the error of each range.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_STEP = 1e-5
"""torchao's."""


def searched_in_numbers(_: Any) -> Callable[[Any], tuple[torch.Tensor, torch.Tensor]]:
    """Return `search`, which needs nothing of torchao's own function."""
    return search


def search(observer: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the least and the largest value of the range, for an observer that has seen values."""
    import torch

    width = (observer.max_val - observer.min_val) / observer.bins
    total = torch.sum(observer.histogram).item()
    below = torch.cumsum(observer.histogram, dim=0).tolist()
    low, high = 0.0, 1.0
    first, last = 0, observer.bins - 1
    least = float("inf")
    while low < high:
        next_low, next_high = low + _STEP, high - _STEP
        # A float32 tensor of one element is compared with a Python number as float32.
        floor, ceiling = (ctypes.c_float(quantile * total).value for quantile in (next_low, next_high))
        left, right = first, last
        while left < last and below[left] < floor:
            left += 1
        while right > first and below[right] > ceiling:
            right -= 1
        if left - first > last - right:
            low, right = next_low, last
        else:
            high, left = next_high, first
        if (left, right) == (first, last):
            continue
        error = observer._compute_quantization_error(left, right)
        if error > least:
            break
        least, first, last = error, left, right
    return observer.min_val + width * first, observer.min_val + width * (last + 1)
