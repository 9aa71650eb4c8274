"""The QEMU process: a Corstone-300 (machine mps3-an547) that leaves nothing behind.

QEMU inherits everything it needs as file descriptors: one end of a socket pair each for gdb, qtest and QMP, the write
end of a pipe for its UART, and anonymous memory files for the ELF, the DDR and its own messages. So there is no file
and no port to clean up, and no name that could clash. The kernel kills QEMU when the thread that started it ends, in
whatever way (PR_SET_PDEATHSIG).

The UART is a pipe because QEMU writes it byte by byte: a pipe joins the bytes in a page, a socket keeps each in its own
buffer (measured with QEMU 7.2: 1,000 kB/s against 200 to 400).

With semihosting the guest's console shares QEMU's stdout and stderr with QEMU's own messages. Text from before the
guest runs is QEMU's, and so is everything from the line on with which QEMU reports that it ends by itself.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import mmap
import os
import resource
import select
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ethos_hil.base.errors import TargetNotAvailable, shortage
from ethos_hil.base.plain_text import ending
from ethos_hil.base.process import dies_with, start_child, wait_for_end
from ethos_hil.harness.socs.soc import Memory, Soc
from ethos_hil.harness.virtual.fittings import Fittings
from ethos_hil.harness.virtual.guest_files import Semihosting
from ethos_hil.harness.virtual.mps3_an547 import DDR, MACHINE
from ethos_hil.harness.virtual.plugin import InstructionCounter, Plugin
from ethos_hil.harness.virtual.rules import Rule

if TYPE_CHECKING:
    from ethos_hil.harness.virtual.watcher import Watcher

QEMU_VARIABLE = "ETHOS_HIL_QEMU"
QEMU_REMEDY = f"install QEMU 7.2 or newer (Debian: apt install qemu-system-arm), or set {QEMU_VARIABLE} to its path"
_STOP_SECONDS = 5.0
_SANDBOX = ("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny")
"""A second wall: a QEMU that does not do what it should still starts no other program."""
_FATAL_PREFIX = b"qemu: fatal: "
"""Start of the line in which QEMU says why it ends by itself, e.g. after a lockup. All registers follow it."""
_FATAL_BYTES = 1 << 16
"""More than that report has."""
_READ_BYTES = 1 << 20
"""Read at most at once; a guest may write as fast as we read, and the time limit must be looked at."""


def find_qemu() -> str:
    """Return the path of qemu-system-arm, from $ETHOS_HIL_QEMU or PATH.

    Raises:
        TargetNotAvailable: there is none.
    """
    wanted = os.environ.get(QEMU_VARIABLE) or "qemu-system-arm"
    path = shutil.which(wanted)
    if path is None:
        where = f"{QEMU_VARIABLE} is {wanted!r}, which is not an executable" if wanted != "qemu-system-arm" else (
            "qemu-system-arm is not on PATH"
        )  # fmt: skip
        raise TargetNotAvailable(f"the virtual board needs QEMU: {where}", hint=QEMU_REMEDY)
    return path


class Qemu:
    """One QEMU process, from its start until it is reaped. The guest is stopped at reset until gdb lets it run.

    Attributes:
        gdb, qtest, qmp: our ends of its sockets.
        uart: read end of the pipe behind UART0.
        console: with semihosting, read end of the pipe behind its stdout and stderr, else -1. `read_console` reads it.
        ddr: the guest's DDR.
        watcher: what watches the program, or None.
        counter: what counts its instructions, or None.
        data: files that it loaded, and their addresses.
    """

    def __init__(
        self,
        elf: bytes | Path | None = None,
        *,
        semihosting: Semihosting | None = None,
        data: Sequence[tuple[Path, int]] = (),
        plugins: Sequence[Plugin] = (),
        watcher: Watcher | None = None,
        counter: InstructionCounter | None = None,
    ) -> None:
        """Start QEMU.

        Args:
            elf: the image to load, or its path; None for empty memories.
            semihosting: the answers to BKPT 0xAB; without it, BKPT is a fault.
            data: files to load, and their addresses in RAM.
            plugins: to load.
            watcher, counter: whose plug-ins to load too; they are closed with QEMU.

        Raises:
            TargetNotAvailable: it can't be started.
        """
        executable = str(Path(find_qemu()).absolute())
        self.watcher, self.counter = watcher, counter
        self.data = tuple(data)
        plugins = [*plugins, *(part.plugin for part in (watcher, counter) if part is not None)]
        self._elf = elf
        self._ddr_file = -1
        self._messages = _memory_file("ethos-hil-messages")
        self._semihosting = semihosting is not None
        self._withheld, self._withholds = b"", True
        self._ddr_file = _memory_file("ethos-hil-ddr")
        image = _memory_file("ethos-hil-image")
        plugin_files = [_memory_file(f"ethos-hil-{plugin.source}") for plugin in plugins]
        self.gdb, gdb_end = socket.socketpair()
        self.qtest, qtest_end = socket.socketpair()
        self.qmp, qmp_end = socket.socketpair()
        self.uart, uart_end = os.pipe()
        self.console, console_end = os.pipe() if semihosting is not None else (-1, -1)
        self.process: subprocess.Popen[bytes] | None = None
        self.ddr: mmap.mmap | None = None
        try:
            os.ftruncate(self._ddr_file, DDR.size)  # sparse: pages that no one touches cost nothing
            self.ddr = mmap.mmap(self._ddr_file, DDR.size)
            if isinstance(elf, bytes):
                write_all(image, elf)
            kernel = Path(f"/proc/self/fd/{image}") if isinstance(elf, bytes) else elf
            options = _loader_options(kernel, data) + (semihosting.arguments() if semihosting is not None else [])
            options += _plugin_options(plugins, plugin_files)
            if semihosting is not None and _has_sandbox(executable):
                options += _SANDBOX
            output = console_end if semihosting is not None else self._messages
            inherited = (self._ddr_file, gdb_end.fileno(), qtest_end.fileno(), qmp_end.fileno(), uart_end)
            descriptors = (descriptor for plugin in plugins for descriptor in plugin.descriptors)
            self.process = start_child(
                [executable, *_arguments(*inherited), *options],
                stdout=output,
                stderr=output,
                cwd=semihosting.cwd if semihosting is not None else None,
                pass_fds=(*inherited, image, *plugin_files, *descriptors),
                preexec_fn=_prepare_child(os.getpid()),
            )
        except OSError as error:
            self.stop()
            lacking = shortage(error)
            raise TargetNotAvailable(
                f"{executable} could not be started: {error.strerror}",
                hint=QEMU_REMEDY if lacking is None else lacking.hint,
            ) from error
        except BaseException:
            self.stop()
            raise
        finally:
            os.close(image)
            for file in plugin_files:
                os.close(file)
            os.close(uart_end)
            if console_end >= 0:
                os.close(console_end)
            gdb_end.close()
            qtest_end.close()
            qmp_end.close()

    @property
    def elf(self) -> bytes:
        """The image it was started with; empty without one."""
        return self._elf.read_bytes() if isinstance(self._elf, Path) else self._elf or b""

    @property
    def ddr_used(self) -> list[tuple[int, int]]:
        """The parts of the DDR touched since it was last emptied: start and end as offsets, disjoint, in order."""
        used: list[tuple[int, int]] = []
        end = 0
        while end < DDR.size:
            try:
                begin = os.lseek(self._ddr_file, end, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:  # ENXIO: no data follows
                    raise
                break
            end = os.lseek(self._ddr_file, begin, os.SEEK_HOLE)
            used.append((begin, end))
        return used

    def release_ddr(self) -> None:
        """Give all memory of the DDR back to the system. It reads as zero from then on."""
        assert self.ddr is not None
        self.ddr.madvise(mmap.MADV_REMOVE)

    @property
    def pid(self) -> int:
        """Process id of the running QEMU."""
        assert self.process is not None
        return self.process.pid

    def exit_status(self, wait: float = 0.0) -> int | None:
        """Return the exit status (negative: the signal that ended it), or None while it runs. Wait at most `wait`
        seconds.
        """
        assert self.process is not None
        try:
            return self.process.wait(wait)
        except subprocess.TimeoutExpired:
            return None

    def read_uart(self) -> bytes:
        """Return the guest's output on UART0 since the last call, without waiting."""
        data, self.uart = _available(self.uart)
        return data

    def hand_console_to_guest(self) -> None:
        """Treat console text as the guest's from now on. Call it when QEMU is up, before the guest first runs."""
        data, self.console = _available(self.console)
        write_all(self._messages, data)

    def read_console(self) -> bytes:
        """Return the guest's console output since the last call, without waiting and without QEMU's own messages."""
        data, self.console = _available(self.console)
        data = self._withheld + data
        # QEMU ends after its report, so what stands further from the end is a guest's: it may print the same words.
        end = data.find(_FATAL_PREFIX, max(0, len(data) - _FATAL_BYTES)) if self._withholds else -1
        end = len(data) if end < 0 else end
        self._withheld = data[end:]
        return data[:end]

    def is_ended_by_guest(self, status: int) -> bool:
        """Return whether a semihosting call ended QEMU with `status`. If so, all of the console is the guest's.

        QEMU has no other way to end with a status: the signals that would cause one are blocked in it.
        """
        self._withholds = not self._semihosting or self.exit_status(_STOP_SECONDS) != status
        return not self._withholds

    def messages(self) -> str:
        """Return QEMU's own output, without its usual remark about the unconnected network card."""
        size = os.fstat(self._messages).st_size
        text = (os.pread(self._messages, size, 0) + self._withheld).decode("utf-8", "replace")
        lines = [line for line in text.splitlines() if "lan9118" not in line]
        return "\n".join(lines)

    def reason(self) -> str | None:
        """Return the line of its messages that says why it ended, or None."""
        lines = [line.strip() for line in self.messages().splitlines() if line.strip() and "warning:" not in line]
        # The registers follow a fatal error.
        return next((line for line in lines if line.startswith("qemu")), lines[-1] if lines else None)

    def stop(self) -> None:
        """End and reap QEMU. May be called in any state, and again."""
        if self.process is not None:
            # SIGKILL also ends a process that is stopped or hung; QEMU has nothing to save.
            # It has a group of its own, with more members where a script calls QEMU. Once it was reaped, its number may
            # be another's.
            if self.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGKILL)
            wait_for_end(self.process, _STOP_SECONDS)
            self.process = None
        self.gdb.close()
        self.qtest.close()
        self.qmp.close()
        if self.ddr is not None:
            # An array in a traceback, for example, may still use it; then it is freed with that array.
            with contextlib.suppress(BufferError):
                self.ddr.close()
        for shared in (self.watcher, self.counter):
            if shared is not None:
                shared.close()
        for name in ("uart", "console", "_messages", "_ddr_file"):
            descriptor = getattr(self, name)
            if descriptor >= 0:
                setattr(self, name, -1)
                os.close(descriptor)

    def __del__(self) -> None:
        # For an exception between the start and the code that would have called `stop`.
        if getattr(self, "process", None) is not None:
            self.stop()


def equipped_qemu(
    soc: Soc,
    rules: Collection[Rule],
    fittings: Fittings,
    elf: bytes | Path | None = None,
    *,
    semihosting: Semihosting | None = None,
    data: Sequence[tuple[Path, int]] = (),
    added: Memory | None = None,
) -> Qemu:
    """Start a QEMU with the plug-ins that a board's rules and devices need.

    Args:
        soc: the system on chip.
        rules: those of the strict board that it keeps.
        fittings: its devices.
        elf, semihosting, data: see `Qemu`.
        added: a memory that the program needs and the machine lacks.

    Raises:
        TargetNotAvailable: it can't be started.
    """
    watcher = None
    if rules:  # a board without rules does not wait for the import
        from ethos_hil.harness.virtual.watcher import watcher as watcher_for

        watcher = watcher_for(soc, rules, fittings)
    plugins = fittings.plugins(soc, added)
    counter = InstructionCounter() if fittings.cycle_counter else None
    return Qemu(elf, semihosting=semihosting, data=data, plugins=plugins, watcher=watcher, counter=counter)


@functools.cache
def _has_sandbox(executable: str) -> bool:
    """Return whether a QEMU was built with seccomp: it names the library. Asking it would cost a start."""
    try:
        with Path(executable).open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as text:
            return text.find(b"libseccomp") >= 0
    except (OSError, ValueError):  # a script that calls QEMU may be empty, or not readable
        return False


def unavailable(what: str, qemu: Qemu) -> TargetNotAvailable:
    """Return the error for a QEMU that did not start, with its own messages. Call it before `stop`."""
    status = qemu.exit_status(1.0)
    qemu.hand_console_to_guest()  # what it holds is QEMU's, since no guest ran
    reason = qemu.reason() or "it printed no message"
    outcome = what if status is None else f"it {ending(status)}"
    hint = QEMU_REMEDY if Path("/proc/self/fd").is_dir() else "mount /proc: QEMU is given its memories through it"
    return TargetNotAvailable(f"QEMU did not start the machine {MACHINE}: {outcome}: {reason}", hint=hint)


def _plugin_options(plugins: Sequence[Plugin], files: Sequence[int]) -> list[str]:
    """Write the plug-ins to their memory files, and return the options that load them."""
    for plugin, file in zip(plugins, files, strict=True):
        write_all(file, plugin.code())
    return [option for plugin, file in zip(plugins, files, strict=True) for option in plugin.options(file)]


def _loader_options(kernel: Path | None, data: Sequence[tuple[Path, int]]) -> list[str]:
    """Return the options that load the image and the data into memory."""
    options = [] if kernel is None else ["-kernel", str(kernel.absolute())]
    for path, address in data:
        name = str(path.absolute()).replace(",", ",,")
        options += ["-device", f"loader,file={name},addr=0x{address:x},force-raw=on"]
    return options


def _arguments(ddr: int, gdb: int, qtest: int, qmp: int, uart: int) -> list[str]:
    return [
        *("-M", f"{MACHINE},memory-backend=ddr"),
        *("-object", f"memory-backend-file,id=ddr,size={DDR.size},mem-path=/proc/self/fd/{ddr},share=on"),
        *("-accel", "tcg"),
        *("-nodefaults", "-display", "none", "-monitor", "none"),
        *("-chardev", f"file,id=uart,path=/proc/self/fd/{uart}", "-serial", "chardev:uart"),
        *("-chardev", f"socket,id=gdb,fd={gdb}", "-gdb", "chardev:gdb"),
        # Not -qtest: that option takes no chardev by id in 7.2.
        *("-chardev", f"socket,id=qtest,fd={qtest}", "-object", "qtest,id=server,chardev=qtest,log=/dev/null"),
        *("-chardev", f"socket,id=qmp,fd={qmp}", "-mon", "chardev=qmp,mode=control"),
        # A guest that resets itself stops, so that it is noticed; otherwise QEMU would restart it for ever.
        *("-action", "reboot=shutdown,shutdown=pause"),
        "-S",
    ]


def _available(descriptor: int) -> tuple[bytes, int]:
    """Return the bytes that a pipe has now, and its descriptor; closed and -1 at the pipe's end."""
    data = b""
    while descriptor >= 0 and len(data) < _READ_BYTES and select.select([descriptor], [], [], 0)[0]:
        more = os.read(descriptor, 1 << 16)
        if not more:
            os.close(descriptor)
            descriptor = -1
        data += more
    return data, descriptor


def _prepare_child(parent: int) -> Callable[[], None]:
    """Return the function to call in the child: it dies with `parent`, and ignores signals that ask it to end.

    QEMU ends with status 0 on such a signal, as if the guest had succeeded. It writes no core file: a guest can make it
    abort, and the file would be in the guest's folder, with gigabytes of memory and this user's environment.
    """
    ask = dies_with(parent)

    def prepare() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        ask()

    return prepare


def _memory_file(name: str) -> int:
    return os.memfd_create(name, os.MFD_CLOEXEC)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
