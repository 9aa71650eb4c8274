"""`ethos-hil bench`."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.cli import bench_options
from ethos_hil.harness.cli.common_options import DEBUG, RUNS
from ethos_hil.harness.cli.contribution import CONTRIBUTE, WHO
from ethos_hil.results.known_clocks import asked_clock


def bench(
    models: bench_options.MODELS = None,
    grid: bench_options.GRID = None,
    case: bench_options.CASES = None,
    tag: bench_options.TAGS = None,
    npu: bench_options.NPUS = None,
    memory_mode: bench_options.MODES = None,
    system_config: bench_options.SYSTEMS = None,
    vela_ini: bench_options.VELA_INI = None,
    target: bench_options.TARGETS = None,
    scheme: bench_options.SCHEME = None,
    boot: bench_options.BOOT = None,
    repeat: bench_options.REPEAT = None,
    warm_up: bench_options.WARM_UP = 0,
    timeout: bench_options.TIMEOUT = 120.0,
    jobs: bench_options.JOBS = None,
    run_name: bench_options.RUN_NAME = None,
    resume: bench_options.RESUME = None,
    runs: RUNS = Path("results/runs"),
    clock: bench_options.CLOCK = None,
    by: bench_options.BY = None,
    top: bench_options.TOP = 40,
    which: bench_options.WHICH = None,
    energy: bench_options.ENERGY = None,
    json_file: bench_options.JSON = None,
    csv: bench_options.CSV = None,
    parquet: bench_options.PARQUET = None,
    contribute: CONTRIBUTE = None,
    who: WHO = None,
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

    Example: ethos-hil bench net.py:net --target corstone-300 --npu ethos-u55-128 --repeat 5 --warm-up 1
    """
    from ethos_hil.harness.bench.order import BenchOrder
    from ethos_hil.harness.bench.points import PointSettings
    from ethos_hil.harness.cli import bench_output, bench_run

    if jobs is not None and jobs < 1:
        raise UsageError(f"--jobs is {jobs}", hint="give 1 or more")
    if run_name is not None and resume is not None:
        raise UsageError("--run-name and --resume are both given", hint="--resume goes on with a run that has a name")
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
        PointSettings("", vela_ini, boot, repeat, warm_up, timeout, asked_clock(clock)),
    )
    files = bench_output.BenchFiles(json_file, csv, parquet, contribute, who)
    asked = bench_output.BenchView.of(which, energy, by, top)
    place = bench_run.BenchPlace(runs, run_name, resume, jobs or os.cpu_count() or 1)
    raise typer.Exit(bench_run.run(order, place, bench_output.BenchOutput(files, asked)))
