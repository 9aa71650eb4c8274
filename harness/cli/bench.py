"""`ethos-hil bench`."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.cli.asking import DEBUG, MERGE, RESUME, RUN_NAME, RUNS, SHARD, file_option, option_of, word_of

_GRID = "What is benchmarked"
_grid = partial(typer.Option, rich_help_panel=_GRID)
_of_grid = partial(option_of, otherwise="", panel=_GRID)
_of_run = partial(option_of, panel="How")
_run = partial(typer.Option, rich_help_panel="How")
_out = partial(typer.Option, rich_help_panel="Output")

VELA_INI = Annotated[Path | None, option_of("vela_ini")]
SUBJECT = Annotated[list[str] | None, option_of("subject")]
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
    _grid(
        metavar="FILE",
        help="A grid of your own (docs/bench-grids.md). Default: the one that comes with ethos-hil, about 100 cases.",
        show_default=False,
    ),
]
CASES = Annotated[
    list[str] | None,
    _grid(metavar="GLOB", help="Only the cases with such a name, or of such a group; repeatable. --case 'conv*'"),
]
TAGS = Annotated[
    list[str] | None, _grid(metavar="TAG", help="Only cases with this tag: short, long, or one's own; repeatable.")
]
NPUS = Annotated[
    list[str] | None,
    _of_grid("npu", help="NPU to compile for; repeatable. Default: those of the grid, else all eleven."),
]
MODES = Annotated[
    list[str] | None,
    _of_grid(
        "memory_mode",
        help="Memory mode of Vela; repeatable; all for every one that an NPU can have. Default: those of the grid, "
        "else one of each kind.",
    ),
]
SYSTEMS = Annotated[
    list[str] | None,
    _of_grid("system_config", help="Clock and memories to compile for; repeatable. Default: ExecuTorch's for the NPU."),
]
TARGETS = Annotated[
    list[str] | None,
    _of_grid("target", help="Where to run; repeatable. On a board or an FVP every point is run. Default: virtual."),
]
SCHEME = Annotated[
    str | None, _of_grid("scheme", help="Bits of activations and weights. Default: the cases' own, a8w8 for MODELs.")
]
BOOT = Annotated[
    bool | None,
    _run(
        "--boot/--no-boot",
        help="Boot and verify every point, or none, on a virtual target. Default: those of cases tagged short.",
        show_default=False,
    ),
]
REPEAT = Annotated[
    int | None,
    _of_run(
        "repeat",
        help="Executions of each booted point.",
        otherwise="1 on a virtual target, whose executions are all alike, else 3",
    ),
]
TIMEOUT = Annotated[float, _of_run("timeout", help="Limit for each run of a booted point on its target.")]
JOBS = Annotated[int | None, _run(metavar="N", help="Processes. Default: one for each processor.")]
BY = Annotated[
    str | None,
    _out(
        metavar="group|case|npu",
        help="Rows of the table: groups of cases, cases, or NPUs with their modes. Default: group; npu for one case.",
    ),
]
TOP = Annotated[int, _out(min=1, metavar="N", help="The most rows of a table.")]
WHICH = Annotated[
    str | None,
    _out(
        metavar="BUDGET",
        help="Show which NPU and memory mode meets a budget, the smallest first, and by how much: "
        "'fps>=30, sram<=512KB' (docs/latency.md).",
    ),
]
JSON = Annotated[Path | None, file_option("--json", "the figures there", rich_help_panel="Output")]


def bench(
    models: MODELS = None,
    grid: GRID = None,
    case: CASES = None,
    tag: TAGS = None,
    npu: NPUS = None,
    memory_mode: MODES = None,
    system_config: SYSTEMS = None,
    vela_ini: VELA_INI = None,
    subject: SUBJECT = None,
    target: TARGETS = None,
    scheme: SCHEME = None,
    boot: BOOT = None,
    repeat: REPEAT = None,
    timeout: TIMEOUT = 120.0,
    jobs: JOBS = None,
    run_name: RUN_NAME = None,
    resume: RESUME = None,
    shard: SHARD = None,
    merge: MERGE = None,
    runs: RUNS = Path("results/runs"),
    clock: CLOCK = None,
    by: BY = None,
    top: TOP = 40,
    which: WHICH = None,
    json_file: JSON = None,
    debug: DEBUG = False,
) -> None:
    """Measure operations, or MODELs, on every NPU in every memory mode.

    Cases that are tagged short are booted and verified; the others are compiled and timed by the timing model, and
    never called verified. Whatever cannot be made is a row with its reason. All points are records of one run folder,
    for `history`, `compare`, `report` and `export`.

    Exit status: 0 every point was made, or refused by name; 1 one that was booted failed or is unverified, one has no
    record, all were refused, or nothing meets the budget; 2 unusable arguments, or a case that no NPU takes as it is
    written; 3 a target or tool is not available.

    Example: ethos-hil bench

    Example: ethos-hil bench --case 'conv3x3*' --npu ethos-u55-128 --npu ethos-u85-256 --memory-mode all

    Example: ethos-hil bench net.py:net --target corstone-300 --npu ethos-u55-128 --repeat 5
    """
    from ethos_hil.harness.bench.order import BenchOrder
    from ethos_hil.harness.bench.points import PointSettings
    from ethos_hil.harness.campaign.place import RunPlace
    from ethos_hil.harness.cli.bench_run import BenchOutput, run
    from ethos_hil.results.bench.budget import Budget
    from ethos_hil.results.text.bench import BenchBy

    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs is {jobs}", hint="give 1 or more")
    place = RunPlace.of(runs, run_name, resume, shard, merge)
    order = BenchOrder(
        tuple(models or ()),
        grid,
        tuple(case or ()),
        tuple(tag or ()),
        tuple(npu or ()),
        tuple(memory_mode or ()),
        tuple(system_config or ()),
        tuple(target or ()),
        scheme,
        PointSettings("", vela_ini, boot, repeat, timeout, clock, tuple(subject or ())),
    )
    budget = Budget.parse(which) if which is not None else None
    rows = word_of("--by", by, BenchBy) if by is not None else None
    output = BenchOutput(json_file, budget, rows, top)
    jobs = jobs or os.cpu_count() or 1
    raise typer.Exit(run(order, output, place, jobs=jobs))
