"""The name by which labgrid knows who has borrowed a place.

A place stays with the user that labgrid knows it by, whatever becomes of his processes. So the name under which the
harness borrows has its process id: what a dead process of this machine has borrowed is given back by the next one.
"""

from __future__ import annotations

import getpass
import os
import re
import socket
import zlib
from pathlib import Path

_MARK = re.compile(r"\+ethos-hil-([0-9a-f]{8})-(\d+)-(\d+)$")


def borrower_name(pid: int) -> tuple[str, str]:
    """Return host and user by which labgrid knows a process of ours."""
    host = os.environ.get("LG_HOSTNAME") or socket.gethostname()
    user = os.environ.get("LG_USERNAME") or getpass.getuser()
    return host, f"{user}+ethos-hil-{_machine()}-{pid}-{_began(pid)}"


def is_left_behind(owner: str, host: str) -> bool:
    """Return whether `owner`, which is "host/user", is a process of ours on this host that is no more."""
    found = _MARK.search(owner)
    if found is None or not owner.startswith(f"{host}/") or found[1] != _machine():
        return False
    return _began(int(found[2])) != int(found[3])


def _machine() -> str:
    """Return what tells this machine, as it was started last, and its world of process ids from others of one name."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        world = str(Path("/proc/self/ns/pid").readlink())
        return f"{zlib.crc32((boot + world).encode()):08x}"
    except OSError:
        return f"{zlib.crc32(os.urandom(8)):08x}"


def _began(pid: int) -> int | None:
    """Return when a process began, in ticks since the boot (22nd field in proc(5)'s stat), or None if it is no more."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None
