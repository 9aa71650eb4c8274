"""Write the image of a model, as an ELF or as files for a memory card of a board."""

from __future__ import annotations

from pathlib import Path

from ethos_hil.base.errors import UsageError
from ethos_hil.base.file_error import writable
from ethos_hil.base.files import write_all, write_folder
from ethos_hil.base.question import Question
from ethos_hil.harness.cli.destinations import check_distinct, check_files, check_folder, model_file
from ethos_hil.harness.dry_run.packed import PackedModel, packed_model, soc_for
from ethos_hil.harness.image.card import card_files, our_files
from ethos_hil.harness.terminal.progress import Reporter

FORMATS = ("elf", "mps")


def write_image(
    question: Question, output: Path, form: str, soc: str | None, reporter: Reporter
) -> tuple[PackedModel, tuple[Path, ...]]:
    """Pack a model's image and write it. Return it, and the files written.

    Args:
        question: what to pack.
        output: the ELF, or the folder of files for a memory card, which is replaced as a whole.
        form: one of `FORMATS`.
        soc: name of the system on chip, or None for the first one that has the NPU.
        reporter: is told of each stage.

    Raises:
        UsageError: the arguments contradict one another, or nothing can be written there; others as `packed_model`.
    """
    if form not in FORMATS:
        raise UsageError(f"--format {form!r} is none", hint=f"valid: {', '.join(FORMATS)}")
    place = soc_for(str(question.npu_name), soc)
    if form == "mps" and place.card is None:
        raise UsageError(f"how a board with a {place.name} loads images is not known", hint="use --format elf")
    _check(question, output, form)
    packed = packed_model(question, place.name, stays=form == "mps", reporter=reporter)
    files = {output: packed.image.elf}
    with writable(output):
        if form == "elf":
            write_all(files)
            return packed, (output,)
        named = card_files(packed.image.elf, packed.soc)
        _check(question, output, form)  # lowering takes long enough to put a file there
        write_folder(output.resolve(), named)
    return packed, tuple(output / name for name in named)


def _check(question: Question, output: Path, form: str) -> None:
    model = model_file(question.model) if isinstance(question.model, str) else None
    read = {"MODEL": model, "--inputs": question.inputs if isinstance(question.inputs, Path) else None}
    check_distinct({"OUTPUT": output}, read)
    if form == "elf":
        check_files([output])
        return
    check_folder(output, {}, option="OUTPUT", listed=our_files)
    place = output.resolve()
    for name, path in read.items():
        if path is not None and path.resolve().is_relative_to(place):
            raise UsageError(f"{name} {path} lies in {output}, which is replaced as a whole", hint="name a new folder")
