"""`ethos-hil lower`: lower a model and write its files.

Paths are checked before the model is lowered, as far as possible. Every file is written whole or not at all.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ethos_hil.base.asking import LOWER
from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import unwritable, writable, write_all, write_into
from ethos_hil.base.options import GROUPS, OPTIONS
from ethos_hil.base.plain_text import did_you_mean, escape
from ethos_hil.base.question import Question
from ethos_hil.harness.cli.asking import DEBUG, asks, file_option, given_parameters
from ethos_hil.harness.cli.destinations import (
    STDOUT,
    check_distinct,
    check_files,
    check_folder,
    listed_files,
    model_file,
    write_json,
)

if TYPE_CHECKING:
    from ethos_hil.lowering.artifact import Artifact
    from ethos_hil.lowering.formats.tosa_spec import TosaSpec
    from ethos_hil.lowering.output.export_files import Product

_QUANTISATION = ("calibrate", "int16", "quantizer", "scheme")
DEFAULT_TOSA = "TOSA-1.0+INT"
SCHEMA_VERSION = 1
"""Version of the schema of `_document`."""


@asks(LOWER)
def lower(
    question: Question,
    context: typer.Context,
    product: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="pte|vela|tosa",
            help="The product: a program, the blob that Vela compiles for each delegate, or each delegate in TOSA.",
        ),
    ] = "pte",
    tosa: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="For tosa: TOSA-1.0+INT (quantised, the default) or TOSA-1.0+FP, with extensions as in "
            "TOSA-1.0+INT+int16 or +cf (control flow).",
        ),
    ] = None,
    whole: Annotated[
        bool,
        typer.Option(
            "--whole",
            help="Give all of each method to the NPU, by backend id, with integer inputs and outputs, instead of what "
            "the partitioner picks; an operator that it cannot run is an error.",
        ),
    ] = False,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="OUT",
            help="File for the product, or a folder; one that ends in / is made. Default: MODEL's name, here. Several "
            "delegates are numbered.",
        ),
    ] = None,
    artefacts: Annotated[
        Path | None,
        typer.Option(
            "--artifacts",
            metavar="DIR",
            help="Also write files to inspect there: TOSA, blobs, the map from NPU operations to lines of the "
            "model, Vela's summary, example inputs and the reference's outputs, and a list of them.",
        ),
    ] = None,
    json_file: Annotated[Path | None, file_option("--json", "the result there", instead="the files' names")] = None,
    debug: DEBUG = False,
) -> None:
    """Lower MODEL without running it, and write the product. The files' names go to stdout.

    Example: ethos-hil lower net.py:net --npu ethos-u85-256 -o build/net.pte --artifacts build/net

    Example: ethos-hil lower net.py:net --to tosa --tosa TOSA-1.0+FP
    """
    from ethos_hil.harness.cli.commands import loading

    model = question.label
    with loading(model) as live:
        from ethos_hil.harness.ask.lower_question import check_question, lower_question
        from ethos_hil.lowering.model.torch_model import load_model
        from ethos_hil.lowering.output.export_files import summary

        kind = _product(product)
        spec = _spec(question, given_parameters(context), kind, tosa)
        check_question(question)
        path = _path(model, kind, output, json_file, artefacts)
        if question.is_program:
            load_model(model)  # what is wrong with the file comes first
            raise UsageError(f"{model} is compiled already", hint="give the model it was made from")
        what = f"Lowering {model} for {question.npu_name}" if spec is None else f"Lowering {model} to {spec}"
        live.stage(what)
        result = lower_question(question, spec, progress=lambda text: live.stage(f"{what}: {text}"), whole=whole)
        artifact = result.artifact
        files, looked_into = _write(artifact, kind, path, artefacts, make=_is_folder(output))
    said = (note for method in artifact.methods for note in result.quantisation.get(method.name, ()))
    notes = list(dict.fromkeys((*said, *artifact.notes)))
    if json_file is not None:
        write_json(json_file, _document(artifact, kind, files, looked_into, notes))
    for file in () if json_file == STDOUT else (*files, *looked_into):
        sys.stdout.write(f"{escape(str(file))}\n")
    for line in (*summary(artifact), *(f"note: {note}" for note in notes)):
        sys.stderr.write(f"{escape(line)}\n")


def _product(text: str) -> Product:
    from ethos_hil.lowering.output.export_files import PRODUCTS

    for product in PRODUCTS:
        if text == product:
            return product  # type: ignore[return-value]
    suggestion = did_you_mean(text, PRODUCTS)
    raise UsageError(f"--to {text!r} is not a product", hint=f"{suggestion}valid: {', '.join(PRODUCTS)}")


def _spec(question: Question, given: Collection[str], product: Product, tosa: str | None) -> TosaSpec | None:
    """Return the TOSA to lower to, where TOSA is the product. Raises UsageError for options that say nothing then."""
    from ethos_hil.lowering.formats.tosa_spec import TosaSpec

    if product != "tosa":
        if tosa is not None:
            raise UsageError(
                f"--to {product} takes the TOSA of its NPU, so --tosa {tosa} says nothing",
                hint="leave it out, or use --to tosa",
            )
        return None
    for name in GROUPS["compile"]:
        flag = OPTIONS[name].flag(name)
        if name in given and name in ("npu", "memory_mode", "cpu"):
            raise UsageError(
                f"--to tosa is for no NPU, so {flag} {getattr(question, name)} says nothing",
                hint="leave it out; the TOSA that Vela is given for an NPU is among the --artifacts of --to vela",
            )
        if name in given and name != "as_upstream":
            raise UsageError(f"--to tosa does not call Vela, so {flag} says nothing", hint="leave it out")
    spec = TosaSpec.parse(tosa or DEFAULT_TOSA)
    flags = question.flags(_QUANTISATION)
    if flags and not spec.quantised:
        raise UsageError(f"{spec} is not quantised, so {flags[0]} says nothing", hint="ask for TOSA-1.0+INT")
    return spec


def _path(model: str, product: Product, output: str | None, json_file: Path | None, artefacts: Path | None) -> Path:
    """Return the product's path, for example net.pte or out/net.pte, where all can be written that is asked for."""
    from ethos_hil.lowering.program.program_file import PROGRAM_SUFFIXES

    name = f"{Path(model.rpartition(':')[2]).stem}.{product}"
    path = Path(output or name)
    with writable(path):  # the name may be too long
        path = path / name if _is_folder(output) or path.is_dir() else path
    check_files((path, json_file), path.parent if _is_folder(output) else None)
    written = {"--output": path, "--json": json_file}
    if not model.endswith(PROGRAM_SUFFIXES):  # it is refused later, with a better reason
        check_distinct(written, {"MODEL": model_file(model)})
    if artefacts is not None:
        check_folder(artefacts, written)
    return path


def _is_folder(output: str | None) -> bool:
    """Return whether the user names a folder for the product, which is made if it is missing."""
    return output is not None and output.endswith("/")


def _write(
    artifact: Artifact, product: Product, path: Path, folder: Path | None, *, make: bool
) -> tuple[list[Path], list[Path]]:
    """Write the product, whose folder is to be made or there, and what to inspect to `folder`. Return both's paths."""
    from ethos_hil.lowering.output.export_files import artefacts, products

    files = {  # where there are several, a number is before the ending, for example net-1.tosa
        path.with_name(f"{path.stem}-{number}{path.suffix}") if number else path: data
        for number, data in products(artifact, product).items()
    }
    looked_into = artefacts(artifact) if folder is not None else {}
    try:
        if folder is not None:
            write_into(folder.resolve(), looked_into, listed_files(folder))
        if make:
            path.parent.mkdir(parents=True, exist_ok=True)
        write_all(files)
    except OSError as error:
        raise unwritable(error, error.filename2 or folder or path) from error
    return list(files), [folder / name for name in sorted(looked_into)] if folder is not None else []


def _document(
    artifact: Artifact, product: Product, files: Sequence[Path], looked_into: Sequence[Path], notes: list[str]
) -> dict[str, Any]:
    """Return the result as JSON for programs; docs/lowering.md describes it."""
    from ethos_hil.harness.verdict.artifact_info import cpu_ops
    from ethos_hil.lowering.output.export_files import target

    return {
        "schema_version": SCHEMA_VERSION,
        "model": artifact.model,
        "product": product,
        "target": target(artifact),
        "files": list(map(str, files)),
        "artifacts": list(map(str, looked_into)),
        "pte_sha256": artifact.sha256,
        "methods": [
            {
                "name": method.method,
                "scheme": method.scheme,
                "delegates": len(method.delegates),
                "npu_ops": len(method.npu_ops),
                "cpu_ops": list(method.cpu_ops),
                "delegated": list(method.delegated),
                "delegated_ops": method.placement.delegated,
                "cpu_calls": [vars(call) for call in cpu_ops(method)],
            }
            for method in (artifact.of(each.name) for each in artifact.methods)
        ],
        "notes": notes,
        "versions": dict(artifact.versions),
    }
