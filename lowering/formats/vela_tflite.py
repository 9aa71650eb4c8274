"""What Vela writes by default: a .tflite in which "ethos-u" operators stand for what it compiled.

Such an operator's inputs are the driver's actions, the constants, the scratch memory, the fast memory, and the inputs
of the network's part. Metadata place every tensor in the arena, which the command stream addresses as region 1
(OfflineMemoryAllocation, as TensorFlow Lite Micro defines it: version, subgraph and number of tensors, then an offset
for each, -1 where the runtime chooses).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ethos_hil.lowering.formats.flatbuffer import FlatbufferError, Schema
from ethos_hil.lowering.formats.npu_network import FAST, SCRATCH, NetworkTensor, NpuNetwork, damaged

MAGIC = b"TFL3"
# The part of TensorFlow Lite's schema that is read here; fields stand at their numbers.
_SCHEMA = Schema.parse("""
table Buffer { data:[ubyte]; }
table Metadata { name:string; buffer:uint; }
table OperatorCode { deprecated_builtin_code:byte; custom_code:string; version:int; builtin_code:int; }
table Quantization { min:[float]; max:[float]; scale:[float]; zero_point:[long]; }
table Tensor { shape:[int]; type:byte; buffer:uint; name:string; quantization:Quantization; is_variable:bool; }
table Operator { opcode_index:uint; inputs:[int]; outputs:[int]; }
table SubGraph { tensors:[Tensor]; inputs:[int]; outputs:[int]; operators:[Operator]; name:string; }
table Model { version:uint; operator_codes:[OperatorCode]; subgraphs:[SubGraph]; description:string; buffers:[Buffer];
  metadata_buffer:[int]; metadata:[Metadata]; }
""")
_CODE = "ethos-u"
_PLAN = "OfflineMemoryAllocation"
_DTYPES = {0: "float32", 2: "int32", 3: "uint8", 4: "int64", 6: "bool", 7: "int16", 9: "int8"}
Record = dict[str, Any]


@dataclass(frozen=True)
class VelaTflite:
    """The operators of a file.

    Attributes:
        networks: those that the NPU runs, in their order.
        others: how many are left to the CPU.
    """

    networks: tuple[NpuNetwork, ...]
    others: int


def read_tflite(data: bytes, where: str) -> VelaTflite:
    """Return the operators of a file. Raises UsageError, which names the file `where`."""
    try:
        model = _SCHEMA.read("Model", data)
    except FlatbufferError as error:
        raise damaged(where, str(error)) from error
    try:
        graphs: Sequence[Record] = model["subgraphs"] or ()
        if len(graphs) != 1:
            raise ValueError(f"it has {len(graphs)} subgraphs, expected 1")
        reader = _TfliteReader(model, graphs[0])
        operators = graphs[0]["operators"] or ()
        ours = [one for one in operators if reader.is_ours(one)]
        networks = tuple(reader.network(one, index) for index, one in enumerate(ours))
    except (ValueError, IndexError) as error:
        raise damaged(where, str(error)) from error
    return VelaTflite(tuple(one.checked(where) for one in networks), len(operators) - len(ours))


def read_ends(data: bytes, where: str) -> tuple[tuple[NetworkTensor, ...], tuple[NetworkTensor, ...]]:
    """Return inputs and outputs of any .tflite, with no place in memory. Raises UsageError, as `read_tflite`."""
    try:
        model = _SCHEMA.read("Model", data)
        graph = _at(model["subgraphs"] or (), 0)
        reader = _TfliteReader(model, graph)
        inputs, outputs = (tuple(reader.tensor(number) for number in graph[end] or ()) for end in ("inputs", "outputs"))
    except (FlatbufferError, ValueError) as error:
        raise damaged(where, str(error)) from error
    return inputs, outputs


class _TfliteReader:
    def __init__(self, model: Record, graph: Record) -> None:
        self.model = model
        self.tensors: Sequence[Record] = graph["tensors"] or ()
        self._offsets: tuple[int, ...] | None = None

    def is_ours(self, operator: Record) -> bool:
        codes = self.model["operator_codes"] or ()
        return _at(codes, operator["opcode_index"])["custom_code"] == _CODE

    def network(self, operator: Record, index: int) -> NpuNetwork:
        inputs, outputs = list(operator["inputs"] or ()), list(operator["outputs"] or ())
        if len(inputs) < 4 or not outputs:
            raise ValueError(f"operator {index} has {len(inputs)} inputs and {len(outputs)} outputs")
        payload, weights, scratch, fast = inputs[:4]
        origin = self._offset(scratch)
        memory = {SCRATCH: self._bytes(scratch)}
        if fast != scratch and self._bytes(fast):  # the newer generator names the scratch memory twice if there is none
            memory[FAST] = self._bytes(fast)
        rest = [number for number in inputs[4:] if number >= 0 and self._planned(number)]
        given = [self._placed(number, origin) for number in rest]
        states = [bool(_at(self.tensors, number)["is_variable"]) for number in rest]
        return NpuNetwork(
            f"operator {index}",
            self._data(payload),
            self._data(weights),
            memory,
            tuple(one for one, state in zip(given, states, strict=True) if not state),
            tuple(self._placed(number, origin) for number in outputs),
            tuple(one for one, state in zip(given, states, strict=True) if state),
        )

    def _plan(self) -> tuple[int, ...]:
        for entry in self.model["metadata"] or ():
            if entry["name"] == _PLAN:
                data = bytes(_at(self.model["buffers"] or (), entry["buffer"])["data"] or b"")
                if len(data) < 12 or len(data) % 4:
                    raise ValueError(f"the metadata {_PLAN} have {len(data)} bytes")
                return tuple(np.frombuffer(data, "<i4")[3:].tolist())
        raise ValueError(f"it has no metadata {_PLAN}, which say where its tensors are")

    def _planned(self, number: int) -> bool:
        """Return whether an input is in the arena. The NPU never reads one that is not, as the size of an output."""
        if self._offsets is None:
            self._offsets = self._plan()
        return int(_at(self._offsets, number)) >= 0

    def _offset(self, number: int) -> int:
        if self._offsets is None:
            self._offsets = self._plan()
        offset = _at(self._offsets, number)
        if offset < 0:
            raise ValueError(f"no place is planned for tensor {number}")
        return int(offset)

    def _shape(self, number: int) -> tuple[int, ...]:
        return tuple(_at(self.tensors, number)["shape"] or ())

    def _bytes(self, number: int) -> int:
        size = 1
        for one in self._shape(number):
            size *= max(one, 0)
        return size

    def _data(self, number: int) -> bytes:
        return bytes(_at(self.model["buffers"] or (), _at(self.tensors, number)["buffer"])["data"] or b"")

    def _placed(self, number: int, origin: int) -> NetworkTensor:
        return replace(self.tensor(number), offset=self._offset(number) - origin)

    def tensor(self, number: int) -> NetworkTensor:
        """Return a tensor without its place. Raises ValueError."""
        record = _at(self.tensors, number)
        name = record["name"] or f"tensor {number}"
        if record["type"] not in _DTYPES:
            raise ValueError(f"tensor {name} has elements of type {record['type']}")
        shape = self._shape(number)
        if any(size < 1 for size in shape):
            raise ValueError(f"tensor {name} has the shape {list(shape)}")
        zero_points = (record["quantization"] or {}).get("zero_point") or (0,)
        return NetworkTensor(name, shape, np.dtype(_DTYPES[record["type"]]), SCRATCH, 0, int(zero_points[0]))


def _at(sequence: Sequence[Any], number: int) -> Any:
    if not 0 <= number < len(sequence):
        raise ValueError(f"number {number} is beyond the {len(sequence)} that there are")
    return sequence[number]
