"""Profiles of whole runs: the same rows from the virtual board and through an FVP's command line; their account, in
which nothing is counted twice and nothing is lost; and their ETDump, as ExecuTorch's Inspector reads it.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.errors import TargetError
from ethos_hil.base.inference_profile import InferenceProfile
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.record import JOB, Op, Record
from ethos_hil.harness.link.outcome import StepTime
from ethos_hil.harness.npu.isa.operations import Convolution, Dma
from ethos_hil.harness.profile.account import WAIT, cpu_rows
from ethos_hil.harness.profile.compiled import CompiledDelegate
from ethos_hil.harness.profile.options import EVENTS, ProfileMethod
from ethos_hil.harness.run import run, run_artifact
from ethos_hil.harness.socs.registry import FVP_PATH_VARIABLE
from ethos_hil.harness.targets.contract import contract_programs
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.harness.verdict.findings import Report
from ethos_hil.results.export.etdump import parse_metadata, write
from ethos_hil.results.profile_view import memory_use

NPUS = ("ethos-u55-128", pytest.param("ethos-u65-512", marks=pytest.mark.proof), "ethos-u85-256")


@functools.cache
def profiled(
    npu: str, method: ProfileMethod | None, target: str = "virtual", events: tuple[str, ...] = ("all",)
) -> Report:
    _, convolutions = contract_programs(npu)
    board = make_target(target, EthosU.parse(npu))
    question = Question("convolutions", npu=npu, target=target, profile=True, found_by=method, events=events)
    return run_artifact(convolutions.artifact, board, question)


def total(record: Record) -> float:
    metric = record.metric("npu_cycles")
    assert metric is not None
    return metric.value


def operations(record: Record) -> list[tuple[str, int | None]]:
    return [(op.id, op.cycles) for op in record.ops if op.id != "job"]


@pytest.mark.parametrize(("npu", "passes"), [("ethos-u55-128", 2), ("ethos-u85-256", 1)])
def test_all_events_are_counted_in_as_many_passes_as_the_counters_need(npu: str, passes: int) -> None:
    record = profiled(npu, ProfileMethod.PREFIX).record
    assert record.executions == passes
    for op in record.ops:
        assert set(op.events) == set(EVENTS)
        assert op.events["npu_active"] == op.cycles
    assert sum(op.events["mac_active"] for op in record.ops) > 0


PLACES = {"corstone-300": "ethos-u55-128", "corstone-320": "ethos-u85-256"}


def on_the_cpu(record: Record) -> list[tuple[str, int | None, str, str]]:
    """Return the rows of the CPU without the wait: the interrupt comes from another process, after as many turns of the
    waiting loop as the host leaves time for.
    """
    assert record.profile is not None
    rows = [(row.id, row.count, row.unit, row.provenance) for row in record.profile.cpu if row.part != WAIT]
    assert rows
    assert {(unit, provenance) for _, _, unit, provenance in rows} == {("instructions", "instructions")}
    assert all(count for _, count, _, _ in rows)
    return rows


@pytest.mark.parametrize(
    "soc", ["corstone-300", pytest.param("corstone-320", marks=[pytest.mark.slow, pytest.mark.proof])]
)
def test_through_the_command_line_of_an_fvp(launchers: Path, monkeypatch: pytest.MonkeyPatch, soc: str) -> None:
    monkeypatch.setenv(FVP_PATH_VARIABLE, str(launchers))
    record, expected = profiled(PLACES[soc], None, soc, ("npu_active",)).record, profiled(PLACES[soc], None).record
    assert record.verdict == "verified"
    assert record.executions == 3, "where two executions may differ, there are three"
    assert {(op.method, op.provenance, op.spread) for op in record.ops} == {("prefix", "modelled", 0)}, (
        "a launcher says what it is"
    )
    assert operations(record) == operations(expected)
    assert on_the_cpu(record) == on_the_cpu(expected), "the firmware is the same, and so is what it executes"
    assert sum(op.cycles or 0 for op in record.ops) == total(record)


# The account of an inference.


DIGITS = str(Path(__file__).parents[3] / "suites/models/digits.py:digits")


def digits(npu: str, method: ProfileMethod = ProfileMethod.SHARES) -> Report:
    return run(Question(DIGITS, npu=npu, target="virtual", profile=True, found_by=method))


@pytest.fixture(scope="module", params=NPUS)
def report(request: pytest.FixtureRequest) -> Report:
    return digits(request.param)


@pytest.fixture(scope="module")
def profile(report: Report) -> InferenceProfile:
    assert report.record.profile is not None
    return report.record.profile


def compiled(report: Report) -> CompiledDelegate:
    """Return the model's only delegate, as `ethos_hil.harness.profile.account` sees it."""
    (delegate,) = report.artifact.delegates
    assert report.answer.profile is not None
    return CompiledDelegate.of(report.artifact, delegate, EthosU.parse(report.record.npu), report.answer.profile.mode)


def test_each_row_has_its_cost_and_nothing_is_lost(report: Report, profile: InferenceProfile) -> None:
    rows = [op.id for op in report.record.ops]
    assert list(profile.costs) == rows
    kernels = sum(not isinstance(op, Dma) for op in compiled(report).program.ops)
    assert sum(cost.kernels for cost in profile.costs.values()) == kernels
    transfers = len(compiled(report).program.ops) - kernels
    assert sum(cost.transfers for cost in profile.costs.values()) == transfers
    assert all(0 < (cost.vela_npu_cycles or 0) <= (cost.vela_cycles or 0) for cost in profile.costs.values())


def test_what_is_in_use_fits_into_what_is_planned(report: Report) -> None:
    used = list(memory_use(report.record))
    assert 0 < sum(memory.peak for memory in used) <= compiled(report).delegate.blob.scratch_size
    # IFM and OFM of the 1x1 convolution are both there while it runs.
    assert sum(memory.rows[2][1] for memory in used) >= 8 * 8 * 16 + 8 * 8 * 32


def test_macs_are_those_of_the_model(report: Report, profile: InferenceProfile) -> None:
    # digits.py: a 3x3 convolution 1 -> 16 on 8x8, a depthwise one, a 1x1 one to 32, and a dense layer 512 -> 10. The
    # map has a dense layer as a convolution over all of its input.
    layers = (8 * 8 * 16 * 9, 8 * 8 * 16 * 9, 8 * 8 * 16 * 32, 512 * 10)
    assert sum(cost.macs for cost in profile.costs.values()) == sum(layers)


def test_weights_are_as_long_as_the_streams_that_are_read(report: Report, profile: InferenceProfile) -> None:
    convolutions = [op for op in compiled(report).program.ops if isinstance(op, Convolution)]
    streams = {(at.region, at.base): at.length for op in convolutions for at in op.weights.streams}
    assert sum(cost.weight_bytes for cost in profile.costs.values()) == sum(streams.values())


def test_memories_have_what_vela_says_that_they_hold_and_the_constants(
    report: Report, profile: InferenceProfile
) -> None:
    """Vela's summary leaves constants out where they are in SRAM (5.1.0, mode Sram_Only)."""
    (delegate,) = report.artifact.delegates
    constants = delegate.blob.stream_size + len(delegate.blob.weights)
    in_sram = report.record.memory_mode == "Sram_Only"
    sram, other = profile.memories["Sram"], next(memory for name, memory in profile.memories.items() if name != "Sram")
    assert sram.used - (constants if in_sram else 0) == float(delegate.summary["sram_memory_used"]) * 1024
    assert other.used >= (0 if in_sram else constants)
    system = compiled(report).system
    assert [memory.rate for memory in profile.memories.values()] == [port.rate for port in system.ports]


def test_slices_of_a_lane_follow_one_another_and_end_with_the_inference(
    report: Report, profile: InferenceProfile
) -> None:
    assert profile.timeline_from == "modelled"
    for lane in ("dma", "cpu"):
        slices = [part for part in profile.timeline if part.lane == lane]
        assert all(first.end <= second.begin for first, second in itertools.pairwise(slices))
    cpu = sum(row.count or 0 for row in profile.cpu if row.part != WAIT)
    npu = sum(op.cycles or 0 for op in report.record.ops)
    assert max(part.end for part in profile.timeline) == cpu + npu
    ids = {op.id for op in report.record.ops} | {row.id for row in profile.cpu}
    assert {part.row for part in profile.timeline} <= ids


def test_rows_are_a_chain_from_input_to_output(report: Report, profile: InferenceProfile) -> None:
    edges = {(edge.source, edge.target): edge.size for edge in profile.edges}
    rows = [op.id for op in report.record.ops]
    assert edges["input 0", "cpu00000.kernel"] == 8 * 8 * 4
    assert edges["cpu00000.kernel", rows[0]] == 8 * 8
    assert all(pair in edges for pair in itertools.pairwise(rows))
    assert edges[rows[-1], "cpu00002.kernel"] == 10
    assert edges["cpu00002.kernel", "output 0"] == 10 * 4


def test_prefixes_find_what_the_model_knows_and_have_the_same_account(
    report: Report, profile: InferenceProfile
) -> None:
    by_share, record = report.record, digits(report.record.npu, ProfileMethod.PREFIX).record
    assert record.verdict == by_share.verdict == "verified", "the last job's outputs are compared, bit for bit"
    assert operations(record) == operations(by_share)
    assert [{op.method for op in of.ops} for of in (by_share, record)] == [{"shares"}, {"prefix"}]
    assert [op.cycles for op in record.ops if op.id == "job"] == [0], "the model has no cost of a job"
    assert sum(op.cycles or 0 for op in record.ops) == total(record) == total(by_share)
    again = record.profile
    assert again is not None
    assert (again.costs, again.edges, again.buffers) == (profile.costs, profile.edges, profile.buffers)
    assert on_the_cpu(record) == on_the_cpu(by_share), "prefixes must not count"


def test_a_call_whose_time_is_lost_is_a_failure(report: Report) -> None:
    board = make_target("virtual", EthosU.parse(report.record.npu))
    run_, *_ = report.outcome.runs
    assert [row.count for row in cpu_rows(report.artifact, board, [run_])]
    broken = dataclasses.replace(run_, steps=run_.steps[1:])
    with pytest.raises(TargetError, match="instruction 0 has none") as raised:
        cpu_rows(report.artifact, board, [broken])
    assert raised.value.kind == "profile"


def test_without_a_cycle_counter_rows_have_no_counts(report: Report) -> None:
    board = make_target("virtual", EthosU.parse(report.record.npu))
    run_, *_ = report.outcome.runs
    still = tuple(StepTime(step.instruction, dict.fromkeys(step.parts, 0)) for step in run_.steps)
    rows = cpu_rows(report.artifact, board, [dataclasses.replace(run_, steps=still)])
    assert rows
    assert {(row.count, row.unit, row.provenance) for row in rows} == {(None, "", "")}


# ExecuTorch's Inspector reads our ETDump: every operation, in its own units, with percentiles over executions.


@pytest.fixture(scope="module")
def repeated() -> Report:
    return run(
        Question(DIGITS, npu="ethos-u55-128", target="virtual", repeat=3, profile=True, found_by=ProfileMethod.PREFIX)
    )


def inspected(content: bytes, folder: Path, **more: str) -> dict[str, Any]:
    """Return the events of a run, as upstream's Inspector has them, by their names."""
    from executorch.devtools import Inspector

    path = folder / "run.etdp"
    path.write_bytes(content)
    inspector = Inspector(etdump_path=str(path), delegate_metadata_parser=parse_metadata, **more)
    (block,) = [block for block in inspector.event_blocks if block.name == "Execute"]
    return {event.delegate_debug_identifier or event.name: event for event in block.events}


def slower(op: Op) -> Op:
    if op.cycles is None:
        return op
    return dataclasses.replace(op, samples=(op.cycles, op.cycles + 300, op.cycles + 100))


@pytest.mark.slow
def test_the_inspector_has_each_operation_with_its_percentiles(repeated: Report, tmp_path: Path) -> None:
    record = repeated.record
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
def test_the_etrecord_of_the_artifact_names_modules_and_lines(repeated: Report, tmp_path: Path) -> None:
    """Every operation of the NPU that comes of an operator has its module and the line in the user's file."""
    record = repeated.record
    (tmp_path / "model.etrecord").write_bytes(repeated.artifact.etrecord)
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
def test_half_a_file_is_refused(repeated: Report, tmp_path: Path) -> None:
    content = write(repeated.record)
    with pytest.raises(Exception):  # noqa: B017 - upstream's flatc ends, with no class of error of its own
        inspected(content[: len(content) // 2], tmp_path)


def test_a_row_that_comes_twice_is_refused(repeated: Report) -> None:
    ops = repeated.record.ops
    with pytest.raises(ValueError, match=f"{ops[-1].id} comes twice"):
        write(dataclasses.replace(repeated.record, ops=(*ops, ops[-1])))
