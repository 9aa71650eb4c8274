"""What is replaced in torchao while a model is lowered."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch

# torchao's search for the range of values that loses least when it is quantised, in numbers instead of tensors.
#
# An observer of activations narrows the range in steps of a hundred thousandth of the values it saw. Where most of them
# lie close together, it takes tens of thousands of steps, and torchao 0.18 (quantization/pt2e/observer.py,
# `HistogramObserver._non_linear_param_search`) compares two tensors of one element in each. This search takes the same
# steps and compares the same float32 numbers, so it finds the same range. It jumps over the steps that change nothing:
# where they end is found by halving. torchao computes the error of each range.

_STEP = 1e-5
"""torchao's."""


def searched_in_numbers(_: Any) -> Callable[[Any], tuple[torch.Tensor, torch.Tensor]]:
    """Return `search`, which needs nothing of torchao's own function."""
    return search


@functools.cache
def _quantiles() -> tuple[np.ndarray, np.ndarray]:
    """Return the lower quantiles in the order of the steps, and the upper ones: sums of steps, as they are rounded."""
    steps = np.full(round(1 / _STEP) + 2, _STEP)
    return np.add.accumulate(np.concatenate([[0.0], steps])), np.subtract.accumulate(np.concatenate([[1.0], steps]))


def search(observer: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the least and the largest value of the range, for an observer that has seen values."""
    import torch

    width = (observer.max_val - observer.min_val) / observer.bins
    total = torch.sum(observer.histogram).item()
    below = torch.cumsum(observer.histogram, dim=0).tolist()
    lows, highs = _quantiles()
    # A float32 tensor of one element is compared with a Python number as float32.
    floors, ceilings = (lows * total).astype(np.float32), (highs * total).astype(np.float32)
    descending = -ceilings
    low, high = 0, 0  # steps taken from below and from above
    first, last = 0, observer.bins - 1
    least = float("inf")
    while lows[low] < highs[high]:
        floor = floors[low + 1]
        left = first
        while left < last and below[left] < floor:
            left += 1
        if left == first:
            # Steps from above, up to the one that leaves the last bin out, or the end.
            moving = int(np.searchsorted(descending, -np.float32(below[last]), side="right")) if last > first else 0
            high = max(high, moving - 1) if last > first else len(highs) - 2
            if lows[low] >= highs[high]:
                break
        ceiling = ceilings[high + 1]
        right = last
        while right > first and below[right] > ceiling:
            right -= 1
        if left - first > last - right:
            low, right = low + 1, last
        else:
            high, left = high + 1, first
        if (left, right) == (first, last):
            continue
        error = observer._compute_quantization_error(left, right)
        if error > least:
            break
        least, first, last = error, left, right
    return observer.min_val + width * first, observer.min_val + width * (last + 1)


# torchao's search for batch norms of quantisation-aware training, left out where there can be none.
#
# `convert_pt2e` looks for convolutions with batch norms as `prepare_qat_pt2e` wrote them, in any program that has a
# batch norm (torchao 0.18, quantization/pt2e/qat_utils.py, `_fold_conv_bn_qat_helper`). It traces 96 patterns for that.
# Each of them takes the square root of a variance. So a program without a square root has none, and keeps what else is
# done to it: dead nodes go, and each reader gets a DEQUANTIZE of its own and loses it again.

_Fold = Callable[..., "torch.fx.GraphModule"]


def searched_where_there_may_be(fold: _Fold) -> _Fold:
    """Return torchao's `fold`, for programs with a square root only."""

    def fold_if_any(module: torch.fx.GraphModule, *arguments: Any, **options: Any) -> torch.fx.GraphModule:
        import torch
        from torchao.quantization.pt2e import qat_utils

        roots = (torch.ops.aten.sqrt.default, torch.ops.aten.sqrt_.default)
        if any(node.target in roots for node in module.graph.nodes):
            return fold(module, *arguments, **options)
        module.graph.eliminate_dead_code()
        module.recompile()
        qat_utils._duplicate_dequantize_node(module)
        qat_utils._remove_extra_dequantize(module)
        module.graph.eliminate_dead_code()
        module.recompile()
        return module

    return fold_if_any
