"""Arm's FVPs as targets, driven by their command line alone.

The launchers that `ethos-hil fvp-launchers` writes have the same command line, and are driven in the same way.
docs/targets.md says where each parameter comes from and why it is set.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

from ethos_hil.harness.clock import Deadline
from ethos_hil.harness.errors import TargetError, TargetNotAvailable
from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.link.collector import Collector
from ethos_hil.harness.outcome import Ended, Outcome, Progress
from ethos_hil.harness.socs.fvps import FVP_PATH_VARIABLE, fvp_model, installed_fvp
from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.targets.base import Target
from ethos_hil.harness.targets.capability import Capability
from ethos_hil.harness.targets.fvp_messages import complaint, reached_time_limit
from ethos_hil.harness.targets.fvp_process import Simulation
from ethos_hil.harness.targets.plugin import TargetOption, TargetPlugin, TargetSettings
from ethos_hil.harness.virtual.semihosting import TRUST_VARIABLE
from ethos_hil.lowering.errors import EthosHilError, UsageError
from ethos_hil.lowering.npu_name import NpuName
from ethos_hil.results.verdict import FailureKind

LAUNCHER_MARK = "ethos-hil"
"""A word in the version text of our launchers, and of no other FVP."""
_POLL_SECONDS = 0.005
"""Between two looks at the UART's file: an FVP does not say when it writes."""
_SPARE_SECONDS = 5
"""The FVP's own limit is this much later than ours: it ends even if we cannot end it."""
_VERSION_SECONDS = 60.0
_CONSOLE_LINES = 5


def find_fvp(executable: str) -> Path:
    """Return the path of an FVP: in a folder of $ETHOS_HIL_FVP_PATH, otherwise on PATH.

    Raises:
        TargetNotAvailable: it is in neither.
    """
    found = installed_fvp(executable)
    if found is None:
        folders = os.environ.get(FVP_PATH_VARIABLE)
        raise TargetNotAvailable(
            f"{executable} is not {f'in {folders} or ' if folders else ''}on PATH",
            hint=f"install Arm's FVP and set {FVP_PATH_VARIABLE} to the folder it is in; without one: "
            "`ethos-hil fvp-launchers DIR`, or --target virtual",
        )
    return Path(found).absolute()


def version_text(executable: Path) -> str:
    """Return the FVP's version text. Each file is asked once.

    Raises:
        TargetNotAvailable: it does not start; kind "licence" if it lacks one.
    """
    return _version_text(executable, executable.stat().st_mtime_ns)


@functools.lru_cache(maxsize=16)
def _version_text(executable: Path, changed: int) -> str:
    deadline = Deadline(_VERSION_SECONDS)
    with Simulation([str(executable), "--version"], executable.parent) as simulation:
        while simulation.watch(deadline.remaining) and not deadline.passed:
            pass
        status, lines = simulation.status, [line.strip() for line in simulation.lines if line.strip()]
    if status is None:
        raise TargetNotAvailable(f"{executable.name} --version did not end within {_VERSION_SECONDS:g} s")
    trouble = complaint(lines) if status else None
    if trouble is not None:
        raise trouble
    # An FVP that refuses to tell its version may still run; one that says nothing, or crashes, does not.
    if status < 0 or not lines:
        raise TargetNotAvailable(f"{executable} --version {_end(status)} and said {_quoted(lines)}")
    return "\n".join(lines)


class FvpTarget(Target):
    """A Corstone in Arm's FVP, or in our launcher of the same name.

    Cycles come from the PMU of its NPU: from the FVP's timing model, or from ours in a launcher. With `fast` the FVP
    counts none.
    """

    kind = "fvp"

    def __init__(self, soc: str, npu: NpuName, *, fast: bool = False, trust_elf: bool = False) -> None:
        """Take the FVP of `soc` that has `npu`. With `fast` it leaves out timing.

        With `trust_elf` a launcher lets a runner reach every file. Arm's FVPs always do.

        Raises:
            UsageError: that Corstone has no such NPU.
            TargetNotAvailable: the FVP is missing or does not start.
        """
        model = fvp_model(soc, npu.name)
        if model is None:
            raise UsageError(f"no FVP of a {soc} has an {npu}", hint="`ethos-hil targets` lists what each target has")
        self._fvp = model.fvp
        self._executable = find_fvp(self._fvp.executable)
        version = version_text(self._executable)
        self.launcher = LAUNCHER_MARK in version
        self.version = version.splitlines()[0]
        self.name = soc
        self.soc = soc
        self.npu = npu.name
        self.cycle_provenance = "modelled" if self.launcher else "fvp"
        self._macs = npu.macs
        self._fast = fast
        self._trust_elf = trust_elf
        self._running = contextlib.ExitStack()

    def capabilities(self) -> frozenset[Capability]:
        """Return semihosting, and cycles unless it is fast. An FVP tells nothing of single operations."""
        counted = set() if self._fast else {Capability.NPU_CYCLES}
        return frozenset({Capability.SEMIHOSTING, *counted})

    def _load(self, image: Image) -> None:
        """Do nothing: each run starts the FVP with its image."""

    def _run(self, image: Image, *, timeout: float, progress: Progress | None) -> Outcome:
        """Run the image. The FVP is ended and reaped in any case."""
        started = time.perf_counter()
        seconds: dict[str, float] = {}
        collector = Collector(image, progress)
        deadline = Deadline(timeout)
        with self._private_folder() as folder:
            uart = folder / "uart"
            settings = {
                f"{self._fvp.board_path}.uart0.out_file": str(uart),
                f"{self._fvp.board_path}.uart0.unbuffered_output": "1",
            }
            with self._started(image.elf, settings, folder, timeout) as simulation, _Tail(uart) as tail:
                try:
                    self._collect(simulation, tail, collector, deadline, started, seconds)
                except TargetError as error:
                    raise error.replace(console=collector.console + tuple(simulation.lines)) from error.__cause__
        seconds["total"] = time.perf_counter() - started
        outcome = collector.outcome(seconds)
        return dataclasses.replace(outcome, console=outcome.console + tuple(simulation.lines))

    def _boot(self, elf: bytes, command_line: str, folder: Path, *, timeout: float) -> Ended:
        deadline = Deadline(timeout)
        cpu, board = self._fvp.cpu_path, self._fvp.board_path
        settings = {
            f"{board}.uart0.out_file": "'-'",
            f"{cpu}.semihosting-enable": "1",
            f"{cpu}.semihosting-stack_base": "0",
            f"{cpu}.semihosting-heap_limit": "0",
            f"{cpu}.semihosting-cwd": str(folder),
            f"{cpu}.semihosting-cmd_line": f"'{command_line}'",
        }
        settings |= dict(self._fvp.runner_settings)
        with self._private_folder() as own, self._started(elf, settings, own, timeout) as simulation:
            while simulation.watch(deadline.remaining):
                if deadline.passed:
                    raise _timed_out(timeout, "", simulation.lines)
            lines, status = simulation.lines, simulation.status
        assert status is not None
        if reached_time_limit(lines):
            raise _own_limit("", lines)
        trouble = complaint(lines) if status else None
        if trouble is not None:
            raise trouble
        if status < 0:
            raise TargetError(
                f"the FVP {_end(status)}", kind=FailureKind.CRASHED, console=tuple(lines), hint=_last(lines)
            )
        return Ended(status, tuple(lines))

    def _reset(self) -> None:
        self._running.close()

    def command(self, settings: dict[str, str], image: Path, timeout: float) -> list[str]:
        """Return the command line: the parameters of every run, then `settings`.

        Args:
            settings: further parameters, by full name.
            image: the ELF to boot.
            timeout: our own limit, wall seconds.
        """
        fvp = self._fvp
        parameters = {
            f"{fvp.npu_path}.num_macs": str(self._macs),
            f"{fvp.board_path}.visualisation.disable-visualisation": "1",
            f"{fvp.board_path}.telnetterminal0.start_telnet": "0",
            **dict(fvp.settings),
        }
        if self._fast:
            parameters[f"{fvp.npu_path}.extra_args"] = "'--fast'"
        command = [str(self._executable)]
        for name, value in (parameters | settings).items():
            command += ["-C", f"{name}={value}"]
        return [*command, "-a", str(image), "--timelimit", str(math.ceil(timeout) + _SPARE_SECONDS)]

    def _collect(
        self,
        simulation: Simulation,
        tail: _Tail,
        collector: Collector,
        deadline: Deadline,
        started: float,
        seconds: dict[str, float],
    ) -> None:
        """Feed the collector until its answer is complete."""
        while True:
            running = simulation.watch(min(_POLL_SECONDS, deadline.remaining))
            collector.feed(tail.read())
            if collector.started:
                seconds.setdefault("launch", time.perf_counter() - started)
            if collector.complete:
                break
            if not running:
                raise _ended_early(simulation, collector)
            if deadline.passed:
                if collector.failure is not None:
                    raise collector.failure
                raise _timed_out(deadline.seconds, collector.progress_text(), simulation.lines, collector)
        collector.close()

    @contextlib.contextmanager
    def _started(self, elf: bytes, settings: dict[str, str], folder: Path, timeout: float) -> Iterator[Simulation]:
        """Start the FVP with `elf`. It is ended on leaving the context, or by `reset`."""
        image = folder / "image.elf"
        image.write_bytes(elf)
        simulation = Simulation(
            self.command(settings, image, timeout), folder, {TRUST_VARIABLE: "1"} if self._trust_elf else {}
        )
        self._running.callback(simulation.stop)
        try:
            yield simulation
        finally:
            self._running.close()

    @contextlib.contextmanager
    def _private_folder(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(prefix="ethos-hil-fvp-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)


class _Tail:
    """The end of a file that another process writes. The file may not be there yet."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def __enter__(self) -> _Tail:
        return self

    def __exit__(self, *error: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    def read(self) -> bytes:
        """Return the bytes that were added since the last call."""
        if self._descriptor is None:
            try:
                self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return b""
        data = b""
        while more := os.read(self._descriptor, 1 << 20):
            data += more
        return data


def _ended_early(simulation: Simulation, collector: Collector) -> EthosHilError:
    """Return why an FVP ended before its END frame."""
    lines, status = simulation.lines, simulation.status
    assert status is not None
    trouble = None if collector.started else complaint(lines)
    if trouble is not None:
        return trouble
    if reached_time_limit(lines):
        return _own_limit(collector.progress_text(), lines)
    try:
        collector.close()
    except TargetError as error:
        if collector.failure is not None:
            return error
        if status == 0:
            message = f"{error.message}; the FVP ended of its own accord"
            return error.replace(message=message, hint=error.hint or _last(lines))
    where = collector.progress_text()
    if not collector.started and status > 0:
        return TargetNotAvailable(f"the FVP {_end(status)} {where}: {_quoted(lines)}")
    return TargetError(f"the FVP {_end(status)} {where}", kind=FailureKind.CRASHED, hint=_last(lines))


def _timed_out(timeout: float, where: str, lines: list[str], collector: Collector | None = None) -> TargetError:
    where = f", {where}" if where else ""
    if collector is not None and collector.unfinished:
        where += f" and {collector.unfinished} bytes of a frame"
    said = (list(collector.console) if collector is not None else []) + lines
    return TargetError(
        f"no end within {timeout:g} s{where}", kind=FailureKind.TIMEOUT, hint=_last(said), console=tuple(said)
    )


def _own_limit(where: str, lines: list[str]) -> TargetError:
    where = f", {where}" if where else ""
    message = f"the FVP ended at its own --timelimit{where}, before ours"
    return TargetError(message, kind=FailureKind.TIMEOUT, hint="raise --timeout", console=tuple(lines))


def _end(status: int) -> str:
    if status >= 0:
        return f"exited with status {status}"
    try:
        return f"was ended by {signal.Signals(-status).name}"
    except ValueError:
        return f"was ended by signal {-status}"


def _quoted(lines: list[str]) -> str:
    return " | ".join(lines[-_CONSOLE_LINES:]) or "nothing"


def _last(lines: list[str]) -> str:
    said = [line for line in lines if line.strip()]
    return f"the console's last lines: {' | '.join(said[-_CONSOLE_LINES:])}" if said else "the console is empty"


def _find(soc: str, npu: NpuName) -> TargetNotAvailable | None:
    model = fvp_model(soc, npu.name)
    assert model is not None
    try:
        find_fvp(model.fvp.executable)
    except TargetNotAvailable as error:
        return error
    return None


def _plugin(soc: Soc) -> TargetPlugin:
    def make(npu: NpuName, settings: TargetSettings) -> FvpTarget:
        return FvpTarget(soc.name, npu, fast=settings.fast, trust_elf=settings.trust_elf)

    return TargetPlugin(
        name=soc.name,
        kind="fvp",
        description=f"Arm's FVP: {soc.summary}",
        socs=(soc.name,),
        npus=tuple(name for npu in soc.npus if npu.fvp is not None for name in npu.names),
        make=make,
        find=functools.partial(_find, soc.name),
        options=frozenset({TargetOption.FAST, TargetOption.TRUST_ELF}),
    )


PLUGINS = SimpleNamespace(
    **{soc.name.replace("-", "_"): _plugin(soc) for soc in SOCS if any(npu.fvp is not None for npu in soc.npus)}
)
"""A plug-in for each system on chip that has FVPs, under its name: corstone_300 and so on."""
