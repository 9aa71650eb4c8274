"""`ethos-hil profile`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ethos_hil.base.asking import PROFILE
from ethos_hil.base.errors import UsageError
from ethos_hil.base.question import Question
from ethos_hil.harness.cli.asking import DEBUG, RUNS, asks, file_option, word_of
from ethos_hil.harness.cli.destinations import write_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from ethos_hil.base.record import Record
    from ethos_hil.results.profile_view import By, Sort


@asks(PROFILE)
def profile(
    question: Question | None,
    context: typer.Context,
    by: Annotated[
        str,
        typer.Option(
            metavar="module|line|type|op|memory",
            help="What rows are grouped by; memory: the bytes in use while each row runs, and who is in them at the "
            "peak.",
        ),
    ] = "module",
    sort: Annotated[
        str | None,
        typer.Option(
            metavar="program|cycles",
            help="The order of rows.",
            show_default="modules as in the program, else by cycles",
        ),
    ] = None,
    depth: Annotated[int, typer.Option(min=1, metavar="N", help="Levels of modules to show.")] = 2,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="The most rows to show.")] = 25,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="RECORD", help="Show a profile that was taken before: a record, or the folder of a run."
        ),
    ] = None,
    json_file: Annotated[Path | None, file_option("--json", "the record there", instead="the tables")] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="Write the profile there in every format of records that `ethos-hil export --help` lists, and the "
            "ETRecord for ExecuTorch's Inspector.",
        ),
    ] = None,
    runs: RUNS = Path("results/runs"),
    debug: DEBUG = False,
) -> None:
    """Run MODEL, verify it, and show where its cycles go: by module, by line, by kind of operation, or one by one.

    Exit status as for `run`.

    Example: ethos-hil profile net.py:net --npu ethos-u85-256 --by line

    Example: ethos-hil profile net.py:net --target corstone-300 --method prefix --json profile.json
    """
    from ethos_hil.harness.cli import commands
    from ethos_hil.harness.cli.export import kept_record
    from ethos_hil.results.latency import asked_clock, with_latency
    from ethos_hil.results.profile_view import By, Sort

    groups, stated = word_of("--by", by, By), asked_clock(context.params["clock"])
    order = word_of("--sort", sort, Sort) if sort is not None else Sort.PROGRAM if groups is By.MODULE else Sort.CYCLES

    def text(record: Record) -> RenderableType:
        return _text(record, groups, order, depth, top)

    if (question is None) == (source is None):
        raise UsageError("give a model, or --from with a record", hint="ethos-hil profile net.py:net")
    if out is not None:
        commands.check_folder_of_formats(out)
    if question is None:
        assert source is not None
        kept = kept_record(source)
        kept = kept if stated is None else with_latency(kept, stated)
        raise typer.Exit(_show(kept, json_file, out, text))
    raise typer.Exit(commands.run(question, commands.RunFiles(json_file, None, runs, out), text=text))


def _text(record: Record, by: By, sort: Sort, depth: int, top: int) -> RenderableType:
    """Return the text of a profile, with where its modelled cycles come from."""
    from rich.console import Group

    from ethos_hil.harness.npu.timing.rules import RULES
    from ethos_hil.harness.profile.advice import sentences
    from ethos_hil.results.text.profile import profile as rendered
    from ethos_hil.results.text.profile import rule_lines

    shown = rendered(record, by=by, sort=sort, depth=depth, top=top, advice=sentences(record))
    return Group(shown, *rule_lines(record, RULES))


def _show(record: Record, json_file: Path | None, out: Path | None, text: Callable[[Record], RenderableType]) -> int:
    """Write and show a record that was taken before. Return the exit status."""
    from ethos_hil.base.console import console
    from ethos_hil.base.judge import ending_of
    from ethos_hil.harness.cli import commands

    if json_file is not None:
        write_json(json_file, record.to_json())
    if out is not None:
        commands.write_formats(record, _etrecord(record), out)
    if json_file != Path("-"):
        console().print(text(record))
    return 0 if ending_of(record).green else 1


def _etrecord(record: Record) -> bytes:
    """Return the ETRecord of the program of a record, if the cache still has it."""
    from ethos_hil.harness.verdict.artifact_info import cached_artifact
    from ethos_hil.lowering.cache.store import Cache

    artifact = None if record.artifact is None else cached_artifact(record.artifact, Cache())
    return b"" if artifact is None else artifact.etrecord
