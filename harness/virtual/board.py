"""QEMU with its connections, ready for an image; and for another after that, without being started again.

Before the next image QEMU resets processor and devices, as it does at its own start, and the memories are emptied:
nothing of the last run is left but the time of QEMU's clocks. harness/virtual/tests/test_board.py holds all of the
machine's state against that of a new one. Memories are emptied and filled by QEMU, not past it, so that it never
executes what it translated of earlier code. Only the DDR, which is shared, is filled from here, once QEMU emptied it.
What is as it should be already, as a rule the firmware's code, stays, and so does QEMU's translation of it: half the
work of a run.

Some devices of QEMU 7.2 are not as new after a reset: the system's control keeps where the processor starts, SPI, clock
and Ethernet their registers, the guards of memories and devices their interrupts. So a guard of our own stops the first
access to any device besides those that the firmware needs, and lets it pass; that board is not kept.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ethos_hil.harness.clock import Deadline
from ethos_hil.harness.errors import TargetNotAvailable
from ethos_hil.harness.image.segments import ElfError, segments
from ethos_hil.harness.socs.soc import SECURE_ALIAS, Soc, Window
from ethos_hil.harness.virtual.gdb import PC, SP, XPSR, Gdb, GdbError
from ethos_hil.harness.virtual.memory import Blocks
from ethos_hil.harness.virtual.qemu import DDR_BASE, DDR_SIZE, Qemu, unavailable
from ethos_hil.harness.virtual.qmp import Qmp, QmpError
from ethos_hil.harness.virtual.qtest import Qtest, QtestError

_RAMS = (
    range(0x10000000, 0x10080000), range(0x11000000, 0x11200000), range(0x30000000, 0x30080000),
    range(0x31000000, 0x31400000),
)  # fmt: skip
"""All RAM of QEMU's mps3-an547 besides the DDR (its `info mtree`), by its secure alias."""
_DDR = range(DDR_BASE, DDR_BASE + DDR_SIZE)
_DEVICES = range(0x40000000, 0x60000000)
"""Where there are devices, besides the processor's own."""
_RESET_WELL = (Window(0x59303000, 0x1000), Window(0x58103000, 0x1000))
"""Devices of QEMU's that programs may use: UART0, which is as new after a reset, and the timing adapters, which have no
state."""
_THUMB = 1 << 24
"""XPSR.T: the processor executes nothing without it."""
_START_SECONDS = 20.0
_WORTH_KEEPING = 32 << 20
"""Bytes of DDR: emptying more takes as long as a start of QEMU (measured: 1.6 ms of processor time a MiB; 60 ms)."""


class QemuBoard:
    """One QEMU, from start to reaped. Its guest is stopped at reset when a run begins.

    Attributes:
        soc: which system on chip it is.
        qemu, gdb, qtest, qmp: the process and its connections.
        blocks: its memory.
        elf: the image in it.
    """

    def __init__(self, soc: Soc, qemu: Qemu | None = None, *, guarded: bool = False) -> None:
        """Take over a QEMU that was just started, or start one with empty memories; the board ends it.

        Args:
            soc: which system on chip to be.
            qemu: the one to take over.
            guarded: notice when a program uses a device that a reset does not make as new.

        Raises:
            TargetNotAvailable: QEMU is missing or does not start this machine.
        """
        self.soc = soc
        self.qemu = qemu or Qemu()
        self._used = False
        self._guards = _guards(soc) if guarded else []
        try:
            self.elf = self.qemu.elf
            self.gdb = Gdb(self.qemu.gdb)
            self.qtest = Qtest(self.qemu.qtest)
            self.blocks = Blocks(self.qemu, self.gdb)
            self.qmp = Qmp(self.qemu.qmp)
            try:
                self._connect(Deadline(_START_SECONDS))
            except (GdbError, QtestError, TimeoutError) as error:
                raise unavailable(str(error), self.qemu) from error
        except BaseException:
            self.qemu.stop()
            raise

    def stray(self, address: int, deadline: Deadline) -> bool:
        """Whether a stop at `address` is the guard's; then it does not stop the guest again."""
        if not any(address in guard for guard in self._guards):
            return False
        for guard in self._guards:
            self.gdb.unwatch(guard.start, len(guard), deadline)
        self._guards = []
        return True

    def put(self, elf: bytes) -> None:
        """Make it as new, with `elf` in its memories.

        Raises:
            TargetNotAvailable: QEMU does not do so.
        """
        deadline = Deadline(_START_SECONDS)
        image = _contents(elf)
        self.elf = elf
        try:
            if self._used:
                self.qmp.reset(deadline)
                self.qemu.read_uart()
                there = [address for address, data in image.items() if self._holds(address, data, deadline)]
                self._empty([range(address, address + len(image.pop(address))) for address in there], deadline)
            self._used = True
            self._fill(image, deadline)
        except (GdbError, QtestError, QmpError, TimeoutError) as error:
            raise unavailable(str(error), self.qemu) from error

    def begin(self) -> None:
        """Have the processor start from the image's vector table.

        Raises:
            TargetNotAvailable: there is none.
        """
        deadline = Deadline(_START_SECONDS)
        try:
            table = self.gdb.read_memory(self.soc.vectors, 8, deadline)
            stack, entry = (int.from_bytes(table[i : i + 4], "little") for i in (0, 4))
            if not entry & 1:
                raise TargetNotAvailable(
                    f"the image has no vector table at 0x{self.soc.vectors:08x}, where a {self.soc.name} starts",
                    hint="an image is for one board: take the one for this NPU's",
                )
            # QEMU itself starts where a Corstone-300 does, with what was there when it reset the processor.
            registers = self.gdb.read_registers(deadline)
            registers[SP], registers[PC] = stack & ~3, entry & ~1
            registers[XPSR] |= _THUMB
            self.gdb.write_registers(registers, deadline)
        except (GdbError, TimeoutError) as error:
            raise unavailable(str(error), self.qemu) from error

    @property
    def worth_keeping(self) -> bool:
        """Whether `put` can make it as new, in less time than another takes to start: it has its guards still, and
        not too much in its memory."""
        return bool(self._guards) and sum(end - begin for begin, end in self.qemu.ddr_used) <= _WORTH_KEEPING

    def stop(self) -> None:
        """End it; may be called again."""
        self.blocks.close()
        self.qemu.stop()

    def _connect(self, deadline: Deadline) -> None:
        self.gdb.handshake(deadline)
        for window in self.soc.windows:
            for base in window.bases:
                self.gdb.watch(base, window.size, deadline)
        for guard in self._guards:
            self.gdb.watch(guard.start, len(guard), deadline)

    def _holds(self, address: int, data: bytes, deadline: Deadline) -> bool:
        """Whether that is at `address`, outside of the DDR, already, and QEMU knows it."""
        return address not in _DDR and self.blocks.known(address, len(data), deadline) == data

    def _empty(self, but: Sequence[range], deadline: Deadline) -> None:
        used = [range(DDR_BASE + begin, DDR_BASE + end) for begin, end in self.qemu.ddr_used]
        for ram in (*_RAMS, *used):
            for hole in _outside(ram, but):
                self.qtest.fill(hole.start, len(hole), deadline)
        self.qemu.release_ddr()
        self.blocks.forget()

    def _fill(self, image: Mapping[int, bytes], deadline: Deadline) -> None:
        assert self.qemu.ddr is not None
        for address, data in image.items():
            if address in _DDR and address + len(data) <= _DDR.stop:
                self.qemu.ddr[address - _DDR.start : address - _DDR.start + len(data)] = data
            else:
                self.qtest.write(address, data, deadline)


def _contents(elf: bytes) -> dict[int, bytes]:
    """What an image has in memory, by address; outside of the DDR by the secure alias."""
    file = io.BytesIO(elf)
    try:
        loaded = segments(file)
    except ElfError as error:
        raise TargetNotAvailable(f"the image cannot be loaded: {error}", hint="pack it again") from error
    contents = ((segment.load_address, segment.read(file)) for segment in loaded if segment.file_size)
    return {at if at in _DDR else at | SECURE_ALIAS: data for at, data in contents}


def _guards(soc: Soc) -> list[range]:
    """Addresses of all devices but those that programs may use."""
    used = [range(base, base + window.size) for window in (*soc.windows, *_RESET_WELL) for base in window.bases]
    return list(_outside(_DEVICES, used))


def _outside(whole: range, parts: Iterable[range]) -> Iterator[range]:
    """What of `whole` is in none of `parts`, which do not overlap, in order."""
    begin = whole.start
    for part in sorted((part for part in parts if part.start in whole), key=lambda part: part.start):
        if begin < part.start:
            yield range(begin, part.start)
        begin = part.stop
    if begin < whole.stop:
        yield range(begin, whole.stop)
