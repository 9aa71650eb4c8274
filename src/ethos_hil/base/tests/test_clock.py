"""Clocks that a user states: frequencies, parts, and what is none."""

from __future__ import annotations

from ethos_hil.base.clock import frequency, of_system
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.results.latency import PARTS, SYSTEM_CLOCKS, stated_clock


def test_a_frequency_is_read(recorded: Recorded) -> None:
    texts = "400MHz", "1e9", "0.8 GHz", " 32mhz ", "500000 kHz", ".5GHz"
    recorded.check("\n".join(repr(stated_clock(text)) for text in texts))


def test_what_is_no_clock_is_refused_in_one_line(recorded: Recorded) -> None:
    recorded.check_refusals([
        "0", "0MHz/1GHz", "-400MHz", "1e99", "999Hz", "11GHz", "400 MiHz", "400MHz/fast", "400MHz/", "nan", "inf", "",
        "alif-e8-pp", "m55m1", "alif-e7",
    ], stated_clock)  # fmt: skip


def test_clocks_of_npu_and_cpu_of_parts_and_of_systems_are_shown_with_their_units(recorded: Recorded) -> None:
    clocks = [stated_clock(name) for name in ("500MHz/1GHz", "EK-RA8P1", "mps4-fi101", "ethos_u55_deep_embedded")]
    recorded.check("\n".join([*map(repr, clocks), *map(str, clocks), *map(frequency, (1e9, 32e6, 2500.0, 12.0))]))
    assert clocks[-1] == of_system(200e6, "Ethos_U55_Deep_Embedded")
    assert of_system(0.0, "Ethos_U55_Deep_Embedded") is None


def test_names_are_unique_and_every_clock_has_a_source() -> None:
    names = [part.name for part in PARTS] + [name.lower() for name in SYSTEM_CLOCKS]
    assert len(set(names)) == len(names)
    assert all(part.source and 1e6 < part.hz <= 1e9 and part.name == part.name.lower() for part in PARTS)
