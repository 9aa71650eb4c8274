"""`ethos-hil history`: what a number was in each run, and where it changed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import readable
from ethos_hil.base.plain_text import one_line
from ethos_hil.harness.cli.asking import DEBUG
from ethos_hil.results.places import DEFAULT_HISTORY, DEFAULT_ROOT, MANIFEST

if TYPE_CHECKING:
    from ethos_hil.results.history import History, HistoryPoint, NumberChange

_FOLDER = Annotated[Path, typer.Option("--history", metavar="DIR", help="The folder with a Parquet file for each run.")]
_JSON = Annotated[bool, typer.Option("--json", help="Print JSON lines instead of a table.")]
_TEXT = "Only tests and models with this text in their name."
_HERE = Path(DEFAULT_HISTORY)

history = typer.Typer(invoke_without_command=True, rich_markup_mode=None, add_completion=False)


@history.callback()
def runs(context: typer.Context, folder: _FOLDER = _HERE, as_json: _JSON = False, debug: DEBUG = False) -> None:
    """Show the runs of a history; with a command, what is in them.

    A history is a folder with one Parquet file for each run: `add` writes it from run folders. Files of several
    machines may be put into one folder. DuckDB reads them too; docs/formats.md has the columns.
    """
    context.obj = folder
    if context.invoked_subcommand is None:
        with _asked(folder) as store:
            rows = store.runs()
        _print(rows, as_json)


@history.command()
def add(
    context: typer.Context,
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUNS]...", help=f"Run folders, or folders of them. Default: {DEFAULT_ROOT}."),
    ] = None,
    as_json: _JSON = False,
    debug: DEBUG = False,
) -> None:
    """Add runs to the history. A run that is in it already is written again if it has more records since, or was
    written by an earlier version.

    A run that cannot be added is told and does not keep the others out; the exit status is 2 then.

    Example: ethos-hil history --history /mnt/nightly add results/runs
    """
    from ethos_hil.harness.terminal.progress import Live
    from ethos_hil.results.compaction.run_file import BadHistory, Compacted, EmptyRun, compact

    folder: Path = context.obj
    done: list[Compacted] = []
    lines: list[str] = []
    refused: list[BadHistory] = []
    with Live() as live, _errors(folder):
        for run, named in _run_folders(runs or [Path(DEFAULT_ROOT)]):
            live.stage(f"Adding {one_line(run.name)}")
            try:
                entry = compact(run, folder)
            except BadHistory as error:
                if isinstance(error, EmptyRun) and not named:
                    lines.append(f"skipped {error}")
                else:
                    refused.append(error)
                continue
            done.append(entry)
            lines += [f"skipped {skip.where}: {skip.why}" for skip in entry.skipped]
            lines += [f"note: {note}" for note in entry.notes]
    for line in (*lines, *map(str, refused[1:])):
        sys.stderr.write(one_line(line) + "\n")
    if done:
        _print(({"run": entry.path.stem, "records": entry.records, "added": entry.fresh, "file": str(entry.path)}
                for entry in done), as_json)  # fmt: skip
    if refused:
        raise refused[0].replace(hint="the others are added" if done else "nothing was added")


@history.command()
def show(
    context: typer.Context,
    text: Annotated[str, typer.Argument(metavar="TEXT", help=_TEXT)],
    metric: Annotated[str, typer.Option(metavar="NAME", help="Such as npu_cycles or sram_used.")] = "npu_cycles",
    as_json: _JSON = False,
    debug: DEBUG = False,
) -> None:
    """Show a number in every run, oldest first; in the table only where it is another one than before.

    Example: ethos-hil history show test_conv2d_stride_U55_BI
    """
    with _asked(context.obj) as store:
        points = store.points(text, metric=metric)
    if not points:
        raise UsageError(
            f"no test or model with {text!r} in its name has the metric {metric!r}",
            hint="`ethos-hil history sql 'SELECT DISTINCT label, metric FROM points'` lists what there is",
        )
    _print(map(asdict, points) if as_json else _drop_columns(map(asdict, _steps(points))), as_json)


@history.command()
def changes(
    context: typer.Context,
    text: Annotated[str, typer.Argument(metavar="[TEXT]", help=_TEXT)] = "",
    since: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"], help="Only since this time, UTC.")
    ] = None,
    noisy: Annotated[
        bool, typer.Option("--noisy", help="With what differs without a cause: wall times, a board's counts.")
    ] = False,
    as_json: _JSON = False,
    debug: DEBUG = False,
) -> None:
    """Show every number that is another one than in the run before, newest first, with what else changed first.

    Causes, in the order in which one follows from another: edited (the model or its inputs), tosa (executorch, or our
    lowering), weights, stream (Vela), timing_model, firmware, fvp.

    Example: ethos-hil history changes --since 2026-11-01
    """
    with _asked(context.obj) as store:
        rows = store.changes(text, since=since, noisy=noisy)
    _print(map(asdict, rows) if as_json else _drop_columns(map(_cells_of, rows)), as_json)


@history.command()
def sql(
    context: typer.Context,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="DuckDB's SQL over the views `records` and `points`.")],
    as_json: _JSON = False,
    debug: DEBUG = False,
) -> None:
    """Answer a question in SQL. `records` has a row for each record, `points` one for each metric of a record.

    Example: ethos-hil history sql "SELECT run, sum(value) FROM points WHERE metric = 'npu_cycles' GROUP BY run"
    """
    with _asked(context.obj) as store:
        rows = store.rows(query)
    _print(rows, as_json)


def _run_folders(paths: Iterable[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield each run folder, and whether it was named itself."""
    for path in paths:
        if (path / MANIFEST).exists():
            yield path, True
            continue
        inside = sorted(filter(_is_run, path.iterdir()))
        if not inside:
            raise UsageError(f"{path} has no run folders", hint="give what --runs named when they were made")
        for folder in inside:
            yield folder, False


def _is_run(path: Path) -> bool:
    try:
        return (path / MANIFEST).exists()
    except OSError:
        return True  # it may be one, and adding it tells what is wrong


@contextmanager
def _asked(folder: Path) -> Iterator[History]:
    """Return the history in a folder, and say that it goes on, where that is far away or large."""
    from ethos_hil.harness.terminal.progress import late
    from ethos_hil.results.history import History

    with late(f"Reading {folder}"), _errors(folder):
        yield History(folder)


def _errors(folder: Path) -> AbstractContextManager[None]:
    return readable(folder, hint="give another folder with --history, or runs to add", use="read or written")


def _steps(points: Sequence[HistoryPoint]) -> Iterator[HistoryPoint]:
    """Yield those whose value, verdict or subject is another one than that of the point before."""
    before: tuple[object, ...] = ()
    for point in points:
        facts = (point.subject, point.provenance, point.value, point.verdict)
        if facts != before:
            yield point
        before = facts


def _cells_of(change: NumberChange) -> dict[str, Any]:
    """Return the cells of a change that are read most."""
    percent = f"{(change.new / change.old - 1) * 100:+.2f} %" if change.old else ""
    return {"created": change.created, "run": change.run, "name": change.label, "bench_case": change.bench_case,
            "scheme": change.scheme, "method": change.method, "npu": change.npu, "memory mode": change.memory_mode,
            "system_config": change.system_config, "target": change.target, "soc": change.soc, "runner": change.runner,
            "metric": change.metric,
            "old": change.old, "new": change.new, "change": percent, "provenance": change.provenance,
            "cause": change.cause or "none known"}  # fmt: skip


def _drop_columns(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without the columns that tell none of them from another one, or say nothing."""
    table = list(rows)
    seldom = ("method", "system_config", "soc", "runner")
    left_out = {name for name in seldom if len({row[name] for row in table}) < 2} | {"subject"}
    left_out |= {name for name in ("bench_case", "scheme") if not any(row[name] for row in table)}
    return [{name: value for name, value in row.items() if name not in left_out} for row in table]


def _print(rows: Iterable[Mapping[str, Any]], as_json: bool) -> None:
    if as_json:
        for row in rows:
            sys.stdout.write(json.dumps(_plain(row), default=str, allow_nan=False) + "\n")
        return
    from rich.table import Table

    from ethos_hil.base.console import add_row, console

    shown = list(rows)
    if not shown:
        sys.stderr.write("nothing\n")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, value in shown[0].items():
        table.add_column(name, justify="right" if isinstance(value, int | float) else "left", overflow="fold")
    for row in shown:
        add_row(table, *map(_cell, row.values()))
    console().print(table)


def _plain(value: Any) -> Any:
    """Return what a query answers as JSON has it."""
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    from ethos_hil.base.record import json_number

    return [_plain(entry) for entry in value] if isinstance(value, list | tuple) else json_number(value)


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) or not value.is_integer() else f"{int(value):,}"
    return "" if value is None else str(value)
