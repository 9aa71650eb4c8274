"""The contract of a target as tests of one target: the promises of `Target`, `Capability` and `TargetOption`.

Any target can be tested, also one of another distribution. A test file names it:

    from ethos_hil.harness.targets.contract import TargetContract


    class TestMyBoard(TargetContract):
        target = "my-board"
        npu = "ethos-u55-128"

It needs pytest and less than a minute. Two tiny models are lowered for the NPU, run on the target, and compared with
tosa_reference_model.
"""

from __future__ import annotations

import dataclasses
import functools
import io
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from ethos_hil.base.errors import StateError, TargetError, TargetNotAvailable
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.pack import Image, RunPlan, pack
from ethos_hil.harness.image.segments import segments
from ethos_hil.harness.link.outcome import Ended, Outcome, Run
from ethos_hil.harness.targets.base import CYCLE_PROVENANCES, Capability, Target, TargetState
from ethos_hil.harness.targets.executor_runner import RunnerJob, run_program
from ethos_hil.harness.targets.plugin import TargetOption
from ethos_hil.harness.targets.registry import find_plugin, make_target
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import TorchModel, from_module
from ethos_hil.lowering.oracle.reference import Reference, ReferenceRun
from ethos_hil.lowering.vela.memory_mode import MemoryMode

_BRANCH_TO_ITSELF = b"\xfe\xe7"


@dataclasses.dataclass(frozen=True)
class ContractProgram:
    """A lowered model with input sets, and the reference's answer to each."""

    artifact: Artifact
    input_sets: tuple[tuple[np.ndarray, ...], ...]
    references: tuple[ReferenceRun, ...]

    @property
    def packed_inputs(self) -> list[list[bytes]]:
        """The input sets as bytes."""
        tensors = self.artifact.plan.input_tensors
        return [[tensor.to_bytes(value) for tensor, value in zip(tensors, input_set, strict=True)]
                for input_set in self.input_sets]  # fmt: skip

    def image(self, soc: str, *, repeat: int = 1) -> Image:
        """All of it as an image for a system on chip."""
        plan = RunPlan(len(self.input_sets), len(self.artifact.plan.input_tensors), repeat)
        return pack(find_firmware(soc), self.artifact.pte, self.packed_inputs, plan)

    def check(self, run: Run, *, delegates: bool = True) -> None:
        """Raises AssertionError: an answer differs from the reference's."""
        reference = self.references[run.input_set]
        _equal(run.outputs, reference.outputs, f"outputs for input set {run.input_set}")
        for call in run.delegates if delegates else ():
            expected = reference.delegate_outputs[call.instruction]
            _equal(call.outputs, expected, f"outputs of the delegate call {call.instruction}")


@functools.cache
def contract_programs(npu: str) -> tuple[ContractProgram, ContractProgram]:
    """The two programs for an NPU, with two input sets each: a sum of two inputs, and two convolutions."""
    programs = []
    for model in (_sum(), _convolutions()):
        artifact = lower(model, EthosU.parse(npu), memory_mode=MemoryMode.parse("Shared_Sram"))
        example = tuple(artifact.example_inputs)
        other = tuple(np.flip(value).copy() for value in example)
        reference = Reference(artifact)
        input_sets = (example, other)
        programs.append(ContractProgram(artifact, input_sets, tuple(reference.run(case) for case in input_sets)))
    return programs[0], programs[1]


def _sum() -> TorchModel:
    import torch

    class Sum(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    torch.manual_seed(0)
    return from_module(Sum(), (torch.randn(1, 4, 4, 3), torch.randn(1, 4, 4, 3)), label="sum")


def _convolutions() -> TorchModel:
    import torch

    torch.manual_seed(0)
    layers = (torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 4, 3))
    return from_module(torch.nn.Sequential(*layers).eval(), (torch.randn(1, 3, 8, 8),), label="convolutions")


def endless(image: Image) -> Image:
    """The image, with a loop in place of the firmware's first instruction."""
    elf = bytearray(image.elf)
    entry = int.from_bytes(elf[24:28], "little") & ~1  # e_entry of ELF32, a Thumb address
    for segment in segments(io.BytesIO(image.elf)):
        if segment.address <= entry < segment.address + segment.file_size:
            at = segment.offset + entry - segment.address
            elf[at : at + 2] = _BRANCH_TO_ITSELF
            return dataclasses.replace(image, elf=bytes(elf))
    raise ValueError(f"no segment holds the entry point 0x{entry:08x}")


def _equal(outputs: Sequence[np.ndarray], expected: Sequence[np.ndarray], what: str) -> None:
    assert len(outputs) == len(expected), f"{len(outputs)} {what}, expected {len(expected)}"
    for index, (output, right) in enumerate(zip(outputs, expected, strict=True)):
        np.testing.assert_array_equal(output, right, err_msg=f"{what}: number {index}", strict=True)


_ENDS_SECONDS = 10.0
"""For processes to be gone after a run."""


class TargetContract:
    """Subclass it, give the class a name that starts with Test, and set `target` and `npu`.

    Attributes:
        target: the name that the target is registered under.
        npu: the NPU to test it with, by name.
        fast: whether `--fast` is asked of it.
        timeout: wall seconds that a run of a tiny program may take.
        patience: wall seconds after which a program that never ends is given up.
    """

    target: ClassVar[str]
    npu: ClassVar[str]
    fast: ClassVar[bool] = False
    timeout: ClassVar[float] = 60.0
    patience: ClassVar[float] = 2.0

    def make(self) -> Target:
        """A new target, as users get it. Override it to test one that is made otherwise."""
        return make_target(self.target, EthosU.parse(self.npu), fast=self.fast)

    # --- What the tests share. ---

    @pytest.fixture(scope="class")
    @classmethod
    def surroundings(cls, tmp_path_factory: pytest.TempPathFactory) -> object:
        """Override it where something must be there before a target can be made, such as a variable."""

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _first_runs(cls, surroundings: None) -> None:
        """What lives as long as this process, such as workers of the NPU model, is started by the first runs."""
        board = cls().make()
        for program in contract_programs(cls.npu):
            board.load(program.image(board.soc))
            board.run(timeout=cls.timeout)

    @pytest.fixture(autouse=True)
    def _nothing_left_behind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """No test leaves a process, a temporary file or a descriptor behind."""
        temporary = tmp_path / "temporary"
        temporary.mkdir()
        monkeypatch.setenv("TMPDIR", str(temporary))
        monkeypatch.setattr(tempfile, "tempdir", None)
        descriptors, processes = _descriptors(), _processes(temporary)
        yield
        deadline = time.monotonic() + _ENDS_SECONDS
        while _processes(temporary) - processes and time.monotonic() < deadline:
            time.sleep(0.05)
        left = _processes(temporary) - processes
        assert not left, f"processes that are still there: {sorted(left)}"
        assert not list(temporary.iterdir()), f"temporary files that are still there: {list(temporary.iterdir())}"
        assert _descriptors() <= descriptors, "a file, pipe or socket is still open"

    @pytest.fixture
    def board(self) -> Iterator[Target]:
        """A new target; it is idle after every test."""
        board = self.make()
        yield board
        assert board.state is TargetState.IDLE, f"after the test it is {board.state}"

    @pytest.fixture
    def programs(self) -> tuple[ContractProgram, ContractProgram]:
        """Two programs for its NPU."""
        return contract_programs(self.npu)

    def run(self, board: Target, image: Image) -> Outcome:
        """Load and run an image."""
        board.load(image)
        return board.run(timeout=self.timeout)

    # --- What it is. ---

    def test_it_is_what_its_plugin_says(self, board: Target) -> None:
        plugin = find_plugin(self.target)
        assert plugin.find(EthosU.parse(self.npu)) is None, "its plug-in says that something is missing"
        assert (board.kind, board.npu) == (plugin.kind, self.npu)
        assert board.name
        assert board.soc in plugin.socs, f"{board.soc} is not among {plugin.socs}"
        assert board.npu in plugin.npus, f"{board.npu} is not among {plugin.npus}"
        assert board.cycle_provenance in CYCLE_PROVENANCES, board.cycle_provenance

    def test_its_capabilities_fit_together(self, board: Target) -> None:
        able, honoured = board.capabilities(), find_plugin(self.target).options
        assert isinstance(able, frozenset)
        assert all(isinstance(capability, Capability) for capability in able), able
        assert Capability.NPU_CYCLES in able or Capability.OP_EVENTS not in able, "operations without cycles"
        assert (Capability.STAYS_UP in able) == (TargetOption.POOL in honoured), "what stays up takes a pool"
        assert TargetOption.FAST in honoured or not self.fast
        assert not (self.fast and Capability.NPU_CYCLES in able), "without timing there are no cycles"

    # --- A run that goes well. ---

    def test_answers_of_the_whole_plan_equal_the_reference(
        self, board: Target, programs: Sequence[ContractProgram]
    ) -> None:
        program = programs[1]
        image = program.image(board.soc, repeat=2)
        log: list[tuple[int, int]] = []
        board.load(image)
        outcome = board.run(timeout=self.timeout, progress=lambda done, planned: log.append((done, planned)))
        sets = len(program.input_sets)
        assert [(run.input_set, run.repeat) for run in outcome.runs] == [(s, r) for s in range(sets) for r in range(2)]
        assert log == [(done, 2 * sets) for done in range(1, 2 * sets + 1)], "progress is told after every execution"
        for run in outcome.runs:
            program.check(run)
            assert len(run.delegates) == len(program.artifact.plan.delegates)
        echoed = (outcome.run_id, outcome.image_hash, outcome.program_hash)
        assert echoed == (image.run_id, image.image_hash, image.program_hash), "the device echoes what it ran"
        assert 0 < outcome.seconds["launch"] <= outcome.seconds["total"]
        _check_console(outcome.console)

    def test_cycles_and_operations_are_there_if_and_only_if_they_are_claimed(
        self, board: Target, programs: Sequence[ContractProgram]
    ) -> None:
        able = board.capabilities()
        program = programs[1]
        for run in self.run(board, program.image(board.soc)).runs:
            for call in run.delegates:
                assert (call.cycles > 0) == (Capability.NPU_CYCLES in able), f"{call.cycles} cycles"
                assert bool(call.op_events) == (Capability.OP_EVENTS in able), f"{len(call.op_events)} operations"
                if Capability.OP_EVENTS in able:
                    assert sum(event.cycles for event in call.op_events) == call.cycles
                    offsets = [event.offset for event in call.op_events]
                    assert offsets == sorted(offsets), "operations are told in the order of the stream"

    def test_one_run_knows_nothing_of_another(self, board: Target, programs: Sequence[ContractProgram]) -> None:
        first, second = programs
        outcomes = [self.run(board, program.image(board.soc)) for program in (second, first, second)]
        for program, outcome in zip((second, first, second), outcomes, strict=True):
            for run in outcome.runs:
                program.check(run)
        again = self.run(self.make(), second.image(board.soc))
        assert [run.cycles for run in again.runs] == [run.cycles for run in outcomes[0].runs] == [
            run.cycles for run in outcomes[2].runs
        ]  # fmt: skip

    # --- States. ---

    def test_methods_are_refused_in_a_state_they_are_not_for(
        self, board: Target, programs: Sequence[ContractProgram], tmp_path: Path
    ) -> None:
        image = programs[0].image(board.soc)
        assert board.state.value == "idle"
        with pytest.raises(StateError, match=r"run .*state idle"):
            board.run(timeout=self.timeout)
        board.load(image)
        assert board.state.value == "loaded"
        with pytest.raises(StateError, match=r"load .*state loaded"):
            board.load(image)
        with pytest.raises(StateError, match=r"boot .*state loaded"):
            board.boot(b"", "", tmp_path, timeout=self.timeout)
        during: list[TargetState] = []

        def in_mid_run(done: int, planned: int) -> None:
            during.append(board.state)
            for wrong in (lambda: board.load(image), lambda: board.run(timeout=1)):
                with pytest.raises(StateError, match="state running"):
                    wrong()

        # A refused call changes nothing: the image is still there.
        programs[0].check(board.run(timeout=self.timeout, progress=in_mid_run).runs[0])
        assert during == [TargetState.RUNNING] * len(programs[0].input_sets)
        with pytest.raises(StateError, match=r"run .*state idle"):
            board.run(timeout=self.timeout)

    def test_reset_may_be_called_in_any_state(self, board: Target, programs: Sequence[ContractProgram]) -> None:
        board.reset()
        board.load(programs[0].image(board.soc))
        board.reset()
        board.reset()
        with pytest.raises(StateError, match="state idle"):
            board.run(timeout=self.timeout)

        class Enough(Exception):
            pass

        def stop(done: int, planned: int) -> None:
            board.reset()
            raise Enough

        board.load(programs[0].image(board.soc))
        with pytest.raises(Enough):
            board.run(timeout=self.timeout, progress=stop)
        assert board.state is TargetState.IDLE
        programs[0].check(self.run(board, programs[0].image(board.soc)).runs[0])

    def test_an_interrupt_is_passed_on_and_leaves_it_idle(
        self, board: Target, programs: Sequence[ContractProgram]
    ) -> None:
        def interrupt(done: int, planned: int) -> None:
            raise KeyboardInterrupt

        board.load(programs[0].image(board.soc))
        with pytest.raises(KeyboardInterrupt):
            board.run(timeout=self.timeout, progress=interrupt)
        assert board.state is TargetState.IDLE

    # --- A run that goes wrong. ---

    def test_an_answer_to_another_run_is_stale(self, board: Target, programs: Sequence[ContractProgram]) -> None:
        older, newer = programs[0].image(board.soc), programs[0].image(board.soc)
        self.fails(board, dataclasses.replace(newer, elf=older.elf), FailureKind.STALE_OUTPUT)

    def test_an_answer_of_another_program_is_wrong(self, board: Target, programs: Sequence[ContractProgram]) -> None:
        asked, other = (program.image(board.soc) for program in programs)
        image = dataclasses.replace(other, program_hash=asked.program_hash)
        self.fails(board, image, FailureKind.WRONG_PROGRAM)

    def test_a_byte_that_is_damaged_on_the_way_to_the_device_is_noticed(
        self, board: Target, programs: Sequence[ContractProgram]
    ) -> None:
        image = programs[0].image(board.soc)
        damaged = bytearray(image.elf)
        damaged[image.elf.rindex(programs[0].artifact.pte) + len(programs[0].artifact.pte) // 2] ^= 1
        self.fails(board, dataclasses.replace(image, elf=bytes(damaged)), FailureKind.LINK)

    def test_a_program_that_never_ends_is_a_timeout(self, board: Target, programs: Sequence[ContractProgram]) -> None:
        started = time.monotonic()
        self.fails(board, endless(programs[0].image(board.soc)), FailureKind.TIMEOUT, timeout=self.patience)
        assert time.monotonic() - started < self.patience + self.timeout
        programs[0].check(self.run(board, programs[0].image(board.soc)).runs[0])

    def fails(self, board: Target, image: Image, kind: FailureKind, timeout: float | None = None) -> None:
        """Run an image that must fail, in this way."""
        board.load(image)
        with pytest.raises(TargetError) as caught:
            board.run(timeout=timeout or self.timeout)
        assert caught.value.kind == kind, f"{caught.value.kind}: {caught.value.message}"
        assert board.state is TargetState.IDLE
        _check_console(caught.value.console)

    # --- Semihosting. ---

    def test_a_runner_answers_as_the_packed_image_does(
        self, board: Target, programs: Sequence[ContractProgram], tmp_path: Path
    ) -> None:
        """Our firmware is a runner as well: ExecuTorch's protocol, a boot for each execution."""
        program = programs[1]
        plan = program.artifact.plan
        job = RunnerJob(program.artifact.pte, program.packed_inputs, plan.output_tensors)
        elf = find_firmware(board.soc)
        if Capability.SEMIHOSTING not in board.capabilities():
            with pytest.raises(TargetNotAvailable):
                board.boot(elf, "executor_runner", tmp_path, timeout=self.timeout)
            return
        outcome = run_program(board, elf, job, timeout=self.timeout)
        packed = self.run(board, program.image(board.soc))
        for run, expected in zip(outcome.runs, packed.runs, strict=True):
            program.check(run, delegates=False)
            counted = expected.cycles if Capability.NPU_CYCLES in board.capabilities() else None
            assert run.counted == counted
        assert outcome.console, "what a runner logs is on its console"
        _check_console(outcome.console)

    def test_a_booted_program_that_never_ends_is_a_timeout(
        self, board: Target, programs: Sequence[ContractProgram], tmp_path: Path
    ) -> None:
        if Capability.SEMIHOSTING not in board.capabilities():
            return
        elf = endless(programs[0].image(board.soc)).elf
        with pytest.raises(TargetError) as caught:
            board.boot(elf, "endless", tmp_path, timeout=self.patience)
        assert caught.value.kind == FailureKind.TIMEOUT, caught.value.message
        assert board.state is TargetState.IDLE

    def test_a_booted_program_gets_its_command_line_and_gives_its_status(self, board: Target, tmp_path: Path) -> None:
        if Capability.SEMIHOSTING not in board.capabilities():
            return
        line = "executor_runner -m absent.pte -o out"
        ended = board.boot(find_firmware(board.soc), line, tmp_path, timeout=self.timeout)
        assert isinstance(ended, Ended)
        assert ended.status != 0, "the runner cannot open that file"
        assert any("absent.pte" in text for text in ended.console), ended.console
        _check_console(ended.console)


def _check_console(console: tuple[str, ...]) -> None:
    assert isinstance(console, tuple)
    assert not [line for line in console if not isinstance(line, str) or "\n" in line], "a console is lines"


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def _processes(folder: Path) -> set[int]:
    """Process ids of our descendants, and of all whose arguments name the folder of this test."""
    parents: dict[int, int] = {}
    pids: set[int] = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            command = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        number = int(entry.name)
        if state != "Z" or int(parent) == os.getpid():
            parents[number] = int(parent)
        if str(folder).encode() in command and number != os.getpid():
            pids.add(number)
    while more := {child for child, parent in parents.items() if parent in pids | {os.getpid()}} - pids:
        pids |= more
    return pids
