"""Bytes that a UART, or what reads it, may take for a command.

EOT ends the simulation where an FVP's `shutdown_on_eot` is set; it is off by default (ARM-software/AVH quotes the list
of an FVP). DC4 means something to Arm's PL011 model while `enable_dc4` is set; no public source describes its effect.
Whether the UART of an MPS3 or MPS4 knows DC4 is not known.
"""

from __future__ import annotations

EOT = 0x04
DC4 = 0x14
PARAMETERS = {DC4: "enable_dc4", EOT: "shutdown_on_eot"}
"""By byte: the parameter of an FVP's UART that says whether it has that meaning."""
