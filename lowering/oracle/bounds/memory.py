"""The tensors of a plan while it is evaluated with bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ethos_hil.lowering.formats.pte_model import ExecutionPlan, Tensor
from ethos_hil.lowering.oracle.bounds.value import Bounded, NoBound, RoundingPolicy, of_constant


class PlanMemory:
    """The tensors of a plan. Tensors at the same place are one tensor, in another shape (`oracle.store.Store`)."""

    def __init__(self, plan: ExecutionPlan, rounding: RoundingPolicy) -> None:
        self.plan = plan
        self.rounding = rounding
        self._values = list(plan.values)
        self._places: dict[tuple[int | None, int], Bounded] = {}

    def tensor(self, index: int) -> Tensor:
        """Return the tensor that is value `index` at present."""
        value = self._values[index]
        assert isinstance(value, Tensor), f"value {index} is no tensor"
        return value

    def number(self, index: int) -> Any:
        """Return value `index`, which is not a tensor."""
        return self._values[index]

    def get(self, index: int) -> Bounded:
        """Return tensor `index` in its logical shape."""
        tensor = self.tensor(index)
        if tensor.data is not None:
            return of_constant(
                tensor.from_bytes(tensor.data), "FP32" if tensor.scalar_type == "FLOAT" else "", self.rounding
            )
        place = (tensor.buffer, tensor.offset)
        if index in self.plan.state and place not in self._places:
            self.set(index, Bounded.exact(np.zeros(tensor.sizes, tensor.dtype)))  # as the program starts
        kept = self._places.get(place)
        if kept is None or kept.value.size != np.prod(tensor.sizes, dtype=int):
            raise NoBound(f"tensor {index}, a {tensor}, is read in parts that were written otherwise")
        return arranged(kept, lambda array: logical(array, tensor))

    def set(self, index: int, value: Bounded) -> None:
        """Write tensor `index`, given in its logical shape."""
        tensor = self.tensor(index)
        self._places[tensor.buffer, tensor.offset] = arranged(value, lambda array: array.transpose(tensor.dim_order))

    def restart(self) -> None:
        """Restore the values for another execution. Tensors keep their contents."""
        self._values = list(self.plan.values)

    def move(self, source: int, target: int) -> None:
        """Make value `target` the same as value `source`."""
        self._values[target] = self._values[source]


def logical(array: np.ndarray, tensor: Tensor) -> np.ndarray:
    """Return the contents of a tensor's memory in the tensor's logical shape."""
    ordered = array.reshape([tensor.sizes[axis] for axis in tensor.dim_order])
    return ordered.transpose(np.argsort(tensor.dim_order)) if tensor.sizes else ordered


def arranged(x: Bounded, move: Callable[[np.ndarray], np.ndarray]) -> Bounded:
    """Return values and errors after the same movement."""
    return Bounded(move(x.value), move(x.error), x.scaled, None if x.pytorch is None else move(x.pytorch))
