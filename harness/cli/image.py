"""`ethos-hil image`: the image of a model, for a board that the user loads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.base.asking import IMAGE
from ethos_hil.base.errors import UsageError
from ethos_hil.base.plain_text import escape
from ethos_hil.base.question import Question
from ethos_hil.harness.cli.asking import DEBUG, asks
from ethos_hil.harness.cli.destinations import check_distinct, check_files, check_folder, model_file

FORMATS = ("elf", "mps")


@asks(IMAGE)
def image(
    question: Question,
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="The file to write; with --format mps a folder.")],
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="elf|mps",
            help="elf: the image as it would run. mps: a raw file for each part of it and the images.txt for the "
            "memory card of an MPS3 (AN547, AN552, AN555) or MPS4 (FI101) board; untried on a board.",
        ),
    ] = "elf",
    soc: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="The system on chip, e.g. corstone-310. Default: the first that has the NPU."
        ),
    ] = None,
    debug: DEBUG = False,
) -> None:
    """Lower MODEL, pack its image (firmware, program, inputs), and write it. The files' names go to stdout.

    Example: ethos-hil image net.py:net card --npu ethos-u85-256 --format mps
    """
    from ethos_hil.base.files import writable, write_all, write_into
    from ethos_hil.harness.cli.commands import loading

    with loading(question.label) as live:
        from ethos_hil.harness.dry_run.survey import packed_model, soc_for
        from ethos_hil.harness.image.card import card_files, our_files

        if form not in FORMATS:
            raise UsageError(f"--format {form!r} is not a format", hint=f"valid: {', '.join(FORMATS)}")
        place = soc_for(str(question.npu_name), soc)
        if form == "mps" and place.card is None:
            raise UsageError(f"how a board with a {place.name} loads images is not known", hint="use --format elf")
        _check(question, output, form)
        packed = packed_model(question, place.name, stays=form == "mps", reporter=live)
        files: tuple[Path, ...] = (output,)
        with writable(output):
            if form == "elf":
                write_all({output: packed.image.elf})
            else:
                named = card_files(packed.image.elf, packed.soc)
                write_into(output.resolve(), named, our_files(output))
                files = tuple(output / name for name in named)
    for path in files:
        sys.stdout.write(f"{escape(str(path))}\n")
    for note in packed.notes:
        sys.stderr.write(f"note: {escape(note)}\n")


def _check(question: Question, output: Path, form: str) -> None:
    model = model_file(question.model) if isinstance(question.model, str) else None
    read = {"MODEL": model, "--inputs": question.inputs if isinstance(question.inputs, Path) else None}
    check_distinct({"OUTPUT": output}, read)
    if form == "elf":
        check_files([output])
        return
    check_folder(output, {}, option="OUTPUT")
