"""Profiles MI and BI: a right answer is verified, and every way in which it can be wrong has been seen red."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tosa.TosaGraph import TosaGraph as Buffer

from ethos_hil.base.errors import OracleError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.options import Scheme
from ethos_hil.base.question import Question
from ethos_hil.base.record import Record
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.run import run_artifact
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.oracle.bounds import graph, program, sums, tolerance
from ethos_hil.lowering.oracle.bounds.program import bound_outputs
from ethos_hil.lowering.oracle.bounds.value import Bounded, NoBound, RoundingPolicy, TosaOperation
from ethos_hil.lowering.oracle.reference import Reference, ReferenceRun
from ethos_hil.suites.declare.case import Case, Forward, Input, case, f32, layer
from ethos_hil.suites.trial.verify_against_pytorch import QUANTISED, findings_on_host

FP, INT = TosaSpec("1.0", "FP"), TosaSpec("1.0", "INT")
IMAGE = f32(1, 8, 9, 7)
CASES: dict[str, Case] = {
    case.name: case
    for case in (
        case("add", lambda a, b: a + b, IMAGE, IMAGE),
        case("conv", (layer("Conv2d", 8, 6, 3, stride=2), layer("BatchNorm2d", 6), layer("ReLU")), IMAGE),
        case("softmax", lambda a: a.softmax(1), IMAGE),
        case("layer_norm", layer("LayerNorm", 7), IMAGE),
        case("average", layer("AvgPool2d", 2), IMAGE),
        case("gelu", layer("GELU"), IMAGE),
        case("matmul", lambda a, b: a @ b, f32(3, 5, 33), f32(3, 33, 4)),
        case("flip", lambda a: a.flip(2).transpose(1, 3), IMAGE),
        case("where", lambda a, b: (a > b).logical_and(b < 0.5), f32(4, 9), f32(4, 9)),
    )
}
DEEP = case(
    "deep",
    (
        *(layer("Conv2d", 3 if index == 0 else 16, 16, 3, padding=1) for index in range(6)),
        *(layer("BatchNorm2d", 16), layer("ReLU"), layer("Conv2d", 16, 16, 3), layer("Flatten")),
        layer("Linear", 16 * 36, 10),
    ),
    f32(1, 3, 8, 8),
)
MANY = dataclasses.replace(DEEP, name="many", forward=(*DEEP.forward[:-1], layer("Linear", 16 * 36, 1000)))  # type: ignore[index]


@functools.cache
def lowered(name: str, spec: TosaSpec | EthosU, scheme: Scheme = "a8w8") -> Artifact:
    case = {**CASES, "deep": DEEP, "many": MANY}[name]
    return lower_case(case, spec, scheme)


def verify_on_host(label: str, artifact: Artifact, answer: ReferenceRun | None = None) -> Record:
    return findings_on_host(label, artifact, answer).record


def lower_case(case: Case, spec: TosaSpec | EthosU, scheme: Scheme = "a8w8") -> Artifact:
    from ethos_hil.lowering.lower import lower
    from ethos_hil.suites.trial.build import build

    return lower(build(f"host_{case.name}", case, Path(__file__).parent), spec, scheme=scheme)


def answer(artifact: Artifact) -> ReferenceRun:
    return Reference(artifact).run(artifact.example_inputs)


def changed(artifact: Artifact, change: Callable[[np.ndarray], None]) -> Record:
    """Return the verdict on the reference model's answer with its first output changed."""
    right = answer(artifact)
    output = right.outputs[0].copy()
    change(output)
    return verify_on_host("changed", artifact, dataclasses.replace(right, outputs=(output, *right.outputs[1:])))


def unlike(record: Record, kind: str = "accuracy") -> str:
    """A fault has the same kind as on an NPU, so that one entry of a quarantine is for all profiles."""
    assert (record.verdict, record.failure.kind if record.failure else "") == ("failed", kind)
    assert record.failure is not None
    return record.failure.message


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("spec", [FP, INT], ids=["MI", "BI"])
def test_what_is_right_is_verified(name: str, spec: TosaSpec) -> None:
    artifact = lowered(name, spec)
    record = verify_on_host(name, artifact)
    assert record.verdict == "verified", record.failure
    (output,) = record.outputs
    assert output.reference == (QUANTISED if spec.quantised else "PyTorch, float64") or output.dtype == "bool"
    assert (output.mismatches, output.compared) == (0, artifact.floating[0].size)
    assert output.max_abs_error <= output.tolerance
    assert record.target.kind == "host"
    assert len(record.accuracy) == (1 if spec.quantised else 0)
    if name == "flip" and not spec.quantised:
        assert output.tolerance == 0
    if not spec.quantised and output.dtype != "bool":
        assert output.tolerance <= 1e-4 * np.abs(artifact.floating[0]).max()
    assert Record.from_json(record.to_json()) == record


def test_sixteen_bits_of_a_function_that_jumps_may_be_off_by_the_jump() -> None:
    """Between the entries of its table it is a straight line."""
    grid = case("ceil", lambda a: a.ceil(), f32(1, 4001, low=-3, high=3), scheme="a16w8")
    artifact = lower_case(grid, INT, "a16w8")
    record = verify_on_host("ceil", artifact)
    (output,) = record.outputs
    assert record.verdict == "verified", record.failure
    assert 0.75 < output.max_abs_error <= output.tolerance <= 1.01
    (limit,) = tolerance.tolerances(artifact, artifact.example_inputs, artifact.quantised)
    assert np.count_nonzero(limit.allowed > 0.01) < limit.allowed.size / 5


def test_a_deep_float_network_has_a_bound_that_means_something() -> None:
    """In the worst case its errors are larger than its answer, so its roundings are drawn at random."""
    artifact = lowered("deep", FP)
    record = verify_on_host("deep", artifact)
    assert record.verdict == "verified", record.failure
    assert record.notes == ("output 0: its tolerance is 6 deviations of roundings drawn at random",)
    assert record.outputs[0].tolerance <= np.abs(artifact.floating[0]).max() / 1000


def test_a_deep_quantised_network_matches_pytorch_when_its_roundings_differ() -> None:
    artifact = lowered("deep", INT)
    record = verify_on_host("deep", artifact)
    assert record.verdict == "verified", record.failure
    assert "one step around the program's answer with the nearest of" in record.notes[0]
    other = artifact.quantised[0].copy()
    other[0, 3] += np.float32(3 * tolerance.step_of(artifact.plan, artifact.plan.outputs[0]))
    text = unlike(verify_on_host("deep", dataclasses.replace(artifact, quantised=(other,))))
    assert "of 10 elements are too far from PyTorch, quantised" in text


@pytest.mark.slow
def test_of_many_elements_each_is_within_a_step_of_some_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """If each element of an answer fits another alternative, the answer as a whole fits none.

    PyTorch is assumed to compute in 16 bits: this network then shows an effect that float32 shows only in one of fifty
        layers.
    """
    artifact = lowered("many", INT)
    monkeypatch.setattr(sums, "FLOAT32_UNIT", 2.0**-16)
    step = tolerance.step_of(artifact.plan, artifact.plan.outputs[0])
    worst = bound_outputs(artifact, artifact.example_inputs, RoundingPolicy())
    ways = np.stack([way for (way,) in tolerance._variants(artifact, artifact.example_inputs, worst)])
    least, most = ways.min(0) - step, ways.max(0) + step
    mixed = np.where(np.arange(1000) % 2, least, most).astype(np.float32)
    assert all(np.abs(way - mixed).max() > 1.5 * step for way in ways), "near to one way"
    right = verify_on_host("many", dataclasses.replace(artifact, quantised=(mixed,)))
    assert right.verdict == "verified", right.failure
    assert "one step around each element's range over" in right.notes[0]
    mixed[0, 8] = most[0, 8] + step
    text = unlike(verify_on_host("many", dataclasses.replace(artifact, quantised=(mixed,))))
    assert "1 of 1000 elements are too far from PyTorch, quantised; first at index [0, 8]" in text


@pytest.mark.parametrize("name", ["add", "conv", "softmax", "layer_norm", "gelu", "matmul", "deep"])
def test_an_answer_just_beyond_its_bound_is_red_and_one_within_it_is_not(name: str) -> None:
    artifact = lowered(name, FP)
    (limit,) = tolerance.tolerances(artifact, artifact.example_inputs, artifact.floating)
    wanted = artifact.floating[0]
    place = np.unravel_index(np.argmax(limit.allowed), wanted.shape)

    def move(factor: float) -> Callable[[np.ndarray], None]:
        def apply(output: np.ndarray) -> None:
            output[place] = np.float32(wanted[place] + factor * limit.allowed[place])

        return apply

    text = unlike(changed(artifact, move(1.6)))  # rounded to float32, of which an ulp may be half of the bound
    assert f"1 of {wanted.size} elements are too far from PyTorch, float64" in text
    assert f"first at index {[int(axis) for axis in place]}" in text
    assert changed(artifact, move(0.5)).verdict == "verified"


def test_one_step_is_red_where_nothing_is_in_doubt() -> None:
    artifact = lowered("average", INT)
    (limit,) = tolerance.tolerances(artifact, artifact.example_inputs, artifact.quantised)
    step = float(np.min(limit.allowed[limit.allowed > 0]))
    certain = tuple(int(axis[0]) for axis in np.nonzero(limit.allowed == 0))

    def move(output: np.ndarray) -> None:
        output[certain] += np.float32(step)

    assert "where 0 is allowed" in unlike(changed(artifact, move))
    assert 0 < np.count_nonzero(limit.allowed) < limit.allowed.size / 2


def with_another_weight(artifact: Artifact) -> Artifact:
    """Change a weight by one five-hundredth, or a quantised one by a few steps: less would vanish in eight bits."""
    (delegate,) = artifact.delegates
    assert delegate.tosa is not None
    (convolution,) = (operator for operator in TosaGraph.parse(delegate.tosa).operators if operator.op == "CONV2D")
    block = Buffer.GetRootAs(delegate.tosa, 0).Regions(0).Blocks(0)
    tensors = [block.Tensors(index) for index in range(block.TensorsLength())]
    (weight,) = (tensor for tensor in tensors if tensor.Name().decode() == convolution.inputs[1])
    data = bytes(weight.DataAsNumpy())
    assert delegate.tosa.count(data) == 1
    quantised = artifact.scheme is not None
    other = np.frombuffer(data, np.int8 if quantised else np.float32).copy()
    place = np.argmin(np.abs(other.astype(float) - np.abs(other).max() / 2))
    other[place] = other[place] + 8 if quantised else other[place] * np.float32(1.002)
    tosa = delegate.tosa.replace(data, other.tobytes())
    return dataclasses.replace(artifact, delegates=(dataclasses.replace(delegate, tosa=tosa),))


def put(wrong: float) -> Callable[[np.ndarray], None]:
    return lambda output: output.put(0, wrong)


@pytest.mark.parametrize("spec", [FP, INT], ids=["MI", "BI"])
def test_what_is_wrong_is_red(spec: TosaSpec, recorded: Recorded) -> None:
    add = lowered("add", spec)
    (right,) = answer(add).outputs
    there, back = (
        lower_case(case("minus", forward, f32(3, 7), f32(3, 7)), spec)
        for forward in (lambda a, b: a - b, lambda a, b: b - a)
    )
    assert verify_on_host("minus", there).verdict == "verified"

    def instead(*outputs: np.ndarray) -> Record:
        return verify_on_host("add", add, dataclasses.replace(answer(add), outputs=outputs))

    records = {
        **{f"{wrong} for a number": changed(add, put(wrong)) for wrong in (np.nan, np.inf, 0.0)},
        "zeros for an answer": changed(lowered("softmax", spec), lambda output: output.fill(0)),
        "another shape": instead(right[:, :4]),
        "another type": instead(right.astype(np.int8)),
        "no output": instead(),
        "two outputs": instead(right, right),
        "swapped operands": verify_on_host("-", dataclasses.replace(there, delegates=back.delegates, pte=back.pte)),
        "one perturbed weight": verify_on_host("conv", with_another_weight(lowered("conv", spec))),
    }
    assert {record.verdict for record in records.values()} == {"failed"}
    failures = {what: record.failure for what, record in records.items() if record.failure is not None}
    recorded.check({what: f"{one.kind}: {one.message.partition('; first')[0]}" for what, one in failures.items()})


def test_without_pytorchs_answer_it_is_red() -> None:
    with pytest.raises(OracleError, match="what PyTorch answers is not known"):
        verify_on_host("add", dataclasses.replace(lowered("add", INT), floating=(), quantised=()))


def test_nan_and_infinity_are_right_where_both_have_them() -> None:
    artifact = lowered("flip", FP)
    inputs = (artifact.example_inputs[0].copy(),)
    inputs[0][0, 0, 0, :3] = np.nan, np.inf, -np.inf
    expected = inputs[0].astype(np.float64)[:, :, ::-1].transpose(0, 3, 2, 1)
    same = dataclasses.replace(artifact, example_inputs=inputs, floating=(expected,))
    assert verify_on_host("flip", same).failure is None
    other = np.nan_to_num(expected, nan=1.0, posinf=np.inf, neginf=-np.inf)
    assert "1 of" in unlike(verify_on_host("flip", dataclasses.replace(same, floating=(other,))))


def test_an_analysis_that_says_nothing_or_of_something_else_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if its bound is so wide that PyTorch's answer is within it."""
    rule = graph.RULES["RESCALE"]

    def off(operation: TosaOperation, *inputs: Any) -> Bounded:
        result = rule(operation, *inputs)
        return Bounded(result.value + 1, result.error, result.scaled)

    with monkeypatch.context() as without:
        without.delitem(graph.RULES, "ERF")
        with pytest.raises(NoBound, match="ERF") as caught:
            verify_on_host("gelu", lowered("gelu", FP))
        assert caught.value.kind == "no-bound"
    with monkeypatch.context() as other:
        other.setitem(graph.RULES, "RESCALE", off)
        with pytest.raises(OracleError, match="the analysis of its errors differ"):
            verify_on_host("add", lowered("add", INT))
    monkeypatch.setattr(tolerance, "TIGHT", 1e-12)
    monkeypatch.setattr(tolerance, "MEANINGFUL", 1e-12)
    with pytest.raises(NoBound, match="from rounding alone"):
        verify_on_host("softmax", lowered("softmax", FP))


APPROXIMATED: dict[str, tuple[Forward, Input]] = {
    "aten.acos.default": (lambda x: x.acos(), f32(1, 4001, low=-1, high=1)),
    "aten.asin.default": (lambda x: x.asin(), f32(1, 4001, low=-1, high=1)),
    "aten.atan.default": (lambda x: x.atan(), f32(1, 4001, low=-5, high=5)),
    "aten.celu.default": (layer("CELU", 1.5), f32(1, 4001, low=-1, high=1)),
    "aten.elu.default": (layer("ELU", 1.5), f32(1, 4001, low=-1, high=1)),
    "aten.expm1.default": (lambda x: x.expm1(), f32(1, 4001, low=-1, high=1)),
    "aten.selu.default": (layer("SELU"), f32(1, 4001, low=-1, high=1)),
}


@pytest.mark.parametrize("name", program.APPROXIMATED)
def test_an_approximation_is_as_far_from_its_function_as_is_allowed(name: str) -> None:
    forward, grid = APPROXIMATED[name]
    artifact = lower_case(case(name.split(".")[1], forward, grid), FP)
    assert artifact.delegated == (name,)
    record = verify_on_host(name, artifact)
    assert record.verdict == "verified", record.failure
    allowed = program.APPROXIMATED[name]
    assert 0.8 * allowed <= record.outputs[0].max_abs_error <= record.outputs[0].tolerance <= 1.2 * allowed
    larger = dataclasses.replace(artifact, delegated=(*artifact.delegated, "aten.mul.Tensor"))
    with pytest.raises(NoBound, match=f"{name} is approximated"):
        verify_on_host(name, larger)


def test_a_run_on_a_target_tells_its_accuracy_too() -> None:
    artifact = lowered("conv", EthosU.parse("ethos-u55-128"))
    board = VirtualTarget("ethos-u55-128")
    record = run_artifact(artifact, board, Question("conv")).record
    assert record.verdict == "verified", record.failure
    assert record.accuracy == verify_on_host("conv", lowered("conv", INT)).accuracy
    other = (artifact.example_inputs[0] / 2,)
    assert run_artifact(artifact, board, Question("conv", inputs=(other,))).record.accuracy == ()
