"""`ethos-hil exporters`: the formats that `ethos-hil export` writes."""

from __future__ import annotations

import json
import sys

from ethos_hil.base.plain_text import one_line
from ethos_hil.base.plugins import PluginError
from ethos_hil.harness.terminal.console import add_row, console, table_of
from ethos_hil.results.export.exporter import EXPORTERS
from ethos_hil.results.export.runs.run_exporter import RUN_EXPORTERS

SCHEMA_VERSION = 1
_GROUPS = (("record", EXPORTERS), ("run", RUN_EXPORTERS))


def show(*, as_json: bool) -> None:
    """Print all exporters; of those that cannot be used, a warning."""
    usable: list[dict[str, str]] = []
    for what, group in _GROUPS:
        for name, found in group.all():
            if isinstance(found, PluginError):
                sys.stderr.write(one_line(f"ethos-hil: warning: {found.message} ({found.hint})") + "\n")
                continue
            usable.append({"name": name, "suffix": found.suffix, "of": what, "description": found.description,
                           "distribution": group.owner(name)})  # fmt: skip
    if as_json:
        sys.stdout.write(json.dumps({"schema_version": SCHEMA_VERSION, "exporters": usable}, indent=2) + "\n")
        return
    table = table_of("--to", "file", "of a", "what it writes", "from")
    for exporter in usable:
        add_row(table, *exporter.values())
    console().print(table)
