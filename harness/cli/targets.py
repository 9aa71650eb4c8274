"""`ethos-hil targets`: where models can run, and what is missing to run there."""

from __future__ import annotations

import sys
from dataclasses import asdict

from rich.table import Table
from rich.text import Text

from ethos_hil.base.plain_text import one_line
from ethos_hil.harness.cli.destinations import STDOUT, write_json
from ethos_hil.harness.targets.plugin import TargetOption
from ethos_hil.harness.targets.registry import ListedTarget, families, list_targets
from ethos_hil.harness.terminal.console import add_row, console, table_of

SCHEMA_VERSION = 1


def show(*, as_json: bool) -> None:
    """Print all targets; of those that cannot be used, a warning."""
    usable, unusable = list_targets()
    for problem in unusable:
        sys.stderr.write(one_line(f"ethos-hil: warning: {problem.message} ({problem.hint})") + "\n")
    if as_json:
        document = {
            "schema_version": SCHEMA_VERSION,
            "targets": [asdict(target) for target in usable],
            "unusable": [asdict(problem) for problem in unusable],
        }
        write_json(STDOUT, document)
    else:
        console().print(_table(usable))


def _table(targets: list[ListedTarget]) -> Table:
    table = table_of("target", "kind", "what it is", "SoC", "NPUs", "options", "here")
    for target in targets:
        options = ", ".join(f"--{option}" for option in target.options if option != TargetOption.POOL)
        status = Text(target.status, "green" if target.missing is None else "yellow")
        socs, npus = ", ".join(target.socs), families(target.npus)
        add_row(table, target.name, target.kind, target.description, socs, npus, options, status)
    return table
