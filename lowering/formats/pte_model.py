"""The parts of an ExecuTorch program: methods, values, instructions, delegates.

`ethos_hil.lowering.formats.pte_reader` reads these from a .pte; this module only defines them. The names are those of
exir/_serialize/program.fbs (executorch 1.5.1), shortened where the module's name already says it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError

_NUMPY = {
    "BYTE": "uint8", "CHAR": "int8", "SHORT": "int16", "INT": "int32", "LONG": "int64", "HALF": "float16",
    "FLOAT": "float32", "DOUBLE": "float64", "BOOL": "bool", "UINT16": "uint16", "UINT32": "uint32",
    "UINT64": "uint64",
}  # fmt: skip
ITEM_SIZES = {**{name: np.dtype(kind).itemsize for name, kind in _NUMPY.items()}, "BFLOAT16": 2}


@dataclass(frozen=True)
class Tensor:
    """A tensor of a plan.

    Attributes:
        scalar_type: ExecuTorch's name of the element type, for example "CHAR".
        sizes: the logical shape; the upper bound where the shape may vary.
        dim_order: the dimensions from outermost to innermost in memory.
        buffer: index of the planned memory buffer, or None when the tensor has no planned memory.
        offset: bytes from the start of that buffer.
        data: the value of a constant, in memory order, or None.
        initial: what is in its planned memory before the first call, in memory order, or None for zeros.
    """

    scalar_type: str
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]
    buffer: int | None
    offset: int
    data: bytes | None
    initial: bytes | None = None

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return math.prod(self.sizes) * ITEM_SIZES[self.scalar_type]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of an element; a UsageError where NumPy has none."""
        if self.scalar_type not in _NUMPY:
            raise UsageError(f"tensors of type {self.scalar_type} are not supported")
        return np.dtype(_NUMPY[self.scalar_type])

    def to_bytes(self, array: np.ndarray) -> bytes:
        """Return the bytes of `array` (this shape and dtype) in the order of the tensor's memory, `dim_order`."""
        if array.shape != self.sizes or array.dtype != self.dtype:
            raise ValueError(f"expected {self}, got {array.dtype} {array.shape}")
        return array.transpose(self.dim_order).tobytes()

    def from_bytes(self, data: bytes | bytearray | memoryview) -> np.ndarray:
        """Return the array, in its logical shape, whose memory is `data`."""
        return self.in_logical_shape(np.frombuffer(data, dtype=self.dtype))

    def in_logical_shape(self, memory: np.ndarray) -> np.ndarray:
        """Return the contents of the tensor's memory in its logical shape."""
        array = memory.reshape([self.sizes[axis] for axis in self.dim_order])
        return array.transpose(np.argsort(self.dim_order)) if self.sizes else array

    def __str__(self) -> str:
        name = _NUMPY.get(self.scalar_type, self.scalar_type.lower())
        return f"{name}[{', '.join(map(str, self.sizes))}]"


@dataclass(frozen=True)
class ValueList:
    """A list value.

    `int`, `tensor` and `optional_tensor` items are indices into the plan's values (an absent optional tensor is -1);
    `bool` and `double` items are the values themselves.
    """

    kind: Literal["int", "bool", "double", "tensor", "optional_tensor"]
    items: tuple[int, ...] | tuple[bool, ...] | tuple[float, ...]


FORWARD = "forward"
IN_PLACE = "aten::copy_"


def default_method(names: Iterable[str]) -> str:
    """Return the method to use where none is named: forward, or the first."""
    known = list(names)
    return FORWARD if FORWARD in known else known[0]


Value = None | bool | int | float | str | Tensor | ValueList


@dataclass(frozen=True)
class KernelCall:
    """Runs an operator: `operator` is its full name ("aten::sort.values"), `args` are value indices."""

    operator: str
    args: tuple[int, ...]


@dataclass(frozen=True)
class DelegateCall:
    """Runs a delegate: `args` are value indices, inputs first, then outputs."""

    delegate: int
    args: tuple[int, ...]


@dataclass(frozen=True)
class MoveCall:
    """Makes value `target` the same as value `source` (for a tensor: the same memory)."""

    source: int
    target: int


@dataclass(frozen=True)
class JumpFalseCall:
    """Continues at instruction `destination` unless value `condition` is true."""

    condition: int
    destination: int


@dataclass(frozen=True)
class FreeCall:
    """Drops a tensor's memory."""

    value: int


Instruction = KernelCall | DelegateCall | MoveCall | JumpFalseCall | FreeCall


@dataclass(frozen=True)
class BackendDelegate:
    """One partition compiled for a backend.

    Attributes:
        id: the backend; "EthosUBackend" for partitions of the NPU.
        data: its blob, with what of it is in a .ptd.
        file_offset: where the blob starts in the .pte, bytes.
        compile_specs: the options that the backend was given.
    """

    id: str
    data: bytes
    file_offset: int
    compile_specs: dict[str, bytes]


@dataclass(frozen=True)
class ExecutionPlan:
    """One method of the program.

    Attributes:
        name: "forward", usually.
        values: instructions refer to these by index.
        inputs, outputs: value indices.
        instructions: in order; an instruction's index is its id everywhere.
        operators: the full names of the operators that run on the CPU.
        delegates: indexed by `DelegateCall.delegate`.
        planned_sizes: bytes of each planned memory buffer.
    """

    name: str
    values: tuple[Value, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    instructions: tuple[Instruction, ...]
    operators: tuple[str, ...]
    delegates: tuple[BackendDelegate, ...]
    planned_sizes: tuple[int, ...]

    @property
    def number(self) -> int | float | None:
        """The number that it answers, if that is all it does: such methods say something of others. None elsewhere."""
        answers = [self.values[index] for index in self.outputs]
        if self.inputs or self.instructions or len(answers) != 1 or isinstance(answers[0], bool):
            return None
        return answers[0] if isinstance(answers[0], int | float) else None

    def tensor(self, index: int) -> Tensor:
        """Return value `index`, which must be a tensor. Raises UsageError otherwise."""
        value = self.values[index]
        if not isinstance(value, Tensor):
            raise UsageError(f"value {index} of {self.name} is {type(value).__name__}, a tensor is needed")
        return value

    @cached_property
    def delegate_calls(self) -> tuple[tuple[int, DelegateCall], ...]:
        """The calls of delegates, each with its instruction index."""
        return tuple((at, call) for at, call in enumerate(self.instructions) if isinstance(call, DelegateCall))

    @cached_property
    def state(self) -> tuple[int, ...]:
        """The tensors that keep their contents from one call to the next. ExecuTorch writes them at the end of a call.

        exir of executorch 1.5.1 writes the new value of a mutated buffer, and of a mutated input, by aten::copy_. An
        input is written by the caller before each call, so it keeps nothing. What starts with a value keeps what a call
        leaves in it, however that is written.
        """
        written = {
            call.args[0] for call in self.instructions if isinstance(call, KernelCall) and call.operator == IN_PLACE
        }
        started = {
            at for at, value in enumerate(self.values) if isinstance(value, Tensor) and value.initial is not None
        }
        return tuple(sorted((written | started) - set(self.inputs)))

    @cached_property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The inputs, which must be tensors."""
        return tuple(self.tensor(index) for index in self.inputs)

    @cached_property
    def output_tensors(self) -> tuple[Tensor, ...]:
        """The outputs, which must be tensors."""
        return tuple(self.tensor(index) for index in self.outputs)


# Names of a program's outputs: those that the model gives them, by the keys of a dictionary, or their numbers.

_NUMBERED = re.compile(r"output (\d+)")
_UNUSABLE = re.compile(r"[/\\\x00-\x1f\x7f]")
"""Characters that the name of a member of an archive should not have."""
LONGEST = 100
"""Characters of a name. A longer one is replaced by a number."""


def number_names(count: int) -> tuple[str, ...]:
    """Return the names of outputs that have none: "output 0", "output 1", ..."""
    return tuple(f"output {index}" for index in range(count))


def fitting(names: Sequence[str], count: int) -> tuple[str, ...]:
    """Return the names of a number of outputs; numbers, if there are not as many names."""
    return tuple(names) if len(names) == count else number_names(count)


def archive_names(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of outputs in an archive of arrays: "output 1" is output_1, others keep their name.

    Args:
        names: the outputs' names.
    """
    usable = tuple(_NUMBERED.sub(r"output_\1", _UNUSABLE.sub("_", name)) for name in names)
    return usable if len(set(usable)) == len(usable) else tuple(f"output_{index}" for index in range(len(names)))
