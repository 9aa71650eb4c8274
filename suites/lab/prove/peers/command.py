"""`make peers`: other people's tools on the FVP launchers. MLIA reports the cycles that the NPU's model gives itself.

Exit status: 0 every report is right, 1 one is not, 2 unusable arguments, 3 the tool is not installed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.table import Table

from ethos_hil.base.console import add_row, console
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.harness.verdict.run_delegate import NetworkRunner
from ethos_hil.lowering.formats.npu_network import NetworkTensor, read_tflite
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.suites.lab.prove.peers.mlia import BACKENDS, MODES, Mlia, MliaReport
from ethos_hil.suites.lab.prove.tflite.networks import NETWORKS

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
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("network", "NPU", "FVP", "MLIA: cycles", "here: cycles", ""):
        table.add_column(name)
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
