"""The options of `bench` alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.harness.cli import completion
from ethos_hil.harness.cli.asking import option_of

_GRID, _OUT, _RUN = "What is benchmarked", "Output", "How"

VELA_INI = Annotated[Path | None, option_of("vela_ini")]
CLOCK = Annotated[str | None, option_of("clock")]

MODELS = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[MODEL]...",
        help="file.py:function, package.module:function or a .pt2, as for `run`, in place of a grid's cases.",
        show_default=False,
    ),
]
GRID = Annotated[
    Path | None,
    typer.Option(
        "--grid",
        metavar="FILE",
        rich_help_panel=_GRID,
        help="A grid of your own (docs/bench-grids.md). Default: the one that comes with ethos-hil, about 100 cases.",
        show_default=False,
    ),
]
CASES = Annotated[
    list[str] | None,
    typer.Option(
        "--case",
        metavar="GLOB",
        rich_help_panel=_GRID,
        help="Only the cases with such a name, or of such a group; repeatable. --case 'conv*'",
    ),
]
TAGS = Annotated[
    list[str] | None,
    typer.Option(
        "--tag",
        metavar="TAG",
        rich_help_panel=_GRID,
        help="Only cases with this tag: short, long, or one's own; repeatable.",
    ),
]
NPUS = Annotated[
    list[str] | None,
    typer.Option(
        "--npu",
        rich_help_panel=_GRID,
        help="NPU to compile for; repeatable. Default: those of the grid, else all eleven.",
        autocompletion=completion.npus,
    ),
]
MODES = Annotated[
    list[str] | None,
    typer.Option(
        "--memory-mode",
        metavar="MODE",
        rich_help_panel=_GRID,
        autocompletion=completion.memory_modes,
        help="Memory mode of Vela; repeatable; all for every one that an NPU can have. Default: those of the grid, "
        "else one of each kind.",
    ),
]
SYSTEMS = Annotated[
    list[str] | None,
    typer.Option(
        "--system-config",
        metavar="NAME",
        rich_help_panel=_GRID,
        autocompletion=completion.system_configs,
        help="Clock and memories to compile for; repeatable. Default: ExecuTorch's for the NPU.",
    ),
]
TARGETS = Annotated[
    list[str] | None,
    typer.Option(
        "--target",
        rich_help_panel=_GRID,
        help="Where to run; repeatable. On a board or an FVP every point is run. Default: virtual.",
        autocompletion=completion.targets,
    ),
]
SCHEME = Annotated[
    str | None,
    typer.Option(
        metavar="a8w8|a16w8", rich_help_panel=_GRID, help="Bits of activations and weights, in place of the cases' own."
    ),
]
BOOT = Annotated[
    bool | None,
    typer.Option(
        "--boot/--no-boot",
        rich_help_panel=_RUN,
        help="Boot and verify every point, or none, on a virtual target. Default: those of cases tagged short.",
        show_default=False,
    ),
]
REPEAT = Annotated[
    int | None,
    typer.Option(
        "--repeat",
        metavar="N",
        rich_help_panel=_RUN,
        help="Executions of each booted point. Default: 1 on a virtual target, whose executions are all alike, else 3.",
    ),
]
WARM_UP = Annotated[
    int,
    typer.Option(
        "--warm-up",
        metavar="N",
        rich_help_panel=_RUN,
        help="Executions before them that are compared, but not counted.",
    ),
]
TIMEOUT = Annotated[
    float, typer.Option(metavar="SECONDS", rich_help_panel=_RUN, help="For each run of a booted point on its target.")
]
JOBS = Annotated[
    int | None,
    typer.Option("--jobs", metavar="N", rich_help_panel=_RUN, help="Processes. Default: one for each processor."),
]
RUN_NAME = Annotated[
    str | None,
    typer.Option(
        "--run-name", metavar="NAME", rich_help_panel=_RUN, help="Name of the run folder. Default: a new one."
    ),
]
RESUME = Annotated[
    str | None,
    typer.Option(
        "--resume",
        metavar="RUN",
        rich_help_panel=_RUN,
        help="Go on with this run, which ended early, and ask again what failed. The other options have to be those of "
        "that run.",
    ),
]
BY = Annotated[
    str | None,
    typer.Option(
        "--by",
        metavar="group|case|npu",
        rich_help_panel=_OUT,
        help="Rows of the table: groups of cases, cases, or NPUs with their modes. Default: group; npu for one case.",
    ),
]
TOP = Annotated[int, typer.Option("--top", min=1, metavar="N", rich_help_panel=_OUT, help="The most rows of a table.")]
WHICH = Annotated[
    str | None,
    typer.Option(
        "--which",
        metavar="BUDGET",
        rich_help_panel=_OUT,
        help="Show which NPU and memory mode meets a budget, the smallest first, and by how much: "
        "'fps>=30, sram<=512KB' (docs/latency.md).",
    ),
]
ENERGY = Annotated[
    Path | None,
    typer.Option(
        "--energy",
        metavar="FILE",
        rich_help_panel=_OUT,
        help="A table of energies of yours (docs/latency.md); there are none without it.",
    ),
]
CSV = Annotated[
    Path | None,
    typer.Option(
        "--csv",
        metavar="FILE",
        rich_help_panel=_OUT,
        help="Write a row for each point; - for stdout, instead of the table.",
    ),
]
PARQUET = Annotated[
    Path | None, typer.Option("--parquet", metavar="FILE", rich_help_panel=_OUT, help="The same rows as Parquet.")
]
JSON = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="FILE",
        rich_help_panel=_OUT,
        help="Write the figures there; - for stdout, instead of the table.",
    ),
]
