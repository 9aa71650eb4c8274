"""A mismatch names the operation it begins at: programs, models of the NPU and targets are broken on purpose here."""

from __future__ import annotations

import dataclasses
import json
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from ethos_hil.base.errors import OracleError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.record import Divergence, Record
from ethos_hil.base.testing.recorded import Recorded, shown
from ethos_hil.harness.link.outcome import DelegateRun, Outcome, Progress, Run
from ethos_hil.harness.npu.compute.convolution import ConvolutionStep
from ethos_hil.harness.npu.isa.feature_map import RegionMemory
from ethos_hil.harness.run import run_artifact
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.verdict import findings as diagnosis
from ethos_hil.lowering.artifact import Artifact, NpuOp
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import TorchModel, from_module
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.testing.function_module import keeping, module_of

NPU = EthosU.parse("ethos-u55-128")
OFM_ZERO_POINT = 0x118
FLIPPED = 0x40  # a bit whose change survives the layers behind


def five_layers(self: Any, x: torch.Tensor) -> torch.Tensor:
    """Map [1, 3, 15, 15] to [1, 7, 5, 5]: five convolutions of different shapes, the third without activation."""
    x = self.a(x).relu()  # @a
    x = self.b(x).relu()  # @b
    x = self.c(x)  # @c
    x = self.d(x).relu()  # @d
    return self.e(x)  # @e


def split(self: Any, x: torch.Tensor) -> torch.Tensor:
    """Map [1, 3, 34, 34] to [1, 4, 4, 4]: a pool that stays on the CPU splits the network in two delegates."""
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
    layers = {"a": nn.Conv2d(3, 8, 3, padding=1), "b": nn.Conv2d(8, 16, 3, stride=2), "c": nn.Conv2d(16, 24, 1)}
    return lowered(
        keeping(five_layers, **layers, d=nn.Conv2d(24, 24, 3, groups=24), e=nn.Conv2d(24, 7, 1)), 1, 3, 15, 15
    )


@pytest.fixture(scope="module")
def halves() -> Artifact:
    return lowered(
        keeping(split, before=nn.Conv2d(3, 8, 3), pool=nn.AvgPool2d(8), after=nn.Conv2d(8, 4, 1)), 1, 3, 34, 34
    )


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


def divergence_of(artifact: Artifact, change: Callable[[Run], Run], examined: Artifact | None = None) -> Divergence:
    """What is said of a target that answers as the reference, with a change."""
    reference = Reference(artifact).run(artifact.example_inputs)
    calls = [DelegateRun(at, 0, 0, (), outputs) for at, outputs in reference.delegate_outputs.items()]
    run = change(Run(0, 0, reference.outputs, tuple(calls)))
    outcome = Outcome(b"", b"", b"", 0, 0, {}, (run,), (), {})
    return diagnosis.localise(examined or artifact, VirtualTarget(str(NPU)), [reference], outcome)


def outputs_changed(run: Run) -> Run:
    return dataclasses.replace(run, outputs=with_first_changed(run.outputs))


def six(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Six operators, and a second output: for a program of the CPU, or a delegate of two outputs."""
    return torch.exp(torch.tanh(torch.sin(torch.cos(x)))), torch.neg(torch.abs(x))


def four(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """As many operators as are named in a sentence."""
    return torch.exp(torch.tanh(torch.sin(x))), torch.abs(x)


def after_delegates(outcome: Outcome) -> Outcome:
    return dataclasses.replace(outcome, runs=tuple(map(outputs_changed, outcome.runs)))


def seen(divergence: Divergence) -> str:
    """Return all of a divergence but the values of the network, and its lines in this file by their marks."""
    lines = Path(__file__).read_text("utf-8").splitlines()

    def mark(line: re.Match[str]) -> str:
        return lines[int(line[1]) - 1].rpartition("# ")[2]

    several: dict[str, Any] = {} if divergence.mismatches == 1 else {"index": None, "mismatches": None}
    text = shown(dataclasses.replace(divergence, expected=None, found=None, **several))
    text = re.sub(r"expected -?\d+, found -?\d+", "expected [value], found [value]", text)
    if several:
        text = re.sub(r"[\d,]+ (of [\d,]+ elements, first at index) [^]]*]", r"[some] \1 [index]", text)
    return re.sub(rf"{Path(__file__).name}:(\d+)", mark, text)


def of_two_outputs(change: Callable[[DelegateRun], DelegateRun], *, foreign: bool = False) -> Divergence:
    """Return what is said of a program whose only delegate has two outputs."""
    artifact = lower(from_module(module_of(six), (torch.tensor([[0.1, 0.2, 0.3, 0.4]]),)), NPU)
    (delegate,) = artifact.delegates
    without = dataclasses.replace(artifact, delegates=(dataclasses.replace(delegate, tosa=None),))
    return divergence_of(
        artifact,
        lambda run: dataclasses.replace(run, delegates=(change(run.delegates[0]),)),
        examined=without if foreign else artifact,
    )


def output_changed(wrong: int) -> Callable[[DelegateRun], DelegateRun]:
    def changed(call: DelegateRun) -> DelegateRun:
        outputs = list(call.outputs)
        (outputs[wrong],) = with_first_changed((outputs[wrong],))
        return dataclasses.replace(call, outputs=tuple(outputs))

    return changed


def one_output_lost(call: DelegateRun) -> DelegateRun:
    return dataclasses.replace(call, outputs=call.outputs[:1])


def without_tensors(artifact: Artifact, first: int, last: int) -> Artifact:
    """Return a program broken in its third layer, in which operations from and to that one have no known tensor."""
    op = row(artifact, "c")
    broken = with_register(artifact, op, OFM_ZERO_POINT, 1)
    (delegate,) = broken.delegates
    at = delegate.npu_ops.index(op)
    rows = tuple(
        dataclasses.replace(other, tensor="#7") if at + first <= number <= at + last else other
        for number, other in enumerate(delegate.npu_ops)
    )
    return dataclasses.replace(broken, delegates=(dataclasses.replace(delegate, npu_ops=rows),))


def on_cpu(function: Callable[..., Any]) -> Artifact:
    method = from_module(module_of(function), (torch.tensor([[0.1, 0.2, 0.3, 0.4]]),)).methods["forward"]
    return lower(TorchModel("cpu", {"forward": dataclasses.replace(method, on_cpu=True)}), NPU)


def misled(artifact: Artifact) -> Divergence:
    """What Vela 5.1 compiles wrongly: it pads away rows of the first of two 1x1 convolutions with a look-up between
    them, with a batch of two (docs/defects/vela-fused-shape.md).
    """
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(2, 8, 1), nn.Hardswish(), nn.Conv2d(8, 24, 1)).eval()
    return failed(lower(from_module(module, (torch.randn(2, 2, 32, 6),)), NPU, as_upstream=True))


def board(*repeats: int) -> Corrupting:
    """A real board, one of whose answers differs from the model of the NPU in these repeats."""
    return Corrupting(delegate_output_changed(0, repeats=repeats), kind="board")


FAULTS: dict[str, Callable[[Artifact, Artifact], Divergence]] = {
    "another zero point in the program": lambda five, _: failed(
        with_register(five, row(five, "c"), OFM_ZERO_POINT, 1)
    ),
    "what Vela compiles wrongly": lambda five, _: misled(five),
    "a board that differs from the model": lambda five, _: failed(five, board(0)),
    "a virtual board with a right NPU": lambda _, halves: failed(halves, Corrupting(delegate_output_changed(1))),
    "operators after right delegates": lambda five, _: failed(five, Corrupting(after_delegates)),
    "one of two executions": lambda five, _: failed(five, board(1), repeat=2),
    "one of three executions": lambda five, _: failed(five, board(1), repeat=3),
    "the first of two outputs": lambda *_: of_two_outputs(output_changed(0)),
    "the second of two outputs": lambda *_: of_two_outputs(output_changed(1)),
    "one output of two came": lambda *_: of_two_outputs(one_output_lost),
    "a delegate without TOSA": lambda *_: of_two_outputs(output_changed(0), foreign=True),
    "six operators on the CPU": lambda *_: divergence_of(on_cpu(six), outputs_changed),
    "four operators on the CPU": lambda *_: divergence_of(on_cpu(four), outputs_changed),
    "a runner, without delegates' outputs": lambda _, halves: divergence_of(
        halves, lambda run: dataclasses.replace(outputs_changed(run), delegates=())
    ),
    "nothing that differs": lambda _, halves: divergence_of(halves, lambda run: run),
    "an operation that cannot be compared": lambda five, _: failed(without_tensors(five, 0, 0)),
    "operations that cannot be compared": lambda five, _: failed(without_tensors(five, -1, 0)),
}  # fmt: skip
WRONG_NPU: dict[str, tuple[str, tuple[int, int, int], Callable[[Artifact], Divergence]]] = {
    **{f"in layer {line}": (line, (2, 3, 5), failed) for line in "abcde"},
    "and a board that agrees": ("c", (2, 3, 5), lambda five: failed(five, Corrupting(lambda out: out, kind="board"))),
    "and a board that is wrong in another way": ("d", (0, 0, 3), lambda five: failed(five, board(0))),
    "of a program that names none": ("c", (2, 3, 5), lambda five: failed(dataclasses.replace(five, npu=None))),
}
"""The layer, one element in the middle of its tensor, whose bit the NPU flips (in bricks or not), and what is asked."""


@pytest.mark.parametrize("what", FAULTS)
def test_a_difference_has_its_place(what: str, five: Artifact, halves: Artifact, recorded: Recorded) -> None:
    recorded.check(seen(FAULTS[what](five, halves)))


@pytest.mark.parametrize("what", WRONG_NPU)
def test_an_operation_that_the_npu_computes_wrong_is_named(
    five: Artifact, monkeypatch: pytest.MonkeyPatch, what: str, recorded: Recorded
) -> None:
    line, index, ask = WRONG_NPU[what]
    op = row(five, line)
    breaking(monkeypatch, op, index)
    result = ask(five)
    assert (result.op, result.source) == (op.id, marked(line))
    assert result.expected is not None
    assert result.found == result.expected ^ FLIPPED
    recorded.check(seen(result))


def test_the_second_delegate_is_judged_by_the_references_inputs(
    halves: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = halves.delegates
    (op,) = [op for op in second.npu_ops if "Conv2D" in op.npu_op]
    assert op.end_offset not in [other.end_offset for other in first.npu_ops]
    breaking(monkeypatch, op, (1, 2, 3))
    result = failed(halves)
    assert (result.instruction, result.op, result.module) == (second.instruction, op.id, "after")


def test_a_diagnosis_that_fails_leaves_the_verdict_and_an_interruption_of_it_is_one(
    five: Artifact, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> None:
        raise OracleError("tosa_reference_model has gone")

    def interrupted(*_: object) -> None:
        raise RuntimeError("wrapped") from KeyboardInterrupt()

    broken = with_register(five, row(five, "c"), OFM_ZERO_POINT, 1)
    monkeypatch.setattr(diagnosis, "tensor_values", missing)
    text = "could not localise: OracleError: tosa_reference_model has gone"
    assert failed(broken) == Divergence("unknown", text)
    monkeypatch.setattr(diagnosis, "tensor_values", interrupted)
    with pytest.raises(KeyboardInterrupt):
        failed(five, board(0))


def test_a_verified_run_has_none(five: Artifact) -> None:
    record = run_artifact(five, VirtualTarget(str(NPU)), Question("five")).record
    assert (record.verdict, record.divergence) == ("verified", None)
