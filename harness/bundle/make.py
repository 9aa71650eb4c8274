"""Make a bundle of a run that was kept: find its program and inputs, and run it once more for the answers.

A record has only the digests of its program and inputs.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from pathlib import Path

from ethos_hil.base.asking import again
from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import EthosHilError, ToolError, UsageError
from ethos_hil.base.files import readable
from ethos_hil.base.judge import Findings
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.record import Record
from ethos_hil.base.verdict import Verdict
from ethos_hil.harness.bundle.run_bundle import (
    TARGET_KINDS,
    RecordedAnswer,
    RunBundle,
    TargetFacts,
    end_alike,
    end_of,
    repeat_question,
    run_again,
)
from ethos_hil.harness.image.inputs import InputSet, digest_of
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.harness.verdict.artifact_info import cached_artifact, failed_findings
from ethos_hil.harness.verdict.run_data import RunData
from ethos_hil.harness.verdict.verify import HOST, REFERENCE
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.contents import CACHE_VARIABLE
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.program.program_file import PROGRAM_SUFFIXES, ProgramFile
from ethos_hil.results.run_results import find_results

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
    """

    record: Record
    cache: Path | None = None


def choose(run: Path, text: str | None) -> ChosenRecord:
    """Return the record of a run that is meant.

    Args:
        run: a run folder, or a folder of them (its newest run), or a record's file.
        text: the name of a test or a model, or a part of it that no other record of the run has; None for the only
            record, or the only one that failed.

    Raises:
        UsageError: there is no such run, or none or several records are meant; says what there is.
    """
    with readable(run, hint=_RUN):
        results = find_results([run])
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
    cache = results.manifests[0].get("cache") if results.manifests else None
    return ChosenRecord((failed or wanted)[-1], Path(cache) if isinstance(cache, str) and cache else None)


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
class FoundProgram:
    """A program, and the file that it was read from, if it was not lowered here."""

    artifact: Artifact
    source: ProgramFile | None = None


def find_program(chosen: ChosenRecord) -> FoundProgram:
    """Return the program that ran: from the cache, or its own file.

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
        source = ProgramFile.read(record.model, record.asked.ptd)
        if hashlib.sha256(source.data).hexdigest() != wanted:
            raise UsageError(
                f"{record.model} is another program than the one that ran ({wanted[:_SHOWN]})",
                hint="bring that file back, or run this one",
            )
        return FoundProgram(Artifact.of_program(source.data, record.model, source.ptd), source)
    caches = [Cache(), *([Cache(chosen.cache)] if chosen.cache is not None and chosen.cache.is_dir() else [])]
    artifact = next(filter(None, (cached_artifact(record.artifact, cache) for cache in caches)), None)
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


def find_inputs(record: Record, program: FoundProgram, inputs: Path | None) -> tuple[InputSet, ...]:
    """Return the inputs that ran, by their digest in the record.

    Args:
        record: of the run.
        program: what ran.
        inputs: the .npz that has them; by default the one that the run had, or else the model's example inputs.

    Raises:
        UsageError: they cannot be had.
    """
    place = inputs or record.asked.inputs
    try:
        data = _data(inputs=place) if isinstance(place, Path) else RunData().of(program.source)
        sets, _ = data.input_sets(program.artifact)
    except UsageError as error:
        raise error.replace(hint="give the inputs that ran with --inputs X.npz") from None
    if record.inputs_sha256 not in ("", digest_of(sets)):
        given = place or "the model's example inputs"
        raise UsageError(
            f"{given} are other inputs than those of {record.label} ({record.inputs_sha256[:_SHOWN]})",
            hint="give those that ran with --inputs X.npz",
        )
    return sets


def find_expected(
    record: Record, program: FoundProgram, expected: Path | None, input_sets: int, repeat: int
) -> tuple[InputSet, ...] | None:
    """Return the outputs that the run was compared with, apart from the reference's; None if there were none.

    Raises:
        UsageError: there were some, and they cannot be had.
    """
    place = expected or record.asked.expected
    data = (_data(expected=place) if isinstance(place, Path) else RunData()).of(program.source)
    answers = data.answers(program.artifact, input_sets, repeat)
    if answers is not None:
        return answers.answers
    known = (REFERENCE, HOST, "")
    other = next((output.reference for output in record.outputs if output.reference not in known), None)
    if other is not None:
        raise UsageError(
            f"{record.label} was compared with {other}, which cannot be had", hint="give it with --expected"
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
    chosen: ChosenRecord,
    *,
    inputs: Path | None = None,
    expected: Path | None = None,
    run: bool = True,
    timeout: float | None = None,
    reporter: Reporter,
) -> MadeBundle:
    """Make the bundle of a record.

    Args:
        chosen: the record.
        inputs: the inputs that ran, .npz; None for what the run had.
        expected: the outputs that are right, .npz; None for what the run had.
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
    program = find_program(chosen)
    sets = find_inputs(record, program, inputs)
    asked = record.asked
    repeat = _repeat(record, len(sets), asked.repeat)
    question = asked.but(
        model=record.model,
        npu=record.npu,
        target=record.target.name,
        method=program.artifact.method,
        repeat=repeat,
        strict_board=bool(record.target.rules),
        profile=False,
    )
    right = find_expected(record, program, expected, len(sets), repeat)
    bundle = RunBundle(record, question, soc_of(record), program.artifact, sets, expected=right)
    if not run:
        return MadeBundle(bundle, ())
    return _with_answer(bundle, repeat_question(bundle, timeout=timeout or asked.timeout), reporter)


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


def _with_answer(bundle: RunBundle, question: Question, reporter: Reporter) -> MadeBundle:
    """Run it once more, and add what the target answers."""
    findings: Findings
    try:
        findings = report = run_again(bundle, question, reporter)
    except (UsageError, ToolError):
        raise
    except EthosHilError as error:  # the failure that the bundle is for, perhaps
        findings = failed_findings(question, error)
    else:
        # Without what is another one each time that the same run is bundled: the id of the run, and wall times.
        outcome = dataclasses.replace(report.outcome, run_id=report.outcome.program_hash[:16], seconds={})
        bundle = dataclasses.replace(bundle, answer=RecordedAnswer(TargetFacts.of(report.answer.board), outcome))
    kept, now = bundle.record, findings.record
    notes = []
    if kept.firmware_sha256 and now.firmware_sha256 not in ("", kept.firmware_sha256):
        notes.append(f"the firmware here is another than the one that ran ({kept.firmware_sha256[:_SHOWN]})")
    if not end_alike(kept, now):
        notes.append(f"it did not end alike when it ran again. Kept: {end_of(kept)}. Now: {end_of(now)}")
    return MadeBundle(bundle, tuple(notes))
