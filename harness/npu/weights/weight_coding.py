"""Codings of weights: MLW as far as it is plain, and FWD.

What Vela's decoder of MLW takes 30 ns a weight for is done in 2 ns here.

Weights without a shape to exploit, like random ones, are stored as numbers of fixed width, which numpy unpacks at once.
Streams in which more than a few are stored in another way are left to Vela's decoder (`Batch`), and so is everything
unusual: what this module decodes, it decodes as that one does, and only that one says what is wrong with a stream.

A stream consists of slices. A slice is a header and its numbers, little-endian: 3 bits "zero runs" (6: none; 7: no
slice, the stream ends or goes on at the next byte), 15 bits number of weights - 1, 3 bits divisor (7: fixed width), a
bit "truncated", a bit "new palette". With a new palette there follow 5 bits of an offset, 5 bits of its size (0 or size
- 1), 3 bits of the width - 2 and its entries of that width. A number below the palette's size is an index into it;
others give (number - size + offset). The result's lowest bit is the sign, the others are the magnitude.

Numbers of fixed width have that of the palette, or where it has entries, of its indices. The others have a quotient of
0, 1, 2, ... units and a remainder of as many bits as the divisor says. They come in chunks: 12 bits that say whether a
unit is set, a second bit for each that is, then the remainders of the chunk before. Source: Vela's public decoder.

Vela's weight decoder, run in a separate process.

The decoder in Vela's wheel (ethosu.mlw_codec) ends the whole process when a corrupt stream makes it read past the end,
and a stream may come from a board's memory. So it runs in a process of its own, as Vela does
(`ethos_hil.lowering.native`), which calls the extension module's C function directly and skips the conversion to a
Python list. A test compares both.

Starting a process takes longer than decoding the weights of most networks, so it is started once. A thread asks it for
one stream after the other, while this process uses the first results: a `Batch` waits only for those it is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import ToolError
from ethos_hil.lowering.native.worker import NativeCrash, NativeTool, ToolRaised

TIMEOUT_SECONDS = 20  # of CPU time, for one stream; the largest take hundredths of a second
MEMORY_BYTES = 1 << 30  # at most; a corrupt stream may otherwise expand to zeros without end

Weights = npt.NDArray[np.int16]
DECODER = NativeTool("mlw_decoder", "Vela's weight decoder", "ethos-u-vela", memory=MEMORY_BYTES)


class CorruptStream(Exception):
    """A stream does not hold the weights it should hold."""


def _new_thread() -> None:
    """Have another thread ask for streams: a forked process does not have its parent's."""
    global _thread
    _thread = ThreadPoolExecutor(1, "weights")


_thread: ThreadPoolExecutor
_new_thread()
os.register_at_fork(after_in_child=_new_thread)


class Batch:
    """Streams to decode, each with the number of weights it should have."""

    def __init__(self, streams: Sequence[tuple[bytes, int]]) -> None:
        self._streams = streams
        self._started_by: ThreadPoolExecutor | None = None
        self._results: dict[int, Future[Weights | CorruptStream]] = {}
        self._taken: set[int] = set()

    def start(self) -> None:
        """Start to decode the streams in the background, after the batch before is done. Raises ToolError."""
        DECODER.start()
        self._started_by = _thread
        rest = (index for index in range(len(self._streams)) if index not in self._taken)
        self._results = {index: _thread.submit(_decode_stream, *self._streams[index]) for index in rest}

    def take(self, index: int) -> Weights | CorruptStream:
        """Return a stream's weights (int16, in stream order), or what is wrong with it; once only. Raises ToolError."""
        assert index not in self._taken, "each result can be taken once"
        if self._started_by is not _thread:
            self.start()
        result = self._results[index].result()
        self._taken.add(index)
        del self._results[index]
        return result


def decode(streams: Sequence[tuple[bytes, int]]) -> list[Weights | CorruptStream]:
    """Decode the streams and return each one's weights, or what is wrong with it. Raises ToolError."""
    batch = Batch(streams)
    return [batch.take(index) for index in range(len(streams))]


def _decode_stream(stream: bytes, expected: int) -> Weights | CorruptStream:
    try:
        answer = DECODER.call({"count": expected}, [stream], seconds=TIMEOUT_SECONDS)
    except NativeCrash:
        return CorruptStream("the decoder did not finish")
    except ToolRaised as error:
        raise ToolError(f"Vela's weight decoder cannot be used: {error}", hint="reinstall ethos-u-vela") from error
    count = answer.header["count"]
    if count != expected:
        return CorruptStream(f"it decodes to {count} weights where the registers describe {expected}")
    return np.frombuffer(answer.blocks[0], "<i2")


Array = npt.NDArray[Any]

NO_ZERO_RUNS, PADDING = 6, 7  # in the first field of a slice
FIXED_WIDTH = 7  # as a divisor
LARGEST_DIVISOR = 5
CHUNK = 12  # units whose first bits lie together
LARGEST_CHUNK = CHUNK * (2 + LARGEST_DIVISOR)  # bits
NUMBERS = 512  # that a slice can hold, from 0
MOST_CODED = 1 / 64  # of a stream's weights that may be of variable width: each takes 0.3 us


class _NotPlain(Exception):
    """The stream is not one that is decoded here."""


@dataclass(frozen=True)
class Palette:
    """How numbers stand for weights.

    Attributes:
        entries: of the palette, maybe none.
        offset: added to the numbers beyond.
        width: bits of an entry.
    """

    entries: tuple[int, ...]
    offset: int
    width: int

    @property
    def fixed_width(self) -> int:
        """Bits of a number of fixed width."""
        return (len(self.entries) - 1).bit_length() if self.entries else self.width

    def weights(self, numbers: Array) -> Array:
        """Return the weights of numbers (uint8 or uint16), as int8 where those and the palette show that they fit."""
        if self.entries:
            beyond = range(self.offset, self.offset + NUMBERS - len(self.entries))
            numbers = np.array([*self.entries, *beyond], np.uint16).take(numbers)
        elif self.offset:
            numbers = numbers + np.uint16(self.offset)
        signed = np.int8 if numbers.dtype == np.uint8 else np.int16
        minus: Array = -(numbers & 1).view(signed)
        magnitude: Array = (numbers >> 1).view(signed)
        return (magnitude ^ minus) - minus


@dataclass(frozen=True)
class WeightSlice:
    """Numbers of fixed width at a bit of the stream, or the `coded` ones, which were of variable width."""

    palette: Palette
    at: int
    count: int
    coded: tuple[int, ...] = ()


@dataclass(frozen=True)
class PlainStream:
    """A stream that is decoded here, taken apart."""

    stream: bytes
    slices: tuple[WeightSlice, ...]

    def weights(self) -> Array:
        """Return the weights in stream order, int8 or int16."""
        weights = []
        for weight_slice in self.slices:
            if weight_slice.coded:
                numbers = np.array(weight_slice.coded, np.uint8 if max(weight_slice.coded) < 1 << 8 else np.uint16)
            else:
                numbers = self._fields(weight_slice)
            weights.append(weight_slice.palette.weights(numbers))
        return weights[0] if len(weights) == 1 else np.concatenate(weights)

    def _fields(self, weight_slice: WeightSlice) -> Array:
        """Return the numbers of fixed width of a slice, uint8 or uint16. Eight of them end at a whole byte."""
        width, groups = weight_slice.palette.fixed_width, -(-weight_slice.count // 8)
        begin, shift = divmod(weight_slice.at, 8)
        data = np.zeros(groups * width + 1, np.uint8)
        there = np.frombuffer(self.stream, np.uint8)[begin : begin + data.size]
        data[: there.size] = there
        if shift:
            data[:-1] = data[:-1] >> shift | data[1:] << (8 - shift)
        if width == 8:
            return data[: weight_slice.count]
        data[-1] = 0
        words = data.astype(np.uint16)
        words[:-1] |= words[1:] << np.uint16(8)
        by_group = words[:-1].reshape(groups, width)
        numbers = np.empty((groups, 8), np.uint16)
        for index in range(8):
            byte, skipped = divmod(index * width, 8)
            numbers[:, index] = by_group[:, byte] >> skipped & (1 << width) - 1
        return numbers.reshape(-1)[: weight_slice.count]


def parse(stream: bytes, count: int) -> PlainStream | None:
    """Return a stream of `count` weights taken apart, or None if it is to be left to Vela's decoder."""
    try:
        return PlainStream(stream, tuple(_slices(_Bits(stream), count)))
    except _NotPlain:
        return None


class _Bits:
    """Reads a stream from its first bit on."""

    def __init__(self, stream: bytes) -> None:
        self.stream = stream
        self.end = 8 * len(stream)
        self.at = 0

    def take(self, width: int) -> int:
        """Return the next `width` bits. Raises _NotPlain behind the end."""
        value = self.peek(width) & ((1 << width) - 1)
        self.skip(width)
        return value

    def peek(self, width: int) -> int:
        """Return the next bits, `width` or more, with zeros behind the end."""
        return int.from_bytes(self.stream[self.at >> 3 : (self.at + width + 7) >> 3], "little") >> (self.at & 7)

    def skip(self, width: int) -> None:
        """Go on by so many bits. Raises _NotPlain behind the end."""
        self.at += width
        if self.at > self.end:
            raise _NotPlain


def _slices(bits: _Bits, count: int) -> Iterator[WeightSlice]:
    """Yield the slices of a stream of `count` weights. Raises _NotPlain."""
    palette: Palette | None = None
    values, coded = 0, 0
    while True:
        zeros = bits.take(3)
        if zeros == PADDING:
            palette = None
            bits.at = -(-bits.at // 8) * 8
            if bits.at == bits.end:
                break
            continue
        header = bits.take(20)
        number, divisor, truncated = (header & 0x7FFF) + 1, header >> 15 & 7, bool(header >> 18 & 1)
        if header >> 19:
            palette = _palette(bits)
        values += number
        if zeros != NO_ZERO_RUNS or palette is None or values > count:
            raise _NotPlain
        if divisor == FIXED_WIDTH:
            yield WeightSlice(palette, bits.at, number)
            bits.skip(number * palette.fixed_width)
            continue
        coded += number
        if coded > MOST_CODED * count or divisor > LARGEST_DIVISOR:
            raise _NotPlain
        yield WeightSlice(palette, bits.at, number, _decode(bits, number, divisor, truncated))
    if values != count or not count:
        raise _NotPlain


def _palette(bits: _Bits) -> Palette:
    header = bits.take(13)
    offset, size, width = header & 0x1F, header >> 5 & 0x1F, (header >> 10) + 2
    entries = tuple(bits.take(width) for _ in range(size + 1)) if size else ()
    return Palette(entries, offset, width)


def _decode(bits: _Bits, count: int, divisor: int, truncated: bool) -> tuple[int, ...]:
    """Return `count` numbers of variable width. Raises _NotPlain where one is too large."""
    numbers: list[int] = []
    quotients: list[int] = []  # of the chunk before
    quotient = seen = 0
    while len(numbers) < count:
        waiting, quotients = quotients[: count - len(numbers)], []
        window, used = bits.peek(LARGEST_CHUNK), divisor * len(waiting)
        if seen < count:
            first = window & (1 << CHUNK) - 1
            second = window >> CHUNK
            used += CHUNK + first.bit_count()
            window >>= CHUNK + first.bit_count()
            for unit in range(CHUNK):
                units = 0
                if first >> unit & 1:
                    units = 1 + (second & 1)
                    second >>= 1
                quotient += units
                if units < 2 or truncated:
                    quotients.append(quotient)
                    quotient = 0
            seen += len(quotients)
        bits.skip(used)
        for slot in waiting:
            numbers.append((slot << divisor) + (window & (1 << divisor) - 1))
            window >>= divisor
    if max(numbers) >= NUMBERS:
        raise _NotPlain
    return tuple(numbers)


# FWD ("fast") coding, which Ethos-U85 reads as well as MLW coding; its width is fixed, so decoding is fast.
#
# A stream is a header of 256 bits and the payload, both little-endian, padded to whole 256 bits. Header: bit 0 "raw",
# bit 1 "small table", bits 104-111 a signed adjustment, from bit 112 a table of 16 weights of 9 bits (sign lowest, then
# magnitude). Payload: raw weights of 8 bits plus the adjustment, or indices into the table, of 2 bits for a small
# table, else of 4. Source: Vela's public encoder (ml_encoder_fwd.cpp), checked with what Vela compiles.

LINE = 32  # bytes of the header; the payload is padded to a multiple
RESERVED = (1 << 104) - 4  # bits 2-103
ADJUSTMENT = 13  # byte of the header
TABLE = 14  # byte of the header
ENTRIES = 16


def decode_fwd(stream: bytes, count: int) -> Array:
    """Return `count` weights, int8 or int16, in stream order. Raises CorruptStream."""
    if len(stream) < LINE:
        raise CorruptStream(f"{len(stream)} bytes are too few for an FWD header")
    header = int.from_bytes(stream[:LINE], "little")
    raw, small = bool(header & 1), bool(header & 2)
    adjustment = int.from_bytes(stream[ADJUSTMENT:TABLE], "little", signed=True)
    if header & RESERVED or (raw and small) or (adjustment and not raw):
        raise CorruptStream(f"its FWD header starts with {stream[:TABLE].hex()}, which has no known meaning")
    per_byte = 1 if raw else 4 if small else 2
    used = -(-count // per_byte)
    expected = LINE + -(-used // LINE) * LINE
    if len(stream) != expected:
        raise CorruptStream(f"it has {len(stream)} bytes where {count} weights in FWD coding take {expected}")
    payload = np.frombuffer(stream, np.uint8, used, LINE)
    if raw:
        weights = payload.view(np.int8)
        return weights if not adjustment else weights.astype(np.int16) - np.int16(adjustment)
    return _every_byte(header, per_byte)[payload].reshape(-1)[:count]


def _every_byte(header: int, per_byte: int) -> Array:
    """Return the weights (256, per_byte) for each byte of indices."""
    folded = [header >> (8 * TABLE + 9 * entry) & 0x1FF for entry in range(ENTRIES)]
    table = np.array([-(value >> 1) if value & 1 else value >> 1 for value in folded], np.int16)
    bits = 8 // per_byte
    indices = np.arange(256)[:, None] >> bits * np.arange(per_byte) & (1 << bits) - 1
    return table[indices]
