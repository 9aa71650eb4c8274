"""Makes mutants: real programs with something wrong in their bytes, fields, blobs or command streams."""

from __future__ import annotations

import copy
import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ethos_hil.lowering.errors import EthosHilError, UsageError
from ethos_hil.lowering.formats.pte_reader import Program
from ethos_hil.suites.lab.mutants import fields

WORDS = (
    *(0, 1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 32, 64, 127, 128, 255, 256),
    *(0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF),
)
"""Numbers at which sizes, offsets, indices and counts go wrong."""
NUMBERS = (*WORDS, -1, -2, -128, -(1 << 31), 1 << 32, (1 << 32) + 1, 1 << 40, (1 << 63) - 1, -(1 << 63))
"""The same for fields of up to 64 bits."""
_STREAM_BLOCK = b"cmd_data".ljust(16, b"\0")
_BLOCK_HEADER = 32
_BLOCK_SIZE_AT = 16


@dataclass(frozen=True)
class Original:
    """A program that mutants are made of.

    Attributes:
        name: of its file.
        pte: the file.
        npu: configuration to run it on.
    """

    name: str
    pte: bytes
    npu: str

    @classmethod
    def load(cls, file: Path) -> Original:
        """Read NAME.NPU.pte; a UsageError says why it is of no use."""
        name, _, npu = file.stem.partition(".")
        try:
            original = cls(name, file.read_bytes(), npu)
            if not npu or original.input_sizes is None:
                raise UsageError("its name does not say for which NPU it is (NAME.NPU.pte)")
        except (OSError, EthosHilError) as error:
            raise UsageError(f"{file} is no program to start from: {error}") from error
        return original

    @cached_property
    def program(self) -> Program:
        """What it holds."""
        return Program.parse(self.pte, self.name)

    @cached_property
    def input_sizes(self) -> tuple[int, ...]:
        """Bytes of each input."""
        return tuple(tensor.nbytes for tensor in self.program.plan().input_tensors)

    @cached_property
    def root(self) -> Any:
        """Its fields. Not to be changed."""
        return fields.read(self.pte)

    @cached_property
    def blobs(self) -> tuple[tuple[int, int], ...]:
        """Where the delegates' blobs begin and end."""
        delegates = self.program.plan().delegates
        return tuple((delegate.file_offset, delegate.file_offset + len(delegate.data)) for delegate in delegates)

    @cached_property
    def streams(self) -> tuple[tuple[int, int], ...]:
        """Where the payloads with their command streams begin and end."""
        found = []
        for begin, end in self.blobs:
            at = self.pte.index(_STREAM_BLOCK, begin, end)
            (size,) = struct.unpack_from("<I", self.pte, at + _BLOCK_SIZE_AT)
            found.append((at + _BLOCK_HEADER, at + _BLOCK_HEADER + size))
        return tuple(found)


@dataclass(frozen=True)
class Mutant:
    """A program with something wrong.

    Attributes:
        number: with the seed, what makes it again.
        way: how it was damaged.
        original: what it was.
        pte: what it is.
    """

    number: int
    way: str
    original: Original
    pte: bytes

    def __str__(self) -> str:
        return f"{self.original.name}-{self.number}-{self.way}"

    @cached_property
    def inputs(self) -> list[bytes]:
        """Noise for the inputs that the original has."""
        rng = random.Random(self.number)
        return [rng.randbytes(size) for size in self.original.input_sizes]


def make(seed: int, number: int, originals: Sequence[Original]) -> Mutant:
    """Mutant `number`; the same arguments make the same one."""
    rng = random.Random(f"{seed}/{number}")
    original = originals[number % len(originals)]
    way = rng.choice([way for way in (*WAYS, _FURTHEST, _FURTHEST) if original.blobs or way not in OF_BLOBS])
    return Mutant(number, way, original, WAYS[way](rng, original, originals))


def _flip(rng: random.Random, original: Original, _: Sequence[Original]) -> bytes:
    """Single bits, anywhere."""
    data = bytearray(original.pte)
    for _bit in range(rng.choice((1, 1, 2, 4, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def _words(rng: random.Random, original: Original, _: Sequence[Original]) -> bytes:
    """Whole words, anywhere."""
    return _put_words(rng, original.pte, 0, len(original.pte))


def _splice(rng: random.Random, original: Original, originals: Sequence[Original]) -> bytes:
    """A piece of this program or another one, over or between the bytes of this one; or a piece taken out."""
    data, donor = original.pte, rng.choice((original, rng.choice(originals))).pte
    at = rng.randrange(len(data)) & ~3
    start = rng.randrange(len(donor)) & ~3
    piece = donor[start : start + 4 * rng.randint(1, 64)]
    match rng.randrange(3):
        case 0:
            return data[:at] + piece + data[at + len(piece) :]
        case 1:
            return data[:at] + piece + data[at:]
        case _:
            return data[:at] + data[at + len(piece) :]


def _cut(rng: random.Random, original: Original, _: Sequence[Original]) -> bytes:
    """The end missing."""
    return original.pte[: rng.randrange(len(original.pte))]


def _blob(rng: random.Random, original: Original, _: Sequence[Original]) -> bytes:
    """Words of a delegate's blob, in the blocks' headers and lists as often as in the stream."""
    begin, end = rng.choice(original.blobs)
    headers = range(begin, end, 16)
    at = rng.choice([at for at in headers if _is_name(original.pte[at : at + 16])])
    return _put_words(rng, original.pte, at, min(at + 2 * _BLOCK_HEADER, end))


def _stream(rng: random.Random, original: Original, _: Sequence[Original]) -> bytes:
    """Words of the command stream and of what says what it is for."""
    return _put_words(rng, original.pte, *rng.choice(original.streams))


def _fields(rng: random.Random, original: Original, originals: Sequence[Original]) -> bytes:
    """Fields and lists, in a flatbuffer that is sound."""
    root = copy.deepcopy(original.root)
    places = list(_places(root))
    for _edit in range(rng.choice((1, 1, 2, 3))):
        holder, key = rng.choice(places)
        if isinstance(holder, list) and key >= len(holder):
            continue  # shortened meanwhile
        if isinstance(holder[key], list):
            _edit_list(rng, holder[key])
        else:
            holder[key] = _another(rng, holder[key], places)
    pte = fields.write(root, original.pte)
    return pte if pte is not None else _words(rng, original, originals)


Way = Callable[[random.Random, Original, Sequence[Original]], bytes]
OF_BLOBS = ("blob", "stream")
WAYS: dict[str, Way] = {
    "flip": _flip,
    "words": _words,
    "splice": _splice,
    "cut": _cut,
    "blob": _blob,
    "stream": _stream,
    "fields": _fields,
}
_FURTHEST = "fields"  # the way whose mutants get furthest, and which is taken more often


def _put_words(rng: random.Random, pte: bytes, begin: int, end: int) -> bytes:
    data = bytearray(pte)
    places = range((begin + 3) & ~3, end - 3, 4)
    for at in rng.choices(places, k=rng.choice((1, 1, 2, 3))) if places else ():
        (old,) = struct.unpack_from("<I", data, at)
        other = struct.unpack_from("<I", data, rng.choice(places))[0]
        new = rng.choice((rng.choice(WORDS), old + 1, old - 1, old ^ 1 << rng.randrange(32), other, old * 2))
        struct.pack_into("<I", data, at, new & 0xFFFFFFFF)
    return bytes(data)


def _is_name(block: bytes) -> bool:
    """Whether 16 bytes look like the name of a block of a blob."""
    name, _, padding = block.partition(b"\0")
    return len(name) > 3 and not any(padding) and name.replace(b"_", b"").isalpha()


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with every key in it, but for the bytes of blobs."""
    for key in node if isinstance(node, dict) else range(len(node)):
        if key not in ("data", "storage", "container_meta_type"):
            yield node, key
            if isinstance(node[key], dict | list):
                yield from _places(node[key])


def _edit_list(rng: random.Random, items: list[Any]) -> None:
    if not items:
        return
    at = rng.randrange(len(items))
    match rng.randrange(4):
        case 0:
            del items[at]
        case 1:
            items.insert(rng.randrange(len(items) + 1), copy.deepcopy(items[at]))
        case 2:
            other = rng.randrange(len(items))
            items[at], items[other] = items[other], items[at]
        case _:
            items[at] = copy.deepcopy(rng.choice(items))


def _another(rng: random.Random, value: Any, places: Sequence[tuple[Any, Any]]) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((rng.choice(NUMBERS), value + 1, value - 1, value * 2, -value))
    # Of its own kind from somewhere else: a type's name, an operator's, a whole value, an instruction.
    others = [holder[key] for holder, key in rng.choices(places, k=64) if key in _keys(holder)]
    same = [other for other in others if _alike(other, value)]
    return copy.deepcopy(rng.choice(same)) if same else value


def _keys(holder: Any) -> Any:
    return holder if isinstance(holder, dict) else range(len(holder))


def _alike(one: Any, other: Any) -> bool:
    return type(one) is type(other) and (not isinstance(one, dict) or one.keys() == other.keys())
