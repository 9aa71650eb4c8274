"""Damage: what a case differs in from the program it was compiled from.

Most mutations change one register's value, because damage that is too coarse ends in the decoder every time.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

from ethos_hil.harness.npu.isa.registers import FIRST_REGISTER, PAYLOAD_SHIFT
from ethos_hil.suites.lab.fuzz.streams.case import StreamCase
from ethos_hil.suites.lab.fuzz.streams.corpus import CommandSpan, CompiledSeed

ADDRESS_BITS = 40
Mutation = Callable[[random.Random, CompiledSeed, Sequence[CompiledSeed], bytearray], str]


def make(rng: random.Random, seed: CompiledSeed, others: Sequence[CompiledSeed]) -> StreamCase:
    """A case from a program, and parts of others for the same configuration."""
    stream = bytearray(seed.compiled.stream)
    regions = {number: bytearray(data) for number, data in seed.regions(rng).items()}
    done = []
    damage_data = rng.random() < 0.25
    for _ in range(rng.choice((0, 1)) if damage_data else rng.choice((1, 1, 1, 1, 2, 3))):
        mutate = rng.choices(tuple(STREAM), tuple(STREAM.values()))[0]
        done.append(mutate(rng, seed, others, stream))
    if damage_data or not done:
        done.append(_data(rng, seed, regions))
    read_only = seed.read_only
    if rng.random() < 0.08:
        number = rng.choice(sorted(regions))
        how = rng.choice(("shortened", "missing", "read-only"))
        if how == "shortened":
            del regions[number][rng.randrange(len(regions[number]) + 1) :]
            how = f"shortened to {len(regions[number])} bytes"
        elif how == "missing":
            del regions[number]
        else:
            read_only |= {number}
        done.append(f"region {number} {how}")
    return StreamCase(
        npu=seed.compiled.npu,
        stream=bytes(stream),
        regions={number: bytes(data) for number, data in regions.items()},
        read_only=read_only,
        program=f"{seed.name}, {seed.compiled.mode}",
        mutations=tuple(done),
    )


def _data(rng: random.Random, seed: CompiledSeed, regions: dict[int, bytearray]) -> str:
    """Damages weights, scales or row numbers, or any part of a region."""
    if seed.tables and rng.random() < 0.8:
        at = rng.choice(seed.tables)
        number, begin, end, what = at.region, at.begin, at.end, at.register
    else:
        number = rng.choice(sorted(regions))
        begin, end, what = 0, len(regions[number]), "bytes"
    data = regions[number]
    end = min(end, len(data))
    if begin >= end:
        return f"{what} not there"
    if rng.random() < 0.4:
        begin = rng.randrange(begin, end)
        end = min(end, begin + rng.choice((1, 4, 10, 64)))
    how = rng.choice(("bits", "bytes", "zeros", "ones", "sign"))
    if how == "bits":
        for _ in range(rng.choice((1, 1, 4, 32))):
            data[rng.randrange(begin, end)] ^= 1 << rng.randrange(8)
    elif how == "bytes":
        data[begin:end] = rng.randbytes(end - begin)
    else:
        data[begin:end] = bytes([{"zeros": 0, "ones": 0xFF, "sign": 0x80}[how]]) * (end - begin)
    return f"{how} in {begin:#x} to {end:#x} of region {number} ({what})"


# --- of the stream; commands are those of the undamaged one, so a second mutation may hit the middle of another


def _register(rng: random.Random, seed: CompiledSeed, _: Sequence[CompiledSeed], stream: bytearray) -> str:
    """Another value for one register."""
    command = rng.choice([c for c in seed.commands if c.long or c.code >= FIRST_REGISTER])
    value = _value(rng, command, seed)
    _put(stream, command, value)
    return f"{_name(command)} at {command.begin:#x} from {command.value:#x} to {value:#x}"


def _value(rng: random.Random, command: CommandSpan, seed: CompiledSeed) -> int:
    """A value somewhere near another, or far from it."""
    bits, old = (ADDRESS_BITS if rng.random() < 0.5 else 48, command.value) if command.long else (16, command.value)
    same = [c.value for c in seed.commands if (c.code, c.long) == (command.code, command.long)]
    new = rng.choice(
        (
            lambda: old + rng.choice((-16, -2, -1, 1, 2, 16)),
            lambda: old ^ 1 << rng.randrange(bits),
            lambda: old ^ 1 << rng.randrange(8),
            lambda: old * rng.choice((2, 3, 4, 16)),
            lambda: old // rng.choice((2, 3, 4, 16)),
            lambda: -old,
            lambda: 0,
            lambda: rng.randrange(32),
            lambda: rng.getrandbits(rng.randrange(1, bits + 1)),
            lambda: (1 << bits) - 1,
            lambda: 1 << bits - 1,
            lambda: rng.choice(same),
            lambda: rng.choice(seed.commands).value,
        )
    )()
    return int(new) & (1 << bits) - 1


def _parameter(rng: random.Random, seed: CompiledSeed, _: Sequence[CompiledSeed], stream: bytearray) -> str:
    """Another parameter for an operation."""
    command = rng.choice(_operations(seed))
    value = rng.choice((rng.randrange(16), rng.randrange(64), rng.getrandbits(16)))
    _put(stream, command, value)
    return f"parameter of {_name(command)} at {command.begin:#x} to {value:#x}"


def _opcode(rng: random.Random, seed: CompiledSeed, _: Sequence[CompiledSeed], stream: bytearray) -> str:
    """Another operation instead of one."""
    command = rng.choice(_operations(seed))
    code = rng.choice((rng.randrange(0x20), rng.choice(_operations(seed)).code))
    stream[command.begin : command.begin + 2] = struct.pack("<H", code)
    return f"operation at {command.begin:#x} from {command.code:#x} to {code:#x}"


def _bits(rng: random.Random, seed: CompiledSeed, others: Sequence[CompiledSeed], stream: bytearray) -> str:
    at = rng.randrange(len(stream)) if stream else 0
    count = rng.choice((1, 1, 2, 8))
    for _ in range(count if stream else 0):
        stream[min(len(stream) - 1, at + rng.randrange(8))] ^= 1 << rng.randrange(8)
    return f"{count} bits at {at:#x}"


def _word(rng: random.Random, seed: CompiledSeed, _: Sequence[CompiledSeed], stream: bytearray) -> str:
    at = rng.randrange(len(stream) // 4) * 4 if len(stream) >= 4 else 0
    stream[at : at + 4] = rng.randbytes(4)
    return f"random word at {at:#x}"


def _swap(rng: random.Random, seed: CompiledSeed, _: Sequence[CompiledSeed], stream: bytearray) -> str:
    """Two words change places."""
    words = len(stream) // 4
    one, other = (rng.randrange(words) * 4 if words else 0 for _ in range(2))
    if rng.random() < 0.5 and one + 8 <= len(stream):
        other = one + 4
    stream[one : one + 4], stream[other : other + 4] = stream[other : other + 4], stream[one : one + 4]
    return f"words at {one:#x} and {other:#x} swapped"


def _truncate(rng: random.Random, seed: CompiledSeed, _: Sequence[CompiledSeed], stream: bytearray) -> str:
    size = rng.randrange(len(stream) + 1)
    if rng.random() < 0.5:
        size = size // 4 * 4
    del stream[size:]
    return f"cut to {size:#x} bytes"


def _drop(rng: random.Random, seed: CompiledSeed, _: Sequence[CompiledSeed], stream: bytearray) -> str:
    """Some commands in a row are missing."""
    begin, end = _span(rng, seed)
    del stream[begin:end]
    return f"{begin:#x} to {end:#x} removed"


def _repeat(rng: random.Random, seed: CompiledSeed, _: Sequence[CompiledSeed], stream: bytearray) -> str:
    """Some commands in a row come again and again."""
    begin, end = _span(rng, seed)
    count = rng.choice((1, 2, 10, 100))
    stream[end:end] = stream[begin:end] * count
    return f"{begin:#x} to {end:#x} repeated {count} times"


def _splice(rng: random.Random, seed: CompiledSeed, others: Sequence[CompiledSeed], stream: bytearray) -> str:
    """Commands of another program come in between, or instead."""
    other = rng.choice(others)
    begin, end = _span(rng, other)
    at, to = _span(rng, seed)
    if rng.random() < 0.5:
        to = at
    stream[at:to] = other.compiled.stream[begin:end]
    return f"{at:#x} to {to:#x} replaced by {begin:#x} to {end:#x} of {other.name}"


STREAM: dict[Mutation, int] = {
    _register: 60,
    _parameter: 4,
    _opcode: 3,
    _bits: 8,
    _word: 4,
    _swap: 6,
    _truncate: 3,
    _drop: 4,
    _repeat: 3,
    _splice: 8,
}


def _put(stream: bytearray, command: CommandSpan, value: int) -> None:
    """Writes the value of a command, its code as it is."""
    code = 1 << PAYLOAD_SHIFT | command.code if command.long else command.code
    words = struct.pack("<HH", code, value >> 32 if command.long else value)
    stream[command.begin : command.end] = words + (struct.pack("<I", value & 0xFFFFFFFF) if command.long else b"")


def _operations(seed: CompiledSeed) -> list[CommandSpan]:
    return [command for command in seed.commands if not command.long and command.code < FIRST_REGISTER]


def _span(rng: random.Random, seed: CompiledSeed) -> tuple[int, int]:
    """Begin and end of some commands in a row."""
    first = rng.randrange(len(seed.commands))
    count = rng.choice((1, 2, 10, 60))
    part = seed.commands[first : first + count]
    return part[0].begin, part[-1].end


def _name(command: CommandSpan) -> str:
    return f"{'long' if command.long else 'short'} {command.code:#05x}"
