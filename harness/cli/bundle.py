"""`ethos-hil bundle`: one run as a file that shows it again elsewhere; and `ethos-hil run FILE.zip`, which does."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ethos_hil.base.errors import EthosHilError, ToolError, UsageError
from ethos_hil.base.plain_text import escape, one_line
from ethos_hil.harness.cli.asking import DEBUG, given_parameters
from ethos_hil.harness.cli.destinations import check_distinct, check_files, write_out

if TYPE_CHECKING:
    from ethos_hil.base.question import Question
    from ethos_hil.harness.bundle.run_bundle import RunBundle
    from ethos_hil.harness.cli.commands import RunFiles
    from ethos_hil.harness.terminal.progress import Live
    from ethos_hil.harness.verdict.findings import Report

_SUFFIX = ".zip"
_OF_THE_RUN = {"model", "npu", "target", "timeout", "strict", "strict_board", "fast", "allow_unverified"}
_OF_FILES = {"json_file", "outputs", "runs", "debug", "replay"}
_OF_A_TARGET = {"target", "timeout", "strict", "strict_board", "fast"}


def bundle(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="A run folder, or a folder of them (its newest run), or a record that `run --json` wrote.",
        ),
    ],
    test: Annotated[
        str | None,
        typer.Argument(
            metavar="TEST",
            help="A test, by pytest's id, or a model; or a part of its name that no other record of the run has. "
            "Default: the only record, or the only one that failed.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The bundle to write.")] = Path(
        "failure.zip"
    ),
    inputs: Annotated[
        Path | None,
        typer.Option(
            metavar="X.npz", help="The inputs that ran. Default: the model's example inputs, or what the run had."
        ),
    ] = None,
    expected: Annotated[
        Path | None,
        typer.Option(metavar="Y.npz", help="The outputs that the run was compared with, if it had --expected."),
    ] = None,
    no_run: Annotated[
        bool,
        typer.Option(
            "--no-run", help="Do not run it once more. The bundle then has no answer of a target, for --replay."
        ),
    ] = False,
    timeout: Annotated[
        float | None,
        typer.Option(
            min=0.1, metavar="SECONDS", help="Limit for the run on the target.", show_default="what the run had, or 120"
        ),
    ] = None,
    debug: DEBUG = False,
) -> None:
    """Write a run into one file, which shows it again elsewhere: `ethos-hil run FILE`. Its name goes to stdout.

    The run is repeated on its target, so that the file has the target's answer too.

    Example: ethos-hil bundle results/runs/20261125T101500Z-1a2b3c test_conv2d_stride_U55_BI -o failure.zip
    """
    from ethos_hil.harness.terminal.progress import Live

    check_files([output])
    read = {"RUN": run, "--inputs": inputs, "--expected": expected}
    check_distinct({"--output": output}, {name: path for name, path in read.items() if path is None or path.is_file()})
    with Live() as live:
        live.stage(f"Looking into {run}")
        from ethos_hil.harness.bundle.make import choose, make

        chosen = choose(run, test)
        result = make(chosen, inputs=inputs, expected=expected, run=not no_run, timeout=timeout, reporter=live)
        live.stage("Writing the bundle")
    write_out(output, result.bundle.pack())
    for note in result.notes:
        sys.stderr.write(f"note: {one_line(note)}\n")
    sys.stdout.write(f"{escape(str(output))}\n")


def is_bundle(model: str, *, replay: bool) -> bool:
    """Return whether a MODEL is a bundle.

    Raises:
        UsageError: it is not a bundle, and is to be replayed.
    """
    bundled = model.lower().endswith(_SUFFIX)
    if replay and not bundled:
        raise UsageError("--replay judges the answer in a bundle again", hint="give a bundle, or leave out --replay")
    return bundled


def run_bundle(context: typer.Context, question: Question, files: RunFiles, *, replay: bool) -> int:
    """Run a bundle, or judge its answer; show and keep the record. Return the exit status.

    Args:
        context: of the command line, which says what is given.
        question: as the command line has it: the bundle, the target, its time limit, and what it is held to.
        files: what to write.
        replay: judge the recorded answer, without a target.

    Raises:
        UsageError: the bundle is refused, or an option is not for a bundle.
        EthosHilError: as `ethos_hil.harness.cli.commands.run`.
    """
    path, on_line = Path(question.label), given_parameters(context)
    _check_options(on_line, replay)
    from ethos_hil.harness.cli import commands

    written = {"--json": files.json_file, "--outputs": files.outputs}
    check_files(written.values())
    check_distinct(written, {"MODEL": path})
    from ethos_hil.harness.bundle.run_bundle import RunBundle, repeat_question
    from ethos_hil.harness.targets.plugin import TargetOption
    from ethos_hil.harness.targets.registry import find_plugin

    bundle = RunBundle.read(path)
    if "npu" in on_line and question.npu != bundle.question.npu:
        raise UsageError(
            f"the program in {path} is compiled for {bundle.question.npu}, --npu says {question.npu}",
            hint="leave out --npu",
        )
    if replay and bundle.answer is None:
        raise UsageError(
            f"{path} has no recorded answer: its run ended before one, or it was made with --no-run",
            hint="leave out --replay",
        )
    able = find_plugin(question.target).options
    strict = question.strict or (bundle.question.strict and TargetOption.STRICT in able)
    board = question.strict_board or (bundle.question.strict_board and TargetOption.STRICT_BOARD in able)
    rest = {name: getattr(question, name) for name in ("target", "timeout", "fast", "allow_unverified")}
    asked = repeat_question(bundle, strict=strict, strict_board=board, **rest)

    def how(asked: Question, live: Live) -> Report:
        return _run_again(bundle, path, asked, live, replay=replay)

    return commands.run(asked, files, how=how)


def _run_again(bundle: RunBundle, path: Path, question: Question, live: Live, *, replay: bool) -> Report:
    """Run a bundle or replay it, and say in the record, or in the error, whether it ended as the bundle's run."""
    from ethos_hil.harness.bundle import run_bundle
    from ethos_hil.harness.verdict.artifact_info import failed_findings

    notes = run_bundle.differences(bundle, firmware=not replay)
    there = bundle.answer.board.name if bundle.answer is not None else bundle.record.target.name
    if not replay and question.target != there:
        notes = (*notes, f"the bundle's run was on {there}, this one is on {question.target}")
    try:
        report = run_bundle.replay(bundle, live) if replay else run_bundle.run_again(bundle, question, live)
    except (UsageError, ToolError):
        raise
    except EthosHilError as error:
        text = "; ".join((*run_bundle.compare_ends(bundle, failed_findings(question, error).record, path.name), *notes))
        raise error.replace(hint=f"{error.hint}; {text}" if error.hint else text) from error
    notes = (*report.facts.notes, *run_bundle.compare_ends(bundle, report.record, path.name), *notes)
    return report.with_facts(notes=notes)


def _check_options(on_line: Mapping[str, str], replay: bool) -> None:
    """Raise UsageError if an option is given that a bundle answers itself, or that a replay does not need."""
    for name, option in on_line.items():
        if name not in _OF_THE_RUN | _OF_FILES:
            raise UsageError(f"{option} is not for a bundle, which says it itself", hint=f"leave out {option}")
        if replay and name in _OF_A_TARGET:
            raise UsageError(f"{option} is about a target, and --replay needs none", hint=f"leave out {option}")
