"""The instructions that load, store and jump, as steps of a core."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ethos_hil.harness.image.lint.core import (
    MASK,
    Core,
    NotFollowed,
    Undecided,
    Value,
    number_operand,
    register_operand,
)
from ethos_hil.harness.image.lint.instruction import LR, PC, SP, Instruction, Place, Shifted

_MSP, _PSP, _CONTROL = 8, 9, 20
_SIZES = {"": 4, "b": 1, "h": 2, "sb": 1, "sh": 2, "d": 4, "ex": 4, "exb": 1, "exh": 2, "t": 4, "a": 4, "aex": 4}


def _writeback(p: Core, i: Instruction, place: Place, at: Value) -> None:
    if not i.writeback:
        return
    extra = i.operands[-1]
    if i.post and at is not None:
        at = (at + extra) & MASK if isinstance(extra, int) else None
        if isinstance(extra, int) and extra == 0 and place.displacement:
            at = None if at is None else (at + place.displacement) & MASK
    p.set(place.base, at)


def _place_of(i: Instruction) -> Place:
    return next(operand for operand in i.operands if isinstance(operand, Place))


def _load(p: Core, i: Instruction, address: int) -> None:
    place = _place_of(i)
    at = p.place(place, address)
    kind = i.name.removeprefix("ld").removeprefix("r")
    size = _SIZES.get(kind, 4)
    strict = kind == "d" or "ex" in kind
    targets = []
    for operand in i.operands:
        if isinstance(operand, Place):
            break
        operand = register_operand(operand)
        targets.append(operand.register)
    found = []
    for number in range(len(targets)):
        value = p.load(None if at is None else at + 4 * number, size, strict)
        if kind in ("sb", "sh") and value is not None and value >> (8 * size - 1):
            value |= MASK << 8 * size & MASK
        found.append(value)
    _writeback(p, i, place, at)
    for target, value in zip(targets, found, strict=True):
        p.set(target, value)


def _store(p: Core, i: Instruction, address: int) -> None:
    place = _place_of(i)
    at = p.place(place, address)
    exclusive = i.name.startswith(("strex", "stlex"))
    kind = i.name.removeprefix("st").removeprefix("r").removeprefix("l")
    size = _SIZES.get(kind, 4)
    strict = kind == "d" or exclusive
    sources = []
    for operand in i.operands[1 if exclusive else 0 :]:
        if isinstance(operand, Place):
            break
        sources.append(p.value(operand))
    for number, value in enumerate(sources):
        p.store(None if at is None else at + 4 * number, size, value, strict)
    if exclusive:
        status = i.operands[0]
        status = register_operand(status)
        p.set(status.register, 0)
    _writeback(p, i, place, at)


def _multiple(p: Core, i: Instruction, address: int) -> None:
    """Carry out LDM, STM, PUSH and POP."""
    numbers = [operand.register for operand in i.operands if isinstance(operand, Shifted)]
    stacked = i.name in ("push", "pop")
    base = SP if stacked else numbers.pop(0)
    start = p.state.r[base]
    down = i.name in ("push", "stmdb", "ldmdb")
    if start is not None and down:
        start = (start - 4 * len(numbers)) & MASK
    after = None if start is None else start if down else (start + 4 * len(numbers)) & MASK
    where = [None if start is None else (start + 4 * position) & MASK for position in range(len(numbers))]
    if i.name in ("push", "stm", "stmdb"):
        for at, number in zip(where, numbers, strict=True):
            p.store(at, 4, p.state.r[number], True)
        values: list[Value] = []
    else:
        values = [p.load(at, 4, True) for at in where]
    if i.writeback or stacked:
        p.state.r[base] = after
    for number, value in zip(numbers, values, strict=False):
        p.set(number, value)


def _floating(p: Core, i: Instruction, address: int) -> None:
    """Carry out an instruction of the FPU, whose registers are never known."""
    if i.name in ("fp",):
        return
    if i.name in ("vmov", "vmrs"):
        written = i.operands[:2] if len(i.operands) and isinstance(i.operands[0], Shifted) else ()
        for operand in written:
            if isinstance(operand, Shifted) and i.text.split()[1].startswith(("r", "ip", "lr", "sb", "sl", "fp")):
                p.set(operand.register, None)
        if i.name == "vmrs" and not written:
            p.state.n = p.state.z = p.state.c = p.state.v = None
        return
    size = i.operands[-1]
    size = number_operand(size)
    if i.name in ("vldr", "vstr"):
        at = p.place(_place_of(i), address)
    else:
        base = next((operand.register for operand in i.operands if isinstance(operand, Shifted)), SP)
        start = p.state.r[base]
        down = i.name in ("vpush", "vstmdb", "vldmdb")
        at = None if start is None else (start - size) & MASK if down else start
        if i.writeback or i.name in ("vpush", "vpop"):
            p.state.r[base] = None if start is None else at if down else (start + size) & MASK
    step = min(size, 4)
    if i.name in ("vstr", "vstm", "vstmia", "vstmdb", "vpush"):
        for offset in range(0, size, step):
            p.store(None if at is None else at + offset, step, None, step == 4)


def _branch(p: Core, i: Instruction, address: int) -> None:
    target = p.value(i.operands[0])
    if i.name in ("bl", "blx", "blxns"):
        p.state.r[LR] = address + i.size | 1
    p.jump(target)


def _compare_branch(p: Core, i: Instruction, address: int) -> None:
    value, target = p.value(i.operands[0]), i.operands[1]
    target = number_operand(target)
    if value is None:
        raise Undecided((address + 2, target))
    if (value == 0) == (i.name == "cbz"):
        p.jump(target)


def _table(p: Core, i: Instruction, address: int) -> None:
    place = _place_of(i)
    base = address + 4 if place.base == PC else p.state.r[place.base]
    index = p.state.r[place.index] if place.index is not None else None
    size = 1 if i.name == "tbb" else 2
    entry = None if base is None or index is None else p.load(base + index * size, size)
    p.jump(None if entry is None else address + 4 + 2 * entry)


def _loop(p: Core, i: Instruction, address: int) -> None:
    """Carry out DLS, WLS and LE."""
    if i.name == "le":
        count = p.state.r[LR]
        if count is None:
            raise NotFollowed("how often a loop runs depends on what a device answers")
        if count > 1:
            p.state.r[LR] = count - 1
            p.jump(p.value(i.operands[0]))
        return
    p.state.r[LR] = p.value(i.operands[0])
    if i.name == "wls" and p.state.r[LR] == 0:
        p.jump(p.value(i.operands[1]))


def _it(p: Core, i: Instruction, address: int) -> None:
    code = i.operands[0]
    code = number_operand(code)
    condition, mask = code >> 4, code & 0xF
    found = [condition]
    while mask & 7:
        found.append(condition & ~1 | mask >> 3)
        mask = mask << 1 & 0xF
    p.state.it = tuple(found)


def _special(p: Core, i: Instruction, address: int) -> None:
    register, number = i.operands[0], i.operands[-1]
    register = register_operand(register)
    number = number_operand(number)
    special = p.state.special
    assert special is not None
    on_process_stack = bool((special.get(_CONTROL) or 0) & 2)
    current = _PSP if on_process_stack else _MSP
    if i.name == "mrs":
        if number <= 3:  # APSR, with others that read as zero in a program
            p.set(register.register, p.flags)
            return
        default = 0 if number in (_CONTROL, 16, 17, 19) else None
        p.set(register.register, p.state.r[SP] if number == current else special.get(number, default))
        return
    value = p.state.r[register.register]
    if number == current:
        p.set(SP, value)
        return
    if number == _CONTROL and value is not None and bool(value & 2) != on_process_stack:
        special[current] = p.state.r[SP]
        p.state.r[SP] = special.get(_PSP if value & 2 else _MSP)
    special[number] = value


def _nothing(p: Core, i: Instruction, address: int) -> None:
    """Carry out what changes nothing here: barriers, hints, interrupt masks."""


def _clear(p: Core, i: Instruction, address: int) -> None:
    for operand in i.operands:
        operand = register_operand(operand)
        p.set(operand.register, 0)


MOVEMENT: Mapping[str, Callable[[Core, Instruction, int], None]] = {
    name: step
    for step, names in (
        (_load, "ldr ldrb ldrh ldrsb ldrsh ldrd ldrex ldrexb ldrexh ldrt lda ldab ldah ldaex ldaexb ldaexh"),
        (_store, "str strb strh strd strex strexb strexh strt stl stlb stlh stlex stlexb stlexh"),
        (_multiple, "ldm stm ldmdb stmdb push pop"),
        (_floating, "fp vmov vmrs vldr vstr vldm vstm vldmia vldmdb vstmia vstmdb vpush vpop"),
        (_branch, "b bl bx blx bxns blxns"),
        (_compare_branch, "cbz cbnz"),
        (_table, "tbb tbh"),
        (_loop, "dls wls le"),
        (_it, "it"),
        (_special, "msr mrs"),
        (_nothing, "cps nop dsb isb dmb sev wfe wfi yield hint clrex sg pld pli csdb ssbb"),
        (_clear, "clrm"),
    )
    for name in names.split()
}
"""By the instruction's name."""
