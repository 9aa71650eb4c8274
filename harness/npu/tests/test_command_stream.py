"""The one reader of command words: whole streams are read, damaged ones are an error, here and in the NPU's model."""

from __future__ import annotations

import struct

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.npu import Fault
from ethos_hil.harness.npu.isa import stream as npu
from ethos_hil.lowering.formats.command_stream import Command, CommandStreamError, commands

SHORT, LONG = 0x0007_010F, 0x0003_4032


def words(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}I", *values)


def test_short_and_long_commands() -> None:
    stream = words(SHORT, LONG, 0xFFFF_FFFF, SHORT)
    expected = [(0, 0x10F, 7, None), (4, 0x032, 3, 0xFFFF_FFFF), (12, 0x10F, 7, None)]
    assert list(commands(stream)) == list(npu.commands(stream)) == [Command(*fields) for fields in expected]
    assert list(commands(b"")) == []


@pytest.mark.parametrize(
    ("stream", "offset", "value", "problem"),
    [
        (words(SHORT, LONG), 4, LONG, "the stream ends before its payload"),
        (words(SHORT, LONG, 1)[:-1], 8, 11, "not a whole number of 32-bit words"),
        (words(SHORT, LONG | 2 << 14, 1, 2), 4, LONG | 2 << 14, "payload of 3 words"),
        (words(SHORT | 1 << 10), 0, SHORT | 1 << 10, "bits 10-13 are not zero"),
    ],
    ids=["cut before a payload", "cut in a word", "long payload", "unknown bits"],
)
def test_a_damaged_stream_is_an_error_in_both_places(stream: bytes, offset: int, value: int, problem: str) -> None:
    with pytest.raises(CommandStreamError, match=problem) as caught:
        list(commands(stream))
    assert isinstance(caught.value, UsageError)
    assert (caught.value.offset, caught.value.value) == (offset, value)
    with pytest.raises(Fault, match=problem) as fault:
        list(npu.commands(stream))
    assert (fault.value.kind, fault.value.offset, fault.value.value) == ("parse", offset, value)
