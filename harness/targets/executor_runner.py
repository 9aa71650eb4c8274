"""The host's side of ExecuTorch's semihosting runner: a program and its inputs as files, the outputs as files back.

The protocol is that of upstream's arm_executor_runner and of the tests that use it (executorch 1.4.1, examples/arm/
executor_runner and backends/arm/test/runner_utils.py): `executor_runner -m program.pte -o out -i i0.bin ...` in a
folder; tensors raw, in the order of their dim_order; out-<i>.bin for every output; exit status 0. The device echoes
nothing, so each execution gets a folder and a boot of its own: what is in there afterwards, this execution wrote.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError, UsageError
from ethos_hil.base.files import NotAFile, opened
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.link.failure import KINDS
from ethos_hil.harness.link.outcome import Ended, Outcome, Progress, Run
from ethos_hil.harness.targets.base import MAX_COMMAND_LINE, Capability, Target
from ethos_hil.lowering.formats.pte_model import Tensor

# What upstream's tests take for a failure (runner_utils.py), and the places in it that say which kind it is.
_FAILURES = r"^[EF][: ].*$|^.*Hard fault.*$|^.*Assertion.*$"
_OWN_KIND = r"^E \[executorch:(\w+)[\] ]"
# arm_perf_monitor.cpp and arm_executor_runner.cpp; the former's format puts a stray sign between colon and number.
# A runner may write anything. So a number has at most 15 digits, and blanks are matched once (`*+`): else a line of
# them would take minutes.
_NUMBER = r"([0-9]{1,15})(?![0-9])"
_CYCLES = rf"\bethosu_pmu_cycle_cntr\s*+:\s*+%?\s*+{_NUMBER}"
_INFERENCES = rf"\bNPU Inferences\s*+:\s*+{_NUMBER}"
_MEMORY = {
    "planned_bytes": rf"\bmethod_allocator_planned:\s*+{_NUMBER} bytes",
    # Only our own firmware logs these.
    "fast_scratch_bytes": rf"\bfast_scratch:\s*+{_NUMBER}",
    "sram_used": rf"\bsram_pool_used:\s*+{_NUMBER}",
    "ddr_used": rf"\bddr_pool_used:\s*+{_NUMBER}",
    "stack_size": rf"\bstack_used:\s*+[0-9]++ / {_NUMBER}",
}
_STACK = rf"\bstack_used:\s*+{_NUMBER}"
TELLING = re.compile("|".join((_FAILURES, _CYCLES, _INFERENCES, *_MEMORY.values(), _STACK)), re.MULTILINE)
"""Found in every line of a runner's console that is read here. A target that shortens the console keeps them."""
_QUOTED = 3
_CLOCK_SLACK = 0.05
"""Seconds by which a file system's clock may lag behind ours (a tick of the kernel is at most 10 ms)."""


@dataclass(frozen=True)
class RunnerJob:
    """The work of a runner.

    Attributes:
        program: the .pte.
        input_sets: the raw bytes of each tensor, for each input set.
        outputs: the program's outputs.
        repeat: executions of each input set.
    """

    program: bytes
    input_sets: Sequence[Sequence[bytes]]
    outputs: Sequence[Tensor]
    repeat: int = 1


def command_line(inputs: int) -> str:
    """Return the runner's arguments, as upstream's tests write them.

    Raises:
        UsageError: they are longer than what FVPs pass on.
    """
    text = "executor_runner -m program.pte -o out" + "".join(f" -i i{index}.bin" for index in range(inputs))
    if len(text) > MAX_COMMAND_LINE:
        raise UsageError(
            f"{inputs} inputs make a command line of {len(text)} characters; a runner is told at most "
            f"{MAX_COMMAND_LINE}",
            hint="leave out --runner: a packed image has no such limit",
        )
    return text


def run_program(
    board: Target, elf: bytes, job: RunnerJob, *, timeout: float, progress: Progress | None = None
) -> Outcome:
    """Execute a job, one boot for each execution.

    Args:
        board: a target with Capability.SEMIHOSTING.
        elf: the runner.
        job: the work.
        timeout: wall seconds for all of it.
        progress: called after every execution.

    Raises:
        UsageError: too many inputs for a command line.
        TargetError: an execution failed. Beyond the kinds of `Target.boot`: "fault" or what our own runner names,
            for an error that the runner reports; "missing-output", "damaged-output" (a file of the wrong size), and
            "stale-output" (a file that is older than the execution).
        TargetNotAvailable: the target cannot be started, or has no semihosting.
    """
    deadline = Deadline(timeout)
    started = time.perf_counter()
    runs: list[Run] = []
    console: list[str] = []
    memory: dict[str, int] = {}
    notes: dict[str, None] = {}
    planned = len(job.input_sets) * job.repeat
    for number, inputs in enumerate(job.input_sets):
        for repeat in range(job.repeat):
            try:
                outputs, ended = _execute(board, elf, job, inputs, deadline)
            except TargetError as error:
                where = f"input set {number}, repeat {repeat}: " if planned > 1 else ""
                message, heard = f"{where}{error.message}", (*console, *error.console)
                raise error.replace(message=message, console=heard) from error.__cause__
            console += ended.console
            notes |= dict.fromkeys(ended.notes)
            text = "\n".join(ended.console)
            memory |= {name: int(match[1]) for name, where in _MEMORY.items() if (match := re.search(where, text))}
            stack = re.search(_STACK, text)
            used = 0 if stack is None else int(stack[1])
            counted = _cycles(text) if Capability.NPU_CYCLES in board.capabilities() else None
            runs.append(Run(number, repeat, outputs, (), stack_used=used, counted=counted))
            if progress is not None:
                progress(len(runs), planned)
    return Outcome(
        run_id=b"", image_hash=b"", program_hash=b"", npu_id=0, npu_config=0, memory=memory, runs=tuple(runs),
        console=tuple(console), seconds={"total": time.perf_counter() - started}, notes=tuple(notes),
    )  # fmt: skip


def _execute(
    board: Target, elf: bytes, job: RunnerJob, inputs: Sequence[bytes], deadline: Deadline
) -> tuple[tuple[np.ndarray, ...], Ended]:
    with tempfile.TemporaryDirectory(prefix="ethos-hil-runner-") as name:
        folder = Path(name)
        (folder / "program.pte").write_bytes(job.program)
        for index, data in enumerate(inputs):
            (folder / f"i{index}.bin").write_bytes(data)
        before = time.time()
        ended = board.boot(elf, command_line(len(inputs)), folder, timeout=deadline.remaining)
        try:
            _check(ended)
            return tuple(_output(folder, index, tensor, before) for index, tensor in enumerate(job.outputs)), ended
        except TargetError as error:
            raise error.replace(console=ended.console) from error.__cause__


def _check(ended: Ended) -> None:
    """Check the console and the exit status. Raises TargetError when one of them reports a failure."""
    failures = re.findall(_FAILURES, "\n".join(ended.console), re.MULTILINE)
    status = f" (exit status {ended.status})" if ended.status else ""
    if failures:
        named = re.match(_OWN_KIND, failures[0])
        kind = KINDS.get(named[1]) if named is not None else None
        more = f" (and {len(failures) - _QUOTED} more lines)" if len(failures) > _QUOTED else ""
        text = " | ".join(line.strip() for line in failures[:_QUOTED])
        raise TargetError(f"the runner reports: {text}{more}{status}", kind=kind)
    if ended.status:
        last = next((line for line in reversed(ended.console) if line.strip()), "nothing")
        raise TargetError(
            f"the runner exited with status {ended.status}",
            kind=FailureKind.FAULT,
            hint=f"it said last: {last.strip()}",
        )


def _output(folder: Path, index: int, tensor: Tensor, before: float) -> np.ndarray:
    path = folder / f"out-{index}.bin"
    try:
        with opened(path) as file:
            status = os.fstat(file.fileno())
            # One byte more than is right shows that there are too many, however many there are.
            data, changed = file.read(tensor.nbytes + 1), status.st_mtime
    except NotAFile as error:
        raise TargetError(
            f"the runner left no file {path.name}: {error.strerror}", kind=FailureKind.DAMAGED_OUTPUT
        ) from error
    except OSError as error:
        raise TargetError(
            f"the runner ended well but left no {path.name}: {error.strerror}",
            kind=FailureKind.MISSING_OUTPUT,
            hint="was it built with SEMIHOSTING, for this board?",
        ) from error
    if changed < before - _CLOCK_SLACK:
        raise TargetError(
            f"{path.name} is older than the execution that should have written it", kind=FailureKind.STALE_OUTPUT
        )
    if len(data) != tensor.nbytes:
        raise TargetError(
            f"{path.name} has {status.st_size} bytes; output {index} is {tensor}, {tensor.nbytes} bytes",
            kind=FailureKind.DAMAGED_OUTPUT,
        )
    return np.ascontiguousarray(tensor.from_bytes(data)).reshape(tensor.sizes)


def _cycles(console: str) -> int | None:
    """Return the NPU cycles of one inference, or None where the runner logs none."""
    cycles, inferences = re.search(_CYCLES, console), re.search(_INFERENCES, console)
    if cycles is None:
        return None
    count = int(inferences[1]) if inferences is not None else 1
    return int(cycles[1]) // max(count, 1)
