"""From a case to its model: what is computed, and what is said of a case that torch cannot compute."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.api import lower
from ethos_hil.harness.bench.case_work import case_model
from ethos_hil.harness.bench.grid_file import default_grid
from ethos_hil.harness.bench.points import BenchCase, BenchInput, BenchStep
from ethos_hil.harness.testing.refusals import refusal

PAIR = (BenchInput((2, 3)), BenchInput((2, 3)))


def case(*steps: BenchStep, inputs: tuple[BenchInput, ...] = PAIR, name: str = "it") -> BenchCase:
    return BenchCase(name, "it", steps, inputs, source="mine.toml:7")


def test_all_inputs_go_to_the_first_step_and_its_result_to_the_next() -> None:
    model = case_model(case(BenchStep(call="sub"), BenchStep(layer="ReLU"), BenchStep(call="sum", options={"dim": 1})))
    a, b = model.default.example_inputs
    assert torch.equal(model.default.module(a, b), (a - b).relu().sum(1))
    assert len(model.default.calibration_inputs) == 3
    assert torch.equal(model.default.calibration_inputs[0][0], a)


def test_numbers_come_from_the_name() -> None:
    first, again, other = (case_model(case(BenchStep("Linear", args=(3, 4)), inputs=PAIR[:1], name=n)) for n in "aab")
    weight, same, different = (model.default.module.state_dict()["weight"] for model in (first, again, other))
    assert torch.equal(weight, same)
    assert torch.equal(first.default.example_inputs[0], again.default.example_inputs[0])
    assert not torch.equal(weight, different)


WRONG = {
    "no layer": case(BenchStep("Relu")),
    "no function": case(BenchStep(call="nn.functional.gellu")),
    "computes nothing": case(BenchStep(call="save", options={"f": "x"})),
    "arguments": case(BenchStep("Conv2d", args=(3,))),
    "shapes": case(BenchStep(call="matmul")),
    "inputs": case(BenchStep("ReLU")),
    "options": case(BenchStep(call="sub", options={"beta": 2})),
    "values": case(BenchStep(call="neg"), inputs=(BenchInput((2,), "int8", -500, 9),)),
    "no file": BenchCase("it", "model", (), (), model="gone.py:net", source="mine.toml:7"),
    "no module": BenchCase("it", "model", (), (), model="no_such:net", source="mine.toml:7"),
}


def test_what_torch_cannot_compute_is_one_line_with_the_case_and_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: Recorded
) -> None:
    """Of what torch says, the class of its error."""
    monkeypatch.chdir(tmp_path)
    lines = [f"{what}: {refusal(case_model, wrong)}" for what, wrong in WRONG.items()]
    assert len("\n".join(lines).splitlines()) == len(WRONG)
    recorded.check("\n".join(re.sub("Error: .*", "Error: ...", line) for line in lines))


CASES = default_grid().cases
SHORT = [bench_case for bench_case in CASES if bench_case.booted]
FAMILIES = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
CPU_ON_U55 = {"resize_bilinear_32x32x64": "aten::upsample_", "int16_matmul_4x32x16x32": "aten::bmm.out"}
"""What upstream leaves to the CPU on Ethos-U55 and U65."""


def check(bench_case: BenchCase, npu: str) -> None:
    artifact = lower(case_model(bench_case), npu=npu, scheme=bench_case.scheme)
    left = CPU_ON_U55.get(bench_case.name, "") if "u85" not in npu else ""
    if left:
        assert not artifact.npu_ops
        assert any(left in kernel for kernel in artifact.cpu_ops)
    else:
        assert artifact.npu_ops
        assert not [kernel for kernel in artifact.cpu_ops if "quantize_per_tensor" not in kernel]


@pytest.mark.parametrize("bench_case", SHORT[::8], ids=lambda bench_case: bench_case.name)
def test_a_short_case_of_the_default_grid_is_on_the_npu_and_nothing_of_it_on_the_cpu(bench_case: BenchCase) -> None:
    check(bench_case, FAMILIES[SHORT.index(bench_case) % 3])


@pytest.mark.proof
@pytest.mark.parametrize("npu", FAMILIES)
@pytest.mark.parametrize("bench_case", CASES, ids=lambda bench_case: bench_case.name)
def test_every_case_of_the_default_grid_is_on_the_npu(bench_case: BenchCase, npu: str) -> None:
    check(bench_case, npu)
