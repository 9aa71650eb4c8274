"""Protects that other people's tools run on the FVP launchers, unchanged.

MLIA reports the cycles that the NPU's model gives itself, and Arm's own runners answer as the NPU alone does.
The proofs need `make build/peers/.installed`; `make peers` and `make lab` set it up and run them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ethos_hil.base.errors import ToolError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.fvp_stand_in.launcher import install
from ethos_hil.harness.socs.registry import MODELS
from ethos_hil.harness.verdict.run_delegate import NetworkRunner
from ethos_hil.lowering.formats.npu_network import read_tflite
from ethos_hil.lowering.testing.tflite_graph import compile_tflite
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.suites.lab.prove.tflite.networks import NETWORKS
from ethos_hil.suites.lab.shared import ROOT

AXF = "mlek_inference_runner.axf"
PROGRAM = ROOT / "build" / "peers" / "bin" / "mlia"
RUNNERS = (
    ("ethos-u55-256", "corstone-300", "FVP_Corstone_SSE-300_Ethos-U55", "sse-300-26.03.0-tflm-ethos-U55"),
    ("ethos-u65-512", "corstone-300", "FVP_Corstone_SSE-300_Ethos-U65", "sse-300-26.03.0-tflm-ethos-U65"),
    ("ethos-u55-256", "corstone-310", "FVP_Corstone_SSE-310", "sse-310-26.03.0-tflm-ethos-U55"),
    ("ethos-u65-512", "corstone-310", "FVP_Corstone_SSE-310_Ethos-U65", "sse-310-26.03.0-tflm-ethos-U65"),
    ("ethos-u85-256", "corstone-320", "FVP_Corstone_SSE-320", "sse-320-26.03.0-tflm-ethos-U85"),
)
"""MLIA's names of NPUs and of the FVPs that have them, the FVPs' executables, and Arm's runners on them."""
MODES = {"ethos-u55-256": "Shared_Sram", "ethos-u65-512": "Dedicated_Sram", "ethos-u85-256": "Dedicated_Sram"}
"""Vela's memory modes, as MLIA's profiles have them."""
PACKAGES = PROGRAM.parents[1] / f"lib/python3.{sys.version_info[1]}/site-packages"
APPLICATIONS = PACKAGES / "mlia/resources/backends/applications"
"""Arm's runners: one for each system, framework and NPU."""
_MODELS = Path("models") / "Linux64_GCC-9.3"
"""Where Arm's archives of FVPs have their executables."""
_SECONDS = 300
_LAST = 400  # characters of what it printed last


class Mlia:
    """MLIA with a home folder of its own, and the launchers installed as its Corstones with `mlia backend install`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        package = home / "package"
        (package / _MODELS).mkdir(parents=True)
        (package / "python").mkdir()  # of the Corstone-320's archive
        install(package / _MODELS)
        options = ("--path", str(package), "--accept-eula", "--noninteractive")
        for backend in sorted({backend for _, backend, _, _ in RUNNERS}):
            self._call("backend", "install", backend, *options)

    def check(self, network: Path, profile: str, backend: str) -> tuple[int, Path]:
        """Return the NPU's cycles that `mlia check --performance` reports, and the .tflite that its Vela wrote."""
        output = self._home / "out" / f"{network.stem}-{profile}-{backend}"
        output.mkdir(parents=True)
        options = ("--performance", "--noninteractive", "--json", "--output-dir", str(output))
        text = self._call("check", str(network), "-t", profile, "-b", backend, *options)
        metrics = json.loads(text[text.index("{") :])["results"][0]["metrics"]
        cycles = next(metric["value"] for metric in metrics if metric["name"] == "npu_total_cycles")
        return int(cycles), output / "mlia-output" / f"{network.stem}_vela.tflite"

    def _call(self, *arguments: str) -> str:
        if not PROGRAM.exists():
            raise ToolError("MLIA is not installed", hint="run: make peers")
        path = f"{PROGRAM.parent}:{os.environ['PATH']}"
        # Its Vela is in its environment already; pip must not fetch another one.
        environment = {**os.environ, "HOME": str(self._home), "PATH": path, "PIP_NO_INDEX": "1"}
        done = subprocess.run(
            [PROGRAM, *arguments], env=environment, capture_output=True, text=True, timeout=_SECONDS, cwd=self._home
        )
        if done.returncode:
            output = " ".join((done.stdout + done.stderr).split())[-_LAST:]
            raise ToolError(f"mlia {arguments[0]} ended with status {done.returncode}: {output}")
        return done.stdout


@pytest.fixture(scope="module")
def mlia(tmp_path_factory: pytest.TempPathFactory) -> Mlia:
    return Mlia(tmp_path_factory.mktemp("mlia"))


def written(folder: Path, name: str) -> Path:
    """Write a network of the catalogue as a file."""
    path = folder / f"{name.replace(': ', '_').replace(' ', '_')}.tflite"
    path.write_bytes(NETWORKS[name].tflite)
    return path


@pytest.mark.proof
@pytest.mark.parametrize("name", ["network: inverted residuals", "network: lstm classifier", "softmax int8"])
@pytest.mark.parametrize(("profile", "backend"), [row[:2] for row in RUNNERS])
def test_mlia_reports_the_cycles_that_the_npu_gives_itself(
    mlia: Mlia, tmp_path: Path, profile: str, backend: str, name: str
) -> None:
    cycles, compiled = mlia.check(written(tmp_path, name), profile, backend)
    model = read_tflite(compiled.read_bytes(), str(compiled))
    assert (model.others, len(model.networks)) == (0, 1), "operators are left to the CPU"
    runner = NetworkRunner(model.networks[0], mode=MemoryMode(MODES[profile]))
    inputs = [np.zeros(tensor.shape, tensor.dtype) for tensor in model.networks[0].inputs]
    assert cycles == runner.run(inputs)[1].cycles > 0


MODEL, INPUT, OUTPUT = 0x90000000, 0x92000000, 0x93000000
"""Where Arm's runner expects and leaves them; it says so on its UART."""


@pytest.mark.proof
@pytest.mark.parametrize(("profile", "_backend", "executable", "runner"), RUNNERS)
def test_outputs_of_arms_own_runner_are_those_of_the_npu_alone(
    profile: str, _backend: str, executable: str, runner: str, tmp_path: Path
) -> None:
    """Arm's driver, Arm's runner, and our board: a network goes in by --data, its answer comes out by --dump."""
    model = MODELS[executable].fvp
    name = "fully connected int8"
    install(tmp_path)
    (first, *_) = NETWORKS[name].input_sets()
    mode = MemoryMode(MODES[profile])
    compiled = compile_tflite(NETWORKS[name].tflite, EthosU.parse(profile), mode=mode)
    (tmp_path / "net.tflite").write_bytes(compiled)
    (tmp_path / "in.bin").write_bytes(first[0].tobytes())
    network = read_tflite(compiled, name).networks[0]
    (expected,), _ = NetworkRunner(network).run(first)
    command = [str(tmp_path / executable), "-a", str(APPLICATIONS / f"inference_runner-{runner}-Default-noTA" / AXF)]
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
def test_a_launcher_that_fails_is_seen(tmp_path: Path) -> None:
    broken = Mlia(tmp_path / "home")
    for launcher in (tmp_path / "home" / ".mlia" / "backends" / "corstone_300").iterdir():
        launcher.write_text("#!/bin/sh\necho Error: the board is broken\nexit 1\n")
    with pytest.raises(ToolError, match="mlia check ended with status 1"):
        broken.check(written(tmp_path, "fully connected int8"), "ethos-u55-256", "corstone-300")
