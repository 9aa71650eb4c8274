"""The values of a program while it is computed on the host."""

from __future__ import annotations

from typing import Any

import numpy as np

from ethos_hil.base.errors import OracleError
from ethos_hil.lowering.formats.pte_model import ExecutionPlan, Tensor, ValueList


class Store:
    """The values of a plan while it runs, in memory laid out as planned.

    Tensors share memory where the plan says so. Programs rely on it: a view compiles to nothing but a second tensor at
    the same place.
    """

    def __init__(self, plan: ExecutionPlan) -> None:
        self._plan = plan
        self._values = list(plan.values)
        self._memory = [np.zeros(size, np.uint8) for size in plan.planned_sizes]

    def tensor(self, index: int) -> Tensor:
        """Return the tensor that is value `index` at present."""
        value = self._values[index]
        if not isinstance(value, Tensor):
            raise OracleError(f"value {index} is no tensor")
        return value

    def outputs(self, index: int) -> list[int]:
        """Return the tensors that an output argument names: value `index` itself, or the items of a list."""
        value = self._values[index]
        return [int(item) for item in value.items] if isinstance(value, ValueList) else [index]

    def get(self, index: int) -> Any:
        """Return value `index`; a tensor as an array in its logical shape, valid until the next write."""
        value = self._values[index]
        if not isinstance(value, Tensor):
            return value
        if value.data is not None:
            return value.from_bytes(value.data)
        return value.from_bytes(self._place(index, value).data)

    def set(self, index: int, array: np.ndarray) -> None:
        """Write tensor `index`."""
        tensor = self.tensor(index)
        if tensor.data is not None:
            raise OracleError(f"tensor {index} is a constant and cannot be written")
        self._place(index, tensor)[:] = np.frombuffer(tensor.to_bytes(array), np.uint8)

    def restart(self) -> None:
        """Restore the values for another execution. Memory keeps its contents, as it does on a device."""
        self._values = list(self._plan.values)

    def move(self, source: int, target: int) -> None:
        """Make value `target` the same as value `source`; for a tensor the place in memory, not the contents."""
        self._values[target] = self._values[source]

    def is_true(self, index: int) -> bool:
        """Return value `index` as a condition: a bool, or whether all elements of a tensor of bools are true."""
        return bool(np.all(self.get(index)))

    def _place(self, index: int, tensor: Tensor) -> np.ndarray:
        if tensor.buffer is None:
            raise OracleError(f"tensor {index} has no memory")
        return self._memory[tensor.buffer][tensor.offset : tensor.offset + tensor.nbytes]
