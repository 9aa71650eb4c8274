"""Arm's timing adapters: what the firmware of a published run set them to, and the memories that they stand for.

An adapter sits between an NPU's ports to one memory and that memory. Arm's ML Embedded Evaluation Kit has a profile
for each system (scripts/cmake/timing_adapter/ta_config_*.cmake, release 26.03; `adapters.csv`), and the runs that vary
one say which fields they change. The fields:

    MAXR, MAXW            reads and writes that may wait for an answer, six bits: 0, and so 64, is not a limit
    RLATENCY, WLATENCY    least cycles until the answer
    PULSE_ON, PULSE_OFF   cycles that let requests through, and cycles that block them, in turn
    BWCAP                 words in PULSE_ON + PULSE_OFF cycles at most; 0 is not a limit

A word is what a port moves in a cycle. On Corstone SSE-310 and SSE-315 there are no adapters: memories answer at once.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.family import MemorySystem, Port

OFF = "off"
RELAXED = "EXT_RLATENCY=0 EXT_WLATENCY=0 EXT_BWCAP=0 SRAM_RLATENCY=0 SRAM_WLATENCY=0"
"""Changes that leave next to nothing of the adapters."""
PORTS = ("SRAM", "EXT")
UNLIMITED = 64
"""Stands for no limit of what may be under way: more than an Ethos-U asks for at once."""
_FIELDS = ("MAXR", "MAXW", "RLATENCY", "WLATENCY", "PULSE_ON", "PULSE_OFF", "BWCAP")
_CHANGE = re.compile(rf"({'|'.join(PORTS)})_({'|'.join(_FIELDS)})=(\d{{1,6}})")
_SIX_BITS = 64


@dataclass(frozen=True)
class TimingAdapter:
    """The fields of one adapter, as they are set."""

    MAXR: int
    MAXW: int
    RLATENCY: int
    WLATENCY: int
    PULSE_ON: int
    PULSE_OFF: int
    BWCAP: int

    def around(self, port: Port, beat: int) -> Port:
        """Return what a memory behind this adapter is like. Bursts stay as they are: the NPU makes them."""
        width = float(beat * port.ports)
        cap = self.BWCAP / (self.PULSE_ON + self.PULSE_OFF)
        return replace(
            port,
            rate=width * cap if self.BWCAP else math.inf,
            window=self.PULSE_ON + self.PULSE_OFF,
            read_latency=self.RLATENCY,
            write_latency=self.WLATENCY,
            reads=self.MAXR % _SIX_BITS or UNLIMITED,
            writes=self.MAXW % _SIX_BITS or UNLIMITED,
        )


@cache
def profiles() -> Mapping[str, Mapping[str, TimingAdapter]]:
    """Return the adapters of SRAM and of the other memory, by profile."""
    by_profile: dict[str, dict[str, TimingAdapter]] = {}
    with Path(__file__).with_name("adapters.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            adapter = TimingAdapter(**{name: int(row[name]) for name in _FIELDS})
            by_profile.setdefault(row["profile"], {})[row["port"]] = adapter
    return by_profile


def memories(system: MemorySystem, profile: str, changes: str = "") -> MemorySystem:
    """Return a system's memories as a run had them.

    Args:
        system: Vela's description, which has the ports, their width and the bursts.
        profile: of the adapters, or `OFF`.
        changes: fields with other values, separated by blanks: "EXT_RLATENCY=0 SRAM_BWCAP=2000".

    Raises:
        UsageError: there is no such profile, or no such field.
    """
    if profile == OFF:
        return replace(system, name=OFF, ports=(_at_once(system.ports[0], system), _at_once(system.ports[1], system)))
    if profile not in profiles():
        raise UsageError(f"there are no adapters {profile!r}", hint=f"there are {', '.join((*profiles(), OFF))}")
    adapters = dict(profiles()[profile])
    for change in changes.split():
        match = _CHANGE.fullmatch(change)
        if match is None:
            raise UsageError(f"{change!r:.80} is not a field of an adapter", hint="write it as EXT_RLATENCY=250")
        adapters[match[1]] = replace(adapters[match[1]], **{match[2]: int(match[3])})
    sram, other = (adapters[name].around(port, system.beat) for name, port in zip(PORTS, system.ports, strict=True))
    return replace(system, name=" ".join((profile, *changes.split())), ports=(sram, other))


def _at_once(port: Port, system: MemorySystem) -> Port:
    return replace(port, rate=math.inf, read_latency=0, write_latency=0, reads=UNLIMITED, writes=UNLIMITED)
