"""What one point of a benchmark says beyond its cycles, derived from its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class PointFigures:
    """The figures of one record of a benchmark. None where the record does not say.

    Attributes:
        label, group, npu, memory_mode, system_config, target: which point it is; `label` is the case or the model.
        verdict: the record's.
        reason: why there are no figures; "" where there are.
        provenance: of `cycles`: measured, fvp or modelled.
        clock_hz: the stated clock of the NPU that times are made with; `clock_of` says whose it is: "Vela's system
            configuration NAME", "--clock", or a part's name.
        cycles: NPU cycles of one inference.
        macs: products that it needs, those with padding included.
        npu_s: seconds of the NPU at the stated clock.
        cpu: what the CPU does besides, with `cpu_unit` ("instructions" or "cycles"); 0 where it was not booted.
        cpu_s: seconds of the CPU, where its clock is stated and it counts cycles.
        total_s: both.
        inferences_per_s: 1 / total_s, or of the NPU alone where that is all that is known.
        utilisation: macs / (cycles x MACs of the NPU), 0 to 1.
        cycles_per_kmac: cycles for 1,000 products.
        bytes: moved over the ports, by memory and direction: "Sram read".
        bandwidth: bytes per second, by memory, both directions; `bandwidth_share` of what the memory can do, 0 to 1.
        intensity: products per byte that is moved.
        bound_by: what takes most of the cycles: "mac", "output", "weights", a memory, "latency".
        sram_peak: bytes of SRAM that the program needs, of all memories that are SRAM.
        dram_bytes: bytes moved to and from DRAM or flash.
        weight_bytes, weights: encoded bytes of weights, and the weights, one byte each, that they encode;
            `weight_ratio` is their quotient.
        vela_cycles, vela_npu_cycles: the compiler's estimates.
        energy_j: joules, from a table that the user gives; provenance "assumed".
        operations: how many operations of the NPU there are.
    """

    label: str
    group: str
    npu: str
    memory_mode: str
    system_config: str
    target: str
    verdict: str
    reason: str = ""
    provenance: str = ""
    clock_hz: float = 0.0
    clock_of: str = ""
    cycles: int | None = None
    macs: int | None = None
    npu_s: float | None = None
    cpu: int = 0
    cpu_unit: str = ""
    cpu_s: float | None = None
    total_s: float | None = None
    inferences_per_s: float | None = None
    utilisation: float | None = None
    cycles_per_kmac: float | None = None
    bytes: Mapping[str, int] = field(default_factory=dict)
    bandwidth: Mapping[str, float] = field(default_factory=dict)
    bandwidth_share: Mapping[str, float] = field(default_factory=dict)
    intensity: float | None = None
    bound_by: str = ""
    sram_peak: int | None = None
    dram_bytes: int | None = None
    weight_bytes: int | None = None
    weights: int | None = None
    weight_ratio: float | None = None
    vela_cycles: int | None = None
    vela_npu_cycles: int | None = None
    energy_j: float | None = None
    operations: int | None = None
