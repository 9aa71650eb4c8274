"""Make a bundle of a run that was kept: find its program and inputs, and run it once more for the answers.

A record has only the digests of its program and inputs.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.base.asking import again
from ethos_hil.base.errors import EthosHilError, OracleError, TargetError, ToolError, UsageError
from ethos_hil.base.file_error import readable
from ethos_hil.base.judge import Findings
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import FailureKind, Verdict
from ethos_hil.harness.bundle.again import repeat_question, run_again, without_times
from ethos_hil.harness.bundle.run_bundle import TARGET_KINDS, RecordedAnswer, RunBundle, end_alike, end_of
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.footprint import Footprint
from ethos_hil.harness.image.inputs import InputSet, digest_of
from ethos_hil.harness.image.npu_time_limit import npu_time_limit
from ethos_hil.harness.image.pack import OWN_CLOCKS, Image
from ethos_hil.harness.run import image_of
from ethos_hil.harness.socs.registry import find_soc
from ethos_hil.harness.targets.recorded import TargetFacts
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.harness.verdict.artifact_info import cached_artifact, failed_findings
from ethos_hil.harness.verdict.findings import Report
from ethos_hil.harness.verdict.run_data import RunData
from ethos_hil.harness.verdict.verify import HOST, REFERENCE, references_of
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.contents import CACHE_VARIABLE
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.oracle.reference import ReferenceRun
from ethos_hil.lowering.program.program_file import PROGRAM_SUFFIXES, ProgramFile
from ethos_hil.results.run_results import RunResults, find_results

_SHOWN = 12
"""Digits of a digest in a message."""
_LISTED = 8
_RUN = "give a run folder, results/runs/NAME, or a record that `run --json` wrote; `ethos-hil runs` lists the runs"


@dataclass(frozen=True)
class ChosenRecord:
    """A record, and what is known of its run.

    Attributes:
        record: the record.
        cache: where the run kept the models that it lowered, if not in the user's own cache.
        artifacts: where it kept what is known of failed tests, if it did.
    """

    record: Record
    cache: Path | None = None
    artifacts: Path | None = None


def choose(run: Path, text: str | None) -> ChosenRecord:
    """Return the record of a run that is meant.

    Args:
        run: a run folder, or a folder of them (its newest run), or a record's file.
        text: the name of a test or a model, or a part of it that no other record of the run has; None for the only
            record, or the only one that failed.

    Raises:
        UsageError: there is no such run, or none or several records are meant; says what there is.
    """
    results = _results(run)
    records = wanted = list(results.records)
    if text is not None:
        exact = [record for record in records if text in (record.label, _full(record))]
        wanted = exact or [record for record in records if text in _full(record)]
        if not wanted:
            raise UsageError(f"{run} has no record of {text!r}", hint=f"it has {_list(records)}")
    elif len(records) > 1:
        wanted = [record for record in records if record.verdict is Verdict.FAILED]
        if not wanted:
            raise UsageError(f"no record of {run} failed", hint=f"name one: {_list(records)}")
    if len({_full(record) for record in wanted}) > 1:
        what = "failed records" if text is None else f"records of {text!r}"
        raise UsageError(f"{run} has {len(wanted)} {what}", hint=f"name one: {_list(wanted)}")
    # The same was asked several times: what failed is what is looked for.
    failed = [record for record in wanted if record.verdict is Verdict.FAILED]
    return ChosenRecord((failed or wanted)[-1], _place(results, "cache"), _place(results, "artifacts"))


def _results(run: Path) -> RunResults:
    with readable(run, hint=_RUN):
        return find_results([run])


def _place(results: RunResults, name: str) -> Path | None:
    """Return a folder that the manifest of a run names."""
    place = results.manifests[0].get(name) if results.manifests else None
    return Path(place) if isinstance(place, str) and place else None


def _full(record: Record) -> str:
    """Return what tells a record from others of its run."""
    npu = f" for {record.npu}" if record.npu else ""
    return f"{record.label}{npu} on {record.target.name}"


def _list(records: Sequence[Record]) -> str:
    ordered = sorted(records, key=lambda record: record.verdict is not Verdict.FAILED)
    names = list(dict.fromkeys(f"{_full(record)} ({record.verdict})" for record in ordered))
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


@dataclass(frozen=True)
class KeptFiles:
    """Where the user says that files of the run are; None where nothing is said.

    Attributes:
        inputs: the inputs, .npz.
        expected: the outputs that are right, .npz.
        artifacts: the folder that `pytest --artifacts` filled.
    """

    inputs: Path | None = None
    expected: Path | None = None
    artifacts: Path | None = None


@dataclass(frozen=True)
class FoundProgram:
    """A program, and the file that it was read from, if it was not lowered here."""

    artifact: Artifact
    source: ProgramFile | None = None


def find_program(chosen: ChosenRecord, files: KeptFiles) -> FoundProgram:
    """Return the program that ran: from the cache, a failed test's folder, or its own file.

    Raises:
        UsageError: the record has no program, or it is not there any more; says what to do.
        ToolError: the cache cannot be read.
    """
    record = chosen.record
    if record.artifact is None:
        raise UsageError(
            f"the record of {record.label} has no program: it {_end(record)}",
            hint=f"it shows again by {again(record.asked)}",
        )
    wanted = record.artifact.sha256
    if record.artifact.question.startswith("pte:") and record.model.lower().endswith(PROGRAM_SUFFIXES):
        source = ProgramFile.read(record.model)
        if hashlib.sha256(source.data).hexdigest() != wanted:
            raise UsageError(
                f"{record.model} is another program than the one that ran ({wanted[:_SHOWN]})",
                hint="bring that file back, or run this one",
            )
        return FoundProgram(Artifact.of_program(source.data, record.model), source)
    caches = [Cache(), *([Cache(chosen.cache)] if chosen.cache is not None and chosen.cache.is_dir() else [])]
    kept = next(filter(None, (cached_artifact(record.artifact, cache) for cache in caches)), None)
    artifact = kept or next(_dumped_programs(wanted, chosen, files), None)
    if artifact is None:
        raise UsageError(
            f"the program of {record.label} ({wanted[:_SHOWN]}) is no longer in the cache, {caches[-1].folder}",
            hint=f"run it again, {again(record.asked)}, and bundle that run; or set {CACHE_VARIABLE} to its cache",
        )
    return FoundProgram(_with_lines_of(record, artifact.of(record.method).rename(record.model)))


def _with_lines_of(record: Record, artifact: Artifact) -> Artifact:
    """Return the program with the lines of its run, also where only a copy made from other lines is left of it."""
    rows = {row.id: row for row in record.ops}
    delegates = tuple(
        dataclasses.replace(
            delegate,
            npu_ops=tuple(
                dataclasses.replace(op, source=rows[op.id].source, sources=rows[op.id].sources) if op.id in rows else op
                for op in delegate.npu_ops
            ),
        )
        for delegate in artifact.delegates
    )
    return dataclasses.replace(artifact, delegates=delegates)


def question_of(record: Record, artifact: Artifact, repeat: int) -> Question:
    """Return what was asked about a program that ran, as far as it decides the answer: where, and how it is judged."""
    question = record.question
    if question is None:  # a record of schema 1 does not say what was demanded of the NPU
        refused = record.kind is FailureKind.DELEGATION
        question = Question(record.model, allow_cpu_only=not refused)
    return question.but(
        model=record.model,
        npu=record.npu,
        target=record.target.name,
        method=artifact.method,
        repeat=repeat,
        strict_board=bool(record.target.rules),
        profile=False,
    )


def find_inputs(chosen: ChosenRecord, program: FoundProgram, files: KeptFiles) -> tuple[InputSet, ...]:
    """Return the inputs that ran, by their digest in the record.

    Raises:
        UsageError: they cannot be had.
    """
    record = chosen.record
    inputs = record.question.inputs if record.question is not None else None
    places = [files.inputs] if files.inputs is not None else [inputs, None] if isinstance(inputs, Path) else [None]
    problem: UsageError | None = None
    for place in places:
        try:
            if place is None:
                sets, _ = RunData().of(program.source).input_sets(program.artifact)
            else:
                sets, _ = _data(inputs=place).input_sets(program.artifact)
        except UsageError as error:
            problem = problem or error
            continue
        if record.inputs_sha256 in ("", digest_of(sets)):
            return sets
    if problem is not None:
        raise problem.replace(hint="give the inputs that ran with --inputs X.npz")
    where = places[0] or "the model's example inputs"
    raise UsageError(
        f"{where} are other inputs than those of {record.label} ({record.inputs_sha256[:_SHOWN]})",
        hint="give those that ran with --inputs X.npz",
    )


def find_expected(
    chosen: ChosenRecord, program: FoundProgram, files: KeptFiles, input_sets: int, repeat: int
) -> tuple[InputSet, ...] | None:
    """Return the outputs that the run was compared with, apart from the reference's; None if there were none.

    Raises:
        UsageError: there were some, and they cannot be had.
    """
    expected = chosen.record.question.expected if chosen.record.question is not None else None
    place = files.expected or (expected if isinstance(expected, Path) else None)
    data = (RunData() if place is None else _data(expected=place)).of(program.source)
    answers = data.answers(program.artifact, input_sets, repeat)
    if answers is not None:
        return answers.answers
    other = next(
        (output.reference for output in chosen.record.outputs if output.reference not in (REFERENCE, HOST, "")), None
    )
    if other is not None:
        raise UsageError(
            f"{chosen.record.label} was compared with {other}, which cannot be had", hint="give it with --expected"
        )
    return None


def soc_of(record: Record) -> str:
    """Return the system on chip of a run, which may have ended before it was known.

    Raises:
        UsageError, ToolError: the target is not one that is here.
    """
    from ethos_hil.harness.targets.registry import make_target

    return record.target.soc or make_target(record.target.name, EthosU.parse(record.npu)).soc


def _data(**files: Path) -> RunData:
    return RunData.read(Question("", **files))  # type: ignore[arg-type]


def _dumped_programs(wanted: str, chosen: ChosenRecord, files: KeptFiles) -> Iterator[Artifact]:
    """Yield the program from what `pytest --artifacts` keeps of failed tests, if it is there."""
    folder = files.artifacts or chosen.artifacts
    if folder is None:
        return
    for path in sorted(folder.glob("**/artifact/model.pte")):
        try:
            artifact = Artifact.load(path.parent)
        except UsageError:
            continue
        if artifact.sha256 == wanted:
            yield dataclasses.replace(artifact, etrecord=b"")


def _end(record: Record) -> str:
    if record.failure is None:
        return f"ended as {record.verdict}"
    return f"{record.verdict} ({record.failure.kind}) before there was one"


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
