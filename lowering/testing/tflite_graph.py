"""A builder of small TensorFlow Lite networks, operator by operator, with the flatbuffers classes of Vela's wheel.

It writes what a converter would write of a quantised network: integer tensors with scales and zero points. The product
itself gives Vela TOSA (`ethos_hil.lowering.vela.compiler`); this is for checks of the NPU's model by another route.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import flatbuffers
import numpy as np
import numpy.typing as npt

from ethos_hil.base.errors import CompileError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.native.worker import VELA, NativeCrash, NativeTool, ToolAnswer, ToolRaised
from ethos_hil.lowering.vela.compiler import VelaCrash, VelaRefusal, flags
from ethos_hil.lowering.vela.memory_mode import MemoryMode

Array = npt.NDArray[Any]
_VERSION = 3  # of the schema
_TYPES = {"int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64", "uint8": "UINT8", "bool": "BOOL"}


@dataclass(frozen=True)
class TfliteTensor:
    """A tensor of a network under construction.

    Its number, its shape, numpy's name of its type, and how it is quantised: the real value of 1 (for each channel of
    `axis` where there are several; empty without a quantisation) and the element that means 0. `buffer` is the number
    of its data, 0 without any; state is `variable`: it stays from one inference to the next.
    """

    index: int
    shape: tuple[int, ...]
    dtype: str
    scale: tuple[float, ...] = ()
    zero_point: int = 0
    axis: int = 0
    buffer: int = 0
    variable: bool = False


class _Table(NamedTuple):
    """A table of the schema. Fields that are None are left out."""

    name: str
    fields: dict[str, Any]


class TfliteGraph:
    """A network of one subgraph."""

    def __init__(self) -> None:
        self.tensors: list[TfliteTensor] = []
        self.inputs: list[TfliteTensor] = []
        self.outputs: list[TfliteTensor] = []
        self._buffers: list[bytes] = [b""]
        self._operators: list[tuple[int, dict[str, Any]]] = []

    def tensor(self, shape: Sequence[int], dtype: str, scale: float = 0.0, zero_point: int = 0) -> TfliteTensor:
        """Add a tensor that an operator computes. A scale of 0: no quantisation."""
        return self._added(shape, dtype, (scale,) if scale else (), zero_point)

    def input(self, shape: Sequence[int], dtype: str, scale: float = 0.0, zero_point: int = 0) -> TfliteTensor:
        self.inputs.append(self.tensor(shape, dtype, scale, zero_point))
        return self.inputs[-1]

    def state(self, shape: Sequence[int], dtype: str, scale: float, zero_point: int = 0) -> TfliteTensor:
        """Add a tensor that keeps its value from one inference to the next, and starts at zero."""
        return self._added(shape, dtype, (scale,), zero_point, variable=True)

    def constant(
        self, values: Array, scale: float | Sequence[float] = (), zero_point: int = 0, axis: int = 0
    ) -> TfliteTensor:
        """Add a constant. Several scales: one for each channel of `axis`."""
        scales = (scale,) if isinstance(scale, float) else tuple(scale)
        self._buffers.append(np.ascontiguousarray(values).tobytes())
        return self._added(values.shape, str(values.dtype), scales, zero_point, axis, len(self._buffers) - 1)

    def add(
        self,
        operator: str,
        inputs: Sequence[TfliteTensor | None],
        outputs: Sequence[TfliteTensor],
        options: str = "",
        *,
        intermediates: Sequence[TfliteTensor] = (),
        **fields: Any,
    ) -> None:
        """Add an operator by its name in the schema's BuiltinOperator, with the table of its options, "" for none.

        Optional inputs that are left out are None; values of enumerations in the options are numbers; intermediates are
        tensors that only say how values inside of the operator are quantised.
        """
        numbers, results, inside = (
            tuple(-1 if tensor is None else tensor.index for tensor in part)
            for part in (inputs, outputs, intermediates)
        )
        written: dict[str, Any] = {"inputs": numbers, "outputs": results, "intermediates": inside or None}
        if options:
            kind = getattr(_module("BuiltinOptions").BuiltinOptions, options)
            written |= {"builtin_options": _Table(options, fields), "builtin_options_type": kind}
        self._operators.append((getattr(_module("BuiltinOperator").BuiltinOperator, operator), written))

    def output(self, *tensors: TfliteTensor) -> TfliteGraph:
        """Name the outputs of the network. Return the network."""
        self.outputs.extend(tensors)
        return self

    def serialize(self) -> bytes:
        codes = sorted({code for code, _ in self._operators})
        graph = {
            "name": "main",
            "tensors": [_described(tensor) for tensor in self.tensors],
            "inputs": tuple(tensor.index for tensor in self.inputs),
            "outputs": tuple(tensor.index for tensor in self.outputs),
            "operators": [
                _Table("Operator", {"opcode_index": codes.index(code), **fields}) for code, fields in self._operators
            ],
        }
        model = {
            "version": _VERSION,
            "operator_codes": [
                # What a byte can hold, and for newer numbers a field of their own.
                _Table("OperatorCode", {"deprecated_builtin_code": min(code, 127), "version": 1, "builtin_code": code})
                for code in codes
            ],
            "subgraphs": [_Table("SubGraph", graph)],
            "description": "made by a test",
            "buffers": [_Table("Buffer", {"data": data or None}) for data in self._buffers],
        }
        builder = flatbuffers.Builder(1 << 12)
        builder.Finish(_written(builder, _Table("Model", model)), b"TFL3")
        return bytes(builder.Output())

    def _added(self, shape: Sequence[int], dtype: str, *fields: Any, **more: Any) -> TfliteTensor:
        self.tensors.append(TfliteTensor(len(self.tensors), tuple(shape), dtype, *fields, **more))
        return self.tensors[-1]


def _described(tensor: TfliteTensor) -> _Table:
    quantisation = {
        "scale": np.array(tensor.scale, np.float32),
        "zero_point": np.full(len(tensor.scale), tensor.zero_point, np.int64),
        "quantized_dimension": tensor.axis,
    }
    return _Table("Tensor", {
        "shape": tensor.shape,
        "type": getattr(_module("TensorType").TensorType, _TYPES[tensor.dtype]),
        "buffer": tensor.buffer,
        "name": f"tensor{tensor.index}",
        "quantization": _Table("QuantizationParameters", quantisation) if tensor.scale else None,
        "is_variable": tensor.variable,
        "has_rank": True,
    })  # fmt: skip


def _written(builder: Any, value: Any) -> Any:
    """Write what a field refers to, and return its offset; return a number as it is."""
    match value:
        case _Table(table, fields):
            values = {name: _written(builder, field) for name, field in fields.items() if field is not None}
            module = _module(table)
            getattr(module, f"{table}Start")(builder)
            for name, field in values.items():
                getattr(module, f"{table}Add{name.title().replace('_', '')}")(builder, field)
            return int(getattr(module, f"{table}End")(builder))
        case str():
            return builder.CreateString(value)
        case bytes():  # the data of a tensor, aligned as kernels read it
            builder.StartVector(1, len(value), 16)
            builder.head = int(builder.Head()) - len(value)
            builder.Bytes[builder.Head() : builder.Head() + len(value)] = value
            return int(builder.EndVector())
        case tuple() | np.ndarray():
            return int(builder.CreateNumpyVector(np.asarray(value, np.int32 if isinstance(value, tuple) else None)))
        case list():
            offsets = [_written(builder, table) for table in value]
            builder.StartVector(4, len(value), 4)
            for offset in reversed(offsets):
                builder.PrependUOffsetTRelative(offset)
            return int(builder.EndVector())
    return value


def _module(name: str) -> Any:
    return import_module(f"ethosu.vela.tflite.{name}")


class Generator(StrEnum):
    """Which of Vela's two code generators compiles: the newer one, or the older one in Python, which knows no U85."""

    REGOR = "regor"
    PYTHON = "python"


# It keeps tables in global variables, so that a second network in the same process is compiled wrongly, or not at all.
_ONCE = NativeTool("vela", VELA.name, "ethos-u-vela")
_FLAGS = {Generator.REGOR: "--debug-force-regor", Generator.PYTHON: "--debug-force-legacy-core"}


def compile_tflite(
    tflite: bytes, npu: EthosU, *, mode: MemoryMode | None = None, generator: Generator = Generator.REGOR
) -> bytes:
    """Compile a network, into a .tflite in which Vela may leave operators to the CPU.

    The memory mode is ExecuTorch's default for the NPU if none is given. Raises VelaRefusal where Vela refuses the
    network, VelaCrash where its process ends, and CompileError where it fails in another way.
    """
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as name:
        folder = Path(name)
        path = folder / "net.tflite"
        path.write_bytes(tflite)
        options = flags(npu, mode or MemoryMode.default(npu))
        kept = [flag for flag in options if not flag.startswith("--output-format")]
        arguments = [*kept, "--output-format=tflite", _FLAGS[generator], f"--output-dir={folder}", str(path)]
        try:
            answer = _called(arguments, generator)
        except ToolRaised as error:
            raise VelaRefusal(f"{error.name}: {' '.join(error.text.split())}") from error
        except NativeCrash as crash:
            raise VelaCrash(crash, None) from crash
        compiled = folder / "net_vela.tflite"
        if answer.header["status"] or not compiled.is_file():
            text = " ".join(answer.listing.split())[-300:]
            raise CompileError(f"Vela ended with status {answer.header['status']}: {text}")
        return compiled.read_bytes()


def _called(arguments: Sequence[str], generator: Generator) -> ToolAnswer:
    if generator is Generator.REGOR:
        return VELA.call({"arguments": list(arguments)})
    try:
        return _ONCE.call({"arguments": list(arguments)})
    finally:
        _ONCE.stop()
        _ONCE.start()  # for the next network; importing takes as long as compiling
