"""Resizes to the nearest element for which upstream picks other elements than PyTorch.

PyTorch picks element floor(o * in / out) for output o. Upstream (executorch 1.4.1, backends/arm/_passes/
rewrite_upsample.py) has TOSA's RESIZE pick the one nearest to the half-pixel centre, which is the same only for whole
factors. Such a resize is left to the CPU.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ethos_hil.lowering.upstream.names.operators import unwrapped

if TYPE_CHECKING:
    import torch

NAME = "PicksOthers"
"""Of the check's class; the partitioner's reasons contain it."""


def resize_check() -> Any:
    """Return a check for upstream's partitioners, which refuses such resizes."""
    from torch.fx.passes.operator_support import OperatorSupportBase

    class PicksOthers(OperatorSupportBase):
        def is_node_supported(self, submodules: Any, node: torch.fx.Node) -> bool:
            if node.op != "call_function" or str(unwrapped(node.target)) != "aten.upsample_nearest2d.vec":
                return True
            before, after = node.args[0].meta["val"].shape, node.meta["val"].shape  # type: ignore[union-attr]
            factors: Any = node.args[2] if len(node.args) > 2 else None
            return all(
                picks_alike(int(before[axis]), int(after[axis]), factors[axis - 2] if factors else None)
                for axis in (2, 3)
            )

    return PicksOthers()


def picks_alike(size: int, made: int, factor: float | None = None) -> bool:
    """Return whether upstream picks PyTorch's elements along one axis.

    Args:
        size: elements of the input.
        made: elements of the output.
        factor: the scale factor, if the model gives one.
    """
    at = np.arange(made, dtype=np.int64)
    step = np.float32(1.0 / factor) if factor else np.float32(size) / np.float32(made)
    pytorchs = np.minimum(np.floor(at.astype(np.float32) * step).astype(np.int64), size - 1)
    # Upstream's scale is 2 made / 2 size, its offset size - made; RESIZE rounds half up, and stays inside.
    position = 2 * size * at + size - made
    tosas = np.clip((position + made) // (2 * made), 0, size - 1)
    return bool((pytorchs == tosas).all())
