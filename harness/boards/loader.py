"""Loads a program into a board's memories through a GDB server, and starts it.

The order is: halt or reset, make sure that the processor stands still, write, read back, set the processor's registers,
go. Nothing resets afterwards: a reset starts what the board's own boot code finds, not this program
(zephyrproject-rtos/west#97, Marus/cortex-debug#891).

While memory changes, the processor is parked: its program counter is at a branch to itself. So it does no harm should a
server let it go when a client leaves, which QEMU does, and which pyOCD does when it ends. And a program counter that
moved meanwhile tells that the board started again by itself.

Registers and their addresses: Armv8-M Architecture Reference Manual. What the debugger writes goes through the
processor's own data cache or into a memory that it does not cache; only instructions may be stale, so only those are
invalidated. To invalidate data would lose what was written [no board has shown it].
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.board import ResetWords
from ethos_hil.harness.boards.loadable import LoadableImage, StartPoint
from ethos_hil.harness.gdb.remote import GdbRemote
from ethos_hil.harness.socs.soc import Soc

Progress = Callable[[int, int], None]
"""What is told how many bytes were written or read back, and how many there are."""

SYST_CSR, ICSR, VTOR, MPU_CTRL, ICIALLU = 0xE000E010, 0xE000ED04, 0xE000ED08, 0xE000ED94, 0xE000EF50
NVIC_ICER, NVIC_ICPR, NVIC_WORDS = 0xE000E180, 0xE000E280, 16
PENDSVCLR, PENDSTCLR = 1 << 27, 1 << 25
THUMB = 1 << 24
"""xPSR of a processor in Thumb state and no exception. QEMU's has zero there when it starts without an image."""
_IPSR = 0x1FF
_LOOP = bytes.fromhex("fee7fee7")
"""`b .`, twice: a word, since some memories take nothing less."""
LOOP_BYTES = len(_LOOP)
_STATE = ("control", "primask", "basepri", "faultmask", "msplim", "msplim_s")
"""Registers that a program before may have changed; zero after a reset. Not every server has them."""
_PATTERN = bytes.fromhex("a55ac33c")
_BLOCK = 1 << 16
"""Bytes that are read back before they are compared."""
_LEAST_SECONDS, _SLOWEST = 30.0, 2000
"""What a load may take: these seconds, and one more for so many bytes. OpenOCD on a bit-banged JTAG moves 21 kB/s."""

_DEAD = "all of it reads alike: is there a memory of this size, with power, and open to the debugger?"
_DISTURBED = "does something else write there, such as an NPU or another processor that still runs? Try a slower probe"


@dataclass(frozen=True)
class Loaded:
    """A program is in a board's memories.

    Attributes:
        seconds: to write it and to read it back.
        bytes: of the program.
        start: where it starts.
        parked: where the processor stands; None where no branch to itself could be written.
    """

    seconds: float
    bytes: int
    start: StartPoint
    parked: int | None

    @property
    def bytes_per_second(self) -> float:
        """How fast that was, with all that was read back."""
        return self.bytes / self.seconds


def load(
    remote: GdbRemote,
    elf: bytes,
    *,
    words: ResetWords,
    vector_table: int,
    parts: Sequence[tuple[int, bytes]] | None = None,
    soc: Soc | None = None,
    progress: Progress | None = None,
    deadline: Deadline | None = None,
) -> Loaded:
    """Reset the processor and load a program.

    Args:
        remote: the GDB server.
        elf: the program, as an ELF.
        words: how the processor is reset.
        vector_table: where the program's vector table is.
        parts: what to load in place of the ELF's own: addresses, and the bytes that go there.
        soc: names the memory in a message.
        progress: is told how far it is.
        deadline: until when; by default so long as the slowest probe takes.

    Raises:
        UsageError: the ELF cannot be loaded, or has no vector table there.
        TargetError: of the kind `READBACK` where memory does not keep what was written, `LOST_BOARD` where the board
            started again meanwhile, `PROBE` for what the server does not do.
    """
    image = LoadableImage.parse(elf, vector_table)
    parts = image.parts if parts is None else parts
    size = sum(len(data) for _, data in parts)
    until = deadline or Deadline(_LEAST_SECONDS + 2 * size / _SLOWEST)
    reset(remote, words, until)
    parked = park(remote, image.room_behind_code(len(_LOOP)), image.start.stack, until)
    began = time.monotonic()
    store(remote, parts, soc=soc, progress=progress, deadline=until)
    seconds = time.monotonic() - began
    make_sure_parked(remote, parked, until)
    return Loaded(seconds, size, image.start, parked)


def reset(remote: GdbRemote, words: ResetWords, deadline: Deadline | None = None) -> None:
    """Reset the processor and leave it halted; only halt it where `words` have no command. Then make it quiet.

    Raises:
        TargetError: it is not halted, or the server does not do what it should.
    """
    if words.before or not words.commands:
        remote.halt(deadline)
    for word in words.before:
        remote.write_word(word.address, word.value, deadline)
    if words.commands:
        remote.reset_and_halt(words.commands, deadline)
    else:
        _quieten(remote, deadline)
    for word in words.after:
        remote.write_word(word.address, word.value, deadline)


def store(
    remote: GdbRemote,
    parts: Sequence[tuple[int, bytes]],
    *,
    soc: Soc | None = None,
    progress: Progress | None = None,
    deadline: Deadline | None = None,
) -> None:
    """Write to the memories of a halted processor, and read back; `load` has the arguments and errors.

    Args:
        remote, soc, progress, deadline: as there.
        parts: addresses, and the bytes that go there.
    """
    in_all = 2 * sum(len(data) for _, data in parts)
    until = deadline or Deadline(_LEAST_SECONDS + in_all / _SLOWEST)
    done = 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        if progress is not None:
            progress(done, in_all)

    for address, data in parts:
        if not any(data):
            _make_sure_of_memory(remote, address, len(data), soc, until)
        remote.write(address, data, until, count)
    for address, data in parts:
        for begin in range(0, len(data), _BLOCK):
            block = data[begin : begin + _BLOCK]
            content = remote.read(address + begin, len(block), until, count)
            if content != block:
                raise _not_kept(remote, address + begin, block, content, soc)


def _make_sure_of_memory(remote: GdbRemote, address: int, size: int, soc: Soc | None, deadline: Deadline) -> None:
    """Make sure that there is memory where only zeros will be written.

    Without memory, zeros often are what can be read: where security forbids the access, and wherever OpenOCD 0.12 gets
    an error, if it was not started with `gdb_report_data_abort enable`.
    """
    pattern = _PATTERN[: min(size, len(_PATTERN))]
    for place in {address, address + size - len(pattern)}:
        remote.write(place, pattern, deadline)
        content = remote.read(place, len(pattern), deadline)
        if content != pattern:
            raise _not_kept(remote, place, pattern, content, soc)


def park(remote: GdbRemote, address: int, stack: int, deadline: Deadline | None = None) -> int | None:
    """Put the processor at a branch to itself at `address`. Return that, or None where it cannot be written.

    Raises:
        TargetError: the connection is lost, or the processor does not take its registers.
    """
    try:
        remote.write(address, _LOOP, deadline)
        if remote.read(address, len(_LOOP), deadline) != _LOOP:
            return None
    except TargetError:
        if not remote.usable:
            raise
        return None
    remote.write_word(ICIALLU, 0, deadline)
    _set_registers(remote, StartPoint(0, stack, address), deadline)
    return address


def make_sure_parked(remote: GdbRemote, parked: int | None, deadline: Deadline | None = None) -> None:
    """Make sure that the processor still is where it was put.

    Raises:
        TargetError: it is not: of the kind `LOST_BOARD`.
    """
    trouble = "it runs" if not remote.is_halted(deadline) else ""
    if not trouble and parked is not None and (at := remote.read_register("pc", deadline) & ~1) != parked:
        trouble = f"its program counter is 0x{at:08x}, and was 0x{parked:08x}"
    if trouble:
        raise TargetError(
            f"{remote.server}: the processor was started again while it was loaded: {trouble}",
            kind=FailureKind.LOST_BOARD,
            hint="look for a watchdog, an unstable supply, a pressed reset button, or another user of the board",
        )


def start(remote: GdbRemote, loaded: Loaded, deadline: Deadline | None = None) -> None:
    """Start the program that was loaded, and leave it: the connection is closed, and nothing is reset.

    Raises:
        TargetError: the processor has not stood still since, does not take its registers, or does not go on.
    """
    make_sure_parked(remote, loaded.parked, deadline)
    for name in _STATE:
        if remote.has_register(name) and remote.read_register(name, deadline):
            remote.write_register(name, 0, deadline)
    # QEMU ignores what a debugger writes there, and our start-up code sets it, so that it is not read back.
    remote.write_word(VTOR, loaded.start.vector_table, deadline)
    remote.write_word(ICIALLU, 0, deadline)
    _set_registers(remote, loaded.start, deadline)
    remote.resume(deadline)
    remote.detach()


def _quieten(remote: GdbRemote, deadline: Deadline | None) -> None:
    """Switch off what may interrupt the next program, where no reset did it. Active exceptions stay active."""
    remote.write_word(SYST_CSR, 0, deadline)
    remote.write_word(MPU_CTRL, 0, deadline)
    for register in (NVIC_ICER, NVIC_ICPR):
        remote.write(register, b"\xff" * (4 * NVIC_WORDS), deadline)
    remote.write_word(ICSR, PENDSVCLR | PENDSTCLR, deadline)


def _set_registers(remote: GdbRemote, point: StartPoint, deadline: Deadline | None) -> None:
    """Set xPSR, SP and PC, in this order: the first says which stack pointer SP is."""
    wanted = {"xpsr": THUMB, "sp": point.stack, "pc": point.entry}
    for name, value in wanted.items():
        remote.write_register(name, value, deadline)
    # OpenOCD shows bit 0 of PC as it was written; flags of xPSR are the next program's to set.
    masks = {"xpsr": THUMB | _IPSR, "sp": ~3, "pc": ~1}
    for name, value in wanted.items():
        actual = remote.read_register(name, deadline)
        if (actual ^ value) & masks[name]:
            raise TargetError(
                f"{remote.server}: the processor's {name} is 0x{actual:08x}; 0x{value:08x} was written",
                kind=FailureKind.PROBE,
                hint="is the processor halted, and is it the one that the board's file names?",
            )


def _not_kept(remote: GdbRemote, address: int, wanted: bytes, actual: bytes, soc: Soc | None) -> TargetError:
    first = next(index for index, (byte, other) in enumerate(zip(wanted, actual, strict=True)) if byte != other)
    differing = sum(byte != other for byte, other in zip(wanted, actual, strict=True))
    place = address + first
    memory = soc.memory_at(place) if soc is not None else None
    name = f"{memory.name} " if memory is not None else ""
    shown = slice(first, first + 8)
    return TargetError(
        f"{remote.server}: memory {name}does not keep what was written: at 0x{place:08x} it has "
        f"{actual[shown].hex(' ')} in place of {wanted[shown].hex(' ')}; {differing:,} of {len(wanted):,} bytes differ",
        kind=FailureKind.READBACK,
        hint=_DEAD if len(set(actual)) == 1 else _DISTURBED,
    )
