"""`ethos-hil cache`: what is kept of lowered models, and none of it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from ethos_hil.base.byte_size import show_size
from ethos_hil.base.plain_text import escape
from ethos_hil.harness.cli.asking import DEBUG

if TYPE_CHECKING:
    from ethos_hil.lowering.cache.contents import Removed

cache = typer.Typer(invoke_without_command=True, rich_markup_mode=None, add_completion=False)


@cache.callback()
def show(context: typer.Context, debug: DEBUG = False) -> None:
    """Show what is kept of lowered models, and how much it may be; with a command, remove all.

    Above the limit (ETHOS_HIL_CACHE_LIMIT, or 10 GB) those go that were not used for longest.
    """
    if context.invoked_subcommand is None:
        _show(None)


@cache.command()
def clear(debug: DEBUG = False) -> None:
    """Remove all of them. What is needed again is lowered again."""
    from ethos_hil.lowering.cache.contents import CacheContents, cache_folder, cache_limit

    cache_limit()  # is shown afterwards; what is wrong with it is told before anything is removed
    _show(CacheContents(cache_folder()).clear())


def _show(removed: Removed | None) -> None:
    from ethos_hil.lowering.cache.contents import CacheContents, cache_folder, cache_limit

    folder, limit = cache_folder(), cache_limit()
    entries = CacheContents(folder).entries()
    lines = {"folder": escape(str(folder)), "models": str(len(entries)),
             "size": show_size(sum(entry.size for entry in entries)), "limit": show_size(limit)}  # fmt: skip
    if removed is not None:
        lines["removed"] = f"{removed.entries} ({show_size(removed.size)})"
    for name, text in lines.items():
        sys.stdout.write(f"{name:<7}  {text}\n")
