"""The time of one test that starts a launcher, from process start to verdict.

It runs `executor_runner` on the launcher as upstream's tests do, several times, and says where the time of the fastest
run went: other work on the machine only ever adds time. QEMU's boot is measured by itself, with a program that ends at
once. The other parts are what `--stat` says.

    python -m ethos_hil.suites.lab.self_bench.launcher RUNNER.elf PROGRAM.pte INPUT.bin...

times your own runner.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from ethos_hil.base.errors import ToolError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.fvp_stand_in.launcher import install
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.socs.registry import fvp_model
from ethos_hil.harness.socs.soc import Fvp
from ethos_hil.harness.terminal.console import console
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.harness.virtual.mps3_an547 import MACHINE
from ethos_hil.harness.virtual.qemu import find_qemu
from ethos_hil.lowering.lower import lower
from ethos_hil.suites.lab.command import start
from ethos_hil.suites.lab.self_bench.figure import BenchPart, Figure, at_most, table

LIMIT = at_most(0.5)
"""Seconds beyond QEMU's boot, the NPU model and the program with its semihosting."""
_RUNS = 5
_TIMEOUT = 120.0
_ROW = re.compile(r"^ *(.+?) +: ([0-9.]+)s$", re.MULTILINE)
_ENDS_AT_ONCE = (
    b"\x00\x00\x08\x30\x09\x00\x00\x00"  # stack, and the entry at 8
    b"\x18\x20\x01\x49\xab\xbe\x00\x00"  # MOVS r0, #SYS_EXIT; LDR r1, [PC, #4]; BKPT 0xAB
    b"\x26\x00\x02\x00"  # ADP_Stopped_ApplicationExit
)
"""A raw image."""


@dataclass(frozen=True)
class LauncherTimes:
    """Seconds of one run.

    Attributes:
        total: from process start to verdict.
        boot: of QEMU, by itself.
        launch: QEMU's boot and the imports beside it.
        program: the program with its semihosting.
        accesses: register accesses, without the NPU's jobs.
        model: the NPU's jobs.
    """

    total: float
    boot: float
    launch: float
    program: float
    accesses: float
    model: float

    @property
    def process(self) -> float:
        """The rest: start and end of the process, and the verdict."""
        return self.total - self.launch - self.program - self.accesses - self.model

    @property
    def over(self) -> float:
        """The time that counts against the limit."""
        return self.total - self.boot - self.program - self.model

    def table(self) -> str:
        """Return the times as a text table."""
        rows = (
            ("process start and end, verdict", self.process),
            ("QEMU boot, by itself", self.boot),
            ("imports beyond QEMU's boot", self.launch - self.boot),
            ("program and semihosting", self.program),
            ("register accesses", self.accesses),
            ("NPU model", self.model),
            ("total", self.total),
            (f"over boot, program and NPU model (limit {LIMIT.limit:g})", self.over),
        )
        return "".join(f"{name:55} {seconds:7.3f} s\n" for name, seconds in rows)


def measure(
    runner: Path, program: bytes, inputs: Sequence[bytes], outputs: Sequence[bytes] | None = None
) -> LauncherTimes:
    """Time the fastest of several runs.

    Args:
        runner: an ELF that behaves as upstream's arm_executor_runner, for the Corstone-300.
        program: a .pte for ethos-u55-128.
        inputs: raw bytes of each of its inputs.
        outputs: of each of its outputs, to compare with.

    Raises:
        ToolError: a run failed, or had other outputs.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        install(folder / "bin")
        model = fvp_model("corstone-300", "ethos-u55-128")
        assert model is not None
        command = _command(model.fvp, folder, runner, program, inputs)
        boot = min(_boot(folder) for _ in range(_RUNS))
        return min((_once(command, folder, outputs, boot) for _ in range(_RUNS)), key=lambda budget: budget.over)


def _command(fvp: Fvp, folder: Path, runner: Path, program: bytes, inputs: Sequence[bytes]) -> list[str]:
    (folder / "program.pte").write_bytes(program)
    line = "executor_runner -m program.pte -o out"
    for index, data in enumerate(inputs):
        (folder / f"i{index}.bin").write_bytes(data)
        line += f" -i i{index}.bin"
    cpu = fvp.cpu_path
    settings = (
        f"{fvp.npu_path}.num_macs=128",
        f"{fvp.board_path}.uart0.out_file='-'",
        f"{cpu}.semihosting-enable=1",
        f"{cpu}.semihosting-stack_base=0",
        f"{cpu}.semihosting-heap_limit=0",
        f"{cpu}.semihosting-cwd={folder}",
        f"{fvp.npu_path}.extra_args='--fast'",
        f"{cpu}.semihosting-cmd_line='{line}'",
    )
    options = [word for setting in settings for word in ("-C", setting)]
    return [str(folder / "bin" / fvp.executable), *options, "-a", str(runner), "--timelimit", "60", "--stat"]


def _boot(folder: Path) -> float:
    image = folder / "ends.bin"
    image.write_bytes(_ENDS_AT_ONCE)
    options = ["-nodefaults", "-display", "none", "-monitor", "none", "-serial", "null"]
    semihosting = ["-semihosting-config", "enable=on,target=native"]
    command = [find_qemu(), "-M", MACHINE, *options, *semihosting, "-kernel", str(image)]
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT, check=False)
    if done.returncode != 0:
        raise ToolError(f"QEMU did not run a program that ends at once: {done.stderr.decode(errors='replace')}")
    return time.perf_counter() - started


def _once(command: list[str], folder: Path, outputs: Sequence[bytes] | None, boot: float) -> LauncherTimes:
    started = time.perf_counter()
    done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT, check=False)
    wrong = [i for i, right in enumerate(outputs or ()) if (folder / f"out-{i}.bin").read_bytes() != right]
    total = time.perf_counter() - started
    if done.returncode != 0 or wrong:
        output = (done.stdout + done.stderr).decode(errors="replace")
        raise ToolError(f"the run ended with status {done.returncode}, wrong outputs {wrong}: {output}")
    rows = {name: float(seconds) for name, seconds in _ROW.findall(done.stdout.decode())}
    return LauncherTimes(
        total,
        boot,
        rows["QEMU boot and imports"],
        rows["program and semihosting"],
        rows["register accesses"],
        rows["NPU model"],
    )


def measure_digits(live: Live) -> BenchPart:
    """Measure what the launcher adds to a run of the digits model on our own firmware."""
    live.stage("Timing runs of a launcher")
    artifact = lower("ethos_hil.suites.models.digits:digits", EthosU.parse("ethos-u55-128"))
    with tempfile.TemporaryDirectory() as folder:
        runner = Path(folder) / "runner.elf"
        runner.write_bytes(find_firmware())
        inputs = [np.ascontiguousarray(values).tobytes() for values in artifact.example_inputs]
        return part(measure(runner, artifact.pte, inputs))


def part(times: LauncherTimes) -> BenchPart:
    """Return the figures of a run."""
    names = [field.name for field in fields(times)]
    provenance = f"wall, of the fastest of {_RUNS} runs"
    figure = Figure("a launcher, beyond QEMU's boot, program and NPU model", times.over, "s", provenance, LIMIT)
    return BenchPart((figure,), (times.table(),), {name: getattr(times, name) for name in names})


def main(
    runner: Annotated[Path, typer.Argument(metavar="RUNNER.elf", help="Behaves as upstream's arm_executor_runner.")],
    program: Annotated[Path, typer.Argument(metavar="PROGRAM.pte", help="For ethos-u55-128.")],
    inputs: Annotated[
        list[Path] | None, typer.Argument(metavar="INPUT.bin...", help="Raw bytes of each input.")
    ] = None,
) -> None:
    """Time a runner on the launcher. Exit status 1 when the launcher adds more than its limit."""
    result = part(measure(runner, program.read_bytes(), [path.read_bytes() for path in inputs or ()]))
    console().print(*result.details, table("launcher", result.figures), sep="\n")
    raise typer.Exit(int(any(figure.short for figure in result.figures)))


if __name__ == "__main__":
    start(main)
