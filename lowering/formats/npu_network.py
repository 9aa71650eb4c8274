"""A network as Vela compiled it, without ExecuTorch: a command stream, its constants, and the memory it works on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.formats.flatbuffer import FlatbufferError, Schema
from ethos_hil.lowering.formats.vela_blob import BadPayload, DriverPayload, VelaBlob, VelaIo

CONSTANTS, SCRATCH, FAST = 0, 1, 2
"""Regions of the command stream, as Vela numbers them."""
DTYPES = {size: np.dtype(f"int{8 * size}") for size in (1, 2, 4, 8)}
"""By the bytes of an element, where nothing says more."""
MOST_BYTES = 1 << 30
"""The memory that a network may need. Ethos-U networks need megabytes."""


@dataclass(frozen=True)
class NetworkTensor:
    """An input, an output or a state of a network, and its place in memory.

    Attributes:
        name: its name, or "input0" and so on where the file has none.
        shape: dimensions.
        dtype: of its elements. A blob does not say whether they are signed; then they count as signed.
        region: the region of the command stream.
        offset: bytes from the start of the region.
        zero: the element that means 0.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    region: int
    offset: int
    zero: int = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """The dimensions, under the name that tensors of a program have for them."""
        return self.shape

    @property
    def nbytes(self) -> int:
        """Bytes of its elements."""
        return math.prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True)
class NpuNetwork:
    """One operation of the NPU: a command stream with all that it needs.

    Attributes:
        name: its name in the file.
        payload: the driver's actions, the command stream among them.
        weights: constants, region 0.
        memory: bytes of each other region that Vela declares.
        inputs, outputs: in the order of the file. What only another operator of the NPU reads is in neither.
        states: tensors that keep their values from one inference to the next.
        origin: bytes from the start of the arena, which operators of a file share, to region 1.
    """

    name: str
    payload: bytes
    weights: bytes
    memory: Mapping[int, int]
    inputs: tuple[NetworkTensor, ...]
    outputs: tuple[NetworkTensor, ...]
    states: tuple[NetworkTensor, ...] = ()
    origin: int = 0

    @cached_property
    def _driver(self) -> DriverPayload:
        return DriverPayload.parse(self.payload)

    @property
    def stream(self) -> bytes:
        """The register command stream."""
        return self._driver.stream

    @property
    def npu(self) -> EthosU:
        """The NPU that it was compiled for. Raises UsageError when the payload names none."""
        return EthosU.from_config_word(self._driver.config_word)

    def check(self, where: str) -> NpuNetwork:
        """Return the network. Raises UsageError if its parts contradict one another; `where` names the file."""
        try:
            driver = self._driver
        except BadPayload as error:
            raise damage_in(where, f"{self.name}: {error}") from error
        EthosU.from_config_word(driver.config_word)
        needed = self.origin + sum(self.memory.values())
        if needed > MOST_BYTES:
            raise damage_in(where, f"{self.name} needs {needed:,} bytes, more than any Ethos-U has")
        if self.origin < 0:
            raise damage_in(where, f"{self.name}: its memory starts at {self.origin:,} of the arena")
        for tensor in (*self.inputs, *self.outputs, *self.states):
            there = self.memory.get(tensor.region)
            if there is None or tensor.offset < 0 or tensor.offset + tensor.nbytes > there:
                has = "is not there" if there is None else f"has {there:,}"
                place = f"{tensor.nbytes:,} bytes at {tensor.offset:,} of region {tensor.region}, which {has}"
                raise damage_in(where, f"{self.name}: tensor {tensor.name} has {place}")
        return self


def read_blob(data: bytes, where: str) -> NpuNetwork:
    """Return the network of a delegate's blob, as `ethos-hil lower --to vela` writes it. Raises UsageError."""
    blob = VelaBlob.parse(data, where)
    network = NpuNetwork(
        "delegate",
        blob.command_data,
        blob.weights,
        {SCRATCH: blob.scratch_size},
        _of_blob(blob.inputs, "input"),
        _of_blob(blob.outputs, "output"),
    )
    return network.check(where)


def _of_blob(places: Sequence[VelaIo], kind: str) -> tuple[NetworkTensor, ...]:
    return tuple(
        NetworkTensor(f"{kind}{index}", short_shape(place.shape), DTYPES[place.elem_size], SCRATCH, place.offset)
        for index, place in enumerate(places)
    )


def short_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape of six dimensions without the ones that fill it up: of four dimensions, if those are ones."""
    extra = max(len(shape) - 4, 0)
    return shape[extra:] if all(size == 1 for size in shape[:extra]) else shape


def damage_in(where: str, problem: str) -> UsageError:
    """Return the error of a file that is not a usable output of Vela."""
    return UsageError(
        f"{where} is not a usable output of Vela: {problem}",
        hint="compile the network again: vela NETWORK --accelerator-config NPU",
    )


# What Vela writes by default: a .tflite in which "ethos-u" operators stand for what it compiled.
#
# Such an operator's inputs are the driver's actions, the constants, the scratch memory, the fast memory, and the inputs
# of the network's part. Metadata place every tensor in the arena, which the command stream addresses as region 1
# (OfflineMemoryAllocation, as TensorFlow Lite Micro defines it: version, subgraph and number of tensors, then an offset
# for each, -1 where the runtime chooses). What one operator of the NPU leaves for another alone is not in the file: it
# lies in the arena while the CPU computes, and there may be operators without any output.

MAGIC = b"TFL3"
"""The file identifier of a .tflite."""
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
        raise damage_in(where, str(error)) from error
    try:
        graphs: Sequence[Record] = model["subgraphs"] or ()
        if len(graphs) != 1:
            raise ValueError(f"it has {len(graphs)} subgraphs, expected 1")
        reader = _TfliteReader(model, graphs[0])
        operators = graphs[0]["operators"] or ()
        ours = [operator for operator in operators if reader.is_ours(operator)]
        networks = tuple(reader.network(part, index) for index, part in enumerate(ours))
        if networks and not networks[-1].outputs:
            raise ValueError(f"{networks[-1].name} has no output, and no other of the NPU follows that could read it")
    except (ValueError, IndexError) as error:
        raise damage_in(where, str(error)) from error
    return VelaTflite(tuple(network.check(where) for network in networks), len(operators) - len(ours))


class _TfliteReader:
    def __init__(self, model: Record, graph: Record) -> None:
        self.model = model
        self.tensors: Sequence[Record] = graph["tensors"] or ()
        self.given = {*(graph["inputs"] or ())}
        """The tensors that the user or an operator writes before they are read."""
        for operator in graph["operators"] or ():
            self.given.update(operator["outputs"] or ())

    def is_ours(self, operator: Record) -> bool:
        codes = self.model["operator_codes"] or ()
        return _at(codes, operator["opcode_index"])["custom_code"] == _CODE

    def network(self, operator: Record, index: int) -> NpuNetwork:
        inputs, outputs = list(operator["inputs"] or ()), list(operator["outputs"] or ())
        if len(inputs) < 4:
            raise ValueError(f"operator {index} has {len(inputs)} inputs")
        payload, weights, scratch, fast = inputs[:4]
        origin = self._offset(scratch)
        memory = {SCRATCH: self._bytes(scratch)}
        if fast != scratch and self._bytes(fast):  # the newer generator names the scratch memory twice if there is none
            memory[FAST] = self._bytes(fast)
        rest = [number for number in inputs[4:] if number >= 0 and self._is_planned(number)]
        given = [self._place(number, origin) for number in rest]
        # Vela 5.2 puts resource variables on the Ethos-U85. They are inputs, which nothing writes before.
        states = [bool(_at(self.tensors, number)["is_variable"]) or number not in self.given for number in rest]
        return NpuNetwork(
            f"operator {index}",
            self._data(payload),
            self._data(weights),
            memory,
            tuple(tensor for tensor, state in zip(given, states, strict=True) if not state),
            tuple(self._place(number, origin) for number in outputs),
            tuple(tensor for tensor, state in zip(given, states, strict=True) if state),
            origin,
        )

    @cached_property
    def _offsets(self) -> tuple[int, ...]:
        """The offset of each tensor in the arena. Raises ValueError."""
        for entry in self.model["metadata"] or ():
            if entry["name"] == _PLAN:
                data = bytes(_at(self.model["buffers"] or (), entry["buffer"])["data"] or b"")
                if len(data) < 12 or len(data) % 4:
                    raise ValueError(f"the metadata {_PLAN} have {len(data)} bytes")
                return tuple(np.frombuffer(data, "<i4")[3:].tolist())
        raise ValueError(f"it has no metadata {_PLAN}, which say where its tensors are")

    def _is_planned(self, number: int) -> bool:
        """Return whether an input is in the arena. The NPU never reads one that is not, as the size of an output."""
        return int(_at(self._offsets, number)) >= 0

    def _offset(self, number: int) -> int:
        if not self._is_planned(number):
            raise ValueError(f"no place is planned for tensor {number}")
        return int(self._offsets[number])

    def _shape(self, number: int) -> tuple[int, ...]:
        return tuple(_at(self.tensors, number)["shape"] or ())

    def _bytes(self, number: int) -> int:
        return math.prod(max(size, 0) for size in self._shape(number))

    def _data(self, number: int) -> bytes:
        return bytes(_at(self.model["buffers"] or (), _at(self.tensors, number)["buffer"])["data"] or b"")

    def _place(self, number: int, origin: int) -> NetworkTensor:
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
