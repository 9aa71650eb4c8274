"""`ethos-hil image`: the image of a model, for a board that the user loads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.base.plain_text import escaped
from ethos_hil.harness.cli import quantisation_options, run_options
from ethos_hil.harness.cli.model_options import (
    ALLOW_CPU_ONLY,
    AS_UPSTREAM,
    DEBUG,
    INPUTS,
    LEAVE,
    MAX_CPU_OPS,
    MEMORY_MODE,
    METHOD,
    MODEL,
    NPU,
    REQUIRE_DELEGATED,
    TRUST_MODEL,
)
from ethos_hil.harness.cli.vela_options import ARENA_CACHE_SIZE, OPTIMISE, SYSTEM_CONFIG, VELA_FLAG, VELA_INI, asked

OUTPUT = Annotated[
    Path, typer.Argument(metavar="OUTPUT", help="The file to write; with --format mps a folder, replaced as a whole.")
]
FORMAT = Annotated[
    str,
    typer.Option(
        "--format",
        metavar="elf|mps",
        help="elf: the image as it would run. mps: a raw file for each part of it and the images.txt for the memory "
        "card of an MPS3 (AN547, AN552, AN555) or MPS4 (FI101) board; untried on a board.",
    ),
]
SOC = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The system on chip, e.g. corstone-310. Default: the first that has the NPU."),
]


def image(
    model: MODEL,
    output: OUTPUT,
    form: FORMAT = "elf",
    npu: NPU = None,
    soc: SOC = None,
    memory_mode: MEMORY_MODE = None,
    system_config: SYSTEM_CONFIG = None,
    vela_ini: VELA_INI = None,
    optimise: OPTIMISE = None,
    arena_cache_size: ARENA_CACHE_SIZE = None,
    vela_flag: VELA_FLAG = None,
    inputs: INPUTS = None,
    method: METHOD = None,
    repeat: run_options.REPEAT = None,
    leave: LEAVE = None,
    allow_cpu_only: ALLOW_CPU_ONLY = False,
    require_delegated: REQUIRE_DELEGATED = False,
    max_cpu_ops: MAX_CPU_OPS = None,
    scheme: quantisation_options.SCHEME = "a8w8",
    calibrate: quantisation_options.CALIBRATE = None,
    int16: quantisation_options.INT16 = None,
    quantizer: quantisation_options.QUANTIZER = None,
    as_upstream: AS_UPSTREAM = False,
    trust_model: TRUST_MODEL = False,
    debug: DEBUG = False,
) -> None:
    """Lower MODEL, pack its image (firmware, program, inputs), and write it. The files' names go to stdout.

    Example: ethos-hil image net.py:net card --npu ethos-u85-256 --format mps
    """
    from ethos_hil.harness.ask.quantisation_options import QuantisationOptions, parse_scheme
    from ethos_hil.harness.ask.request import DEFAULT_NPU, RunRequest
    from ethos_hil.harness.cli.commands import never_exiting
    from ethos_hil.harness.image.delegation import Delegation
    from ethos_hil.harness.terminal.progress import Live
    from ethos_hil.lowering.cache.settings import prepare_torch

    request = RunRequest(
        model,
        npu or DEFAULT_NPU,
        memory_mode=memory_mode,
        vela=asked(system_config, vela_ini, optimise, arena_cache_size, vela_flag),
        method=method,
        inputs=inputs,
        repeat=repeat,
        trust_model=trust_model,
        as_upstream=as_upstream,
        leave=tuple(leave or ()),
        delegation=Delegation(allow_cpu_only, require_delegated, max_cpu_ops),
        scheme=parse_scheme(scheme),
        quantisation=QuantisationOptions(calibrate, tuple(int16 or ()), quantizer),
    )
    prepare_torch()
    with Live() as live, never_exiting():
        live.stage(f"Loading {model}")
        from ethos_hil.harness.cli.image_files import write_image

        packed, files = write_image(request, output, form, soc, live)
    for path in files:
        sys.stdout.write(f"{escaped(str(path))}\n")
    for note in packed.notes:
        sys.stderr.write(f"note: {escaped(note)}\n")
