"""How each server of GDB's remote protocol is started, unless a board's file says otherwise.

Sources: Zephyr's scripts/west_commands/runners/jlink.py and pyocd.py; OpenOCD's user's guide, "Server Configuration"
and "GDB and OpenOCD"; probe-rs's probe-rs-tools/src/bin/probe-rs/cmd/gdb_server/mod.rs. pyOCD 0.46.0 and OpenOCD 0.12.0
were run; J-Link's and probe-rs's servers are untried.

pyOCD answers reads of a halted board from a cache, which its writes go into too: what it reads back says nothing about
the board's memory. So its cache is off.
"""

from __future__ import annotations

from ethos_hil.harness.boards.board import Server

COMMANDS = {
    Server.PYOCD: (
        *("pyocd", "gdbserver", "-u", "{serial}", "-t", "{device}", "-p", "{port}"),
        *("-O", "connect_mode=halt", "-O", "cache.enable_memory=false"),
    ),
    Server.OPENOCD: (
        *("openocd", "-f", "interface/cmsis-dap.cfg", "-c", "adapter serial {serial}", "-c", "transport select swd"),
        *("-f", "{device}", "-c", "gdb_port {port}", "-c", "tcl_port disabled", "-c", "telnet_port disabled"),
        *("-c", "gdb_memory_map disable"),
    ),
    Server.JLINK: (
        *("JLinkGDBServer", "-select", "usb={serial}", "-device", "{device}", "-if", "swd", "-speed", "4000"),
        *("-port", "{port}", "-silent", "-nogui", "-singlerun", "-endian", "little"),
    ),
    Server.PROBE_RS: (
        *("probe-rs", "gdb", "--chip", "{device}", "--probe", "{serial}"),
        *("--gdb-connection-string", "127.0.0.1:{port}"),
    ),
}
"""The command lines, as `Loading.command` has them."""
