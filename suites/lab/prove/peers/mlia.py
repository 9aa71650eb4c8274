"""MLIA, Arm's advisor for models on Ethos-U, in an environment of its own, with the FVP launchers in place of FVPs.

It compiles a .tflite with its own Vela, and runs the result on a Corstone FVP with a runner that Arm built
(mlek_inference_runner.axf, which the package mlia-ethos-u ships). Nothing of it is changed or replaced.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ethos_hil.base.errors import ToolError
from ethos_hil.harness.fvp_stand_in.launcher import install

ROOT = Path(__file__).resolve().parents[4]
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
