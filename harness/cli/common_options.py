"""The options that most commands share, beside those of a question."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from ethos_hil.base.errors import UsageError

Word = TypeVar("Word", bound=StrEnum)
DEBUG = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
AS_JSON = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
_CAMPAIGN: dict[str, Any] = {"rich_help_panel": "How"}
RUNS = Annotated[Path, typer.Option("--runs", metavar="DIR", help="Where run folders are kept.")]

SHARD = Annotated[
    str | None,
    typer.Option(metavar="I/N", help="Ask one part of N, such as 2/4: for one of several machines.", **_CAMPAIGN),
]
MERGE = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="DIR",
        help="Ask nothing; put all shards below this folder together. May be repeated. The other options must be those "
        "of the shards.",
        **_CAMPAIGN,
    ),
]
RUN_NAME = Annotated[
    str | None, typer.Option(metavar="NAME", help="Name of the run folder. Default: a new one.", **_CAMPAIGN)
]
RESUME = Annotated[
    str | None,
    typer.Option(
        metavar="RUN",
        help="Resume this run, which ended early, and ask again what failed. The other options must be those of that "
        "run.",
        **_CAMPAIGN,
    ),
]


def file_option(flag: str, what: str, *, instead: str = "the table", **attributes: Any) -> Any:
    """Return the option of a file that a command writes, with `what` and where; - is stdout, in place of `instead`."""
    place = f", instead of {instead}" if instead else ""
    return typer.Option(flag, metavar="FILE", help=f"Write {what}; - for stdout{place}.", **attributes)


def word_of(option: str, text: str, words: type[Word]) -> Word:
    """Return a word of an option. Raises UsageError, which lists the words."""
    try:
        return words(text)
    except ValueError:
        raise UsageError(f"{option} is {text!r}", hint=f"it takes: {', '.join(words)}") from None
