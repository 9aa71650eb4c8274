"""The steps of `ethos-hil boards bring-up` that need a debug probe.

Each opens a connection of its own, as a later run does. The processor is parked at a branch to itself before anything
else happens: QEMU and pyOCD let it go when a client leaves, and it may have no program yet.

Memories are tested over a sample of each. Three things go wrong with a memory that a board's file describes: it is not
there or has no power (all reads alike, or the server refuses), it is smaller than the file says (it repeats, or ends
early), or a line of data or addresses is broken. The words at powers of two tell the address lines from one another;
blocks at both ends and in the middle get walking bits and their own addresses. What was there is put back.

Sources: Armv8-M Architecture Reference Manual (CPUID, DHCSR, DWT), technical reference manuals of Cortex-M55 and -M85
(part numbers), Arm's core driver, ethosu55_interface.h, ethosu65_interface.h and ethosu85_interface.h (the NPU).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import TargetError
from ethos_hil.base.npu.ethos_u import family_of
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.board import Board
from ethos_hil.harness.boards.board_schema import PLACES
from ethos_hil.harness.boards.bring_up_report import StepFinding
from ethos_hil.harness.boards.gdb_server import board_remote
from ethos_hil.harness.boards.loadable import LoadableImage, ResidentFirmware
from ethos_hil.harness.boards.loader import LOOP_BYTES, load, park, reset, start
from ethos_hil.harness.gdb.remote import DHCSR, GdbRemote
from ethos_hil.harness.image.pack import OWN_CLOCKS, Clocks
from ethos_hil.harness.socs.soc import Soc

CPUID = 0xE000ED00
DEMCR, TRCENA = 0xE000EDFC, 1 << 24
DWT_CTRL, CYCCNTENA, NOCYCCNT = 0xE0001000, 1 << 0, 1 << 25
DWT_CYCCNT = 0xE0001004
"""The cycle counter. It has 32 bits, and stands still while a debugger has halted the processor."""

_CORES = {0xD21: "Cortex-M33", 0xD22: "Cortex-M55", 0xD23: "Cortex-M85"}
_ARM = 0x41
_FITS = {"cortex-m55": ("Cortex-M55", "Cortex-M85"), "cortex-m85": ("Cortex-M85",)}
"""The cores that run code that was made for one."""
_SILENT = (0, 0xFFFFFFFF)
_STATES = {0: "C_DEBUGEN", 16: "S_REGRDY", 17: "S_HALT", 18: "S_SLEEP", 19: "S_LOCKUP", 20: "S_SDE"}


@dataclass(frozen=True)
class CpuIdentity:
    """A processor's CPUID.

    Attributes:
        word: the register.
    """

    word: int

    @property
    def core(self) -> str:
        """Its name, "" for one that is not known."""
        return _CORES.get(self.word >> 4 & 0xFFF, "") if self.word >> 24 == _ARM else ""

    def runs(self, cpu: str) -> bool:
        """Return whether it runs code made for `cpu`, as GCC spells it."""
        return self.core in _FITS.get(cpu, (cpu.title(),))

    def __str__(self) -> str:
        name = self.core or "an unknown processor"
        return f"{name} r{self.word >> 20 & 0xF}p{self.word & 0xF} (CPUID 0x{self.word:08x})"


@dataclass(frozen=True)
class NpuIdentity:
    """An NPU's ID and CONFIG.

    Attributes:
        id_word, config_word: the registers.
    """

    id_word: int
    config_word: int

    @property
    def answers(self) -> bool:
        """Whether there is an NPU at all: neither is all zeros or all ones."""
        return self.id_word not in _SILENT and self.config_word not in _SILENT

    @property
    def name(self) -> str:
        """Its configuration, such as "ethos-u55-128"."""
        product = self.config_word >> 28
        family = family_of(product)
        return f"{f'ethos-{family}' if family else f'product {product}'}-{1 << (self.config_word & 0xF)}"

    @property
    def words(self) -> str:
        """The registers, for a message."""
        return f"ID 0x{self.id_word:08x}, CONFIG 0x{self.config_word:08x}"

    def __str__(self) -> str:
        major, minor, patch = self.id_word >> 28, self.id_word >> 20 & 0xFF, self.id_word >> 16 & 0xF
        return f"{self.name}, architecture {major}.{minor}.{patch} ({self.words})"


def halting_state(dhcsr: int) -> str:
    """Return the names of the bits that are set in DHCSR."""
    return " ".join(name for bit, name in _STATES.items() if dhcsr >> bit & 1) or "none"


def check_identity(npus: tuple[str, ...], npu: NpuIdentity, values: dict[str, object]) -> StepFinding:
    """Compare an NPU with names.

    Args:
        npus: names of the NPUs that it may be.
        npu: what it is.
        values: raw values of the step so far.
    """
    values = {**values, "id": f"0x{npu.id_word:08x}", "config": f"0x{npu.config_word:08x}", "npu": npu.name}
    if npu.name not in npus:
        return StepFinding.failed(
            FailureKind.WRONG_BOARD,
            f"the NPU is an {npu}; expected {' or '.join(npus)}",
            "is it the right board, and the right FPGA image? If so, correct npus in its file",
            values,
        )
    remedy = f'state it in a file of yours: npus = ["{npu.name}"]' if len(npus) > 1 else ""
    return StepFinding(str(npu), values, remedy=remedy)


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
        return f"{self.name} (0x{self.base:08x}, {format_size(self.size)})"


def format_size(size: int) -> str:
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
    memories = []
    for name, parts in uses.items():
        memory = soc.memory(name)
        key = f"soc.memories.{name}"
        memories.append(MemorySpan(name, key, memory.base, memory.size, tuple(parts), memory.read_only))
    package = soc.firmware.package
    home = soc.memory_at(package.base)
    name = "package" if home is None else f"{home.name} package" if home.name in uses else home.name
    read_only = home is not None and home.read_only
    memories.append(
        MemorySpan(name, "soc.firmware.package", package.base, package.size, ("package",), read_only=read_only)
    )
    return tuple(sorted(memories, key=lambda span: span.base))


def examine_memory(remote: GdbRemote, span: MemorySpan, tell: Callable[[int, int], None]) -> tuple[int, bool]:
    """Test a memory of a halted processor.

    Args:
        remote: the GDB server.
        span: the memory.
        tell: gets the parts that are done, and how many there are.

    Returns:
        How many bytes were written and read back, each several times, and whether they were put back.

    Raises:
        TargetError: kind "readback": it does not keep what is written, or the server refuses to write or read it. Kind
            "probe": the connection is lost.
    """
    size = min(BLOCK, span.size // 3 // _WORD * _WORD)
    offsets = [(span.size - size) * part // 2 // _WORD * _WORD for part in range(3)]  # start, middle and end
    tested, restored = _test_lines(remote, span)
    tell(1, 1 + len(offsets))
    for done, offset in enumerate(offsets, start=2):
        restored = _test_block(remote, span, span.base + offset, size) and restored
        tested += size
        tell(done, 1 + len(offsets))
    return tested, restored


def _test_lines(remote: GdbRemote, span: MemorySpan) -> tuple[int, bool]:
    """Write words at powers of two and the last word, then read all: two that are one memory show.

    Return how many bytes were tested, and whether they were put back.
    """
    offsets = sorted({0, span.size - _WORD, *(1 << bit for bit in range(2, (span.size - 1).bit_length()))})
    places = [span.base + offset for offset in offsets]
    with _keep(remote, [(place, _WORD) for place in places]) as restored:
        for mark in (_MARK, _ALL ^ _MARK):
            for place in places:
                _write(remote, span, place, (place ^ mark).to_bytes(_WORD, "little"))
            for place in places:
                word = int.from_bytes(_read(remote, span, place, _WORD), "little")
                if word == place ^ mark:
                    continue
                if word ^ mark in places:
                    raise _repeats(remote, span, place, word ^ mark)
                raise _not_kept(remote, span, place, place ^ mark, word)
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
    with _keep(remote, [(address, size)]) as restored:
        for pattern in patterns:
            data = b"".join(word.to_bytes(_WORD, "little") for word in pattern)
            _write(remote, span, address, data)
            content = _read(remote, span, address, size)
            if content != data:
                first = next(at for at in range(0, size, _WORD) if content[at : at + _WORD] != data[at : at + _WORD])
                wanted, actual = (int.from_bytes(side[first : first + _WORD], "little") for side in (data, content))
                raise _not_kept(remote, span, address + first, wanted, actual)
    return restored[0]


@contextlib.contextmanager
def _keep(remote: GdbRemote, places: list[tuple[int, int]]) -> Iterator[list[bool]]:
    """Put back what is at these places. Yield a list with whether that could be read.

    A memory with ECC that no one wrote since power-up cannot be read, and has nothing to lose.
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
    """Write what was there, as far as that goes. Raises TargetError where the connection is lost."""
    for address, data in before:
        if not remote.usable:
            return
        try:
            remote.write(address, data)
        except TargetError:
            if not remote.usable:
                raise


def _write(remote: GdbRemote, span: MemorySpan, address: int, data: bytes) -> None:
    with _explain(remote, span, address, "written"):
        remote.write(address, data)


def _read(remote: GdbRemote, span: MemorySpan, address: int, size: int) -> bytes:
    with _explain(remote, span, address, "read"):
        return remote.read(address, size)


@contextlib.contextmanager
def _explain(remote: GdbRemote, span: MemorySpan, address: int, done: str) -> Iterator[None]:
    """Say of a server's refusal what it means for a memory: it may not be there."""
    try:
        yield
    except TargetError as error:
        if not remote.usable:
            raise
        raise TargetError(
            f"{span} cannot be {done} at 0x{address:08x}: {error.message}",
            kind=FailureKind.READBACK,
            hint=f"{_HINT}{span.key}",
        ) from error


def _repeats(remote: GdbRemote, span: MemorySpan, place: int, other: int) -> TargetError:
    return TargetError(
        f"{remote.server}: {span} has the same bytes at 0x{place:08x} and 0x{other:08x}: it repeats, or a line of its "
        "addresses is broken",
        kind=FailureKind.READBACK,
        hint=f"correct {span.key} in the board's file to what the board has",
    )


def _not_kept(remote: GdbRemote, span: MemorySpan, place: int, wanted: int, content: int) -> TargetError:
    return TargetError(
        f"{remote.server}: {span} does not keep what is written: 0x{content:08x} in place of 0x{wanted:08x} at "
        f"0x{place:08x}, so bits 0x{wanted ^ content:08x} are wrong",
        kind=FailureKind.READBACK,
        hint=f"{_HINT}{span.key}" if content in (0, _ALL) else _BITS_HINT,
    )


Tell = Callable[[str], None]

_PARKED_AT = 0x1000
"""Behind the start of the boot memory, where no firmware says where it leaves room."""
_STACK_BYTES = 0x400
_CLOCK_SECONDS = 3.0
"""At 1 GHz a counter of 32 bits wraps after 4.3 s. The two bounds are some 0.06 s apart."""
_TOLERANCE = 0.01
"""Of a clock. A crystal is right to 0.01 %, an internal oscillator to 1 %."""
_READY_PORTS = ("corstone",)
"""Ports below firmware/boards whose NPUs and memories need neither clocks nor power from the firmware."""
_FOR_PROGRAMS = frozenset({"pool", "package"})
"""Uses of memories that nothing is loaded into before the firmware runs."""


@dataclass(frozen=True)
class ParkedBoard:
    """A board and the firmware for it, for the steps below.

    Attributes:
        board: the board.
        image: its firmware as a loader sees it; None where there is none.
    """

    board: Board
    image: LoadableImage | None

    @contextlib.contextmanager
    def park(self) -> Iterator[GdbRemote]:
        """Connect, reset the processor and park it.

        Raises:
            TargetNotAvailable: there is no server.
            TargetError: the processor is not halted, or the server does not do what it should.
        """
        with board_remote(self.board.loading) as remote:
            reset(remote, self.board.reset)
            soc = self.board.soc
            place, stack = soc.boot + _PARKED_AT, soc.memory(soc.firmware.stack).base + _STACK_BYTES
            if self.image is not None:
                place, stack = self.image.room_behind_code(LOOP_BYTES), self.image.start.stack
            park(remote, place, stack)
            yield remote


def probe(probed: ParkedBoard) -> StepFinding:
    """Reach the server, halt the processor, and see which one it is."""
    loading, cpu = probed.board.loading, probed.board.soc.firmware.cpu
    began = time.monotonic()
    with probed.park() as remote:
        connected = time.monotonic() - began
        identity, state = CpuIdentity(remote.read_word(CPUID)), remote.read_word(DHCSR)
        values = {
            "server": loading.server.value,
            "dialect": "" if loading.dialect is None else loading.dialect.value,
            "probe_serial": loading.serial,
            "cpuid": f"0x{identity.word:08x}",
            "dhcsr": f"0x{state:08x}",
            "dhcsr_bits": halting_state(state),
            "packet_bytes": remote.abilities.room,
            "seconds_to_halt": round(connected, 3),
        }
        if not identity.runs(cpu):
            return StepFinding.failed(
                FailureKind.WRONG_BOARD,
                f"the processor is {identity}; the firmware is made for a {cpu.title()}",
                "is it the right probe (loading.serial), and core of the part (loading.core, loading.device)?",
                values,
            )
        return StepFinding(f"{identity} is halted, in {connected:.1f} s; DHCSR 0x{state:08x}", values)


def memory(probed: ParkedBoard, span: MemorySpan, tell: Tell) -> StepFinding:
    """Test a memory."""
    values = {"base": f"0x{span.base:08x}", "size": span.size, "uses": list(span.uses)}
    if span.read_only:
        return StepFinding.left_out(f"{span}: the processor cannot write it; loading it is its test", values)
    port = probed.board.soc.firmware.port
    with probed.park() as remote:
        try:
            tested, restored = examine_memory(remote, span, lambda done, parts: tell(f"{done} of {parts} parts"))
        except TargetError as error:
            later = port not in _READY_PORTS and _FOR_PROGRAMS.issuperset(span.uses)
            if error.kind is not FailureKind.READBACK or not later:
                raise
            why = "This part may power it only once the firmware runs: the convolution is its test"
            return StepFinding.left_out(f"{error.message}. {why}", values)
    note = "" if restored else "; they could not be read before, and are not put back"
    text = f"{span}: {tested:,} bytes keep walking bits and their addresses{note}"
    values |= {"tested_bytes": tested, "restored": restored}
    return StepFinding(text, values)


def load_firmware(
    board: Board, firmware: ResidentFirmware, tell: Tell, before_start: Callable[[], None]
) -> StepFinding:
    """Load the firmware, read it back, and start it after a call of `before_start`."""
    clocks = Clocks(OWN_CLOCKS.cpu_hz, OWN_CLOCKS.peripheral_hz, board.link.baud)
    with board_remote(board.loading) as remote:
        loaded = load(
            remote,
            firmware.elf,
            words=board.reset,
            vector_table=board.soc.boot,
            parts=firmware.parts_with(clocks),
            soc=board.soc,
            progress=lambda done, size: tell(f"{done:,} of {size:,} bytes"),
        )
        before_start()
        start(remote, loaded)
    values = {
        "bytes": loaded.bytes,
        "seconds": round(loaded.seconds, 3),
        "bytes_per_second": round(loaded.bytes_per_second),
        "code_crc32": f"0x{firmware.code_crc32:08x}",
        "entry": f"0x{loaded.start.entry:08x}",
    }
    rate = format_rate(loaded.bytes_per_second)
    return StepFinding(
        f"{loaded.bytes:,} bytes written and read back in {loaded.seconds:.2f} s, {rate}; it was started", values
    )


def format_rate(rate: float) -> str:
    """Return bytes per second for people."""
    return f"{rate / 1e6:.1f} MB/s" if rate >= 1e6 else f"{rate / 1e3:.1f} kB/s"


def clock(board: Board, stated: int, tell: Tell) -> StepFinding:
    """Compare the processor's cycle counter with the host's clock, while the firmware waits for a package.

    The counter stands still while the processor is halted. So it counts from somewhere within the command to go on to
    somewhere within the command to halt, and the clock is known within two bounds.

    Args:
        board: the board; its firmware runs.
        stated: the clock that the firmware says, Hz.
        tell: gets what is done.
    """
    if board.simulated:
        return StepFinding.left_out("simulated: the board is a program, whose processor has no clock of its own")
    with board_remote(board.loading) as remote:
        remote.halt()
        remote.write_word(DEMCR, remote.read_word(DEMCR) | TRCENA)
        control = remote.read_word(DWT_CTRL)
        remote.write_word(DWT_CTRL, control | CYCCNTENA)
        before = remote.read_word(DWT_CYCCNT)
        tell(f"{_CLOCK_SECONDS:g} s")
        outer = time.perf_counter()
        remote.resume()
        inner = time.perf_counter()
        time.sleep(_CLOCK_SECONDS)
        inner = time.perf_counter() - inner
        remote.halt()
        outer = time.perf_counter() - outer
        after = remote.read_word(DWT_CYCCNT)
        remote.resume()
        remote.detach()
    return check_clock(stated, (after - before) % (1 << 32), (inner, outer), control)


def check_clock(stated: int, cycles: int, seconds: tuple[float, float], control: int) -> StepFinding:
    """Compare what was counted with the clock that the firmware says.

    Args:
        stated: that clock, Hz.
        cycles: what was counted.
        seconds: how long that took, at least and at most.
        control: DWT_CTRL, which says whether there is a counter.
    """
    most, least = (cycles / bound for bound in seconds)
    values = {
        "cycles": cycles,
        "seconds_least": round(seconds[0], 6),
        "seconds_most": round(seconds[1], 6),
        "stated_hz": stated,
        "dwt_ctrl": f"0x{control:08x}",
    }
    if control & NOCYCCNT or cycles == 0:
        return StepFinding.failed(
            FailureKind.FAULT,
            f"the cycle counter stands still while the processor runs (DWT_CTRL 0x{control:08x})",
            "cycles of this board cannot be trusted; may the debugger see secure trace (DAUTHCTRL)?",
            values,
        )
    shown = f"{least / 1e6:.3f} to {most / 1e6:.3f} MHz"
    if not least * (1 - _TOLERANCE) <= stated <= most * (1 + _TOLERANCE):
        return StepFinding.failed(
            FailureKind.WRONG_BOARD,
            f"the processor's clock is {shown} by the host's; the firmware says {stated / 1e6:g} MHz",
            "correct soc.cpu_hz, or what sets up the clocks in the firmware's port: times made of cycles are wrong",
            values,
        )
    return StepFinding(f"{shown} by the host's clock; the firmware says {stated / 1e6:g} MHz", values)
