"""The engine that runs the NPU's jobs with the functional model, on the guest's memory."""

from __future__ import annotations

import time

import numpy as np

from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu import Execution, Fault, Npu, NpuProgram
from ethos_hil.harness.virtual.device import JobResult, NpuJob
from ethos_hil.harness.virtual.memory import BusError, GuestMemory, RamAddress


class Engine:
    """Fetches a job's command stream, gives the model its regions, and keeps a record of every job.

    Attributes:
        executions: of the jobs that ended well, in order.
        seconds: wall time spent in the model.
    """

    def __init__(self, npu: Npu, memory: GuestMemory) -> None:
        self._npu = npu
        self._memory = memory
        self._copies: dict[str, np.ndarray] = {}
        self.executions: list[Execution] = []
        self.seconds = 0.0

    def run(self, job: NpuJob) -> JobResult:
        """Run a job to its end. Raises Fault."""
        stream = self._fetch(job)
        started = time.perf_counter()
        program = self._npu.decode(stream)
        self.seconds += time.perf_counter() - started
        if job.examine is not None:
            job.examine(program.extents)
        regions, copied = self._map(job, program)
        started = time.perf_counter()
        try:
            execution = self._npu.run(program, regions, job.ports)
        finally:
            # After a fault too: results computed before it belong in memory.
            self.seconds += time.perf_counter() - started
            self._write_back(program, regions, copied)
        self.executions.append(execution)
        # The STOP that ends the stream is a command word with the code 0 in its low half, and its parameter.
        return JobResult(execution, int.from_bytes(stream[-2:], "little"))

    def _fetch(self, job: NpuJob) -> bytes:
        try:
            place = self._memory.locate(job.queue)
        except BusError as error:
            raise Fault(FailureKind.BUS, 0, "QUEUE", "QBASE", job.queue, str(error)) from error
        if job.size > place.left:
            message = f"0x{job.size:x} bytes of commands run past the end of the {place.ram.name}"
            raise Fault(FailureKind.BUS, 0, "QUEUE", "QBASE", job.queue, message)
        return self._memory.read(place, job.size)

    def _map(self, job: NpuJob, program: NpuProgram) -> tuple[dict[int, np.ndarray], dict[int, RamAddress]]:
        """Return the regions that the program touches, cut off where their RAM ends, and where the copied ones came
        from.

        A region outside of RAM is left out: the model then faults at the operation that needs it.
        """
        regions: dict[int, np.ndarray] = {}
        copied: dict[int, RamAddress] = {}
        for number, extent in program.extents.items():
            try:
                place = self._memory.locate(job.bases[number])
            except BusError:
                continue
            size = min(extent.end, place.left)
            view = self._memory.share(place, size, writable=extent.write_end > 0)
            if view is None:
                # One buffer for each RAM, so that regions that overlap see each other's writes.
                whole = self._copies.setdefault(place.ram.name, np.zeros(place.ram.size, np.uint8))
                view = whole[place.offset : place.offset + size]
                view[:] = np.frombuffer(self._memory.read(place, size), np.uint8)
                copied[number] = place
            regions[number] = view
        return regions, copied

    def _write_back(self, program: NpuProgram, regions: dict[int, np.ndarray], copied: dict[int, RamAddress]) -> None:
        for number, place in copied.items():
            extent = program.extents[number]
            begin, end = extent.write_begin, min(extent.write_end, regions[number].size)
            if begin < end:
                self._memory.write(RamAddress(place.ram, place.offset + begin), regions[number][begin:end].data)
