"""ELFs of a few lines of assembly, which end by semihosting when they reach `main`."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Compiler:
    """Makes ELFs of a few lines of assembly, for a Corstone-300 unless told otherwise."""

    folder: Path

    def elf(
        self,
        body: str = "",
        *,
        more: str = "",
        stack: str = "0x30001000",
        reset: str = "reset",
        vectors: str = ".space 56",
        boot: int = 0x10000000,
        code: int = 0x10000400,
        sections: str = "",
    ) -> bytes:
        source = f"""
            .syntax unified
            .thumb
            .arch armv8.1-m.main
            .arch_extension mve.fp
            .fpu fpv5-d16
            .section .vectors, "ax"
            .word {stack}
            .word {reset}
            {vectors}
            .text
            .type main, %function
            .type reset, %function
            .global main, reset
        reset:
            {body}
            bl main
            .ltorg
        main:
            movs r0, #0x18
            ldr r1, =0x20026
            bkpt 0xAB
            {more}
            .ltorg
        """
        assembly, elf = self.folder / "guest.s", self.folder / "guest.elf"
        assembly.write_text(source)
        places = [f"-Wl,--section-start=.vectors=0x{boot:x}", f"-Wl,-Ttext=0x{code:x}", *sections.split()]
        options = ["-nostdlib", "-march=armv8.1-m.main+mve.fp+fp.dp", "-mfloat-abi=hard", "-mthumb", "-Wl,-e,reset"]
        command = ["arm-none-eabi-gcc", *options, "-Wl,--no-warn-rwx-segments", *places]
        subprocess.run([*command, "-o", str(elf), str(assembly)], check=True, capture_output=True)
        return elf.read_bytes()
