"""Protects that other people's tools run on the FVP launchers, unchanged."""

from __future__ import annotations

from pathlib import Path

import pytest

from ethos_hil.lowering.errors import ToolError
from ethos_hil.suites.lab.peers import mlia as peer
from ethos_hil.suites.lab.peers.__main__ import cycles
from ethos_hil.suites.lab.peers.mlia import Mlia
from ethos_hil.suites.lab.tflite.networks import NETWORKS

HERE = pytest.mark.skipif(not peer.PROGRAM.exists(), reason="needs MLIA: make build/peers/.installed")


@pytest.fixture(scope="module")
def mlia(tmp_path_factory: pytest.TempPathFactory) -> Mlia:
    return Mlia(tmp_path_factory.mktemp("mlia"))


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "net.tflite"
    path.write_bytes(NETWORKS["fully connected int8"].tflite)
    return path


@HERE
@pytest.mark.parametrize("profile", peer.BACKENDS)
def test_mlia_reports_the_cycles_that_the_npu_gives_itself(mlia: Mlia, network: Path, profile: str) -> None:
    report = mlia.check(network, profile)
    assert report.cycles == cycles(report, profile) > 0


@HERE
def test_a_launcher_that_fails_is_seen(tmp_path: Path, network: Path) -> None:
    broken = Mlia(tmp_path / "home")
    for launcher in (tmp_path / "home" / ".mlia" / "backends" / "corstone_300").iterdir():
        launcher.write_text("#!/bin/sh\necho Error: the board is broken\nexit 1\n")
    with pytest.raises(ToolError, match="mlia check ended with status 1"):
        broken.check(network, "ethos-u55-256")


def test_without_mlia_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "PROGRAM", tmp_path / "mlia")
    with pytest.raises(ToolError, match="MLIA is not installed") as caught:
        Mlia(tmp_path / "home")
    assert caught.value.hint == "run: make peers"
