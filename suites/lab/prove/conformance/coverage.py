"""The table of verified operations: which kinds of operation the programs consist of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ethos_hil.harness.npu import NpuProgram
from ethos_hil.harness.npu.isa.feature_map import STRAIGHT, FeatureMap, Layout
from ethos_hil.harness.npu.isa.operations import INTERNAL, Convolution, Dma, Elementwise, MatMul, Op, Pool, Resize
from ethos_hil.suites.lab.shared import markdown_table

TYPES = {True: "int", False: "uint"}


def kinds_of(program: NpuProgram) -> tuple[str, ...]:
    """Return the kinds of a program's operations, each once, sorted."""
    return tuple(sorted({kind for op in program.ops for kind in kinds(op)}))


def kinds(op: Op) -> Iterator[str]:
    """Yield the kinds of an operation: its name, and its name with each of its features."""
    yield op.name
    yield from (f"{op.name}, {feature}" for feature in _features(op))


def _features(op: Op) -> Iterator[str]:
    if isinstance(op, Dma):
        yield from _of_dma(op)
    if not isinstance(op, Convolution | MatMul | Pool | Elementwise | Resize):
        return
    inputs = op.ifms if isinstance(op, Elementwise) else (op.ifm, op.ifm2) if isinstance(op, MatMul) else (op.ifm,)
    yield f"{' and '.join(map(_type, inputs))} to {_type(op.ofm)}"
    for feature_map in inputs:
        yield from (f"input {text}" for text in _storage(feature_map))
    yield from (f"output {text}" for text in _storage(op.ofm))
    if op.activation.curve is not None:
        yield op.activation.curve.name.lower()
    elif op.activation.table is not None:
        yield f"table with {op.activation.index_bits}-bit index"
    per_channel = (isinstance(op, Convolution) and op.per_channel) or (isinstance(op, Pool) and bool(op.channel_scales))
    if per_channel:
        yield f"scaled per channel, rounding {op.scale.rounding.name}"
    elif not op.scale.is_one:
        yield f"scaled, rounding {op.scale.rounding.name}"
    if isinstance(op, Convolution):
        yield from _of_convolution(op)
    if isinstance(op, Pool) and op.hardware_divide:
        yield "divided by the number of taps"
    if isinstance(op, Convolution | Pool) and op.upscale:
        yield f"upscaled, {op.upscale.name.lower()}"
    if isinstance(op, Elementwise):
        yield from _of_operands(op)


def _of_dma(op: Dma) -> Iterator[str]:
    if op.destination.region == INTERNAL:
        yield "of a table"
    if op.sizes != (1, 1):
        yield "of rows"
    if op.index is not None:
        yield "gathering" if op.index.of_source else "scattering"


def _of_convolution(op: Convolution) -> Iterator[str]:
    kernel = op.kernel
    yield "part-kernel first" if op.weights.order.part_kernel else "depth first"
    yield f"scales as {op.weights.layout.name}"
    if op.weights.order.fast:
        yield "fast weights"
    if sum(stream.length > 0 for stream in op.weights.streams) > 1:
        yield "several weight streams"
    if kernel.stride_y > 1 or kernel.stride_x > 1:
        yield "stride"
    if kernel.dilation_y > 1 or kernel.dilation_x > 1:
        yield "dilation"


def _of_operands(op: Elementwise) -> Iterator[str]:
    for place, operand in zip(("first", "second"), op.operands, strict=False):
        if isinstance(operand.source, int):
            yield f"{place} operand a number"
        elif operand.source.shape != op.ofm.shape:
            yield f"{place} operand broadcast"
        if not operand.scale.is_one:
            yield f"{place} operand scaled, rounding {operand.scale.rounding.name}"


def _type(feature_map: FeatureMap) -> str:
    return f"{TYPES[feature_map.signed]}{feature_map.bits}"


def _storage(feature_map: FeatureMap) -> Iterator[str]:
    if feature_map.layout is Layout.CHAIN:
        yield "chained"
        return
    if feature_map.layout is Layout.BRICKS:
        yield "in bricks"
    if not feature_map.one_tile:
        yield "in tiles"
    if feature_map.axes != STRAIGHT:
        yield "transposed"
    if feature_map.reverse is not None or min(feature_map.stride_y, feature_map.stride_x) < 0:
        yield "reversed"


def table(operations: Mapping[str, Mapping[str, int]], npus: Sequence[str]) -> str:
    """What `report.counts` gives as a Markdown table: a row for each kind, a column for each configuration."""
    short = [npu.removeprefix("ethos-") for npu in npus]
    rows = [(kind, *(by_npu[npu] or "" for npu in npus)) for kind, by_npu in operations.items()]
    return markdown_table(("operation", *short), rows, right=short)
