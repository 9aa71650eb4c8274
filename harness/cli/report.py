"""`ethos-hil report`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import readable
from ethos_hil.base.plain_text import escape, one_line
from ethos_hil.harness.cli.asking import DEBUG, POLICY, option_of
from ethos_hil.harness.cli.destinations import STDOUT, check_distinct, check_files, write_out
from ethos_hil.results.places import DEFAULT_HISTORY, LISTED

CLOCK = Annotated[str | None, option_of("clock")]

if TYPE_CHECKING:
    from ethos_hil.results.report.reproduce import Links


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="A run folder, or those of its shards; a folder of run folders, of which it is the newest; a record, "
            "as `run --json` or `profile --json` writes it.",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Where to; - for stdout.")] = Path(
        "report.html"
    ),
    against: Annotated[
        str | None,
        typer.Option(
            metavar="RUN_OR_BASELINE", help="What it is compared with: as A of `compare`, such as a run or a baseline."
        ),
    ] = None,
    history: Annotated[
        Path | None, typer.Option(metavar="DIR", help=f"The runs before. Default: {DEFAULT_HISTORY}, if it is there.")
    ] = None,
    policy: POLICY = None,
    clock: CLOCK = None,
    commit_url: Annotated[
        str, typer.Option(metavar="TEMPLATE", help="Where commits lead: https://... with {commit} in it.")
    ] = "",
    job_url: Annotated[
        str, typer.Option(metavar="TEMPLATE", help="Where jobs of the CI lead: https://... with {job} in it.")
    ] = "",
    debug: DEBUG = False,
) -> None:
    """Write a report of a run: one HTML file that needs no network and no other file.

    It says how the run went, what changed and why, with the commands that show it again and that accept it; it has the
    matrix of operators and profiles, the tables of a benchmark, a page for each model, and the history.

    Exit status: 0 it was written, whatever it says; 2 it cannot be.

    Example: ethos-hil report results/runs --against baseline.jsonl -o report.html
    """
    from ethos_hil.harness.profile.advice import sentences
    from ethos_hil.harness.terminal.progress import Live
    from ethos_hil.results.gate.gate import gate, side, side_of
    from ethos_hil.results.history import History
    from ethos_hil.results.latency import asked_clock
    from ethos_hil.results.report.report import report as made_of
    from ethos_hil.results.run_results import find_results

    if policy is not None and against is None:
        raise UsageError("--policy is about a comparison, and there is none", hint="give --against")
    links = _links(commit_url, job_url)
    stated = asked_clock(clock)
    check_files([output])
    read = {"RUN": runs[0], "--against": Path(against) if against is not None else None, "--policy": policy}
    check_distinct({"--output": output}, read)
    folder = history if history is not None else Path(DEFAULT_HISTORY)
    with Live() as live, readable(hint=LISTED):
        live.stage(f"Reading {one_line(str(runs[0]))}")
        results = find_results(runs)
        before = History(folder) if history is not None or any(folder.glob("*.parquet")) else None
        other = comparison = None
        if against is not None:
            live.stage(f"Comparing with {one_line(against)}")
            other = side(against, folder)
            comparison = gate(other, side_of(results), policy=policy)
        live.stage("Writing the report")
        content = made_of(
            results,
            comparison,
            before,
            baseline=against or "" if other is not None and other.accepted else "",
            clock=stated,
            advise=sentences,
            links=links,
        )
    write_out(output, content)
    if output != STDOUT:
        sys.stdout.write(f"{escape(str(output))}\n")


def _links(commit_url: str, job_url: str) -> Links:
    from ethos_hil.results.report.reproduce import Links, check_template

    for name, template in (("commit", commit_url), ("job", job_url)):
        wrong = check_template(template, name) if template else ""
        if wrong:
            raise UsageError(f"--{name}-url: {wrong}", hint=f"such as https://git.example/{name}s/{{{name}}}")
    return Links(commit_url, job_url)
