"""Plug-ins of QEMU: C sources, most of this folder, compiled where they are needed, which takes a tenth of a second.

QEMU loads one from a memory file that it inherits, so nothing of it is left behind.
"""

from __future__ import annotations

import functools
import mmap
import os
import shutil
import subprocess
from pathlib import Path

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import TargetNotAvailable
from ethos_hil.harness.socs.soc import Window

_FOLDER = Path(__file__).parent
COMPILERS = ("cc", "gcc", "clang")
"""One of them compiles it: the first that is on PATH."""
_SECONDS = 60
_LAST = 300  # characters of a compiler's message


@dataclass(frozen=True)
class Plugin:
    """A plug-in to start QEMU with.

    Attributes:
        source: name of its source without the ending.
        purpose: what it is needed for, as the start of a message.
        arguments: its arguments, as name=value.
        state: a file descriptor that QEMU inherits and the plug-in maps, or -1 for none.
        inherited: further file descriptors that QEMU inherits for it; its arguments tell which.
        folder: where the source is.
    """

    source: str
    purpose: str
    arguments: tuple[str, ...] = ()
    state: int = -1
    inherited: tuple[int, ...] = ()
    folder: Path = _FOLDER

    @property
    def descriptors(self) -> tuple[int, ...]:
        """All file descriptors that QEMU inherits for it."""
        return (*self.inherited, self.state) if self.state >= 0 else self.inherited

    def code(self) -> bytes:
        """Return the compiled plug-in. Raises TargetNotAvailable where it cannot be compiled."""
        return _compile(self.folder, self.source, self.purpose)

    def options(self, file: int) -> list[str]:
        """Return QEMU's options that load it. `file`: a file descriptor with its code that QEMU inherits."""
        state = (f"state=/proc/self/fd/{self.state}",) if self.state >= 0 else ()
        return ["-plugin", ",".join((f"file=/proc/self/fd/{file}", *self.arguments, *state))]


class PluginState:
    """A memory file that a plug-in maps, and this process too, while a QEMU with it lives."""

    def __init__(self, name: str, size: int) -> None:
        """Make the file. Raises OSError."""
        self._file = os.memfd_create(f"ethos-hil-{name}", os.MFD_CLOEXEC)
        os.ftruncate(self._file, size)  # sparse
        self._map = mmap.mmap(self._file, size)

    def close(self) -> None:
        """Give the file back. May be called again."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            self._map.close()

    def __del__(self) -> None:
        # For an exception before a QEMU has it.
        if getattr(self, "_file", -1) >= 0:
            self.close()


@functools.cache
def _compile(folder: Path, name: str, purpose: str) -> bytes:
    source = folder / f"{name}.c"
    compiler = next((path for name_of_compiler in COMPILERS if (path := shutil.which(name_of_compiler))), None)
    if compiler is None:
        raise TargetNotAvailable(
            f"{purpose} by {source.name}, and no C compiler is on PATH to compile it "
            "(Debian: apt install gcc libc6-dev)"
        )
    import tempfile  # late: every start of a launcher would pay for it

    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as temporary:
        library = Path(temporary) / f"{name}.so"
        flags = ("-shared", "-fPIC", "-O2", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror")
        done = subprocess.run(
            [compiler, *flags, str(source), str(_FOLDER / "interface.c"), "-o", str(library)],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
        if done.returncode:
            errors = " ".join(done.stderr.split())[-_LAST:]
            raise TargetNotAvailable(f"{compiler} could not compile {source.name}: {errors}")
        return library.read_bytes()


DWT = Window(0xE0001000, 8)
_CONTROL, _COUNT = 0, 4
_ENABLE = 1 << 0
_FIXED = 0
"""No comparators: NUMCOMP is 0. The cycle counter is there: NOCYCCNT is 0."""


class InstructionCounter(PluginState):
    """The cycle counter of a virtual processor, which counts instructions: QEMU knows no cycles.

    A plug-in of QEMU counts them (counter.c) while it lives. This process serves the two registers of the DWT that
    software needs: QEMU's own read as zero. Registers: Armv8-M Architecture Reference Manual, D1.2, DWT_CTRL and
    DWT_CYCCNT.

    Attributes:
        plugin: to start QEMU with.
    """

    def __init__(self) -> None:
        """Prepare to count. Raises OSError."""
        super().__init__("counter", mmap.PAGESIZE)
        self._enabled = False
        self._start = 0
        self.plugin = Plugin("counter", "instructions are counted", state=self._file)

    @property
    def executed(self) -> int:
        """Instructions since QEMU started. One that accesses a register served by this process counts twice."""
        return int.from_bytes(self._map[:8], "little")

    def read(self, offset: int) -> int:
        """Return the register's value."""
        if offset == _CONTROL:
            return _FIXED | (_ENABLE if self._enabled else 0)
        return (self.executed - self._start) & 0xFFFFFFFF if self._enabled else 0

    def write(self, offset: int, value: int) -> None:
        """Write the register. Raises Unmodelled."""
        if offset == _CONTROL:
            if not self._enabled:
                self._start = self.executed
            self._enabled = bool(value & _ENABLE)
        elif value:
            from ethos_hil.harness.virtual.device import Unmodelled  # late: it imports the NPU's model, for 0.1 s

            raise Unmodelled(f"0x{value:x} is written to DWT_CYCCNT")
        else:
            self._start = self.executed
