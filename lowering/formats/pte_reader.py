"""A reader for ExecuTorch programs (.pte), and for bundled ones (.bpte), that works without ExecuTorch.

Importing executorch takes seconds, and its reader trusts the file. This reader takes milliseconds and checks everything
it returns: in a `Program`, all indices are in range, all tensors lie inside their memory, and all delegates' data is
present. Facts of the format: executorch 1.4.1 and 1.5.1, exir/_serialize/program.fbs and _program.py.

Data outside of the file is read from the .ptd files that are given beside it; what they lack is refused by name, as are
unbounded shapes and memory of another device.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Literal

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.lowering.formats.flatbuffer import FlatbufferError, Record, Schema
from ethos_hil.lowering.formats.named_data import NamedData, merge
from ethos_hil.lowering.formats.pte_model import (
    ITEM_SIZES,
    BackendDelegate,
    DelegateCall,
    ExecutionPlan,
    FreeCall,
    Instruction,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    Tensor,
    Value,
    ValueList,
)
from ethos_hil.lowering.formats.vela_blob import inlined
from ethos_hil.lowering.upstream.names.schemas import BUNDLE_SCHEMA, SCHEMAS, bundle_schema_file, schema_folder

_IDENTIFIER = b"ET12"
_HEADER_MAGIC = b"eh00"
_MAX_RANK = 16
_STATIC, _BOUNDED = 0, 1
_INLINE, _SEGMENT = 0, 1
_EXTERNAL = 1
_CPU = 0
_PLACEMENTS = "external_block_placements"


@dataclass(frozen=True)
class Program:
    """A parsed and checked .pte."""

    plans: tuple[ExecutionPlan, ...]

    def plan(self, name: str = "forward") -> ExecutionPlan:
        """Return the method called `name`. Raises UsageError, which lists the ones there are."""
        for plan in self.plans:
            if plan.name == name:
                return plan
        raise UsageError(
            f"the program has no method {name!r}", hint=f"it has: {', '.join(plan.name for plan in self.plans)}"
        )

    @classmethod
    def parse(cls, data: bytes, where: str = "program", ptd: Mapping[str, bytes] | None = None) -> Program:
        """Read and check a .pte. Raises UsageError, which says what is wrong with it, or what of it is missing.

        Args:
            data: the whole file.
            where: the file's name in an error.
            ptd: the .ptd files beside it, by their names in an error.
        """
        try:
            return cls(_Parser(data, ptd or {}).plans())
        except _Missing as error:
            raise UsageError(f"{where}: {error}", hint=error.hint) from None
        except (_Malformed, FlatbufferError) as error:
            raise UsageError(
                f"{where}: not a usable ExecuTorch program: {error}", hint="give a complete .pte of ExecuTorch 1.x"
            ) from None


class _Malformed(Exception):
    """The file is damaged or not supported. The message says how."""


class _Missing(Exception):
    """Data that is in another file was not given. The message says which, and `hint` what to give."""

    def __init__(self, what: str, key: str, ptd: Mapping[str, bytes], tag: str) -> None:
        self.key = key
        given = f"not in {', '.join(ptd)}" if ptd else "no .ptd was given"
        super().__init__(f"the data of {what} is in another file, under the name {key!r}, and {given}")
        self.hint = f"give the file that was written with the program: --ptd {tag or 'FILE'}.ptd"


def missing_data(data: bytes, ptd: Mapping[str, bytes]) -> str | None:
    """Return the name of some data of a .pte that is outside of it and in none of the .ptd files; None where nothing is
    missing, or the program cannot be read at all.
    """
    try:
        _Parser(data, ptd).plans()
    except _Missing as missing:
        return missing.key
    except (_Malformed, FlatbufferError, UsageError):
        return None
    return None


@cache
def _schema() -> Schema:
    folder = schema_folder()
    return Schema.parse(*((folder / name).read_text("utf-8") for name in SCHEMAS))


class _Parser:
    def __init__(self, data: bytes, ptd: Mapping[str, bytes]) -> None:
        self._data = data
        self._ptd = ptd
        if len(data) < 8:
            raise _Malformed(f"it has {len(data)} bytes, expected at least 8")
        if data[4:8] != _IDENTIFIER:
            raise _Malformed(f"bytes 4 to 7 are {data[4:8]!r}, expected {_IDENTIFIER!r}")
        program_size, self._segment_base, segment_size = self._header()
        self._program: Record = _schema().read("Program", memoryview(data)[:program_size])
        self._segments: list[tuple[int, int]] = []
        for index, segment in enumerate(self._program["segments"] or ()):
            begin, size = segment["offset"], segment["size"]
            if size and begin + size > segment_size:
                raise _Malformed(f"segment {index} is {size} bytes at {begin}, the file has {segment_size} of segments")
            self._segments.append((self._segment_base + begin, size))
        self._named = merge(ptd)
        for entry in self._program["named_data"] or ():
            begin, size = self._segment(entry["segment_index"], f"the data named {entry['key']!r}")
            own = NamedData(data[begin : begin + size])
            if self._named.setdefault(entry["key"] or "", own) != own:
                raise _Malformed(f"it has the name {entry['key']!r} for other data than a .ptd")

    def _header(self) -> tuple[int, int, int]:
        """Return the bytes of the flatbuffer, the offset of the segments, and the bytes of the segments."""
        data = self._data
        if data[8:12] != _HEADER_MAGIC:
            return len(data), len(data), 0
        if len(data) < 32:
            raise _Malformed(f"it ends inside its header, after {len(data)} bytes")
        length, program_size, base = struct.unpack_from("<IQQ", data, 12)
        if length < 24 or 8 + length > len(data):
            raise _Malformed(f"its header claims {length} bytes")
        if program_size > len(data) or base > len(data) or (base and base < program_size):
            raise _Malformed(f"it has {len(data)} bytes; its header claims {program_size}, and segments from {base}")
        available = len(data) - base if base else 0
        if length >= 32:
            (size,) = struct.unpack_from("<Q", data, 32)
            if size > available:
                raise _Malformed(f"its segments should have {size} bytes, {available} are there: the file is truncated")
            available = size
        return program_size, base, available

    def plans(self) -> tuple[ExecutionPlan, ...]:
        plans = tuple(self._plan(record) for record in self._program["execution_plan"] or ())
        if not plans:
            raise _Malformed("it has no methods")
        return plans

    def _segment(self, index: int, what: str) -> tuple[int, int]:
        if index >= len(self._segments):
            raise _Malformed(f"{what} is in segment {index} of {len(self._segments)}")
        return self._segments[index]

    def _plan(self, record: Record) -> ExecutionPlan:
        name = record["name"] or ""
        sizes = record["non_const_buffer_sizes"] or ()
        if any(size < 0 for size in sizes):
            raise _Malformed(f"method {name!r} plans memory of {sizes} bytes")
        for entry in record["non_const_buffer_device"] or ():
            if entry["device_type"] != _CPU:
                raise _Malformed(f"memory {entry['buffer_idx']} is of device type {entry['device_type']}")
        planned = tuple(sizes[1:])  # entry 0 is reserved
        values = tuple(self._value(entry["val"], index, planned) for index, entry in enumerate(record["values"] or ()))
        operators = tuple(_operator_name(operator) for operator in record["operators"] or ())
        delegates = tuple(self._delegate(entry, index) for index, entry in enumerate(record["delegates"] or ()))
        chains = record["chains"] or ()
        if len(chains) > 1:
            raise _Malformed(f"method {name!r} has {len(chains)} chains of instructions, expected 1")
        raw = (chains[0]["instructions"] or ()) if chains else ()
        instructions = tuple(
            _instruction(entry["instr_args"], index, len(raw), len(values), operators, len(delegates))
            for index, entry in enumerate(raw)
        )
        inputs, outputs = (record[key] or () for key in ("inputs", "outputs"))
        _check_indices((*inputs, *outputs), len(values), f"an input or output of {name!r}")
        for index, value in enumerate(values):
            if isinstance(value, ValueList) and value.kind in ("int", "tensor", "optional_tensor"):
                given = [item for item in value.items if not (value.kind == "optional_tensor" and item == -1)]
                _check_indices(given, len(values), f"an item of value {index}")
                wanted: type = int if value.kind == "int" else Tensor
                if any(type(values[int(item)]) is not wanted for item in given):
                    raise _Malformed(f"value {index} is a list of {value.kind}s with an item of another type")
        return ExecutionPlan(name, values, inputs, outputs, instructions, operators, delegates, planned)

    def _delegate(self, record: Record, index: int) -> BackendDelegate:
        reference = record["processed"]
        if reference is None or not record["id"]:
            raise _Malformed(f"delegate {index} has no data or no name")
        where = f"delegate {index}"
        if reference["location"] == _INLINE:
            inline = self._program["backend_delegate_data"] or ()
            if reference["index"] >= len(inline):
                raise _Malformed(f"{where} is inline data {reference['index']} of {len(inline)}")
            view = inline[reference["index"]]["data"]
            blob = bytes(view) if view is not None else b""
            offset = _offset_in(self._data, view) if view is not None else 0
        elif reference["location"] == _SEGMENT:
            offset, size = self._segment(reference["index"], where)
            blob = self._data[offset : offset + size]
        else:
            raise _Malformed(f"{where} is at an unknown location {reference['location']}")
        specs = {spec["key"] or "": bytes(spec["value"] or b"") for spec in record["compile_specs"] or ()}
        tags = _tags(specs.get(_PLACEMENTS, b""))
        blob = inlined(blob, lambda block, key: self._find(key, f"{block} of {where}", tags.get(block, "")).data)
        return BackendDelegate(record["id"], blob, offset, specs)

    def _find(self, key: str, what: str, tag: str = "") -> NamedData:
        if key not in self._named:
            raise _Missing(what, key, self._ptd, tag)
        return self._named[key]

    def _value(self, union: tuple[str, Record] | None, index: int, planned: Sequence[int]) -> Value:
        if union is None:
            raise _Malformed(f"value {index} has no type")
        kind, record = union
        if kind == "Null":
            return None
        if kind in _SCALAR_FIELDS:
            value = record[_SCALAR_FIELDS[kind]]
            return "" if value is None else value  # an absent string is an empty one; the others have defaults
        if kind in _LIST_KINDS:
            return ValueList(_LIST_KINDS[kind], tuple(record["items"] or ()))
        return self._tensor(record, index, planned)

    def _tensor(self, record: Record, index: int, planned: Sequence[int]) -> Tensor:
        where = f"tensor {index}"
        names = {code: name for name, code in _schema().enums["ScalarType"].items()}
        scalar_type = names.get(record["scalar_type"], str(record["scalar_type"]))
        if scalar_type not in ITEM_SIZES:
            raise _Malformed(f"{where} has elements of type {scalar_type}, which is not supported")
        sizes, dim_order = tuple(record["sizes"] or ()), tuple(record["dim_order"] or b"")
        if len(sizes) > _MAX_RANK or any(size < 0 for size in sizes):
            raise _Malformed(f"{where} has shape {sizes}")
        if sorted(dim_order) != list(range(len(sizes))):
            raise _Malformed(f"{where} of rank {len(sizes)} has dimension order {dim_order}")
        if record["storage_offset"] != 0:
            raise _Malformed(f"{where} starts {record['storage_offset']} elements into its storage, expected 0")
        if record["shape_dynamism"] not in (_STATIC, _BOUNDED):
            raise _Malformed(f"{where} has an unbounded shape, which is not supported")
        nbytes = math.prod(sizes) * ITEM_SIZES[scalar_type]
        data = self._content(record, nbytes, where)
        buffer, offset = None, 0
        allocation = record["allocation_info"]
        if allocation is not None:
            buffer = allocation["memory_id"] - 1
            offset = allocation["memory_offset_low"] | allocation["memory_offset_high"] << 32
            if not 0 <= buffer < len(planned):
                raise _Malformed(f"{where} is in memory {buffer + 1}, there are {len(planned)}")
            if offset + nbytes > planned[buffer]:
                raise _Malformed(f"{where} is {nbytes} bytes at {offset} of {planned[buffer]} planned")
            return Tensor(scalar_type, sizes, dim_order, buffer, offset, None, data)
        return Tensor(scalar_type, sizes, dim_order, None, 0, data)

    def _content(self, record: Record, nbytes: int, where: str) -> bytes | None:
        """Return a constant's value, or the initial value of a tensor with memory; None where there is none."""
        extra = record["extra_tensor_info"] or {}
        if extra.get("device_type", _CPU) != _CPU:
            raise _Malformed(f"{where} is in the memory of device type {extra['device_type']}, which is not supported")
        if extra.get("location") == _EXTERNAL:
            key = extra["fully_qualified_name"] or ""
            entry = self._find(key, where)
            form = (record["scalar_type"], tuple(record["sizes"] or ()), tuple(record["dim_order"] or b""))
            if entry.form != form or len(entry.data) != nbytes:
                raise _Malformed(f"{where} is {form}, {key!r} in the .ptd is {entry.form} of {len(entry.data)} bytes")
            return entry.data
        if extra.get("location"):
            raise _Malformed(f"{where} has its data at an unknown location {extra['location']}")
        index = record["data_buffer_idx"]
        if not index:
            return None
        if record["allocation_info"] is None:
            return self._constant(index, nbytes, where)
        tables = self._program["mutable_data_segments"] or ()
        chosen = extra.get("mutable_data_segments_idx", 0)
        if chosen >= len(tables):
            raise _Malformed(f"{where} has its initial value in table {chosen} of {len(tables)}")
        return self._part(tables[chosen], index, nbytes, f"the initial value of {where}")

    def _constant(self, index: int, nbytes: int, where: str) -> bytes:
        inline = self._program["constant_buffer"] or ()
        if inline:
            if index >= len(inline) or inline[index]["storage"] is None:
                raise _Malformed(f"{where} is constant {index} of {len(inline)}")
            data = bytes(inline[index]["storage"][:nbytes])
        else:
            data = self._part(self._program["constant_segment"], index, nbytes, where)
        if len(data) != nbytes:
            raise _Malformed(f"{where} needs {nbytes} bytes of data, {len(data)} are there")
        return data

    def _part(self, table: Record | None, index: int, nbytes: int, where: str) -> bytes:
        offsets = (table["offsets"] or ()) if table is not None else ()
        if table is None or index >= len(offsets):
            raise _Malformed(f"{where} is constant {index} of {len(offsets)}")
        begin, size = self._segment(table["segment_index"], where)
        if offsets[index] + nbytes > size:
            raise _Malformed(f"{where} is {nbytes} bytes at {offsets[index]} of {size} bytes of constants")
        return self._data[begin + offsets[index] : begin + offsets[index] + nbytes]


def _tags(placements: bytes) -> dict[str, str]:
    """Return what the .ptd of each block outside of a delegate is called, as EthosUCompileSpec of 1.5.1 notes it."""
    try:
        tags = json.loads(placements or b"{}")
    except ValueError:
        tags = None
    return {str(block): str(tag) for block, tag in tags.items()} if isinstance(tags, dict) else {}


_SCALAR_FIELDS = {"Int": "int_val", "Bool": "bool_val", "Double": "double_val", "String": "string_val"}
_LIST_KINDS: dict[str, Literal["int", "bool", "double", "tensor", "optional_tensor"]] = {
    "IntList": "int",
    "BoolList": "bool",
    "DoubleList": "double",
    "TensorList": "tensor",
    "OptionalTensorList": "optional_tensor",
}


def _offset_in(data: bytes, view: memoryview) -> int:
    """Return where `view`, a slice of `data`, starts."""
    if not len(view):
        return 0
    whole = np.frombuffer(data, np.uint8).__array_interface__["data"][0]
    return int(np.frombuffer(view, np.uint8).__array_interface__["data"][0]) - int(whole)


def _operator_name(record: Record) -> str:
    name, overload = record["name"] or "", record["overload"] or ""
    return f"{name}.{overload}" if overload else name


def _check_indices(indices: Sequence[int] | Sequence[float], count: int, what: str) -> None:
    for index in indices:
        if not 0 <= index < count:
            raise _Malformed(f"{what} is value {index} of {count}")


def _instruction(
    union: tuple[str, Record] | None, index: int, count: int, values: int, operators: Sequence[str], delegates: int
) -> Instruction:
    if union is None:
        raise _Malformed(f"instruction {index} has no type")
    kind, record = union
    what = f"an argument of instruction {index}"
    if kind in ("KernelCall", "DelegateCall"):
        args = tuple(record["args"] or ())
        _check_indices(args, values, what)
        chosen, known = (
            (record["op_index"], len(operators)) if kind == "KernelCall" else (record["delegate_index"], delegates)
        )
        if not 0 <= chosen < known:
            raise _Malformed(f"instruction {index} calls {kind.removesuffix('Call').lower()} {chosen} of {known}")
        return KernelCall(operators[chosen], args) if kind == "KernelCall" else DelegateCall(chosen, args)
    if kind == "MoveCall":
        _check_indices((record["move_from"], record["move_to"]), values, what)
        return MoveCall(record["move_from"], record["move_to"])
    if kind == "JumpFalseCall":
        _check_indices((record["cond_value_index"],), values, what)
        if not 0 <= record["destination_instruction"] <= count:
            raise _Malformed(f"instruction {index} jumps to {record['destination_instruction']} of {count}")
        return JumpFalseCall(record["cond_value_index"], record["destination_instruction"])
    _check_indices((record["value_index"],), values, what)
    return FreeCall(record["value_index"])


# Bundled programs (.bpte): a program, with test cases for its methods.
#
# A test case has inputs, and the outputs that its author expects. Facts of the format: executorch 1.4.1,
# devtools/bundled_program/schema/bundled_program_schema.fbs and core.py. The file has no tolerances.

Arrays = tuple[np.ndarray, ...]

_BUNDLE_IDENTIFIER = b"BP08"
_NAMESPACE = "executorch_flatbuffer."


@dataclass(frozen=True)
class BundledCase:
    """A test case: one input set, and the outputs expected. Shapes are logical (NCHW)."""

    inputs: Arrays
    outputs: Arrays


@dataclass(frozen=True)
class BundledProgram:
    """A parsed and checked .bpte.

    Attributes:
        program: the .pte in it.
        cases: test cases by method. Whether they fit the program is not checked here.
    """

    program: bytes
    cases: Mapping[str, tuple[BundledCase, ...]]

    @classmethod
    def parse(cls, data: bytes, where: str) -> BundledProgram:
        """Read and check a .bpte.

        Args:
            data: the whole file.
            where: the file's name in an error.

        Raises:
            UsageError: the file is damaged; the error says how.
        """
        try:
            if not is_bundle(data):
                raise FlatbufferError(f"bytes 4 to 7 are {data[4:8]!r}, expected {_BUNDLE_IDENTIFIER!r}")
            record = _bundle_schema().read("BundledProgram", data)
            if not record["program"]:
                raise FlatbufferError("it holds no program")
            cases: dict[str, tuple[BundledCase, ...]] = {}
            for suite in record["method_test_suites"] or ():
                name = suite["method_name"] or ""
                if name in cases:
                    raise FlatbufferError(f"it has test cases for method {name!r} twice")
                cases[name] = tuple(
                    _case(case, f"test case {index} of method {name!r}")
                    for index, case in enumerate(suite["test_cases"] or ())
                )
            return cls(bytes(record["program"]), cases)
        except FlatbufferError as error:
            raise UsageError(
                f"{where}: not a usable bundled program: {error}", hint=f"give a complete .bpte ({BUNDLE_SCHEMA})"
            ) from None


def is_bundle(data: bytes) -> bool:
    """Return whether a file says that it is a bundled program."""
    return data[4:8] == _BUNDLE_IDENTIFIER


@cache
def _bundle_schema() -> Schema:
    texts = [(schema_folder() / name).read_text("utf-8") for name in SCHEMAS]
    return Schema.parse(texts[0], bundle_schema_file().read_text("utf-8").replace(_NAMESPACE, ""))


def _case(record: Record, where: str) -> BundledCase:
    return BundledCase(
        *(
            tuple(_array(value, f"{what} {index} of {where}") for index, value in enumerate(record[key] or ()))
            for key, what in (("inputs", "input"), ("expected_outputs", "expected output"))
        )
    )


def _array(value: Record, where: str) -> np.ndarray:
    """Return a value as an array. A number becomes one without dimensions."""
    content = value["val"]
    if content is None:
        raise FlatbufferError(f"{where} has no value")
    kind, record = content
    if kind != "Tensor":
        number = record[f"{kind.lower()}_val"]
        return np.array(bool(number) if kind == "Bool" else number)
    names = {code: name for name, code in _bundle_schema().enums["ScalarType"].items()}
    name = names.get(record["scalar_type"], "")
    if name not in ITEM_SIZES:
        raise FlatbufferError(f"{where} has the element type {record['scalar_type']}, which is not supported")
    sizes = tuple(record["sizes"] or ())
    data = bytes(record["data"] or b"")
    order = tuple(record["dim_order"] or ()) or tuple(range(len(sizes)))
    if len(sizes) > _MAX_RANK or any(size < 0 for size in sizes) or sorted(order) != list(range(len(sizes))):
        raise FlatbufferError(f"{where} has the shape {list(sizes)} in the order {list(order)}")
    wanted = math.prod(sizes) * ITEM_SIZES[name]
    if len(data) != wanted:
        raise FlatbufferError(f"{where} has {len(data):,} bytes, its type and shape need {wanted:,}")
    return Tensor(name, sizes, order, None, 0, None).from_bytes(data)
