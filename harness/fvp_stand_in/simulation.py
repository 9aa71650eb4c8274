"""A run of the virtual board behind the FVP's command line: its memory at the start, its output, and its end."""

from __future__ import annotations

import array
import codecs
import fcntl
import os
import resource
import stat
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError, ToolError
from ethos_hil.base.plain_text import cut, one_line
from ethos_hil.harness.fvp_stand_in.command_line import DataFile, DumpFile, LaunchSettings, UartSettings
from ethos_hil.harness.image.segments import ElfError, Segment, segments
from ethos_hil.harness.link.frames import EOT
from ethos_hil.harness.socs.soc import Memory
from ethos_hil.harness.virtual.fittings import Fittings
from ethos_hil.harness.virtual.guest_files import AnsweredCalls
from ethos_hil.harness.virtual.mps3_an547 import memory_needed, missing
from ethos_hil.harness.virtual.qemu import equipped_qemu, write_all

if TYPE_CHECKING:
    from ethos_hil.harness.virtual.machine import EngineFactory, GuestOutput, Machine


class ImageError(Exception):
    """A file that cannot be loaded. The message says what and why."""


@dataclass(frozen=True)
class LaunchImage:
    """The image that QEMU is started with.

    Attributes:
        elf: the application, or its path if it is unchanged.
        data: further files to load, and their addresses.
        answered: the semihosting calls that the host answers, or None without semihosting.
        added: a memory of the system that QEMU's machine lacks and that the run needs, or None.
    """

    elf: bytes | Path
    data: tuple[tuple[Path, int], ...]
    answered: AnsweredCalls | None
    added: Memory | None = None


def load(settings: LaunchSettings) -> LaunchImage:
    """Return the image that `settings` ask for.

    Raises:
        ImageError: a file is missing or unusable, or has bytes where the board has no memory.
    """
    path = settings.application
    try:
        with path.open("rb") as file:
            loaded = segments(file)
            answered = settings.semihosting.find_calls(file, loaded) if settings.semihosting is not None else None
    except OSError as error:
        raise ImageError(f"the application {path} cannot be read: {error.strerror}") from None
    except ElfError as error:
        raise ImageError(f"the application {path} cannot be run: {error}") from None
    for segment in loaded:
        for address, size in segment.places:
            why = missing(address, size, settings.model.soc) if size else None
            if why is not None:
                raise ImageError(f"the application {path} has {size} bytes at 0x{address:08x}: {why}")
    for dump in settings.dumps:
        why = missing(dump.address, dump.size, settings.model.soc)
        if why is not None:
            raise ImageError(f"--dump {dump.path} asks for {dump.size} bytes at 0x{dump.address:08x}: {why}")
    elf, data = _with_data(path, loaded, settings)
    # All that is in memory at the start, or read at the end.
    places = [place for part in loaded for place in part.places]
    places += [(file.address, _size(file)) for file in settings.data]
    places += [(dump.address, dump.size) for dump in settings.dumps]
    return LaunchImage(elf, data, answered, memory_needed(places, settings.model.soc))


def _with_data(
    path: Path, loaded: Sequence[Segment], settings: LaunchSettings
) -> tuple[bytes | Path, tuple[tuple[Path, int], ...]]:
    """Return the application with the data that lies within its own bytes, and the rest of the data.

    QEMU loads no address twice, so data within the application must replace its bytes.
    """
    elf: bytearray | None = None
    separate = []
    for data in settings.data:
        size = _size(data)
        why = missing(data.address, size, settings.model.soc)
        if why is not None:
            raise ImageError(f"the data file {data.path} has {size} bytes at 0x{data.address:08x}: {why}")
        end = data.address + size
        overlapping = [s for s in loaded if s.load_address < end and data.address < s.load_address + s.file_size]
        if not overlapping:
            separate.append((data.path, data.address))
            continue
        place = overlapping[0]
        offset = data.address - place.load_address
        if len(overlapping) > 1 or offset < 0 or offset + size > place.file_size:
            raise ImageError(
                f"the data file {data.path} at 0x{data.address:08x} is partly in the application's segment at "
                f"0x{place.load_address:08x} and partly outside; load it elsewhere"
            )
        elf = bytearray(path.read_bytes()) if elf is None else elf
        elf[place.offset + offset : place.offset + offset + size] = data.path.read_bytes()
    return bytes(elf) if elf is not None else path, tuple(separate)


def _size(data: DataFile) -> int:
    try:
        with data.path.open("rb") as file:
            return file.seek(0, os.SEEK_END)
    except OSError as error:
        raise ImageError(f"the data file {data.path} cannot be read: {error.strerror}") from None


FAILED = 1
"""Exit status of every run that the program does not end itself."""
_EOT = bytes((EOT,))
_UNLIMITED = 1e9
_MESSAGE = 10_000
"""Characters of a message that are shown."""
_REASON = "Info: Simulation is stopping. Reason: {} time has been exceeded."
"""The FVPs' own words. Upstream's run_fvp.sh searches for it with "CPU"; Zephyr's logs have "Simulated"."""
_STOPPED = "Info: /OSCI/SystemC: Simulation stopped by user."


_TERMINAL = 0, 1
"""The file descriptors of the standard input and output that are the program's, too."""
_READER_SECONDS = 1.0
_LOOK_SECONDS = 5e-5


class Shutdown(Exception):
    """The UART's output contained the end mark."""


class Screen:
    """This process's stdout: the guest's output, as valid UTF-8 and at once, because scripts decode it strictly."""

    def __init__(self) -> None:
        self._decoders = {
            name: codecs.getincrementaldecoder("utf-8")(errors="replace") for name in ("uart", "console", "remark")
        }
        self._line_open = False
        # Both are pipes where a program is given lines and answers with lines.
        self._waits_for_reader = all(stat.S_ISFIFO(os.fstat(number).st_mode) for number in _TERMINAL)

    def write(self, source: str, data: bytes, *, final: bool = False) -> None:
        """Write bytes from one of the sources."""
        text = self._decoders[source].decode(data, final)
        for line in text.splitlines(keepends=True):
            if not self._line_open:
                self._wait_for_reader()
            sys.stdout.buffer.write(line.encode())
            sys.stdout.buffer.flush()
            self._line_open = not line.endswith("\n")

    def _wait_for_reader(self) -> None:
        """Wait until the last line was taken: one who waits for more in the pipe, with Python's `select`, does not see
        that a line came with the one before. A reader that takes nothing for a while is not waited for any more.
        """
        deadline, unread = Deadline(_READER_SECONDS), array.array("i", [0])
        while self._waits_for_reader and not fcntl.ioctl(_TERMINAL[1], termios.FIONREAD, unread) and unread[0]:
            self._waits_for_reader = not deadline.passed
            time.sleep(_LOOK_SECONDS)

    def finish(self) -> None:
        """Write the incomplete characters that are left."""
        for source in self._decoders:
            self.write(source, b"", final=True)

    def remark(self, text: str) -> None:
        """Write a remark of our own, on its own line."""
        self.write("remark", ("\n" if self._line_open else "").encode() + text.encode() + b"\n")


class UartOutput:
    """The destination of UART0's output."""

    def __init__(self, uart: UartSettings, screen: Screen) -> None:
        """Open the destination. Raises ImageError when its file cannot be written."""
        self._uart = uart
        self._screen = screen
        self._file = -1
        self._tag = uart.shutdown_tag.encode()
        self._seen = b""
        if uart.out_file not in ("", "-"):
            try:
                self._file = os.open(uart.out_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
            except OSError as error:
                raise ImageError(f"the UART's out_file {uart.out_file!r} cannot be written: {error.strerror}") from None

    def write(self, data: bytes) -> None:
        """Pass on the guest's bytes. Raises Shutdown at the end mark and drops what follows it."""
        end = self._end(data)
        wanted = data if end is None else data[:end]
        if self._file >= 0:
            write_all(self._file, wanted)
        elif self._uart.out_file == "-":
            self._screen.write("uart", wanted)
        if end is not None:
            raise Shutdown

    def _end(self, data: bytes) -> int | None:
        """Return how many bytes of `data` come up to the end of the end mark, or None when it is not there."""
        ends = []
        if self._uart.shutdown_on_eot and _EOT in data:
            ends.append(data.index(_EOT) + 1)
        if self._tag:
            seen = self._seen + data
            if self._tag in seen:
                ends.append(seen.index(self._tag) + len(self._tag) - len(self._seen))
            self._seen = seen[-len(self._tag) :]
        return min(ends, default=None)


class Dumps:
    """The files that memory is written to, once, at the end of the run."""

    def __init__(self, files: tuple[DumpFile, ...]) -> None:
        """Raise ImageError when the folder of one is missing."""
        for file in files:
            if not file.path.parent.is_dir():
                raise ImageError(f"--dump {file.path} cannot be written: {file.path.parent} is not a folder")
        self.pending = list(files)

    def write(self, machine: Machine) -> None:
        """Write the files, with what a stopped guest's memory has. Raises ImageError when that fails."""
        from ethos_hil.harness.virtual.qemu_control import QemuError

        while self.pending:
            file = self.pending.pop(0)
            try:
                file.path.write_bytes(machine.read(file.address, file.size))
            except QemuError:
                raise ImageError(f"--dump {file.path} is not written: the memory is gone with QEMU") from None
            except OSError as error:
                raise ImageError(f"--dump {file.path} cannot be written: {error.strerror}") from None

    def finish(self, machine: Machine) -> bool:
        """Write what was not written yet. Return whether all is written; otherwise a line on stderr says why."""
        try:
            if self.pending:
                machine.where()  # stops the guest
                self.write(machine)
        except ImageError as error:
            fail(str(error))
            return False
        return True


def run(settings: LaunchSettings, engine: EngineFactory | None = None) -> int:
    """Run to the end and return the exit status.

    That is the program's own status when it ends by semihosting, and 0 when the UART's end mark ends it. Otherwise it
    is FAILED, with one line on stderr (or, for a limit, on stdout as FVPs have it).

    Args:
        settings: the run.
        engine: runs the NPU's jobs, for tests; None is the functional model.
    """
    started = time.perf_counter()
    launched = started
    deadline = Deadline(min(settings.seconds, _UNLIMITED))
    screen = Screen()
    machine: Machine | None = None
    dumps: Dumps | None = None
    try:
        uart = UartOutput(settings.uart, screen)
        dumps = Dumps(settings.dumps)
        machine = _machine(settings, load(settings), deadline, engine, dumps)
        launched = time.perf_counter()
        status = _follow(machine, screen, uart)
    except Shutdown:
        status = 0
    except TimeoutError:
        assert machine is not None
        status = FAILED
        where = machine.where()
        _flush(machine, screen, uart)
        if where is not None:
            _say(f"at the time limit of {settings.seconds:g} s the program was in {where}")
        if not settings.quiet:
            screen.remark("\n" + _REASON.format("Simulated" if settings.simulated else "CPU"))
    except (ImageError, ToolError) as error:
        return fail(str(error))
    except TargetError as error:
        status = FAILED
        if machine is not None:
            _flush(machine, screen, uart)
        fail(f"{error.kind}: {error.message}" + (f" ({error.hint})" if error.hint else ""))
    finally:
        if machine is not None:
            if dumps is not None and sys.exception() is None and not dumps.finish(machine):
                status = FAILED
            machine.stop()
        screen.finish()
        for refusal in machine.refusals if machine is not None else ():
            _say(f"semihosting: {refusal}")
    if machine is not None and machine.device.fault is not None and status:
        _say(f"the NPU had stopped with a {machine.device.fault.message}")
    if not settings.quiet:
        screen.remark("\n" + _STOPPED)
    if settings.statistics and machine is not None:
        ended = time.perf_counter()
        screen.remark(_statistics(settings, machine, launched - started, ended - launched))
    return status


def fail(text: str) -> int:
    """Print one line that says what went wrong, and return the exit status."""
    _say(f"Error: {text}")
    return FAILED


def _machine(
    settings: LaunchSettings, image: LaunchImage, deadline: Deadline, engine: EngineFactory | None, dumps: Dumps
) -> Machine:
    """Start the machine. QEMU starts while Python imports the model."""
    # The model uses one thread for matrix products; creating more costs 33 ms of CPU at every start.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    soc = replace(settings.model.soc, boot=settings.boot)
    fittings = replace(Fittings.of(soc, settings.rules, foreign=True), cycle_counter=settings.counter)
    qemu = equipped_qemu(
        soc, settings.rules, fittings, image.elf, semihosting=settings.semihosting, data=image.data, added=image.added
    )
    try:
        from ethos_hil.base.npu.ethos_u import EthosU
        from ethos_hil.harness.virtual.board import QemuBoard
        from ethos_hil.harness.virtual.engine import Engine
        from ethos_hil.harness.virtual.machine import Machine

        return Machine(
            QemuBoard(soc, qemu, rules=settings.rules, fittings=fittings, foreign=True),
            EthosU.parse(settings.npu),
            deadline,
            engine=engine or Engine,
            answered=image.answered,
            before_exit=dumps.write if dumps.pending else None,
            terminal=_TERMINAL,
        )
    except BaseException:
        qemu.stop()
        raise


def _follow(machine: Machine, screen: Screen, uart: UartOutput) -> int:
    """Pass on the guest's output until it ends the run. Return its status."""
    from ethos_hil.harness.virtual.machine import Exit

    while True:
        event = machine.wait()
        if isinstance(event, Exit):
            return event.status
        _pass_on(event, screen, uart)


def _pass_on(output: GuestOutput, screen: Screen, uart: UartOutput) -> None:
    """Pass on output, the UART's first: it may end the run, and the console's output then came after the end."""
    if output.uart:
        uart.write(output.uart)
    if output.console:
        screen.write("console", output.console)


def _flush(machine: Machine, screen: Screen, uart: UartOutput) -> None:
    """Pass on the remaining output. An end mark in it comes too late."""
    output = machine.read_output()
    if output is not None:
        try:
            _pass_on(output, screen, uart)
        except Shutdown:
            return


def _statistics(settings: LaunchSettings, machine: Machine, launch: float, rest: float) -> str:
    """Return what `--stat` prints of a run: `launch` are the seconds until the guest could run, `rest` those since."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    model = float(getattr(machine.engine, "seconds", 0.0))
    rows = {
        "User time": sum(usage.ru_utime for usage in used),
        "System time": sum(usage.ru_stime for usage in used),
        "Wall time": launch + rest,
        "  QEMU boot and imports": launch,
        "  program and semihosting": rest - machine.stopped,
        "  register accesses": machine.stopped - model,
        "  NPU model": model,
    }
    lines = [f"--- {settings.model.fvp.executable} statistics: ".ljust(78, "-")]
    lines += [f"{name:40}: {seconds:f}s" for name, seconds in rows.items()]
    lines += [f"{'Register accesses':40}: {machine.accesses}", "-" * 78]
    return "\n" + "\n".join(lines)


def _say(text: str) -> None:
    """Write a line of our own to stderr. It may quote the program's names; only its console is passed on as it is."""
    sys.stderr.write(cut(one_line(text), _MESSAGE) + "\n")
