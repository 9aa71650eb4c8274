"""The account of an inference: nothing is counted twice, nothing is lost, and the bytes say who reads whom."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest

from ethos_hil.base.errors import TargetError
from ethos_hil.base.inference_profile import InferenceProfile
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.harness.link.outcome import StepTime
from ethos_hil.harness.npu.isa.operations import Convolution, Dma
from ethos_hil.harness.profile.account import WAIT, cpu_rows
from ethos_hil.harness.profile.compiled import CompiledDelegate
from ethos_hil.harness.profile.options import ProfileMethod
from ethos_hil.harness.run import run
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.harness.verdict.findings import Report

DIGITS = "suites/models/digits.py:digits"
ROOT = Path(__file__).parents[3]
NPUS = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-256")


def profiled(npu: str, method: ProfileMethod = ProfileMethod.SHARES, model: str = DIGITS) -> Report:
    """Run a model with a profile on the virtual board."""
    return run(Question(str(ROOT / model), npu=npu, target="virtual", profile=True, found_by=method))


def _work(profile: InferenceProfile) -> dict[str, int | None]:
    """Return what the CPU counts, without the wait: the interrupt comes from another process, after as many turns of
    the waiting loop as the host leaves time for.
    """
    return {row.id: row.count for row in profile.cpu if row.part != WAIT}


@pytest.fixture(scope="module", params=NPUS)
def report(request: pytest.FixtureRequest) -> Report:
    return profiled(request.param)


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


def test_a_prefix_profile_has_the_same_account(report: Report, profile: InferenceProfile) -> None:
    again = profiled(report.record.npu, ProfileMethod.PREFIX).record.profile
    assert again is not None
    assert (again.costs, again.edges, again.buffers) == (profile.costs, profile.edges, profile.buffers)
    assert _work(again) == _work(profile), "prefixes must not count"


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
