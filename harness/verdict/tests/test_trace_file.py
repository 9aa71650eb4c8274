"""`--trace`: the file has every operation, its time, and its place in the model."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.harness.run import run, trace_lines, write_trace
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import TorchModel, from_module
from ethos_hil.suites.models.tests.stacks import STACKS

NPU = EthosU.parse("ethos-u55-128")


def model() -> TorchModel:
    return from_module(*STACKS["plain"].example(0), label="plain-0")


def test_a_run_leaves_a_trace_whose_cycles_are_its_own(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    record = run(Question(model(), npu=str(NPU), strict=True), trace=path).record
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    counted = record.metric("npu_cycles")
    assert counted is not None
    assert sum(line["cycles"] for line in lines) == counted.value
    by_row: dict[str, int] = {}
    for line in lines:
        by_row[line["id"]] = by_row.get(line["id"], 0) + line["cycles"]
    assert by_row == {row.id: row.cycles for row in record.ops}
    sources = {row.id: row.source for row in record.ops}
    assert all(line["source"] == sources[line["id"]] for line in lines)
    assert any(line["module"] for line in lines)


def test_operations_are_in_stream_order_and_belong_to_a_delegate(tmp_path: Path) -> None:
    artifact = lower(model(), NPU)
    lines = list(trace_lines(artifact, NPU))
    assert {line["delegate"] for line in lines} == {delegate.instruction for delegate in artifact.delegates}
    offsets = [line["offset"] for line in lines]
    assert offsets == sorted(offsets)
    assert {line["name"] for line in lines} >= {"CONV", "DMA"}


def test_what_no_row_covers_has_no_place(tmp_path: Path) -> None:
    """As in a program that was lowered elsewhere."""
    artifact = lower(model(), NPU)
    rowless = tuple(dataclasses.replace(delegate, npu_ops=()) for delegate in artifact.delegates)
    lines = list(trace_lines(dataclasses.replace(artifact, delegates=rowless), NPU))
    assert lines
    assert not any("id" in line for line in lines)
    assert sum(line["cycles"] for line in lines) == sum(line["cycles"] for line in trace_lines(artifact, NPU))


def test_what_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        write_trace(lower(model(), NPU), NPU, tmp_path / "missing" / "trace.jsonl")
