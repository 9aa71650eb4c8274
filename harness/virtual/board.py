"""QEMU with its connections, ready for an image, and for further images without being started again.

Before the next image QEMU resets processor and devices, as it does when it starts, and the memories are emptied.
Nothing of the last run remains except the time of QEMU's clocks: harness/virtual/tests/test_board.py compares all of
the machine's state with that of a new one. QEMU itself empties and fills the memories, so that it never executes its
translation of earlier code. Only the DDR, which is shared, is filled from here, after QEMU emptied it. Parts that are
already correct, usually the firmware's code, stay, and so does QEMU's translation of them: that is half the work of a
run.

Some devices of QEMU 7.2 keep state over a reset: the system control keeps where the processor starts; SPI, clock and
Ethernet keep their registers; the guards of memories and devices keep their interrupts. So watchpoints of our own stop
the first access to any device that the firmware does not need, and let it pass; that board is not kept.

A pool keeps boards, stopped, until their next run.
"""

from __future__ import annotations

import functools
import io
import random
import threading
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetNotAvailable
from ethos_hil.harness.image.segments import ElfError, code_of, contents, segments
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.virtual.fittings import Fittings
from ethos_hil.harness.virtual.memory import RamBlocks
from ethos_hil.harness.virtual.mps3_an547 import (
    DDR,
    DEVICES,
    INITSVTOR,
    INITSVTOR_REGISTER,
    RAMS,
    SECURE_ALIAS,
    constants,
)
from ethos_hil.harness.virtual.qemu import Qemu, equipped_qemu, unavailable
from ethos_hil.harness.virtual.qemu_control import PC, SP, XPSR, Gdb, QemuError, Qmp, Qtest
from ethos_hil.harness.virtual.rules import Rule
from ethos_hil.harness.virtual.watcher import TCM_BYTES, TCMS

_NOISE_BYTES = 1 << 20


def noise(seed: int, address: int, size: int) -> Iterator[tuple[int, memoryview]]:
    """Yield what memory holds at `size` bytes from `address` on: pieces with their addresses.

    A byte depends on the seed and its address only. The seed is made from the image, so a run that fails fails again.
    """
    doubled = _double()
    while size > 0:
        begin = (address + seed) % _NOISE_BYTES
        length = min(size, _NOISE_BYTES)
        yield address, doubled[begin : begin + length]
        address += length
        size -= length


@functools.cache
def _double() -> memoryview:
    """Return random bytes, twice in a row."""
    return memoryview(random.Random(0).randbytes(_NOISE_BYTES) * 2)


_RAMS = tuple(range(ram.base, ram.base + ram.size) for ram in RAMS)
_DDR = range(DDR.base, DDR.base + DDR.size)
_THUMB = 1 << 24
"""XPSR.T: the processor executes only with this bit set."""
_START_SECONDS = 20.0
_DDR_NOISE = 4 << 20
"""Bytes of the DDR behind each part of an image that hold random bytes at the start. The rest of it reads as zero."""
_WORTH_KEEPING = 32 << 20
"""Bytes of DDR. Emptying more takes as long as starting QEMU (measured: 1.6 ms of processor time per MiB, 60 ms)."""


class QemuBoard:
    """One QEMU process, from its start until it is reaped. Its guest is stopped at reset when a run starts.

    Attributes:
        soc: the system on chip.
        rules: what a real part may not forgive, and this board does not either.
        fittings: its devices.
        seed: of everything that is random on it. It is made from the image, so a run that fails fails again.
        qemu, gdb, qtest, qmp: the process and its connections.
        blocks: its memory.
        elf: the image in it.
        code: the addresses of the image's own code.
        constants: registers of further devices, by window, for a foreign program.
    """

    def __init__(
        self,
        soc: Soc,
        qemu: Qemu | None = None,
        *,
        rules: Collection[Rule] = (),
        fittings: Fittings | None = None,
        guarded: bool = False,
        foreign: bool = False,
    ) -> None:
        """Take over a QEMU that was just started, or start one with empty memories. The board ends it.

        Args:
            soc: the system on chip to emulate.
            qemu: the process to take over; it has the plug-ins of these rules and fittings (`equipped_qemu`).
            rules: the strict board's rules to keep.
            fittings: the board's devices; by default those that the rules ask for.
            guarded: detect when a program uses a device that a reset does not restore.
            foreign: the program is not ours, and may ask for devices that ours does not.

        Raises:
            TargetNotAvailable: QEMU is missing or does not start this machine.
        """
        self.soc = soc
        self.rules = frozenset(rules)
        self.fittings = fittings or Fittings.of(soc, rules)
        self.qemu = qemu or equipped_qemu(soc, rules, self.fittings)
        self.seed = 0
        self._used = False
        self._guards = _guards(soc, self.fittings) if guarded else []
        self.constants = constants(soc) if foreign else {}
        try:
            self.elf = self.qemu.elf
            self.code = _code(self.elf)
            self.gdb = Gdb(self.qemu.gdb)
            self.qtest = Qtest(self.qemu.qtest)
            self.blocks = RamBlocks(self.qemu, self.gdb)
            self.qmp = Qmp(self.qemu.qmp)
            try:
                self._connect(Deadline(_START_SECONDS))
                if Rule.RESET_STATE in self.rules and soc.boot != INITSVTOR:
                    # VTOR points at the system's own vector table after this and every later reset.
                    self.qtest.write(INITSVTOR_REGISTER, soc.boot.to_bytes(4, "little"), Deadline(_START_SECONDS))
                    self.qmp.reset(Deadline(_START_SECONDS))
            except (QemuError, TimeoutError) as error:
                raise unavailable(str(error), self.qemu) from error
        except BaseException:
            self.qemu.stop()
            raise

    def release_guards_at(self, address: int, deadline: Deadline) -> bool:
        """Return whether a guard stopped the guest at `address`. If so, remove all guards, so that it goes on."""
        if not any(address in guard for guard in self._guards):
            return False
        for guard in self._guards:
            self.gdb.unwatch(guard.start, len(guard), deadline)
        self._guards = []
        return True

    def load_image(self, elf: bytes, seed: int = 0) -> None:
        """Restore the initial state, with `elf` in the memories.

        Args:
            elf: the image.
            seed: see `QemuBoard`.

        Raises:
            TargetNotAvailable: QEMU fails to do so.
        """
        deadline = Deadline(_START_SECONDS)
        image = _contents(elf)
        self.elf = elf
        self.seed = seed
        self.code = _code(elf)
        parts = [range(address, address + len(data)) for address, data in image.items()]
        try:
            if self._used:
                self.qmp.reset(deadline)
                self.qemu.read_uart()
                # QEMU's translation matches what this process knows to be there.
                there = [
                    address
                    for address, data in image.items()
                    if address not in _DDR and self.blocks.read_known(address, len(data), deadline) == data
                ]
                kept = [range(address, address + len(image.pop(address))) for address in there]
                self._empty(kept, deadline)
            self._used = True
            if Rule.MEMORY_PATTERN in self.rules:
                self._fill_with_noise(parts, deadline)
            self._fill(image, deadline)
            self._watch(parts, deadline)
        except (QemuError, TimeoutError) as error:
            raise unavailable(str(error), self.qemu) from error

    def start_image(self) -> None:
        """Set the processor to start from the image's vector table.

        Raises:
            TargetNotAvailable: the image has no vector table.
        """
        deadline = Deadline(_START_SECONDS)
        try:
            if not self._used:  # QEMU itself has loaded the image
                self._take_over(deadline)
            table = self.gdb.read(self.soc.boot, 8, deadline)
            stack, entry = (int.from_bytes(table[i : i + 4], "little") for i in (0, 4))
            if not entry & 1:
                raise TargetNotAvailable(
                    f"the image has no vector table at 0x{self.soc.boot:08x}, where a {self.soc.name} starts",
                    hint="an image is for one board: take the one for this NPU's",
                )
            # QEMU starts at a Corstone-300's vector table, with the values from when it reset the processor.
            registers = self.gdb.read_registers(deadline)
            registers[SP], registers[PC] = stack & ~3, entry & ~1
            registers[XPSR] |= _THUMB
            self.gdb.write_registers(registers, deadline)
        except (QemuError, TimeoutError) as error:
            raise unavailable(str(error), self.qemu) from error

    @property
    def worth_keeping(self) -> bool:
        """Whether `load_image` can restore it faster than another board starts: it has its guards still, and little
        memory is in use.
        """
        return bool(self._guards) and sum(end - begin for begin, end in self.qemu.ddr_used) <= _WORTH_KEEPING

    def stop(self) -> None:
        """End it. May be called again."""
        self.blocks.close()
        self.qemu.stop()

    def _take_over(self, deadline: Deadline) -> None:
        """Put the memories around the image that QEMU has loaded into their state at the start."""
        self.seed = zlib.crc32(self.elf)
        parts = [range(address, address + len(data)) for address, data in _contents(self.elf).items()]
        parts += [range(at, at + path.stat().st_size) for path, at in self.qemu.data]
        parts = [range(_secure(part.start), _secure(part.start) + len(part)) for part in parts]
        if Rule.MEMORY_PATTERN in self.rules:
            self._fill_with_noise(parts, deadline)
        self._watch(parts, deadline)
        self._used = True

    def _watch(self, parts: Iterable[range], deadline: Deadline) -> None:
        """Start to watch a program whose loader has written `parts`."""
        watcher = self.qemu.watcher
        if watcher is None:
            return
        watcher.begin()
        if not watcher.ecc:
            return
        for which, base in enumerate(TCMS):
            host = self.blocks.host_address(base, deadline)
            data = self.blocks.read(base, TCM_BYTES, deadline) if host is not None else None
            if host is None or data is None:
                raise TargetNotAvailable(
                    f"the rule {Rule.TCM_ECC} needs to read QEMU's memory (/proc/{self.qemu.pid}/mem), and cannot"
                )
            watcher.set_tcm(which, host, data)
        watcher.power_up()
        for part in parts:
            watcher.note_write(part.start, len(part))

    def _connect(self, deadline: Deadline) -> None:
        self.gdb.handshake(deadline)
        for window in (*self.fittings.served_windows(self.soc), *self.constants):
            for base in window.bases:
                self.gdb.watch(base, window.size, deadline)
        for guard in self._guards:
            self.gdb.watch(guard.start, len(guard), deadline)

    def _empty(self, but: Sequence[range], deadline: Deadline) -> None:
        used = [range(DDR.base + begin, DDR.base + end) for begin, end in self.qemu.ddr_used]
        for ram in (*_RAMS, *used):
            for hole in _outside(ram, but):
                self.qtest.fill(hole.start, len(hole), deadline)
        self.qemu.release_ddr()
        self.blocks.forget_writes()

    def _fill_with_noise(self, parts: Sequence[range], deadline: Deadline) -> None:
        """Fill all RAM outside of `parts` with random bytes; of the DDR the part that a program uses first.

        QEMU has emptied that memory before, or executed nothing yet, so it has no translation of what was there.
        """
        assert self.qemu.ddr is not None
        ends = [part.stop for part in parts if part.start in _DDR] or [DDR.base, self.soc.firmware.package.base]
        for begin in sorted(ends):
            for hole in _outside(range(begin, min(begin + _DDR_NOISE, _DDR.stop)), parts):
                for address, data in noise(self.seed, hole.start, len(hole)):
                    self.qemu.ddr[address - _DDR.start : address - _DDR.start + len(data)] = data
        for ram in _RAMS:
            for hole in _outside(ram, parts):
                for address, data in noise(self.seed, hole.start, len(hole)):
                    if not self.blocks.overwrite(address, data, deadline):
                        self.qtest.write(address, bytes(data), deadline)

    def _fill(self, image: Mapping[int, bytes], deadline: Deadline) -> None:
        assert self.qemu.ddr is not None
        for address, data in image.items():
            if address in _DDR and address + len(data) <= _DDR.stop:
                self.qemu.ddr[address - _DDR.start : address - _DDR.start + len(data)] = data
            else:
                self.qtest.write(address, data, deadline)


def _contents(elf: bytes) -> dict[int, bytes]:
    """Return an image's bytes in memory, by address; outside of the DDR at the secure alias."""
    file = io.BytesIO(elf)
    try:
        loaded = contents(file, segments(file))
    except ElfError as error:
        raise TargetNotAvailable(f"the image cannot be loaded: {error}", hint="pack it again") from error
    return {_secure(at): data for at, data in loaded}


def _secure(address: int) -> int:
    """Return the address by which secure code reaches a place in memory."""
    return address if address in _DDR else address | SECURE_ALIAS


def _code(elf: bytes) -> tuple[range, ...]:
    try:
        return code_of(segments(io.BytesIO(elf)))
    except ElfError:  # no image yet, or one that cannot be loaded
        return ()


def _guards(soc: Soc, fittings: Fittings) -> list[range]:
    """Return the addresses of all devices except those that programs may use."""
    used = [range(base, base + window.size) for window in fittings.harmless(soc) for base in window.bases]
    return list(_outside(DEVICES, used))


def _outside(whole: range, parts: Iterable[range]) -> Iterator[range]:
    """Yield the parts of `whole` that are in none of `parts`, in order."""
    begin = whole.start
    for part in sorted((part for part in parts if part.start in whole), key=lambda part: part.start):
        if begin < part.start:
            yield range(begin, part.start)
        begin = max(begin, part.stop)
    if begin < whole.stop:
        yield range(begin, whole.stop)


_Kind = tuple[str, frozenset[Rule], Fittings]
"""Boards that can stand in for each other have the same."""


class BoardPool:
    """At most one waiting board for each system on chip with its rules and fittings. A context manager: leaving it ends
    the boards.

    The pool keeps boards only for the thread that made it. Other threads get a new board each time: QEMU ends with the
    thread that started it, and would take a board with it that another thread uses.
    """

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._boards: dict[_Kind, QemuBoard] = {}

    def __enter__(self) -> BoardPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def take(
        self, soc: Soc, elf: bytes, *, rules: Collection[Rule] = (), fittings: Fittings | None = None, seed: int = 0
    ) -> QemuBoard:
        """Return a board in its initial state with an image loaded. The caller ends it or gives it back.

        Args:
            soc: the system on chip.
            elf: the image.
            rules, fittings: see `QemuBoard`.
            seed: see `QemuBoard.load_image`.

        Raises:
            TargetNotAvailable: QEMU is missing or does not start.
        """
        kind = (soc.name, frozenset(rules), fittings or Fittings.of(soc, rules))
        board = self._boards.pop(kind, None) if threading.get_ident() == self._thread else None
        if board is not None:
            try:
                board.load_image(elf, seed)
                return board
            except TargetNotAvailable:  # e.g. it ended while it waited; this run takes a new one
                board.stop()
            except BaseException:
                board.stop()
                raise
        return new_board(soc, elf, rules=rules, fittings=fittings, seed=seed, guarded=True)

    def give(self, board: QemuBoard) -> None:
        """Keep a board whose run ended well, or end it. The caller must not use it any more."""
        kind = (board.soc.name, board.rules, board.fittings)
        if threading.get_ident() == self._thread and kind not in self._boards:
            self._boards[kind] = board
        else:
            board.stop()

    def close(self) -> None:
        """End all boards. May be called again, and the pool may be used again."""
        while self._boards:
            _, board = self._boards.popitem()
            board.stop()


def new_board(
    soc: Soc,
    elf: bytes,
    *,
    rules: Collection[Rule] = (),
    fittings: Fittings | None = None,
    seed: int = 0,
    guarded: bool = False,
) -> QemuBoard:
    """Start a board with an image loaded. Only a guarded board can be kept. Raises TargetNotAvailable."""
    board = QemuBoard(soc, rules=rules, fittings=fittings, guarded=guarded)
    try:
        board.load_image(elf, seed)
    except BaseException:
        board.stop()
        raise
    return board
