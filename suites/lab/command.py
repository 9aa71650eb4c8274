"""How the laboratory's commands start and end."""

from __future__ import annotations

from collections.abc import Callable

import typer


def start(body: Callable[..., None]) -> None:
    """Run a command with the arguments of the process, and end the process as `ethos-hil` ends.

    Args:
        body: the command, its parameters annotated for typer. It raises typer.Exit for another exit status than 0.
    """
    from ethos_hil.harness.cli.main import guard  # not for workers, which import a command's module too

    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command()(body)
    guard(lambda: app(standalone_mode=False))
