"""A .bpte: the device runs the test cases of a program and judges them by upstream's tolerance."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from plain_qemu import RunFiles, RunProgram
from programs import raw
from test_runner import write_files

from ethos_hil.harness.image.formats import ErrorKind, FrameType
from ethos_hil.lowering.testing.function_module import module_of

PASSED = "I [executorch:arm_executor_runner] TEST: BundleIO index[{}] Test_result: PASS"
FAILED = "E [executorch:arm_executor_runner] TEST: BundleIO index[{}] Test_result: FAIL"


def bundle(cases: list[tuple[list[Any], list[Any]]]) -> bytes:
    """A program that adds a number to a float tensor and copies an int tensor, with test cases."""
    from executorch.devtools import BundledProgram
    from executorch.devtools.bundled_program.config import MethodTestCase, MethodTestSuite
    from executorch.devtools.bundled_program.serialize import serialize_from_bundled_program_to_flatbuffer
    from executorch.exir import to_edge

    importlib.import_module("executorch.kernels.quantized")
    program = torch.export.export(
        module_of(lambda x, y, number: (x + number, y.clone())), (torch.rand(2, 3), torch.arange(4), 5)
    )
    suite = MethodTestSuite("forward", [MethodTestCase(inputs, expected) for inputs, expected in cases])
    bundled = BundledProgram(to_edge(program).to_executorch(), [suite])
    return bytes(serialize_from_bundled_program_to_flatbuffer(bundled))


def right_case(seed: int) -> tuple[list[Any], list[Any]]:
    generator = torch.Generator().manual_seed(seed)
    x, y = torch.rand(2, 3, generator=generator) * 100, torch.randint(0, 99, (4,), generator=generator)
    return [x, y, 5], [x + 5, y.clone()]


def off_by(case: tuple[list[Any], list[Any]], output: int, difference: float) -> tuple[list[Any], list[Any]]:
    """Return the case with another expected value for one element of an output."""
    inputs, expected = case
    changed = [tensor.clone() for tensor in expected]
    changed[output].view(-1)[2] += difference
    return inputs, changed


def test_every_case_is_run_and_judged(run_runner: RunFiles, tmp_path: Path) -> None:
    cases = [right_case(seed) for seed in range(3)]
    # Upstream's command line has input files even then; their contents do not matter.
    command_line = write_files(tmp_path, bundle(cases), [b"dummy"])
    ended = run_runner(command_line)
    assert (ended.status, ended.errors()) == (0, [])
    assert [line for line in ended.lines if "BundleIO" in line] == [PASSED.format(number) for number in range(3)]
    for number, output in enumerate(cases[0][1]):
        assert (tmp_path / f"out-{number}.bin").read_bytes() == raw(output)


def test_a_case_that_fails_is_named_and_ends_in_status_1(run_runner: RunFiles, tmp_path: Path) -> None:
    cases = [right_case(0), off_by(right_case(1), 1, 1), right_case(2), off_by(right_case(3), 0, 5.0)]
    ended = run_runner(write_files(tmp_path, bundle(cases), []))
    assert ended.status == 1
    assert [line for line in ended.lines if "PASS" in line] == [PASSED.format(0), PASSED.format(2)]
    reason = " ({}: 1 of {} elements differ from those expected, the first is element 2)"
    assert ended.errors() == [
        FAILED.format(1) + reason.format("output 1", 4),
        FAILED.format(3) + reason.format("output 0", 6),
        "E [executorch:mismatch] 2 of 4 executions of the bundle's test cases gave other outputs than expected",
    ]


def test_floats_may_differ_as_much_as_upstream_allows(run_runner: RunFiles, tmp_path: Path) -> None:
    """No number passes for one that is none; infinities and NaNs equal themselves."""
    case = right_case(7)
    # atol 0.01 and rtol 0.01 of the method's output: bundled_program.cpp, data_is_close.
    allowed = 0.01 + 0.01 * case[1][0].view(-1)[2].item()
    (x, y, number), _ = right_case(1)
    x[0] = torch.tensor([float("nan"), float("inf"), -float("inf")])
    differences = (allowed * 0.9, allowed * 1.1, float("nan"), float("inf"))
    cases = [*(off_by(case, 0, difference) for difference in differences), ([x, y, number], [x + 5, y])]
    ended = run_runner(write_files(tmp_path, bundle(cases), []))
    assert [line for line in ended.lines if "PASS" in line] == [PASSED.format(0), PASSED.format(4)]
    assert [line.split(" (")[0] for line in ended.errors()[:-1]] == [FAILED.format(at) for at in (1, 2, 3)]


def test_a_package_may_hold_a_bundle(run_program: RunProgram) -> None:
    cases = [right_case(seed) for seed in range(3)]
    conversation = run_program(bundle(cases), [(), (), ()])
    assert conversation.one(FrameType.END).fields["status"] == 0
    assert [tensor.data for tensor in conversation.tensors()] == [raw(out) for _, outs in cases for out in outs]
    lines = [frame.rest.decode() for frame in conversation.all(FrameType.LOG)]
    assert lines == [f"TEST: BundleIO index[{number}] Test_result: PASS" for number in range(3)]

    run_program(bundle([right_case(0), off_by(right_case(1), 0, 9.0)]), [(), ()]).check_error(
        ErrorKind.MISMATCH, "1 of 2 executions"
    )
    run_program(bundle(cases), [(), ()]).check_error(
        ErrorKind.INPUT, "the bundle has 3 test cases of method 'forward', the package is to run 2"
    )


def test_a_package_may_have_its_own_inputs_for_a_bundle(run_program: RunProgram) -> None:
    inputs, outputs = right_case(9)
    conversation = run_program(bundle([off_by(right_case(1), 0, 9.0)]), [[raw(value) for value in inputs]])
    assert [tensor.data for tensor in conversation.tensors()] == [raw(output) for output in outputs]
    assert conversation.all(FrameType.LOG) == []


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "method": (lambda suite: setattr(suite, "method_name", "backward"), "no test cases of method 'forward'"),
    "inputs": (lambda suite: first(suite).inputs.pop(), "has 2 inputs, the method takes 3"),
    "shape": (lambda suite: setattr(first(suite).inputs[0].val, "sizes", [3, 2]), "input 0 of test case 0"),
    "data": (lambda suite: setattr(first(suite).inputs[0].val, "data", b"123"), "input 0 of test case 0"),
    "order": (lambda suite: setattr(first(suite).inputs[0].val, "dim_order", b"\1\0"), "input 0 of test case 0"),
    "number": (lambda suite: setattr(first(suite).inputs[2].val, "int_val", 6), "not the value the program was"),
    "outputs": (lambda suite: first(suite).expected_outputs.pop(), "1 expected outputs, the method has 2"),
    "type": (lambda suite: setattr(first(suite).expected_outputs[1].val, "scalar_type", 7), "not the type, shape"),
}


def first(suite: Any) -> Any:
    return suite.test_cases[0]


@pytest.mark.parametrize("name", WRONG)
def test_a_bundle_that_does_not_fit_is_refused(
    run_runner: RunFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from executorch.devtools import BundledProgram

    edit, words = WRONG[name]
    serialize = BundledProgram.serialize_to_schema

    def changed(self: Any) -> Any:
        schema = serialize(self)
        edit(schema.method_test_suites[0])
        return schema

    monkeypatch.setattr(BundledProgram, "serialize_to_schema", changed)
    ended = run_runner(write_files(tmp_path, bundle([right_case(0)]), []))
    assert ended.status == 1
    assert any(words in line for line in ended.errors()), ended.lines


def test_half_a_bundle_is_refused(run_runner: RunFiles, tmp_path: Path) -> None:
    whole = bundle([right_case(0)])
    ended = run_runner(write_files(tmp_path, whole[: len(whole) // 2], []))
    assert ended.status == 1
    assert "E [executorch:program] bundle of " in ended.errors()[0]


def test_a_bundle_is_refused_in_server_mode(run_runner: RunFiles, tmp_path: Path) -> None:
    """Its jobs would have other inputs than the files."""
    ended = run_runner(write_files(tmp_path, bundle([right_case(0)]), []) + " --server_mode true", typed=b"go\n")
    assert ended.status == 1
    assert "program.pte is a bundle, which has inputs of its own: leave out --server_mode" in ended.errors()[0]
