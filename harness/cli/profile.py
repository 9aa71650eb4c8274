"""`ethos-hil profile`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from ethos_hil.base.asking import PROFILE
from ethos_hil.base.errors import UsageError
from ethos_hil.base.question import Question
from ethos_hil.harness.cli import profile_options
from ethos_hil.harness.cli.asking import asks
from ethos_hil.harness.cli.common_options import DEBUG, RUNS
from ethos_hil.results.known_clocks import asked_clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from ethos_hil.base.record import Record
    from ethos_hil.harness.profile.view import By, Sort

_Word = TypeVar("_Word", bound=StrEnum)


@asks(PROFILE)
def profile(
    question: Question | None,
    context: typer.Context,
    by: profile_options.BY = "module",
    sort: profile_options.SORT = None,
    depth: profile_options.DEPTH = 2,
    top: profile_options.TOP = 25,
    source: profile_options.FROM = None,
    json_file: profile_options.JSON = None,
    out: profile_options.OUT = None,
    runs: RUNS = Path("results/runs"),
    debug: DEBUG = False,
) -> None:
    """Run MODEL, verify it, and show where its cycles go: by module, by line, by kind of operation, or one by one.

    Exit status as for `run`.

    Example: ethos-hil profile net.py:net --npu ethos-u85-256 --by line

    Example: ethos-hil profile net.py:net --target corstone-300 --method prefix --json profile.json
    """
    from ethos_hil.harness.cli import commands, profile_folder
    from ethos_hil.harness.cli.export import kept_record
    from ethos_hil.harness.profile.view import By, Sort
    from ethos_hil.results.latency import with_latency

    groups, stated = _word("--by", by, By), asked_clock(context.params["clock"])
    order = _word("--sort", sort, Sort) if sort is not None else Sort.PROGRAM if groups is By.MODULE else Sort.CYCLES

    def text(record: Record) -> RenderableType:
        return _text(record, groups, order, depth, top)

    if (question is None) == (source is None):
        raise UsageError("give a model, or --from with a record", hint="ethos-hil profile net.py:net")
    if out is not None:
        profile_folder.check(out)
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
    from ethos_hil.harness.show.profile import modelled_by
    from ethos_hil.harness.show.profile import profile as rendered

    shown = rendered(record, by=by, sort=sort, depth=depth, top=top)
    return Group(shown, *modelled_by(record, RULES))


def _show(record: Record, json_file: Path | None, out: Path | None, text: Callable[[Record], RenderableType]) -> int:
    """Write and show a record that was taken before. Return the exit status."""
    from ethos_hil.base.ending import ending_of
    from ethos_hil.harness.cli import commands, profile_folder
    from ethos_hil.harness.terminal.console import console

    if json_file is not None:
        commands.write_json(json_file, record.to_json())
    if out is not None:
        profile_folder.write(record, _etrecord(record), out)
    if json_file != Path("-"):
        console().print(text(record))
    return 0 if ending_of(record).green else 1


def _etrecord(record: Record) -> bytes:
    """Return the ETRecord of the program of a record, if the cache still has it."""
    from ethos_hil.harness.verdict.artifact_info import cached
    from ethos_hil.lowering.cache.store import Cache

    known = None if record.artifact is None else cached(record.artifact, Cache())
    return b"" if known is None else known.etrecord


def _word(option: str, given: str, words: type[_Word]) -> _Word:
    """Return a word of an option. Raises UsageError, which lists the words."""
    try:
        return words(given)
    except ValueError:
        raise UsageError(f"{option} is {given!r}", hint=f"it takes: {', '.join(words)}") from None
