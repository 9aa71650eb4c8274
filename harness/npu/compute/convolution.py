"""CONV, DEPTHWISE and MATMUL: sums of products as matrix products in floating point, exact by construction.

Integers below 2**24 are exact in float32, below 2**53 in float64. sum|weight| * max|input| bounds every partial sum, so
it picks the type. Zero points are folded into the bias (padding has the zero point as its value), so inputs are used as
stored.

A depthwise convolution multiplies whole rows of positions and channels with a row of repeated weights, and einsum adds
the products up without storing them: a quarter of the time of a product and a sum for each tap.

Requantisation, from sums of products to stored elements, is in float64, which is faster than 64-bit integers. (sum +
bias) * (multiplier / 2**shift) loses bits only when it exceeds 2**53 / 2**shift, and Requantiser uses float64 only
where that lies beyond the clamp range, so the result is exact.

BLAS has one thread. The products are cut into pieces that fit a core's cache, for which more threads gain nothing.
While another process (the simulated CPU, other tests) occupies a core, OpenBLAS's threads mostly wait for one another:
with MobileNetV2 on two cores, 45 ms become 300 to 500 ms (measured).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu.compute import output, windows
from ethos_hil.harness.npu.isa.feature_map import FeatureMap, RegionMemory
from ethos_hil.harness.npu.isa.operations import Convolution, MatMul
from ethos_hil.harness.npu.isa.scaling import FLOAT64_EXACT, Rounding, scale, scale_channels
from ethos_hil.harness.npu.isa.stream import Fault
from ethos_hil.harness.npu.weights import decompress

INT16_MAX = (1 << 15) - 1
PERIOD = 512  # per-channel values are repeated up to this length: few channels would make short inner loops in numpy


@dataclass(frozen=True)
class Requantiser:
    """The step from sums of products to stored elements, for one set of weights.

    Operations that differ only in where their maps lie share one.

    Attributes:
        bias, multiplier, shift: per channel, int64; the bias includes the zero point's share.
        factor: multiplier / 2**shift per channel, float64, repeated (PERIOD), or None where float64 is not exact.
        addend: added after the factor: rounding, zero point, what moves the lower end of the clamp range to `low`, and
            the bias if that is exact.
        bias_first: the bias as float64, repeated as often, where it must be added before multiplying.
        low: where the clamp range starts, not below zero; the low byte of what is clamped is the element, if that has 8
            bits and comes from no table.
        narrow: whether the value to clamp fits 16 bits for every input.
        overflow: whether sums may exceed the accumulator, so that they must be checked.
    """

    bias: Array
    multiplier: Array
    shift: Array
    factor: Array | None
    addend: Array | float
    bias_first: Array | None
    low: int
    narrow: bool
    overflow: bool

    @classmethod
    def make(cls, op: Convolution, bias: Array, multiplier: Array, shift: Array, bound: Array) -> Requantiser:
        """Return the requantiser of an operation.

        Args:
            op: the convolution.
            bias, multiplier, shift: per channel, int64.
            bound: largest magnitude of each channel's sum of products, before the bias.
        """
        largest = bound + np.abs(bias)
        overflow = op.start is not None or int(largest.max()) >= 1 << (op.accumulator_bits - 1)
        activation = op.activation
        natural = op.scale.rounding is Rounding.NATURAL or (
            op.scale.rounding is Rounding.DOUBLE and int(shift.max()) <= 31
        )
        low = activation.minimum & 0xFF if op.ofm.bits == 8 and activation.table is None else 0
        reach = 2 * (abs(op.ofm.zero_point) + max(abs(activation.minimum), abs(activation.maximum)) + low + 2)
        exact = natural and activation.clamp and not overflow and int(shift.max()) + reach.bit_length() <= 53
        if not exact or int(shift.min()) == 0:
            return cls(bias, multiplier, shift, None, 0.0, None, 0, False, overflow)
        factor = multiplier * np.exp2(-shift.astype(np.float64))
        addend = 0.5 + op.ofm.zero_point - activation.minimum + low
        narrow = bool((largest * factor).max() + abs(addend) < INT16_MAX)
        times = max(1, PERIOD // bias.size)
        products = largest.astype(np.float64) * multiplier + np.ldexp(float(reach), shift)
        if products.max() < FLOAT64_EXACT - 8:  # each is off by less than 8 within the clamp range
            behind = np.tile(bias * factor + addend, times)
            return cls(bias, multiplier, shift, np.tile(factor, times), behind, None, low, narrow, overflow)
        first = np.tile(bias.astype(np.float64), times)
        return cls(bias, multiplier, shift, np.tile(factor, times), addend, first, low, narrow, overflow)

    def apply(self, op: Convolution, sums: Array, out: Array, memory: RegionMemory) -> None:
        """Fill `out` (..., channels) with the elements for `sums` (contiguous, same size; whole numbers, floating
        point).

        Raises Fault.
        """
        activation = op.activation
        if self.factor is None:
            out[...] = self.finish(op, sums.reshape(out.shape).astype(np.int64), memory)
            return
        scaled = sums.reshape(-1).astype(np.float64)
        for part, count in _by_period(scaled, self.factor.size):
            if self.bias_first is not None:
                part += self.bias_first[:count]
            part *= self.factor[:count]
            part += self.addend if isinstance(self.addend, float) else self.addend[:count]
        # The conversion may round values below zero either way: they are clamped to zero or above.
        clamped: Array = scaled.astype(np.int16) if self.narrow else scaled
        clamped.clip(self.low, self.low + activation.maximum - activation.minimum, out=clamped)
        if activation.table is not None and activation.index_bits == 8:
            entries = output.table(op.ofm, activation, memory)
            out[...] = entries.take(clamped.astype(np.intp)).reshape(out.shape)
        elif op.ofm.bits == 8:
            whole = clamped.astype(np.int16, copy=False).reshape(out.shape)
            np.copyto(out.view(np.uint8), whole, casting="unsafe")
        else:
            values = clamped.astype(np.int32).reshape(out.shape) + activation.minimum
            if activation.table is not None:
                values = output.look_up(values, op.ofm, activation, memory)
            out[...] = values

    def finish(self, op: Convolution, sums: Array, memory: RegionMemory) -> Array:
        """Return the elements for `sums` (..., channels), int64. Raises Fault."""
        accumulators = sums + self.bias
        if self.overflow:
            output.check_accumulators(op, accumulators)
        scaled = scale_channels(accumulators, self.multiplier, self.shift, op.scale.rounding)
        return output.finish(scaled, op.ofm, op.activation, memory)


class KeepSums:
    """A stand-in for a Requantiser that keeps the sums."""

    def apply(self, op: Convolution, sums: Array, out: Array, memory: RegionMemory) -> None:
        """Copy `sums` into `out` (..., channels), int64."""
        out[...] = sums.reshape(out.shape)


def _by_period(values: Array, period: int) -> Iterator[tuple[Array, int]]:
    """Yield `values` (flat) as rows of `period` numbers, then the rest, each with its length in numbers."""
    whole = values.size // period * period
    if whole:
        yield values[:whole].reshape(-1, period), period
    if whole < values.size:
        yield values[whole:], values.size - whole


Array = npt.NDArray[Any]

FLOAT32_EXACT = 1 << 24
LARGEST_WEIGHT = 256  # magnitude; weights have 9 bits
CHUNK = 1 << 17  # elements per matrix product: more leave a core's cache, fewer take more calls of numpy
POSITIONS = 256  # the fewest positions per matrix product: each product reads all weights


@dataclass(frozen=True)
class Prepared:
    """Weights ready to multiply.

    Attributes:
        compressed, scales: the bytes that they were decoded from.
        tensor: (ofm depth, taps * ifm depth).
        dtype: the type in which the sums are exact.
        requantiser: for these weights and scales.
        zero_share: what the IFM's zero point adds to each channel's sum of products.
    """

    compressed: tuple[bytes, ...]
    scales: tuple[bytes, ...]
    tensor: Array
    dtype: type[np.float32 | np.float64]
    requantiser: Requantiser
    zero_share: Array


class ConvolutionStep:
    """Executes one Convolution; keeps its weights prepared as long as their bytes stay the same."""

    def __init__(self, op: Convolution) -> None:
        self.op = op
        self._prepared: Prepared | None = None

    def holds(self, compressed: tuple[bytes, ...]) -> bool:
        """Return whether the prepared weights come from these streams."""
        return self._prepared is not None and self._prepared.compressed == compressed

    def run(self, memory: RegionMemory) -> None:
        """Read the IFM, weights and scales, and write the OFM."""
        op = self.op
        prepared = self._prepare(memory)
        if op.start is not None or op.ofm.is_accumulators:
            self._accumulate(prepared, memory)
            return
        source = op.ifm.load(memory)
        target = op.ofm.as_view(memory)
        if target is not None and not np.may_share_memory(source, target):
            self._multiply(source, prepared, prepared.requantiser, target, memory)
            return
        result = np.empty(op.ofm.shape, op.ofm.dtype)
        self._multiply(source, prepared, prepared.requantiser, result, memory)
        op.ofm.store(memory, result)

    def _accumulate(self, prepared: Prepared, memory: RegionMemory) -> None:
        """Add to existing sums, or leave the sums in the accumulators."""
        op, requantiser = self.op, prepared.requantiser
        sums = np.empty(op.ofm.shape, np.int64)
        self._multiply(op.ifm.load(memory), prepared, KeepSums(), sums, memory)
        if op.start is not None:
            sums += op.start.load(memory)
        if op.ofm.is_accumulators:
            sums += prepared.zero_share
            output.check_accumulators(op, sums)
            op.ofm.store(memory, sums)
        else:
            op.ofm.store(memory, requantiser.finish(op, sums, memory))

    def _multiply(
        self,
        source: Array,
        prepared: Prepared,
        requantiser: Requantiser | KeepSums,
        result: Array,
        memory: RegionMemory,
    ) -> None:
        op = self.op
        source = windows.enlarge(source, op.upscale, op.kernel, op.ofm, op.ifm.zero_point)
        source = windows.pad(source, op.kernel, op.ifm.zero_point)
        work = self._depthwise if op.depthwise else self._convolve
        # Weights kept in floating point would take four times the memory, and reading that takes as long as converting.
        work(source, prepared.tensor.astype(prepared.dtype).T, requantiser, result, memory)

    def _prepare(self, memory: RegionMemory) -> Prepared:
        op, at = self.op, self.op.weights
        compressed = tuple(memory[s.region][s.base : s.base + s.length].tobytes() for s in at.streams)
        scales = tuple(memory[s.region][s.base : s.base + s.length].tobytes() for s in at.scales)
        prepared = self._prepared
        if prepared is None or prepared.compressed != compressed or prepared.scales != scales:
            key = (compressed, scales, _preparation_key(op))
            prepared = _shared.get(key)
            if prepared is None:
                prepared = _shared[key] = prepare(op, compressed, scales)
            self._prepared = prepared
        return prepared

    def _convolve(
        self, source: Array, matrix: Array, requantiser: Requantiser | KeepSums, result: Array, memory: RegionMemory
    ) -> None:
        kernel = self.op.kernel
        rows, columns, channels = self.op.ofm.shape
        inputs, _ = matrix.shape
        positions = max(CHUNK // max(inputs, channels), POSITIONS)
        step = max(1, min(rows, positions // columns))
        sums = np.empty((step * columns, channels), matrix.dtype)
        for y in range(0, rows, step):
            count = min(step, rows - y)
            part = windows.rows(source, kernel, y, count).astype(matrix.dtype, order="C")
            if not kernel.is_point:
                part = windows.gather(part, kernel, count, columns)
            here = sums[: count * columns]
            np.matmul(part.reshape(-1, inputs), matrix, out=here)
            requantiser.apply(self.op, here, result[y : y + count], memory)

    def _depthwise(
        self, source: Array, matrix: Array, requantiser: Requantiser | KeepSums, result: Array, memory: RegionMemory
    ) -> None:
        kernel = self.op.kernel
        rows, columns, channels = self.op.ofm.shape
        by_tap = np.ascontiguousarray(matrix).reshape(kernel.height, kernel.width, 1, channels)
        repeated = np.tile(by_tap, (1, 1, columns, 1)).reshape(kernel.height, kernel.width, -1)
        step = max(1, min(rows, CHUNK // max(1, columns * channels)))
        for y in range(0, rows, step):
            count = min(step, rows - y)
            part = windows.rows(source, kernel, y, count)
            sums = None
            for plane, taps in windows.planes(part, kernel, count, columns, matrix.dtype):
                products = np.einsum("yijf,ijf->yf", plane, repeated[:, taps])
                sums = products if sums is None else np.add(sums, products, out=sums)
            assert sums is not None
            requantiser.apply(self.op, sums, result[y : y + count], memory)


# Stripes of a cascade share weights. An entry lives as long as a step holds it.
_shared: WeakValueDictionary[tuple[object, ...], Prepared] = WeakValueDictionary()


def _preparation_key(op: Convolution) -> tuple[object, ...]:
    """Return everything that `prepare` depends on, apart from the bytes of weights and scales."""
    return (
        op.weights.order,
        op.weights.layout,
        op.per_channel,
        op.scale,
        op.activation,
        op.accumulator_bits,
        op.start is None,
        (op.ifm.bits, op.ifm.signed, op.ifm.zero_point),
        (op.ofm.bits, op.ofm.signed, op.ofm.zero_point),
    )


def prepare(op: Convolution, compressed: tuple[bytes, ...], scales: tuple[bytes, ...]) -> Prepared:
    """Decode weights and scales. Raises Fault if the stream is not what the registers describe."""
    order = op.weights.order
    try:
        tensor = decompress.decode(compressed, order)
    except decompress.WeightError as error:
        length = sum(map(len, compressed))
        message = f"the weight stream is corrupt: {error}"
        raise Fault.of(op, FailureKind.PARSE, "WEIGHT_LENGTH", length, message) from error
    channels = order.ofm_depth
    buffers = [np.frombuffer(buffer, np.uint8) for buffer in scales]
    bias, multiplier, shift = decompress.decode_scales(buffers, channels, op.weights.layout)
    if not op.per_channel:
        multiplier = np.full(channels, op.scale.multiplier, np.int64)
        shift = np.full(channels, op.scale.shift, np.int64)
    low, high = op.ifm.limits
    flat = tensor.reshape(channels, -1)
    total, magnitude = _row_sums(flat)
    bound = magnitude * max(-low, high)
    most = int(bound.max())
    dtype = np.float32 if most < FLOAT32_EXACT else np.float64
    if most >= FLOAT64_EXACT:
        raise Fault.of(op, FailureKind.UNSUPPORTED, "IFM_DEPTH_M1", op.ifm.depth - 1, "sums may exceed 53 bits")
    share = -total * op.ifm.zero_point
    requantiser = Requantiser.make(op, bias + share, multiplier, shift, bound)
    return Prepared(compressed, scales, flat, dtype, requantiser, share)


def _row_sums(flat: Array) -> tuple[Array, Array]:
    """Return sums of weights and of their magnitudes along rows, int64.

    Matrix products take a tenth of the time of sums.
    """
    dtype = np.float32 if flat.shape[1] * LARGEST_WEIGHT < FLOAT32_EXACT else np.float64
    wide, ones = flat.astype(dtype), np.ones(flat.shape[1], dtype)
    total = np.matmul(wide, ones).astype(np.int64)
    return total, np.matmul(np.abs(wide, out=wide), ones).astype(np.int64)


class MatMulStep:
    """Executes one MatMul, a convolution of Ethos-U85 whose weights are a feature map."""

    def __init__(self, op: MatMul) -> None:
        self.op = op
        bound = op.ifm.depth * _largest(op.ifm) * _largest(op.ifm2)
        if bound >= FLOAT64_EXACT:
            raise Fault.of(op, FailureKind.UNSUPPORTED, "IFM_DEPTH_M1", op.ifm.depth - 1, "sums may exceed 53 bits")
        self._dtype: Any = np.float32 if bound < FLOAT32_EXACT else np.float64
        self._may_overflow = op.start is not None or bound >= 1 << (op.accumulator_bits - 1)

    def run(self, memory: RegionMemory) -> None:
        """Read both inputs and write the OFM."""
        op = self.op
        first, second = (
            source.load(memory).astype(self._dtype) - self._dtype(source.zero_point) for source in (op.ifm, op.ifm2)
        )
        sums = np.matmul(first, second[0].T).astype(np.int64)
        if op.start is not None:
            sums += op.start.load(memory)
        if self._may_overflow:
            output.check_accumulators(op, sums)
        if op.ofm.is_accumulators:
            op.ofm.store(memory, sums)
        else:
            op.ofm.store(memory, output.finish(scale(sums, op.scale), op.ofm, op.activation, memory))


def _largest(source: FeatureMap) -> int:
    """Return the largest magnitude of a difference to the zero point."""
    low, high = source.limits
    return max(abs(low - source.zero_point), abs(high - source.zero_point))


@functools.cache
def _controller() -> Any:
    """Return control over the loaded BLAS libraries."""
    from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

    return ThreadpoolController().select(user_api="blas")


def single_thread() -> contextlib.AbstractContextManager[Any]:
    """Return a context in which BLAS uses one thread."""
    limit: contextlib.AbstractContextManager[Any] = _controller().limit(limits=1)
    return limit
