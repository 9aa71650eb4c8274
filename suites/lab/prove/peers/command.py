"""`make peers`: other people's tools on the FVP launchers. MLIA reports the cycles that the NPU's model gives itself.

Exit status: 0 every report is right, 1 one is not, 2 unusable arguments, 3 the tool is not installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ethos_hil.base.console import add_row, console, table_of
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.harness.fvp_stand_in.launcher import install
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.harness.verdict.run_delegate import NetworkRunner
from ethos_hil.lowering.formats.npu_network import NetworkTensor, read_tflite
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.suites.lab.prove.tflite.networks import NETWORKS
from ethos_hil.suites.lab.shared import ROOT

PROGRAM = ROOT / "build" / "peers" / "bin" / "mlia"
BACKENDS = (
    ("ethos-u55-256", "corstone-300"),
    ("ethos-u65-512", "corstone-300"),
    ("ethos-u55-256", "corstone-310"),
    ("ethos-u65-512", "corstone-310"),
    ("ethos-u85-256", "corstone-320"),
)
"""MLIA's names of NPUs, and of the FVPs that have them."""
MODES = {"ethos-u55-256": "Shared_Sram", "ethos-u65-512": "Dedicated_Sram", "ethos-u85-256": "Dedicated_Sram"}
"""Vela's memory modes, as MLIA's profiles have them."""
APPLICATIONS = PROGRAM.parents[1] / "lib/python3.11/site-packages/mlia/resources/backends/applications"
"""Arm's runners: one for each system, framework and NPU."""
_MODELS = Path("models") / "Linux64_GCC-9.3"
"""Where Arm's archives of FVPs have their executables."""
_SECONDS = 300
_LAST = 400  # characters of what it printed last


@dataclass(frozen=True)
class MliaReport:
    """What MLIA reports of a network.

    Attributes:
        cycles: of the NPU, as the runner counted them.
        compiled: the .tflite that its Vela wrote.
    """

    cycles: int
    compiled: Path


class Mlia:
    """MLIA with a home folder of its own, and the launchers installed as its Corstones."""

    def __init__(self, home: Path) -> None:
        """Install the launchers with `mlia backend install`. Raises ToolError."""
        self._home = home
        package = home / "package"
        (package / _MODELS).mkdir(parents=True)
        (package / "python").mkdir()  # of the Corstone-320's archive
        install(package / _MODELS)
        options = ("--path", str(package), "--accept-eula", "--noninteractive")
        for backend in sorted({backend for _, backend in BACKENDS}):
            self._call("backend", "install", backend, *options)

    def check(self, network: Path, profile: str, backend: str) -> MliaReport:
        """Return what `mlia check --performance` reports. Raises ToolError.

        Args:
            network: the .tflite.
            profile, backend: MLIA's names of the NPU and of the FVP, one of BACKENDS.
        """
        output = self._home / "out" / f"{network.stem}-{profile}-{backend}"
        output.mkdir(parents=True)
        options = ("--performance", "--noninteractive", "--json", "--output-dir", str(output))
        text = self._call("check", str(network), "-t", profile, "-b", backend, *options)
        try:
            cycles = _metric(json.loads(text[text.index("{") :]), "npu_total_cycles")
        except (ValueError, KeyError) as error:
            raise ToolError(f"MLIA's report of {network.name} cannot be read: {error}") from error
        return MliaReport(cycles, output / "mlia-output" / f"{network.stem}_vela.tflite")

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


def _metric(report: dict[str, Any], name: str) -> int:
    metrics: Sequence[dict[str, Any]] = report["results"][0]["metrics"]
    return int(next(metric["value"] for metric in metrics if metric["name"] == name))


SAMPLE = (
    "network: inverted residuals",
    "network: hourglass",
    "network: keywords int16",
    "network: lstm classifier",
    "conv 3x3 int8",
    "fully connected int8",
    "softmax int8",
    "mean of columns",
)


def main(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FILE]...", help="Networks (.tflite); default: small ones."),
    ] = None,
) -> None:
    """Run `mlia check --performance` on the launchers, and compare its cycles with the NPU's model."""
    table = table_of("network", "NPU", "FVP", "MLIA: cycles", "here: cycles", "")
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as name, Live() as live:
        folder = Path(name)
        networks = list(files) if files else made(folder)
        missing = [path for path in networks if not path.is_file()]
        if missing:
            raise UsageError(f"no such file: {missing[0]}")
        live.stage("Installing the launchers in MLIA")
        mlia = Mlia(folder)
        for path in networks:
            for profile, backend in BACKENDS:
                live.stage(f"MLIA checks {path.stem} on {profile}, {backend}")
                try:
                    report = mlia.check(path.resolve(), profile, backend)
                    actual, expected = f"{report.cycles:,}", f"{cycles(report, profile):,}"
                    ending = "equal" if actual == expected else "different"
                except ToolError as error:
                    actual, expected, ending = "", "", error.message
                wrong += ending != "equal"
                add_row(table, path.stem, profile, backend, actual, expected, ending)
    console().print(table)
    if wrong:
        raise typer.Exit(1)


def made(folder: Path) -> list[Path]:
    """Write the networks of the sample."""
    paths = []
    for name in SAMPLE:
        path = folder / f"{name.replace(': ', '_').replace(' ', '_')}.tflite"
        path.write_bytes(NETWORKS[name].tflite)
        paths.append(path)
    return paths


def cycles(report: MliaReport, profile: str) -> int:
    """Return the modelled cycles of what MLIA's Vela compiled. Raises ToolError where it left operators to the CPU."""
    model = read_tflite(report.compiled.read_bytes(), str(report.compiled))
    if model.others or len(model.networks) != 1:
        raise ToolError(f"{model.others} operators are left to the CPU, {len(model.networks)} parts are for the NPU")
    runner = NetworkRunner(model.networks[0], mode=MemoryMode(MODES[profile]))
    return runner.run([_zeros(tensor) for tensor in model.networks[0].inputs])[1].cycles


def _zeros(tensor: NetworkTensor) -> np.ndarray:
    return np.zeros(tensor.shape, tensor.dtype)
