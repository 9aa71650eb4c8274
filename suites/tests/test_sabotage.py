"""Everything that must turn red when it is broken, end to end. A guard that was never red guards nothing.

Breakages of the simulator itself (missing, killed, hung, a bit flipped on the wire, an NPU that never finishes) are in
harness/virtual/tests and harness/link/tests.
"""

from __future__ import annotations

import dataclasses
import functools
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from ethos_hil.base.errors import EthosHilError, OracleError, TargetError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.verdict import Failure
from ethos_hil.harness.image.pack import Image, pack
from ethos_hil.harness.npu.isa.registers import Opcode
from ethos_hil.harness.npu.isa.stream import commands
from ethos_hil.harness.run import find_firmware, run, run_artifact
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.verdict.findings import Report
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.formats.vela_blob import VelaBlob
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import TorchModel, from_module
from ethos_hil.suites.models.tests.stacks import example
from ethos_hil.suites.tests.sabotage import MISSING, UNPREDICTABLE, reference_model_is

NPU = EthosU.parse("ethos-u55-128")


def model() -> TorchModel:
    return from_module(*example("plain", 0), label="plain-0")


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


def test_without_a_suite_a_compiler_that_returns_zeros_is_red(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One that raises is in test_sabotaged_suites.py."""
    from executorch.backends.arm.arm_vela import VelaCompileResult
    from executorch.backends.arm.ethosu import backend

    monkeypatch.setattr(backend, "vela_compile", lambda *_args, **_kwargs: VelaCompileResult(bytes(64)))
    with pytest.raises(EthosHilError):
        lower(from_module(nn.Linear(4, 3), (torch.zeros(1, 4),), label="linear"), NPU, cache=Cache(tmp_path))


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


def register(opcode: int, bit: int = 16, mask: int = 0xC3FF) -> Callable[[Artifact], tuple[int, int]]:
    """Return where the first command is that sets a register, and a bit of it. By default it is one of the value."""

    def place(artifact: Artifact) -> tuple[int, int]:
        words = np.frombuffer(artifact.delegates[0].blob.command_stream, "<u4")
        first = int(np.flatnonzero((words & mask) == opcode)[0])
        # The first command word in the blob follows the stream's own header in cmd_data.
        return artifact.delegates[0].vela.index(b"COP1") + 32 + 4 * first + bit // 8, bit % 8

    return place


def scale_record(offset: int, bit: int) -> Callable[[Artifact], tuple[int, int]]:
    """Return a place in the first layer's scale record: 40-bit bias, 32-bit multiplier, shift."""
    return lambda artifact: (artifact.delegates[0].vela.index(artifact.delegates[0].blob.weights) + offset, bit)


FLIPS: dict[str, Callable[[Artifact], tuple[int, int]]] = {
    "bias": scale_record(1, 5),
    "multiplier": scale_record(8, 5),
    "pad": register(0x100),
    "ifm depth": register(0x104),
    "ofm width": register(0x111),
    # A sequential model ignores its value by design; here it is the opcode itself, which then names no register.
    "block dependency": register(0x12F, 5, 0xFFFF),
}


@pytest.mark.parametrize("name", FLIPS)
def test_one_bit_flipped_in_the_compiled_delegate_is_red(artifact: Artifact, name: str) -> None:
    byte, bit = FLIPS[name](artifact)

    def flip(blob: bytearray) -> None:
        blob[byte] ^= 1 << bit

    try:
        failure = execute(with_blob(artifact, flip)).record.failure
    except TargetError as error:
        failure = Failure(error.kind, error.message)
    assert failure is not None, "verified"
    assert failure.kind in ("mismatch", "fault", "timeout", "unsupported", "npu-mismatch")


@pytest.mark.parametrize(("text", "message"), [(MISSING, "cannot be imported"), (UNPREDICTABLE, "TOSA_UNPREDICTABLE")])
def test_a_reference_model_that_is_missing_or_unpredictable_is_red(tmp_path: Path, text: str, message: str) -> None:
    with reference_model_is(text, tmp_path), pytest.raises(OracleError, match=message) as caught:
        run(Question(model(), npu=str(NPU)))
    assert caught.value.kind == "no-reference"


class Answering(VirtualTarget):
    """A virtual board that gets one image and boots another, like a board whose flashing failed."""

    def __init__(self, instead: Callable[[Image], bytes]) -> None:
        super().__init__(str(NPU))
        self.instead = instead

    def load(self, image: Image) -> None:
        super().load(dataclasses.replace(image, elf=self.instead(image)))


def damaged(artifact: Artifact, asked: Image) -> bytes:
    """After packing: the device's own check of the package must see it."""
    elf = bytearray(asked.elf)
    elf[elf.index(artifact.delegates[0].vela) + 4000] ^= 1
    return bytes(elf)


def of_an_earlier_run(artifact: Artifact, asked: Image) -> bytes:
    """The same program and inputs: everything is right except that it is old."""
    return pack(find_firmware(), artifact.pte, [[artifact.example_inputs[0].tobytes()]], asked.plan).elf


def of_another_program(_: Artifact, asked: Image) -> bytes:
    """Even with the right run id: the device reports the program that it really runs."""
    other = lower(from_module(*example("plain", 1), label="plain-1"), NPU)
    inputs = [[other.example_inputs[0].tobytes()]]
    return pack(find_firmware(), other.pte, inputs, asked.plan, run_id=asked.run_id).elf


@pytest.mark.parametrize(
    ("instead", "kind", "message"),
    [
        (damaged, "link", "damaged"),
        (of_an_earlier_run, "stale-output", "belongs to another run"),
        (of_another_program, "wrong-program", "the device runs another image"),
    ],
)
def test_an_image_that_is_not_the_one_that_was_packed_is_red(
    artifact: Artifact, instead: Callable[[Artifact, Image], bytes], kind: str, message: str
) -> None:
    with pytest.raises(TargetError, match=message) as caught:
        execute(artifact, Answering(functools.partial(instead, artifact)))
    assert caught.value.kind == kind


def test_a_missing_simulator_is_told_before_lowering(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ETHOS_HIL_QEMU", str(tmp_path / "absent"))
    monkeypatch.setenv("ETHOS_HIL_CACHE", str(tmp_path / "cache"))
    with pytest.raises(EthosHilError, match="QEMU") as caught:
        run(Question(model(), npu=str(NPU)))
    assert (caught.value.kind, caught.value.exit_status) == ("not-launched", 3)
    assert not (tmp_path / "cache").exists()
