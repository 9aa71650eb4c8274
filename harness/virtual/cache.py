"""The data cache, as far as a program and the NPU notice it. QEMU has none: memory is always what was written last.

So nothing goes wrong here; what would go wrong is found. From when a program sets CCR.DC, each line of 32 bytes that it
stores to is dirty until it is cleaned, and each line that the NPU writes is stale until it is invalidated. The NPU must
not read what is dirty, nor the CPU what is stale. The plug-in (watcher.c) looks at the CPU's accesses.

This process serves CCR and the registers of cache maintenance: Armv8-M Architecture Reference Manual, D1.2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ethos_hil.harness.npu.npu import Extent
from ethos_hil.harness.socs.soc import Window
from ethos_hil.harness.virtual.device import JobEngine, JobResult, NpuJob
from ethos_hil.harness.virtual.peripherals import Peripheral, ServedRegisters
from ethos_hil.harness.virtual.rules import Rule, RuleBroken
from ethos_hil.harness.virtual.watcher import DIRTY, STALE, Watcher, line_of

_CONTROL = Window(0xE000ED14, 4)
"""CCR."""
_CONTROL_AT_RESET = 0x201
_CACHE_ON = 1 << 16
_MAINTENANCE = Window(0xE000EF50, 0x2C)
CACHE_WINDOWS = (_CONTROL, _MAINTENANCE)
_BY_ADDRESS = {0x0C: DIRTY | STALE, 0x14: DIRTY, 0x18: DIRTY, 0x20: DIRTY | STALE}
"""DCIMVAC, DCCMVAU, DCCMVAC, DCCIMVAC: what a line is no longer."""
_BY_SET = {0x10: DIRTY | STALE, 0x1C: DIRTY, 0x24: DIRTY | STALE}
"""DCISW, DCCSW, DCCISW. A program goes through all sets and ways; the last one is number 0."""


class DataCache:
    """The lines that are dirty or stale, and the registers that change them."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._control = _CONTROL_AT_RESET

    @property
    def peripherals(self) -> dict[Window, Peripheral]:
        """Return the registers by their windows."""
        control = ServedRegisters(lambda offset: self.control, lambda offset, value: self.set_control(value))
        return {_CONTROL: control, _MAINTENANCE: ServedRegisters(lambda offset: 0, self.maintain)}

    @property
    def control(self) -> int:
        """CCR. Its other bits have no effect here."""
        return self._control

    def set_control(self, value: int) -> None:
        """Write CCR."""
        self._control = value
        self._watcher.cache_on(bool(value & _CACHE_ON))

    def maintain(self, offset: int, value: int) -> None:
        """Carry out a store to a register of cache maintenance."""
        if offset in _BY_ADDRESS:
            line = line_of(value)
            if line is not None:
                self._watcher.lines[line] &= ~_BY_ADDRESS[offset] & 0xFF
        elif offset in _BY_SET and value == 0:
            self._watcher.clear_lines(_BY_SET[offset])

    def check_read(self, address: int, size: int) -> None:
        """Check what the NPU is about to read. Raises RuleBroken where the CPU has written it and not cleaned."""
        line = self._watcher.first_line(address, size, DIRTY)
        if line is not None:
            raise RuleBroken(
                Rule.CACHE,
                f"the NPU is told to read 0x{address:08x} to 0x{address + size - 1:08x}, and the CPU's data cache may "
                f"hold newer bytes of 0x{line:08x}: they were written and not cleaned",
            )

    def note_write(self, address: int, size: int) -> None:
        """Take note of what the NPU has written."""
        if size > 0 and self.control & _CACHE_ON:
            first, last = line_of(address), line_of(address + size - 1)
            if first is not None and last is not None:
                self._watcher.lines[first : last + 1] |= STALE


class CachedEngine:
    """Runs the NPU's jobs beside a CPU with a data cache.

    A job's extents say what it reads of each region from the first byte on, so what lies between counts as read.
    """

    def __init__(self, engine: JobEngine, cache: DataCache) -> None:
        self._engine = engine
        self._cache = cache

    def run(self, job: NpuJob) -> JobResult | None:
        """Run a job to its end. Raises RuleBroken, and what the engine raises."""
        seen: dict[int, Extent] = {}

        def examine(extents: Mapping[int, Extent]) -> None:
            if job.examine is not None:
                job.examine(extents)
            for region, extent in extents.items():
                self._cache.check_read(job.bases[region], extent.read_end)
            seen.update(extents)

        self._cache.check_read(job.queue, job.size)
        result = self._engine.run(dataclasses.replace(job, examine=examine))
        for region, extent in seen.items():
            self._cache.note_write(job.bases[region] + extent.write_begin, extent.write_end - extent.write_begin)
        return result
