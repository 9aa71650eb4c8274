"""Damaged programs: bytes, fields, blobs or command streams of real ones are changed."""

from __future__ import annotations

import copy
import json
import random
import struct
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import EthosHilError, ToolError, UsageError
from ethos_hil.lowering.formats.pte_reader import Program
from ethos_hil.lowering.upstream.names.schemas import schema_folder
from ethos_hil.suites.lab.damage import mutation
from ethos_hil.suites.lab.damage.mutation import FieldPlace, Way

_MAGIC = b"eh00"
_HEADER = struct.Struct("<4sIQQQ")  # magic, length of this header, size of the flatbuffer, start and size of segments
_HEADER_AT = 8  # behind root offset and identifier
_SEGMENT_ALIGNMENT = 128  # ExecuTorch's default


@cache
def _tools() -> tuple[Path, Path]:
    """Find flatc of tosa-tools and executorch's schema, as firmware/cmake/find_schema.py does."""
    schema = schema_folder() / "program.fbs"
    flatc = schema.parents[3] / "bin" / "flatc"
    if not flatc.is_file():
        raise ToolError(f"flatc is missing: {flatc} does not exist", hint="it comes with executorch[ethos-u]")
    return flatc, schema


def read_fields(pte: bytes) -> Any:
    """Return the flatbuffer's root table: dicts, lists and scalars."""
    flatc, schema = _tools()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "program.pte")
        file.write_bytes(pte)
        options = ["--json", "--strict-json", "--raw-binary", "-o", folder]
        subprocess.run([flatc, *options, schema, "--", file], check=True, capture_output=True, timeout=60)
        return json.loads(file.with_suffix(".json").read_text("latin-1"))


def write_fields(root: Any, original: bytes) -> bytes | None:
    """Return the .pte of a tree, with the segments of `original`; None when the tree does not fit the schema."""
    flatc, schema = _tools()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "program.json")
        file.write_text(json.dumps(root), "latin-1")
        done = subprocess.run([flatc, "-b", "-o", folder, schema, file], capture_output=True, timeout=60)
        if done.returncode:
            return None
        flatbuffer = file.with_suffix(".pte").read_bytes()
    if original[_HEADER_AT : _HEADER_AT + len(_MAGIC)] != _MAGIC:
        return flatbuffer
    _, length, _, base, _ = _HEADER.unpack_from(original, _HEADER_AT)
    segments = original[base:] if base else b""
    (root_offset,) = struct.unpack_from("<I", flatbuffer)
    size = len(flatbuffer) + length
    start = size + -size % _SEGMENT_ALIGNMENT
    header = _HEADER.pack(_MAGIC, length, size, start if segments else 0, len(segments)).ljust(length, b"\0")
    head = struct.pack("<I", root_offset + length) + flatbuffer[4:_HEADER_AT] + header[:length]
    whole = head + flatbuffer[_HEADER_AT:]
    return whole.ljust(start, b"\0") + segments if segments else whole


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
        """Read NAME.NPU.pte. Raise UsageError when it cannot be used."""
        name, _, npu = file.stem.partition(".")
        try:
            original = cls(name, file.read_bytes(), npu)
            if not npu or original.input_sizes is None:
                raise UsageError("its name does not say for which NPU it is (NAME.NPU.pte)")
        except (OSError, EthosHilError) as error:
            raise UsageError(f"{file} is not a program to start from: {error}") from error
        return original

    @property
    def data(self) -> bytes:
        """The file's bytes."""
        return self.pte

    def span(self, rng: random.Random) -> tuple[int, int]:
        """Draw some words in a row. Return where they start and end."""
        begin = rng.randrange(len(self.pte)) & ~3
        return begin, min(len(self.pte), begin + 4 * rng.randint(1, 64))

    @cached_property
    def program(self) -> Program:
        """The parsed program."""
        return Program.parse(self.pte, self.name)

    @cached_property
    def input_sizes(self) -> tuple[int, ...]:
        """Bytes of each input."""
        return tuple(tensor.nbytes for tensor in self.program.plan().input_tensors)

    @cached_property
    def root(self) -> Any:
        """Its fields. Copy them before a change."""
        return read_fields(self.pte)

    @cached_property
    def blobs(self) -> tuple[tuple[int, int], ...]:
        """The first byte of each delegate's blob, and the byte behind it."""
        delegates = self.program.plan().delegates
        return tuple((delegate.file_offset, delegate.file_offset + len(delegate.data)) for delegate in delegates)

    @cached_property
    def streams(self) -> tuple[tuple[int, int], ...]:
        """The first byte of each payload with a command stream, and the byte behind it."""
        spans = []
        for begin, end in self.blobs:
            at = self.pte.index(_STREAM_BLOCK, begin, end)
            (size,) = struct.unpack_from("<I", self.pte, at + _BLOCK_SIZE_AT)
            spans.append((at + _BLOCK_HEADER, at + _BLOCK_HEADER + size))
        return tuple(spans)


@dataclass(frozen=True)
class Mutant:
    """A damaged program.

    Attributes:
        number: with the seed, it makes the same mutant again.
        way: how it was damaged.
        original: the program before.
        pte: the program after.
    """

    number: int
    way: str
    original: Original
    pte: bytes

    def __str__(self) -> str:
        return f"{self.original.name}-{self.number}-{self.way}"

    @cached_property
    def inputs(self) -> list[bytes]:
        """Random bytes for the original's inputs."""
        rng = random.Random(self.number)
        return [rng.randbytes(size) for size in self.original.input_sizes]


def make(seed: int, number: int, originals: Sequence[Original], kept: Collection[int] | None = None) -> Mutant:
    """Make mutant `number`, with all steps of its damage or only some. The same arguments make the same one."""
    rng = random.Random(f"{seed}/{number}")
    original = originals[number % len(originals)]
    weights = {way: weight for way, weight in WEIGHTS.items() if original.blobs or way not in OF_BLOBS}
    way = rng.choices(tuple(weights), tuple(weights.values()))[0]
    count = rng.choice((1, 1, 2, 3)) if way in NUMBERS or way == FIELDS else 1
    steps = [random.Random(f"{seed}/{number}/{step}") for step in range(count) if kept is None or step in kept]
    if way == FIELDS:
        pte = _with_other_fields(steps, original)
        if pte is not None:
            return Mutant(number, way, original, pte)
        way = WORDS
    data = bytearray(original.pte)
    for step in steps:
        WAYS[way](step, data, original, originals)
    return Mutant(number, way, original, bytes(data))


# --- fields of the file's bytes


def _word(rng: random.Random, original: Original) -> FieldPlace:
    """Draw a word of the file."""
    return _word_in(rng, original.pte, 0, len(original.pte))


def _of_blob(rng: random.Random, original: Original) -> FieldPlace:
    """Draw a word of a delegate's blob, from headers and lists as often as from the command stream."""
    begin, end = rng.choice(original.blobs)
    at = rng.choice([at for at in range(begin, end, 16) if _is_name(original.pte[at : at + 16])])
    return _word_in(rng, original.pte, at, min(at + 2 * _BLOCK_HEADER, end))


def _of_stream(rng: random.Random, original: Original) -> FieldPlace:
    """Draw a word of a command stream, or of the header that names its NPU."""
    return _word_in(rng, original.pte, *rng.choice(original.streams))


def _word_in(rng: random.Random, pte: bytes, begin: int, end: int) -> FieldPlace:
    at, other = (rng.randrange((begin + 3) & ~3, end - 3, 4) for _ in range(2))
    value, alike = (struct.unpack_from("<I", pte, place)[0] for place in (at, other))
    return FieldPlace("word", at, value, 32, partial(struct.pack, "<I"), (alike,))


def _is_name(block: bytes) -> bool:
    """Return whether 16 bytes look like the name of a block of a blob."""
    name, _, padding = block.partition(b"\0")
    return len(name) > 3 and not any(padding) and name.replace(b"_", b"").isalpha()


WORDS, BLOB, STREAM, FIELDS = "words", "blob", "stream", "fields"
NUMBERS = (WORDS, BLOB, STREAM)
OF_BLOBS = (BLOB, STREAM)
WAYS: Mapping[str, Way[Original]] = {
    "bits": mutation.bits,
    "cut": mutation.cut,
    "drop": mutation.drop,
    "repeat": mutation.repeat,
    "swap": mutation.swap,
    "splice": mutation.splice,
    WORDS: mutation.renumbers(_word),
    BLOB: mutation.renumbers(_of_blob),
    STREAM: mutation.renumbers(_of_stream),
}
WEIGHTS = {**dict.fromkeys(WAYS, 1), FIELDS: 4}
"""How often each way is taken. Mutants whose fields differ get furthest."""


# --- fields of the flatbuffer, in a file that stays sound


@dataclass(frozen=True)
class _Row:
    """A list to damage. Each item is a piece."""

    data: Sequence[Any]
    name: str = "the same list"

    def span(self, rng: random.Random) -> tuple[int, int]:
        at = rng.randrange(len(self.data))
        return at, at + 1


def _with_other_fields(steps: Sequence[random.Random], original: Original) -> bytes | None:
    """Return the program with other fields and lists; None when they do not fit the schema."""
    root = copy.deepcopy(original.root)
    places = list(_places(root))
    for rng in steps:
        holder, key = rng.choice(places)
        if isinstance(holder, list) and key >= len(holder):
            continue  # shortened meanwhile
        if isinstance(holder[key], list):
            if holder[key]:
                way = rng.choice((mutation.drop, mutation.repeat, mutation.swap, mutation.splice))
                way(rng, holder[key], _Row(holder[key]), ())
        else:
            holder[key] = _another(rng, holder[key], places)
    return write_fields(root, original.pte)


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every container with each of its keys, except for the bytes of blobs."""
    for key in node if isinstance(node, dict) else range(len(node)):
        if key not in ("data", "storage", "container_meta_type"):
            yield node, key
            if isinstance(node[key], dict | list):
                yield from _places(node[key])


def _another(rng: random.Random, value: Any, places: Sequence[tuple[Any, Any]]) -> Any:
    """Return another value for a field that is not a list."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return mutation.number(rng, value, rng.choice((16, 32, 32, 64)))
    # Of its own kind from somewhere else: a type's name, an operator's, a whole value, an instruction.
    others = [holder[key] for holder, key in rng.choices(places, k=64) if key in _keys(holder)]
    same = [other for other in others if _alike(other, value)]
    return copy.deepcopy(rng.choice(same)) if same else value


def _keys(holder: Any) -> Any:
    return holder if isinstance(holder, dict) else range(len(holder))


def _alike(first: Any, second: Any) -> bool:
    return type(first) is type(second) and (not isinstance(first, dict) or first.keys() == second.keys())
