"""Thumb instructions, decoded: for what executes start-up code, and for accesses that the virtual board carries out.

Capstone decodes. What is newer than the Armv8-M that it knows (the loops and conditional selects of Armv8.1-M) is
decoded here: Armv8-M Architecture Reference Manual (DDI 0553), C2.4.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

SP, LR, PC = 13, 14, 15
ALWAYS = 14
"""The condition of an instruction that has none."""


@dataclass(frozen=True)
class Shifted:
    """A register operand: its number, and how it is shifted: "lsl", "lsr", "asr", "ror", "rrx", or "" and 0."""

    register: int
    how: str = ""
    amount: int = 0


@dataclass(frozen=True)
class Place:
    """A memory operand: base and index (or None) registers, the index's left shift, and bytes to add."""

    base: int
    index: int | None
    shift: int
    displacement: int


Operand = Shifted | Place | int


@dataclass(frozen=True)
class Instruction:
    """A decoded instruction.

    Attributes:
        name: without the letters for flags, condition and width: "add", "ldr", "b". "" for one that is not known, and
            "fp" for one of the FPU that changes no register of the core.
        size: 2 or 4 bytes.
        condition: 0 to 14, as in the encoding of a branch.
        operands: in the order of the assembler.
        flags: whether it sets the flags.
        writeback, post: whether the base register changes, and after the access.
        fp: whether it needs access to the FPU or MVE (CPACR).
        text: for messages.
    """

    name: str
    size: int
    condition: int = ALWAYS
    operands: tuple[Operand, ...] = ()
    flags: bool = False
    writeback: bool = False
    post: bool = False
    fp: bool = False
    text: str = ""


def is_wide(first: int) -> bool:
    """Return whether a first halfword is one of a 32-bit instruction."""
    return first >> 11 >= 0b11101


@functools.lru_cache(maxsize=20_000)
def decode(first: int, second: int, address: int) -> Instruction:
    """Return the instruction of these halfwords; `second` counts only for a 32-bit one.

    The address matters for what names its target.
    """
    if not is_wide(first):
        return _by_capstone(first.to_bytes(2, "little"), address)
    ours = _newer(first, second, address)
    if ours is not None:
        return ours
    code = first.to_bytes(2, "little") + second.to_bytes(2, "little")
    fp = needs_fp(first, second)
    insn = _by_capstone(code, address)
    return _floating(insn, first, second) if fp else insn


def needs_fp(first: int, second: int) -> bool:
    """Return whether a 32-bit instruction is one of the FPU or MVE, which faults without access by CPACR."""
    if first & 0xEC00 == 0xEC00:  # coprocessor space
        if first & 0xEF00 == 0xEF00:
            return True  # MVE data processing
        if first & 0xFFE0 == 0xEC20 and second & 0x0F00 == 0x0A00 and first & 0xF != PC:
            return False  # VLSTM, VLLDM: nothing happens without an FPU
        return second >> 8 & 0xF in (8, 9, 10, 11, 14, 15)
    # DLSTP, WLSTP, LETP, LCTP: the loops whose last round MVE predicates.
    if first & 0xFF80 == 0xF000 and second & 0xD001 == 0xC001:
        base = first & 0xF
        return first & 0x40 == 0 if base != PC else first & 0x70 == 0x10 or second & 0xFFFF == 0xE001
    return False


def _newer(first: int, second: int, address: int) -> Instruction | None:
    """Decode what Armv8.1-M added for the core."""
    text = f"{first:04x} {second:04x}"
    if first & 0xFFF0 == 0xEA50 and second & 0x8000:
        name = ("csel", "csinc", "csinv", "csneg")[second >> 12 & 3]
        n, d, m, condition = first & 0xF, second >> 8 & 0xF, second & 0xF, second >> 4 & 0xF
        return Instruction(name, 4, operands=(Shifted(d), Shifted(n), Shifted(m), condition), text=name)
    if first & 0xFFF0 == 0xEA50 and second & 0xF == 0xF:
        low, high = first & 0xE, second >> 8 & 0xE | 1
        return Instruction("unknown result", 4, operands=(Shifted(low), Shifted(high)), text=text)
    if first == 0xE89F:
        registers = tuple(Shifted(number) for number in range(PC) if second >> number & 1)
        return Instruction("clrm", 4, operands=registers, text="clrm")
    if first & 0xFFF0 == 0xF040 and second == 0xE001:
        return Instruction("dls", 4, operands=(Shifted(first & 0xF),), text="dls")
    distance = (second >> 1 & 0x3FF) << 2 | (second >> 11 & 1) << 1
    if first & 0xFFF0 == 0xF040 and second & 0xF001 == 0xC001:
        return Instruction("wls", 4, operands=(Shifted(first & 0xF), address + 4 + distance), text="wls")
    if first in (0xF00F, 0xF02F) and second & 0xF001 == 0xC001:
        name = "le" if first == 0xF00F else "b"
        return Instruction(name, 4, operands=(address + 4 - distance,), text="le")
    return None


_FP_STEPS = ("vldr", "vstr", "vldm", "vstm", "vldmia", "vldmdb", "vstmia", "vstmdb", "vpush", "vpop")
"""Instructions of the FPU that access memory; their last operand is the number of bytes."""


def _floating(insn: Instruction, first: int, second: int) -> Instruction:
    """Return an instruction of the FPU as far as the core sees it. One of MVE is not known."""
    name, operands = insn.name, insn.operands
    if not name.startswith("v") or second >> 8 & 0xF not in (9, 10, 11):
        return Instruction("", 4, fp=True, text=f"vector or coprocessor instruction {first:04x} {second:04x}")
    if name in ("vldr", "vstr"):
        operands = (*operands, {9: 2, 10: 4, 11: 8}[second >> 8 & 0xF])
    elif name in _FP_STEPS:
        operands = (*operands, 4 * (second & 0xFE if second >> 8 & 0xF == 11 else second & 0xFF))
    elif name not in ("vmov", "vmrs"):
        name, operands = "fp", ()
    return Instruction(name, 4, operands=operands, writeback=insn.writeback, fp=True, text=insn.text)


def prepare() -> None:
    """Load the disassembler now (50 ms), before it delays a run."""
    _capstone()


@functools.cache
def _capstone() -> tuple[Any, Any]:
    import capstone

    mode = capstone.CS_MODE_THUMB | capstone.CS_MODE_MCLASS | capstone.CS_MODE_V8
    disassembler = capstone.Cs(capstone.CS_ARCH_ARM, mode)
    disassembler.detail = True
    return capstone, disassembler


_NUMBERS = {f"r{number}": number for number in range(16)} | {
    "sb": 9, "sl": 10, "fp": 11, "ip": 12, "sp": SP, "lr": LR, "pc": PC,
}  # fmt: skip
_SHIFTS = ("", "asr", "lsl", "lsr", "ror", "rrx")


def _by_capstone(code: bytes, address: int) -> Instruction:
    capstone, disassembler = _capstone()
    text = " ".join(f"{int.from_bytes(code[i : i + 2], 'little'):04x}" for i in range(0, len(code), 2))
    insn = next(disassembler.disasm(code, address, 1), None)
    if insn is None or insn.size != len(code):
        return Instruction("", len(code), text=f"instruction {text}")
    name = {"movs": "mov", "subs": "sub"}.get(insn.insn_name(), insn.insn_name())
    operands = []
    for part in insn.operands:
        operand = _operand(capstone, insn, part)
        if operand is None:
            if name not in ("msr", "mrs") and not name.startswith("v"):
                return Instruction("", len(code), text=f"{insn.mnemonic} {insn.op_str}")
            continue
        operands.append(operand)
    if name in ("msr", "mrs"):  # the number of the special register
        operands.append(code[2])
    if name == "it":
        operands = [code[0]]
    condition = insn.cc - 1 if name in ("b", "bl", "bx") and 0 < insn.cc < 15 else ALWAYS
    return Instruction(
        name,
        len(code),
        condition,
        tuple(operands),
        insn.update_flags and insn.mnemonic.removesuffix(".w").endswith("s"),  # Capstone 5 says so of ADC and SBC too
        insn.writeback,
        bool(insn.post_index),
        text=f"{insn.mnemonic} {insn.op_str}".strip(),
    )


def _operand(capstone: Any, insn: Any, operand: Any) -> Operand | None:
    arm = capstone.arm
    if operand.type == arm.ARM_OP_IMM:
        value: int = operand.imm
        return value & 0xFFFFFFFF
    if operand.type == arm.ARM_OP_REG:
        number = _NUMBERS.get(insn.reg_name(operand.reg))
        if number is None:
            return None
        shift = operand.shift.type
        return Shifted(number, _SHIFTS[shift] if shift < len(_SHIFTS) else "", operand.shift.value)
    if operand.type == arm.ARM_OP_MEM:
        base = _NUMBERS.get(insn.reg_name(operand.mem.base))
        index = _NUMBERS.get(insn.reg_name(operand.mem.index)) if operand.mem.index else None
        shift = operand.shift.value if operand.shift.type else 0
        return None if base is None else Place(base, index, shift, operand.mem.disp)
    return None
