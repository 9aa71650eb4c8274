"""Everything that must turn red when it is broken, end to end. A guard that was never red guards nothing.

Breakages of the simulator itself (missing, killed, hung, a bit flipped on the wire, an NPU that never finishes) are in
harness/virtual/tests and harness/link/tests.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from ethos_hil.base.errors import EthosHilError, OracleError, TargetError, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.verdict import Failure
from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.link.outcome import Outcome, Progress
from ethos_hil.harness.npu import Fault, Npu
from ethos_hil.harness.npu.isa.registers import Opcode
from ethos_hil.harness.npu.isa.stream import commands
from ethos_hil.harness.run import find_firmware, run, run_artifact
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.verdict.findings import Report
from ethos_hil.harness.verdict.run_delegate import run_delegate
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.formats.pte_model import KernelCall
from ethos_hil.lowering.formats.vela_blob import VelaBlob
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import TorchModel, from_module
from ethos_hil.suites.models.tests.stacks import STACKS
from ethos_hil.suites.tests.broken_reference import MISSING, UNPREDICTABLE, reference_model_is

NPU = EthosU.parse("ethos-u55-128")


def model() -> TorchModel:
    return from_module(*STACKS["plain"].example(0), label="plain-0")


def one_layer() -> TorchModel:
    """A model that lowers quickly and is always the same."""
    torch.manual_seed(0)
    return from_module(nn.Linear(4, 3), (torch.zeros(1, 4),), label="linear")


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    return lower(model(), NPU)


def execute(artifact: Artifact, board: VirtualTarget | None = None) -> Report:
    return run_artifact(artifact, board or VirtualTarget(str(NPU)), Question("plain-0"))


def with_blob(artifact: Artifact, change: Callable[[bytearray], None]) -> Artifact:
    """Return the artifact with its delegate blob changed inside the .pte; the reference is unchanged."""
    blob = artifact.delegates[0].vela
    changed = bytearray(blob)
    change(changed)
    assert len(changed) == len(blob) != changed.count(blob)
    assert artifact.pte.count(blob) == 1
    return dataclasses.replace(artifact, pte=artifact.pte.replace(blob, bytes(changed)))


def test_unbroken_it_is_green(artifact: Artifact) -> None:
    """Without this, none of the tests below would mean anything."""
    assert execute(artifact).record.verdict == "verified"


def missing(*_args: object, **_kwargs: object) -> bytes:
    raise FileNotFoundError("vela")


@pytest.mark.parametrize(
    ("compiler", "message"), [(lambda *_args, **_kwargs: bytes(64), ""), (missing, "vela")], ids=["zeros", "raises"]
)
def test_a_compiler_that_returns_zeros_or_raises_is_red(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compiler: Callable[..., bytes], message: str
) -> None:
    from executorch.backends.arm.ethosu import backend

    monkeypatch.setattr(backend, "vela_compile", compiler)
    with pytest.raises(EthosHilError, match=message):
        lower(one_layer(), NPU, cache=Cache(tmp_path))


def test_a_delegate_blob_of_zeros_is_red_on_the_device(artifact: Artifact) -> None:
    def zero(blob: bytearray) -> None:
        blob[:64] = bytes(64)

    with pytest.raises(TargetError) as caught:
        execute(with_blob(artifact, zero))
    assert "refuses the program" in caught.value.message


def command_stream_start(blob: bytes | bytearray) -> int:
    """Return the offset in the blob of the first command word: it follows the stream's own header in cmd_data."""
    start = blob.index(b"COP1")
    return start + 32


def test_a_missing_wait_is_red_where_it_is_looked_for(artifact: Artifact) -> None:
    """The functional NPU runs operations in order, so that only a strict one notices."""

    def wait_for_nothing(blob: bytearray) -> None:
        stream = VelaBlob.parse(bytes(blob)).command_stream
        start = bytes(blob).index(stream)
        waits = [at for at, code, _, payload in commands(stream) if code == Opcode.DMA_WAIT and payload is None]
        struct.pack_into("<HH", blob, start + waits[-1], Opcode.DMA_WAIT, 0xF)

    changed = with_blob(artifact, wait_for_nothing)
    assert execute(changed).record.verdict == "verified"
    with pytest.raises(TargetError, match=r"missing: DMA_WAIT") as caught:
        execute(changed, VirtualTarget(str(NPU), strict=True))
    assert caught.value.kind == "hazard"
    assert execute(artifact, VirtualTarget(str(NPU), strict=True)).record.verdict == "verified"


def flipped(data: bytes, place: int, bit: int) -> bytes:
    changed = bytearray(data)
    changed[place] ^= 1 << bit
    return bytes(changed)


def answer(blob: VelaBlob, inputs: list[bytes]) -> tuple[bytes, ...]:
    return run_delegate(Npu(EthosU.parse(str(NPU))), blob, inputs).outputs


def flip_that_matters(blob: VelaBlob, inputs: list[bytes]) -> int:
    """Return a byte of the compressed weights in which one flipped bit decodes, and changes the answer to these inputs.

    Not every flip does: a weight that is off by one may vanish in the output's eight bits.
    """
    right = answer(blob, inputs)
    for place in range(len(blob.weights) // 2, len(blob.weights)):
        try:
            wrong = answer(dataclasses.replace(blob, weights=flipped(blob.weights, place, 2)), inputs)
        except Fault:
            continue
        if wrong != right:
            return place
    raise AssertionError("no flip in the weights changes the answer")


@pytest.mark.parametrize("part", ["bias", "multiplier", "weights"])
def test_one_bit_flipped_in_the_weights_is_red(artifact: Artifact, part: str) -> None:
    """Return the first layer's scale record (40-bit bias, 32-bit multiplier, shift), and compressed weights."""
    compiled = artifact.delegates[0].blob
    place = {"bias": 1, "multiplier": 8}.get(part) or flip_that_matters(compiled, delegate_inputs(artifact))

    def flip(blob: bytearray) -> None:
        blob[blob.index(compiled.weights) + place] ^= 1 << (2 if part == "weights" else 5)

    assert_red(with_blob(artifact, flip))


def delegate_inputs(artifact: Artifact) -> list[bytes]:
    """Return the output of the quantise kernel before the delegate for the example inputs."""
    call = next(step for step in artifact.plan.instructions if isinstance(step, KernelCall))
    values = [artifact.plan.values[index] for index in call.args]
    scale, zero_point, lowest, highest = (float(value) for value in values[1:5])  # type: ignore[arg-type]
    quantised = np.round(artifact.example_inputs[0] * np.float32(1 / scale)) + zero_point
    return [np.clip(quantised, lowest, highest).astype(np.int8).tobytes()]


@pytest.mark.parametrize(
    "opcode", [0x100, 0x104, 0x111, 0x12F], ids=["pad", "ifm depth", "ofm width", "block dependency"]
)
def test_one_bit_flipped_in_the_command_stream_is_red(artifact: Artifact, opcode: int) -> None:
    """Change a register's value; the NPU's own tests cover an opcode that then names no register."""
    stream = artifact.delegates[0].blob.command_stream
    words = struct.unpack(f"<{len(stream) // 4}I", stream)
    places = [index for index, word in enumerate(words) if word & 0xC3FF == opcode]
    if opcode == 0x12F:
        # A sequential model ignores it by design, so flip the opcode itself.
        places, bit = [index for index, word in enumerate(words) if word & 0xFFFF == 0x12F], 5
    else:
        bit = 16
    assert places, "the stream sets no such register"

    def flip(blob: bytearray) -> None:
        place = command_stream_start(blob) + 4 * places[0] + bit // 8
        blob[place] ^= 1 << bit % 8

    assert_red(with_blob(artifact, flip))


def assert_red(artifact: Artifact) -> None:
    try:
        failure = execute(artifact).record.failure
    except TargetError as error:
        failure = Failure(error.kind, error.message)
    assert failure is not None, "verified"
    assert failure.kind in ("mismatch", "fault", "timeout", "unsupported", "npu-mismatch")


def test_a_bit_flipped_in_the_loaded_image_is_red(artifact: Artifact) -> None:
    """The change comes after packing: the device's own check of the package must see it."""

    class Flipping(VirtualTarget):
        def load(self, image: Image) -> None:
            elf = bytearray(image.elf)
            place = elf.index(artifact.delegates[0].vela) + 4000
            elf[place] ^= 1
            super().load(dataclasses.replace(image, elf=bytes(elf)))

    with pytest.raises(TargetError) as caught:
        execute(artifact, Flipping(str(NPU)))
    assert (caught.value.kind, "damaged" in caught.value.message) == ("link", True)


@pytest.mark.parametrize(("text", "message"), [(MISSING, "cannot be imported"), (UNPREDICTABLE, "TOSA_UNPREDICTABLE")])
def test_a_reference_model_that_is_missing_or_unpredictable_is_red(
    tmp_path: Path, artifact: Artifact, text: str, message: str
) -> None:
    with reference_model_is(text, tmp_path), pytest.raises(OracleError, match=message) as caught:
        run(Question(model(), npu=str(NPU)))
    assert caught.value.kind == "no-reference"


class Answering(VirtualTarget):
    """A virtual board that gets one image and boots another, like a board whose flashing failed."""

    def __init__(self, instead: Callable[[Image], Image]) -> None:
        super().__init__(str(NPU))
        self.instead = instead

    def _run(self, image: Image, *, timeout: float, progress: Progress | None) -> Outcome:
        other = dataclasses.replace(image, elf=self.instead(image).elf)
        return super()._run(other, timeout=timeout, progress=progress)


def test_an_answer_to_an_earlier_run_is_red(artifact: Artifact) -> None:
    """The same program and inputs, packed for an earlier run: everything is right except that it is old."""
    earlier: list[Image] = []

    class Recording(VirtualTarget):
        def load(self, image: Image) -> None:
            earlier.append(image)
            super().load(image)

    execute(artifact, Recording(str(NPU)))
    with pytest.raises(TargetError) as caught:
        execute(artifact, Answering(lambda _: earlier[0]))
    assert caught.value.kind == "stale-output"


def test_an_image_with_another_program_is_red(artifact: Artifact) -> None:
    """Even with the right run id: the device reports the program that it really runs."""
    from ethos_hil.harness.image.formats import PackageHeader
    from ethos_hil.harness.image.pack import pack

    other = lower(from_module(*STACKS["plain"].example(1), label="plain-1"), NPU)

    def repacked(asked: Image) -> Image:
        inputs = [other.example_inputs[0].tobytes()]
        image = pack(find_firmware(), other.pte, [inputs], asked.plan)
        return restamped(image, run_id=asked.run_id)

    def restamped(image: Image, run_id: bytes) -> Image:
        import zlib

        start = image.elf.rindex(b"EHILPKG\0")  # the firmware itself contains the magic, too
        header = PackageHeader.unpack(image.elf, start)
        header["run_id"], header["crc32"] = run_id, 0
        end = PackageHeader.offset_of("crc32")
        body = image.elf[start + PackageHeader.size : start + header["total_size"]]
        header["crc32"] = zlib.crc32(body, zlib.crc32(PackageHeader.pack(header)[:end]))
        elf = image.elf[:start] + PackageHeader.pack(header) + image.elf[start + PackageHeader.size :]
        return dataclasses.replace(image, elf=elf, run_id=run_id)

    with pytest.raises(TargetError) as caught:
        execute(artifact, Answering(repacked))
    assert caught.value.kind == "wrong-program"


def test_a_missing_simulator_is_told_before_lowering(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ETHOS_HIL_QEMU", str(tmp_path / "absent"))
    monkeypatch.setenv("ETHOS_HIL_CACHE", str(tmp_path / "cache"))
    with pytest.raises(EthosHilError, match="QEMU") as caught:
        run(Question(model(), npu=str(NPU)))
    assert (caught.value.kind, caught.value.exit_status) == ("not-launched", 3)
    assert not (tmp_path / "cache").exists()


def test_a_cache_entry_that_was_tampered_with_is_made_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    first = lower(one_layer(), NPU, cache=cache)
    (entry,) = tmp_path.rglob("model.pte")
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 1
    entry.write_bytes(bytes(data))
    assert lower(one_layer(), NPU, cache=cache).pte == first.pte
    (entry.parent / "artifact.json").write_text("{}")
    with pytest.raises(UsageError):
        Artifact.load(entry.parent)
