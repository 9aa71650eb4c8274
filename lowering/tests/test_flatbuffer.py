"""The schema reader, and the reader it drives: damaged buffers end in an error, never in a crash or a long wait."""

from __future__ import annotations

import struct

import pytest

from ethos_hil.lowering.formats.flatbuffer import FlatbufferError, Schema

TEXT = """
// A comment with table Nothing { a: int; }
namespace test;
enum Colour : byte { RED = 3, GREEN, BLUE = 9, }
table Leaf { value: long; name: string; }
table Other {}
union Kind { Leaf, Other, }
table Root { colour: Colour = GREEN; kind: Kind; bytes: [ubyte] (force_align: 16);
  leaves: [Leaf]; shorts: [short]; flag: bool; }
root_type Root;
"""


def test_slots_follow_the_declarations_and_a_union_takes_two() -> None:
    schema = Schema.parse(TEXT)
    assert set(schema.tables) == {"Leaf", "Other", "Root"}
    assert [(field.name, field.slot) for field in schema.tables["Root"]] == [
        ("colour", 0),
        ("kind", 2),
        ("bytes", 3),
        ("leaves", 4),
        ("shorts", 5),
        ("flag", 6),
    ]
    assert schema.tables["Root"][0].default == 4
    assert schema.enums["Colour"] == {"RED": 3, "GREEN": 4, "BLUE": 9}


def build() -> bytes:
    """A Root with a Leaf in its union, laid out by hand."""
    data = bytearray(120)
    struct.pack_into("<I", data, 0, 24)  # root table
    struct.pack_into("<8H", data, 4, 16, 20, 0, 4, 8, 12, 0, 0)  # vtable: kind type at 4, kind at 8, bytes at 12
    struct.pack_into("<i", data, 24, 20)  # root: vtable 20 bytes before
    data[28] = 1  # union member 1, Leaf
    struct.pack_into("<I", data, 32, 16)  # union value at 48
    struct.pack_into("<I", data, 36, 44)  # bytes at 80
    struct.pack_into("<4H", data, 40, 8, 16, 4, 12)  # Leaf's vtable
    struct.pack_into("<i", data, 48, 8)
    struct.pack_into("<q", data, 52, -5)
    struct.pack_into("<I", data, 60, 8)  # name at 68
    struct.pack_into("<I2s", data, 68, 2, b"hi")
    struct.pack_into("<I4s", data, 80, 4, b"\x01\x02\x03\x04")
    return bytes(data)


def test_reads_unions_strings_bytes_and_defaults() -> None:
    record = Schema.parse(TEXT).read("Root", build())
    assert record["colour"] == 4
    assert record["kind"] == ("Leaf", {"value": -5, "name": "hi"})
    assert bytes(record["bytes"]) == b"\x01\x02\x03\x04"
    assert record["leaves"] is None
    assert record["flag"] == 0


def test_every_truncation_and_every_single_byte_change_is_survived() -> None:
    schema, data = Schema.parse(TEXT), build()
    for length in range(84):
        with pytest.raises(FlatbufferError):
            schema.read("Root", data[:length])
    for at in range(len(data)):
        for value in (0, 1, 0x7F, 0xFF):
            changed = data[:at] + bytes([value]) + data[at + 1 :]
            try:
                schema.read("Root", changed)
            except FlatbufferError:
                continue


def test_sharing_that_multiplies_is_cut_short() -> None:
    # Each level refers twice to the next one: 2**40 tables in a few hundred bytes.
    schema = Schema.parse("table Node { children: [Node]; }")
    levels = 40
    data = bytearray(8)
    struct.pack_into("<I", data, 0, 8)
    for level in range(levels):
        at = len(data)
        last = level == levels - 1
        # vtable (6 bytes + pad), table (8), vector (4 + 2*4)
        block = bytearray(28)
        struct.pack_into("<3H", block, 8, 6, 8, 0 if last else 4)
        struct.pack_into("<i", block, 0, -8)
        struct.pack_into("<I", block, 4, 12)
        struct.pack_into("<3I", block, 16, 2, 28 - 20, 28 - 24)
        assert at == 8 + 28 * level
        data += block
    with pytest.raises(FlatbufferError, match="again and again"):
        schema.read("Node", bytes(data))


def test_unknown_constructs_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot read the declaration"):
        Schema.parse("table T { a: [int:4]; }")
