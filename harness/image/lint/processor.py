"""A processor core that executes start-up code, with what cannot be known left open.

It is an Armv8.1-M core without caches, exceptions and time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ethos_hil.harness.image.lint.core import (
    MASK,
    Core,
    CoreMemory,
    NotFollowed,
    Undecided,
    Value,
    number_operand,
    register_operand,
    shift,
)
from ethos_hil.harness.image.thumb import LR, PC, SP, Instruction, Place, Shifted, decode, is_wide


def _three(p: Core, i: Instruction, address: int) -> tuple[int, Value, Value]:
    """Return the destination, and the values of both sources, of which the first may be left out."""
    operands = i.operands if len(i.operands) == 3 else (i.operands[0], *i.operands)
    destination = register_operand(operands[0])
    return destination.register, p.value(operands[1], address), p.value(operands[2], address)


def _add(p: Core, i: Instruction, address: int, a: Value, b: Value, carry: bool | None) -> Value:
    if a is None or b is None or carry is None:
        if i.flags or i.name in ("cmp", "cmn"):
            p.state.n = p.state.z = p.state.c = p.state.v = None
        return None
    total = a + b + carry
    result = total & MASK
    if i.flags or i.name in ("cmp", "cmn"):
        p.nz(result)
        p.state.c = total > MASK
        p.state.v = bool((a ^ result) & (b ^ result) & 0x80000000)
    return result


def _arithmetic(p: Core, i: Instruction, address: int) -> None:
    if i.name in ("cmp", "cmn"):
        a, b = p.value(i.operands[0], address), p.value(i.operands[1], address)
        inverted = None if b is None else b ^ MASK
        _add(p, i, address, a, inverted if i.name == "cmp" else b, i.name == "cmp")
        return
    number, a, b = _three(p, i, address)
    if i.name in ("rsb",):
        a, b = b, a
    if i.name in ("sub", "rsb", "sbc"):
        b = None if b is None else b ^ MASK
    carry = {"add": False, "sub": True, "rsb": True}.get(i.name, p.state.c)
    p.set(number, _add(p, i, address, a, b, carry))


_LOGIC: dict[str, Callable[[int, int], int]] = {
    "and": lambda a, b: a & b,
    "orr": lambda a, b: a | b,
    "eor": lambda a, b: a ^ b,
    "bic": lambda a, b: a & ~b,
    "orn": lambda a, b: a | b ^ MASK,
    "tst": lambda a, b: a & b,
    "teq": lambda a, b: a ^ b,
    "mov": lambda a, b: b,
    "mvn": lambda a, b: b ^ MASK,
}


def _logical(p: Core, i: Instruction, address: int) -> None:
    last = i.operands[-1]
    b = p.value(last, address)
    first = i.operands[0]
    if i.name in ("mov", "mvn"):
        a: Value = 0
    elif i.name in ("tst", "teq"):
        a = p.value(first, address)
    else:
        _, a, b = _three(p, i, address)
    if b is not None and i.name == "and" and b == 0:
        a = 0
    result = None if a is None or b is None else _LOGIC[i.name](a, b) & MASK
    if i.flags or i.name in ("tst", "teq"):
        p.nz(result)
        if isinstance(last, Shifted) and last.how:
            p.state.c = shift(p.state.r[last.register], last.how, last.amount)[1]
        elif isinstance(last, int) and last > 0xFF and (last & 0xFFFF) != last >> 16:
            p.state.c = bool(last >> 31)
    if i.name in ("tst", "teq"):
        return
    first = register_operand(first)
    p.set(first.register, result)


def _shift(p: Core, i: Instruction, address: int) -> None:
    number, a, b = _three(p, i, address)
    if b is None:
        result, out = None, None
    else:
        amount = b & 0xFF
        result, out = shift(a, i.name, min(amount, 33) if i.name != "ror" else amount)
        if amount == 0:
            out = p.state.c
    if i.flags:
        p.nz(result)
        p.state.c = out
    p.set(number, result)


def _movt(p: Core, i: Instruction, address: int) -> None:
    number, old, new = _three(p, i, address)
    p.set(number, None if old is None or new is None else old & 0xFFFF | new << 16)


def _adr(p: Core, i: Instruction, address: int) -> None:
    number, _, offset = _three(p, i, address)
    assert offset is not None
    p.set(number, ((address + 4 & ~3) + offset) & MASK)


def _extend(p: Core, i: Instruction, address: int) -> None:
    first, last = i.operands[0], p.value(i.operands[-1], address)
    first = register_operand(first)
    bits = 8 if i.name.endswith("b") else 16
    if last is not None:
        last &= (1 << bits) - 1
        if i.name[0] == "s" and last >> (bits - 1):
            last |= MASK << bits & MASK
    p.set(first.register, last)


def _bits(p: Core, i: Instruction, address: int) -> None:
    """Carry out UBFX, SBFX, BFI and BFC."""
    first = register_operand(i.operands[0])
    low, width = number_operand(i.operands[-2]), number_operand(i.operands[-1])
    mask = (1 << width) - 1
    old = p.state.r[first.register]
    source = 0 if i.name == "bfc" else p.value(i.operands[1], address)
    if source is None or (old is None and i.name in ("bfi", "bfc")):
        p.set(first.register, None)
        return
    if i.name in ("bfi", "bfc"):
        assert old is not None
        p.set(first.register, old & ~(mask << low) & MASK | (source & mask) << low)
        return
    field = source >> low & mask
    if i.name == "sbfx" and field >> (width - 1):
        field |= MASK & ~mask
    p.set(first.register, field)


def _compute(p: Core, i: Instruction, address: int) -> None:
    """Carry out what needs no flags: multiplications, divisions, counts, reversals."""
    first, *rest = i.operands
    first = register_operand(first)
    values = [p.value(operand, address) for operand in (i.operands if i.name == "mul" and len(rest) == 1 else rest)]
    if i.name in ("umull", "smull", "umlal", "smlal"):
        second = register_operand(rest[0])
        a, b = values[1], values[2]
        product = None if a is None or b is None or i.name.endswith("lal") else _product(i.name, a, b)
        p.set(first.register, None if product is None else product & MASK)
        p.set(second.register, None if product is None else product >> 32 & MASK)
        return
    known = [value for value in values if value is not None]
    result = _COMPUTED[i.name](*known) & MASK if len(known) == len(values) else None
    p.set(first.register, result)
    if i.flags:
        p.nz(result)


def _product(name: str, a: int, b: int) -> int:
    return a * b if name[0] == "u" else _to_signed(a) * _to_signed(b)


def _to_signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def _quotient(a: int, b: int) -> int:
    a, b = _to_signed(a), _to_signed(b)
    return 0 if b == 0 else (abs(a) // abs(b)) * (1 if (a < 0) == (b < 0) else -1)


_COMPUTED: dict[str, Callable[..., int]] = {
    "mul": lambda a, b: a * b,
    "mla": lambda a, b, c: a * b + c,
    "mls": lambda a, b, c: c - a * b,
    "udiv": lambda a, b: a // b if b else 0,
    "sdiv": _quotient,
    "clz": lambda a: 32 - a.bit_length(),
    "rbit": lambda a: int(f"{a:032b}"[::-1], 2),
    "rev": lambda a: int.from_bytes(a.to_bytes(4, "little"), "big"),
}


def _unknown(p: Core, i: Instruction, address: int) -> None:
    """Leave the results of a rare instruction open."""
    for operand in i.operands if i.name == "unknown result" else i.operands[:1]:
        if isinstance(operand, Shifted):
            p.set(operand.register, None)


def _select(p: Core, i: Instruction, address: int) -> None:
    """Carry out CSEL, CSINC, CSINV and CSNEG; register 15 is zero here."""
    d, n, m, condition = i.operands
    d = register_operand(d)
    n = register_operand(n)
    m = register_operand(m)
    condition = number_operand(condition)
    passed = p.passes(condition)
    first, other = (0 if operand.register == PC else p.state.r[operand.register] for operand in (n, m))
    if other is not None:
        other = {"csel": other, "csinc": other + 1, "csinv": other ^ MASK, "csneg": -other}[i.name] & MASK
    p.set(d.register, None if passed is None else first if passed else other)


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
    words = []
    for number in range(len(targets)):
        value = p.load(None if at is None else at + 4 * number, size, strict)
        if kind in ("sb", "sh") and value is not None and value >> (8 * size - 1):
            value |= MASK << 8 * size & MASK
        words.append(value)
    _writeback(p, i, place, at)
    for target, value in zip(targets, words, strict=True):
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
        status = register_operand(i.operands[0])
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
    size = number_operand(i.operands[-1])
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
    code = number_operand(i.operands[0])
    condition, mask = code >> 4, code & 0xF
    conditions = [condition]
    while mask & 7:
        conditions.append(condition & ~1 | mask >> 3)
        mask = mask << 1 & 0xF
    p.state.it = tuple(conditions)


def _special(p: Core, i: Instruction, address: int) -> None:
    register, number = register_operand(i.operands[0]), number_operand(i.operands[-1])
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


STEPS: Mapping[str, Callable[[Core, Instruction, int], None]] = {
    name: step
    for step, names in (
        (_arithmetic, "add sub rsb adc sbc cmp cmn"),
        (_logical, "and orr eor bic orn tst teq mov mvn"),
        (_shift, "lsl lsr asr ror"),
        (_movt, "movt"),
        (_adr, "adr"),
        (_extend, "uxtb uxth sxtb sxth"),
        (_bits, "ubfx sbfx bfi bfc"),
        (_compute, "umull smull umlal smlal " + " ".join(_COMPUTED)),
        (_select, "csel csinc csinv csneg"),
        (_unknown, "uxtab uxtah sxtab sxtah rev16 revsh usat ssat smulbb tt ttt tta ttat uadd8 sel"),
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
} | {"unknown result": _unknown}
"""By the instruction's name."""


class Processor(Core):
    """One core that executes instructions."""

    def __init__(self, memory: CoreMemory, stack: int, entry: int) -> None:
        """Put a core at `entry`, with `stack` as its main stack pointer."""
        super().__init__(memory, stack, entry)
        self._decoded: dict[int, Instruction] = {}
        self._version = memory.code_version

    def next(self) -> Instruction:
        """Return the instruction that is executed next.

        Raises:
            NotFollowed: there is none.
        """
        address = self.state.r[PC]
        if address is None:
            raise NotFollowed("it jumps to an address that is not known before it runs")
        if self._version != self.memory.code_version:
            self._version = self.memory.code_version
            self._decoded.clear()
        known = self._decoded.get(address)
        if known is not None:
            return known
        first = self.memory.fetch(address)
        if first is None:
            raise NotFollowed(f"there is no code at 0x{address:08x}")
        second = self.memory.fetch(address + 2) if is_wide(first) else 0
        instruction = self._decoded[address] = decode(first, second or 0, address)
        return instruction

    def step(self, instruction: Instruction) -> None:
        """Execute an instruction, which `next` returned.

        One in an IT block whose condition is not known is passed over.

        Raises:
            NotFollowed: it is one that is not known, or whose effect is not.
            Undecided: it is a branch on what is not known; nothing has changed.
        """
        state = self.state
        address = state.r[PC]
        assert address is not None
        condition = instruction.condition
        if state.it:
            condition = state.it[0]
        passed = self.passes(condition)
        if passed is None:
            if instruction.name == "b" and not state.it:
                target = instruction.operands[0]
                assert isinstance(target, int)
                raise Undecided((address + instruction.size, target))
            self.unsure, passed = True, False
        in_block, state.it = bool(state.it), state.it[1:]
        state.r[PC] = address + instruction.size
        if not passed:
            return
        run = STEPS.get(instruction.name)
        if run is None:
            state.r[PC] = address
            raise NotFollowed(f"{instruction.text} is not modelled")
        if in_block and instruction.size == 2 and instruction.name not in ("cmp", "cmn", "tst"):
            instruction = replace(instruction, flags=False)
        try:
            run(self, instruction, address)
        except Undecided:
            state.r[PC] = address
            raise
