"""Records made by hand, whose figures can be computed on paper."""

from __future__ import annotations

import dataclasses
from typing import Any

from ethos_hil.base.inference_profile import InferenceProfile, MemoryBehind, OpCost, Traffic
from ethos_hil.base.program_info import ArtifactInfo
from ethos_hil.base.record import BenchInfo, Metric, Op, Record, RunInfo, TargetInfo
from ethos_hil.base.verdict import Failure, FailureKind, Verdict

COSTS = {
    "npu00000": OpCost(
        macs=600_000, bound_by="mac",
        traffic=(
            Traffic("Sram", 0, "ifm", 3_000, 0),
            Traffic("Sram", 0, "ofm", 0, 2_000),
            Traffic("OffChipFlash", 1, "weights", 500, 0),
        ),
        weight_bytes=400, weights=1_000, vela_npu_cycles=900, modelled=1_500,
    ),
    "npu00001": OpCost(
        macs=40_000, bound_by="OffChipFlash",
        traffic=(Traffic("Sram", 0, "ifm", 1_000, 0), Traffic("OffChipFlash", 1, "weights", 1_500, 0)),
        weight_bytes=1_400, weights=2_000, vela_npu_cycles=100, modelled=1_700,
    ),
    "npu00002": OpCost(bound_by="mac", traffic=(Traffic("Sram", 0, "ofm", 0, 1_000),), modelled=800),
}  # fmt: skip
"""In all: 640,000 products; Sram 4,000 read and 3,000 written, flash 2,000 read; 1,800 bytes for 3,000 weights."""


def point(npu: str = "ethos-u55-128", cycles: float | None = 4_000, **changes: Any) -> Record:
    """A point of a benchmark: 4,000 cycles on 128 MACs at 500 MHz, 8 us."""
    ops = tuple(
        Op(row, "Conv2D", "CONV2D", (), "", "", count, "modelled")
        for row, count in zip(COSTS, (1_500, 1_700, 800), strict=True)
    )
    counted = () if cycles is None else (Metric("npu_cycles", cycles, "cycles", "modelled"),)
    sample = Record(
        verdict=Verdict.COMPILED_ONLY, model="conv_56", npu=npu,
        target=TargetInfo("virtual", "virtual", "corstone-300"),
        metrics=(*counted, Metric("npu_cycles_estimate", 4_400, "cycles", "vela")), ops=ops,
        artifact=ArtifactInfo("", 0, 3, (), scheme="a8w8"),
        versions={"ethos-u-vela": "5.1.0", "executorch": "1.4.1", "torch": "2.13.0"}, memory_mode="Shared_Sram",
        system_config="Ethos_U55_High_End_Embedded", clock_hz=500e6, timing_model="ab" * 8,
        created="2026-11-25T10:02:52+00:00",
        profile=InferenceProfile(
            clock_hz=500e6, macs_per_cycle=int(npu.rpartition("-")[2]), costs=COSTS,
            memories={"Sram": MemoryBehind(8.0, 7_000), "OffChipFlash": MemoryBehind(1.0, 3_000)},
        ),
        run=RunInfo("20261125T100247Z-c394cb"),
        bench=BenchInfo("default", "conv_56", "conv3x3", ("long",), "grid.toml:12"),
    )  # fmt: skip
    return dataclasses.replace(sample, **changes)


def refused(npu: str = "ethos-u85-256", message: str = "Vela cannot compile it", **changes: Any) -> Record:
    failed = point(npu, None, verdict=Verdict.FAILED, failure=Failure(FailureKind.COMPILE, message), ops=(), **changes)
    return dataclasses.replace(failed, profile=None)
