"""`ethos-hil scan`."""

from __future__ import annotations

import sys
from pathlib import Path

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.cli import quantisation_options, scan_options
from ethos_hil.harness.cli.model_options import AS_UPSTREAM, DEBUG, LEAVE, METHOD, TRUST_MODEL
from ethos_hil.harness.cli.vela_options import ARENA_CACHE_SIZE, OPTIMISE, SYSTEM_CONFIG, VELA_FLAG, VELA_INI, asked

_STDOUT = Path("-")


def scan(
    model: scan_options.MODEL,
    over: scan_options.OVER,
    npu: scan_options.NPU = None,
    memory_mode: scan_options.MEMORY_MODE = None,
    system_config: SYSTEM_CONFIG = None,
    vela_ini: VELA_INI = None,
    optimise: OPTIMISE = None,
    arena_cache_size: ARENA_CACHE_SIZE = None,
    vela_flag: VELA_FLAG = None,
    scheme: quantisation_options.SCHEME = "a8w8",
    calibrate: quantisation_options.CALIBRATE = None,
    int16: quantisation_options.INT16 = None,
    quantizer: quantisation_options.QUANTIZER = None,
    leave: LEAVE = None,
    method: METHOD = None,
    environments: scan_options.ENVIRONMENTS = None,
    top: scan_options.TOP = 10,
    json_file: scan_options.JSON = None,
    csv_file: scan_options.CSV = None,
    as_upstream: AS_UPSTREAM = False,
    trust_model: TRUST_MODEL = False,
    debug: DEBUG = False,
) -> None:
    """Compile one model or test with several versions of a tool, and show at which version something changed first.

    For Vela the model is lowered once, and every version compiles the same TOSA. Each version is installed once, in an
    environment of its own, and kept. Cycles are modelled, and every program's answer is checked bit for bit.

    Exit status: 0 the scan was made, whatever it found; 2 unusable arguments or model; 3 no version can be installed.

    Example: ethos-hil scan net.py:net --over ethos-u-vela=4.4..5.2 --npu ethos-u85-128 --memory-mode Shared_Sram
    """
    from ethos_hil.harness.ask.quantisation_options import QuantisationOptions, parse_scheme
    from ethos_hil.harness.ask.request import RunRequest
    from ethos_hil.harness.cli.commands import check_written, never_exiting, write_json
    from ethos_hil.harness.scan.releases import WantedVersions
    from ethos_hil.harness.terminal.progress import Live
    from ethos_hil.lowering.cache.settings import prepare_torch

    wanted = tuple(WantedVersions.parse(each) for each in over)  # before what takes longer to import
    request = RunRequest(
        model,
        vela=asked(system_config, vela_ini, optimise, arena_cache_size, vela_flag),
        scheme=parse_scheme(scheme),
        method=method,
        quantisation=QuantisationOptions(calibrate, tuple(int16 or ()), quantizer),
        leave=tuple(leave or ()),
        as_upstream=as_upstream,
        trust_model=trust_model,
    )
    if json_file == csv_file == _STDOUT:
        raise UsageError("--json and --csv both go to stdout", hint="name a file for one of them")
    check_written(request, {"--json": json_file, "--csv": csv_file})
    prepare_torch()
    from ethos_hil.harness.scan.document import document, table
    from ethos_hil.harness.scan.order import ScanOrder
    from ethos_hil.harness.scan.scan import scan as made

    with Live() as live, never_exiting():
        found = made(ScanOrder(request, wanted, tuple(npu or ()), tuple(memory_mode or ()), environments), live)
    if json_file is not None:
        write_json(json_file, document(found))
    if csv_file is not None:
        _write(csv_file, table(found))
    if _STDOUT not in (json_file, csv_file):
        from ethos_hil.harness.show.scan import scan as text
        from ethos_hil.harness.terminal.console import console

        console().print(text(found, top=top))


def _write(path: Path, text: str) -> None:
    from ethos_hil.base.files import write_whole
    from ethos_hil.harness.cli.destinations import unwritable

    if path == _STDOUT:
        sys.stdout.write(text)
        return
    try:
        write_whole(path, text)
    except OSError as error:
        raise unwritable(path, error) from error
