"""`ethos-hil cache`: what is kept of lowered models, and less of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from ethos_hil.base import byte_size
from ethos_hil.base.plain_text import escape
from ethos_hil.harness.cli.asking import DEBUG
from ethos_hil.harness.cli.destinations import STDOUT, write_json
from ethos_hil.lowering.cache.contents import cache_folder, cache_limit

if TYPE_CHECKING:
    from ethos_hil.lowering.cache.contents import Removed

SCHEMA_VERSION = 1
JSON = Annotated[bool, typer.Option("--json", help="Print JSON instead of lines.")]

cache = typer.Typer(invoke_without_command=True)


@cache.callback()
def show(context: typer.Context, as_json: JSON = False, debug: DEBUG = False) -> None:
    """Show what is kept of lowered models, and how much it may be; with a command, remove some or all.

    Above the limit (ETHOS_HIL_CACHE_LIMIT, or 10 GB) those go that were not used for longest.
    """
    if context.invoked_subcommand is None:
        _show(as_json, None)


@cache.command()
def clear(as_json: JSON = False, debug: DEBUG = False) -> None:
    """Remove all of them. What is needed again is lowered again."""
    from ethos_hil.lowering.cache.contents import CacheContents

    cache_limit()  # is shown afterwards; what is wrong with it is told before anything is removed
    _show(as_json, CacheContents(cache_folder()).clear())


@cache.command()
def trim(
    limit: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Such as 5GB. Default: ETHOS_HIL_CACHE_LIMIT, or 10 GB.")
    ] = None,
    as_json: JSON = False,
    debug: DEBUG = False,
) -> None:
    """Remove those that were not used for longest, until the others take no more than a limit."""
    from ethos_hil.lowering.cache.contents import CacheContents

    size = cache_limit()
    size = size if limit is None else byte_size.parse(limit, "--limit")
    _show(as_json, CacheContents(cache_folder()).trim(size))


def _show(as_json: bool, removed: Removed | None) -> None:
    """What is there now, and what was removed."""
    from ethos_hil.lowering.cache.contents import CacheContents

    folder, limit = cache_folder(), cache_limit()
    entries = CacheContents(folder).entries()
    size = sum(entry.size for entry in entries)
    if as_json:
        document = {
            "schema_version": SCHEMA_VERSION,
            "folder": str(folder),
            "entries": len(entries),
            "bytes": size,
            "limit": limit,
            "removed": None if removed is None else {"entries": removed.entries, "bytes": removed.size},
        }
        write_json(STDOUT, document)
        return
    lines = [("folder", escape(str(folder))), ("models", str(len(entries))), ("size", byte_size.show_size(size))]
    lines.append(("limit", byte_size.show_size(limit)))
    if removed is not None:
        lines.append(("removed", f"{removed.entries} ({byte_size.show_size(removed.size)})"))
    for name, text in lines:
        sys.stdout.write(f"{name:<7}  {text}\n")
