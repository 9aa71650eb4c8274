"""`ethos-hil compare` and `ethos-hil accept`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import readable
from ethos_hil.base.plain_text import one_line
from ethos_hil.harness.cli.asking import DEBUG, POLICY, file_option
from ethos_hil.harness.cli.destinations import STDOUT, check_distinct, check_files, write_json, write_out
from ethos_hil.results.places import DEFAULT_HISTORY, LISTED

if TYPE_CHECKING:
    from ethos_hil.base.record import Record
    from ethos_hil.results.gate.baseline import Acceptance
    from ethos_hil.results.gate.gate import Side

SCHEMA_VERSION = 1
_SIDE = (
    "A run folder, or a folder of them (its newest run); a record, as `run --json` or `profile --json` writes it; a "
    "baseline; the name of a run of the history, or `last`."
)
BASELINE = Annotated[
    Path | None, typer.Option("--baseline", metavar="FILE", help="What was accepted; without B, A is compared with it.")
]
_HISTORY = Annotated[Path, typer.Option("--history", metavar="DIR", help="Where runs are looked up by their names.")]
_ONLY = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="TEXT", help="Only tests and models with this text, or pattern, in their name."),
]


def compare(
    before: Annotated[str, typer.Argument(metavar="A", help=_SIDE)],
    after: Annotated[str | None, typer.Argument(metavar="[B]", help="As A; what is new in it counts as new.")] = None,
    baseline: BASELINE = None,
    policy: POLICY = None,
    history: _HISTORY = Path(DEFAULT_HISTORY),
    only: _ONLY = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="B is a part of A's tests: what it lacks is not missing.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Of two profiles, show rows that are equal, too.")] = False,
    top: Annotated[int, typer.Option(min=1, metavar="N", help="The most rows to show, or changes of a cause.")] = 25,
    json_file: Annotated[Path | None, file_option("--json", "everything there")] = None,
    debug: DEBUG = False,
) -> None:
    """Compare two runs, or a run with a baseline: what changed, in which direction, by which cause, and whether that
    passes.

    Two single records, of one model each, are compared operation by operation: what became slower, faster, new, split
    or fused, and where that is in the model.

    Exit status: 0 nothing fails the gate (two records: they were compared), 1 something does, 2 they cannot be
    compared.

    Example: ethos-hil compare results/runs/20261124T020000Z-3f2a1b results/runs

    Example: ethos-hil compare results/runs --baseline baseline.jsonl --policy gate.toml

    Example: ethos-hil compare monday.json tuesday.json
    """
    from ethos_hil.results.gate.baseline import read_baseline
    from ethos_hil.results.gate.gate import Side, gate

    files = {"A": Path(before), "B": Path(after) if after else None, "--baseline": baseline, "--policy": policy}
    check_files([json_file])
    check_distinct({"--json": json_file}, files)
    if after is None and baseline is None:
        raise UsageError("there is nothing to compare with", hint="give a second run, or --baseline FILE")
    with readable(hint=LISTED):
        old = _side(before, history)
        new = _side(after, history) if after is not None else None
        plain = baseline is None and policy is None and not only and not partial
        if plain and new is not None and len(old.records) == len(new.records) == 1 and not new.gaps:
            _compare_records(before, after, old.records[0], new.records[0], everything, top, json_file)
            return
        accepted = Side(str(baseline), read_baseline(baseline), accepted=True) if baseline is not None else None
        result = gate(old, new, baseline=accepted, policy=policy, only=only or [], partial=partial)
    if json_file is not None:
        write_json(json_file, result.to_json())
    if json_file != STDOUT:
        from ethos_hil.base.console import console
        from ethos_hil.results.text.comparison import run_comparison

        console().print(run_comparison(result, top=top))
    raise typer.Exit(0 if result.passed else 1)


def accept(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run that is right as it is: as A of `compare`.")],
    baseline: Annotated[
        Path, typer.Option("--baseline", metavar="FILE", help="The file to write. It is made if it is missing.")
    ] = Path("baseline.jsonl"),
    history: _HISTORY = Path(DEFAULT_HISTORY),
    only: _ONLY = None,
    prune: Annotated[bool, typer.Option("--prune", help="Remove what is not in the run.")] = False,
    failures: Annotated[bool, typer.Option("--failures", help="Accept also what failed.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Write nothing; show what would be accepted.")] = False,
    debug: DEBUG = False,
) -> None:
    """Accept what a run says: write it into the baseline, for `compare --baseline` to hold later runs against.

    The baseline is a text file for git: one line a number, sorted, so that a reviewer sees what was accepted. Tests
    that are as they were keep their lines. Wall times are not in it.

    Exit status: 0 it was written, or is as it should be; 1 something failed and --failures is not given, or the run
    has no answer for something: the others are accepted; 2 it cannot be done.

    Example: ethos-hil accept results/runs --baseline baseline.jsonl --only '*conv2d*'
    """
    from ethos_hil.results.gate.baseline import accept as accepted
    from ethos_hil.results.gate.baseline import dumps, read_baseline
    from ethos_hil.results.gate.gate import choose

    check_files([baseline])
    if prune and only:
        raise UsageError("--prune with --only would remove all other tests", hint="give one of them")
    with readable(hint=LISTED):
        side = _side(run, history)
        old = read_baseline(baseline) if baseline.exists() else ()
    gaps = () if only else side.gaps
    if prune and gaps:
        raise UsageError(
            f"{side.name} is not whole: {one_line(gaps[0])}", hint="--prune would remove what it lost: leave it out"
        )
    part = choose(side.observations, only or [])
    if only and not part:
        raise UsageError(f"no test or model has {' or '.join(map(repr, only))} in its name", hint="--only takes a part")
    acceptance = accepted(old, part, prune=prune, failures=failures)
    text = dumps(acceptance.observations)
    if not check and (acceptance.updated or acceptance.added or acceptance.removed or not baseline.exists()):
        write_out(baseline, text)
    _tell(acceptance, baseline, check)
    for gap in gaps:
        sys.stderr.write(one_line(f"not whole: {gap}") + "\n")
    raise typer.Exit(1 if acceptance.refused or gaps else 0)


def _side(text: str, history: Path) -> Side:
    from ethos_hil.results.gate.gate import side

    result = side(text, history)
    for skipped in result.skipped:
        sys.stderr.write(one_line(f"skipped {skipped.where}: {skipped.why}") + "\n")
    return result


def _compare_records(
    before: str, after: str | None, old: Record, new: Record, everything: bool, top: int, json_file: Path | None
) -> None:
    from ethos_hil.results import comparison

    try:
        result = comparison.compare(old, new)
    except comparison.Incomparable as error:
        raise error.replace(message=f"{before} and {after} cannot be compared: {error.message}") from None
    if json_file is not None:
        write_json(json_file, {"schema_version": SCHEMA_VERSION, "equal": result.equal, **asdict(result)})
    if json_file != STDOUT:
        from ethos_hil.base.console import console
        from ethos_hil.results.text.comparison import comparison as rendered

        console().print(rendered(result, everything=everything, top=top))


def _tell(result: Acceptance, baseline: Path, check: bool) -> None:
    what = {"updated": result.updated, "added": result.added, "removed": result.removed, "refused": result.refused}
    for word, subjects in what.items():
        for subject in subjects:
            sys.stdout.write(one_line(f"{word} {subject.name} {subject.npu} {subject.memory_mode}") + "\n")
    counts = ", ".join(f"{len(subjects):,} {word}" for word, subjects in what.items())
    verb = "would have" if check else "has"
    sys.stderr.write(one_line(f"{baseline} {verb} {len(result.observations):,} tests and models: {counts}") + "\n")
    if result.refused:
        sys.stderr.write("refused: it failed, and no test declares that; --failures accepts it\n")
