"""Run a bundle, or judge the answer in it once more."""

from __future__ import annotations

import hashlib
from typing import Any

from ethos_hil.base import environment
from ethos_hil.base.errors import EthosHilError, ToolError, UsageError
from ethos_hil.base.question import Question
from ethos_hil.base.record import Record
from ethos_hil.harness.ask.place import target_of
from ethos_hil.harness.bundle.run_bundle import RunBundle, end_alike, end_of
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.run import run_artifact
from ethos_hil.harness.targets.recorded import RecordedTarget
from ethos_hil.harness.terminal.progress import Reporter, Silent
from ethos_hil.harness.verdict.artifact_info import naming_program
from ethos_hil.harness.verdict.findings import Answer, Report, report_of
from ethos_hil.harness.verdict.run_data import RunData
from ethos_hil.harness.verdict.verify import references_of
from ethos_hil.lowering.oracle.reference import ReferenceRun
from ethos_hil.lowering.program.program_file import ProgramFile


def repeat_question(bundle: RunBundle, **changes: Any) -> Question:
    """Return the question that asks what a bundle's run asked; `changes` are other fields of it."""
    program = ProgramFile(bundle.question.label, bundle.artifact.pte)
    return bundle.question.but(model=program, inputs=bundle.input_sets, expected=bundle.expected, **changes)


def run_again(bundle: RunBundle, question: Question, reporter: Reporter | None = None) -> Report:
    """Pack a bundle's program with the firmware that is here, run it on a target, and compare.

    Args:
        bundle: whose program and inputs run; its image does not.
        question: of `repeat_question`.
        reporter: receives the progress.

    Raises:
        UsageError, ToolError, TargetError, OracleError: as `ethos_hil.harness.run.run`.
    """
    reporter = reporter or Silent()
    question.check()
    board = target_of(question, tell=reporter.stage)
    with naming_program(bundle.artifact):
        return run_artifact(bundle.artifact, board, question, reporter=reporter)


def replay(bundle: RunBundle, reporter: Reporter | None = None) -> Report:
    """Compare the answer in a bundle with the reference that is here. Neither a target nor torch is needed.

    Raises:
        UsageError: there is no answer in it.
        OracleError: the reference gives none.
    """
    reporter = reporter or Silent()
    if bundle.answer is None:
        raise UsageError("the bundle has no recorded answer: its run ended before one", hint="leave out --replay")
    artifact, question, sets = bundle.artifact, bundle.question, bundle.input_sets
    board = RecordedTarget(bundle.answer.board, bundle.answer.outcome)
    expected = RunData.read(repeat_question(bundle)).answers(artifact, len(sets), bundle.repeat)
    references: tuple[ReferenceRun, ...] = ()
    lacking = None
    if expected is None or not artifact.foreign:
        references, lacking = references_of(artifact, sets, bundle.repeat, reporter)
    answer = Answer(
        artifact,
        board,
        sets,
        references,
        bundle.answer.outcome,
        min_sqnr=question.min_sqnr,
        expected=expected,
        lacking=lacking,
    )
    try:
        report = report_of(answer, question.label, reporter=reporter)
    except EthosHilError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, AssertionError) as error:
        raise UsageError(
            f"the bundle's answer does not fit its program: {type(error).__name__}: {error}", hint="--debug shows where"
        ) from error
    return report.with_facts(notes=(*report.facts.notes, "the answer was recorded when the bundle was made"))


def differences(bundle: RunBundle, firmware: bool = True) -> tuple[str, ...]:
    """Return sentences about what is different here from where a bundle was made.

    Args:
        bundle: the bundle.
        firmware: whether the firmware matters.
    """
    sentences = []
    there = bundle.record.firmware_sha256
    if firmware and there:
        here = _firmware_here(bundle)
        if here and here != there:
            sentences.append(f"the firmware here ({here[:12]}) is another than the bundle's ({there[:12]})")
    now, before = environment.versions(), bundle.record.versions
    changed = [f"{name} {text}, here {now[name]}" for name, text in before.items() if now.get(name, text) != text]
    if changed:
        sentences.append(f"versions differ from the bundle's: {', '.join(changed)}")
    return tuple(sentences)


def compare_ends(bundle: RunBundle, record: Record, where: str) -> tuple[str, ...]:
    """Return sentences about whether a run ended as the bundle's.

    Args:
        bundle: the bundle.
        record: of the run.
        where: the bundle's name.
    """
    if end_alike(bundle.record, record):
        return (f"it ended as the run in {where}",)
    return (f"it did not end as the run in {where}, which is {end_of(bundle.record)}",)


def _firmware_here(bundle: RunBundle) -> str:
    try:
        return hashlib.sha256(find_firmware(bundle.soc)).hexdigest()
    except (ToolError, UsageError):
        return ""
