"""Protects the command stream: names, codes and widths are those of Vela's own description; all of it is read."""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from ethosu.vela.ethos_u55_regs import ethos_u55_regs as described

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Fault
from ethos_hil.harness.npu.isa import stream as npu
from ethos_hil.harness.npu.isa.registers import FIRST_REGISTER, ElementwiseMode, Opcode, PoolMode, Register
from ethos_hil.harness.npu.isa.registers_u55 import U55, U65
from ethos_hil.harness.npu.timing import timing_model
from ethos_hil.lowering.formats.command_stream import Command, CommandStreamError, commands

SECOND_CORE = re.compile(r"NPU_SET_(WEIGHT|SCALE)1_")  # of the U65, which shares the description
DESCRIBED = [c for c in EthosU.all() if c.family.has_shram]


def codes(entries: Iterable[Any]) -> dict[str, int]:
    return {entry.name.removeprefix("NPU_OP_").removeprefix("NPU_SET_"): entry.value for entry in entries}


def names(registers: Mapping[int, Register]) -> dict[str, int]:
    return {register.name: code for code, register in registers.items()}


def test_codes_are_velas() -> None:
    operations = [entry for entry in described.cmd0 if entry.value < FIRST_REGISTER]
    assert codes(op for op in Opcode if op in U55.operations) == codes(operations)
    assert names(U55.short) == codes(entry for entry in described.cmd0 if entry not in operations)
    assert names(U55.long) == codes(entry for entry in described.cmd1 if not SECOND_CORE.match(entry.name))
    assert names(U65.long) == codes(described.cmd1)
    assert U65.short == U55.short
    assert codes(mode for mode in PoolMode if mode in U55.pools) == codes(described.pooling_mode)
    assert codes(mode for mode in ElementwiseMode if mode in U55.elementwise) == codes(described.elementwise_mode)


def described_bits(register: Register) -> int:
    """The bits of a short register's parameter to which the description gives a name."""
    fields = getattr(described, f"npu_set_{register.name.lower()}_t")._fields_
    at, mask = -16, 0
    for name, _, width in fields:
        if at >= 0 and not name.startswith(("reserved", "must_be_zero")):
            mask |= ((1 << width) - 1) << at
        at += width
    assert at == 16
    return mask


@pytest.mark.parametrize("register", U55.short.values(), ids=lambda register: register.name)
def test_short_registers_take_no_bit_that_vela_does_not_name(register: Register) -> None:
    assert register.valid & ~described_bits(register) == 0


@pytest.mark.parametrize("configuration", DESCRIBED, ids=str)
def test_configuration_registers(configuration: EthosU) -> None:
    config, identity = described.config_r(), described.id_r()
    config.word, identity.word = configuration.size.config_word, configuration.family.id_word
    assert 1 << config.bits.macs_per_cc == configuration.macs
    assert config.bits.shram_size * 1024 == configuration.size.internal_bytes * configuration.size.cores
    assert config.bits.product == configuration.family.product
    assert config.bits.cmd_stream_version == 0
    version = f"{identity.bits.arch_major_rev}.{identity.bits.arch_minor_rev}.{identity.bits.arch_patch_rev}"
    assert version == described.ARCH_VER
    assert ctypes.sizeof(config) == 4


@pytest.mark.parametrize("configuration", EthosU.all(), ids=str)
def test_micro_blocks_use_every_multiplier(configuration: EthosU) -> None:
    size = configuration.size
    height, width, depth = size.ublock
    assert height * width * depth * size.ifm_ublock_depth * size.cores == size.macs


def test_event_numbers_are_velas() -> None:
    events = {event.name: event.value for event in described.pmu_event_type}
    for name in ("CYCLE", "NPU_IDLE", "NPU_ACTIVE", "MAC_ACTIVE"):
        assert events[name] == getattr(timing_model, name)
    assert [events[f"AXI{port}_RD_DATA_BEAT_RECEIVED"] for port in (0, 1)] == list(timing_model.AXI_READ_BEATS)
    assert [events[f"AXI{port}_WR_DATA_BEAT_WRITTEN"] for port in (0, 1)] == list(timing_model.AXI_WRITE_BEATS)


# --- The one reader of command words: whole streams are read, damaged ones are an error, here and in the NPU's model.


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
