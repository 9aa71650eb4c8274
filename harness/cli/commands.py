"""The bodies of the commands of `ethos-hil`, after their arguments are read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import EthosHilError, ToolError, UsageError, error_of_exit
from ethos_hil.base.files import writable, write_whole
from ethos_hil.base.judge import ending_of
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.question import Question
from ethos_hil.base.record import Record
from ethos_hil.harness.cli.destinations import STDOUT, check_distinct, check_files, model_file, write_json
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.lowering.cache.contents import prepare_torch

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ethos_hil.harness.verdict.findings import Report

_STEM = "profile"
_ETRECORD = "model.etrecord"


@dataclass(frozen=True)
class RunFiles:
    """The files that `run` writes.

    Attributes:
        json_file: the record, or None.
        outputs: the device's outputs, or None.
        runs: the folder of run folders.
        formats: the folder with the record in every format, or None.
    """

    json_file: Path | None
    outputs: Path | None
    runs: Path
    formats: Path | None = None


def run(
    question: Question,
    files: RunFiles,
    *,
    text: Callable[[Record], RenderableType] | None = None,
    how: Callable[[Question, Live], Report] | None = None,
) -> int:
    """Run a model, keep the record and show it. Return the exit status.

    Args:
        question: what to run, and where.
        files: where to keep the record and the outputs.
        text: makes the text to show of a record, by default its summary.
        how: runs what is asked, by default `ethos_hil.harness.run.run`.

    Raises:
        EthosHilError: the first error; its record is kept all the same.
    """
    failure: EthosHilError | None = None
    problems: list[EthosHilError] = []
    check_written(question, {"--json": files.json_file, "--outputs": files.outputs})
    try:
        from ethos_hil.harness.npu.weights.weight_coding import DECODER
        from ethos_hil.lowering.native.worker import REFERENCE_MODEL

        for tool in (REFERENCE_MODEL, DECODER):
            tool.start(forked=True)
        with loading(question.label) as live:
            if how is None:  # late: it takes long, and --help should be quick; the reference model starts meanwhile
                from ethos_hil.harness.run import run as run_model

                report = run_model(question, reporter=live)
            else:
                report = how(question, live)
            record = report.record
            if files.outputs is not None and report.outcome.runs:
                problems += _problems(partial(_write_outputs, report, files.outputs))
        if files.formats is not None:
            problems += _problems(partial(write_formats, record, report.artifact.etrecord, files.formats))
    except EthosHilError as error:
        failure = error
        from ethos_hil.harness.verdict.artifact_info import failed_findings

        record = failed_findings(question, error).record
        problems.append(error)
    if not isinstance(failure, UsageError | ToolError):
        problems += _problems(partial(_store, record, files.runs))
    if files.json_file is not None:
        problems += _problems(partial(write_json, files.json_file, record.to_json()))
    if failure is None and files.json_file != STDOUT:
        from ethos_hil.base.console import console
        from ethos_hil.results.text.record import summary

        console().print((text or summary)(record))
    for problem in problems[1:]:
        sys.stderr.write(f"ethos-hil: {one_line(problem.message)}\n")
    if problems:
        raise problems[0]
    return 0 if ending_of(record, allow_unverified=question.allow_unverified).green else 1


@contextmanager
def loading(label: str) -> Iterator[Live]:
    """Show progress while a model is loaded and something is done with it; see `never_exiting`."""
    prepare_torch()
    with Live() as live, never_exiting():
        live.stage(f"Loading {label}")
        yield live


@contextmanager
def never_exiting() -> Iterator[None]:
    """Make an error of sys.exit() in the model's code: its status is not the verdict's."""
    try:
        yield
    except SystemExit as end:
        raise error_of_exit(end) from end


def check_written(question: Question, written: Mapping[str, Path | None]) -> None:
    """Raise UsageError if a file is to be written over another one of this run, or cannot be written."""
    model = model_file(question.model) if isinstance(question.model, str) else None
    files = {"--inputs": question.inputs, "--expected": question.expected, "--runner": question.runner}
    read = {name: path if isinstance(path, Path) else None for name, path in files.items()}
    check_files(written.values())
    check_distinct(written, {"MODEL": model, **read})


def _problems(write: Callable[[], object]) -> list[EthosHilError]:
    """Call what writes something. Return what prevented it."""
    try:
        write()
    except EthosHilError as error:
        return [error]
    return []


def _write_outputs(report: Report, path: Path) -> None:
    from ethos_hil.lowering.formats.array_archive import packed_sets
    from ethos_hil.lowering.formats.pte_model import archive_names

    sets = [run.outputs for run in report.outcome.runs]
    with writable(path):
        write_whole(path, packed_sets(sets, archive_names(report.artifact.outputs)))


def _store(record: Record, runs: Path) -> None:
    from ethos_hil.results.store import RunFolder

    try:
        RunFolder(runs).append(record)
    except OSError as error:
        raise UsageError(
            f"cannot keep the record under {runs}: {error.strerror}",
            hint="free space, or choose another --runs folder",
        ) from error


def check_folder_of_formats(folder: Path) -> None:
    """Raise UsageError where a profile cannot be written to a folder."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out {folder} is not a folder", hint="name a folder; it is made if it is not there")


def write_formats(record: Record, etrecord: bytes, folder: Path) -> None:
    """Write a profile in every format to a folder, and the ETRecord for the Inspector. A file is whole, or not there.

    A format that shows what the record lacks is left out, and stderr says so; so is the ETRecord if it is empty.

    Raises:
        UsageError: a file cannot be written.
        ToolError: the exporter of another distribution does not work.
    """
    from ethos_hil.results.export.exporter import EXPORTERS, NotExportable
    from ethos_hil.results.export.runs.run_exporter import export_record

    with writable(folder, hint="name another folder for --out"):
        folder.mkdir(parents=True, exist_ok=True)
        for name in EXPORTERS.names():
            try:
                exporter, content = export_record(record, name)
            except NotExportable as error:
                sys.stderr.write(f"ethos-hil: no {name}: {one_line(error.message)}\n")
                continue
            write_whole(folder / f"{_STEM}{exporter.suffix}", content)
        if etrecord:
            write_whole(folder / _ETRECORD, etrecord)
        else:
            sys.stderr.write(f"ethos-hil: no {_ETRECORD}: it is made when a model is lowered, and this one was not\n")
