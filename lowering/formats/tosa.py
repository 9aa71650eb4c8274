"""TOSA flatbuffers of Arm's backend: operators, tensors, and where each operator came from.

They are read with the `tosa` package of tosa-tools, whose classes are generated from the format's schema and check
nothing. A flatbuffer may come from a recording or a cache of another person, so it may be damaged: then reading it
raises one error, and takes time and memory in proportion to its size.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import flatbuffers
from tosa.Attribute import Attribute
from tosa.DType import DType
from tosa.Op import Op
from tosa.TosaGraph import TosaGraph as Buffer

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.errors import UsageError

CONSTANTS = ("CONST", "CONST_SHAPE")
"""Operators that give constants, of data and of a shape."""
_MOST_TEXT = 8
"""The length of all texts, at most, in lengths of the program. A program may share texts; those of Arm's do not."""
_NAMES: dict[int, str] = {value: name for name, value in vars(Op).items() if not name.startswith("_")}
_ATTRIBUTES: dict[int, str] = {value: name for name, value in vars(Attribute).items() if not name.startswith("_")}
DTYPES: dict[int, str] = {value: name for name, value in vars(DType).items() if not name.startswith("_")}


@dataclass(frozen=True)
class Ancestor:
    """A node of an earlier graph that an operator descends from.

    `identifier` is "<node name>.<graph id>": it is unique within the process that exported the model, and ExecuTorch
    assigns debug handles by it.
    """

    identifier: str
    name: str
    target: str


@dataclass(frozen=True)
class Location:
    """The debug information of one operator (ExecuTorch's DebugMode.TOSA).

    Attributes:
        node: name of the graph node it was made from, after the Arm passes.
        stack_trace: the Python stack, outermost call first; empty when unknown.
        module: path of the module that called it ("stem.0"; "" is the model itself), or None when unknown.
        root: the node of the first graph it descends from, or None when unknown.
    """

    node: str
    stack_trace: str
    module: str | None
    root: Ancestor | None


@dataclass(frozen=True)
class TosaTensor:
    """Name, shape and TOSA type ("INT8") of a tensor."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class TosaOperator:
    """One operator; `op` is TOSA's name ("CONV2D"), inputs and outputs are tensor names.

    `bodies` are the names of the regions that a COND_IF (then, else) or WHILE_LOOP (condition, body) runs.
    """

    index: int
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    location: Location | None
    bodies: tuple[str, ...] = ()

    @property
    def is_constant(self) -> bool:
        """Whether it is a constant, of data or of a shape."""
        return self.op in CONSTANTS

    def __str__(self) -> str:
        return f"TOSA operator {self.index} {self.op}"


@dataclass(frozen=True)
class TosaGraph:
    """A block of a TOSA program: the main one, or a branch or body of its control flow.

    Attributes:
        operators: in execution order; the index is Vela's ext_key.
        inputs, outputs: in the order of the delegate call's arguments.
        tensors: all of them, by name.
    """

    operators: tuple[TosaOperator, ...]
    inputs: tuple[TosaTensor, ...]
    outputs: tuple[TosaTensor, ...]
    tensors: Mapping[str, TosaTensor] = field(default_factory=dict)

    @classmethod
    def parse(cls, data: bytes) -> TosaGraph:
        """Return the main block of a program. Raises UsageError if it is damaged."""
        return next(iter(cls.regions(data).values()))

    @classmethod
    @functools.lru_cache(maxsize=8)  # parsing takes up to a second, and callers parse the same program again
    def regions(cls, data: bytes) -> Mapping[str, TosaGraph]:
        """Return the block of each region by the region's name, the main one first. Raises UsageError, as `parse`."""
        with damage_named():
            buffer, text = Buffer.GetRootAs(data, 0), _Texts(data)
            if not buffer.RegionsLength():
                raise ValueError("it has no region")
            regions = (buffer.Regions(index) for index in range(buffer.RegionsLength()))
            return {text(region.Name()): cls._of(region.Blocks(0), text) for region in regions}

    @classmethod
    def _of(cls, block: Any, text: _Texts) -> TosaGraph:
        tensors: dict[str, TosaTensor] = {}
        for index in range(block.TensorsLength()):
            tensor = block.Tensors(index)
            name = text(tensor.Name())
            shape = tuple(tensor.ShapeAsNumpy().tolist()) if tensor.ShapeLength() else ()
            tensors[name] = TosaTensor(name, shape, DTYPES.get(tensor.Type(), str(tensor.Type())))
        operators = []
        for index in range(block.OperatorsLength()):
            raw = block.Operators(index)
            operators.append(
                TosaOperator(
                    index=index,
                    op=_NAMES.get(raw.Op(), str(raw.Op())),
                    inputs=tuple(text(raw.Inputs(j)) for j in range(raw.InputsLength())),
                    outputs=tuple(text(raw.Outputs(j)) for j in range(raw.OutputsLength())),
                    location=_location(raw.Location(), text),
                    bodies=_bodies(raw, text),
                )
            )
        inputs = tuple(tensors[text(block.Inputs(index))] for index in range(block.InputsLength()))
        outputs = tuple(tensors[text(block.Outputs(index))] for index in range(block.OutputsLength()))
        return cls(tuple(operators), inputs, outputs, tensors)

    def producers(self) -> dict[str, TosaOperator]:
        """Return the operator that computes each tensor, by the tensor's name."""
        return {name: operator for operator in self.operators for name in operator.outputs}


class _Texts:
    """Decodes the texts of a program, as long as they are not much longer together than the program."""

    def __init__(self, data: bytes) -> None:
        self._left = _MOST_TEXT * len(data)

    def __call__(self, raw: bytes) -> str:
        self._left -= len(raw) + 1
        if self._left < 0:
            raise ValueError("its texts are longer than it is: they lie in one another")
        return raw.decode()


@contextmanager
def damage_named() -> Iterator[None]:
    """Raise UsageError where reading a program inside fails because the program is damaged."""
    try:
        yield
    except (
        ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, struct.error
    ) as error:  # fmt: skip
        raise UsageError(
            f"a TOSA program is damaged: {type(error).__name__}: {error}",
            hint="lower the model again, after `ethos-hil cache clear`; or record it again",
        ) from error


def _bodies(raw: Any, text: _Texts) -> tuple[str, ...]:
    if raw.Op() == Op.COND_IF:
        branches = attribute_of(raw)
        return text(branches.ThenGraph()), text(branches.ElseGraph())
    if raw.Op() == Op.WHILE_LOOP:
        loop = attribute_of(raw)
        return text(loop.CondGraph()), text(loop.BodyGraph())
    return ()


def _location(raw: Any, text: _Texts) -> Location | None:
    given = raw.Text() if raw is not None else None
    if not given or not given.strip():
        return None
    content = json.loads(text(given))
    torch_info = content["torch_info"]
    # Upstream writes a sentence in place of a list or a dictionary it doesn't have.
    stack = torch_info["nn_module_stack"]
    module: str | None = None
    if isinstance(stack, dict) and stack:
        module = module_path(list(stack.values())[-1])
    return Location(
        node=content["aten_info"]["node_name"],
        stack_trace="\n".join(torch_info["stack_trace"]),
        module=module,
        root=_root(torch_info["node_trace"]),
    )


def attribute_of(operator: Any) -> Any:
    """Return the attribute of an operator of the `tosa` package as an object of its own class; None if it has none."""
    table, name = operator.Attribute(), _ATTRIBUTES[operator.AttributeType()]
    if table is None or name == "NONE":
        return None
    attribute = getattr(importlib.import_module(f"tosa.{name}"), name)()
    attribute.Init(table.Bytes, table.Pos)
    return attribute


@functools.lru_cache(maxsize=4)
def unknown_parts(data: bytes) -> tuple[str, ...]:
    """Return what a program has that the installed tosa-tools do not know: an extension of TOSA, or a later version.

    Raises:
        UsageError: it is damaged.
    """
    from tosa_serializer import TOSA_VERSION_MAJOR, TOSA_VERSION_MINOR

    found: dict[str, None] = {}
    with damage_named():
        buffer = Buffer.GetRootAs(data, 0)
        version = buffer.Version()
        number = (version._Major(), version._Minor())
        if number[0] != TOSA_VERSION_MAJOR or number[1] > TOSA_VERSION_MINOR:
            found[f"TOSA {number[0]}.{number[1]}"] = None
        for block in (buffer.Regions(index).Blocks(0) for index in range(buffer.RegionsLength())):
            for raw in (block.Operators(index) for index in range(block.OperatorsLength())):
                if raw.Op() not in _NAMES or raw.AttributeType() not in _ATTRIBUTES:
                    found[f"operator {raw.Op()}"] = None
            for tensor in (block.Tensors(index) for index in range(block.TensorsLength())):
                if tensor.Type() not in DTYPES:
                    found[f"type {tensor.Type()}"] = None
    return tuple(found)


def module_path(entry: Any) -> str:
    """Return the path in an entry of nn_module_stack: (path, class).

    Strict export writes "L['self'].stem.0", and "_export_root.stem.0" inside a branch or loop.
    """
    path = str(entry[0] if isinstance(entry, tuple | list) else entry)
    return path.removeprefix("L['self']").removeprefix("_export_root").lstrip(".")


def _root(trace: Any) -> Ancestor | None:
    """Return the end of the chain that starts at the first entry of upstream's flattened from_node list."""
    if not isinstance(trace, list) or not trace:
        return None
    # Each entry names the graph of the entry it was reached from. Its own last source comes right after it; upstream's
    # debug handles follow that one. Only neighbours are compared: graph ids are reused, so one id may occur twice.
    at = 0
    while at + 1 < len(trace) and trace[at + 1]["parent_graph_id"] == trace[at]["graph_id"]:
        at += 1
    entry = trace[at]
    return Ancestor(f"{entry['name']}.{entry['graph_id']}", entry["name"], str(entry["target"]))


def without_locations(data: bytes) -> bytes:
    """Return the same program with blanks in place of its debug information, which has paths of the machine that made
    it.
    """
    blanked = bytearray(data)
    buffer = Buffer.GetRootAs(data, 0)
    for block in (buffer.Regions(index).Blocks(0) for index in range(buffer.RegionsLength())):
        for index in range(block.OperatorsLength()):
            location = block.Operators(index).Location()
            text = location.Text() if location is not None else None
            if text:
                # The position of the string: the table's first field has an offset to its length.
                field = location._tab.Offset(4) + location._tab.Pos
                start = field + flatbuffers.encode.Get(flatbuffers.packer.uoffset, data, field) + 4
                blanked[start : start + len(text)] = b" " * len(text)
    return bytes(blanked)


# What a TOSA program computes, as a digest: without what only people read.
#
# The bytes of a program depend on where it was made: Arm's backend writes Python's stack into it, and its length stays
# where `ethos_hil.lowering.formats.tosa.without_locations` blanks it. They also depend on the names of tensors, which
# passes choose. So the digest is of operators, attributes, constants, shapes and types, in their order, and a name
# counts only as what it connects.

_LEFT_OUT = frozenset({"Location", "SoftwareVersion"})
_NO_FIELD = ("AsNumpy", "Length", "IsNone")


def content_digest(tosa: bytes) -> str:
    """Return the SHA-256, hexadecimal, of what a program computes. Raises UsageError if it is damaged."""
    digest = hashlib.sha256()
    names: dict[bytes, int] = {}
    if unknown_parts(tosa):  # fields that are not known cannot be read one by one
        return hashlib.sha256(without_locations(tosa)).hexdigest()
    with damage_named():
        for part in _parts(Buffer.GetRootAs(tosa, 0), names):
            digest.update(part)
    return digest.hexdigest()


def _parts(table: Any, names: dict[bytes, int]) -> Iterator[bytes]:
    """Yield all that a table has, field by field."""
    of: Any = type(table)
    yield f"<{of.__name__}>".encode()
    for name, is_vector in _fields(of):
        if name in _LEFT_OUT:
            continue
        yield f"{name}=".encode()
        field: Callable[..., Any] = getattr(table, name)
        whole = getattr(table, f"{name}AsNumpy", None)
        if is_vector and whole is not None:
            # 0 where there is no such vector
            array = whole()
            yield b"-" if isinstance(array, int) else f"{array.dtype.str}{array.size}:".encode() + array.tobytes()
            continue
        values = [field(at) for at in range(getattr(table, f"{name}Length")())] if is_vector else [field()]
        yield f"{len(values)}:".encode()
        for value in values:
            yield from _value(attribute_of(table) if name == "Attribute" else value, names)


def _value(value: Any, names: dict[bytes, int]) -> Iterator[bytes]:
    if isinstance(value, bytes):
        yield f"#{names.setdefault(value, len(names))};".encode()
    elif value is None or isinstance(value, int | float | bool):
        yield f"{value!r};".encode()
    else:
        yield from _parts(value, names)


@cache
def _fields(of: type) -> tuple[tuple[str, bool], ...]:
    """Return the names of a generated class's fields, each with whether it is a vector."""
    fields = []
    for name, method in inspect.getmembers(of, inspect.isfunction):
        if name[0].isupper() and name != "Init" and not name.endswith(_NO_FIELD):
            fields.append((name, "j" in inspect.signature(method).parameters))
    return tuple(fields)
