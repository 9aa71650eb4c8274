"""CONV and DEPTHWISE: sums of products as matrix products in floating point, exact by construction.

Integers below 2**24 are exact in float32, below 2**53 in float64; since every partial sum is bounded by
sum|weight| * max|input|, that bound picks the type. Zero points are folded into the bias (padding has the value of the
zero point), so inputs are used as stored.

Scaling is exact in float64 too, which is faster than 64-bit integers: (sum + bias) * (multiplier / 2**shift) is
rounded only when it exceeds 2**53 / 2**shift, and Requantiser takes this way only if that is beyond the clamp range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.npu import output, weights, windows
from harness.npu.fault import Fault
from harness.npu.featuremap import Memory
from harness.npu.operations import Convolution
from harness.npu.scaling import Rounding, scale_channels

Array = npt.NDArray[Any]

FLOAT32_EXACT = 1 << 24
FLOAT64_EXACT = 1 << 53
CHUNK = 1 << 15  # elements worked on at a time, so that they stay in a core's cache


@dataclass(frozen=True)
class Requantiser:
    """Sums of products to stored elements, for one operation and set of weights; see the module.

    Attributes:
        bias, multiplier, shift: per channel, int64; the bias includes the zero point's share.
        factor, addend: per channel float64, or None where scaling in float64 is not exact.
        bias_first: whether the bias must be added before multiplying.
        overflow: whether sums may leave the accumulator, so that they must be looked at.
    """

    op: Convolution
    bias: Array
    multiplier: Array
    shift: Array
    factor: Array | None
    addend: Array | float
    bias_first: bool
    overflow: bool

    @classmethod
    def make(cls, op: Convolution, bias: Array, multiplier: Array, shift: Array, bound: Array) -> Requantiser:
        """`bound`: largest magnitude of each channel's sum of products, before the bias."""
        largest = bound + np.abs(bias)
        overflow = op.start is not None or int(largest.max()) >= 1 << (op.accumulator_bits - 1)
        activation = op.activation
        natural = op.scale.rounding is Rounding.NATURAL or (
            op.scale.rounding is Rounding.DOUBLE and int(shift.max()) <= 31
        )
        reach = 2 * (abs(op.ofm.zero_point) + max(abs(activation.minimum), abs(activation.maximum)) + 2)
        exact = natural and activation.clamp and not overflow and int(shift.max()) + reach.bit_length() <= 53
        if not exact or int(shift.min()) == 0:
            return cls(op, bias, multiplier, shift, None, 0.0, True, overflow)
        factor = multiplier * np.exp2(-shift.astype(np.float64))
        addend = 0.5 + op.ofm.zero_point - activation.minimum
        products = largest.astype(np.float64) * multiplier + np.ldexp(float(reach), shift)
        if products.max() < FLOAT64_EXACT - 8:  # each is off by less than 8 where that matters
            return cls(op, bias, multiplier, shift, factor, bias * factor + addend, False, overflow)
        return cls(op, bias, multiplier, shift, factor, addend, True, overflow)

    def apply(self, sums: Array, out: Array, memory: Memory) -> None:
        """Fills `out` (..., channels) with the elements for `sums` (..., channels), integers in floating point."""
        activation = self.op.activation
        if self.factor is None:
            out[...] = self.finish(sums.astype(np.int64), memory)
            return
        if self.bias_first:
            scaled = np.add(sums, self.bias, dtype=np.float64)
            scaled *= self.factor
        else:
            scaled = np.multiply(sums, self.factor, dtype=np.float64)
        scaled += self.addend
        span = activation.maximum - activation.minimum
        np.clip(scaled, 0, span, out=scaled)
        if activation.table is not None and activation.index_bits == 8:
            entries = output.table(self.op.ofm, activation, memory)
            np.take(entries, scaled.astype(np.intp), out=out)
        elif self.op.ofm.bits == 8:
            stored = scaled.astype(np.uint8)
            np.add(stored, np.uint8(activation.minimum & 0xFF), out=out.view(np.uint8))
        else:
            clamped = scaled.astype(np.int64) + activation.minimum
            if activation.table is not None:
                clamped = output.look_up(clamped, self.op.ofm, activation, memory)
            out[...] = clamped

    def check(self, accumulators: Array) -> None:
        """Fault if one of the values (int64) does not fit the accumulator."""
        op = self.op
        worst = int(np.abs(accumulators).max())
        if worst >= 1 << (op.accumulator_bits - 1):
            raise Fault(
                "unsupported",
                op.offset,
                op.name,
                "ACC_FORMAT",
                op.accumulator_bits,
                f"a sum of {worst} does not fit the accumulator, and what it wraps to is not established",
            )

    def finish(self, sums: Array, memory: Memory) -> Array:
        """The elements for `sums` (..., channels), int64."""
        op = self.op
        accumulators = sums + self.bias
        if self.overflow:
            self.check(accumulators)
        scaled = scale_channels(accumulators, self.multiplier, self.shift, op.scale.rounding)
        return output.finish(scaled, op.ofm, op.activation, memory)


class Bare:
    """In place of a Requantiser: keeps the sums."""

    def apply(self, sums: Array, out: Array, memory: Memory) -> None:
        """Fills `out` (..., channels), int64, with `sums`."""
        out[...] = sums


@dataclass(frozen=True)
class Prepared:
    """Weights ready to multiply: `matrix` is (taps * ifm depth, ofm depth), or (taps, depth) if depthwise."""

    compressed: tuple[bytes, ...]
    scales: tuple[bytes, ...]
    matrix: Array
    requantiser: Requantiser
    zero_share: Array  # what the IFM's zero point adds to each channel's sum of products


class ConvolutionStep:
    """Executes one Convolution; keeps its weights prepared for as long as their bytes stay the same."""

    def __init__(self, op: Convolution) -> None:
        self.op = op
        self._prepared: Prepared | None = None
        begin, end = op.ifm.extent(whole_bricks=True)
        ofm_begin, ofm_end = op.ofm.extent(whole_bricks=True)
        self._apart = op.ifm.region != op.ofm.region or end <= ofm_begin or ofm_end <= begin

    def holds(self, compressed: tuple[bytes, ...]) -> bool:
        """Whether these weight streams are the ones that are ready to multiply."""
        return self._prepared is not None and self._prepared.compressed == compressed

    def run(self, memory: Memory) -> None:
        """Reads the IFM, weights and scales, writes the OFM."""
        op = self.op
        prepared = self._prepare(memory)
        if op.start is not None or op.ofm.is_accumulators:
            self._accumulate(prepared, memory)
            return
        source = op.ifm.load(memory)
        target = op.ofm.plain(memory) if self._apart else None
        result = target if target is not None else np.empty(op.ofm.shape, op.ofm.dtype)
        self._multiply(source, prepared, prepared.requantiser, result, memory)
        if target is None:
            op.ofm.store(memory, result)

    def _accumulate(self, prepared: Prepared, memory: Memory) -> None:
        """Sums that start with other ones, or stay in the accumulators."""
        op, requantiser = self.op, prepared.requantiser
        sums = np.empty(op.ofm.shape, np.int64)
        self._multiply(op.ifm.load(memory), prepared, Bare(), sums, memory)
        if op.start is not None:
            sums += op.start.load(memory)
        if op.ofm.is_accumulators:
            sums += prepared.zero_share
            requantiser.check(sums)
            op.ofm.store(memory, sums)
        else:
            op.ofm.store(memory, requantiser.finish(sums, memory))

    def _multiply(
        self, source: Array, prepared: Prepared, requantiser: Requantiser | Bare, result: Array, memory: Memory
    ) -> None:
        op = self.op
        source = windows.enlarge(source, op.upscale, op.kernel, op.ofm, op.ifm.zero_point)
        source = windows.pad(source, op.kernel, op.ifm.zero_point)
        work = self._depthwise if op.depthwise else self._convolve
        work(source, prepared.matrix, requantiser, result, memory)

    def _prepare(self, memory: Memory) -> Prepared:
        op, at = self.op, self.op.weights
        compressed = tuple(memory[s.region][s.base : s.base + s.length].tobytes() for s in at.streams)
        scales = tuple(memory[s.region][s.base : s.base + s.length].tobytes() for s in at.scales)
        prepared = self._prepared
        if prepared is None or prepared.compressed != compressed or prepared.scales != scales:
            prepared = prepare(op, compressed, scales)
            self._prepared = prepared
        return prepared

    def _convolve(
        self, source: Array, matrix: Array, requantiser: Requantiser | Bare, result: Array, memory: Memory
    ) -> None:
        op, kernel = self.op, self.op.kernel
        rows, columns, channels = op.ofm.shape
        inputs, _ = matrix.shape
        taps = source if kernel.is_point else windows.view(source, kernel, rows, columns)
        step = max(1, min(rows, CHUNK // max(1, columns * max(inputs, channels))))
        buffer = np.empty((step * columns, inputs), matrix.dtype)
        sums = np.empty((step * columns, channels), matrix.dtype)
        for y in range(0, rows, step):
            part = taps[y : y + step]
            count = part.shape[0] * columns
            np.copyto(buffer[:count].reshape(part.shape), part)
            np.matmul(buffer[:count], matrix, out=sums[:count])
            here = result[y : y + step]
            requantiser.apply(sums[:count].reshape(here.shape), here, memory)

    def _depthwise(
        self, source: Array, matrix: Array, requantiser: Requantiser | Bare, result: Array, memory: Memory
    ) -> None:
        op, kernel = self.op, self.op.kernel
        rows, columns, channels = op.ofm.shape
        step = max(1, min(rows, CHUNK // max(1, columns * channels)))
        reach = (kernel.height - 1) * kernel.dilation_y + 1
        for y in range(0, rows, step):
            count = min(step, rows - y)
            first = y * kernel.stride_y
            part = source[first : first + (count - 1) * kernel.stride_y + reach].astype(matrix.dtype)
            taps = windows.view(part, kernel, count, columns)
            sums = np.empty((count, columns, channels), matrix.dtype)
            product = np.empty_like(sums)
            np.multiply(taps[:, :, 0, 0], matrix[0], out=sums)
            for tap in range(1, kernel.height * kernel.width):
                np.multiply(taps[:, :, tap // kernel.width, tap % kernel.width], matrix[tap], out=product)
                sums += product
            requantiser.apply(sums, result[y : y + count], memory)


def prepare(op: Convolution, compressed: tuple[bytes, ...], scales: tuple[bytes, ...]) -> Prepared:
    """Decodes weights and scales; Fault if the stream is not what the registers describe."""
    order = op.weights.order
    try:
        tensor = weights.decode(compressed, order)
    except weights.WeightError as error:
        length = sum(map(len, compressed))
        raise Fault(
            "parse", op.offset, op.name, "WEIGHT_LENGTH", length, f"the weight stream is corrupt: {error}"
        ) from error
    channels = order.ofm_depth
    buffers = [np.frombuffer(buffer, np.uint8) for buffer in scales]
    bias, multiplier, shift = weights.decode_scales(buffers, channels, op.weights.layout)
    if not op.per_channel:
        multiplier = np.full(channels, op.scale.multiplier, np.int64)
        shift = np.full(channels, op.scale.shift, np.int64)
    low, high = op.ifm.limits
    flat = tensor.reshape(channels, -1)
    total = flat.sum(axis=1, dtype=np.int64)
    magnitude = np.abs(flat, dtype=np.int16).sum(axis=1, dtype=np.int64)
    bound = magnitude * max(-low, high)
    most = int(bound.max())
    dtype = np.float32 if most < FLOAT32_EXACT else np.float64
    if most >= FLOAT64_EXACT:
        raise Fault("unsupported", op.offset, op.name, "IFM_DEPTH_M1", op.ifm.depth - 1, "sums may exceed 53 bits")
    share = -total * op.ifm.zero_point
    requantiser = Requantiser.make(op, bias + share, multiplier, shift, bound)
    # Products of matrices take a transposed one as fast; products by tap want a tap's weights side by side.
    matrix = flat.astype(dtype).T
    if op.depthwise:
        matrix = np.ascontiguousarray(matrix)
    return Prepared(compressed, scales, matrix, requantiser, share)
