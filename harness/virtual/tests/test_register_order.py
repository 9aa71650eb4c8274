"""The registers that our firmware uses from reset through one job, in the order of Arm's own programs.

Two programs by Arm drive these NPUs on parts: the core driver, and the self-test of an FPGA image. Their accesses are
written down in data/register_order.toml, with their sources. Ours are recorded on the virtual board. What differs is on
a list there, with the reason; what is on the list and does not differ any more has to leave it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.virtual.device import Device, RegisterLayout
from ethos_hil.harness.virtual.tests.programs import DATA

NPUS = {"U55": "ethos-u55-128", "U65": "ethos-u65-256", "U85": "ethos-u85-256"}
Order = Sequence[str]
_FILE: Mapping[str, Any] = tomllib.loads((DATA / "register_order.toml").read_text())
ARMS: Mapping[tuple[str, str], Order] = {
    (program, family): text.strip("\n").replace("\n", " ").split(", ")
    for program, orders in _FILE["orders"].items()
    for family, text in orders.items()
}
"""The accesses of Arm's programs, by program and family."""
Rules = Sequence[Sequence[str]]
ARMS_RULES: Rules = _FILE["before"]["arms"]
RULES: Rules = [*ARMS_RULES, *_FILE["before"]["ours"]]


def listed(side: str, program: str, family: str) -> set[str]:
    """Return the accesses on the list of what only "ours" or "theirs" makes."""
    entries = [entry for entry in _FILE[side][program] if family in entry.get("only", NPUS)]
    return {access for entry in entries for access in entry["accesses"].strip("\n").replace("\n", " ").split(", ")}


def broken(order: Order, rules: Rules) -> list[str]:
    """Return the rules that an order does not keep to. Accesses that it does not make break none."""
    first = {access: order.index(access) for access in dict.fromkeys(order)}
    return [
        f"{access} comes after {other}: {why}"
        for access, other, why in rules
        if access in first and other in first and first[access] > first[other]
    ]


def differences(ours: Order, program: str, family: str) -> list[str]:
    """Return what differs from Arm's program and is not on the list, and what is on it and does not differ."""
    own, theirs, lines = set(ours), set(ARMS[program, family]), []
    for text, only, wanted in (
        ("only ours", own - theirs, listed("ours", program, family)),
        ("only Arm's", theirs - own, listed("theirs", program, family)),
    ):
        lines += [f"{text}, without a reason: {access}" for access in sorted(only - wanted)]
        lines += [f"{text}, it says, but that is not so: {access}" for access in sorted(wanted - only)]
    return lines


def recorded_order(npu: str, monkeypatch: pytest.MonkeyPatch) -> Order:
    """Run a program of one job on the virtual board. Return the accesses to the NPU's registers."""
    from ethos_hil.harness.virtual.tests.test_systems import execute, lowered

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
    execute(lowered(npu, "Sram_Only"), VirtualTarget(npu))
    return order


@pytest.mark.slow
@pytest.mark.parametrize("family", NPUS)
def test_our_registers_and_their_order_are_those_of_arms_programs(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = recorded_order(NPUS[family], monkeypatch)
    assert ours.count("write CMD run") == 1
    assert broken(ours, RULES) == []
    for arms, of in ARMS:
        assert of != family or differences(ours, arms, family) == []
    # As the self-test, which reads STATUS before it clears it; and as the driver, which reads it afterwards.
    job = ours[ours.index("write CMD run") :][:4]
    assert job == ["write CMD run", "read STATUS", "write CMD clear", "read STATUS"]


@pytest.mark.parametrize(("program", "family"), ARMS)
def test_arms_programs_keep_to_the_rules(program: str, family: str) -> None:
    """A rule that one of them breaks is not Arm's, and not one that a part needs."""
    order = ARMS[program, family]
    first_of_kind = [access for access in order if access != "read STATUS"] if order[0] == "read STATUS" else order
    assert broken(first_of_kind, ARMS_RULES) == []


def test_a_driver_that_breaks_a_rule_is_seen() -> None:
    for access, other, why in RULES:
        assert broken([other, access], RULES) == [f"{access} comes after {other}: {why}"]


OWN = [access for access in ARMS["core-driver", "U65"] if access != "read CMD"]
OWN += sorted(listed("ours", "core-driver", "U65"))


def test_a_difference_without_a_reason_is_seen() -> None:
    assert differences(OWN, "core-driver", "U65") == []
    others = [access for access in OWN if access != "write QSIZE"] + ["write PMINTSET", "read CMD"]
    assert differences(others, "core-driver", "U65") == [
        "only ours, without a reason: write PMINTSET",
        "only Arm's, without a reason: write QSIZE",
        "only Arm's, it says, but that is not so: read CMD",
    ]
