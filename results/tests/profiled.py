"""Records with a profile, made by hand, for tests of exporters."""

from __future__ import annotations

import dataclasses
from typing import Any

from ethos_hil.base.inference_profile import Buffer, CpuRow, InferenceProfile, OpCost, Slice, Traffic
from ethos_hil.base.record import JOB, Op, Record, TargetInfo
from ethos_hil.base.verdict import Verdict

CALL = 2
"""The instruction that calls the delegate."""
HOSTILE = 'a;b "c" \\ \n\r\t\x00\x1b[2J \u202e\u2028 </script><!-- \udc80\ud83d é 𝄞 7'


def op(number: int, module: str, cycles: int | None, **other: Any) -> Op:
    row = Op(f"npu{number:05d}", f"Conv{number}", "CONV2D", ("aten.conv2d.default", "aten.relu.default"), module,
               f"net.py:{number}", cycles, "modelled", (f"net.py:{number}", "net.py:99"), CALL, "prefix")  # fmt: skip
    return dataclasses.replace(row, **other)


def cost(memory: str = "Sram") -> OpCost:
    traffic = (
        Traffic(memory, 0, "ifm", 10, 0), Traffic(memory, 0, "ofm", 0, 7), Traffic(memory, 0, "dma", 5, 6),
        Traffic("OffChipFlash", 1, "weights", 99, 0), Traffic("Moon", 1, "dma", 1, 2),
    )  # fmt: skip
    return OpCost(
        macs=1 << 60, mac_cycles=3, output_cycles=4, weight_cycles=5, port_cycles=(6, 7), bound_by=memory,
        traffic=traffic, ifm=(8, 9, 10), ofm=(11, 12, 13), block=(14, 15, 16), ublock=(1, 2, 8),
        traversal="depth-first", weight_bytes=17, weights=18, kernels=19, transfers=20, cascade=21, vela_cycles=22,
        modelled=23, rule="output",
    )  # fmt: skip


def record() -> Record:
    """A job, a module of two operations with a merged one between, one of another module, and kernels on the CPU.

    The kernels overlap their successors by ten cycles; the DMA for the last one runs beside them.
    """
    ops = (
        Op(JOB, JOB, "", (), "", "", 90, "modelled", instruction=CALL, method="prefix"),
        op(0, "stem.conv1", 100, events={"npu_active": 80, "mac_active": 70}),
        op(1, "stem.conv2", None, merged_with="npu00002"),
        op(2, "stem.conv2", 150, spread=3),
        op(3, "head", 250, samples=(250, 1 << 60, 249)),
        op(4, "", 0),
    )
    timeline = (
        Slice("cpu", "quantize", 0, 1000, "cpu00001.kernel"),
        Slice("cpu", "delegate 0: start", 1000, 1020, "cpu00002.start"),
        Slice("npu", "Conv0", 1020, 1130, "npu00000", 99, (400, 50), (200, 0)),
        Slice("npu", "Conv1", 1120, 1180, "npu00001", 9, (12, 0), (0, 0)),
        Slice("npu", "Conv2", 1170, 1280, "npu00002", 0, (0, 7), (3, 0)),
        Slice("dma", "DMA for Conv3", 1100, 1200, "npu00003", 0, (0, 640), (640, 0)),
        Slice("npu", "Conv3", 1270, 1530, "npu00003", 260, (1, 0), (0, 1)),
        Slice("npu", "Conv4", 1530, 1530, "npu00004"),
        Slice("cpu", "dequantize", 1530, 1600, "cpu00003.kernel"),
    )
    cpu = (
        CpuRow("cpu00001.kernel", 1, "kernel", "q::quantize", 1000, "instructions", "instructions", spread=1),
        CpuRow("cpu00002.start", CALL, "start", "delegate 0", 20, "instructions", "instructions"),
        CpuRow("cpu00002.wait", CALL, "wait", "delegate 0", 5, "instructions", "instructions"),
        CpuRow("cpu00002.end", CALL, "end", "delegate 0", None, "", ""),
        CpuRow("cpu00003.kernel", 3, "kernel", "q::dequantize", 70, "cycles", "measured", 2, 0, "tail", "net.py:9"),
    )
    buffers = (
        Buffer(CALL, "Sram", "input", "", 1000, 0, 0),
        Buffer(CALL, "Sram", "conv0", "npu00000", 300, 0, 2),
        Buffer(CALL, "Sram", "conv2", "npu00002", 64, 2, 3),
        Buffer(CALL, "Dram", "conv3", "npu00003", 16, 3, 4),
    )
    costs = {"npu00000": cost(), "npu00003": cost("Dram")}
    profile = InferenceProfile(500e6, 128, "modelled", costs, cpu, timeline, buffers)
    target = TargetInfo("virtual", "virtual", "corstone-300")
    return Record(Verdict.VERIFIED, model="net.py:net", npu="ethos-u55-128", target=target, ops=ops, profile=profile)


def with_profile(of: Record, **changes: Any) -> Record:
    assert of.profile is not None
    return dataclasses.replace(of, profile=dataclasses.replace(of.profile, **changes))


def hostile() -> Record:
    """The record with names that a format could take for something else, and a very long one."""
    of = record()
    profile = of.profile
    assert profile is not None
    names: dict[str, Any] = dict.fromkeys(("npu_op", "tosa_op", "source", "provenance"), HOSTILE)
    names |= {"aten_ops": (HOSTILE, ""), "module": f"{HOSTILE}.{'m' * 100_000}", "sources": (HOSTILE,)}
    names |= {"events": {HOSTILE: 1}}
    return dataclasses.replace(
        with_profile(
            of,
            timeline_from=HOSTILE,
            costs={row: cost(HOSTILE) for row in profile.costs},
            cpu=tuple(dataclasses.replace(row, operator=HOSTILE, module=HOSTILE) for row in profile.cpu),
            timeline=tuple(dataclasses.replace(entry, name=HOSTILE) for entry in profile.timeline),
            buffers=tuple(dataclasses.replace(buffer, memory=HOSTILE, tensor=HOSTILE) for buffer in profile.buffers),
        ),
        model=HOSTILE,
        ops=tuple(op if op.id == JOB else dataclasses.replace(op, **names) for op in of.ops),
    )


def large(slices: int, rows: int = 100) -> Record:
    """A record as of a network: as many slices and rows."""
    ops = tuple(op(row, f"features.{row // 4}.conv.{row % 4}", 1000 + row) for row in range(rows))
    names = [op.id for op in ops for _ in range(slices // rows)]
    timeline = tuple(
        Slice("dma", "DMA", 100 * number, 100 * number + 90, row, 0, (0, 640), (640, 0))
        if number % 3 == 2
        else Slice("npu", "Conv2D", 100 * number, 100 * number + 110, row, 50 + number % 7, (number, 3), (7, 0))
        for number, row in enumerate(names)
    )
    buffers = tuple(Buffer(CALL, "Sram", f"t{row}", f"npu{row:05d}", 1000 + row, row, row + 2) for row in range(rows))
    of = dataclasses.replace(record(), ops=ops)
    return with_profile(of, costs={op.id: cost() for op in ops}, timeline=timeline, buffers=buffers, cpu=())
