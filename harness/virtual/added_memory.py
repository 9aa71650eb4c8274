"""RAM that a system has and QEMU's machine lacks, added by a plug-in of QEMU (added_memory.c).

The plug-in uses functions that QEMU 7.2 exports and does not document, so only a foreign program that has bytes in
such a memory gets it. It is compiled where it is needed, which takes a tenth of a second.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from ethos_hil.harness.errors import TargetNotAvailable
from ethos_hil.harness.socs.soc import Memory, Soc
from ethos_hil.harness.virtual.mps3_an547 import addable

_SOURCE = Path(__file__).with_name("added_memory.c")
_COMPILERS = ("cc", "gcc", "clang")
_SECONDS = 60
_LAST = 300  # characters of a compiler's message


def needed(places: Iterable[tuple[int, int]], soc: Soc) -> Memory | None:
    """Return the memory of `soc` to add for a program, or None.

    Args:
        places: address and bytes of all that the program has or reads.
        soc: the system.

    Raises:
        TargetNotAvailable: it needs several; the plug-in adds one.
    """
    wanted = list(places)
    found = [one for one in addable(soc) if any(one.holds(address, size) for address, size in wanted)]
    if len(found) > 1:
        names = " and ".join(one.name for one in found)
        raise TargetNotAvailable(f"the program needs {names} of {soc.name}; one memory can be added to QEMU's machine")
    return found[0] if found else None


def options(memory: Memory, plugin: int) -> list[str]:
    """Return QEMU's options that add a memory. `plugin`: a file descriptor of the plug-in that QEMU inherits."""
    base = min(memory.bases)  # other code's address; the machine shows the same to secure code
    return ["-plugin", f"file=/proc/self/fd/{plugin},base={base:#x},size={memory.size:#x}"]


@functools.cache
def plugin() -> bytes:
    """Return the compiled plug-in. Raises TargetNotAvailable where there is no compiler."""
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise TargetNotAvailable(
            f"the memory that the program needs is added to QEMU by {_SOURCE.name}, and no C compiler is on PATH to "
            "compile it (Debian: apt install gcc)"
        )
    import tempfile  # late: every start of a launcher would pay for it

    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder:
        made = Path(folder) / "added_memory.so"
        command = [compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", str(_SOURCE), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS)
        if done.returncode:
            said = " ".join(done.stderr.split())[-_LAST:]
            raise TargetNotAvailable(f"{compiler} could not compile {_SOURCE.name}: {said}")
        return made.read_bytes()
