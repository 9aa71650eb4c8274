"""`ethos-hil cache`: what is kept of lowered models, and less of it."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import typer

SCHEMA_VERSION = 1
JSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]
DEBUG = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]

cache = typer.Typer(
    help="Show where lowered models are kept, how much they take, and the limit beyond which those go that were not "
    "used for longest.",
    invoke_without_command=True,
)


@cache.callback()
def show(context: typer.Context, as_json: JSON = False, debug: DEBUG = False) -> None:
    """Where they are, how many and how large, unless a command below follows."""
    if context.invoked_subcommand is None:
        _show(as_json, None)


@cache.command()
def clear(as_json: JSON = False, debug: DEBUG = False) -> None:
    """Remove all lowered models. What is needed again is lowered again."""
    from ethos_hil.lowering.cache_contents import CacheContents
    from ethos_hil.lowering.cache_settings import cache_folder

    _show(as_json, CacheContents(cache_folder()).clear())


@cache.command()
def trim(
    limit: Annotated[
        str | None,
        typer.Option(metavar="SIZE", help="Such as 5GB. Default: ETHOS_HIL_CACHE_LIMIT, or 10GB."),
    ] = None,
    as_json: JSON = False,
    debug: DEBUG = False,
) -> None:
    """Remove the lowered models that were not used for longest, until the others take no more than a limit."""
    from ethos_hil.lowering import byte_size
    from ethos_hil.lowering.cache_contents import CacheContents
    from ethos_hil.lowering.cache_settings import cache_folder, cache_limit

    size = cache_limit() if limit is None else byte_size.parse(limit, "--limit")
    _show(as_json, CacheContents(cache_folder()).trim(size))


def _show(as_json: bool, removed: Any) -> None:
    """What is there now, and what was removed."""
    from ethos_hil.lowering import byte_size
    from ethos_hil.lowering.cache_contents import CacheContents
    from ethos_hil.lowering.cache_settings import cache_folder, cache_limit

    folder, limit = cache_folder(), cache_limit()
    entries = CacheContents(folder).entries()
    size = sum(entry.size for entry in entries)
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "folder": str(folder),
        "entries": len(entries),
        "bytes": size,
        "limit": limit,
        "removed": None if removed is None else {"entries": removed.entries, "bytes": removed.size},
    }
    if as_json:
        sys.stdout.write(json.dumps(document, indent=2) + "\n")
        return
    lines = {"folder": folder, "models": len(entries), "size": byte_size.shown(size), "limit": byte_size.shown(limit)}
    if removed is not None:
        lines["removed"] = f"{removed.entries} ({byte_size.shown(removed.size)})"
    width = max(map(len, lines))
    for name, value in lines.items():
        sys.stdout.write(f"{name:<{width}}  {value}\n")
