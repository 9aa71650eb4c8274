"""What a system has at other addresses than QEMU's machine, changed by a plug-in of QEMU (address_map.c).

The plug-in uses functions that QEMU 7.2 exports and does not document. So only two kinds of runs get it: a foreign
program that has bytes in a memory that the machine lacks, and a strict board, where a device that the system lacks must
not answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ethos_hil.base.errors import TargetNotAvailable
from ethos_hil.harness.socs.soc import Memory, Soc, Window
from ethos_hil.harness.virtual.mps3_an547 import addable
from ethos_hil.harness.virtual.plugin import Plugin


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


def plugin(added: Memory | None, absent: Sequence[Window]) -> Plugin | None:
    """Return the plug-in that adds a memory and takes devices away, or None where there is nothing to change."""
    if added is not None:
        purpose = "the memory that the program needs is added to QEMU"
    elif absent:
        purpose = "devices that the strict board lacks are taken from QEMU"
    else:
        return None
    # The machine shows other code's addresses to secure code too.
    places = [*(("ram", added) for _ in range(added is not None)), *(("absent", window) for window in absent)]
    return Plugin(
        "address_map",
        purpose,
        tuple(f"{kind}={min(window.bases):#x}:{window.size:#x}" for kind, window in places if window is not None),
    )
