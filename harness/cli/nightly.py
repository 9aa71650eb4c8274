"""`ethos-hil nightly`."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ethos_hil.base.errors import UsageError
from ethos_hil.base.plain_text import one_line
from ethos_hil.harness.cli.asking import DEBUG, file_option
from ethos_hil.harness.cli.destinations import STDOUT, check_distinct, check_files, write_json

if TYPE_CHECKING:
    from ethos_hil.harness.nightly.config import NightlyConfig
    from ethos_hil.harness.nightly.nightly import NightOutcome
    from ethos_hil.harness.nightly.plan import NightlyPlan

_MOST_TOLD = 50
"""How many red things are told on stderr; --json has all."""


def nightly(
    file: Annotated[
        Path, typer.Argument(metavar="NIGHTLY.toml", help="What runs, where, and what follows (docs/nightly.md).")
    ],
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Run one part of N, such as 2/4: for one of several machines.")
    ] = None,
    merge: Annotated[
        list[Path] | None,
        typer.Option(
            "--merge", metavar="DIR", help="Run nothing; put all shards below this folder together. May be repeated."
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the last night; refuse to start one.")] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start a night, even if one was interrupted.")] = False,
    into: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where run folders are kept.", show_default="what the file says")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="WHAT",
            help="Compare with this: last, a baseline, a run folder, or a run or commit in the history.",
            show_default="what the file says",
        ),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j", min=1, help="Processes.", show_default="what the file says")
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Run nothing; check the file, and show its parts.")] = False,
    json_file: Annotated[Path | None, file_option("--json", "everything there", instead="")] = None,
    debug: DEBUG = False,
) -> None:
    """Run a night of tests and models, put it into the history, compare it, and write report and exports.

    A night that was interrupted, even by SIGKILL, goes on where it was when the same command is given again. What is
    red is told on stderr, how the night ended in one sentence on stdout.

    Exit status: 0 all as expected, 1 a test is red, the gate fails, or a shard is missing, 2 the file or an argument
    cannot be used, 3 a target cannot be used, or the known model is not verified there.

    Example: ethos-hil nightly nightly.toml

    Example: ethos-hil nightly nightly.toml --shard 2/4 --into shard

    Example: ethos-hil nightly nightly.toml --merge shards
    """
    from ethos_hil.harness.campaign.shard import Shard
    from ethos_hil.harness.nightly.config import read_config
    from ethos_hil.harness.nightly.plan import plan_of

    words = {"--resume": resume, "--fresh": fresh, "--merge": bool(merge), "--check": check}
    both = [name for name, value in words.items() if value]
    if len(both) > 1:
        raise UsageError(f"{both[0]} and {both[1]} contradict one another", hint="give one of them")
    if merge and shard:
        raise UsageError("--merge puts all shards together, and --shard names one", hint="give one of them")
    check_files([json_file])
    check_distinct({"--json": json_file}, {"NIGHTLY.toml": file})
    config = read_config(file)
    config = replace(
        config,
        into=into.absolute() if into is not None else config.into,
        against=against if against is not None else config.against,
        jobs=jobs if jobs is not None else config.jobs,
    )
    plan = plan_of(config)
    part = Shard.parse(shard) if shard is not None else None
    if check:
        raise typer.Exit(_check(config, plan, json_file))
    from ethos_hil.harness.campaign.run_folder import Start
    from ethos_hil.harness.nightly.nightly import merge_nightly, run_nightly
    from ethos_hil.harness.terminal.progress import Live

    start = Start.RESUME if resume else Start.FRESH if fresh else Start.EITHER
    with Live() as live:
        outcome = merge_nightly(config, plan, merge, live) if merge else run_nightly(config, plan, part, start, live)
    _tell(outcome, json_file)
    raise typer.Exit(outcome.status)


def _tell(outcome: NightOutcome, json_file: Path | None) -> None:
    for target, why in outcome.account.down.items():
        sys.stderr.write(one_line(f"not available: {target}: {why}") + "\n")
    for line in outcome.red[:_MOST_TOLD]:
        sys.stderr.write(one_line(f"red: {line}") + "\n")
    if len(outcome.red) > _MOST_TOLD:
        sys.stderr.write(f"red: {len(outcome.red) - _MOST_TOLD} more; --json has all\n")
    for line in outcome.account.notes:
        sys.stderr.write(one_line(f"note: {line}") + "\n")
    for path in (*outcome.folders, *outcome.files):
        sys.stderr.write(one_line(f"written: {path}") + "\n")
    if json_file is not None:
        write_json(json_file, outcome.to_json())
    if json_file != STDOUT:
        sys.stdout.write(one_line(outcome.sentence) + "\n")


def _check(config: NightlyConfig, plan: NightlyPlan, json_file: Path | None) -> int:
    """Check all that a night reads before it starts, and show its parts. Return the exit status."""
    from ethos_hil.base.npu.ethos_u import EthosU
    from ethos_hil.harness.nightly import preparation
    from ethos_hil.harness.nightly.plan import npu_for
    from ethos_hil.harness.targets.registry import find_plugin

    preparation.read_policy_of(config)
    quarantine = preparation.read_quarantine_of(config)
    preparation.check_named(config)
    preparation.check_written(config)
    other = preparation.before(config, "")
    missing = {target: find_plugin(target).find(EthosU.parse(npu_for(target, plan))) for target in plan.targets}
    down = {target: error.message for target, error in missing.items() if error is not None}
    if json_file is not None:
        parts = [{"name": part.name, "target": part.target} for part in plan.parts]
        against = other.name if other is not None else None
        write_json(json_file, {"schema_version": 1, "plan": plan.digest, "parts": parts, "down": down,
                               "against": against, "quarantined": len(quarantine)})  # fmt: skip
    if json_file != STDOUT:
        for part in plan.parts:
            lacking = f": {down[part.target]}" if part.target in down else ""
            sys.stdout.write(one_line(f"{part.name}{lacking}") + "\n")
    return 3 if down else 0
