"""Cycles in units that people use: seconds at a stated clock, and inferences per second.

A time is derived: it says nothing that the cycles do not say, so a gate and a history leave it out. Instructions are
never called time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from ethos_hil.base.clock import StatedClock, of_system
from ethos_hil.base.record import Metric, RunFacts

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
