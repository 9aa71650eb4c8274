"""Tensors whose elements lie in memory in drawn orders, for tests that no answer depends on it."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

PLACES = ("dense", "dense", "sliced", "expanded", "strides of 0")
"""All elements beside one another; every second part of an axis; one part that stands for all of an axis; axes of size
1 that say a stride of 0."""


def in_some_order(tensor: Tensor, rng: np.random.Generator) -> Tensor:
    """Return a tensor in a drawn order of memory. Its values are the same, but where one part stands for an axis."""
    axes, shape = tensor.dim(), tensor.shape
    if not axes:
        return tensor
    orders = [list(range(axes)), rng.permutation(axes).tolist(), [0, *range(2, axes), 1][:axes]]
    order = orders[int(rng.integers(3))]
    place, at = rng.choice(PLACES), int(rng.integers(axes))
    stored = tensor.permute(order).contiguous()
    size = stored.shape[at]
    if place == "sliced":
        stored = torch.cat([stored, stored], at).narrow(at, 0, size)
    elif place == "expanded":
        stored = stored.narrow(at, 0, 1).contiguous().expand(stored.shape)
    result = stored.permute(*np.argsort(order).tolist())
    if place == "strides of 0":
        strides = [0 if size == 1 else stride for size, stride in zip(shape, result.stride(), strict=True)]
        return result.as_strided(shape, strides)
    return result
