"""`ethos-hil scan`."""

from __future__ import annotations

from ethos_hil.base.asking import SCAN
from ethos_hil.base.errors import UsageError
from ethos_hil.base.question import Question
from ethos_hil.harness.cli import scan_options
from ethos_hil.harness.cli.asking import asks
from ethos_hil.harness.cli.common_options import DEBUG
from ethos_hil.harness.cli.destinations import STDOUT, write_out


@asks(SCAN)
def scan(
    question: Question,
    over: scan_options.OVER,
    npu: scan_options.NPU = None,
    memory_mode: scan_options.MEMORY_MODE = None,
    environments: scan_options.ENVIRONMENTS = None,
    top: scan_options.TOP = 10,
    json_file: scan_options.JSON = None,
    csv_file: scan_options.CSV = None,
    debug: DEBUG = False,
) -> None:
    """Compile one model or test with several versions of a tool, and show at which version something changed first.

    For Vela the model is lowered once, and every version compiles the same TOSA. Each version is installed once, in an
    environment of its own, and kept. Cycles are modelled, and every program's answer is checked bit for bit.

    Exit status: 0 the scan was made, whatever it found; 2 unusable arguments or model; 3 no version can be installed.

    Example: ethos-hil scan net.py:net --over ethos-u-vela=4.4..5.2 --npu ethos-u85-128 --memory-mode Shared_Sram
    """
    from ethos_hil.harness.cli.commands import check_written, never_exiting, write_json
    from ethos_hil.harness.scan.releases import WantedVersions
    from ethos_hil.harness.terminal.progress import Live
    from ethos_hil.lowering.cache.settings import prepare_torch

    wanted = tuple(WantedVersions.parse(each) for each in over)  # before what takes longer to import
    if json_file == csv_file == STDOUT:
        raise UsageError("--json and --csv both go to stdout", hint="name a file for one of them")
    check_written(question, {"--json": json_file, "--csv": csv_file})
    prepare_torch()
    from ethos_hil.harness.scan.report import document, table
    from ethos_hil.harness.scan.scan import ScanOrder
    from ethos_hil.harness.scan.scan import scan as made

    with Live() as live, never_exiting():
        found = made(ScanOrder(question, wanted, tuple(npu or ()), tuple(memory_mode or ()), environments), live)
    if json_file is not None:
        write_json(json_file, document(found))
    if csv_file is not None:
        write_out(csv_file, table(found))
    if STDOUT not in (json_file, csv_file):
        from ethos_hil.harness.show.scan import scan as text
        from ethos_hil.harness.terminal.console import console

        console().print(text(found, top=top))
