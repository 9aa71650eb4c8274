"""The registers that our firmware uses from reset through one job, in the order of Arm's own programs.

Two programs by Arm drive these NPUs on parts: the core driver (zephyrproject-rtos/hal_ethos_u at 0356707:
ethosu_driver.c, ethosu_device_u55_u65.c, ethosu_device_u85.c), and the self-test of the FPGA image FI101, which passes
on an MPS4 (Kwon-GiHwan/mps4_prototyping_board, firmware/Selftest_pmu_diag/u85_diag.c). Their accesses are written down
here, in our words. Ours are recorded on the virtual board. What differs is on a list, with the reason; what is on the
list and does not differ any more has to leave it.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import Family
from ethos_hil.base.npu.u55 import U55
from ethos_hil.base.npu.u65 import U65
from ethos_hil.base.npu.u85 import U85
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.footprint import Footprint
from ethos_hil.harness.run import image_of
from ethos_hil.harness.socs.registry import virtual_soc
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.virtual.device import Device, RegisterLayout
from ethos_hil.harness.virtual.tests.programs import load
from ethos_hil.lowering.artifact import Artifact

NPUS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
Order = Sequence[str]
"""Accesses: "read STATUS", "write QSIZE"; of CMD with what the value does: "write CMD run", "clear" or "power"."""


def _ports(family: Family) -> Order:
    limits = [f"write AXI_LIMIT{i}" for i in range(4)]
    attributes = [f"write MEM_ATTR{i}" for i in range(4)]
    return [*attributes, "write AXI_SRAM", "write AXI_EXT", "write POWER_CTRL"] if family == U85 else limits


def _high(family: Family, *accesses: str) -> Order:
    """Return the accesses without those to the upper words of addresses, which an Ethos-U55 has no use for."""
    return [access for access in accesses if family != U55 or access not in HIGH]


REGIONS = 3
"""What a program of ExecuTorch has: constants, scratch, fast scratch."""
HIGH = ("write QBASE1", *(f"write BASEP{i}" for i in range(1, 2 * REGIONS, 2)))


def core_driver(family: Family) -> Order:
    """The core driver, with a program of ExecuTorch: a reset, power, the job, its interrupt, and power given back."""
    return [
        "read CONFIG",
        "write RESET",
        "read STATUS",
        "read PROT",
        *_ports(family),
        "read CONFIG",
        "read ID",
        "read CMD",
        "write CMD power",
        *_high(family, "write QBASE0", "write QBASE1", "write QSIZE", "write QCONFIG"),
        *_high(family, *(f"write BASEP{i}" for i in range(2 * REGIONS))),
        "write REGIONCFG",
        "read CMD",
        "write CMD run",
        "read CMD",
        "write CMD clear",
        "read STATUS",
        "read CMD",
        "write CMD power",
    ]


def self_test(family: Family) -> Order:
    """The self-test of FI101, which is for an Ethos-U85: a test of registers, a reset, a job, and its interrupt."""
    assert family == U85
    return [
        "read STATUS",
        "write CMD power",
        "read PROT",
        "read ID",
        "read CONFIG",
        "write RESET",
        "read STATUS",
        "read PROT",
        "write AXI_SRAM",
        "write AXI_EXT",
        *(f"write MEM_ATTR{i}" for i in range(4)),
        *(f"write BASEP{i}" for i in range(8)),
        "write QBASE0",
        "write QBASE1",
        "write QSIZE",
        "write QCONFIG",
        "write REGIONCFG",
        "write POWER_CTRL",
        "read CMD",
        "write CMD run",
        "read STATUS",
        "write CMD clear",
        "read QREAD",
        "write CMD clear",
        "write CMD power",
    ]


@dataclass(frozen=True)
class Difference:
    """Accesses that only one of two programs makes.

    Attributes:
        accesses: them.
        reason: why.
        only: the generations that it holds for; none for all.
    """

    accesses: Order
    reason: str
    only: tuple[Family, ...] = ()


def _pmu(kind: str, name: str, count: int) -> Order:
    return [f"{kind} {name}{i}" for i in range(count)]


PMU = (
    Difference(
        (
            "write PMCR",
            "write PMCNTENCLR",
            "write PMINTCLR",
            "write PMOVSCLR",
            "write PMCCNTR_CFG",
            "write PMCNTENSET",
            "read PMCCNTR_LO",
            "read PMCCNTR_HI",
            "read PMOVSSET",
            *_pmu("write", "PMEVTYPER", 4),
            *_pmu("read", "PMEVCNTR", 4),
        ),
        "the counters: with Arm's driver a program sets them up itself (ethosu_pmu.c), the self-test has none",
    ),
    Difference(
        (*_pmu("write", "PMEVTYPER", 8)[4:], *_pmu("read", "PMEVCNTR", 8)[4:]),
        "the same, an Ethos-U85 has eight",
        (U85,),
    ),
)
KEEPS_NO_POWER_BITS = Difference(
    ("read CMD",), "both keep the power bits of CMD by reading them; ours are always 0: the NPU never goes to sleep"
)
OURS: Mapping[str, Sequence[Difference]] = {
    "core driver": (
        *PMU,
        Difference(("read QREAD",), "the driver trusts STATUS; the self-test compares QREAD with QSIZE, as ours does"),
        Difference(HIGH, "the driver leaves them out: an Ethos-U55 has addresses of 32 bits", (U55,)),
    ),
    "self-test": PMU,
}
THEIRS: Mapping[str, Sequence[Difference]] = {
    "core driver": (KEEPS_NO_POWER_BITS,),
    "self-test": (
        KEEPS_NO_POWER_BITS,
        Difference(("write BASEP6", "write BASEP7"), "its programs have four regions, those of ExecuTorch three"),
    ),
}

BEFORE: Sequence[tuple[str, str, str]] = (
    ("write RESET", "read STATUS", "a reset takes time, which STATUS tells the end of"),
    ("read STATUS", "read PROT", "what is secure and privileged takes effect with the end of the reset"),
    ("write RESET", "write AXI_SRAM", "a reset clears them"),
    ("write RESET", "write AXI_LIMIT0", "a reset clears them"),
    ("write RESET", "write MEM_ATTR0", "a reset clears them"),
    ("write CMD power", "write QBASE0", "a sleeping NPU may lose its registers"),
    ("write AXI_SRAM", "write CMD run", "the job uses them"),
    ("write AXI_LIMIT3", "write CMD run", "the job uses them"),
    ("write MEM_ATTR3", "write CMD run", "the job uses them"),
    ("write POWER_CTRL", "write CMD run", "the job uses it"),
    ("write QBASE0", "write CMD run", "the job uses it"),
    ("write QBASE1", "write CMD run", "the job uses it"),
    ("write QSIZE", "write CMD run", "the job uses it"),
    ("write QCONFIG", "write CMD run", "the job uses it"),
    ("write REGIONCFG", "write CMD run", "the job uses it"),
    ("write BASEP0", "write CMD run", "the job uses it"),
    ("write BASEP5", "write CMD run", "the job uses it"),
    ("write CMD run", "write CMD clear", "the interrupt is the job's end"),
)
"""The first access of one kind is before the first of another, and why. Both of Arm's programs keep to it."""
OUR_OWN: Sequence[tuple[str, str, str]] = (
    ("write CMD power", "write PMCR", "a sleeping NPU loses its counters: on an MPS4 they were gone with CMD 0xC"),
    ("write PMCNTENCLR", "write PMCNTENSET", "no source says that a reset clears them"),
    ("write PMOVSCLR", "write CMD run", "what overflowed before is not this job's"),
    ("write CMD run", "read QREAD", "it is the end of the job that tells whether all was read"),
    ("read QREAD", "read PMCCNTR_LO", "a job that did not end has no cycles"),
)
"""As BEFORE, for what Arm's programs do not do."""


def broken(order: Order, rules: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return the rules that an order does not keep to. Accesses that it does not make break none."""
    first = {access: order.index(access) for access in dict.fromkeys(order)}
    return [
        f"{access} comes after {other}: {why}"
        for access, other, why in rules
        if access in first and other in first and first[access] > first[other]
    ]


def differences(ours: Order, theirs: Order, name: str, family: Family) -> list[str]:
    """Return what differs between two programs and is not on the list, and what is on it and does not differ."""
    lines = []
    for text, have, lack, listed in (
        ("only ours", set(ours), set(theirs), OURS[name]),
        ("only Arm's", set(theirs), set(ours), THEIRS[name]),
    ):
        wanted = {access for entry in listed if not entry.only or family in entry.only for access in entry.accesses}
        lines += [f"{text}, without a reason: {access}" for access in sorted(have - lack - wanted)]
        lines += [f"{text}, it says, but that is not so: {access}" for access in sorted(wanted - (have - lack))]
    return lines


# --- Ours. ---


@functools.cache
def program(npu: str) -> Artifact:
    """Return a program with one delegate."""
    if npu == "ethos-u55-128":
        return Artifact.of_program(load("add").pte, "add.pte")
    import torch

    from ethos_hil.base.npu.ethos_u import EthosU
    from ethos_hil.lowering.lower import lower
    from ethos_hil.lowering.model.torch_model import from_module

    torch.manual_seed(0)
    example = (torch.randn(1, 3, 8, 8),)
    return lower(from_module(torch.nn.Conv2d(3, 4, 3).eval(), example, [example]), EthosU.parse(npu))


def recorded_order(npu: str, monkeypatch: pytest.MonkeyPatch) -> Order:
    """Run a program of one job on the virtual board. Return the accesses to the NPU's registers."""
    names = RegisterLayout(EthosU.parse(npu).family).names
    order: list[str] = []
    read, write = Device.read, Device.write

    def recording_read(self: Device, offset: int) -> int:
        order.append(f"read {names[offset]}")
        return read(self, offset)

    def recording_write(self: Device, offset: int, value: int) -> None:
        does = {1: " run", 2: " clear", 0: " power"}[value & 3] if names[offset] == "CMD" else ""
        order.append(f"write {names[offset]}{does}")
        write(self, offset, value)

    monkeypatch.setattr(Device, "read", recording_read)
    monkeypatch.setattr(Device, "write", recording_write)
    artifact = program(npu)
    inputs = artifact.example_inputs or tuple(
        np.ones(tensor.sizes, tensor.dtype) for tensor in artifact.plan.input_tensors
    )
    image = image_of(artifact, Footprint.of(artifact), find_firmware(virtual_soc(npu).name), [inputs])
    board = VirtualTarget(npu)
    board.load(image)
    try:
        board.run(timeout=60)
    finally:
        board.reset()
    assert order.count("write CMD run") == 1
    return order


@pytest.mark.slow
@pytest.mark.parametrize("npu", NPUS)
def test_our_registers_and_their_order_are_those_of_arms_programs(npu: str, monkeypatch: pytest.MonkeyPatch) -> None:
    family = EthosU.parse(npu).family
    ours = recorded_order(npu, monkeypatch)
    assert broken(ours, (*BEFORE, *OUR_OWN)) == []
    assert differences(ours, core_driver(family), "core driver", family) == []
    if family == U85:
        assert differences(ours, self_test(family), "self-test", family) == []
    assert ours[ours.index("write CMD run") :][:4] == [
        "write CMD run",
        "read STATUS",
        "write CMD clear",
        "read STATUS",
    ], "as the self-test, which reads STATUS before it clears it; and as the driver, which reads it afterwards"


# --- The lists themselves. ---


def orders() -> list[Any]:
    params = [pytest.param(core_driver(family), id=f"core driver {family}") for family in (U55, U65, U85)]
    return [*params, pytest.param(self_test(U85), id="self-test")]


@pytest.mark.parametrize("order", orders())
def test_arms_programs_keep_to_the_rules(order: Order) -> None:
    """A rule that one of them breaks is not Arm's, and not one that a part needs."""
    first_of_kind = (
        [access for access in order if access != "read STATUS"] if order[0] == "read STATUS" else list(order)
    )
    assert broken(first_of_kind, BEFORE) == []


@pytest.mark.parametrize(("access", "other", "why"), [*BEFORE, *OUR_OWN])
def test_a_driver_that_breaks_a_rule_is_seen(access: str, other: str, why: str) -> None:
    assert broken([other, access], (*BEFORE, *OUR_OWN)) == [f"{access} comes after {other}: {why}"]


def test_a_difference_without_a_reason_is_seen() -> None:
    driver = list(core_driver(U65))
    more = [access for entry in OURS["core driver"] if not entry.only for access in entry.accesses]
    ours = [access for access in (*driver, *more) if access != "read CMD"]
    assert differences(ours, driver, "core driver", U65) == []
    assert differences([*ours, "write PMINTSET"], driver, "core driver", U65) == [
        "only ours, without a reason: write PMINTSET"
    ]
    assert differences([access for access in ours if access != "write QSIZE"], driver, "core driver", U65) == [
        "only Arm's, without a reason: write QSIZE"
    ]
    assert differences([*ours, "read CMD"], driver, "core driver", U65) == [
        "only Arm's, it says, but that is not so: read CMD"
    ]
