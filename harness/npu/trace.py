"""A program as data: one JSON-ready record for each operation, with everything that was decoded and its modelled time.

docs/formats.md describes the records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ethos_hil.harness.npu.decode.waits import Waits
from ethos_hil.harness.npu.isa.feature_map import FeatureMap, Layout
from ethos_hil.harness.npu.isa.operations import (
    INTERNAL,
    ByteRange,
    Convolution,
    Dma,
    DmaSide,
    Elementwise,
    MatMul,
    Op,
    Pool,
    Resize,
    Upscale,
)
from ethos_hil.harness.npu.isa.scaling import ONE, Scale
from ethos_hil.harness.npu.npu import NpuProgram
from ethos_hil.harness.npu.timing.timing_model import OpRecord, Timing

Json = dict[str, Any]
LAYOUTS = {Layout.NHWC: "NHWC", Layout.BRICKS: "NHCWB16", Layout.CHAIN: "chain"}


def records(program: NpuProgram, timing: Timing | None = None) -> Iterator[Json]:
    """Yield one record for each operation of the stream, in order.

    Args:
        program: decoded.
        timing: of the same operations; by default the program's own in the default memory mode.
    """
    timing = timing or program.timing()
    for number, (op, timed) in enumerate(zip(program.ops, timing.ops, strict=True)):
        yield {
            "op": number,
            "offset": op.offset,
            "name": op.name,
            **(_transfer(op) if isinstance(op, Dma) else _kernel(op)),
            "waits": _waits(program.waits[op.offset]),
            **_time(timed),
        }


def _kernel(op: Convolution | MatMul | Pool | Elementwise | Resize) -> Json:
    data: Json = {"ifms": [_map(source) for source in _sources(op)], "ofm": _map(op.ofm)}
    if isinstance(op, Elementwise):
        data["operands"] = [
            {"scale": _scale(operand.scale)}
            | ({} if isinstance(operand.source, FeatureMap) else {"number": operand.source})
            for operand in op.operands
        ]
        if op.negative_scale != ONE:
            data["negative_scale"] = _scale(op.negative_scale)
    if isinstance(op, Convolution | Pool):
        taps = op.kernel
        data["kernel"] = {
            "size": [taps.height, taps.width],
            "stride": [taps.stride_y, taps.stride_x],
            "dilation": [taps.dilation_y, taps.dilation_x],
            "padding": [taps.top, taps.left, taps.bottom, taps.right],
        }
        if op.upscale is not Upscale.NONE:
            data["upscale"] = op.upscale.name.lower()
    if isinstance(op, Convolution):
        data["weights"] = _streams(op.weights.streams)
        data["weight_coding"] = "FWD" if op.weights.order.fast else "MLW"
        data["weight_order"] = "part-kernel" if op.weights.order.part_kernel else "depth-first"
        data["scales"] = _streams(op.weights.scales)
    if isinstance(op, Pool) and op.channel_scales is not None:
        data["scales"] = _streams(op.channel_scales.streams)
    if isinstance(op, Convolution | MatMul):
        data["accumulator_bits"] = op.accumulator_bits
    if isinstance(op, Resize):
        data["resize"] = {"mode": op.mode.name.lower()} | {
            name: {"scale": axis.scale, "step": axis.step, "offset": axis.offset}
            for name, axis in (("y", op.y), ("x", op.x))
        }
    activation = op.activation
    return data | {
        "scale": None if _per_channel(op) else _scale(op.scale),
        "rounding": op.scale.rounding.name.lower(),
        "minimum": activation.minimum,
        "maximum": activation.maximum,
        "clamp": activation.clamp,
        "table": activation.table,
        **({} if activation.curve is None else {"function": activation.curve.name.lower()}),
        "block": [op.block.height, op.block.width, op.block.depth],
        "ublock": list(op.block.ublock),
    }


def _per_channel(op: Op) -> bool:
    """Return whether each channel has its own scale."""
    return (isinstance(op, Convolution) and op.per_channel) or (isinstance(op, Pool) and op.channel_scales is not None)


def _sources(op: Convolution | MatMul | Pool | Elementwise | Resize) -> tuple[FeatureMap, ...]:
    if isinstance(op, Elementwise):
        return op.ifms
    return (op.ifm, op.ifm2) if isinstance(op, MatMul) else (op.ifm,)


def _transfer(op: Dma) -> Json:
    data: Json = {
        "from": _rows(op.source),
        "to": _rows(op.destination),
        "row_bytes": op.length,
        "rows": list(op.sizes),
    }
    if op.index is not None:
        data["index"] = {
            "region": op.index.region,
            "address": op.index.base,
            "maximum": op.index.maximum,
            "of": "from" if op.index.of_source else "to",
        }
    return data


def _map(source: FeatureMap) -> Json:
    data: Json = {
        "shape": list(source.shape),
        "layout": LAYOUTS[source.layout],
        "dtype": source.dtype.name,
        "zero_point": source.zero_point,
    }
    if source.layout is Layout.CHAIN:
        return data | {"chain": source.region}
    data |= {"region": source.region, "address": source.bases[0], "strides": _strides(source)}
    if not source.one_tile:
        data["tiles"] = [[t.y, t.y_end, t.x, t.x_end, t.base] for t in source.tiles()]
    if not source.is_straight:
        data |= {"axes": list(source.axes), "reverse": source.reverse}
    return data


def _strides(source: FeatureMap) -> list[int]:
    """Return bytes from row to row, column to column, and channel to channel or brick to brick."""
    return [source.stride_y, source.stride_x, source.stride_c if source.layout is Layout.BRICKS else source.size]


def _rows(side: DmaSide) -> Json:
    region = "internal" if side.region == INTERNAL else side.region
    return {"region": region, "address": side.base, "strides": list(side.strides)}


def _streams(streams: Sequence[ByteRange]) -> list[Json]:
    return [{"region": at.region, "address": at.base, "bytes": at.length} for at in streams]


def _scale(scale: Scale) -> Json:
    return {"multiplier": scale.multiplier, "shift": scale.shift}


def _waits(waits: Waits) -> Json:
    return {"kernels": waits.kernels, "transfers": waits.transfers, "blocks": waits.blocks}


def _time(timed: OpRecord) -> Json:
    return {"cycles": timed.cycles, "begin": timed.begin, "end": timed.end, "mac_cycles": timed.mac_cycles}
