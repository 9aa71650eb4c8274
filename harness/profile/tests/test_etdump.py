"""ExecuTorch's Inspector reads our ETDump: every operation, in its own units, with percentiles over executions."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.question import Question
from ethos_hil.base.record import JOB, Op, Record
from ethos_hil.harness.profile.options import ProfileMethod
from ethos_hil.harness.run import run
from ethos_hil.harness.verdict.findings import Report
from ethos_hil.results.export.etdump import parse_metadata, write

MODEL = str(Path(__file__).parents[3] / "suites/models/digits.py:digits")


@pytest.fixture(scope="module")
def report() -> Report:
    return run(
        Question(MODEL, npu="ethos-u55-128", target="virtual", repeat=3, profile=True, found_by=ProfileMethod.PREFIX)
    )


@pytest.fixture(scope="module")
def record(report: Report) -> Record:
    return report.record


def inspected(content: bytes, folder: Path, **more: str) -> dict[str, Any]:
    """Return the events of a run, as upstream's Inspector has them, by their names."""
    from executorch.devtools import Inspector

    path = folder / "run.etdp"
    path.write_bytes(content)
    inspector = Inspector(etdump_path=str(path), delegate_metadata_parser=parse_metadata, **more)
    (block,) = [block for block in inspector.event_blocks if block.name == "Execute"]
    return {event.delegate_debug_identifier or event.name: event for event in block.events}


def slower(op: Op) -> Op:
    """Return a row with executions that differ."""
    if op.cycles is None:
        return op
    return dataclasses.replace(op, samples=(op.cycles, op.cycles + 300, op.cycles + 100))


@pytest.mark.slow
def test_the_inspector_has_each_operation_with_its_percentiles(record: Record, tmp_path: Path) -> None:
    assert all(op.samples == (op.cycles,) * 3 for op in record.ops)
    noisy = dataclasses.replace(record, ops=tuple(map(slower, record.ops)))
    assert noisy.profile is not None
    events = inspected(write(noisy), tmp_path)
    rows = [op for op in noisy.ops if op.id != JOB]
    assert {op.id for op in rows} <= events.keys()
    ms = 1e3 / noisy.profile.clock_hz
    for op in rows:
        entry = events[op.id]
        assert len(entry.perf_data.raw) == 3
        wanted = [cycles * ms for cycles in op.samples]
        # Both ends are rounded to a nanosecond.
        assert entry.perf_data.raw == pytest.approx(wanted, abs=1.001e-6)
        assert entry.perf_data.p50 == pytest.approx(sorted(wanted)[1], abs=1.001e-6)
        assert entry.is_delegated_op
        metadata = entry.delegate_debug_metadatas
        assert metadata["npu_op"] == op.npu_op
        assert metadata["source"] == op.source
        assert metadata["cycles"] == op.samples[0]
    assert {"DELEGATE_CALL", "OPERATOR_CALL", "Method::execute"} <= events.keys()
    assert "quantized_decomposed::quantize_per_tensor.out" in events


@pytest.mark.slow
def test_the_etrecord_of_the_artifact_names_modules_and_lines(report: Report, tmp_path: Path) -> None:
    """Every operation of the NPU that comes of an operator has its module and the line in the user's file."""
    record = report.record
    (tmp_path / "model.etrecord").write_bytes(report.artifact.etrecord)
    events = inspected(write(record), tmp_path, etrecord=str(tmp_path / "model.etrecord"))
    for op in record.ops:
        if op.id == JOB or not op.aten_ops:
            continue
        event = events[op.id]
        # Theirs are by node, each with the modules around it from the outside in, and the text of the user's stack.
        modules = {path for nodes in event.module_hierarchy.values() for path in nodes}
        assert any(path.endswith(op.module) for path in modules), (op, modules)
        traces = "".join(filter(None, event.stack_traces.values()))
        name, _, line = op.source.partition(":")
        assert f'{name}", line {line},' in traces, (op, traces)
    assert len(events.keys() & {op.id for op in record.ops}) == len([op for op in record.ops if op.id != JOB])


@pytest.mark.slow
def test_half_a_file_is_refused(record: Record, tmp_path: Path) -> None:
    content = write(record)
    with pytest.raises(Exception):  # noqa: B017 - upstream's flatc ends, with no class of error of its own
        inspected(content[: len(content) // 2], tmp_path)


def test_a_row_that_comes_twice_is_refused(record: Record) -> None:
    twice = dataclasses.replace(record, ops=(*record.ops, record.ops[-1]))
    with pytest.raises(ValueError, match=f"{record.ops[-1].id} comes twice"):
        write(twice)
