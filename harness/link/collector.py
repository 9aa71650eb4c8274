"""The collector: it builds an Outcome from a device's frames, and refuses an incomplete or inconsistent answer.

docs/formats.md gives the order: HELLO, LOADED, the runs of the plan, END; LOG frames anywhere; ERROR or FAULT, then
END, in place of the rest. Silence is not an answer: `close` raises unless END came.
"""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any, TypeVar

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import LinkError, TargetError
from ethos_hil.base.npu.ethos_u import family_of
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.image.formats import (
    EVENT_COUNTERS,
    MAX_RANK,
    PROTOCOL_VERSION,
    Counters,
    End,
    FrameType,
    Hello,
    Loaded,
    Log,
    RunBegin,
    RunEnd,
    Step,
    StepPart,
    Struct,
    TensorInfo,
    TensorRole,
)
from ethos_hil.harness.image.pack import Image, RunPlan
from ethos_hil.harness.image.symbols import Symbols
from ethos_hil.harness.link.console_text import ConsoleText
from ethos_hil.harness.link.failure import reported_error, reported_fault
from ethos_hil.harness.link.frames import Frame, FrameDecoder, Text
from ethos_hil.harness.link.outcome import DelegateRun, Outcome, PrefixRun, Progress, Run, StepTime

DTYPES: dict[int, np.dtype[Any]] = {
    0: np.dtype("uint8"),
    1: np.dtype("int8"),
    2: np.dtype("int16"),
    3: np.dtype("int32"),
    4: np.dtype("int64"),
    5: np.dtype("float16"),
    6: np.dtype("float32"),
    7: np.dtype("float64"),
    11: np.dtype("bool"),
    27: np.dtype("uint16"),
    28: np.dtype("uint32"),
    29: np.dtype("uint64"),
}
"""NumPy types by ExecuTorch ScalarType (schema/scalar_type.fbs of its wheel); types that NumPy lacks are left out."""
_ADDRESSES = 1 << 32
"""The processor's addresses."""


@dataclass(frozen=True)
class TensorAnnouncement:
    """The contents of a TENSOR frame.

    Attributes:
        sizes: the logical shape, independent of the order in memory.
        same_as: the method output that has the same bytes, which are not sent then; otherwise None.
    """

    role: TensorRole
    index: int
    instruction: int
    dtype: np.dtype[Any]
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...]
    nbytes: int
    crc32: int
    same_as: int | None = None

    @classmethod
    def parse(cls, payload: bytes) -> TensorAnnouncement:
        """Return the announcement in the payload of a TENSOR frame.

        Raises:
            TargetError: kind "link", when it contradicts itself.
        """
        try:
            info = TensorInfo.unpack(payload)
            role = TensorRole(info["role"])
            rank = info["rank"]
            if rank > MAX_RANK or len(payload) != TensorInfo.size + 4 * rank:
                raise ValueError(f"rank {rank} in {len(payload)} bytes")
            sizes = struct.unpack_from(f"<{rank}I", payload, TensorInfo.size)
        except (struct.error, ValueError) as error:
            raise LinkError(f"a TENSOR frame is malformed: {error}") from error
        label = f"{role.name.lower()} {info['index']}"
        if info["dtype"] not in DTYPES:
            raise LinkError(f"{label} has dtype {info['dtype']}, which the harness has no array for")
        dim_order = tuple(info["dim_order"][:rank])
        if sorted(dim_order) != list(range(rank)):
            raise LinkError(f"{label} has dim_order {dim_order}, which is not a permutation")
        dtype = DTYPES[info["dtype"]]
        expected = math.prod(sizes) * dtype.itemsize
        if info["nbytes"] != expected:
            raise LinkError(f"{label} is announced with {info['nbytes']} bytes; {dtype} {sizes} has {expected}")
        # With a size of 0 the number of bytes says nothing about the others, and NumPy has no array for such a shape.
        if math.prod(size or 1 for size in sizes) * dtype.itemsize > _ADDRESSES:
            raise LinkError(f"{label} is announced with the shape {sizes}, which fits no memory")
        return cls(
            role, info["index"], info["instruction"], dtype, sizes, dim_order, info["nbytes"], info["crc32"],
            info["same_as"] - 1 if info["same_as"] else None,
        )  # fmt: skip

    def array(self, data: bytes) -> np.ndarray:
        """Return the tensor's bytes as an array in its logical shape.

        Raises:
            TargetError: kind "link", when the bytes are not those that were announced.
        """
        label = f"{self.role.name.lower()} {self.index}"
        if len(data) != self.nbytes or zlib.crc32(data) != self.crc32:
            raise LinkError(f"{label}: the {len(data)} bytes received do not match their CRC-32")
        stored = np.frombuffer(data, self.dtype).reshape([self.sizes[axis] for axis in self.dim_order])
        return np.ascontiguousarray(stored.transpose(np.argsort(self.dim_order))).reshape(self.sizes)


_NO_RUN_ID = bytes(16)
"""The run id that a device sends when its package is damaged or missing."""
_CYCLE_COUNTER = 31
"""Its bit in the NPU's PMOVSSET. The counter has 48 bits: 3 days at 1 GHz."""
_REASON_FRAMES = (FrameType.LOG, FrameType.ERROR, FrameType.FAULT, FrameType.END)
_MAX_FURTHER = 50
"""Errors after the first that its message lists."""
_LAST_LINES = 10
"""Lines of the console that go into the message of a timeout."""
_REBUILD = "build the firmware again with `make firmware`"

STOP_SIZE = 4
"""Bytes of the STOP that ends a prefix."""
_CALL_PARTS = tuple(part for part in StepPart if part is not StepPart.KERNEL)
"""Of a delegate's call."""
_Item = TypeVar("_Item")


class Collector:
    """Collects one run of one image.

    Attributes:
        started: HELLO arrived and belongs to this image.
        complete: END arrived with status 0, and everything before it was correct.
        failure: the error that the device reported, even if END did not follow.
    """

    def __init__(self, image: Image, progress: Progress | None = None) -> None:
        self._image = image
        self._progress = progress
        self._decoder = FrameDecoder(printable=image.plan.printable)
        self._symbols = Symbols(image.elf)
        self._hello: dict[str, Any] = {}
        self._memory: dict[str, int] | None = None
        self._runs: list[Run] = []
        self._current: _RunInProgress | None = None
        self._console = ConsoleText()
        self._failures = 0
        self._without_run_id = False
        self.started = False
        self.complete = False
        self.failure: TargetError | None = None

    @property
    def console(self) -> tuple[str, ...]:
        """Console lines so far."""
        return self._console.lines()

    @property
    def unfinished(self) -> int:
        """Bytes of a frame whose end has not come."""
        return self._decoder.unfinished

    def feed(self, data: bytes) -> None:
        """Process bytes from the wire.

        Raises:
            TargetError: the device reported a failure, or its answer is damaged, incomplete or another run's.
        """
        for item in self._decoder.feed(data):
            if isinstance(item, Text):
                self._console.add(item.lines)
            elif self.complete:
                raise LinkError(f"a {item.type.name} frame came after END")
            else:
                self._frame(item)

    def close(self) -> None:
        """Check that the answer is complete, after the last byte.

        Raises:
            TargetError: it is not.
        """
        try:
            for text in self._decoder.close():
                self._console.add(text.lines)
        except TargetError:
            if self.failure is None and not self.complete:
                raise
        if self.complete:
            return
        if self.failure is not None:
            raise self.failure
        raise LinkError(f"the device fell silent {self.progress_text()}, without an END frame")

    def progress_text(self) -> str:
        """Return how far the run got, for messages."""
        if not self.started:
            return "before its first frame"
        if self._memory is None:
            return "before the program was loaded"
        return f"after {len(self._runs)} of {self._image.plan.executions} executions"

    def timeout_error(self, timeout: float, state: str = "", hint: str = "") -> TargetError:
        """Return the error of a run without an end: what the device reported, or how far it got and said last.

        Args:
            timeout: the limit that has passed, wall seconds.
            state: what is known of the guest then.
            hint: what to say where the console is empty.
        """
        if self.failure is not None:
            return self.failure.replace(console=self.console)
        where = f"{self.progress_text()}: {state}" if state else self.progress_text()
        last_lines = " | ".join(self.console[-_LAST_LINES:])
        return TargetError(
            f"no end within {timeout:g} s, {where}",
            kind=FailureKind.TIMEOUT,
            hint=f"the console's last lines: {last_lines}" if self.console else hint or "the console is empty",
            console=self.console,
        )

    def outcome(self, seconds: dict[str, float]) -> Outcome:
        """Return the outcome of a complete run; `seconds` by phase, as Outcome describes them."""
        if not self.complete or self._memory is None:
            raise LinkError(f"the run is not complete: it ended {self.progress_text()}")
        return Outcome(
            run_id=self._hello["run_id"],
            image_hash=self._hello["image_hash"],
            program_hash=self._hello["program_hash"],
            npu_id=self._hello["npu_id"],
            npu_config=self._hello["npu_config"],
            memory=self._memory,
            runs=tuple(self._runs),
            console=self.console,
            seconds=seconds,
        )

    def _frame(self, frame: Frame) -> None:
        if not self.started and frame.type is not FrameType.HELLO:
            raise LinkError(f"the first frame is {frame.type.name}; expected HELLO")
        if self._without_run_id and frame.type not in _REASON_FRAMES:
            raise TargetError(
                f"a device that names no run sent a {frame.type.name} frame", kind=FailureKind.STALE_OUTPUT
            )
        if self._current is not None:
            self._current.check_expected(frame)
        match frame.type:
            case FrameType.HELLO:
                self._on_hello(_unpack(Hello, frame))
            case FrameType.LOG:
                _unpack(Log, frame, exact=False)
                self._console.add(frame.payload[Log.size :].decode("utf-8", "replace").splitlines())
            case FrameType.LOADED:
                if self._memory is not None:
                    raise LinkError("LOADED came twice")
                self._memory = _unpack(Loaded, frame)
            case FrameType.RUN_BEGIN:
                self._on_run_begin(_unpack(RunBegin, frame))
            case FrameType.TENSOR:
                self._run(frame).announce(TensorAnnouncement.parse(frame.payload))
            case FrameType.DATA:
                self._run(frame).data(frame.payload)
            case FrameType.COUNTERS:
                self._run(frame).count(_unpack(Counters, frame), self._image.plan)
            case FrameType.STEP:
                self._run(frame).step(_unpack(Step, frame), self._image.plan)
            case FrameType.RUN_END:
                self._on_run_end(frame, _unpack(RunEnd, frame))
            case FrameType.ERROR:
                self._note_failure(reported_error(frame.payload))
            case FrameType.FAULT:
                self._note_failure(reported_fault(frame.payload, self._symbols))
            case FrameType.END:
                self._on_end(_unpack(End, frame))

    def _on_hello(self, hello: dict[str, Any]) -> None:
        if self.started:
            raise LinkError("HELLO came twice: the device started again")
        if hello["protocol"] != PROTOCOL_VERSION:
            raise LinkError(
                f"the firmware speaks version {hello['protocol']} of the protocol, the harness {PROTOCOL_VERSION}",
                hint=_REBUILD,
            )
        image = self._image
        if hello["run_id"] == _NO_RUN_ID:
            # The firmware has no valid package. It may only report why, and end.
            self._hello = hello
            self.started = self._without_run_id = True
            return
        if hello["run_id"] != image.run_id:
            raise TargetError(
                f"the answer belongs to another run: its id is {hello['run_id'].hex()}, expected {image.run_id.hex()}",
                kind=FailureKind.STALE_OUTPUT,
                hint="reset the device and run again",
            )
        for name, expected in (("image_hash", image.image_hash), ("program_hash", image.program_hash)):
            if hello[name] != expected:
                what = name.removesuffix("_hash")
                raise TargetError(
                    f"the device runs another {what}: SHA-256 {hello[name].hex()[:16]}..., expected "
                    f"{expected.hex()[:16]}...",
                    kind=FailureKind.WRONG_PROGRAM,
                )
        self._hello = hello
        self.started = True

    def _on_run_begin(self, begin: dict[str, int]) -> None:
        plan = self._image.plan
        if self._memory is None:
            raise LinkError("a run started before LOADED")
        if self._current is not None:
            raise LinkError("a run started before the one before it ended")
        done = len(self._runs)
        expected = {"input_set": done // plan.repeat, "repeat": done % plan.repeat}
        if begin != expected or done >= plan.executions:
            raise LinkError(
                f"input set {begin['input_set']}, repeat {begin['repeat']} started; expected "
                + ("END" if done >= plan.executions else f"{expected['input_set']}, repeat {expected['repeat']}")
            )
        family = family_of(self._hello["npu_config"] >> 28)
        counters = EVENT_COUNTERS if family is None else family.event_counters
        self._current = _RunInProgress(begin["input_set"], begin["repeat"], counters)

    def _on_run_end(self, frame: Frame, end: dict[str, int]) -> None:
        current = self._run(frame)
        if (end["input_set"], end["repeat"]) != (current.input_set, current.repeat):
            raise LinkError(
                f"RUN_END of input set {end['input_set']}, repeat {end['repeat']}; expected {current.input_set}, "
                f"repeat {current.repeat}"
            )
        assert self._memory is not None
        self._runs.append(current.finish(self._memory["outputs"], self._image.plan, end["stack_used"]))
        self._current = None
        if self._progress is not None:
            self._progress(len(self._runs), self._image.plan.executions)

    def _on_end(self, end: dict[str, int]) -> None:
        if self.failure is not None:
            raise self.failure
        plan = self._image.plan
        counted = (end["status"], end["runs"], end["frames"])
        expected = (0, plan.executions, self._decoder.frames)
        if counted != expected or len(self._runs) != plan.executions or self._current is not None:
            raise LinkError(
                f"the device ended with status, executions and frames {counted}; expected {expected}, and "
                f"{len(self._runs)} executions arrived"
            )
        self.complete = True

    def _note_failure(self, failure: TargetError) -> None:
        if self.failure is None:
            self.failure = failure
            return
        self._failures += 1
        if self._failures > _MAX_FURTHER:
            return
        # The first error says what is wrong; further errors continue its list.
        self.failure = self.failure.replace(message=f"{self.failure.message}; {failure.message}")

    def _run(self, frame: Frame) -> _RunInProgress:
        if self._current is None:
            raise LinkError(f"a {frame.type.name} frame came outside of a run")
        return self._current


class _RunInProgress:
    """One execution, between RUN_BEGIN and RUN_END."""

    def __init__(self, input_set: int, repeat: int, event_counters: int) -> None:
        self._event_counters = event_counters
        self.input_set = input_set
        self.repeat = repeat
        self._outputs: list[np.ndarray] = []
        self._output_bytes: list[bytes] = []
        self._delegate_outputs: dict[int, list[np.ndarray | TensorAnnouncement]] = {}
        self._counters: dict[int, list[dict[str, Any]]] = {}
        self._steps: list[StepTime] = []
        self._announced: TensorAnnouncement | None = None
        self._received = bytearray()

    def check_expected(self, frame: Frame) -> None:
        """Refuse any frame but DATA, LOG or a report of failure between a TENSOR and its last byte."""
        allowed = (FrameType.DATA, FrameType.LOG, FrameType.ERROR, FrameType.FAULT, FrameType.END)
        if self._announced is not None and frame.type not in allowed:
            missing = self._announced.nbytes - len(self._received)
            raise LinkError(f"{missing} bytes of a tensor are missing: {frame.type.name} came instead")

    def announce(self, announced: TensorAnnouncement) -> None:
        if announced.same_as is not None and announced.role is TensorRole.DELEGATE_OUTPUT:
            self._add(self._delegate_outputs.setdefault(announced.instruction, []), announced, announced)
            return
        self._announced = announced
        self._received.clear()
        self._take_if_whole()

    def data(self, payload: bytes) -> None:
        if self._announced is None:
            raise LinkError("DATA came without a TENSOR")
        self._received += payload
        if len(self._received) > self._announced.nbytes:
            raise LinkError(f"more DATA came than the {self._announced.nbytes} bytes announced")
        self._take_if_whole()

    def count(self, counters: dict[str, Any], plan: RunPlan) -> None:
        instruction, delegate, size = (counters[name] for name in ("instruction", "delegate", "stream_size"))
        jobs = self._counters.setdefault(instruction, [])
        cuts = [cut.offset for cut in plan.cuts if cut.delegate == delegate]
        if len(jobs) > len(cuts):
            raise LinkError(f"COUNTERS of instruction {instruction} came twice")
        prefixes = [offset + STOP_SIZE for offset in cuts]
        if len(jobs) < len(cuts) and size != prefixes[len(jobs)]:
            raise LinkError(
                f"instruction {instruction} ran {size} bytes of its command stream; expected a prefix of "
                f"{prefixes[len(jobs)]}"
            )
        jobs.append(counters)

    def step(self, step: dict[str, Any], plan: RunPlan) -> None:
        if not plan.time_steps:
            raise LinkError("a STEP frame came, and no one asked for the CPU's time")
        instruction = step["instruction"]
        kinds = _CALL_PARTS if instruction in self._counters else (StepPart.KERNEL,)
        if any(step["parts"][part] for part in StepPart if part not in kinds):
            raise LinkError(f"instruction {instruction} reports times of another kind of call: {step['parts']}")
        self._steps.append(StepTime(instruction, {part.name.lower(): step["parts"][part] for part in kinds}))

    def finish(self, outputs: int, plan: RunPlan, stack_used: int) -> Run:
        """Return the run if it has all its outputs, and those of every delegate where they were requested."""
        timed = {step.instruction for step in self._steps}
        if plan.time_steps and not timed >= self._counters.keys():
            lost = min(self._counters.keys() - timed)
            raise LinkError(f"the CPU's time for instruction {lost} is missing")
        if len(self._outputs) != outputs:
            raise LinkError(f"a run sent {len(self._outputs)} of its {outputs} outputs")
        for instruction, jobs in self._counters.items():
            cuts = sum(cut.delegate == jobs[0]["delegate"] for cut in plan.cuts)
            if len(jobs) <= cuts:
                raise LinkError(f"instruction {instruction} ran {len(jobs)} of {cuts + 1} jobs")
        expected = set(self._counters) if plan.send_delegate_outputs else set()
        if set(self._delegate_outputs) != expected:
            sent, counted = sorted(self._delegate_outputs), sorted(expected)
            raise LinkError(f"outputs came of the delegates at {sent}; expected those at {counted}")
        return Run(
            self.input_set,
            self.repeat,
            tuple(self._outputs),
            tuple(
                DelegateRun(
                    instruction=instruction,
                    delegate=whole["delegate"],
                    cycles=whole["cycles"],
                    events=self._events(whole, plan),
                    outputs=tuple(self._array(output) for output in self._delegate_outputs.get(instruction, ())),
                    prefixes=tuple(
                        PrefixRun(job["stream_size"] - STOP_SIZE, job["cycles"], self._events(job, plan))
                        for job in prefixes
                    ),
                    wrapped=any(job["overflows"] >> _CYCLE_COUNTER & 1 for job in (*prefixes, whole)),
                )
                for instruction, (*prefixes, whole) in self._counters.items()
            ),
            stack_used,
            steps=tuple(self._steps),
        )

    def _events(self, counters: dict[str, Any], plan: RunPlan) -> tuple[int | None, ...]:
        """Return the event counters of a job; None where there is none, or where one has wrapped."""
        events = plan.events(self.repeat)
        there_are = min(len(events), self._event_counters)
        counts = [
            None if index >= there_are or counters["overflows"] >> index & 1 else count
            for index, count in enumerate(counters["events"])
        ]
        return tuple(counts[: len(events)])

    def _take_if_whole(self) -> None:
        announced = self._announced
        if announced is None or len(self._received) < announced.nbytes:
            return
        received = bytes(self._received)
        array = announced.array(received)
        if announced.role is TensorRole.OUTPUT:
            self._add(self._outputs, announced, array)
            self._output_bytes.append(received)
        else:
            self._add(self._delegate_outputs.setdefault(announced.instruction, []), announced, array)
        self._announced = None

    def _array(self, output: np.ndarray | TensorAnnouncement) -> np.ndarray:
        """Return a delegate's output; one that was only announced is an output of the method."""
        if isinstance(output, np.ndarray):
            return output
        assert output.same_as is not None
        if output.same_as >= len(self._output_bytes):
            raise LinkError(
                f"output {output.index} of the delegate at {output.instruction} is announced to be output "
                f"{output.same_as} of the method, which has {len(self._output_bytes)}"
            )
        return output.array(self._output_bytes[output.same_as])

    @staticmethod
    def _add(tensors: list[_Item], announced: TensorAnnouncement, item: _Item) -> None:
        if announced.index != len(tensors):
            raise LinkError(f"{announced.role.name.lower()} {announced.index} came where {len(tensors)} was expected")
        tensors.append(item)


def _unpack(record: Struct, frame: Frame, *, exact: bool = True) -> dict[str, Any]:
    """Return a payload's fields by name. With `exact`, nothing may follow them."""
    try:
        values = record.unpack(frame.payload)
    except struct.error as error:
        raise LinkError(f"a {frame.type.name} frame has {len(frame.payload)} bytes; expected {record.size}") from error
    if exact and len(frame.payload) != record.size:
        raise LinkError(f"a {frame.type.name} frame has {len(frame.payload)} bytes; expected {record.size}")
    return values
