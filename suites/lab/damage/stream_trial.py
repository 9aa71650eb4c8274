"""The run of one case: how it ends, and what that shows to be wrong with the NPU's model.

Regions lie between guards of random bytes. A changed guard shows a write outside of the region. A second run shows
reads outside of it: it has other guards, and its regions end where the program says that its accesses end. It must have
the same result.
"""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from time import perf_counter

import numpy as np
import numpy.typing as npt

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.npu import Fault, Npu, NpuProgram, forget
from ethos_hil.harness.npu.decode.decoder import FIELDS
from ethos_hil.harness.npu.isa.stream import commands
from ethos_hil.suites.lab.damage.loop import DamageEnding

Bytes = npt.NDArray[np.uint8]

LIMIT_SECONDS = 1.0  # of a run, from the stream to its end
TRIES = 3  # of which one has to keep within the limit: other processes may take the time away
GUARD = 4096  # bytes on either side of a region
RESULT = "result"
FAULT_KINDS = ("parse", "bus", "unsupported", "hazard")


@dataclass(frozen=True)
class StreamCase:
    """A stream and memory to run.

    Attributes:
        npu: the configuration.
        stream: register command stream.
        regions: the bytes of each region before the run.
        read_only: regions that must not be written.
        program: the conformance program it was made from, and for which memory mode.
        mutations: what was done to it, in words.
    """

    npu: str
    stream: bytes
    regions: Mapping[int, bytes]
    read_only: frozenset[int]
    program: str
    mutations: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.npu}: {self.program}: {'; '.join(self.mutations) or 'as compiled'}"


@dataclass(frozen=True)
class _StreamRun:
    """One run: how it ended, and the regions and guards it leaves."""

    program: NpuProgram | None
    fault: Fault | None
    error: str
    seconds: float
    memory: _Memory


def examine(case: StreamCase, number: int = 0, *, hazards: bool = False) -> DamageEnding:
    """Run a case, twice or more. With `hazards`, also look for hazards of its program."""
    first = _run(case, None)
    seconds = first.seconds
    for _ in range(TRIES - 1):
        if seconds <= LIMIT_SECONDS:
            break
        seconds = min(seconds, _run(case, None).seconds)
    finding = first.error or _problem(first, case)
    if not finding and seconds > LIMIT_SECONDS:
        finding = f"took {seconds:.1f} seconds"
    if not finding:
        second = _run(case, first.program)
        finding = second.error or _problem(second, case) or _difference(first, second)
    if not finding and hazards and first.program is not None:
        finding = _hazards(first.program)
    fault = first.fault
    outcome, message = (RESULT, "") if fault is None else (fault.kind, fault.message)
    return DamageEnding(number, str(case), case.npu, outcome, seconds, message, finding, first.program is not None)


class _Memory:
    """A case's regions between guards, cut to `sizes` where it names them."""

    def __init__(self, case: StreamCase, sizes: Mapping[int, int]) -> None:
        rng = np.random.default_rng()  # a different poison every time is the point
        self._whole: dict[int, Bytes] = {}
        self._guards: dict[int, tuple[bytes, bytes]] = {}
        self.regions: dict[int, Bytes] = {}
        for number, data in case.regions.items():
            size = min(len(data), sizes.get(number, len(data)))
            whole = rng.integers(0, 256, GUARD + size + GUARD, np.uint8)
            whole[GUARD : GUARD + size] = np.frombuffer(data, np.uint8, size)
            view = whole[GUARD : GUARD + size]
            view.flags.writeable = number not in case.read_only
            self._whole[number] = whole
            self._guards[number] = whole[:GUARD].tobytes(), whole[GUARD + size :].tobytes()
            self.regions[number] = view

    def trespass(self) -> str:
        """Return which guard was changed; "" for none."""
        for number, (before, behind) in self._guards.items():
            whole = self._whole[number]
            for where, guard, now in (("before", before, whole[:GUARD]), ("behind", behind, whole[-GUARD:])):
                if now.tobytes() != guard:
                    return f"bytes {where} region {number} were written"
        return ""


def _run(case: StreamCase, known: NpuProgram | None) -> _StreamRun:
    """Run once from scratch. With a `known` decoding of the stream, cut the regions to what it accesses."""
    sizes = {}
    if known is not None:
        sizes = {number: max(extent.read_end, extent.write_end) for number, extent in known.extents.items()}
    memory = _Memory(case, sizes)
    forget()
    program, fault, error = None, None, ""
    started = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # where numpy warns of an overflow, the result is not established
        try:
            npu = Npu(EthosU.parse(case.npu))
            program = npu.decode(case.stream)
            npu.run(program, memory.regions)
        except Fault as caught:
            fault = caught
        except Exception as caught:
            error = _described(caught)
    return _StreamRun(program, fault, error, perf_counter() - started, memory)


def _problem(run: _StreamRun, case: StreamCase) -> str:
    """Return what is wrong with the end of a run; "" for nothing."""
    fault = run.fault
    if fault is not None:
        if fault.kind not in FAULT_KINDS:
            return f"a fault of kind {fault.kind!r}"
        if not fault.op or not fault.register or not isinstance(fault.value, int):
            return f"a fault without op, register or value: {fault.message}"
        if not 0 <= fault.offset <= len(case.stream) or fault.offset % 4:
            return f"a fault at {fault.offset:#x}, where no command can be: {fault.message}"
        if run.program is None and fault.kind != "bus" and not _is_held(fault, case):
            return f"a register does not hold what a fault says: {fault.message}"
    trespass = run.memory.trespass()
    if trespass:
        return trespass
    for number, now in run.memory.regions.items():
        before = np.frombuffer(case.regions[number], np.uint8, now.size)
        extent = run.program.extents.get(number) if run.program is not None else None
        begin, end = (extent.write_begin, extent.write_end) if extent is not None else (0, 0)
        if number in case.read_only:
            begin = end = 0
        if not (np.array_equal(now[:begin], before[:begin]) and np.array_equal(now[end:], before[end:])):
            return f"region {number} was written outside of {begin:#x} to {end:#x}, which is what the program accesses"
    return ""


def _is_held(fault: Fault, case: StreamCase) -> bool:
    """Return whether the register that a fault names holds the value that the fault states."""
    configuration = EthosU.parse(case.npu)
    dialect = FIELDS[configuration.family.command_set](configuration).dialect
    held = {}
    with suppress(Fault):
        for offset, code, parameter, payload in commands(case.stream):
            if offset > fault.offset:
                break
            register = dialect.short.get(code) if payload is None else dialect.long.get(code)
            if register is not None:
                held[register.name] = parameter if payload is None else parameter << 32 | payload
    value = held.get(fault.register, 0)
    known = fault.register in {register.name for register in (*dialect.short.values(), *dialect.long.values())}
    forgotten = "never written" in fault.message  # behind a branch
    return not known or forgotten or fault.value in (value, value - (1 << 16), value - (1 << 40))


def _difference(first: _StreamRun, second: _StreamRun) -> str:
    """Return how the second run differs; "" for not at all. A difference shows reads of bytes it should not read."""
    messages = [str(run.fault and run.fault.message) for run in (first, second)]
    # Faults of accesses quote the size of the region.
    both_bus = all(run.fault is not None and run.fault.kind == FailureKind.BUS for run in (first, second))
    if messages[0] != messages[1] and not both_bus:
        return f"bytes outside of regions matter: once {messages[0]}, once {messages[1]}"
    for number, now in second.memory.regions.items():
        if not np.array_equal(now, first.memory.regions[number][: now.size]):
            return f"bytes outside of regions matter: region {number} differs"
    return ""


def _hazards(program: NpuProgram) -> str:
    """Return what is wrong with the search for hazards; "" for nothing."""
    started = perf_counter()
    try:
        for hazard in program.hazards[:1]:
            str(hazard.fault())
    except Exception as caught:
        return f"looking for hazards: {_described(caught)}"
    seconds = perf_counter() - started
    return f"looking for hazards took {seconds:.1f} seconds" if seconds > LIMIT_SECONDS else ""


_NPU = "/harness/npu/"


def _described(error: Exception) -> str:
    """An exception and where in the model it comes from."""
    own = [frame for frame in traceback.extract_tb(error.__traceback__) if _NPU in frame.filename]
    where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(own[-4:]))
    return f"{type(error).__name__}: {error} ({where})"
