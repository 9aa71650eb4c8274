"""Protects that other people's tools run on the FVP launchers, unchanged.

The proofs need `make build/peers/.installed`; `make peers` and `make lab` set it up and run them.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ethos_hil.base.errors import ToolError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.fvp_stand_in.launcher import install
from ethos_hil.harness.image.elf_lint import Severity, lint
from ethos_hil.harness.socs.registry import MODELS, find_soc
from ethos_hil.harness.verdict.run_delegate import NetworkRunner
from ethos_hil.harness.virtual.mps3_an547 import RAMS
from ethos_hil.lowering.formats.npu_network import read_tflite
from ethos_hil.lowering.testing.compile_tflite import compile_tflite
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.suites.lab.prove.peers import command as peer
from ethos_hil.suites.lab.prove.peers.command import Mlia, cycles
from ethos_hil.suites.lab.prove.tflite.networks import NETWORKS

AXF = "mlek_inference_runner.axf"


@pytest.fixture(scope="module")
def mlia(tmp_path_factory: pytest.TempPathFactory) -> Mlia:
    return Mlia(tmp_path_factory.mktemp("mlia"))


@pytest.fixture
def network(tmp_path: Path) -> Path:
    path = tmp_path / "net.tflite"
    path.write_bytes(NETWORKS["fully connected int8"].tflite)
    return path


@pytest.mark.proof
@pytest.mark.parametrize(("profile", "backend"), peer.BACKENDS)
def test_mlia_reports_the_cycles_that_the_npu_gives_itself(
    mlia: Mlia, network: Path, profile: str, backend: str
) -> None:
    report = mlia.check(network, profile, backend)
    assert report.cycles == cycles(report, profile) > 0


RUNNERS = (
    ("ethos-u55-256", "FVP_Corstone_SSE-300_Ethos-U55", "sse-300-26.03.0-tflm-ethos-U55"),
    ("ethos-u65-512", "FVP_Corstone_SSE-300_Ethos-U65", "sse-300-26.03.0-tflm-ethos-U65"),
    ("ethos-u55-256", "FVP_Corstone_SSE-310", "sse-310-26.03.0-tflm-ethos-U55"),
    ("ethos-u65-512", "FVP_Corstone_SSE-310_Ethos-U65", "sse-310-26.03.0-tflm-ethos-U65"),
    ("ethos-u85-256", "FVP_Corstone_SSE-320", "sse-320-26.03.0-tflm-ethos-U85"),
)
EXECUTORCH = ("sse-300-26.03.0-executorch-ethos-U55", "sse-320-26.03.0-executorch-ethos-U85")


@pytest.mark.proof
@pytest.mark.parametrize("name", [*(name for _, _, name in RUNNERS), *EXECUTORCH])
def test_the_checks_of_an_elf_find_nothing_that_fails_in_arms_runners(name: str) -> None:
    """They run on parts. What is found is only that the segments of those for the SSE-300 are not in order."""
    elf = (peer.APPLICATIONS / f"inference_runner-{name}-Default-noTA" / AXF).read_bytes()
    soc = name.partition("-26")[0].replace("sse", "corstone")
    flaws = lint(elf, find_soc(soc), RAMS)
    assert [flaw for flaw in flaws if flaw.severity is Severity.ERROR] == []
    assert ["ascending order" in flaw.message for flaw in flaws] == [True] * (soc == "corstone-300")


MODEL, INPUT, OUTPUT = 0x90000000, 0x92000000, 0x93000000
"""Where Arm's runner expects and leaves them; it says so on its UART."""


@pytest.mark.proof
@pytest.mark.parametrize(("profile", "executable", "runner"), RUNNERS, ids=[executable for _, executable, _ in RUNNERS])
def test_outputs_of_arms_own_runner_are_those_of_the_npu_alone(
    profile: str, executable: str, runner: str, tmp_path: Path
) -> None:
    """Arm's driver, Arm's runner, and our board: a network goes in by --data, its answer comes out by --dump."""
    model = MODELS[executable].fvp
    name = "fully connected int8"
    install(tmp_path)
    (first, *_) = NETWORKS[name].input_sets()
    mode = MemoryMode(peer.MODES[profile])
    compiled = compile_tflite(NETWORKS[name].tflite, EthosU.parse(profile), mode=mode, raw=False)
    (tmp_path / "net.tflite").write_bytes(compiled)
    (tmp_path / "in.bin").write_bytes(first[0].tobytes())
    network = read_tflite(compiled, name).networks[0]
    (expected,), _ = NetworkRunner(network).run(first)
    command = [
        str(tmp_path / executable),
        "-a",
        str(peer.APPLICATIONS / f"inference_runner-{runner}-Default-noTA" / AXF),
    ]
    command += ["--data", f"{tmp_path / 'net.tflite'}@{MODEL:#x}", "--data", f"{tmp_path / 'in.bin'}@{INPUT:#x}"]
    command += ["--dump", f"{tmp_path / 'out.bin'}@{OUTPUT:#x},{expected.nbytes}", "--timelimit", "60"]
    settings = {f"{model.npu_path}.num_macs": profile.split("-")[-1], f"{model.board_path}.uart0.out_file": "-"}
    settings[f"{model.board_path}.uart0.shutdown_on_eot"] = "1"
    command += [word for item in settings.items() for word in ("-C", "=".join(item))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Inference completed." in done.stdout
    assert (tmp_path / "out.bin").read_bytes() == expected.tobytes()


@pytest.mark.proof
def test_a_launcher_that_fails_is_seen(tmp_path: Path, network: Path) -> None:
    broken = Mlia(tmp_path / "home")
    for launcher in (tmp_path / "home" / ".mlia" / "backends" / "corstone_300").iterdir():
        launcher.write_text("#!/bin/sh\necho Error: the board is broken\nexit 1\n")
    with pytest.raises(ToolError, match="mlia check ended with status 1"):
        broken.check(network, "ethos-u55-256", "corstone-300")


def test_without_mlia_the_error_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "PROGRAM", tmp_path / "mlia")
    with pytest.raises(ToolError, match="MLIA is not installed") as caught:
        Mlia(tmp_path / "home")
    assert caught.value.hint == "run: make peers"
