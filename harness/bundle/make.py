"""Make a bundle of a run that was kept: find its program and inputs, and run it once more for the answers."""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass

from ethos_hil.base.errors import EthosHilError, OracleError, TargetError, ToolError, UsageError
from ethos_hil.base.judge import Findings
from ethos_hil.base.question import Question
from ethos_hil.base.record import Record
from ethos_hil.harness.bundle.again import repeat_question, run_again, without_times
from ethos_hil.harness.bundle.found_program import (
    ChosenRecord,
    KeptFiles,
    find_expected,
    find_inputs,
    find_program,
    question_of,
    soc_of,
)
from ethos_hil.harness.bundle.run_bundle import TARGET_KINDS, RecordedAnswer, RunBundle, end_alike, end_of
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.footprint import Footprint
from ethos_hil.harness.image.npu_time_limit import npu_time_limit
from ethos_hil.harness.image.pack import OWN_CLOCKS, Image
from ethos_hil.harness.run import image_of
from ethos_hil.harness.socs.registry import find_soc
from ethos_hil.harness.targets.recorded import TargetFacts
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.harness.verdict.artifact_info import failed_findings
from ethos_hil.harness.verdict.findings import Report
from ethos_hil.harness.verdict.verify import references_of
from ethos_hil.lowering.oracle.reference import ReferenceRun


@dataclass(frozen=True)
class MadeBundle:
    """A bundle, and sentences about how it was made."""

    bundle: RunBundle
    notes: tuple[str, ...]


def make(
    chosen: ChosenRecord, files: KeptFiles, *, run: bool = True, timeout: float | None = None, reporter: Reporter
) -> MadeBundle:
    """Make the bundle of a record.

    Args:
        chosen: the record.
        files: where files of its run are.
        run: run it once more, on its target: the bundle has what the target answers then.
        timeout: wall seconds for that; by default what the run had.
        reporter: receives the progress.

    Raises:
        UsageError: the record is of no run on a target, or its program or data cannot be had.
        ToolError: its target is not there.
    """
    record = chosen.record
    _check(record)
    reporter.stage(f"Looking for the program of {record.label}")
    program = find_program(chosen, files)
    sets = find_inputs(chosen, program, files)
    asked = record.asked
    repeat = _repeat(record, len(sets), asked.repeat)
    expected = find_expected(chosen, program, files, len(sets), repeat)
    question = question_of(record, program.artifact, repeat)
    bundle = RunBundle(record, question, soc_of(record), program.artifact, sets, expected=expected)
    question = repeat_question(bundle, timeout=timeout or asked.timeout)
    report, again = _run(bundle, question, reporter) if run else (None, None)
    bundle = dataclasses.replace(
        bundle,
        again=again,
        references=report.references if report is not None else _references(bundle, reporter),
    )
    return _with_image(bundle, question, report)


def _check(record: Record) -> None:
    if record.target.kind not in TARGET_KINDS or not record.npu:
        where = record.target.name if record.target.kind == "host" else "no target"
        raise UsageError(
            f"{record.label} ran on {where}, and a bundle runs on one with an NPU",
            hint="bundle a record of an NPU, such as one of the profiles U55_BI, U65_BI or U85_BI",
        )
    if record.runner is not None:
        raise UsageError(
            f"{record.label} ran with {record.runner.path}, and a bundle runs with the firmware of who opens it",
            hint="run it again without --runner, and bundle that run",
        )


def _repeat(record: Record, sets: int, asked: int | None) -> int:
    if not record.executions:
        return asked or 1
    repeat, rest = divmod(record.executions, sets)
    if rest or not repeat:
        raise UsageError(
            f"{record.label} has {record.executions} executions, and the inputs are {sets} input sets",
            hint="give the inputs that ran with --inputs X.npz",
        )
    return repeat


def _run(bundle: RunBundle, question: Question, reporter: Reporter) -> tuple[Report | None, Record]:
    """Return what is known of a new run, None if it did not answer; and its record, without what is another one each
    time that the same run is bundled.
    """
    findings: Findings
    report: Report | None = None
    try:
        findings = report = run_again(bundle, question, reporter)
    except (UsageError, ToolError):
        raise
    except EthosHilError as error:  # the failure that the bundle is for, perhaps
        findings = failed_findings(question, error)
    metrics = tuple(metric for metric in findings.facts.metrics if metric.provenance != "host")
    return report, findings.with_facts(metrics=metrics, created=bundle.record.created).record


def _references(bundle: RunBundle, reporter: Reporter) -> tuple[ReferenceRun, ...]:
    try:
        references, _ = references_of(bundle.artifact, bundle.input_sets, bundle.repeat, reporter)
    except OracleError:
        return ()
    return references


def _with_image(bundle: RunBundle, question: Question, report: Report | None) -> MadeBundle:
    """Add the image, and the answer that came from it."""
    record, notes = bundle.record, []
    firmware = find_firmware(bundle.soc)
    digest = hashlib.sha256(firmware).hexdigest()
    if record.firmware_sha256 and digest != record.firmware_sha256:
        notes.append("the firmware here is another than the one that ran; the bundle has the image of this one")
    try:
        image = _image(bundle, question, firmware, report)
    except (TargetError, UsageError) as error:  # too large: this may be the failure
        notes.append(f"the bundle has no image: {error.message}")
        image = None
    if image is not None:
        bundle = dataclasses.replace(bundle, image=image.elf, image_hash=image.image_hash.hex())
    if report is not None:
        outcome = report.outcome
        answer = RecordedAnswer(TargetFacts.of(report.answer.board), without_times(outcome, outcome.program_hash[:16]))
        bundle = dataclasses.replace(bundle, answer=answer)
    if bundle.again is not None and not end_alike(record, bundle.again):
        notes.append(f"it did not end alike when it ran again. Kept: {end_of(record)}. Now: {end_of(bundle.again)}")
    return MadeBundle(dataclasses.replace(bundle, firmware_sha256=digest), tuple(notes))


def _image(bundle: RunBundle, question: Question, firmware: bytes, report: Report | None) -> Image:
    """Return the image that ran, but for the run's id."""
    artifact, soc = bundle.artifact, find_soc(bundle.soc)
    modelled = bundle.record.target.kind != "virtual"
    limit = npu_time_limit(artifact, bundle.question.npu, soc, question.timeout, modelled=modelled)
    run_id = bytes.fromhex(artifact.sha256)[:16]
    packed = [
        image_of(
            artifact,
            Footprint.of(artifact),
            firmware,
            bundle.input_sets,
            repeat=bundle.repeat,
            npu_timeout_ms=limit,
            printable=printable,
            run_id=run_id,
            clocks=OWN_CLOCKS if report is None else report.answer.board.clocks,
        )
        for printable in (False, True)
    ]
    wanted = report.outcome.image_hash if report is not None else packed[0].image_hash
    return next((image for image in packed if image.image_hash == wanted), packed[0])
