"""The instructions that compute, as steps of a core."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ethos_hil.harness.image.lint.core import MASK, Core, Value, number_operand, register_operand, shifted
from ethos_hil.harness.image.lint.instruction import PC, Instruction, Shifted


def _three(p: Core, i: Instruction, address: int) -> tuple[int, Value, Value]:
    """Return the destination, and the values of both sources, of which the first may be left out."""
    operands = i.operands if len(i.operands) == 3 else (i.operands[0], *i.operands)
    destination = operands[0]
    destination = register_operand(destination)
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
            p.state.c = shifted(p.state.r[last.register], last.how, last.amount)[1]
        elif isinstance(last, int) and last > 0xFF and (last & 0xFFFF) != last >> 16:
            p.state.c = bool(last >> 31)
    if i.name in ("tst", "teq"):
        return
    first = register_operand(first)
    p.set(first.register, result)


def _shifted(p: Core, i: Instruction, address: int) -> None:
    number, a, b = _three(p, i, address)
    if b is None:
        result, out = None, None
    else:
        amount = b & 0xFF
        result, out = shifted(a, i.name, min(amount, 33) if i.name != "ror" else amount)
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
    first = i.operands[0]
    first = register_operand(first)
    low, width = i.operands[-2], i.operands[-1]
    low = number_operand(low)
    width = number_operand(width)
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
    found = source >> low & mask
    if i.name == "sbfx" and found >> (width - 1):
        found |= MASK & ~mask
    p.set(first.register, found)


def _computed(p: Core, i: Instruction, address: int) -> None:
    """Carry out what needs no flags: multiplications, divisions, counts, reversals."""
    first, *rest = i.operands
    first = register_operand(first)
    values = [p.value(each, address) for each in (i.operands if i.name == "mul" and len(rest) == 1 else rest)]
    if i.name in ("umull", "smull", "umlal", "smlal"):
        second = rest[0]
        second = register_operand(second)
        a, b = values[1], values[2]
        product = None if a is None or b is None or i.name.endswith("lal") else _product(i.name, a, b)
        p.set(first.register, None if product is None else product & MASK)
        p.set(second.register, None if product is None else product >> 32 & MASK)
        return
    known = [each for each in values if each is not None]
    result = _COMPUTED[i.name](*known) & MASK if len(known) == len(values) else None
    p.set(first.register, result)
    if i.flags:
        p.nz(result)


def _product(name: str, a: int, b: int) -> int:
    return a * b if name[0] == "u" else _signed(a) * _signed(b)


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value


def _quotient(a: int, b: int) -> int:
    a, b = _signed(a), _signed(b)
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
    passed = p.passed(condition)
    one, other = (0 if each.register == PC else p.state.r[each.register] for each in (n, m))
    if other is not None:
        other = {"csel": other, "csinc": other + 1, "csinv": other ^ MASK, "csneg": -other}[i.name] & MASK
    p.set(d.register, None if passed is None else one if passed else other)


ARITHMETIC: Mapping[str, Callable[[Core, Instruction, int], None]] = {
    name: step
    for step, names in (
        (_arithmetic, "add sub rsb adc sbc cmp cmn"),
        (_logical, "and orr eor bic orn tst teq mov mvn"),
        (_shifted, "lsl lsr asr ror"),
        (_movt, "movt"),
        (_adr, "adr"),
        (_extend, "uxtb uxth sxtb sxth"),
        (_bits, "ubfx sbfx bfi bfc"),
        (_computed, "umull smull umlal smlal " + " ".join(_COMPUTED)),
        (_select, "csel csinc csinv csneg"),
        (_unknown, "uxtab uxtah sxtab sxtah rev16 revsh usat ssat smulbb tt ttt tta ttat uadd8 sel"),
    )
    for name in names.split()
} | {"unknown result": _unknown}
"""By the instruction's name."""
