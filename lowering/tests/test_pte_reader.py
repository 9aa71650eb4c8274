"""Reading .pte files: complete, without ExecuTorch, and safe on any bytes."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.lowering.formats.pte_model import DelegateCall, KernelCall, Tensor, ValueList
from ethos_hil.lowering.formats.pte_reader import Program
from ethos_hil.lowering.formats.vela_blob import VelaBlob
from ethos_hil.lowering.tests.conftest import DATA


@pytest.fixture(scope="module", params=["add.pte", "segments.pte"])
def pte(request: pytest.FixtureRequest) -> bytes:
    return (DATA / request.param).read_bytes()


def test_an_inline_program_is_read_completely() -> None:
    data = (DATA / "add.pte").read_bytes()
    plan = Program.parse(data).plan()
    assert [str(tensor) for tensor in (*plan.input_tensors, *plan.output_tensors)] == ["float32[1, 4, 4, 3]"] * 3
    quantise = "quantized_decomposed::quantize_per_tensor.out"
    assert [type(step) for step in plan.instructions] == [KernelCall, KernelCall, DelegateCall, KernelCall]
    assert plan.operators == (quantise, "quantized_decomposed::dequantize_per_tensor.out")
    first = plan.instructions[0]
    assert isinstance(first, KernelCall)
    assert first.operator == quantise
    assert [plan.values[index] for index in first.args[2:5]] == [-6, -128, 127]
    assert plan.planned_sizes == (432,)
    (delegate,) = plan.delegates
    assert delegate.id == "EthosUBackend"
    assert delegate.data == data[delegate.file_offset :][: len(delegate.data)]
    assert delegate.file_offset % 16 == 0
    assert b"--accelerator-config=ethos-u55-128" in delegate.compile_specs["compile_flags"]
    assert len(VelaBlob.parse(delegate.data).inputs) == 2


def test_segments_constants_and_lists_are_read() -> None:
    data = (DATA / "segments.pte").read_bytes()
    plan = Program.parse(data).plan()
    table = plan.tensor(0)
    assert (str(table), len(table.data or b"")) == ("int8[10, 8]", 80)
    assert ValueList("int", (11, 12)) in plan.values
    (delegate,) = plan.delegates
    assert delegate.file_offset == 3456
    VelaBlob.parse(delegate.data)


def test_tensors_are_laid_out_in_their_dimension_order() -> None:
    tensor = Tensor("CHAR", (1, 2, 3, 4), (0, 2, 3, 1), 0, 0, None)
    array = np.arange(24, dtype=np.int8).reshape(1, 2, 3, 4)
    memory = tensor.to_bytes(array)
    assert list(memory[:4]) == [0, 12, 1, 13]
    assert np.array_equal(tensor.from_bytes(memory), array)
    scalar = Tensor("FLOAT", (), (), 0, 0, None)
    assert scalar.from_bytes(scalar.to_bytes(np.array(1.5, np.float32))) == np.float32(1.5)
    with pytest.raises(ValueError, match="expected int8"):
        tensor.to_bytes(array.astype(np.int16))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it has 0 bytes, expected at least 8"),
        (b"ET12", "it has 4 bytes"),
        (bytes(64), "bytes 4 to 7 are"),
        (b"\x08\0\0\0ET12", "leads to byte 8 of 8"),
        (b"PK\x03\x04" + bytes(100), "expected b'ET12'"),
    ],
)
def test_what_is_no_program_is_named(data: bytes, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        Program.parse(data, "some.pte")
    assert caught.value.message.startswith("some.pte: not a usable ExecuTorch program: ")
    assert message in caught.value.message
    assert caught.value.exit_status == 2


def test_every_truncation_is_an_error(pte: bytes) -> None:
    whole = Program.parse(pte)
    for length in range(0, len(pte), 7):
        try:
            cut = Program.parse(pte[:length])
        except UsageError:
            continue
        # Only alignment padding at the very end may be missing without loss.
        assert cut == whole


def test_damaged_programs_never_crash_the_reader(pte: bytes) -> None:
    rng = random.Random(2)
    used = Program.parse(pte).plan().delegates[0]
    blob = range(used.file_offset, used.file_offset + len(used.data))
    structure = [at for at in range(len(pte)) if at not in blob]
    rejected = 0
    for _ in range(1500):
        damaged = bytearray(pte)
        for _ in range(rng.choice((1, 1, 2, 8, 64))):
            damaged[rng.choice(structure)] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        try:
            Program.parse(bytes(damaged))
        except UsageError:
            rejected += 1
    assert rejected > 500


def test_a_missing_method_lists_those_there_are() -> None:
    with pytest.raises(UsageError) as caught:
        Program.parse((DATA / "add.pte").read_bytes()).plan("backward")
    assert caught.value.hint == "it has: forward"
