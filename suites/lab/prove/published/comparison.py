"""Published totals beside the timing model's and Vela's, and how far apart they are."""

from __future__ import annotations

import csv
import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import median

from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import MemorySystem, Port
from ethos_hil.harness.npu.timing import timing_model
from ethos_hil.harness.npu.timing.kernel_cost import cost
from ethos_hil.harness.npu.timing.memory_system import MODES, memory_system
from ethos_hil.lowering.vela.ini import VelaIni
from ethos_hil.suites.lab.prove.published.published_point import CompiledStream, PointKind, PublishedPoint

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


_SYSTEMS = Path(__file__).with_name("systems.ini")
WORDS = ("port 0 read", "port 0 written", "port 1 read", "port 1 written")
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class ComparedPoint:
    """A published run beside the model of its command stream.

    Attributes:
        point: the run.
        stream: what ran, or stands for it.
        modelled: cycles by the timing model, with the run's memories.
        beats: words by the timing model, in the order of the point's.
    """

    point: PublishedPoint
    stream: CompiledStream
    modelled: int
    beats: tuple[int, int, int, int]

    @property
    def ratio(self) -> float:
        """Modelled over published."""
        return self.modelled / self.point.cycles

    @property
    def ratio_vela_op(self) -> float:
        """Vela's estimate over published."""
        return self.stream.vela_op / self.point.cycles

    @property
    def ratio_vela_npu(self) -> float:
        """Vela's estimate without memories over published."""
        return self.stream.vela_npu / self.point.cycles


@dataclass(frozen=True)
class Spread:
    """How far ratios are from 1.

    Attributes:
        count: how many there are.
        median: the middle one.
        error: the middle of the distances from 1, `worst` the largest; a ratio of 2 and one of 0.5 are both 1 away.
        worst_name: what the worst ratio is of.
    """

    count: int
    median: float
    error: float
    worst: float
    worst_name: str

    @classmethod
    def of(cls, ratios: Mapping[str, float]) -> Spread:
        """Return the spread of ratios by name, of which there is one at least."""
        errors = {name: max(ratio, 1 / max(ratio, 1e-9)) - 1 for name, ratio in ratios.items()}
        worst = max(errors, key=errors.__getitem__)
        return cls(len(ratios), median(ratios.values()), median(errors.values()), errors[worst], worst)


def compare(
    points: Sequence[PublishedPoint], streams: Mapping[str, CompiledStream], progress: Progress
) -> list[ComparedPoint]:
    """Model the streams of points. A point whose stream is not there is left out.

    Args:
        points: the published runs.
        streams: command streams by name.
        progress: told how many of how many are done.
    """
    rows = []
    there = [point for point in points if point.stream in streams]
    for done, point in enumerate(there):
        progress(done, len(there))
        rows.append(_modelled(point, streams[point.stream]))
    return rows


def _modelled(point: PublishedPoint, stream: CompiledStream) -> ComparedPoint:
    timing = stream.program().timing(*surroundings(point))
    read, written = timing_model.AXI_READ_BEATS, timing_model.AXI_WRITE_BEATS
    beats = (timing.events[event] for port in (0, 1) for event in (read[port], written[port]))
    first, second, third, fourth = beats
    return ComparedPoint(point, stream, timing.cycles, (first, second, third, fourth))


def surroundings(point: PublishedPoint) -> tuple[Mapping[int, int], MemorySystem]:
    """Return the port of each region, and the memories, of a run."""
    ports = next(ports for name, ports in MODES.items() if point.memory_mode.startswith(name))
    return ports, memories(_system(point.system, point.npu), point.adapters, point.changes)


@cache
def _ini() -> VelaIni:
    return VelaIni("published", f"{VelaIni.shipped().text}\n{_SYSTEMS.read_text('utf-8')}")


@cache
def _system(name: str, npu: str) -> MemorySystem:
    configuration = EthosU.parse(npu)
    return memory_system(_ini().system(name, configuration), configuration.family)


@dataclass(frozen=True)
class GroupSpread:
    """The spreads of a group of points, of those that a fit may use or of those that are held out.

    Attributes:
        name: the group's.
        held_out: which of the two.
        model, vela_op, vela_npu: the spreads.
    """

    name: str
    held_out: bool
    model: Spread
    vela_op: Spread
    vela_npu: Spread


_RATIOS = ("ratio", "ratio_vela_op", "ratio_vela_npu")


def spreads(rows: Iterable[ComparedPoint], by: Callable[[ComparedPoint], str]) -> list[GroupSpread]:
    """Return the spreads of each group, held-out points apart, in the order of the rows.

    Args:
        rows: what was compared.
        by: names a row's group.
    """
    groups: dict[str, list[ComparedPoint]] = {}
    for row in rows:
        groups.setdefault(by(row), []).append(row)
    result = []
    for name, members in groups.items():
        for held in (False, True):
            some = [row for row in members if row.point.held_out is held]
            if some:
                model, vela_op, vela_npu = (
                    Spread.of({label(row.point): getattr(row, ratio) for row in some}) for ratio in _RATIOS
                )
                result.append(GroupSpread(name, held, model, vela_op, vela_npu))
    return result


def label(point: PublishedPoint) -> str:
    """Return a short name of a point."""
    kept = point.kind in (PointKind.OFF, PointKind.BOARD, PointKind.DOCUMENT)
    words = (point.network, point.npu.removeprefix("ethos-"), str(point.kind) if kept else "")
    mode = point.memory_mode if point.kind is PointKind.MODE or point.network.startswith("conv1x7") else ""
    changes = "relaxed" if point.changes == RELAXED else point.changes
    return " ".join(word for word in (*words, mode, changes) if word)


SHARE = 0.25
"""A rule answers for a run of which its operations take this share of the modelled cycles."""
KINDS = (PointKind.NETWORK, PointKind.OPERATION, PointKind.MODE)


def rule_errors(
    points: Iterable[PublishedPoint], streams: Mapping[str, CompiledStream]
) -> dict[str, tuple[int, float, float]]:
    """Return the number of runs, the median size of their errors and the worst error, to three digits, by rule."""
    errors: dict[str, list[float]] = {}
    for point in points:
        if point.kind in KINDS and point.stream in streams:
            program = streams[point.stream].program()
            ports, system = surroundings(point)
            timing = program.timing(ports, system)
            cycles: Counter[str] = Counter()
            for op, record in zip(program.ops, timing.ops, strict=True):
                cycles[cost(op, program.configuration, system, ports).rule] += record.cycles
            for rule, count in cycles.items():
                if count >= SHARE * timing.cycles:
                    errors.setdefault(rule, []).append(timing.cycles / point.cycles - 1)
    return {
        rule: (len(values), round(statistics.median(map(abs, values)), 3), round(_worst(values), 3))
        for rule, values in sorted(errors.items())
    }


def _worst(errors: list[float]) -> float:
    return max(errors, key=abs)
