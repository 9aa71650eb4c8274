"""Protects the trace: its record of an operation equals Vela's disassembly at that place."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ethos_hil.harness.npu.isa.feature_map import BRICK
from ethos_hil.harness.npu.tests.test_decode import last_values, listing
from ethos_hil.harness.npu.tests.test_hazards import network
from ethos_hil.harness.npu.trace import records
from ethos_hil.harness.testing.compiled_graph import CompiledGraph, compile_graph

NPUS = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")
LISTING = "--verbose-register-command-stream"


@pytest.fixture(scope="module", params=NPUS)
def compiled(request: pytest.FixtureRequest) -> CompiledGraph:
    return compile_graph(network(), request.param, LISTING, mode="Shared_Sram")


def traced(compiled: CompiledGraph) -> list[dict[str, Any]]:
    """Return the records as a reader of the file gets them."""
    return [json.loads(json.dumps(record)) for record in records(compiled.program())]


def test_there_is_a_record_for_every_operation(compiled: CompiledGraph) -> None:
    passive = {"STOP", "IRQ", "DMA_WAIT", "KERNEL_WAIT"}
    expected = [line.offset for line in listing(compiled) if line.is_operation and line.name not in passive]
    rows = traced(compiled)
    assert [record["offset"] for record in rows] == expected
    assert [record["op"] for record in rows] == list(range(len(expected)))


def test_feature_maps_are_those_of_the_disassembly(compiled: CompiledGraph) -> None:
    count = 0
    for record in traced(compiled):
        if "ofm" not in record:
            continue
        values = last_values(compiled, record["offset"])
        maps = [("OFM", record["ofm"])]
        if len(record["ifms"]) == 1:
            maps.append(("IFM", record["ifms"][0]))
        for name, feature_map in maps:
            if feature_map["layout"] == "chain":
                continue
            assert feature_map["region"] == values[f"{name}_REGION"]
            assert feature_map["address"] == values[f"{name}_BASE0"]
            assert feature_map["strides"][0] == values[f"{name}_STRIDE_Y"]
            assert feature_map["strides"][1] == values[f"{name}_STRIDE_X"]
            bricks = values[f"{name}_PRECISION"] >> 6 & 3 == 1
            assert (feature_map["layout"] == "NHCWB16") is bricks
            assert (
                not bricks
                or feature_map["shape"][2] <= BRICK
                or feature_map["strides"][2] == values[f"{name}_STRIDE_C"]
            )
            assert feature_map["zero_point"] & 0xFFFF == values[f"{name}_ZERO_POINT"]
            count += 1
        shape = [values[f"OFM_{axis}_M1"] + 1 for axis in ("HEIGHT", "WIDTH", "DEPTH")]
        assert record["ofm"]["shape"] == shape
        block = [values[f"OFM_BLK_{axis}_M1"] + 1 for axis in ("HEIGHT", "WIDTH", "DEPTH")]
        assert record["block"] == block
    assert count > 6


def test_weights_scales_and_kernels_are_those_of_the_disassembly(compiled: CompiledGraph) -> None:
    convolutions = [record for record in traced(compiled) if record["name"] == "CONV"]
    assert len(convolutions) >= 3
    for record in convolutions:
        values = last_values(compiled, record["offset"])
        for name, streams in (("WEIGHT", record["weights"]), ("SCALE", record["scales"])):
            assert streams[0] == {
                "region": values[f"{name}_REGION"],
                "address": values[f"{name}_BASE"],
                "bytes": values[f"{name}_LENGTH"],
            }
        assert record["kernel"]["size"] == [values["KERNEL_HEIGHT_M1"] + 1, values["KERNEL_WIDTH_M1"] + 1]
        assert record["kernel"]["padding"] == [values[f"IFM_PAD_{side}"] for side in ("TOP", "LEFT", "BOTTOM", "RIGHT")]
        assert record["weight_order"] == ("part-kernel" if values["KERNEL_STRIDE"] & 4 else "depth-first")
        assert record["scale"] is None
    assert any(record["table"] is not None for record in convolutions)


def test_transfers_and_waits_are_those_of_the_disassembly(compiled: CompiledGraph) -> None:
    lines = listing(compiled)
    transfers = 0
    for record in traced(compiled):
        values = last_values(compiled, record["offset"])
        before = [line for line in lines if line.offset < record["offset"]]
        between = []
        for line in reversed(before):
            if line.is_operation and line.name not in ("DMA_WAIT", "KERNEL_WAIT"):
                break
            between.append(line)
        for name, wait in (("DMA_WAIT", "transfers"), ("KERNEL_WAIT", "kernels")):
            parameters = [line.parameter for line in between if line.name == name]
            assert record["waits"][wait] == (min(parameters) if parameters else None)
        if record["name"] != "DMA":
            assert record["waits"]["blocks"] == values["BLOCKDEP"]
            continue
        transfers += 1
        assert (record["from"]["address"], record["to"]["address"]) == (values["DMA0_SRC"], values["DMA0_DST"])
        assert record["row_bytes"] == values["DMA0_LEN"]
        assert (record["to"]["region"] == "internal") is bool(values["DMA0_DST_REGION"] & 0x100)
    assert transfers >= 2


def test_times_are_those_of_the_model(compiled: CompiledGraph) -> None:
    result = compiled.program().timing()
    rows = traced(compiled)
    assert sum(record["cycles"] for record in rows) == result.cycles
    assert [(record["begin"], record["end"]) for record in rows] == [(op.begin, op.end) for op in result.ops]
