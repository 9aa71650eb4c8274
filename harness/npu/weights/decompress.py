"""Compressed weights and scale buffers: from the bytes of a region to arrays ready for multiplication.

Each core or weight decoder has one bit stream of weights, in the order in which the NPU consumes them. Only registers
decide that order: `weight_order_u55` has it for Ethos-U55 and U65, `weight_order_u85` for U85.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.harness.npu.isa.operations import ScaleLayout
from ethos_hil.harness.npu.isa.weight_order import WeightOrder
from ethos_hil.harness.npu.weights import weight_coding

Array = npt.NDArray[Any]
Compressed = tuple[bytes, ...]

CACHE_BYTES = 256 << 20
SCALE_BYTES = 10  # per channel, in every layout
SHIFT_MASK = 0x3F
MOST_ELEMENTS = 1 << 16  # in a kernel; Vela makes at most 64 x 64
MOST_WEIGHTS = 1 << 26  # in an operation, and in a batch; bounds the memory that a corrupt stream can ask for


class WeightError(Exception):
    """A weight stream does not decode to what the registers describe."""


class _Cache:
    """Decoded weights by content. The least recently used are dropped first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.entries: OrderedDict[tuple[Compressed, WeightOrder], Array] = OrderedDict()
        self._lock = Lock()

    def clear(self) -> None:
        with self._lock:
            self.entries.clear()
            self.used = 0

    def get(self, key: tuple[Compressed, WeightOrder]) -> Array | None:
        with self._lock:
            entry = self.entries.get(key)
            if entry is not None:
                self.entries.move_to_end(key)
            return entry

    def put(self, key: tuple[Compressed, WeightOrder], weights: Array) -> None:
        with self._lock:
            if key in self.entries:
                return
            self.entries[key] = weights
            self.used += weights.nbytes + sum(map(len, key[0]))
            while self.used > self.limit and len(self.entries) > 1:
                (old, _), gone = self.entries.popitem(last=False)
                self.used -= gone.nbytes + sum(map(len, old))


_cache = _Cache(CACHE_BYTES)
Source = Callable[[], Array | weight_coding.CorruptStream]
"""Gives the weights of a stream, once, or what is wrong with it."""
_pending: dict[tuple[Compressed, WeightOrder], list[Source]] = {}  # what was prefetched: a source for each stream


def forget() -> None:
    """Drop all decoded weights."""
    _cache.clear()
    _pending.clear()


def decode(compressed: Compressed, order: WeightOrder) -> Array:
    """Return the weight tensor (ofm_depth, height, width, ifm_depth), read-only, from its compressed streams; cached.

    The type is int8 where all values fit, else int16 (weights have 9 bits). Raises WeightError.
    """
    key = compressed, order
    weights = _cache.get(key)
    if weights is None:
        weights = order.restore(_decode(key))
        weights.flags.writeable = False
        _cache.put(key, weights)
    return weights


def prefetch(wanted: Iterable[tuple[Compressed, WeightOrder]]) -> None:
    """Start to decode the weights that `decode` will need next, in that order, up to MOST_WEIGHTS.

    Errors are left for `decode`.
    """
    streams: list[tuple[bytes, int]] = []
    batch, total = weight_coding.Batch(streams), 0
    sources: dict[tuple[Compressed, WeightOrder], list[Source]] = {}
    for key in dict.fromkeys(wanted):
        if key in _pending:
            sources[key] = _pending[key]
        elif _cache.get(key) is None and not key[1].fast:
            try:
                total += sum(length for _, length in _streams(*key))
            except WeightError:
                continue
            if total > MOST_WEIGHTS:
                break
            sources[key] = _sources(key, streams, batch)
    if total:
        if streams:
            batch.start()
        _pending.clear()  # entries that nothing asked for would otherwise stay for ever
        _pending.update(sources)


def _sources(
    key: tuple[Compressed, WeightOrder], streams: list[tuple[bytes, int]], batch: weight_coding.Batch
) -> list[Source]:
    """Return a source for each stream. Those that Vela has to decode are added to `streams`, which `batch` decodes.

    Raises WeightError.
    """
    sources: list[Source] = []
    for stream, length in _streams(*key):
        if key[1].fast:
            sources.append(partial(weight_coding.decode_fwd, stream, length))
        elif (plain := weight_coding.parse(stream, length)) is not None:
            sources.append(plain.weights)
        else:
            sources.append(partial(batch.take, len(streams)))
            streams.append((stream, length))
    return sources


def _decode(key: tuple[Compressed, WeightOrder]) -> list[Array]:
    """Return the weights of each stream, in stream order. Raises WeightError."""
    sources = _pending.pop(key, None)
    if sources is None:
        more: list[tuple[bytes, int]] = []
        sources = _sources(key, more, weight_coding.Batch(more))
    streams: list[Array] = []
    for source in sources:
        try:
            result = source()
        except weight_coding.CorruptStream as corrupt:
            result = corrupt
        if isinstance(result, weight_coding.CorruptStream):
            raise WeightError(str(result))
        streams.append(result)
    dtype = np.int8 if all(map(_fits_int8, streams)) else np.int16
    return [stream.astype(dtype, copy=False) for stream in streams]


def _fits_int8(weights: Array) -> bool:
    return weights.dtype == np.int8 or weights.size == 0 or bool(weights.min() >= -128 and weights.max() <= 127)


def _streams(compressed: Compressed, order: WeightOrder) -> list[tuple[bytes, int]]:
    """Return each stream with the number of weights it should have. Raises WeightError where that is unreasonable."""
    lengths = order.lengths
    if len(compressed) != len(lengths):
        raise WeightError(f"{len(compressed)} streams where the registers describe {len(lengths)}")
    if sum(lengths) > MOST_WEIGHTS:
        raise WeightError(f"the registers describe {sum(lengths)} weights")
    if order.height * order.width > MOST_ELEMENTS:
        raise WeightError(f"the registers describe a kernel of {order.height} x {order.width}")
    return list(zip(compressed, lengths, strict=True))


def decode_scales(
    buffers: Sequence[npt.NDArray[np.uint8]], channels: int, layout: ScaleLayout
) -> tuple[Array, Array, Array]:
    """Return bias, multiplier and shift (int64 each, one per channel) from an operation's scale buffers.

    With N buffers, the first has the records of channels 0, N, 2 * N, ..., the next those of channels 1, N + 1, and so
    on. Raises WeightError where a buffer is too short.
    """
    bias_bytes, multiplier_bytes, multiplier_bits = layout.value
    records = np.empty((channels, SCALE_BYTES), np.uint8)
    for core, buffer in enumerate(buffers):
        owned = records[core :: len(buffers)]
        if buffer.size < owned.size:
            raise WeightError(f"{buffer.size} bytes of scales for {owned.shape[0]} channels")
        owned[...] = buffer[: owned.size].reshape(owned.shape)
    shift = records[:, bias_bytes + multiplier_bytes] & SHIFT_MASK
    multiplier = _numbers(records[:, bias_bytes : bias_bytes + multiplier_bytes]) & ((1 << multiplier_bits) - 1)
    unused = 64 - 8 * bias_bytes
    return _numbers(records[:, :bias_bytes]) << unused >> unused, multiplier, shift.astype(np.int64)


def _numbers(low: Array) -> Array:
    """Return unsigned little-endian numbers of up to 7 bytes (count, bytes) as int64."""
    wide = np.zeros((low.shape[0], 8), np.uint8)
    wide[:, : low.shape[1]] = low
    return wide.view("<i8")[:, 0]
