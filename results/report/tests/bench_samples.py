"""Benchmarks made by hand: points with the costs that figures are derived from."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from ethos_hil.base.inference_profile import InferenceProfile, MemoryBehind, OpCost, Traffic
from ethos_hil.base.record import BenchInfo, Metric, Op, Record, TargetInfo
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.results.report.tests import samples
from ethos_hil.results.run_results import RunResults

NPUS = ("ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u55-256", "ethos-u65-256", "ethos-u65-512",
        "ethos-u85-128", "ethos-u85-256", "ethos-u85-512", "ethos-u85-1024", "ethos-u85-2048")  # fmt: skip
MODES = ("Sram_Only", "Shared_Sram", "Dedicated_Sram")
_GROUPS = ("stem", "conv1x1", "conv3x3", "depthwise", "linear", "matmul", "softmax", "elementwise", "layout", "pool")
_WITHOUT_PRODUCTS = ("softmax", "layout")
_CLOCKS = {"u55": 500e6, "u65": 1e9, "u85": 1e9}


def point(
    case: str, npu: str, mode: str, cycles: int, *, sram: int = 65536, macs: int = 1_000_000, group: str = "conv3x3",
    moved: int = 100_000, provenance: str = "modelled", verdict: Verdict = Verdict.COMPILED_ONLY, bound: str = "mac",
    tags: tuple[str, ...] = ("long",),
) -> Record:  # fmt: skip
    """A point of a benchmark that was timed."""
    family, size = npu.removeprefix("ethos-").split("-")
    traffic = (Traffic("Sram", 0, "ifm", moved // 2, moved - moved // 2), Traffic("Dram", 1, "weights", 2000, 0))
    profile = InferenceProfile(
        clock_hz=_CLOCKS[family],
        macs_per_cycle=int(size),
        timeline_from="modelled",
        costs={"npu00000": OpCost(macs=macs, traffic=traffic, bound_by=bound, modelled=cycles)},
        memories={"Sram": MemoryBehind(16.0, sram), "Dram": MemoryBehind(4.0, 4000)},
    )
    op = Op("npu00000", "Conv2D", "CONV2D", ("aten.conv2d.default",), "", "grid.toml:12", cycles, provenance)
    return Record(
        verdict, model=case, npu=npu, target=TargetInfo("virtual", "virtual", "corstone-300"),
        metrics=(Metric("npu_cycles", float(cycles), "cycles", provenance),), ops=(op,), memory_mode=mode,
        system_config=f"Ethos_{family.upper()}_High_End", clock_hz=_CLOCKS[family], timing_model="2" * 16,
        profile=profile, bench=BenchInfo("default", case, group, tags, "grid.toml:12"),
    )  # fmt: skip


FRONT = (
    point("a", "ethos-u55-32", "Sram_Only", 900, sram=1000),
    point("a", "ethos-u55-64", "Sram_Only", 700, sram=1000),
    point("a", "ethos-u55-128", "Sram_Only", 800, sram=2000),
    point("a", "ethos-u55-256", "Sram_Only", 300, sram=4000),
    point("a", "ethos-u55-256", "Shared_Sram", 650, sram=3000),
    point("a", "ethos-u85-256", "Sram_Only", 700, sram=5000),
    point("a", "ethos-u85-512", "Sram_Only", 600, sram=5000),
)
"""One case at several places, some of which are better than others."""


def refused(record: Record, message: str, kind: FailureKind = FailureKind.UNSUPPORTED) -> Record:
    """The point, which nothing could be made for."""
    return replace(record, verdict=Verdict.SKIPPED, failure=Failure(kind, message), metrics=(), ops=(), profile=None)


def grid(cases: int = 100, seed: int = 5) -> tuple[Record, ...]:
    """A grid on all NPUs and in all modes: some points are verified, some are refused."""
    chance = random.Random(seed)
    return tuple(record for number in range(cases) for record in _case(number, chance))


def _case(number: int, chance: random.Random) -> Iterator[Record]:
    group = _GROUPS[number % len(_GROUPS)]
    macs = 0 if group in _WITHOUT_PRODUCTS else int(10 ** chance.uniform(4, 8.5))
    moved = int(10 ** chance.uniform(3.5, 6.5))
    overhead, skill = chance.randrange(500, 20_000), chance.uniform(0.2, 0.98)
    sram = int(10 ** chance.uniform(4, 6))
    for npu in NPUS:
        size = int(npu.rpartition("-")[2])
        for at, mode in enumerate(MODES):
            memory = moved / (12.0, 6.0, 1.5)[at]
            spread = chance.uniform(0.95, 1.05)
            cycles = int((overhead / size**0.5 + max(macs / (size * skill), memory)) * spread) + 100
            bound = "mac" if macs / (size * skill) > memory else "Sram" if at == 0 else "Dram"
            record = point(f"{group}_{number:03}", npu, mode, cycles, sram=int(sram * (1, 0.6, 0.3)[at] * size**0.05),
                         macs=macs, group=group, moved=moved, bound=bound)  # fmt: skip
            if number % 4 == 0 and at == 0:
                record = replace(record, verdict=Verdict.VERIFIED, executions=1)
            if "u55" in npu and number % 9 == 3:
                record = refused(record, f"{group} is not for Ethos-U55")
            yield record


def results(records: tuple[Record, ...]) -> RunResults:
    """A run of nothing else."""
    return RunResults("bench-0413", "2026-11-25T02:00:00+00:00", records, (samples.MANIFEST,), ())
