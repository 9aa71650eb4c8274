"""Everything that must turn red when it is broken, end to end. A guard that was never red guards nothing.

Breakages of the simulator itself (killed, hung, a bit flipped on the wire, an NPU that never finishes) are in
harness/virtual/tests and harness/link/tests; images that are not those that were packed in harness/targets/contract.py;
values changed in a program in harness/verdict/tests/test_divergence.py; broken oracles in lowering/tests.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from ethos_hil.base.errors import EthosHilError, TargetError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.harness.npu.isa.registers import Opcode
from ethos_hil.harness.npu.isa.stream import commands
from ethos_hil.harness.run import run, run_artifact
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.verdict.findings import Report
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.formats.vela_blob import VelaBlob
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import TorchModel, from_module
from ethos_hil.suites.models.tests.stacks import STACKS

NPU = EthosU.parse("ethos-u55-128")


def model() -> TorchModel:
    return from_module(*STACKS["plain"].example(0), label="plain-0")


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
    from executorch.backends.arm.ethosu import backend

    monkeypatch.setattr(backend, "vela_compile", lambda *_args, **_kwargs: bytes(64))
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


def test_a_missing_simulator_is_told_before_lowering(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ETHOS_HIL_QEMU", str(tmp_path / "absent"))
    monkeypatch.setenv("ETHOS_HIL_CACHE", str(tmp_path / "cache"))
    with pytest.raises(EthosHilError, match="QEMU") as caught:
        run(Question(model(), npu=str(NPU)))
    assert (caught.value.kind, caught.value.exit_status) == ("not-launched", 3)
    assert not (tmp_path / "cache").exists()
