"""Transfers beyond the NPU's internal memory are found, whatever order the registers were set in; others are not."""

from __future__ import annotations

import struct

import pytest

from ethos_hil.lowering.formats.vela_blob import VelaBlob
from ethos_hil.lowering.repairs.checks import Overrun, overruns, scan
from ethos_hil.lowering.tests.conftest import Lowered

REGION, DESTINATION, LENGTH, SOURCE = 0x131, 0x031, 0x032, 0x030
INTERNAL = 0x100
START = struct.pack("<I", 0x10)
SHRAM = 0x4000


def region(value: int) -> bytes:
    return struct.pack("<I", value << 16 | REGION)


def wide(register: int, value: int) -> bytes:
    return struct.pack("<2I", value >> 32 << 16 | 0x4000 | register, value & 0xFFFFFFFF)


def table(address: int, size: int = 256) -> bytes:
    return region(INTERNAL) + wide(DESTINATION, address) + wide(LENGTH, size) + START


@pytest.mark.parametrize("address", [SHRAM, SHRAM - 1, 0x6000, 1 << 32])
def test_a_table_beyond_shram_is_found(address: int) -> None:
    assert scan(table(address), SHRAM) == (Overrun(20, address, address + 256, SHRAM),)


@pytest.mark.parametrize("address", [0, SHRAM - 256])
def test_a_table_inside_shram_is_none(address: int) -> None:
    assert scan(table(address), SHRAM) == ()


def test_a_transfer_to_other_memory_may_go_anywhere() -> None:
    assert scan(region(1) + wide(DESTINATION, 1 << 33) + wide(LENGTH, 256) + START, SHRAM) == ()
    # Nor does it matter where a transfer comes from.
    assert scan(wide(SOURCE, 1 << 33) + table(0), SHRAM) == ()


def test_registers_keep_their_values() -> None:
    stream = table(0x3000) + wide(DESTINATION, SHRAM) + START + region(1) + START + region(INTERNAL) + START
    assert [(transfer.offset, transfer.begin) for transfer in scan(stream, SHRAM)] == [(32, SHRAM), (48, SHRAM)]


def test_a_payload_is_no_command() -> None:
    """Another register's second word that looks like a DMA_START, and like the region's choice."""
    words = wide(0x005, 0x10) + wide(0x005, INTERNAL << 16 | REGION)
    assert scan(wide(DESTINATION, SHRAM) + wide(LENGTH, 256) + words + START, SHRAM) == ()


def test_the_sizes_stand_in_the_config_word(lowered: Lowered) -> None:
    (delegate,) = lowered("add").delegates
    blob = delegate.blob
    assert overruns(blob) == ()
    for word, count in ((0x1005, 1), (0x1006, 1), (0x1807, 0), (0x3008, 0)):  # ethos-u55-32, -64, -128, -256
        assert len(overruns(with_stream(blob, table(SHRAM), word))) == count


def with_stream(blob: VelaBlob, stream: bytes, config_word: int) -> VelaBlob:
    from dataclasses import replace

    return replace(blob, command_data=stream, stream_offset=0, stream_size=len(stream), config_word=config_word)
