"""A test of a board's memories through its debug probe, over a sample of each.

Three things go wrong with a memory that a board's file describes: it is not there or has no power (all reads alike, or
the server refuses), it is smaller than the file says (it repeats, or ends early), or a line of data or addresses is
broken. The words at powers of two tell the address lines from one another; blocks at both ends and in the middle get
walking bits and their own addresses. What was there is put back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ethos_hil.base.errors import TargetError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.board_schema import PLACES
from ethos_hil.harness.boards.rsp import GdbRemote
from ethos_hil.harness.socs.soc import Soc

BLOCK = 4096
"""Bytes of each of the three blocks. On a probe that moves 21 kB/s, with five writes and reads, three take 6 s."""
_WORD = 4
_ALL = 0xFFFFFFFF
_MARK = 0x5AA55AA5
"""Makes a word of its address that a memory that is not there does not have by chance."""

_BITS_HINT = (
    "is something else writing there, such as another core? Try a slower probe; if it stays, the memory is broken"
)
_HINT = "is there a memory of this size, with power, and open to the debugger? The file says where: "


@dataclass(frozen=True)
class MemorySpan:
    """A part of a memory that the firmware or its packages use.

    Attributes:
        name: of the memory.
        key: its place in the board's file.
        base, size: the part.
        uses: what for: "boot", "code", "package".
        read_only: whether the processor cannot write it.
    """

    name: str
    key: str
    base: int
    size: int
    uses: tuple[str, ...]
    read_only: bool = False

    def __str__(self) -> str:
        return f"{self.name} (0x{self.base:08x}, {shown_size(self.size)})"


@dataclass(frozen=True)
class MemoryTest:
    """A test without a fault.

    Attributes:
        tested: bytes that were written and read back, each several times.
        restored: whether they have again what was there before.
    """

    tested: int
    restored: bool


def shown_size(size: int) -> str:
    """Return a number of bytes in the unit that fits it: "512 KiB"."""
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size >= 1 << shift and size % (1 << shift) == 0:
            return f"{size >> shift:,} {unit}"
    return f"{size:,} bytes"


def spans(soc: Soc) -> tuple[MemorySpan, ...]:
    """Return the parts of memories that the firmware and its packages use, each once, by address."""
    uses: dict[str, list[str]] = {}
    for part in PLACES:
        uses.setdefault(getattr(soc.firmware, part), []).append(part)
    found = []
    for name, parts in uses.items():
        memory = soc.memory(name)
        key = f"soc.memories.{name}"
        found.append(MemorySpan(name, key, memory.base, memory.size, tuple(parts), memory.read_only))
    package = soc.firmware.package
    home = soc.memory_at(package.base)
    name = "package" if home is None else f"{home.name} package" if home.name in uses else home.name
    read_only = home is not None and home.read_only
    found.append(
        MemorySpan(name, "soc.firmware.package", package.base, package.size, ("package",), read_only=read_only)
    )
    return tuple(sorted(found, key=lambda span: span.base))


def examine_memory(remote: GdbRemote, span: MemorySpan, tell: Callable[[int, int], None]) -> MemoryTest:
    """Test a memory of a halted processor.

    Args:
        remote: the GDB server.
        span: the memory.
        tell: gets the parts that are done, and how many there are.

    Raises:
        TargetError: kind "readback": it does not keep what is written, or the server refuses to write or read it. Kind
            "probe": the connection is lost.
    """
    blocks = tuple(_blocks(span))
    parts = 1 + len(blocks)
    tested, restored = _test_lines(remote, span)
    tell(1, parts)
    for done, (address, size) in enumerate(blocks, start=2):
        restored = _test_block(remote, span, address, size) and restored
        tested += size
        tell(done, parts)
    return MemoryTest(tested, restored)


def _blocks(span: MemorySpan) -> Iterator[tuple[int, int]]:
    """Yield addresses and sizes of the blocks: at the beginning, in the middle and at the end."""
    size = min(BLOCK, span.size // 3 // _WORD * _WORD)
    for offset in (0, (span.size - size) // 2 // _WORD * _WORD, (span.size - size) // _WORD * _WORD):
        yield span.base + offset, size


def _test_lines(remote: GdbRemote, span: MemorySpan) -> tuple[int, bool]:
    """Write words at powers of two and the last word, then read all: two that are one memory show.

    Returns:
        How many bytes were tested, and whether they were put back.
    """
    offsets = sorted({0, span.size - _WORD, *(1 << bit for bit in range(2, (span.size - 1).bit_length()))})
    places = [span.base + offset for offset in offsets]
    with _kept(remote, [(place, _WORD) for place in places]) as restored:
        for mark in (_MARK, _ALL ^ _MARK):
            for place in places:
                _write(remote, span, place, (place ^ mark).to_bytes(_WORD, "little"))
            for place in places:
                found = int.from_bytes(_read(remote, span, place, _WORD), "little")
                if found == place ^ mark:
                    continue
                if found ^ mark in places:
                    raise _repeats(remote, span, place, found ^ mark)
                raise _not_kept(remote, span, place, place ^ mark, found)
    return len(places) * _WORD, restored[0]


def _test_block(remote: GdbRemote, span: MemorySpan, address: int, size: int) -> bool:
    """Test one block with each pattern. Return whether what was there was put back."""
    words = range(address, address + size, _WORD)
    patterns = (
        [1 << (index % 32) for index in range(len(words))],
        [_ALL ^ 1 << (index % 32) for index in range(len(words))],
        list(words),
        [_ALL ^ word for word in words],
    )
    with _kept(remote, [(address, size)]) as restored:
        for pattern in patterns:
            data = b"".join(word.to_bytes(_WORD, "little") for word in pattern)
            _write(remote, span, address, data)
            found = _read(remote, span, address, size)
            if found != data:
                first = next(at for at in range(0, size, _WORD) if found[at : at + _WORD] != data[at : at + _WORD])
                wanted, got = (int.from_bytes(each[first : first + _WORD], "little") for each in (data, found))
                raise _not_kept(remote, span, address + first, wanted, got)
    return restored[0]


@contextlib.contextmanager
def _kept(remote: GdbRemote, places: list[tuple[int, int]]) -> Iterator[list[bool]]:
    """Put back what is at these places. Yield a list with whether that could be read.

    A memory with ECC that nobody wrote since power-up cannot be read, and has nothing to lose.
    """
    before = []
    for address, size in places:
        try:
            before.append((address, remote.read(address, size)))
        except TargetError:
            if not remote.usable:
                raise
    try:
        yield [len(before) == len(places)]
    except BaseException:
        with contextlib.suppress(TargetError):
            _put_back(remote, before)
        raise
    _put_back(remote, before)


def _put_back(remote: GdbRemote, before: list[tuple[int, bytes]]) -> None:
    """Write what was there, as far as that goes.

    Raises:
        TargetError: the connection is lost.
    """
    for address, data in before:
        if not remote.usable:
            return
        try:
            remote.write(address, data)
        except TargetError:
            if not remote.usable:
                raise


def _write(remote: GdbRemote, span: MemorySpan, address: int, data: bytes) -> None:
    try:
        remote.write(address, data)
    except TargetError as error:
        if not remote.usable:
            raise
        raise _refused(span, address, "written", error) from error


def _read(remote: GdbRemote, span: MemorySpan, address: int, size: int) -> bytes:
    try:
        return remote.read(address, size)
    except TargetError as error:
        if not remote.usable:
            raise
        raise _refused(span, address, "read", error) from error


def _refused(span: MemorySpan, address: int, done: str, error: TargetError) -> TargetError:
    """Return what a server's refusal says of a memory: it may not be there."""
    return TargetError(
        f"{span} cannot be {done} at 0x{address:08x}: {error.message}",
        kind=FailureKind.READBACK,
        hint=f"{_HINT}{span.key}",
    )


def _repeats(remote: GdbRemote, span: MemorySpan, one: int, other: int) -> TargetError:
    return TargetError(
        f"{remote.server}: {span} has the same bytes at 0x{one:08x} and 0x{other:08x}: it repeats, or a line of its "
        "addresses is broken",
        kind=FailureKind.READBACK,
        hint=f"correct {span.key} in the board's file to what the board has",
    )


def _not_kept(remote: GdbRemote, span: MemorySpan, place: int, wanted: int, found: int) -> TargetError:
    return TargetError(
        f"{remote.server}: {span} does not keep what is written: 0x{found:08x} in place of 0x{wanted:08x} at "
        f"0x{place:08x}, so bits 0x{wanted ^ found:08x} are wrong",
        kind=FailureKind.READBACK,
        hint=f"{_HINT}{span.key}" if found in (0, _ALL) else _BITS_HINT,
    )
