"""Damage to data, drawn at random: what the campaigns that damage programs have in common.

A campaign says what its data consists of: which numbers stand in it (`FieldPlace`), and which pieces of it are whole
(`MutationSubject.span`). The ways to damage them are here. All randomness comes from the generator that a way is given,
so a seed makes the same damage again. Every way says in words what it did.
"""

from __future__ import annotations

import random
from collections.abc import Callable, MutableSequence, Sequence
from typing import Any, Protocol, TypeVar

from ethos_hil.base.dataclasses import dataclass

BOUNDARIES = (
    *(0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 64, 127, 128, 255, 256),
    *(0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF),
)
"""Numbers at which sizes, offsets, indices and counts go wrong."""
_FLIPS = (1, 1, 2, 4, 8)
_NEIGHBOURS = 8  # bytes within which flipped bits may stay together
_WORD = 4


class MutationSubject(Protocol):
    """Something that can be damaged."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def data(self) -> Sequence[Any]:
        """Its data before the damage: bytes, or a list."""

    def span(self, rng: random.Random) -> tuple[int, int]:
        """Draw some whole pieces in a row. Return where they start and end, as indices of `data`."""


AnySubject = TypeVar("AnySubject", bound=MutationSubject)
Way = Callable[[random.Random, Any, AnySubject, Sequence[AnySubject]], str]
"""A function that damages data (a bytearray or list), given its subject and others that pieces may come from."""


@dataclass(frozen=True)
class FieldPlace:
    """A number in bytes.

    Attributes:
        name: what it is called.
        begin: its first byte.
        value: what it is.
        bits: how many it has.
        encode: the bytes that replace it, for another value.
        alike: values that stand in its place elsewhere.
    """

    name: str
    begin: int
    value: int
    bits: int
    encode: Callable[[int], bytes]
    alike: Sequence[int] = ()


def number(rng: random.Random, old: int, bits: int, alike: Sequence[int] = ()) -> int:
    """Draw another value for a number: near it, far from it, at a boundary, or one of `alike`.

    It may be negative or have more than `bits` bits.
    """
    value: int = rng.choice(
        (
            lambda: old + rng.choice((-16, -2, -1, 1, 2, 16)),
            lambda: old ^ 1 << rng.randrange(bits),
            lambda: old ^ 1 << rng.randrange(min(bits, 8)),
            lambda: old * rng.choice((2, 3, 4, 16)),
            lambda: old // rng.choice((2, 3, 4, 16)),
            lambda: -old,
            lambda: rng.randrange(32),
            lambda: rng.getrandbits(rng.randrange(1, bits + 1)),
            lambda: rng.choice(BOUNDARIES),
            lambda: (1 << bits) - 1,
            lambda: 1 << bits - 1,
            lambda: rng.choice(alike or BOUNDARIES),
        )
    )()
    return value


def renumber(rng: random.Random, data: bytearray, field: FieldPlace) -> str:
    """Give a field another value."""
    value = number(rng, field.value, field.bits, field.alike) & (1 << field.bits) - 1
    encoded = field.encode(value)
    data[field.begin : field.begin + len(encoded)] = encoded
    return f"{field.name} at {field.begin:#x} from {field.value:#x} to {value:#x}"


def flip(rng: random.Random, data: bytearray, begin: int, end: int) -> str:
    """Flip bits of the bytes from `begin` to `end`, all near one another or anywhere."""
    if begin >= end:
        return f"no bits at {begin:#x}"
    count, near, at = rng.choice(_FLIPS), rng.random() < 0.5, rng.randrange(begin, end)
    for _ in range(count):
        place = min(end - 1, at + rng.randrange(_NEIGHBOURS)) if near else rng.randrange(begin, end)
        data[place] ^= 1 << rng.randrange(8)
    return f"{count} bits {'at' if near else 'around'} {at:#x}"


def overwrite(rng: random.Random, data: bytearray, begin: int, end: int) -> str:
    """Fill the bytes from `begin` to `end` with random ones or with one value."""
    what, value = rng.choice((("random bytes", None), ("zeros", 0), ("ones", 0xFF), ("sign bits", 0x80)))
    data[begin:end] = rng.randbytes(end - begin) if value is None else bytes([value]) * (end - begin)
    return f"{what} from {begin:#x} to {end:#x}"


# --- ways


def bits(rng: random.Random, data: bytearray, subject: MutationSubject, others: Sequence[MutationSubject]) -> str:
    """Flip bits anywhere."""
    return flip(rng, data, 0, len(data))


def word(rng: random.Random, data: bytearray, subject: MutationSubject, others: Sequence[MutationSubject]) -> str:
    """Put a random word at an aligned place."""
    at = rng.randrange(len(data) // _WORD) * _WORD if len(data) >= _WORD else 0
    data[at : at + _WORD] = rng.randbytes(_WORD)
    return f"random word at {at:#x}"


def cut(rng: random.Random, data: bytearray, subject: MutationSubject, others: Sequence[MutationSubject]) -> str:
    """Remove the end, at whole words as often as not."""
    size = rng.randrange(len(data) + 1)
    if rng.random() < 0.5:
        size = size // _WORD * _WORD
    del data[size:]
    return f"cut to {size:#x} bytes"


def drop(
    rng: random.Random, data: MutableSequence[Any], subject: MutationSubject, others: Sequence[MutationSubject]
) -> str:
    """Remove pieces."""
    begin, end = subject.span(rng)
    del data[begin:end]
    return f"{begin:#x} to {end:#x} removed"


def repeat(
    rng: random.Random, data: MutableSequence[Any], subject: MutationSubject, others: Sequence[MutationSubject]
) -> str:
    """Repeat pieces behind themselves."""
    begin, end = subject.span(rng)
    count = rng.choice((1, 2, 10, 100))
    data[end:end] = list(data[begin:end]) * count
    return f"{begin:#x} to {end:#x} repeated {count} times"


def swap(
    rng: random.Random, data: MutableSequence[Any], subject: MutationSubject, others: Sequence[MutationSubject]
) -> str:
    """Exchange pieces; half of the time pieces that follow one another."""
    (a, b), (c, d) = sorted((subject.span(rng), subject.span(rng)))
    if rng.random() < 0.5 or b > c:
        c, d = b, b + (d - c)
    data[a:d] = [*data[c:d], *data[b:c], *data[a:b]]
    return f"{a:#x} to {b:#x} and {c:#x} to {d:#x} exchanged"


def splice(
    rng: random.Random, data: MutableSequence[Any], subject: MutationSubject, others: Sequence[MutationSubject]
) -> str:
    """Put pieces of a subject, another one or this one, between others or in their place."""
    donor = rng.choice((subject, rng.choice(others))) if others else subject
    begin, end = donor.span(rng)
    at, to = subject.span(rng)
    if rng.random() < 0.5:
        to = at
    data[at:to] = donor.data[begin:end]
    return f"{at:#x} to {to:#x} replaced by {begin:#x} to {end:#x} of {donor.name}"


def renumbers(pick: Callable[[random.Random, AnySubject], FieldPlace]) -> Way[AnySubject]:
    """Return the way that gives the field which `pick` draws another value."""

    def way(rng: random.Random, data: bytearray, subject: AnySubject, others: Sequence[AnySubject]) -> str:
        return renumber(rng, data, pick(rng, subject))

    return way
