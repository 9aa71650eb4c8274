"""Results files, the list of diagnosed failures, and the comparison with the reference on what a device run leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.suites.lab.prove.upstream.plugin import Oracle, compare
from ethos_hil.suites.lab.prove.upstream.records import DeviceCall, TestResult, device_of, load
from ethos_hil.suites.lab.prove.upstream.setting import trees


@pytest.mark.parametrize(
    "text",
    ['test = "a"\nevidence = "b"', 'test = "a"\nevidence = "b"\ndiagnosis = "bad luck"', 'test = "a"', 'tset = "a"'],
)
def test_an_entry_without_diagnosis_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "known.toml"
    path.write_text(f"[[known]]\n{text}\n")
    with pytest.raises(UsageError, match="needs test, diagnosis and evidence"):
        load(path)


@pytest.mark.parametrize(
    ("name", "device"),
    [
        ("ops/test_add.py::test_add_tensor_u55_INT[op_add1]", "u55"),
        ("cortex_m/test/ops/test_add.py::test_implementation_add[cortex-m55-self_scalar]", "m55"),
        ("cortex_m/test/test_explicit_layout.py::test_explicit_conv1d_runs_on_fvp", "m55"),
        ("cortex_m/test/ops/test_add.py::test_dialect_add[self_scalar]", None),
        ("ops/test_add.py::test_add_tensor_tosa_INT[op_add1]", None),
    ],
)
def test_the_device_of_a_test_is_in_its_name(name: str, device: str | None) -> None:
    assert device_of(name) == device


def test_each_test_is_of_the_backend_that_has_its_file() -> None:
    for file in ("ops/test_add.py", "cortex_m/test/ops/test_add.py"):
        (tree,) = (tree for tree in trees() if tree.own([file]))
        assert (tree.rootdir / file).is_relative_to(tree.tests)
        assert (tree.rootdir / file).is_file()


def test_a_test_that_passes_with_other_outputs_than_the_references_is_wrong() -> None:
    calls = (DeviceCall("FVP", 1.0, 0, True), DeviceCall("FVP", 1.0, 0, False, "output 0: 1 of 9"))
    passed = TestResult("a.py::test_u55", "u55", "passed", 1.0, "", calls)
    assert (passed.wrong, passed.failed) == (True, False)
    assert passed.problem == "differs from the reference: output 0: 1 of 9"
    assert not replace(passed, calls=(DeviceCall("FVP", 1.0, 0, None, "no reference"),)).wrong


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    torch.manual_seed(0)
    return lower(from_module(nn.Linear(4, 3), (torch.ones(1, 4),)), EthosU.parse("ethos-u55-128"))


def flipped(data: bytes) -> bytes:
    """With another exponent of the first float."""
    return data[:3] + bytes([data[3] ^ 1 << 6]) + data[4:]


@pytest.mark.parametrize(
    ("spoil", "watched", "equal", "note"),
    [
        (lambda data: data, True, True, ""),
        (flipped, True, False, "output 0: 1 of "),
        (lambda data: data[:-4], True, False, "bytes, expected"),
        (lambda data: None, True, None, ""),
        (lambda data: data, False, None, "OracleError: "),
    ],
    ids=["right", "one element", "another size", "missing", "without a reference"],
)
def test_outputs_are_equal_only_if_all_of_them_are_right(
    spoil: Callable[[bytes], bytes | None], watched: bool, equal: bool | None, note: str, artifact: Artifact,
    tmp_path: Path,
) -> None:  # fmt: skip
    (tmp_path / "program.pte").write_bytes(artifact.pte)
    (array,), (output,) = artifact.example_inputs, Reference(artifact).run(artifact.example_inputs).outputs
    (tmp_path / "i0.bin").write_bytes(artifact.plan.input_tensors[0].to_bytes(array))
    left = spoil(artifact.plan.output_tensors[0].to_bytes(output))
    if left is not None:
        (tmp_path / "out-0.bin").write_bytes(left)
    oracle = Oracle()
    for delegate in artifact.delegates if watched else ():
        oracle.watching(lambda _tosa, blob: blob)(delegate.tosa, delegate.vela)
    answer = compare(oracle, tmp_path)
    assert answer[0] is equal
    assert note in answer[1]
