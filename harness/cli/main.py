"""The command line: `ethos-hil`.

Results go to stdout, everything else to stderr. Exit status: 0 verified, 1 failed verification or fault on the target,
2 unusable arguments or model (or stdout that cannot be written), 3 target or tool not available (or memory, disk,
descriptors), 70 a defect in ethos-hil itself or in a plug-in, 130 interrupted: by Ctrl-C, SIGTERM, SIGHUP or SIGQUIT.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import inspect
import io
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NoReturn

import click
import typer
from typer.core import TyperGroup

from ethos_hil.base import plugins
from ethos_hil.base.asking import PREFLIGHT, RUN
from ethos_hil.base.dataclasses import asdict
from ethos_hil.base.errors import EthosHilError, ToolError, UsageError, error_of_exit, shortage
from ethos_hil.base.plain_text import cut, escape, one_line
from ethos_hil.base.process import SELDOM, end_on_signals, ignore_further
from ethos_hil.base.question import Question
from ethos_hil.harness.cli.asking import DEBUG, RUNS, asks, file_option, option_of
from ethos_hil.harness.cli.bundle import is_bundle, run_bundle
from ethos_hil.harness.cli.destinations import STDOUT, write_json
from ethos_hil.harness.terminal.standard_streams import StandardStreams, flush

INTERNAL_ERROR, INTERRUPTED = 70, 130
_MAY_EXIT = ("ethos_hil", "typer", "click")
"""Packages whose sys.exit() says how a command ended. Those of a model or a plug-in do not."""
_DEVICE_LINES, _DEVICE_LINE = 10, 500
"""How many of a target's last lines an error shows, and how many characters of each."""
_WIDE = 2000
"""Columns of a list of runs: a line for each, which is not cut."""
_SCHEMA_VERSION = 1
"""Of what `preflight` and `doctor` write as JSON."""
_MESSAGE = 10_000
"""Characters of an error's message that are shown; some tools quote a whole program."""


@asks(RUN)
def run(
    question: Question,
    context: typer.Context,
    json_file: Annotated[Path | None, file_option("--json", "the record there")] = None,
    outputs: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.npz",
            help="Write the device's outputs there: one array per output, by its name; one more leading axis where "
            "the program ran several times. --expected reads such a file.",
        ),
    ] = None,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay",
            help="Of a bundle (.zip): judge the answer that is recorded in it. Needs neither a target nor torch.",
        ),
    ] = False,
    runs: RUNS = Path("results/runs"),
    debug: DEBUG = False,
) -> None:
    """Lower MODEL, run it on a target, compare every output with tosa_reference_model, and show where the cycles went.

    Example: ethos-hil run suites/models/digits.py:digits --npu ethos-u55-256
    """
    from ethos_hil.harness.cli import commands

    files = commands.RunFiles(json_file, outputs, runs)
    if is_bundle(question.label, replay=replay):
        raise typer.Exit(run_bundle(context, question, files, replay=replay))
    raise typer.Exit(commands.run(question, files))


@asks(PREFLIGHT)
def preflight(
    question: Question,
    json_file: Annotated[Path | None, file_option("--json", "the checks there")] = None,
    debug: DEBUG = False,
) -> None:
    """Check whether MODEL can run on a target, without running it: NPU, memory, kernels, versions.

    Exit status: 0 it can, 1 something does not fit, 2 unusable arguments or model, 3 target or tool not available.
    """
    from ethos_hil.harness.cli import commands

    commands.check_written(question, {"--json": json_file})
    with commands.loading(question.label) as live:
        from ethos_hil.harness.dry_run.survey import survey as survey_model

        survey = survey_model(question, reporter=live)

    from ethos_hil.harness.verdict.artifact_info import cpu_ops

    if json_file is not None:
        document = {
            "schema_version": _SCHEMA_VERSION,
            "verdict": "ok" if survey.ok else "failed",
            "model": question.label,
            "npu": str(question.npu_name),
            "target": vars(survey.target),
            "checks": [vars(check) for check in survey.checks],
            "delegated": survey.artifact.placement.delegated,
            "cpu_calls": [vars(call) for call in cpu_ops(survey.artifact)],
        }
        write_json(json_file, document)
    if json_file != STDOUT:
        from ethos_hil.base.console import console
        from ethos_hil.results.text.record import checks_table, cpu_table

        console().print(checks_table(survey.checks))
        if survey.artifact.placement.on_cpu:
            console().print("", cpu_table(cpu_ops(survey.artifact)))
    raise typer.Exit(0 if survey.ok else 1)


def list_runs(
    runs: RUNS = Path("results/runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines instead of a table.")] = False,
    debug: DEBUG = False,
) -> None:
    """List the runs kept so far, oldest first."""
    from ethos_hil.base.console import console
    from ethos_hil.results.store import Skipped, StoredRecord, read
    from ethos_hil.results.text.record import for_people, record_table

    stored: list[StoredRecord] = []
    for item in read(runs):
        if isinstance(item, Skipped):
            sys.stderr.write(one_line(f"skipped {item.where}: {item.why}") + "\n")
        else:
            stored.append(item)
    table = record_table(stored)
    if as_json:
        sys.stdout.writelines(f"{json.dumps(row)}\n" for row in table.records())
    elif stored:
        terminal = console()
        terminal.width = max(terminal.width, _WIDE)
        terminal.print(for_people(table).to_text())
    else:
        sys.stderr.write(f"no runs under {escape(str(runs))}\n")


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")] = False,
    subject: Annotated[list[str] | None, option_of("subject")] = None,
    debug: DEBUG = False,
) -> None:
    """Show what is there, what is missing, and what to do about it.

    Exit status: 0 the virtual boards can run, 3 something that they need is missing.
    """
    from ethos_hil.harness.doctor.examination import can_run, examine
    from ethos_hil.harness.doctor.finding import Status
    from ethos_hil.harness.doctor.upstream import upstreams

    findings = [*examine(), *upstreams(subject or (), lambda text: typer.echo(f"{text} ...", err=True))]
    runs = can_run(findings)
    if as_json:
        document = {"can_run": runs, "findings": [asdict(finding) for finding in findings]}
        write_json(STDOUT, {"schema_version": _SCHEMA_VERSION, **document})
    else:
        colours = {Status.OK: "green", Status.NOTE: "yellow", Status.MISSING: "red"}
        width = max(len(finding.name) for finding in findings)
        for finding in findings:
            status = typer.style(f"{finding.status:<7}", fg=colours[finding.status])
            remedy = f" [{finding.remedy}]" if finding.remedy else ""
            typer.echo(f"{status}  {finding.name:<{width}}  {one_line(finding.found + remedy)}")
    raise typer.Exit(0 if runs else ToolError.exit_status)


def npu(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="What Vela wrote: a .tflite with ethos-u operators, or a blob, as `lower --to vela` writes.",
        ),
    ],
    inputs: Annotated[
        Path | None,
        typer.Option(
            metavar="X.npz",
            help="One array per input, in order; by name where a .tflite has several operators of the NPU. What is not "
            "given is drawn at random, always the same.",
        ),
    ] = None,
    outputs: Annotated[
        Path | None, typer.Option(metavar="Y.npz", help="Write every output there, by its name.")
    ] = None,
    memory_mode: Annotated[
        str | None,
        option_of(
            "memory_mode",
            help="The mode that it was compiled for; modelled cycles depend on it. Default: ExecuTorch's for the NPU.",
        ),
    ] = None,
    strict: Annotated[bool, option_of("strict", help="Fail where a wait is missing in the command stream.")] = False,
    json_file: Annotated[Path | None, file_option("--json", "the report there", instead="")] = None,
    debug: DEBUG = False,
) -> None:
    """Run what Vela compiled, from any framework, on the functional NPU: outputs, modelled cycles, no verdict.

    Exit status: 0 it ran (nothing says whether its outputs are right), 1 the NPU faulted, 2 unusable arguments or file.

    Example: ethos-hil npu output/net_vela.tflite --inputs x.npz --outputs y.npz
    """
    from ethos_hil.harness.cli import npu as command

    command.npu(file, inputs=inputs, outputs=outputs, memory_mode=memory_mode, strict=strict, json_file=json_file)


def fvp_launchers(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write them to; put it on PATH.")],
    debug: DEBUG = False,
) -> None:
    """Write executables with the names and the command line of Arm's FVPs that run the virtual boards."""
    from ethos_hil.harness.fvp_stand_in.launcher import install

    for path in install(folder):
        sys.stdout.write(f"{escape(str(path))}\n")


_HERE = {"run": run, "preflight": preflight, "runs": list_runs, "npu": npu,
         "fvp-launchers": fvp_launchers, "doctor": doctor}  # fmt: skip
COMMANDS = (
    "run", "profile", "lower", "preflight", "bench", "evaluate", "scan", "nightly", "compare", "accept", "report",
    "history", "export", "runs", "bundle", "image", "npu", "boards", "fvp-launchers", "cache", "doctor",
)  # fmt: skip
"""All commands, as --help lists them. One that is not in `_HERE` is in the module of its name, or of `_MODULES`."""
_MODULES = {"accept": "compare"}


def _function(name: str) -> Any:
    """Return the function of a command, or its group of commands."""
    if name in _HERE:
        return _HERE[name]
    return getattr(importlib.import_module(f"ethos_hil.harness.cli.{_MODULES.get(name, name)}"), name)


def command(name: str) -> click.Command:
    """Return a command with its options. Typer takes longer to read those of all than many a command takes."""
    function = _function(name)
    if isinstance(function, typer.Typer):
        return typer.main.get_command(function)
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(name)(function)
    return typer.main.get_command(app)


class _Listed(click.Command):
    """A command in the list of --help, without options."""

    def get_short_help_str(self, limit: int = 45) -> str:
        """Return the first sentence of what the command does."""
        function = _function(self.name or "")
        if isinstance(function, typer.Typer) and function.registered_callback is not None:
            function = function.registered_callback.callback
        self.help = inspect.getdoc(function)
        return super().get_short_help_str(limit)


class _Root(TyperGroup):
    def resolve_command(self, context: click.Context, words: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the command that words call, and read its options."""
        name, _, rest = super().resolve_command(context, words)
        return name, command(name or ""), rest


@functools.cache
def root() -> click.Group:
    """Return `ethos-hil` itself."""
    app = typer.Typer(
        cls=_Root,
        suggest_commands=False,  # click does
        no_args_is_help=True,
        rich_markup_mode=None,
        help="Run PyTorch models on Arm Ethos-U NPUs, and know that the answer is right.",
        epilog="Exit status: 0 verified, 1 failed verification or fault on the target, 2 unusable arguments or model, "
        "3 target or tool not available.",
    )
    app.callback()(lambda: None)
    group = typer.main.get_command(app)
    assert isinstance(group, click.Group)
    group.commands = {name: _Listed(name) for name in COMMANDS}
    return group


def main() -> None:
    """Entry point of `ethos-hil`."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # its threads take 60 ms to start, and our matrices are small
    guard(lambda: root()(standalone_mode=False))


def program() -> NoReturn:
    """Entry point of the program `ethos-hil`.

    Python's own end, which frees all objects one by one, would take a seventh of the CPU time of a cached run, and its
    collector at its own pace a thirtieth.
    """
    gc.set_threshold(*SELDOM)
    try:
        main()
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        threading._shutdown()  # type: ignore[attr-defined]  # as Python does: pools of threads end here
        atexit._run_exitfuncs()
        flush()
        os._exit(end.code)
    raise AssertionError("main() ends the process")


def guard(body: Callable[[], object]) -> NoReturn:
    """Run a command, print its error on one line, and exit with its status.

    The status stays what it is if no one reads stdout any more. If stdout cannot be written, as on a full disk, a
    status of 0 becomes 2.

    Args:
        body: the command; an int that it returns is the exit status.
    """
    streams = StandardStreams.take_over()
    end_on_signals()
    status = _status(body)
    if status == INTERRUPTED:
        streams.drop()
    lost = streams.finish()
    if lost is not None:
        status = _fail(lost, lost.message, status or lost.exit_status)
        streams.finish()
    if status == INTERRUPTED:
        ignore_further()
    sys.exit(status)


def _status(body: Callable[[], object]) -> int:
    """Run a command and print its error. Return the exit status."""
    try:
        _check_working_directory()
        status = _call(body)
        if status == INTERRUPTED:  # typer has handled the KeyboardInterrupt already
            raise KeyboardInterrupt
        return status if isinstance(status, int) else 0
    except EthosHilError as error:
        for line in error.console[-_DEVICE_LINES:]:
            sys.stderr.write(f"  device: {cut(escape(line), _DEVICE_LINE)}\n")
        return _fail(error, f"{error.message}" + (f" ({error.hint})" if error.hint else ""), error.exit_status)
    except KeyboardInterrupt:
        sys.stderr.write("ethos-hil: interrupted\n")
        return INTERRUPTED
    except Exception as error:
        show = getattr(error, "show", None)
        if callable(show):  # click's own usage errors print themselves
            shown = io.StringIO()
            show(file=shown)
            sys.stderr.write(escape(shown.getvalue(), keep="\t\n"))
            return int(getattr(error, "exit_code", 2))
        lacking = shortage(error)
        if lacking is not None:
            return _fail(error, f"{lacking.message} ({lacking.hint})", lacking.exit_status)
        culprit = " or ".join(plugins.owners(error) or ("ethos-hil",))
        text = f"internal error: {type(error).__name__}: {error} (a defect in {culprit}; --debug shows where)"
        return _fail(error, text, INTERNAL_ERROR)


def _call(body: Callable[[], object]) -> object:
    """Call a command, and undo what typer makes of two errors."""
    streams = sys.stdout, sys.stderr
    try:
        return body()
    except typer.Abort as error:
        # typer takes every EOFError for a user who ends a dialogue. There are no dialogues here.
        raise error.__cause__ or error from None
    except SystemExit as end:
        cause = end.__context__
        if isinstance(cause, BrokenPipeError):
            # typer takes every broken pipe for stdout's. Ours never breaks (StandardStreams), so it is another one.
            sys.stdout, sys.stderr = streams
            raise cause from None
        *_, (frame, _) = traceback.walk_tb(end.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in _MAY_EXIT:
            raise error_of_exit(end) from end
        raise


def _check_working_directory() -> None:
    try:
        Path.cwd()
    except OSError as error:
        raise UsageError(
            f"the working directory cannot be used: {error.strerror}", hint="it was removed or moved; cd to another one"
        ) from error


def _fail(error: BaseException, text: str, status: int) -> int:
    """Print an error on one line; with --debug its traceback before. Return the exit status."""
    if "--debug" in sys.argv:
        trace = "".join(traceback.format_exception(error))
        sys.stderr.write(escape(trace, keep="\t\n"))
    sys.stderr.write("ethos-hil: " + cut(one_line(text), _MESSAGE) + "\n")
    return status


if __name__ == "__main__":
    program()
