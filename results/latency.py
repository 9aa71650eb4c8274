"""Cycles in units that people use: seconds at a stated clock, and inferences per second.

A time is derived: it says nothing that the cycles do not say, so a gate and a history leave it out. Instructions are
never called time.

The clocks are those of parts with an Ethos-U, and of Vela's system configurations, each with its source. A part is
listed where a public source says how fast its NPU runs, or how fast the processor that shares its clock does. Firmware
may run any of them more slowly: what counts is the clock that a program sets.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import TypeVar

from ethos_hil.base.clock import LEAST_HZ, MOST_HZ, StatedClock, frequency, of_system
from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import FAMILIES
from ethos_hil.base.record import Metric, RunFacts

_UNITS = {"": 1.0, "hz": 1.0, "khz": 1e3, "mhz": 1e6, "ghz": 1e9}
_FREQUENCY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?) *([a-z]*)", re.IGNORECASE)
_ALIF = "Alif's ml-embedded-evaluation-kit, scripts/vela/ensemble_vela.ini, core_clock; its SDK has the cores' clocks"
_MPS3 = "the board's FPGA image: NPU and processor have one clock (harness/socs)"


@dataclass(frozen=True)
class KnownClock:
    """The clock of a part.

    Attributes:
        name: as `--clock` takes it.
        part: in words.
        npu: the NPU that it has; "" where several are built.
        hz: of the NPU.
        cpu_hz: of the processor that drives it; 0 where that is not known.
        source: where the numbers come from.
    """

    name: str
    part: str
    npu: str
    hz: float
    cpu_hz: float
    source: str

    @property
    def stated(self) -> StatedClock:
        """It, with its part in words."""
        return StatedClock(self.hz, f"{self.part} with {self.npu}" if self.npu else self.part, self.cpu_hz)


PARTS = (
    KnownClock("alif-e7-hp", "Alif Ensemble E7, HP core", "ethos-u55-256", 400e6, 400e6, _ALIF),
    KnownClock("alif-e7-he", "Alif Ensemble E7, HE core", "ethos-u55-128", 160e6, 160e6, _ALIF),
    KnownClock("alif-e8-hp", "Alif Ensemble E8, HP core", "ethos-u55-256", 400e6, 400e6, _ALIF),
    KnownClock("alif-e8-he", "Alif Ensemble E8, HE core", "ethos-u55-128", 160e6, 160e6, _ALIF),
    KnownClock(
        "alif-e8-u85", "Alif Ensemble E8", "ethos-u85-256", 400e6, 400e6,
        "the kit and Alif's SDK compile for its Ethos-U85 with the HP core's configuration: core_clock 400 MHz",
    ),
    KnownClock(
        "numaker-m55m1", "Nuvoton NuMaker-M55M1", "ethos-u55-256", 220e6, 220e6,
        "M55M1BSP: the system clock is APLL0 at 220 MHz; that the NPU runs at it is inferred",
    ),
    KnownClock(
        "ek-ra8p1", "Renesas EK-RA8P1", "ethos-u55-256", 500e6, 1e9,
        "Zephyr, dts/arm/renesas/ra/ra8/r7ka8p1xf.dtsi: PLLP at 1 GHz, divided by 2 for the NPU; its 256 MACs are "
        "inferred",
    ),
    KnownClock(
        "imx93", "NXP i.MX93", "ethos-u65-256", 800e6, 0.0,
        "the patch to Linux that adds its NPU to imx93.dtsi: assigned-clock-rates 800 MHz",
    ),
    KnownClock(
        "psoc-edge-e84", "Infineon PSOC Edge E84", "ethos-u55-128", 400e6, 400e6,
        "Zephyr, drivers/misc/ethos_u/ethos_u_infineon.c: the NPU's clock is CLK_HF1, the Cortex-M55's, at 400 MHz",
    ),
    KnownClock("mps3-an547", "Arm MPS3 with AN547", "", 32e6, 32e6, _MPS3),
    KnownClock("mps3-an552", "Arm MPS3 with AN552", "", 32e6, 32e6, _MPS3),
    KnownClock("mps3-an555", "Arm MPS3 with AN555", "", 32e6, 32e6, _MPS3),
    KnownClock("mps4-fi101", "Arm MPS4 with FI101", "", 25e6, 25e6, _MPS3),
)  # fmt: skip
"""Boards and parts. docs/latency.md shows them."""
SYSTEM_CLOCKS = {name: hz for family in FAMILIES for name, hz in family.clocks.items()}
"""`core_clock` of each System_Config of the Arm/vela.ini in Vela 5.1's wheel; a test compares them."""


def asked_clock(text: str | None) -> StatedClock | None:
    """Return the clock that a user states, None where there is none. Errors are those of `stated_clock`."""
    return None if text is None else stated_clock(text)


def stated_clock(text: str) -> StatedClock:
    """Return the clock that a user states: "400MHz", "500MHz/1GHz" for NPU and CPU, or the name of a part or of one of
    Vela's system configurations.

    Raises:
        UsageError: it is not a clock; the message says what would do.
    """
    npu, several, cpu = text.partition("/")
    if several or _FREQUENCY.fullmatch(text.strip()) is not None:
        hz = _parse(npu)
        return StatedClock(hz, f"stated with --clock {text.strip()}", _parse(cpu) if several else 0.0)
    wanted = text.strip().lower()
    part = next((part for part in PARTS if part.name == wanted), None)
    if part is not None:
        return part.stated
    system = next((name for name in SYSTEM_CLOCKS if name.lower() == wanted), None)
    if system is not None:
        return StatedClock(SYSTEM_CLOCKS[system], f"Vela's system configuration {system}")
    names = [part.name for part in PARTS]
    known = [*names, *(name.lower() for name in SYSTEM_CLOCKS)]
    within = [name for name in known if len(wanted) > 2 and wanted in name]
    close = within or difflib.get_close_matches(wanted, known, n=1)
    suggestion = f" Did you mean {' or '.join(close)}?" if close else ""
    raise _refusal(
        f"{text.strip()!r:.60} is not a clock.{suggestion} It takes a frequency (400MHz, 1e9; 500MHz/1GHz for NPU and "
        f"CPU), a system configuration of Vela, or a part: {', '.join(names)}"
    )


def _parse(text: str) -> float:
    """Return the Hz of "400MHz", "1e9" or "0.8 GHz"."""
    shown = f"{text.strip()!r:.60}"
    match = _FREQUENCY.fullmatch(text.strip())
    if match is None:
        raise _refusal(f"{shown} is not a frequency; write 400MHz, 1GHz or 1e9")
    scale = _UNITS.get(match[2].lower())
    if scale is None:
        raise _refusal(f"{shown} has the unit {match[2]!r:.20}; it takes Hz, kHz, MHz and GHz")
    hz = float(match[1]) * scale
    if not LEAST_HZ <= hz <= MOST_HZ:
        raise _refusal(f"a clock of {shown} is outside of {frequency(LEAST_HZ)} to {frequency(MOST_HZ)}")
    return hz


def _refusal(message: str) -> UsageError:
    return UsageError(f"--clock: {message}", hint="--clock 400MHz")


NPU_SECONDS, CPU_SECONDS, SECONDS = "npu_latency_seconds", "cpu_latency_seconds", "latency_seconds"
PER_SECOND = "inferences_per_second"
DERIVED = frozenset({NPU_SECONDS, CPU_SECONDS, SECONDS, PER_SECOND})
"""Metrics that follow from others and a clock: what compares numbers leaves them out, so that nothing alarms twice."""

Facts = TypeVar("Facts", bound=RunFacts)


@dataclass(frozen=True)
class Latency:
    """How long an inference takes.

    Attributes:
        clock: the clocks that times are made with.
        npu: seconds of the NPU.
        cpu: seconds of the CPU, without its wait for the NPU; None where it counts no cycles, or its clock is not
            stated.
        counted: what the CPU does, and `unit`: "cycles", "instructions" or "".
        provenance: of the NPU's cycles; `cpu_provenance` of the CPU's.
    """

    clock: StatedClock
    npu: float
    provenance: str
    cpu: float | None = None
    counted: int = 0
    unit: str = ""
    cpu_provenance: str = ""

    @property
    def total(self) -> float | None:
        """Seconds of both, None where the CPU's are not known."""
        return None if self.cpu is None else self.npu + self.cpu

    @property
    def per_second(self) -> float | None:
        """Inferences per second: of both, or of the NPU alone where the CPU's part is not known."""
        seconds = self.npu if self.total is None else self.total
        return 1 / seconds if seconds > 0 else None


def latency_of(record: RunFacts, clock: StatedClock | None = None) -> Latency | None:
    """Return the latency of a record, None where it has no cycles, or no clock is known.

    Args:
        record: of a run.
        clock: the clock to use; by default the one that the record states, else that of its system configuration. A
            board has a clock of its own, so for cycles that were measured there is no default.
    """
    cycles = record.metric("npu_cycles")
    if cycles is None:
        return None
    used = clock or record.clock
    if used is None and cycles.provenance != "measured":
        used = of_system(record.clock_hz, record.system_config)
    if used is None:
        return None
    counted = record.metric("cpu_cycles")
    latency = Latency(used, cycles.value / used.hz, cycles.provenance)
    if counted is not None:
        seconds = counted.value / used.cpu_hz if used.cpu_hz else None
        return replace(
            latency, cpu=seconds, counted=round(counted.value), unit="cycles", cpu_provenance=counted.provenance
        )
    instructions = record.metric("cpu_instructions")
    if instructions is None:
        return latency
    return replace(latency, counted=round(instructions.value), unit="instructions", cpu_provenance="instructions")


def with_latency(facts: Facts, clock: StatedClock | None = None) -> Facts:
    """Return the facts of a run with the metrics of `DERIVED` at their end, as far as they are known.

    Of a record it is what a reader sees who states a clock: times are made from its cycles, and nothing else differs.

    Args:
        facts: of a run; derived metrics that they have are replaced.
        clock: the clock that the user states, which is kept with them; None for the system configuration's.
    """
    metrics = tuple(metric for metric in facts.metrics if metric.name not in DERIVED)
    latency = latency_of(facts, clock)
    added = () if latency is None else tuple(_metrics(latency))
    return replace(facts, metrics=(*metrics, *added), clock=clock or facts.clock)


def _metrics(latency: Latency) -> Iterator[Metric]:
    yield Metric(NPU_SECONDS, latency.npu, "s", latency.provenance)
    if latency.cpu is not None and latency.total is not None:
        yield Metric(CPU_SECONDS, latency.cpu, "s", latency.cpu_provenance)
        yield Metric(SECONDS, latency.total, "s", latency.provenance)
    if latency.per_second is not None:
        yield Metric(PER_SECOND, latency.per_second, "1/s", latency.provenance)
