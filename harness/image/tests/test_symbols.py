"""Addresses become functions and lines: a source whose instructions have known sizes, and damaged ELFs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.image.symbols import Symbols
from ethos_hil.harness.testing.tiny_elf import tiny_elf, with_sections

SOURCE = """\
.syntax unified
.thumb
.global _ZN3npu3runEv
.type _ZN3npu3runEv, %function
_ZN3npu3runEv:
    nop
    b .
.size _ZN3npu3runEv, . - _ZN3npu3runEv
    nop
.global sizeless
.type sizeless, %function
sizeless:
    nop
    bx lr
"""


@pytest.mark.parametrize("dwarf", ["4", "5"])
def test_every_address_of_a_source(tmp_path: Path, dwarf: str, recorded: Recorded) -> None:
    """One byte before it, its four functions' bytes, what is between them, and one behind it."""
    (tmp_path / "two.s").write_text(SOURCE)
    command = ["arm-none-eabi-gcc", "-mcpu=cortex-m55", f"-gdwarf-{dwarf}", "-nostdlib", "-Wl,-Ttext=0x400"]
    subprocess.run([*command, "-Wl,-e,sizeless", "two.s", "-o", "two.elf"], cwd=tmp_path, check=True)
    elf = (tmp_path / "two.elf").read_bytes()
    recorded.check("\n".join(Symbols(elf).describe(address) for address in range(0x3FE, 0x40D)))


def test_an_elf_without_lines_or_symbols_gives_the_bare_address() -> None:
    bare = tiny_elf(0, b"", stack=0, entry=0, empty=(64, 4))
    for elf in (b"", b"hello", bare, bare[:60], with_sections(bare, {".debug_info": b"x" * 99}, {"data": 4})):
        assert Symbols(elf).describe(5) == "0x00000004"
