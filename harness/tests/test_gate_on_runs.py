"""The gate on real runs: a network is run, something is done to it, and the gate says what it was.

The regressions of results/testing are made of records, and prove each word and cause; these are made of models,
compilers and a clock. A record has what a change is traced by: question, TOSA, weights, stream, firmware, model.
"""

from __future__ import annotations

import hashlib
import math
from datetime import UTC, datetime
from pathlib import Path

import pytest
import torch
from torch import nn

import ethos_hil
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.program_info import DelegateInfo
from ethos_hil.base.question import Question
from ethos_hil.base.record import Record
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.npu import npu
from ethos_hil.harness.npu.timing import kernel_cost, rules
from ethos_hil.harness.run import run_artifact
from ethos_hil.harness.targets.contract import contract_programs
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.tosa import content_digest
from ethos_hil.results.gate.change import VERDICT, Cause, RunComparison, Word
from ethos_hil.results.gate.gate import side_of
from ethos_hil.results.run_results import RunResults

NAME = "ethos-u55-128"


class Net(nn.Module):
    def __init__(self, channels: int = 8) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.head = nn.Linear(channels, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = torch.relu(self.second(torch.relu(self.conv(images))))
        return self.head(features.mean((2, 3)))


def run(channels: int = 8, **options: object) -> Record:
    torch.manual_seed(0)
    module = Net(channels)
    inputs = torch.rand(1, 3, 16, 16)
    return ethos_hil.run(module, inputs, **{"npu": NAME, **options}).record  # type: ignore[arg-type]


def gate(before: Record, after: Record) -> RunComparison:
    return ethos_hil.gate(*(side_of(RunResults("a night", record.created, (record,))) for record in (before, after)))


@pytest.mark.slow  # five models are lowered
def test_what_was_done_to_a_run_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing; an argument of Vela; another place; an edit; and the timing model."""
    good = run()
    assert gate(good, run()).changes == ()
    by_size = gate(good, run(optimise="Size"))
    assert {change.detail for change in by_size.changes} == {
        "another command stream: Vela's arguments: nothing became --optimise=Size"
    }
    assert {change.cause for change in gate(good, run(npu="ethos-u55-256")).changes} == {Cause.NPU}
    edited = gate(good, run(channels=16))
    assert {(change.word, change.cause) for change in edited.changes} == {(Word.EDITED, Cause.QUESTION)}
    assert {change.metric for change in edited.changes} >= {VERDICT, "npu_cycles", "sqnr_db"}
    before = kernel_cost.output_cycles_per_element
    monkeypatch.setattr(kernel_cost, "output_cycles_per_element", lambda kernel, npu: before(kernel, npu) * 2)
    npu.forget()  # decoded programs are kept with their cycles
    try:
        # The id is made of the source, which a test does not edit: with the old id nothing explains the new cycles.
        (change,) = gate(good, run()).changes
        assert (change.metric, change.word) == ("npu_cycles", Word.UNSTABLE)
        monkeypatch.setattr(rules, "source_digest", lambda *_folders: "e" * 64)
        rules.timing_model_id.cache_clear()
        (change,) = gate(good, run()).changes
    finally:
        npu.forget()
        rules.timing_model_id.cache_clear()
    assert (change.metric, change.word, change.cause) == ("npu_cycles", Word.REGRESSED, Cause.TIMING_MODEL)
    assert {row.source.partition(":")[0] for row in change.rows} == {Path(__file__).name}
    assert isinstance(change.before, int | float)
    assert isinstance(change.after, int | float)
    assert math.isclose(sum(row.delta for row in change.rows), change.after - change.before)


def test_a_record_has_digests_of_all_that_decides_it() -> None:
    artifact = contract_programs(NAME)[1].artifact
    board = make_target("virtual", EthosU.parse(NAME))
    record = run_artifact(artifact, board, Question("convolutions", npu=NAME, repeat=2)).record
    assert record.artifact is not None
    (delegate,) = artifact.delegates
    (info,) = record.artifact.delegates
    assert delegate.tosa is not None
    stream, weights = (
        hashlib.sha256(part).hexdigest() for part in (delegate.blob.command_stream, delegate.blob.weights)
    )
    assert info == DelegateInfo(delegate.instruction, content_digest(delegate.tosa), stream, weights)
    assert record.artifact.question == artifact.question
    assert record.firmware_sha256 == hashlib.sha256(find_firmware("corstone-300")).hexdigest()
    assert record.timing_model == rules.timing_model_id()
    assert record.clock_hz == 500e6, "Ethos_U55_High_End_Embedded in Vela's vela.ini"
    assert abs((datetime.now(UTC) - datetime.fromisoformat(record.created)).total_seconds()) < 600
    total = record.metric("npu_cycles")
    assert total is not None
    assert total.samples == (total.value, total.value)
    assert Record.from_json(record.to_json()) == record
    foreign = run_artifact(Artifact.of_program(artifact.pte, "convolutions"), board, Question("convolutions", npu=NAME))
    assert foreign.record.artifact is not None
    assert foreign.record.artifact.question == f"pte:{artifact.sha256}", "a program of others is its own question"
    assert [info.tosa_sha256 for info in foreign.record.artifact.delegates] == [""]
