"""The options that are passed on to Vela."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ethos_hil.harness.cli import completion

if TYPE_CHECKING:
    from ethos_hil.lowering.vela.options import VelaOptions

_PANEL = "Vela"

SYSTEM_CONFIG = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        rich_help_panel=_PANEL,
        autocompletion=completion.system_configs,
        help="The clock and memories to compile for, such as Ethos_U55_Deep_Embedded; modelled cycles follow them. "
        "Default: ExecuTorch's for the NPU.",
    ),
]
VELA_INI = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        rich_help_panel=_PANEL,
        help="Vela's configuration file, with systems and memory modes of your own. Default: Arm/vela.ini.",
    ),
]
OPTIMISE = Annotated[
    str | None,
    typer.Option(
        metavar="GOAL", rich_help_panel=_PANEL, help="Performance (Vela's default), or Size for the least memory."
    ),
]
ARENA_CACHE_SIZE = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE", rich_help_panel=_PANEL, help="What the arena, or its cache in SRAM, may take: 384KiB, 262144."
    ),
]
VELA_FLAG = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FLAG",
        rich_help_panel=_PANEL,
        help="Any other argument of Vela, as in --vela-flag=--disable-cascading. May be repeated.",
    ),
]


def asked(
    system_config: str | None,
    ini: Path | None,
    optimise: str | None,
    arena_cache_size: str | None,
    flags: list[str] | None,
) -> VelaOptions:
    """Return what these options ask of Vela. Raises UsageError where a size is none."""
    from ethos_hil.base import byte_size
    from ethos_hil.lowering.vela.options import VelaOptions

    size = None if arena_cache_size is None else byte_size.parse(arena_cache_size, "--arena-cache-size")
    return VelaOptions(system_config, ini, optimise, size, tuple(flags or ()))
