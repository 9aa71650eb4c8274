"""A mismatch names the operation it begins at: programs, models of the NPU and targets are broken on purpose here."""

from __future__ import annotations

import dataclasses
import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from ethos_hil.base.console import console
from ethos_hil.base.errors import OracleError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.record import Divergence, Record
from ethos_hil.harness.link.outcome import DelegateRun, Outcome, Progress, Run
from ethos_hil.harness.npu.compute.convolution import ConvolutionStep
from ethos_hil.harness.npu.isa.feature_map import RegionMemory
from ethos_hil.harness.run import run_artifact
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.verdict import findings as diagnosis
from ethos_hil.lowering.artifact import Artifact, NpuOp
from ethos_hil.lowering.formats.pte_model import KernelCall
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import TorchModel, from_module
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.results.text.record import summary

NPU = EthosU.parse("ethos-u55-128")
OFM_ZERO_POINT = 0x118
FLIPPED = 0x40  # a bit whose change survives the layers behind


class FiveLayers(nn.Module):
    """Five convolutions, each of a different shape; the third without activation."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(3, 8, 3, padding=1)
        self.b = nn.Conv2d(8, 16, 3, stride=2)
        self.c = nn.Conv2d(16, 24, 1)
        self.d = nn.Conv2d(24, 24, 3, groups=24)
        self.e = nn.Conv2d(24, 7, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [1, 3, 15, 15] to [1, 7, 5, 5]."""
        x = self.a(x).relu()  # @a
        x = self.b(x).relu()  # @b
        x = self.c(x)  # @c
        x = self.d(x).relu()  # @d
        return self.e(x)  # @e


class Halves(nn.Module):
    """An average pool that stays on the CPU splits the network in two delegates."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.Conv2d(3, 8, 3)
        self.pool = nn.AvgPool2d(8)
        self.after = nn.Conv2d(8, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map [1, 3, 34, 34] to [1, 4, 4, 4]."""
        return self.after(self.pool(self.before(x)))  # @halves


def marked(name: str) -> str:
    """Return the line of this file that ends with the marker, in the form of an operation's source."""
    path = Path(__file__)
    lines = path.read_text("utf-8").splitlines()
    return f"{path.name}:{next(number for number, line in enumerate(lines, 1) if line.endswith(f'# @{name}'))}"


def lowered(module: nn.Module, *shape: int) -> Artifact:
    torch.manual_seed(1)
    for parameter in module.parameters():
        nn.init.uniform_(parameter, -0.5, 0.5)
    example = (torch.randn(shape),)
    return lower(from_module(module.eval(), example, [(torch.randn(shape),), example], root=Path(__file__).parent), NPU)


@pytest.fixture(scope="module")
def five() -> Artifact:
    return lowered(FiveLayers(), 1, 3, 15, 15)


@pytest.fixture(scope="module")
def halves() -> Artifact:
    return lowered(Halves(), 1, 3, 34, 34)


def failed(artifact: Artifact, board: VirtualTarget | None = None, *, repeat: int = 1) -> Divergence:
    """Return the divergence of a run that must fail, and whose record must survive JSON."""
    record = run_artifact(artifact, board or VirtualTarget(str(NPU)), Question("broken", repeat=repeat)).record
    assert record.verdict == "failed"
    assert record.failure is not None
    assert record.failure.kind == "mismatch"
    assert record.divergence is not None
    assert Record.from_json(json.loads(record.dumps())) == record
    return record.divergence


def row(artifact: Artifact, line: str) -> NpuOp:
    """Return the operation that computes the convolution of a marked line."""
    (result,) = [op for op in artifact.npu_ops if op.source == marked(line) and "Conv2D" in op.npu_op]
    return result


def with_register(artifact: Artifact, op: NpuOp, register: int, change: int) -> Artifact:
    """Return the artifact with the value of a register changed in the program, before `op` starts."""
    (delegate,) = artifact.delegates
    begin = max((other.end_offset for other in delegate.npu_ops if other.end_offset < op.end_offset), default=0)
    start = delegate.vela.index(delegate.blob.command_stream)
    places = [
        start + at
        for at in range(begin, op.end_offset, 4)
        if struct.unpack_from("<I", delegate.vela, start + at)[0] & 0xFFFF == register
    ]
    assert len(places) == 1
    blob = bytearray(delegate.vela)
    (word,) = struct.unpack_from("<I", blob, places[0])
    struct.pack_into("<I", blob, places[0], (word + (change << 16)) & 0xFFFFFFFF)
    return dataclasses.replace(artifact, pte=artifact.pte.replace(delegate.vela, bytes(blob)))


def test_an_operation_that_is_broken_in_the_program_is_named(five: Artifact) -> None:
    """The third of five layers gets another zero point in the command stream."""
    op = row(five, "c")
    result = failed(with_register(five, op, OFM_ZERO_POINT, 1))
    assert (result.place, result.found_by, result.op) == ("npu-op", "replay", op.id)
    assert (result.source, result.module, result.tensor) == (marked("c"), "c", op.tensor)
    assert (result.npu_op, result.tosa_op, result.aten_ops) == ("Conv2D", "CONV2D", ("aten.conv2d.default",))
    assert (result.shape, result.dtype) == ((1, 7, 7, 24), "INT8")
    assert result.expected is not None
    assert result.found == result.expected + 1
    assert result.index == (0, 0, 0, 0)
    assert result.reproduced
    assert "not the one that the compiler made" in result.message


def breaking(monkeypatch: pytest.MonkeyPatch, op: NpuOp, index: tuple[int, int, int]) -> None:
    """Make the functional NPU, wherever it is used, flip a bit of one element of the result of `op`."""
    right = ConvolutionStep.run

    def wrong(self: ConvolutionStep, memory: RegionMemory) -> None:
        right(self, memory)
        ofm = self.op.ofm
        if self.op.offset == op.end_offset:
            values = np.array(ofm.load(memory))
            values[index] ^= FLIPPED
            ofm.store(memory, values)

    monkeypatch.setattr(ConvolutionStep, "run", wrong)


@pytest.mark.parametrize("line", ["a", "b", "c", "d", "e"])
def test_an_operation_that_the_npu_computes_wrong_is_named(
    five: Artifact, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    """One bit of one element, in the middle of the tensor; in bricks or not, every layer."""
    op = row(five, line)
    breaking(monkeypatch, op, (2, 3, 5))
    result = failed(five)
    assert (result.place, result.op, result.source, result.tensor) == ("npu-op", op.id, marked(line), op.tensor)
    assert (result.index, result.mismatches) == ((0, 2, 3, 5), 1)
    assert result.expected is not None
    assert result.found == result.expected ^ FLIPPED


def test_the_second_delegate_is_judged_by_the_references_inputs(
    halves: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = halves.delegates
    (op,) = [op for op in second.npu_ops if "Conv2D" in op.npu_op]
    others = [op.end_offset for op in first.npu_ops]
    assert op.end_offset not in others
    breaking(monkeypatch, op, (1, 2, 3))
    result = failed(halves)
    assert (result.instruction, result.op, result.module) == (second.instruction, op.id, "after")


def test_what_vela_compiles_wrongly_is_named() -> None:
    """Vela 5.1 pads away rows of the first of two 1x1 convolutions with a look-up between them, with a batch of two.

    When this turns green, see suites/tests/test_stacks.py.
    """
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(2, 8, 1), nn.Hardswish(), nn.Conv2d(8, 24, 1)).eval()
    artifact = lower(from_module(module, (torch.randn(2, 2, 32, 6),)), NPU, as_upstream=True)
    result = failed(artifact)
    assert (result.place, result.found_by, result.npu_op, result.module) == ("npu-op", "replay", "Conv2D", "0")
    assert (result.tensor, result.reproduced) == ("tosa_table_default", True)
    assert result.op in {op.id for op in artifact.npu_ops}
    assert "not the one" not in result.message


class Corrupting(VirtualTarget):
    """A board whose answers are changed on their way."""

    def __init__(self, change: Callable[[Outcome], Outcome], kind: str = "virtual") -> None:
        super().__init__(str(NPU))
        self.change = change
        self.kind = kind

    def run(self, *, timeout: float, progress: Progress | None = None) -> Outcome:
        return self.change(super().run(timeout=timeout, progress=progress))


def delegate_output_changed(number: int, *, repeats: tuple[int, ...] = (0,)) -> Callable[[Outcome], Outcome]:
    def changed(run: Run) -> Run:
        if run.repeat not in repeats:
            return run
        calls = list(run.delegates)
        calls[number] = dataclasses.replace(calls[number], outputs=with_first_changed(calls[number].outputs))
        return dataclasses.replace(run, delegates=tuple(calls))

    return lambda outcome: dataclasses.replace(outcome, runs=tuple(map(changed, outcome.runs)))


def with_first_changed(outputs: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    first = outputs[0].copy()
    first.ravel()[0] = 7 if first.ravel()[0] != 7 else 8
    return first, *outputs[1:]


def test_a_target_that_differs_from_the_model_is_said_to(five: Artifact) -> None:
    result = failed(five, Corrupting(delegate_output_changed(0), kind="board"))
    assert (result.place, result.op, result.tensor, result.index, result.reproduced) == (
        "delegate",
        "",
        "",
        None,
        False,
    )
    assert result.instruction == five.delegates[0].instruction
    assert "the target differs from the model" in result.message


def test_the_compiler_is_blamed_where_target_and_model_agree(five: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    """A board that answers as the functional NPU is cleared. The virtual board's NPU is that one."""
    breaking(monkeypatch, row(five, "c"), (2, 3, 5))
    blamed = "so the compiler or the model of the NPU{} is at fault"
    assert blamed.format("") in failed(five).message
    board = Corrupting(lambda outcome: outcome, kind="board")
    assert blamed.format(", not the target,") in failed(five, board).message


def test_a_virtual_board_with_a_right_npu_is_suspected_before_or_after_it(halves: Artifact) -> None:
    result = failed(halves, Corrupting(delegate_output_changed(1)))
    assert (result.place, result.instruction) == ("delegate", halves.delegates[1].instruction)
    assert "other inputs" in result.message
    assert "avg_pool2d" in result.message


def test_right_delegates_leave_the_operators_after_them(five: Artifact) -> None:
    def change(outcome: Outcome) -> Outcome:
        (only,) = outcome.runs
        return dataclasses.replace(outcome, runs=(dataclasses.replace(only, outputs=with_first_changed(only.outputs)),))

    result = failed(five, Corrupting(change))
    assert result.place == "cpu"
    assert "dequantize_per_tensor" in result.message


class OnCpu(nn.Module):
    """Six operators, and a second output: for a program of the CPU, or a delegate of two outputs."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Map [1, 4] to two of [1, 4]."""
        return torch.exp(torch.tanh(torch.sin(torch.cos(x)))), torch.neg(torch.abs(x))


def divergence_of(artifact: Artifact, change: Callable[[Run], Run]) -> Divergence:
    """What is said of a target that answers as the reference, with a change."""
    reference = Reference(artifact).run(artifact.example_inputs)
    calls = [DelegateRun(at, 0, 0, (), outputs) for at, outputs in reference.delegate_outputs.items()]
    run = change(Run(0, 0, reference.outputs, tuple(calls)))
    outcome = Outcome(b"", b"", b"", 0, 0, {}, (run,), (), {})
    return diagnosis.localise(artifact, VirtualTarget(str(NPU)), [reference], outcome)


@pytest.mark.parametrize("wrong", [0, 1])
def test_any_of_a_delegates_outputs_may_be_the_wrong_one(wrong: int) -> None:
    artifact = lower(from_module(OnCpu(), (torch.tensor([[0.1, 0.2, 0.3, 0.4]]),)), NPU)
    (delegate,) = artifact.delegates

    def change(run: Run) -> Run:
        (call,) = run.delegates
        assert len(call.outputs) == 2
        outputs = list(call.outputs)
        (outputs[wrong],) = with_first_changed((outputs[wrong],))
        return dataclasses.replace(run, delegates=(dataclasses.replace(call, outputs=tuple(outputs)),))

    result = divergence_of(artifact, change)
    assert (result.place, result.instruction) == ("delegate", delegate.instruction)
    assert "by the CPU operators before it (" in result.message
    foreign = dataclasses.replace(artifact, delegates=(dataclasses.replace(delegate, tosa=None),))
    reference = Reference(artifact).run(artifact.example_inputs)
    calls = (DelegateRun(delegate.instruction, 0, 0, (), reference.delegate_outputs[delegate.instruction]),)
    outcome = Outcome(b"", b"", b"", 0, 0, {}, (change(Run(0, 0, reference.outputs, calls)),), (), {})
    text = "could not localise: OracleError: the delegate has no TOSA program"
    assert diagnosis.localise(foreign, VirtualTarget(str(NPU)), [reference], outcome) == Divergence("unknown", text)
    lost = divergence_of(artifact, lambda run: dataclasses.replace(
        run, delegates=(dataclasses.replace(run.delegates[0], outputs=run.delegates[0].outputs[:1]),)
    ))  # fmt: skip
    assert (lost.place, lost.instruction) == ("delegate", delegate.instruction), "one output of two came"


def test_a_target_and_a_model_that_are_wrong_in_different_ways(five: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    op = row(five, "d")
    breaking(monkeypatch, op, (0, 0, 3))
    result = failed(five, Corrupting(delegate_output_changed(0)))
    assert (result.place, result.op, result.reproduced) == ("npu-op", op.id, False)
    assert "wrong as well" in result.message


def test_a_diagnosis_that_fails_leaves_the_verdict(five: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise OracleError("tosa_reference_model has gone")

    broken = with_register(five, row(five, "c"), OFM_ZERO_POINT, 1)
    monkeypatch.setattr(diagnosis, "tensor_values", missing)
    result = failed(broken)
    assert result == Divergence("unknown", "could not localise: OracleError: tosa_reference_model has gone")


def test_an_interruption_of_the_diagnosis_is_one(five: Artifact, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise RuntimeError("wrapped") from KeyboardInterrupt()

    monkeypatch.setattr(diagnosis, "tensor_values", interrupted)
    with pytest.raises(KeyboardInterrupt):
        failed(five, Corrupting(delegate_output_changed(0)))


def test_a_program_that_names_no_npu_is_examined_on_the_targets(
    five: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    op = row(five, "c")
    breaking(monkeypatch, op, (2, 3, 5))
    assert failed(dataclasses.replace(five, npu=None)).op == op.id


def test_executions_that_were_right_are_counted(five: Artifact) -> None:
    once = Corrupting(delegate_output_changed(0, repeats=(1,)), kind="board")
    assert ": 1 other execution of it answered right, and" in failed(five, once, repeat=2).message
    board = Corrupting(delegate_output_changed(0, repeats=(1,)), kind="board")
    assert "2 other executions of it answered right" in failed(five, board, repeat=3).message


def outputs_changed(run: Run) -> Run:
    return dataclasses.replace(run, outputs=with_first_changed(run.outputs))


class FourOnCpu(OnCpu):
    """As many operators as are named in a sentence."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Map [1, 4] to two of [1, 4]."""
        return torch.exp(torch.tanh(torch.sin(x))), torch.abs(x)


@pytest.mark.parametrize(("module", "more"), [(OnCpu(), " and 2 more"), (FourOnCpu(), "")])
def test_a_program_without_delegates_leaves_its_operators_of_which_four_are_named(module: nn.Module, more: str) -> None:
    method = from_module(module, (torch.tensor([[0.1, 0.2, 0.3, 0.4]]),)).methods["forward"]
    artifact = lower(TorchModel("cpu", {"forward": dataclasses.replace(method, on_cpu=True)}), NPU)
    names = [call.operator for call in artifact.plan.instructions if isinstance(call, KernelCall)]
    assert divergence_of(artifact, outputs_changed) == Divergence(
        "cpu",
        "nothing is delegated, but the program's outputs are not: what is wrong comes from the CPU operators after "
        f"them: {', '.join(names[:4])}{more}",
    )


def test_a_runner_that_shows_no_delegates_outputs_says_so(halves: Artifact) -> None:
    result = divergence_of(halves, lambda run: dataclasses.replace(outputs_changed(run), delegates=()))
    text = "a runner shows no delegate's outputs; without --runner, delegates are looked into"
    assert result == Divergence("unknown", text)


def test_a_target_that_answers_as_the_reference_has_no_place(halves: Artifact) -> None:
    text = "could not localise: no output that the target sent differs from its reference"
    assert divergence_of(halves, lambda run: run) == Divergence("unknown", text)


def test_operations_before_it_that_could_not_be_compared_are_named_too(five: Artifact) -> None:
    op = row(five, "c")
    broken = with_register(five, op, OFM_ZERO_POINT, 1)
    (delegate,) = broken.delegates
    rows = tuple(dataclasses.replace(other, tensor="#7") if other is op else other for other in delegate.npu_ops)
    result = failed(dataclasses.replace(broken, delegates=(dataclasses.replace(delegate, npu_ops=rows),)))
    assert result.op == row(five, "d").id
    assert f"what {op.id} before it made could not be compared" in result.message


def test_several_operations_that_could_not_be_compared_are_named_from_first_to_last(five: Artifact) -> None:
    op = row(five, "c")
    broken = with_register(five, op, OFM_ZERO_POINT, 1)
    (delegate,) = broken.delegates
    at = delegate.npu_ops.index(op)
    assert at >= 2
    rows = tuple(
        dataclasses.replace(other, tensor="#7") if at - 1 <= number <= at else other
        for number, other in enumerate(delegate.npu_ops)
    )
    result = failed(dataclasses.replace(broken, delegates=(dataclasses.replace(delegate, npu_ops=rows),)))
    assert result.op == row(five, "d").id
    assert f"what {rows[at - 1].id} to {op.id} before it made could not be compared" in result.message


def test_people_read_it_in_one_paragraph(five: Artifact) -> None:
    broken = with_register(five, row(five, "c"), OFM_ZERO_POINT, 1)
    record = run_artifact(broken, VirtualTarget(str(NPU)), Question("broken")).record
    screen = console()
    with screen.capture() as captured:
        screen.print(summary(record))
    text = " ".join(captured.get().split())
    op = row(five, "c")
    assert f"divergence {op.id} Conv2D (conv2d.default) of module c at {marked('c')} is the first operation" in text
    assert f"tensor {op.tensor} INT8[1, 7, 7, 24]" in text
    assert "first at index [0, 0, 0, 0]: expected" in text


def test_a_verified_run_has_none(five: Artifact) -> None:
    record = run_artifact(five, VirtualTarget(str(NPU)), Question("five")).record
    assert (record.verdict, record.divergence) == ("verified", None)
