"""The comparison with the reference, on a runner's folder as a device run leaves it."""

from __future__ import annotations

from collections.abc import Callable
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


def flip(path: Path) -> None:
    """Change a bit of the first float's exponent."""
    data = bytearray(path.read_bytes())
    data[3] ^= 1 << 6
    path.write_bytes(data)


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4])


@pytest.mark.parametrize(
    ("spoil", "equal", "note"),
    [
        (lambda path: None, True, ""),
        (flip, False, "output 0: 1 of "),
        (shorten, False, "bytes, expected"),
        (Path.unlink, None, ""),
    ],
    ids=["right", "one element", "another size", "missing"],
)
def test_outputs_are_equal_only_if_all_of_them_are_right(
    spoil: Callable[[Path], None], equal: bool | None, note: str, oracle: Oracle, folder: Path
) -> None:
    spoil(folder / "out-0.bin")
    answer = compare(oracle, folder)
    assert answer[0] is equal
    assert note in answer[1]


def test_without_a_reference_nothing_is_called_equal(oracle: Oracle, folder: Path) -> None:
    oracle.forget()
    equal, note = compare(oracle, folder)
    assert equal is None
    assert note.startswith("OracleError: ")
