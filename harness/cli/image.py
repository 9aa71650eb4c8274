"""`ethos-hil image`: the image of a model, for a board that the user loads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.base.asking import IMAGE
from ethos_hil.base.plain_text import escaped
from ethos_hil.base.question import Question
from ethos_hil.harness.cli.asking import asks
from ethos_hil.harness.cli.common_options import DEBUG

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


@asks(IMAGE)
def image(
    question: Question,
    output: OUTPUT,
    form: FORMAT = "elf",
    soc: SOC = None,
    debug: DEBUG = False,
) -> None:
    """Lower MODEL, pack its image (firmware, program, inputs), and write it. The files' names go to stdout.

    Example: ethos-hil image net.py:net card --npu ethos-u85-256 --format mps
    """
    from ethos_hil.harness.cli.commands import never_exiting
    from ethos_hil.harness.terminal.progress import Live
    from ethos_hil.lowering.cache.settings import prepare_torch

    prepare_torch()
    with Live() as live, never_exiting():
        live.stage(f"Loading {question.label}")
        from ethos_hil.harness.cli.image_files import write_image

        packed, files = write_image(question, output, form, soc, live)
    for path in files:
        sys.stdout.write(f"{escaped(str(path))}\n")
    for note in packed.notes:
        sys.stderr.write(f"note: {escaped(note)}\n")
