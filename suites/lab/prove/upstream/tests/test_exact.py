"""The comparison with the reference, on a runner's folder as a device run leaves it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.suites.lab.prove.upstream.plugin import Oracle, compare
from ethos_hil.suites.models.tests.stacks import STACKS


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return lower(from_module(*STACKS["plain"].example(0), label="plain-0"), EthosU.parse("ethos-u55-128"))


@pytest.fixture
def folder(artifact: Artifact, tmp_path: Path) -> Path:
    """Program, inputs, and the right outputs."""
    (tmp_path / "program.pte").write_bytes(artifact.pte)
    for number, array in enumerate(artifact.example_inputs):
        (tmp_path / f"i{number}.bin").write_bytes(artifact.plan.input_tensors[number].to_bytes(array))
    for number, array in enumerate(Reference(artifact).run(artifact.example_inputs).outputs):
        (tmp_path / f"out-{number}.bin").write_bytes(artifact.plan.output_tensors[number].to_bytes(array))
    return tmp_path


@pytest.fixture
def oracle(artifact: Artifact) -> Oracle:
    """One that watched the program's compilation."""
    watching = Oracle()
    for delegate in artifact.delegates:
        watching.watching(lambda _tosa, blob: blob)(delegate.tosa, delegate.vela)
    return watching


def test_right_outputs_are_equal(oracle: Oracle, folder: Path) -> None:
    assert compare(oracle, folder) == (True, "")


def test_one_changed_element_is_found(oracle: Oracle, folder: Path) -> None:
    data = bytearray((folder / "out-0.bin").read_bytes())
    data[3] ^= 1 << 6  # a bit of the first float's exponent
    (folder / "out-0.bin").write_bytes(data)
    equal, note = compare(oracle, folder)
    assert equal is False
    assert note.startswith("output 0: 1 of ")


def test_an_output_of_another_size_is_found(oracle: Oracle, folder: Path) -> None:
    path = folder / "out-0.bin"
    path.write_bytes(path.read_bytes()[:-4])
    equal, note = compare(oracle, folder)
    assert (equal, "bytes, expected" in note) == (False, True)


def test_without_a_reference_nothing_is_called_equal(oracle: Oracle, folder: Path) -> None:
    oracle.forget()
    equal, note = compare(oracle, folder)
    assert equal is None
    assert note.startswith("OracleError: ")


def test_a_missing_output_is_not_equal(oracle: Oracle, folder: Path) -> None:
    (folder / "out-0.bin").unlink()
    assert compare(oracle, folder)[0] is None
