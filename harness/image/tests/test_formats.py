"""The shared binary formats: one definition, both sides equal to it."""

from pathlib import Path

import pytest

from ethos_hil.harness.image import formats

ROOT = Path(__file__).resolve().parents[3]


def test_committed_cpp_header_is_what_the_definition_generates() -> None:
    assert (ROOT / "firmware/link/formats.h").read_text() == formats.cpp_header()


@pytest.mark.parametrize("record", formats.STRUCTS, ids=lambda record: record.name)
def test_every_field_is_naturally_aligned_and_the_record_has_no_padding(record: formats.Struct) -> None:
    """The properties that let the firmware overlay a C++ struct on the bytes."""
    widths = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}
    end = 0
    for field in record.fields:
        assert record.offset_of(field.name) == end, field.name
        assert end % widths[field.type] == 0, field.name
        end += widths[field.type] * field.count
    assert end == record.size
    assert record.size % max(widths[field.type] for field in record.fields) == 0


def test_pack_takes_exactly_the_fields_of_the_record() -> None:
    begin = {"input_set": 7, "repeat": 2}
    assert formats.RunBegin.unpack(formats.RunBegin.pack(begin)) == begin
    with pytest.raises(KeyError, match="takes exactly"):
        formats.RunBegin.pack({"input_set": 7})
    with pytest.raises(KeyError, match="takes exactly"):
        formats.RunBegin.pack({**begin, "more": 1})
