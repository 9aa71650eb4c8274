"""The outcome of a run, the same for every kind of target; its answers as JSON and arrays, to be recorded; and a
target's console as lines, in bounded memory: a target may print without end.

JSON has a dataclass by the names of its fields (an operation's event, of which there are many, by their order), bytes
as hexadecimal digits, and in place of an array its name among the arrays.
"""

from __future__ import annotations

import codecs
import dataclasses
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from cattrs.gen import make_dict_structure_fn

from ethos_hil.base.plain_text import mark_of_cut, utf8_length
from ethos_hil.base.record import BoardRun
from ethos_hil.base.typed_json import from_json, new_converter

LINE = 4_000
"""Characters that are kept of a line."""
LINES = 1_000
"""Lines that are kept of the start, and as many of the end."""


class ConsoleText:
    """The lines of a console: the first and the last ones, and how many were between them.

    Lines end as for `str.splitlines`. A longer line is cut, and says how many bytes are missing.
    """

    def __init__(self, telling: re.Pattern[str] | None = None) -> None:
        """Start without a line.

        Args:
            telling: `LINES` of the lines in which this is found are kept even between the first and the last ones.
        """
        self._telling = telling
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unfinished = ""
        self._cut = 0
        self._first: list[str] = []
        self._told: list[str] = []
        self._last: deque[str] = deque()
        self._lines_out = 0
        self._bytes_out = 0

    def write(self, data: bytes) -> None:
        """Add bytes, in pieces of any size; what is not valid UTF-8 becomes U+FFFD."""
        text = self._unfinished + self._decoder.decode(data)
        self._unfinished = ""
        *whole, rest = text.splitlines(keepends=True) or [""]
        if rest and not rest.endswith("\r") and rest.splitlines()[0] != rest:
            whole, rest = [*whole, rest], ""  # the end of a line; a \n may follow \r
        for line in whole:
            self._end(line.splitlines()[0])
        # The \r that may be the first half of a line's end is kept beyond the limit.
        kept = LINE + rest.endswith("\r")
        if len(rest) > kept:
            self._cut += utf8_length(rest[LINE:])
            rest = rest[:LINE]
        self._unfinished = rest

    def add(self, lines: Iterable[str]) -> None:
        """Add whole lines."""
        for line in lines:
            self._end(line)

    def lines(self) -> tuple[str, ...]:
        """Return the lines so far; the last one may be unfinished."""
        first, last = list(self._first), list(self._last)
        unfinished = self._unfinished.rstrip("\r") + (mark_of_cut(self._cut) if self._cut else "")
        if self._unfinished or self._cut:
            last.append(unfinished)
        if self._lines_out:
            first.append(f"... ({self._lines_out:,} lines, {self._bytes_out:,} bytes left out)")
        return (*first, *self._told, *last)

    def _end(self, line: str) -> None:
        missing = self._cut + (utf8_length(line[LINE:]) if len(line) > LINE else 0)
        self._cut = 0
        self._take(line[:LINE] + mark_of_cut(missing) if missing else line)

    def _take(self, line: str) -> None:
        if len(self._first) < LINES:
            self._first.append(line)
            return
        self._last.append(line)
        if len(self._last) <= LINES:
            return
        old = self._last.popleft()
        if self._telling is not None and len(self._told) < LINES and self._telling.search(old):
            self._told.append(old)
        else:
            self._lines_out += 1
            self._bytes_out += utf8_length(old)


Progress = Callable[[int, int], None]
"""Called with (executions finished, executions planned)."""


@dataclass(frozen=True)
class OpEvent:
    """One NPU operation (or DMA) as the target reports it.

    Attributes:
        offset: byte offset of the operation's command word in the register command stream.
        name: operation, e.g. "CONV", "DEPTHWISE", "POOL MAX", "ELEMENTWISE ADD", "DMA".
        cycles: NPU cycles, with the target's provenance.
        begin, end: when it runs, in cycles since the start of the job.
    """

    offset: int
    name: str
    cycles: int
    begin: int
    end: int


@dataclass(frozen=True)
class PrefixRun:
    """A job that ran the start of a delegate's command stream.

    Attributes:
        offset: byte of the command stream where it was cut.
        cycles, events: as in `DelegateRun`.
    """

    offset: int
    cycles: int
    events: tuple[int | None, ...]


@dataclass(frozen=True)
class DelegateRun:
    """One DelegateCall of one execution.

    Attributes:
        instruction: index of the DelegateCall in the method's chain.
        delegate: index into the method's delegates.
        cycles: the NPU's cycle counter over the job.
        events: the event counters, in the order of the execution's event set; None where the NPU has no such counter,
            or where one has wrapped, so that its count is not known.
        outputs: the delegate's output tensors, in argument order; empty when the plan did not request them.
        op_events: per-operation events when the target has Capability.OP_EVENTS, in stream order; otherwise empty.
        prefixes: the jobs that ran only a part of the command stream, one for each of the plan's cuts, in their order.
        wrapped: whether the cycle counter has wrapped in one of these jobs, so that its cycles are not known.
    """

    instruction: int
    delegate: int
    cycles: int
    events: tuple[int | None, ...]
    outputs: tuple[np.ndarray, ...]
    op_events: tuple[OpEvent, ...] = ()
    prefixes: tuple[PrefixRun, ...] = ()
    wrapped: bool = False


@dataclass(frozen=True)
class StepTime:
    """What the CPU did for a call of a kernel or delegate in one execution.

    Attributes:
        instruction: index of the call in the method's chain.
        parts: what each part took, in the order they ran: "kernel", or those of a delegate's call (the names of
            `ethos_hil.harness.image.formats.StepPart`, in lower case). In `ethos_hil.harness.targets.base.Target`'s
            `cpu_unit`.
    """

    instruction: int
    parts: dict[str, int]


@dataclass(frozen=True)
class Run:
    """One execution of one input set.

    Output arrays have the logical (NCHW) shape of the program's tensors, whatever their dim_order is.
    `stack_used` counts the bytes of the device's main stack that were in use at any time since its start.
    `counted` has the NPU cycles of the whole execution where the cycles of its delegate calls are unknown, else None.
    `steps` are what the CPU did, in the order it ran; empty unless the plan asks for it.
    """

    input_set: int
    repeat: int
    outputs: tuple[np.ndarray, ...]
    delegates: tuple[DelegateRun, ...]
    stack_used: int = 0
    counted: int | None = None
    steps: tuple[StepTime, ...] = ()

    @property
    def cycles(self) -> int:
        """NPU cycles of all its delegate calls."""
        return sum(call.cycles for call in self.delegates) if self.counted is None else self.counted


@dataclass(frozen=True)
class Outcome:
    """The outcome of a complete plan.

    Attributes:
        run_id, image_hash, program_hash: the device's echo (16, 32 and 32 bytes). A runner echoes nothing: b"".
        npu_id, npu_config: the NPU's ID and CONFIG registers; 0 for a runner.
        memory: byte counts of the device's LOADED frame, by field name of ethos_hil.harness.image.formats.Loaded; for a
            runner only the counts that it logs.
        runs: one per input set and repeat, in plan order.
        console: text that the device sent outside and inside frames, line by line.
        seconds: wall time by phase of the host's work: "launch" (start to first frame), "npu" (inside the NPU model,
            virtual target only), "total".
        notes: what was unusual about the run, a sentence each. They go into the record.
        board: how the program came onto the board; None where it is not a board.
    """

    run_id: bytes
    image_hash: bytes
    program_hash: bytes
    npu_id: int
    npu_config: int
    memory: dict[str, int]
    runs: tuple[Run, ...]
    console: tuple[str, ...]
    seconds: dict[str, float]
    notes: tuple[str, ...] = ()
    board: BoardRun | None = None


@dataclass(frozen=True)
class Ended:
    """The end of a program that talks by semihosting.

    Attributes:
        status: the program's exit status; 0 where the target does not pass it on.
        console: the console output of the program and of the simulator, line by line.
        notes: what was unusual about the boot, a sentence each.
    """

    status: int
    console: tuple[str, ...]
    notes: tuple[str, ...] = ()


Arrays = dict[str, np.ndarray]
"""Arrays by name."""
_EVENT = tuple(field.name for field in dataclasses.fields(OpEvent))
T = TypeVar("T")


def outcome_to_json(outcome: Outcome, arrays: Arrays) -> dict[str, Any]:
    """Return an outcome as JSON; its arrays are added to `arrays` under the names in the JSON."""
    document: dict[str, Any] = _document(outcome, "outcome", arrays)
    return document


def outcome(data: Mapping[str, Any], arrays: Arrays) -> Outcome:
    """Return the outcome of `outcome_to_json`'s output. Raises ValueError where it has another form.

    Recordings of older releases lack some fields, which have a default.
    """
    return _value(Outcome, data, arrays)


def _document(value: Any, name: str, arrays: Arrays) -> Any:
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return name
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, OpEvent):
        return list(dataclasses.astuple(value))
    if isinstance(value, tuple):
        return [_document(part, f"{name}.{index}", arrays) for index, part in enumerate(value)]
    if dataclasses.is_dataclass(value):
        names = (field.name for field in dataclasses.fields(value))
        return {field: _document(getattr(value, field), f"{name}.{field}", arrays) for field in names}
    return value


def _value(kind: type[T], data: Any, arrays: Arrays) -> T:
    """Return the value of a type that JSON stands for."""
    converter = new_converter(bounded=True)
    event = make_dict_structure_fn(OpEvent, converter)
    converter.register_structure_hook(np.ndarray, lambda name, _: arrays[name])
    converter.register_structure_hook(bytes, lambda digits, _: bytes.fromhex(digits))
    converter.register_structure_hook(OpEvent, lambda values, _: event(dict(zip(_EVENT, values, strict=True))))
    return from_json(kind, data, converter=converter)
