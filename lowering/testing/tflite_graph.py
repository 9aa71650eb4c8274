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


class _Operator(NamedTuple):
    code: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: str
    fields: dict[str, Any]
    intermediates: tuple[int, ...]


class TfliteGraph:
    """A network of one subgraph."""

    def __init__(self) -> None:
        self.tensors: list[TfliteTensor] = []
        self.inputs: list[TfliteTensor] = []
        self.outputs: list[TfliteTensor] = []
        self._buffers: list[bytes] = [b""]
        self._operators: list[_Operator] = []

    def tensor(self, shape: Sequence[int], dtype: str, scale: float = 0.0, zero_point: int = 0) -> TfliteTensor:
        """Add a tensor that an operator computes. A scale of 0: no quantisation."""
        return self._added(shape, dtype, (scale,) if scale else (), zero_point)

    def input(self, shape: Sequence[int], dtype: str, scale: float = 0.0, zero_point: int = 0) -> TfliteTensor:
        """Add an input of the network."""
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
        code = getattr(_module("BuiltinOperator").BuiltinOperator, operator)
        numbers, results, inside = (
            tuple(-1 if tensor is None else tensor.index for tensor in part)
            for part in (inputs, outputs, intermediates)
        )
        self._operators.append(_Operator(code, numbers, results, options, fields, inside))

    def output(self, *tensors: TfliteTensor) -> TfliteGraph:
        """Name the outputs of the network. Return the network."""
        self.outputs.extend(tensors)
        return self

    def serialize(self) -> bytes:
        """Return the flatbuffer."""
        builder = flatbuffers.Builder(1 << 12)
        codes = sorted({operator.code for operator in self._operators})
        buffers = [_table(builder, "Buffer", data=_bytes(builder, data) if data else None) for data in self._buffers]
        subgraph = _table(
            builder,
            "SubGraph",
            name=builder.CreateString("main"),
            tensors=_offsets(builder, [self._tensor(builder, tensor) for tensor in self.tensors]),
            inputs=_numbers(builder, [tensor.index for tensor in self.inputs]),
            outputs=_numbers(builder, [tensor.index for tensor in self.outputs]),
            operators=_offsets(builder, [_operator(builder, operator, codes) for operator in self._operators]),
        )
        model = _table(
            builder,
            "Model",
            version=_VERSION,
            operator_codes=_offsets(builder, [_code(builder, code) for code in codes]),
            subgraphs=_offsets(builder, [subgraph]),
            description=builder.CreateString("made by a test"),
            buffers=_offsets(builder, buffers),
        )
        builder.Finish(model, b"TFL3")
        return bytes(builder.Output())

    def _added(self, shape: Sequence[int], dtype: str, *fields: Any, **more: Any) -> TfliteTensor:
        self.tensors.append(TfliteTensor(len(self.tensors), tuple(shape), dtype, *fields, **more))
        return self.tensors[-1]

    def _tensor(self, builder: Any, tensor: TfliteTensor) -> int:
        quantisation = None
        if tensor.scale:
            zero_points = np.full(len(tensor.scale), tensor.zero_point, np.int64)
            quantisation = _table(
                builder,
                "QuantizationParameters",
                scale=builder.CreateNumpyVector(np.array(tensor.scale, np.float32)),
                zero_point=builder.CreateNumpyVector(zero_points),
                quantized_dimension=tensor.axis,
            )
        return _table(
            builder,
            "Tensor",
            shape=_numbers(builder, tensor.shape),
            type=getattr(_module("TensorType").TensorType, _TYPES[tensor.dtype]),
            buffer=tensor.buffer,
            name=builder.CreateString(f"tensor{tensor.index}"),
            quantization=quantisation,
            is_variable=tensor.variable,
            has_rank=True,
        )


def _operator(builder: Any, operator: _Operator, codes: Sequence[int]) -> int:
    fields: dict[str, Any] = {}
    if operator.options:
        given = operator.fields.items()
        values = {name: _numbers(builder, value) if isinstance(value, tuple) else value for name, value in given}
        fields["builtin_options"] = _table(builder, operator.options, **values)
        fields["builtin_options_type"] = getattr(_module("BuiltinOptions").BuiltinOptions, operator.options)
    if operator.intermediates:
        fields["intermediates"] = _numbers(builder, operator.intermediates)
    return _table(
        builder,
        "Operator",
        opcode_index=codes.index(operator.code),
        inputs=_numbers(builder, operator.inputs),
        outputs=_numbers(builder, operator.outputs),
        **fields,
    )


def _code(builder: Any, code: int) -> int:
    old = min(code, 127)  # what a byte can hold: newer numbers have a field of their own
    return _table(builder, "OperatorCode", deprecated_builtin_code=old, version=1, builtin_code=code)


def _table(builder: Any, table: str, /, **fields: Any) -> int:
    """Write a table; fields that are None are left out. Return its offset."""
    module = _module(table)
    getattr(module, f"{table}Start")(builder)
    for field, value in fields.items():
        if value is not None:
            getattr(module, f"{table}Add{field.title().replace('_', '')}")(builder, value)
    return int(getattr(module, f"{table}End")(builder))


def _module(name: str) -> Any:
    return import_module(f"ethosu.vela.tflite.{name}")


def _bytes(builder: Any, data: bytes) -> int:
    """Write the data of a tensor, aligned as kernels read it."""
    builder.StartVector(1, len(data), 16)
    builder.head = int(builder.Head()) - len(data)
    builder.Bytes[builder.Head() : builder.Head() + len(data)] = data
    return int(builder.EndVector())


def _numbers(builder: Any, values: Sequence[int]) -> int:
    return int(builder.CreateNumpyVector(np.array(values, np.int32)))


def _offsets(builder: Any, values: Sequence[int]) -> int:
    builder.StartVector(4, len(values), 4)
    for value in reversed(values):
        builder.PrependUOffsetTRelative(value)
    return int(builder.EndVector())


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
