"""Whose server of GDB's remote protocol it is: what we call it, and the words that it understands."""

from __future__ import annotations

from enum import StrEnum


class ServerDialect(StrEnum):
    """Whose words a server understands as `monitor` commands."""

    QEMU = "qemu"
    PYOCD = "pyocd"
    OPENOCD = "openocd"
    JLINK = "jlink"
    PROBE_RS = "probe-rs"

    @property
    def reset_and_halt(self) -> tuple[str, ...]:
        """Return the `monitor` commands that reset the processor and leave it halted, in their order.

        Sources: QEMU's hmp-commands.hx (it has no "reset"; the machine stays stopped, as it was), pyOCD's and OpenOCD's
        documents of their gdb servers, Zephyr's scripts/west_commands/runners/jlink.py, probe-rs's gdb server, which
        knows "info", "reset" and "reset halt" and nothing else.
        """
        return {
            ServerDialect.QEMU: ("system_reset",),
            ServerDialect.PYOCD: ("reset halt",),
            ServerDialect.OPENOCD: ("reset halt",),
            ServerDialect.JLINK: ("halt", "reset"),
            ServerDialect.PROBE_RS: ("reset halt",),
        }[self]

    @property
    def halt(self) -> str:
        """Return the `monitor` command that halts the processor; "" where there is none."""
        return {
            ServerDialect.QEMU: "stop",
            ServerDialect.PYOCD: "halt",
            ServerDialect.OPENOCD: "halt",
            ServerDialect.JLINK: "halt",
        }.get(self, "")

    @property
    def product(self) -> str:
        """Return what messages call the server."""
        return {
            ServerDialect.QEMU: "QEMU",
            ServerDialect.PYOCD: "pyOCD",
            ServerDialect.OPENOCD: "OpenOCD",
            ServerDialect.JLINK: "J-Link's GDB server",
            ServerDialect.PROBE_RS: "probe-rs",
        }[self]
