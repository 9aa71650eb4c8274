"""What a record has so that a change can be traced to its cause: question, TOSA, weights, stream, firmware, model."""

from __future__ import annotations

import dataclasses
import hashlib
from datetime import UTC, datetime

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.record import Record
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.npu.timing.model_id import timing_model_id
from ethos_hil.harness.run import run_artifact
from ethos_hil.harness.targets.contract import contract_programs
from ethos_hil.harness.targets.registry import make_target
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.tosa import content_digest

U55, U85 = "ethos-u55-128", "ethos-u85-256"


def ran(npu: str, artifact: Artifact | None = None) -> Record:
    board = make_target("virtual", EthosU.parse(npu))
    program = contract_programs(npu)[1].artifact if artifact is None else artifact
    return run_artifact(program, board, Question("convolutions", npu=npu, repeat=2)).record


def test_a_record_has_digests_of_all_that_decides_it() -> None:
    artifact = contract_programs(U55)[1].artifact
    record = ran(U55)
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


def test_one_question_has_another_answer_on_another_npu() -> None:
    ones, others = ran(U55).artifact, ran(U85).artifact
    assert ones is not None
    assert others is not None
    assert ones.question == others.question != ""
    assert ones.delegates[0].stream_sha256 != others.delegates[0].stream_sha256


def test_a_program_of_somebody_elses_is_its_own_question() -> None:
    artifact = contract_programs(U55)[1].artifact
    record = ran(U55, Artifact.of_program(artifact.pte, "convolutions"))
    assert record.artifact is not None
    assert record.artifact.question == f"pte:{artifact.sha256}"
    assert [info.tosa_sha256 for info in record.artifact.delegates] == [""]
    mine = ran(U55).artifact
    assert mine is not None
    assert (
        dataclasses.replace(record.artifact.delegates[0], tosa_sha256=mine.delegates[0].tosa_sha256) in mine.delegates
    )
