"""How cases are made: compiled programs whose stream, constants or memory are damaged.

Most damage gives one register another value, because damage that is too coarse ends in the decoder every time.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from functools import partial

from ethos_hil.harness.npu.isa.registers import FIRST_REGISTER, PAYLOAD_SHIFT
from ethos_hil.suites.lab import mutation
from ethos_hil.suites.lab.fuzz.streams.case import StreamCase
from ethos_hil.suites.lab.fuzz.streams.corpus import CommandSpan, CompiledSeed
from ethos_hil.suites.lab.mutation import FieldPlace, Way

ADDRESS_BITS = 40


def make(rng: random.Random, seed: CompiledSeed, others: Sequence[CompiledSeed]) -> StreamCase:
    """Make a case from a program, and from parts of others for the same configuration."""
    stream = bytearray(seed.data)
    regions = {number: bytearray(data) for number, data in seed.regions(rng).items()}
    done = []
    damage_data = rng.random() < 0.25
    for _ in range(rng.choice((0, 1)) if damage_data else rng.choice((1, 1, 1, 1, 2, 3))):
        way = rng.choices(tuple(WAYS), tuple(WAYS.values()))[0]
        done.append(way(rng, stream, seed, others))
    if damage_data or not done:
        done.append(_memory(rng, seed, regions))
    read_only = seed.read_only
    if rng.random() < 0.08:
        number = rng.choice(sorted(regions))
        how = rng.choice(("shortened", "missing", "read-only"))
        if how == "shortened":
            how = mutation.cut(rng, regions[number], seed, ())
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


def _memory(rng: random.Random, seed: CompiledSeed, regions: dict[int, bytearray]) -> str:
    """Damage weights, scales or row numbers, or any part of a region."""
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
    how = rng.choice((mutation.flip, *[mutation.overwrite] * 4))
    return f"{how(rng, data, begin, end)} of region {number} ({what})"


# --- fields; they are those of the undamaged stream, so a second mutation may hit the middle of another command


def _register(rng: random.Random, seed: CompiledSeed) -> FieldPlace:
    """Draw a command that sets a register: its value."""
    command = rng.choice([c for c in seed.commands if c.long or c.code >= FIRST_REGISTER])
    bits = (ADDRESS_BITS if rng.random() < 0.5 else 48) if command.long else 16
    same = [c.value for c in seed.commands if (c.code, c.long) == (command.code, command.long)]
    return _field(command, bits, (rng.choice(same), rng.choice(seed.commands).value))


def _parameter(rng: random.Random, seed: CompiledSeed) -> FieldPlace:
    """Draw an operation: its parameter."""
    return _field(rng.choice(seed.operations), 16, ())


def _operation(rng: random.Random, seed: CompiledSeed) -> FieldPlace:
    """Draw an operation: its code."""
    command = rng.choice(seed.operations)
    alike = (rng.choice(seed.operations).code, rng.randrange(0x20))
    return FieldPlace("operation", command.begin, command.code, 16, partial(struct.pack, "<H"), alike)


def _field(command: CommandSpan, bits: int, alike: Sequence[int]) -> FieldPlace:
    name = f"{'long' if command.long else 'short'} {command.code:#05x}"
    return FieldPlace(name, command.begin, command.value, bits, partial(_encoded, command), alike)


def _encoded(command: CommandSpan, value: int) -> bytes:
    """Return the command with another value, as bytes."""
    if not command.long:
        return struct.pack("<HH", command.code, value)
    return struct.pack("<HHI", 1 << PAYLOAD_SHIFT | command.code, value >> 32, value & 0xFFFFFFFF)


WAYS: dict[Way[CompiledSeed], int] = {
    mutation.renumbers(_register): 60,
    mutation.renumbers(_parameter): 4,
    mutation.renumbers(_operation): 3,
    mutation.bits: 8,
    mutation.word: 4,
    mutation.swap: 6,
    mutation.cut: 3,
    mutation.drop: 4,
    mutation.repeat: 3,
    mutation.splice: 8,
}
"""The ways of damage, with how often each is taken."""
