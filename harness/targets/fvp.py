"""Arm's FVPs as targets, driven by their command line alone.

The launchers that `ethos-hil fvp-launchers` writes have the same command line, and are driven in the same way.
docs/targets.md says where each parameter comes from and why it is set.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import EthosHilError, TargetError, TargetNotAvailable, ToolError, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.process import interrupts_deferred
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.image.pack import Clocks, Image
from ethos_hil.harness.link.collector import Collector
from ethos_hil.harness.link.outcome import Ended, Outcome, Progress
from ethos_hil.harness.socs.registry import FVP_PATH_VARIABLE, SOCS, find_soc, fvp_model, installed_fvp
from ethos_hil.harness.socs.soc import LEAST_BAUD_DIVIDER, Soc
from ethos_hil.harness.targets.base import Capability, Target, silence
from ethos_hil.harness.targets.fvp_description import (
    Simulation,
    complaint,
    describe,
    ending,
    has_reached_time_limit,
    last_words,
    quote,
)
from ethos_hil.harness.targets.fvp_parameters import FvpSettings, Use, settings
from ethos_hil.harness.targets.plugin import TargetOption, TargetPlugin, TargetSettings, lacking

_KEPT = 1 << 20
"""Bytes that are kept as evidence."""


class UartFile:
    """A file that an FVP appends to. It may not be there yet.

    Attributes:
        total: bytes read so far.
        first: the first ones of them, at most _KEPT.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self.total = 0
        self.first = bytearray()

    def __enter__(self) -> UartFile:
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
        self.total += len(data)
        self.first += data[: _KEPT - len(self.first)]
        return data


LAUNCHER_MARK = "ethos-hil"
"""A word in the version text of our launchers, and of no other FVP."""
_POLL_SECONDS = 0.005
"""Between two looks at the UART's file: an FVP does not say when it writes."""
_SPARE_SECONDS = 5
"""The FVP's own limit is this much later than ours: it ends even if we cannot end it."""
_TELLING_SECONDS = 1.0
"""Between two words about how many bytes have come."""
_LATE = "the FVP wrote the last of its UART's output when it was ended at the time limit: it buffers that output"


def find_fvp(executable: str) -> Path:
    """Return the path of an FVP: in a folder of $ETHOS_HIL_FVP_PATH, otherwise on PATH.

    Raises:
        TargetNotAvailable: it is in neither.
    """
    path = installed_fvp(executable)
    if path is None:
        folders = os.environ.get(FVP_PATH_VARIABLE)
        raise TargetNotAvailable(
            f"{executable} is not {f'in {folders} or ' if folders else ''}on PATH",
            hint=f"install Arm's FVP and set {FVP_PATH_VARIABLE} to the folder it is in; without one: "
            "`ethos-hil fvp-launchers DIR`, or --target virtual",
        )
    return Path(path).absolute()


@dataclass(frozen=True)
class FvpEvidence:
    """What an FVP got and gave in a run, whatever became of it.

    Attributes:
        command: its command line.
        uart: the first bytes of its UART's output, at most a mebibyte; none where it went to stdout.
        console: the lines of its stdout and stderr.
    """

    command: tuple[str, ...]
    uart: bytes
    console: tuple[str, ...]


class FvpTarget(Target):
    """A Corstone in Arm's FVP, or in our launcher of the same name.

    Cycles come from the PMU of its NPU: from the FVP's timing model, or from ours in a launcher. With `fast` the FVP
    counts none.

    Attributes:
        witness: gets the evidence of each run and boot, before its outcome or its error.
    """

    kind = "fvp"
    printable = True
    witness: Callable[[FvpEvidence], None] | None = None

    def __init__(self, soc: str, npu: EthosU, *, fast: bool = False, tell: Callable[[str], None] | None = None) -> None:
        """Take the FVP of `soc` that has `npu`, and ask it for its version and parameters.

        Args:
            soc: the Corstone.
            npu: its NPU.
            fast: leave out timing.
            tell: gets what is being done, before it takes time.

        Raises:
            UsageError: that Corstone has no such NPU.
            TargetNotAvailable: the FVP is missing, does not start, or lacks a parameter that is needed.
        """
        model = fvp_model(soc, npu.name)
        if model is None:
            raise UsageError(f"no FVP of a {soc} has an {npu}", hint="`ethos-hil doctor` lists what each target has")
        self._fvp = model.fvp
        self._executable = find_fvp(self._fvp.executable)
        self.description = describe(self._executable, tell)
        self.launcher = LAUNCHER_MARK in self.description.version
        self.version = self.description.name
        self.name = soc
        self.soc = soc
        self.npu = npu.name
        # Frames go into a file, which keeps up with any speed; the processor waits for the UART in simulated time.
        self.clocks = Clocks(baud=find_soc(soc).peripheral_hz // LEAST_BAUD_DIVIDER)
        self.cycle_provenance = "modelled" if self.launcher else "fvp"
        self.cpu_unit = "instructions" if self.launcher else "cycles"
        self._macs = npu.macs
        self._fast = fast
        self._running = contextlib.ExitStack()
        self._always = self._settings(Use.EVERY_RUN)
        if fast:
            self._always = self._always.then(self._settings(Use.FAST))
        # Now, not after a minute of lowering. A runner needs the UART's file as well.
        self._settings(Use.FIRMWARE, uart="")

    def capabilities(self) -> frozenset[Capability]:
        """Return semihosting, and cycles unless it is fast."""
        return frozenset({Capability.SEMIHOSTING} if self._fast else {Capability.SEMIHOSTING, Capability.NPU_CYCLES})

    def _load(self, image: Image) -> None:
        """Do nothing: each run starts the FVP with its image."""

    def _run(self, image: Image, *, timeout: float, progress: Progress | None) -> Outcome:
        """Run the image. The FVP is ended and reaped in any case."""
        started = time.perf_counter()
        seconds: dict[str, float] = {}
        collector = Collector(image, progress)
        deadline = Deadline(timeout)
        with self._private_folder() as folder:
            path = folder / "uart"
            chosen = self._settings(Use.FIRMWARE, uart=str(path))
            counter = image.plan.time_steps and self.launcher
            with (
                self._start(image.elf, chosen.values, folder, timeout, counter=counter) as simulation,
                UartFile(path) as uart,
            ):
                try:
                    late = self._collect(simulation, uart, collector, deadline, started, seconds)
                except TargetError as error:
                    console = collector.console + tuple(simulation.lines)
                    raise error.replace(console=console) from error.__cause__
                finally:
                    self._testify(simulation, bytes(uart.first))
        seconds["total"] = time.perf_counter() - started
        outcome = collector.outcome(seconds)
        notes = (*self._notes(chosen), *([_LATE] if late else []))
        return dataclasses.replace(outcome, console=outcome.console + tuple(simulation.lines), notes=notes)

    def _boot(self, elf: bytes, command_line: str, folder: Path, *, timeout: float) -> Ended:
        deadline = Deadline(timeout)
        chosen = self._settings(Use.RUNNER, folder=str(folder), command_line=command_line)
        with self._private_folder() as own, self._start(elf, chosen.values, own, timeout) as simulation:
            try:
                while simulation.watch(deadline.remaining):
                    if deadline.passed:
                        raise _timeout_error(timeout, "", simulation.lines)
            finally:
                self._testify(simulation, b"")
            lines, status = simulation.lines, simulation.status
        assert status is not None
        if has_reached_time_limit(lines):
            raise _own_limit("", lines)
        trouble = complaint(lines) if status else None
        if trouble is not None:
            raise trouble
        if status < 0:
            raise TargetError(
                f"the FVP {ending(status)}", kind=FailureKind.CRASHED, console=tuple(lines), hint=last_words(lines)
            )
        return Ended(status, tuple(lines), self._notes(chosen))

    def _reset(self) -> None:
        self._running.close()

    def command(self, values: Mapping[str, str], image: Path, timeout: float) -> list[str]:
        """Return the command line: the parameters of every run, then `values`.

        Args:
            values: further parameters, by full name.
            image: the ELF to boot.
            timeout: our own limit, wall seconds.
        """
        command = [str(self._executable)]
        for name, value in (self._always.values | dict(values)).items():
            command += ["-C", f"{name}={value}"]
        return [*command, "-a", str(image), "--timelimit", str(math.ceil(timeout) + _SPARE_SECONDS)]

    def _settings(self, use: Use, **values: str) -> FvpSettings:
        """Return the parameters for a use; `values` are those of the run, by placeholder (fvp_description.py)."""
        return settings(self._fvp, self.version, self.description.listing, use, {"macs": str(self._macs), **values})

    def _notes(self, chosen: FvpSettings) -> tuple[str, ...]:
        """Return what is unusual about the parameters of a run."""
        notes = [*self._always.then(chosen).notes(self._fvp)]
        if not self.description.listing.known:
            notes.append(
                f"{self._fvp.executable} --list-params does not list its parameters "
                f"({self.description.listing.lacking}): those are set that FVPs usually have"
            )
        return tuple(notes)

    def _collect(
        self,
        simulation: Simulation,
        uart: UartFile,
        collector: Collector,
        deadline: Deadline,
        started: float,
        seconds: dict[str, float],
    ) -> bool:
        """Feed the collector until its answer is complete. Return whether the end of it came after the FVP's."""
        patience = Deadline(_TELLING_SECONDS)
        while True:
            running = simulation.watch(min(_POLL_SECONDS, deadline.remaining))
            complete = _feed(collector, uart.read())
            if collector.started:
                seconds.setdefault("launch", time.perf_counter() - started)
            if complete:
                collector.close()
                return False
            if not running:
                raise self._early_end(simulation, uart, collector)
            if patience.passed:
                self._tell(f"{uart.total:,} bytes from the UART" + ("" if collector.started else ", no frame yet"))
                patience = Deadline(_TELLING_SECONDS)
            if deadline.passed:
                break
        if collector.failure is not None:
            raise collector.failure
        # An FVP that keeps its UART's output to itself writes it when it ends.
        simulation.stop()
        if _feed(collector, uart.read()):
            collector.close()
            return True
        why = "" if uart.total else self._silence()
        raise _timeout_error(deadline.seconds, collector.progress_text(), simulation.lines, collector, why)

    def _early_end(self, simulation: Simulation, uart: UartFile, collector: Collector) -> EthosHilError:
        """Return why an FVP ended before its END frame."""
        lines, status = simulation.lines, simulation.status
        assert status is not None
        trouble = None if collector.started else complaint(lines)
        if trouble is not None:
            return trouble
        if has_reached_time_limit(lines):
            return _own_limit(collector.progress_text(), lines)
        try:
            collector.close()
        except TargetError as error:
            if collector.failure is not None:
                return error
            if status == 0:
                message = f"{error.message}; the FVP ended of its own accord"
                heard = "" if uart.total else f"{self._silence()}; "
                return error.replace(message=message, hint=error.hint or heard + last_words(lines))
        where = collector.progress_text()
        if not collector.started and status > 0:
            return TargetNotAvailable(f"the FVP {ending(status)} {where}: {quote(lines)}")
        return TargetError(f"the FVP {ending(status)} {where}", kind=FailureKind.CRASHED, hint=last_words(lines))

    def _testify(self, simulation: Simulation, uart: bytes) -> None:
        if self.witness is not None:
            self.witness(FvpEvidence(simulation.command, uart, tuple(simulation.lines)))

    def _silence(self) -> str:
        return silence(find_soc(self.soc), f"{self._fvp.board_path}.uart0")

    @contextlib.contextmanager
    def _start(
        self, elf: bytes, values: Mapping[str, str], folder: Path, timeout: float, *, counter: bool = False
    ) -> Iterator[Simulation]:
        """Start the FVP with `elf`. It is ended on leaving the context, or by `reset`. A launcher is asked for its
        `counter`; an FVP always has one.
        """
        image = folder / "image.elf"
        image.write_bytes(elf)
        command = [*self.command(values, image, timeout), *(["--count-instructions"] if counter else [])]
        try:
            with interrupts_deferred():
                simulation = Simulation(command, folder)
                self._running.callback(simulation.stop)
            yield simulation
        finally:
            self._running.close()

    @contextlib.contextmanager
    def _private_folder(self) -> Iterator[Path]:
        with interrupts_deferred():
            folder = tempfile.TemporaryDirectory(prefix="ethos-hil-fvp-", ignore_cleanup_errors=True)
        with folder as path:
            yield Path(path)


def _feed(collector: Collector, data: bytes) -> bool:
    """Return whether the answer is complete with `data`."""
    collector.feed(data)
    return collector.complete


def _timeout_error(
    timeout: float, where: str, lines: list[str], collector: Collector | None = None, why: str = ""
) -> TargetError:
    where = f", {where}" if where else ""
    if collector is not None and collector.unfinished:
        where += f" and {collector.unfinished} bytes of a frame"
    shown = (list(collector.console) if collector is not None else []) + lines
    hint = f"{why}; {last_words(shown)}" if why else last_words(shown)
    return TargetError(f"no end within {timeout:g} s{where}", kind=FailureKind.TIMEOUT, hint=hint, console=tuple(shown))


def _own_limit(where: str, lines: list[str]) -> TargetError:
    where = f", {where}" if where else ""
    message = f"the FVP ended at its own --timelimit{where}, before ours"
    return TargetError(message, kind=FailureKind.TIMEOUT, hint="raise --timeout", console=tuple(lines))


def _plugin(soc: Soc) -> TargetPlugin:
    def make(npu: EthosU, asked: TargetSettings) -> FvpTarget:
        return FvpTarget(soc.name, npu, fast=asked.fast, tell=asked.tell)

    def find(npu: EthosU) -> ToolError | None:
        model = fvp_model(soc.name, npu.name)
        assert model is not None
        return lacking(lambda: find_fvp(model.fvp.executable))

    return TargetPlugin(
        name=soc.name,
        kind="fvp",
        description=f"Arm's FVP: {soc.summary}",
        socs=(soc.name,),
        npus=tuple(name for npu in soc.npus if npu.fvp is not None for name in npu.names),
        make=make,
        find=find,
        options=frozenset({TargetOption.FAST}),
    )


PLUGINS = SimpleNamespace(
    **{soc.name.replace("-", "_"): _plugin(soc) for soc in SOCS if any(npu.fvp is not None for npu in soc.npus)}
)
"""A plug-in for each system on chip that has FVPs, under its name: corstone_300 and so on."""
