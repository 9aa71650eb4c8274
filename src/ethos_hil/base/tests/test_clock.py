"""Clocks that a user states: frequencies, parts, and what is none."""

from __future__ import annotations

import pytest

from ethos_hil.base.clock import StatedClock, frequency, of_system
from ethos_hil.base.errors import UsageError
from ethos_hil.results.latency import PARTS, SYSTEM_CLOCKS, stated_clock


@pytest.mark.parametrize(
    ("text", "hz"),
    [("400MHz", 400e6), ("1e9", 1e9), ("0.8 GHz", 800e6), (" 32mhz ", 32e6), ("500000 kHz", 500e6), (".5GHz", 500e6)],
)
def test_a_frequency_is_read(text: str, hz: float) -> None:
    assert stated_clock(text).hz == hz
    assert stated_clock(text) == StatedClock(hz, f"stated with --clock {text.strip()}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", "outside of 1 kHz to 10 GHz"),
        ("0MHz/1GHz", "outside of"),
        ("-400MHz", "outside of"),
        ("1e99", "outside of"),
        ("999Hz", "outside of"),
        ("11GHz", "outside of"),
        ("400 MiHz", "has the unit 'MiHz'"),
        ("400MHz/fast", "'fast' is not a frequency"),
        ("400MHz/", "'' is not a frequency"),
        ("nan", "'nan' is not a clock"),
        ("inf", "'inf' is not a clock"),
        ("", "'' is not a clock"),
        ("alif-e8-pp", "Did you mean alif-e8-hp"),
        ("m55m1", "Did you mean numaker-m55m1"),
        ("alif-e7", "Did you mean alif-e7-hp or alif-e7-he"),
    ],
)
def test_what_is_no_clock_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        stated_clock(text)
    assert "\n" not in str(caught.value)


def test_npu_and_cpu_may_have_clocks_of_their_own() -> None:
    assert stated_clock("500MHz/1GHz") == StatedClock(500e6, "stated with --clock 500MHz/1GHz", 1e9)
    assert str(stated_clock("500MHz/1GHz")) == "500 MHz, CPU 1 GHz (stated with --clock 500MHz/1GHz)"


def test_a_part_and_a_system_configuration_are_clocks_by_name() -> None:
    assert stated_clock("EK-RA8P1") == StatedClock(500e6, "Renesas EK-RA8P1 with ethos-u55-256", 1e9)
    assert stated_clock("mps4-fi101") == StatedClock(25e6, "Arm MPS4 with FI101", 25e6)
    deep = StatedClock(200e6, "Vela's system configuration Ethos_U55_Deep_Embedded")
    assert stated_clock("ethos_u55_deep_embedded") == deep == of_system(200e6, "Ethos_U55_Deep_Embedded")
    assert of_system(0.0, "Ethos_U55_Deep_Embedded") is None


def test_names_are_unique_and_every_clock_has_a_source() -> None:
    names = [part.name for part in PARTS] + [name.lower() for name in SYSTEM_CLOCKS]
    assert len(set(names)) == len(names)
    assert all(part.source and 1e6 < part.hz <= 1e9 and part.name == part.name.lower() for part in PARTS)


@pytest.mark.parametrize(("hz", "text"), [(1e9, "1 GHz"), (32e6, "32 MHz"), (2500.0, "2.5 kHz"), (12.0, "12 Hz")])
def test_a_frequency_is_shown_in_its_unit(hz: float, text: str) -> None:
    assert frequency(hz) == text
