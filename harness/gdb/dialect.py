"""The words that GDB servers understand as `monitor` commands."""

from __future__ import annotations

from enum import StrEnum

from ethos_hil.base.dataclasses import dataclass


@dataclass(frozen=True)
class ServerWords:
    """What a server understands as `monitor` commands.

    Attributes:
        product: what messages call the server.
        reset_and_halt: the commands that reset the processor and leave it halted, in their order.
        halt: the command that halts the processor; "" where there is none.
    """

    product: str
    reset_and_halt: tuple[str, ...]
    halt: str


class ServerDialect(StrEnum):
    """Whose words a server understands as `monitor` commands.

    Sources: QEMU's hmp-commands.hx (it has no "reset"; the machine stays stopped, as it was), pyOCD's and OpenOCD's
    documents of their gdb servers, Zephyr's scripts/west_commands/runners/jlink.py, probe-rs's gdb server, which knows
    "info", "reset" and "reset halt" and nothing else.
    """

    QEMU = "qemu"
    PYOCD = "pyocd"
    OPENOCD = "openocd"
    JLINK = "jlink"
    PROBE_RS = "probe-rs"

    @property
    def words(self) -> ServerWords:
        """Its commands."""
        return _WORDS[self]


_WORDS = {
    ServerDialect.QEMU: ServerWords("QEMU", ("system_reset",), "stop"),
    ServerDialect.PYOCD: ServerWords("pyOCD", ("reset halt",), "halt"),
    ServerDialect.OPENOCD: ServerWords("OpenOCD", ("reset halt",), "halt"),
    ServerDialect.JLINK: ServerWords("J-Link's GDB server", ("halt", "reset"), "halt"),
    ServerDialect.PROBE_RS: ServerWords("probe-rs", ("reset halt",), ""),
}
