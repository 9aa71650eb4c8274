"""The firmware's fuzzers, one after the other, from seeds of real programs.

Exit status: 0 nothing found, 1 findings, 2 unusable arguments.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.terminal.console import console
from ethos_hil.harness.terminal.progress import Live
from ethos_hil.suites.lab.command import start
from ethos_hil.suites.lab.fuzz.firmware import seeds
from ethos_hil.suites.lab.fuzz.firmware.fuzzer import NAMES, Fuzzer, FuzzerRun

_FIRMWARE = Path(__file__).resolve().parents[4] / "firmware"


def main(
    names: Annotated[list[str] | None, typer.Argument(help=f"Fuzzers: {', '.join(NAMES)}; default: all.")] = None,
    seconds: Annotated[int, typer.Option(min=1, help="For each fuzzer.")] = 120,
    seed: Annotated[int, typer.Option(min=1, help="Of all randomness.")] = 1,
    binaries: Annotated[Path, typer.Option(help="Where the CMake preset `fuzz` builds.")] = Path("build/firmware/host"),
    work: Annotated[Path, typer.Option(help="Where seeds, corpus and findings are.")] = Path("build/fuzz"),
    only_seeds: Annotated[bool, typer.Option("--only-seeds", help="Make the seeds and run nothing.")] = False,
) -> None:
    """Fuzz the readers of programs and delegates, the decoder of frames, and the monitor's receiver, sanitized."""
    wrong = set(names or ()) - set(NAMES)
    if wrong:
        raise UsageError(f"there is no fuzzer {sorted(wrong)[0]!r}", hint=f"there are {', '.join(NAMES)}")
    folder = work / "seeds"
    with Live() as live:
        stamp = folder / ".made"
        if not stamp.is_file() or stamp.read_text() != seeds.version():
            live.stage("Making seeds")
            seeds.make(folder)
            stamp.write_text(seeds.version())
        if only_seeds:
            return
        fuzzers = [fuzzer(name, binaries, work) for name in names or NAMES]
        sessions = []
        for tool in fuzzers:
            live.stage(f"Fuzzing {tool.name} for {seconds} seconds")
            sessions.append(tool.run(seconds, seed))
    console().print(_table(sessions))
    for tool, session in zip(fuzzers, sessions, strict=True):
        if session.finding:
            console().print(Text(f"{tool.name}: {session.finding}"))
            if session.artifact:
                console().print(Text(f"  again: {tool.command(session.artifact)}"))
    if any(session.finding for session in sessions):
        raise typer.Exit(1)


def fuzzer(name: str, binaries: Path, work: Path) -> Fuzzer:
    """Return the fuzzer called `name`. Raise UsageError when it is not built."""
    binary = binaries / f"fuzz-{name}"
    if not binary.is_file():
        raise UsageError(
            f"{binary} is missing", hint="cd firmware && cmake --preset host && cmake --build --preset fuzz"
        )
    return Fuzzer(name, binary, work / "seeds" / name, _FIRMWARE / "fuzz" / "regressions" / name, work)


def _table(sessions: list[FuzzerRun]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("fuzzer")
    for column in ("seconds", "executions", "a second", "edges covered", "corpus", "findings"):
        table.add_column(column, justify="right")
    for run in sessions:
        counts = (run.seconds, run.executions, run.executions // run.seconds, run.coverage, run.corpus)
        table.add_row(run.name, *(f"{count:,}" for count in counts), "1" if run.finding else "none")
    return table


if __name__ == "__main__":
    start(main)
