"""What plain QEMU says of the firmware's accesses: each complaint is on a list, with the reason.

QEMU logs an access to a register that it does not have (`-d unimp`) and one that a guest should not make
(`-d guest_errors`), and lets most of them pass. A part may not. So somebody looks at a new line before it is put onto
the list.
"""

from __future__ import annotations

import io
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from plain_qemu import Conversation, boot

from ethos_hil.harness.image.formats import ErrorKind
from ethos_hil.harness.image.pack import RunPlan, pack
from ethos_hil.harness.virtual.tests.programs import load
from ethos_hil.harness.virtual.tests.qemu_version import qemu_major

START = 0x10000000
"""Where QEMU's machine starts, a Corstone-300. The other boards' vectors are put there too."""


NULL = "region '(null)', reason: rejected"
ALWAYS = {
    # The machine's own: QEMU looks for vectors at 0 before the board says where they are.
    f"Invalid read at addr 0x0, size 4, {NULL}",
    f"Invalid read at addr 0x4, size 4, {NULL}",
    # CPDLPSTATE, a register of the Cortex-M55 and M85 for the power of the FPU; QEMU's processor has none.
    "Read of unassigned area of PPB: offset 0x1e300",
    "Write of unassigned area of PPB: offset 0x1e300",
}
BOARDS = {
    # QEMU has the NPU's window under this name; NPU_ID reads as zero, which is how the firmware finds no NPU.
    # NPU_CONFIG is read with it.
    "corstone300": {
        "U55 timing adapter 0: unimplemented device read  (size 4, offset 0x000)",
        "U55 timing adapter 0: unimplemented device read  (size 4, offset 0x028)",
    },
    # NPU_ID, by a load that may fault: QEMU's machine has nothing where this system's NPU is.
    "corstone310": {f"Invalid read at addr 0x50004000, size 4, {NULL}"},
}
"""Lines of QEMU's log that do not matter, with the reasons."""
BOARDS["corstone320"] = BOARDS["corstone310"]


def lines_of(elf: bytes, folder: Path, timeout: float = 10.0) -> tuple[Conversation, list[str]]:
    """Boot an ELF to its END frame. Return what it said, and the different lines of QEMU's log."""
    vectors = ELFFile(io.BytesIO(elf)).get_section_by_name(".vectors")
    log = folder / "qemu.log"
    options: Sequence[str] = ("-d", "unimp,guest_errors", "-D", str(log))
    if vectors["sh_addr"] != START:
        (folder / "vectors.bin").write_bytes(vectors.data()[:8])
        loader = f"loader,file={folder / 'vectors.bin'},addr=0x{START:x},force-raw=on"
        options = (*options, "-device", loader)
    conversation = boot(elf, folder, timeout, options)
    return conversation, list(dict.fromkeys(log.read_text().splitlines()))


def unexpected(lines: Sequence[str], board: str) -> list[str]:
    """Return the lines that are not on the list, and the entries of the list that were not needed.

    QEMU 7.2 logs a read where there is nothing; QEMU 10.0 does not.
    """
    allowed = sorted(line for line in ALWAYS | BOARDS[board] if qemu_major() < 10 or not line.endswith(NULL))
    new = [f"not on the list: {line}" for line in lines if line not in allowed]
    return new + [f"on the list, and not needed: {line}" for line in allowed if line not in lines]


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("error", [ErrorKind.PACKAGE, ErrorKind.NPU_MISMATCH])
def test_qemu_complains_of_nothing_else(
    board: str, error: ErrorKind, built: Callable[[str], Path], tmp_path: Path
) -> None:
    """Without a package, and with a program for the NPU: it is loaded, and refused, because there is no NPU."""
    elf = (built(board) / "ethos-hil.elf").read_bytes()
    if error is ErrorKind.NPU_MISMATCH:
        program = load("add")
        elf = pack(elf, program.pte, [program.inputs], RunPlan(1, len(program.inputs))).elf
    conversation, lines = lines_of(elf, tmp_path)
    assert conversation.error()[0] is error
    assert unexpected(lines, board) == []


STRAY = """
    .syntax unified
    .thumb
    .section .vectors, "a"
    .word 0x30001000, reset
    .text
    .type reset, %function
reset:
    ldr r0, =0xE001E300
    ldr r1, [r0]
    str r1, [r0]
    ldr r0, =0xE001E304
    str r1, [r0]
    ldr r0, =0x58102000
    ldr r1, [r0]
    ldr r1, [r0, #0x28]
    ldr r0, =0x59303FF0
    str r1, [r0]
    b .
"""


def test_a_stray_access_is_seen(tmp_path: Path) -> None:
    """Each by itself: a register of the processor that is not on the list, and a UART's that cannot be written."""
    (tmp_path / "stray.s").write_text(STRAY)
    linked = "-Wl,--section-start=.vectors=0x10000000 -Wl,-Ttext=0x10000400 -Wl,-e,reset"
    command = f"arm-none-eabi-gcc -mcpu=cortex-m55 -mthumb -nostdlib {linked} stray.s -o stray.elf"
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    with pytest.raises(AssertionError, match="no END frame"):
        lines_of((tmp_path / "stray.elf").read_bytes(), tmp_path, 1.0)
    lines = unexpected(list(dict.fromkeys((tmp_path / "qemu.log").read_text().splitlines())), "corstone300")
    assert len(lines) == 2, lines
    assert lines[0] == "not on the list: Write of unassigned area of PPB: offset 0x1e304"
    assert lines[1].startswith("not on the list: ")
    assert "UART" in lines[1]
    assert unexpected([], "corstone300")[0].startswith("on the list, and not needed")
