"""`ethos-hil scan`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.base.asking import SCAN
from ethos_hil.base.question import Question
from ethos_hil.harness.cli.asking import DEBUG, MERGE, RESUME, RUN_NAME, RUNS, SHARD, asks, file_option, option_of
from ethos_hil.harness.cli.destinations import STDOUT, write_json


@asks(SCAN)
def scan(
    question: Question,
    over: Annotated[
        list[str],
        typer.Option(
            "--over",
            metavar="WHAT",
            help="Releases (ethos-u-vela=4.4..5.2, executorch=1.4.1,1.5.1), wheels of nightly builds (wheels=FOLDER), "
            "commits (commits=A..B, with --build), or upstreams one by one, each with an --over of its own "
            "(here, python=PATH, 'executorch==1.5.0 ethos-u-vela==5.2.0').",
        ),
    ],
    npu: Annotated[
        list[str] | None, option_of("npu", help="NPU to compile for; repeatable. Default: ethos-u55-128.", otherwise="")
    ] = None,
    memory_mode: Annotated[
        list[str] | None,
        option_of(
            "memory_mode",
            help="Shared_Sram, Sram_Only or Dedicated_Sram; repeatable. Default: ExecuTorch's for the NPU.",
        ),
    ] = None,
    build: Annotated[
        str | None,
        typer.Option(
            "--build",
            metavar="COMMAND",
            help="With commits: builds one, in a checkout of it; wheels, packages or a virtual environment go to "
            "$ETHOS_HIL_OUT.",
        ),
    ] = None,
    repository: Annotated[
        Path | None,
        typer.Option("--repository", metavar="DIR", help="With commits: their clone. Default: the working directory."),
    ] = None,
    bisect: Annotated[
        bool,
        typer.Option("--bisect", help="Find the first change without trying each. Commits are bisected in any case."),
    ] = False,
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            metavar="WHAT",
            help="Bisect by this: program, answer, sqnr (by 6 dB), cpu, cycles, tosa, stream or weights. Default: the "
            "first in which both ends differ.",
        ),
    ] = None,
    run_name: RUN_NAME = None,
    resume: RESUME = None,
    shard: SHARD = None,
    merge: MERGE = None,
    runs: RUNS = Path("results/runs"),
    top: Annotated[int, typer.Option(min=1, metavar="N", help="The most operations to show of each change.")] = 10,
    json_file: Annotated[Path | None, file_option("--json", "the result there", instead="the tables")] = None,
    debug: DEBUG = False,
) -> None:
    """Compile one model with several versions of Vela or several upstreams, and show where something changed first.

    Over versions of Vela the model is lowered once, and every version compiles the same TOSA; any other upstream lowers
    the model itself. Each is installed or built once, in an environment of its own, and kept. Cycles are modelled, and
    every program's answer is checked bit for bit. A run folder is kept where it is named, or where the versions are
    divided.

    Exit status: 0 the scan was made, whatever it found; 2 unusable arguments or model; 3 no version can be installed,
    or a shard or an answer is missing.

    Example: ethos-hil scan net.py:net --over ethos-u-vela=4.4..5.2 --npu ethos-u85-128 --memory-mode Shared_Sram
    """
    from ethos_hil.harness.campaign.place import RunPlace
    from ethos_hil.harness.cli.commands import check_written, never_exiting
    from ethos_hil.harness.scan.candidates import Over
    from ethos_hil.harness.terminal.progress import Live
    from ethos_hil.lowering.cache.contents import prepare_torch

    wanted = Over.parse(over, repository, build)  # before what takes longer to import
    check_written(question, {"--json": json_file})
    place = RunPlace.of(runs, run_name, resume, shard, merge, always=False)
    prepare_torch()
    from ethos_hil.harness.scan.report import document, text
    from ethos_hil.harness.scan.scan import ScanOrder
    from ethos_hil.harness.scan.scan import scan as run_scan

    with Live() as live, never_exiting():
        order = ScanOrder(question, wanted, tuple(npu or ()), tuple(memory_mode or ()), bisect, by)
        report = run_scan(order, live, place)
    if json_file is not None:
        write_json(json_file, document(report))
    if json_file != STDOUT:
        from ethos_hil.base.console import console

        console().print(text(report, top=top))
