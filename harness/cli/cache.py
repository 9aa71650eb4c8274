"""`ethos-hil cache`: what is kept of lowered models, and none of it."""

from __future__ import annotations

import sys

import typer

from ethos_hil.base.byte_size import show_size
from ethos_hil.base.plain_text import escape
from ethos_hil.harness.cli.asking import DEBUG

cache = typer.Typer(invoke_without_command=True, rich_markup_mode=None, add_completion=False)


@cache.callback()
def show(context: typer.Context, debug: DEBUG = False) -> None:
    """Show what is kept of lowered models, and how much it may be; with a command, remove all.

    Above the limit (ETHOS_HIL_CACHE_LIMIT, or 10 GB) those go that were not used for longest.
    """
    if context.invoked_subcommand is None:
        _show(clear=False)


@cache.command()
def clear(debug: DEBUG = False) -> None:
    """Remove all of them. What is needed again is lowered again."""
    _show(clear=True)


def _show(*, clear: bool) -> None:
    from ethos_hil.lowering.cache.contents import CacheContents, cache_folder, cache_limit

    folder, limit = cache_folder(), cache_limit()  # what is wrong with them is told before anything is removed
    removed = CacheContents(folder).clear() if clear else None
    entries = CacheContents(folder).entries()
    lines = {"folder": escape(str(folder)), "models": str(len(entries)),
             "size": show_size(sum(entry.size for entry in entries)), "limit": show_size(limit)}  # fmt: skip
    if removed is not None:
        lines["removed"] = f"{removed.entries} ({show_size(removed.size)})"
    for name, text in lines.items():
        sys.stdout.write(f"{name:<7}  {text}\n")
