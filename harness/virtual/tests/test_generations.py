"""The differences between the register blocks of Ethos-U55, U65 and U85; Arm's driver works with each of them.

The sequences are those of Arm's core driver 25.x (ethosu_device_u55_u65.c, ethosu_device_u85.c, ethosu_driver.c,
ethosu_pmu.c) as ExecuTorch's runner drives it (arm_perf_monitor.cpp).
"""

from __future__ import annotations

import pytest

from ethos_hil.base.npu.ethos_u import FAMILIES, EthosU
from ethos_hil.harness.virtual.device import RegisterLayout, Unmodelled
from ethos_hil.harness.virtual.tests.test_device import (
    BASEP0,
    CONFIG,
    ID,
    QBASE1,
    QCONFIG,
    REGIONCFG,
    Bench,
)

POWER_CTRL, MEM_ATTR0, AXI_LIMIT0, AXI_SRAM, AXI_EXT = 0x38, 0x40, 0x40, 0x50, 0x54
COND_STATUS = 0x30
U55, U65, U85 = "ethos-u55-256", "ethos-u65-512", "ethos-u85-512"
NPUS = (U55, U65, U85)


@pytest.mark.parametrize("configuration", EthosU.all(), ids=str)
def test_every_npu_says_what_it_is(configuration: object) -> None:
    device = Bench(str(configuration)).device
    product = {"u55": 0, "u65": 1, "u85": 2}[str(configuration).split("-")[1]]
    assert device.read(CONFIG) >> 28 == product
    assert 1 << (device.read(CONFIG) & 0xF) == int(str(configuration).split("-")[2])
    assert device.read(ID) >> 28 == (2 if product == 2 else 1)


def velas_registers() -> dict[str, int]:
    """Names and offsets in the description of the Ethos-U55 that comes with Vela's wheel."""
    from ethosu.vela.ethos_u55_regs import ethos_u55_regs as regs

    return {entry.name: entry.value for block in (regs.BASE, regs.BASE_POINTERS, regs.PMU) for entry in block}


def test_registers_are_where_velas_description_has_them() -> None:
    expected = velas_registers()
    for family in FAMILIES[:2]:
        names = RegisterLayout(family).names
        assert {name: offset for offset, name in names.items()}.items() <= expected.items()
    u85 = {name: offset for offset, name in RegisterLayout(FAMILIES[2]).names.items()}
    both = u85.keys() & expected.keys()
    assert u85.keys() - both == {
        *("COND_STATUS", "POWER_CTRL", "AXI_SRAM", "AXI_EXT", "MEM_ATTR0", "MEM_ATTR1", "MEM_ATTR2", "MEM_ATTR3"),
        *(f"{name}{i}" for name in ("PMEVCNTR", "PMEVTYPER") for i in range(4, 8)),
    }
    for name in both:
        assert u85[name] == expected[name] + (0x1000 if name.startswith("PM") else 0)


@pytest.mark.parametrize(
    ("npu", "offset", "value"),
    [
        (U55, AXI_LIMIT0, 0x1F0F0000),  # 64 reads, 32 writes: an Ethos-U55 can't
        (U65, AXI_LIMIT0, 0x003F00F4),
        (U85, MEM_ATTR0, 0x8),
        (U85, AXI_SRAM, 0x3 << 18),
        (U85, POWER_CTRL, 0x40),
        (U55, POWER_CTRL, 0),
        (U65, AXI_SRAM, 0),
        (U55, 0x1180, 0),
        (U85, 0x180, 0),
        (U85, 0x2C, 1),
        (U85, 0x60, 0),
        (U85, COND_STATUS, 0),
    ],
)
def test_registers_of_another_generation_are_refused(npu: str, offset: int, value: int) -> None:
    with pytest.raises(Unmodelled):
        Bench(npu).device.write(offset, value)


def test_the_result_flag_of_a_conditional_is_not_guessed() -> None:
    with pytest.raises(Unmodelled, match="COND_STATUS"):
        Bench(U85).device.read(COND_STATUS)


def test_memory_attributes_choose_the_port_on_u85() -> None:
    bench = Bench(U85)
    for index, attribute in enumerate((0x04, 0x00, 0xF3, 0x27)):
        bench.device.write(MEM_ATTR0 + 4 * index, attribute)
    bench.device.write(REGIONCFG, 0b00_01_10_11_11_10_01_00)
    bench.device.write(QCONFIG, 3)
    bench.start()
    assert [bench.jobs[0].ports[region] for region in range(8)] == [1, 0, 0, 1, 1, 0, 0, 1]


@pytest.mark.parametrize("npu", [U55, U65])
def test_the_upper_bit_chooses_the_port_on_u55_and_u65(npu: str) -> None:
    bench = Bench(npu)
    bench.device.write(REGIONCFG, 0b11_10_01_00)
    bench.start()
    assert [bench.jobs[0].ports[region] for region in range(4)] == [0, 0, 1, 1]


def test_addresses_of_a_u85_have_40_bits() -> None:
    bench = Bench(U85)
    bench.device.write(QBASE1, 0xFF)
    bench.device.write(BASEP0 + 4, 0x12)
    bench.start(0x1000)
    assert (bench.jobs[0].queue, bench.jobs[0].bases[0]) == (0xFF_0000_1000, 0x12_0000_0000)


def test_eight_counters_of_a_u85() -> None:
    bench = Bench(U85)
    device = bench.device
    assert device.read(0x1180) == 8 << 11
    for index in range(8):
        device.write(0x1380 + 4 * index, 17 if index == 7 else 130)
    device.write(0x1184, 0xFF)
    device.write(0x1180, 1)
    bench.start()
    assert [device.read(0x1300 + 4 * index) for index in range(8)] == [77] * 7 + [1000]
    with pytest.raises(Unmodelled, match="0x800000ff"):
        device.write(0x1184, 1 << 8)
