"""What a record has so that a change can be traced to its cause: question, TOSA, weights, stream, firmware, model."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.record import Record
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.npu.timing.rules import timing_model_id
from ethos_hil.harness.run import run_artifact
from ethos_hil.harness.targets.contract import contract_programs
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.tosa import content_digest

NPU = "ethos-u55-128"


def test_a_record_has_digests_of_all_that_decides_it() -> None:
    artifact = contract_programs(NPU)[1].artifact
    board = make_target("virtual", EthosU.parse(NPU))
    record = run_artifact(artifact, board, Question("convolutions", npu=NPU, repeat=2)).record
    assert record.artifact is not None
    (delegate,) = artifact.delegates
    (info,) = record.artifact.delegates
    assert delegate.tosa is not None
    assert info.instruction == delegate.instruction
    assert info.tosa_sha256 == content_digest(delegate.tosa)
    assert info.stream_sha256 == hashlib.sha256(delegate.blob.command_stream).hexdigest()
    assert info.weights_sha256 == hashlib.sha256(delegate.blob.weights).hexdigest()
    assert record.artifact.question == artifact.question
    assert record.firmware_sha256 == hashlib.sha256(find_firmware("corstone-300")).hexdigest()
    assert record.timing_model == timing_model_id()
    assert record.clock_hz == 500e6, "Ethos_U55_High_End_Embedded in Vela's vela.ini"
    assert abs((datetime.now(UTC) - datetime.fromisoformat(record.created)).total_seconds()) < 600
    total = record.metric("npu_cycles")
    assert total is not None
    assert total.samples == (total.value, total.value)
    assert Record.from_json(record.to_json()) == record
    foreign = run_artifact(Artifact.of_program(artifact.pte, "convolutions"), board, Question("convolutions", npu=NPU))
    assert foreign.record.artifact is not None
    assert foreign.record.artifact.question == f"pte:{artifact.sha256}", "a program of others is its own question"
    assert [info.tosa_sha256 for info in foreign.record.artifact.delegates] == [""]
