"""Small programs for a Corstone-300 that talk by semihosting, as hostile runners."""

from __future__ import annotations

import subprocess
from pathlib import Path

_SOURCE = """
.syntax unified
.thumb
.word 0x30001000
.word reset
.thumb_func
.type reset, %function
reset:
{body}
.size reset, . - reset
.balign 4
text: .asciz "{text}"
"""
_WRITE0 = " movs r0, #4\n ldr r1, =text\n bkpt 0xab\n"
_EXIT = " movs r0, #0x18\n ldr r1, =0x20026\n bkpt 0xab\n b .\n .ltorg\n"
SAYS = _WRITE0 + _EXIT
"""Print the text and end well."""
ENDS_WITH_3 = " movs r0, #0x20\n ldr r1, =block\n bkpt 0xab\n b .\n .balign 4\nblock: .word 0x20026, 3\n .ltorg\n"
"""End with the status 3."""
FOR_EVER = "again:\n" + _WRITE0 + " b again\n .ltorg\n"
"""Print the text for ever."""
HANGS = _WRITE0 + " b .\n .ltorg\n"
"""Print the text and wait for ever."""
UART_FOR_EVER = """
 ldr r0, =0x49303000
 movs r1, #16
 str r1, [r0, #16]
 movs r1, #1
 str r1, [r0, #8]
 movs r1, #120
again:
 ldr r2, [r0, #4]
 lsls r2, r2, #31
 bne again
 str r1, [r0]
 b again
 .ltorg
"""
"""Send the letter x to UART0 for ever. Registers: Arm's CMSDK UART (DDI 0479), CTRL at 8, STATE at 4, BAUDDIV at 16."""


def guest(folder: Path, body: str, text: str = "") -> Path:
    """Build an ELF.

    Args:
        folder: where to.
        body: its instructions.
        text: what it prints, as the assembler writes it: `\\\\033` is ESC, `\\\\n` a line feed.
    """
    (folder / "guest.s").write_text(_SOURCE.format(body=body, text=text))
    command = (
        "arm-none-eabi-gcc -mcpu=cortex-m55 -mthumb -g -nostdlib -Wl,-Ttext=0x10000000 -Wl,-e,reset guest.s -o guest"
    )
    subprocess.run(command.split(), cwd=folder, check=True, timeout=60, capture_output=True)
    return folder / "guest"
