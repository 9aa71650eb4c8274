"""`ethos-hil lower`: lower a model and write its files.

Paths are checked before the model is lowered, as far as possible. Every file is written whole or not at all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import unwritable, writable, write_all, write_into
from ethos_hil.base.plain_text import did_you_mean
from ethos_hil.base.question import GROUPS, OPTIONS, Question
from ethos_hil.harness.ask.lower_question import check_question, lower_question
from ethos_hil.harness.cli.destinations import check_distinct, check_files, check_folder, listed_files, model_file
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.harness.verdict.artifact_info import cpu_ops
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.model.torch_model import load_model
from ethos_hil.lowering.output.export_files import PRODUCTS, Product, artefacts, products, summary
from ethos_hil.lowering.output.export_files import target as target_of
from ethos_hil.lowering.program.program_file import PROGRAM_SUFFIXES

_QUANTISATION = ("calibrate", "int16", "quantizer", "scheme")
DEFAULT_TOSA = "TOSA-1.0+INT"
SCHEMA_VERSION = 1
"""Version of the schema of `Lowered.document`."""


@dataclass(frozen=True)
class LowerOrder:
    """What to lower, and what to keep, as the user gave it.

    Attributes:
        question: what to lower, and for what.
        given: the fields of it that are on the command line.
        product: "tosa", "vela" or "pte".
        tosa: the TOSA version to lower to; only for TOSA.
        whole: lower whole methods by backend id, instead of the partitioner's choice.
        output: file for the product, or a folder: one that is there, or a name that ends in /. By default the model's
            name in the working directory.
        artefacts: folder for the files to inspect, or None.
    """

    question: Question
    given: frozenset[str]
    product: str
    tosa: str | None
    whole: bool
    output: str | None
    artefacts: Path | None


@dataclass(frozen=True)
class Lowered:
    """The files that `ethos-hil lower` wrote.

    Attributes:
        artifact: the lowered model.
        product: the product that the user asked for.
        files: the product's files.
        looked_into: the files in the folder of artefacts.
        said: sentences about the model, beside the artifact's notes.
    """

    artifact: Artifact
    product: Product
    files: tuple[Path, ...]
    looked_into: tuple[Path, ...] = ()
    said: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """Return all sentences, each once."""
        return tuple(dict.fromkeys((*self.said, *self.artifact.notes)))

    @property
    def lines(self) -> list[str]:
        """Return the result as lines for people."""
        return [*summary(self.artifact), *(f"note: {note}" for note in self.notes)]

    @property
    def document(self) -> dict[str, Any]:
        """Return the result as JSON for programs; docs/lowering.md describes it."""
        artifacts = [self.artifact.of(method.name) for method in self.artifact.methods]
        return {
            "schema_version": SCHEMA_VERSION,
            "model": self.artifact.model,
            "product": self.product,
            "target": target_of(self.artifact),
            "files": [str(path) for path in self.files],
            "artifacts": [str(path) for path in self.looked_into],
            "pte_sha256": self.artifact.sha256,
            "methods": [
                {
                    "name": method.method,
                    "scheme": method.scheme,
                    "delegates": len(method.delegates),
                    "npu_ops": len(method.npu_ops),
                    "cpu_ops": list(method.cpu_ops),
                    "delegated": list(method.delegated),
                    "delegated_ops": method.placement.delegated,
                    "cpu_calls": [vars(call) for call in cpu_ops(method.placement)],
                }
                for method in artifacts
            ],
            "notes": list(self.notes),
            "versions": dict(self.artifact.versions),
        }


def lower(order: LowerOrder, reporter: Reporter, *, json_file: Path | None = None) -> Lowered:
    """Lower the model and write its files.

    Args:
        order: what to lower, and where to.
        reporter: is told of each stage.
        json_file: where the caller writes the result afterwards; here it is only checked.

    Raises:
        UsageError: the arguments contradict one another, or a file cannot be written; CompileError, ToolError as
        `ethos_hil.lowering.lower.lower`.
    """
    product = _product(order.product)
    question, spec = order.question, _spec(order, product)
    check_question(question)
    model = question.label
    path = _path(order, product)
    folder = path.parent if _is_folder(order.output) else None
    check_files((path, json_file), folder)
    written = {"--output": path, "--json": json_file}
    if not model.endswith(PROGRAM_SUFFIXES):  # it is refused below, with a better reason
        check_distinct(written, {"MODEL": model_file(model)})
    if order.artefacts is not None:
        check_folder(order.artefacts, written)
    if question.is_program:
        load_model(model)  # what is wrong with the file comes first
        raise UsageError(f"{model} is compiled already", hint="give the model it was made from")
    what = f"Lowering {model} for {question.npu_name}" if spec is None else f"Lowering {model} to {spec}"
    reporter.stage(what)
    result = lower_question(question, spec, progress=lambda text: reporter.stage(f"{what}: {text}"), whole=order.whole)
    artifact = result.artifact
    files = {  # where there are several, a number is before the ending, for example net-1.tosa
        path.with_name(f"{path.stem}-{number}{path.suffix}") if number else path: data
        for number, data in products(artifact, product).items()
    }
    looked_into = artefacts(artifact) if order.artefacts is not None else {}
    try:
        if order.artefacts is not None:
            write_into(order.artefacts.resolve(), looked_into, listed_files(order.artefacts))
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        write_all(files)
    except OSError as error:
        raise unwritable(error, error.filename2 or order.artefacts or path) from error
    said = tuple(note for method in artifact.methods for note in result.quantisation.get(method.name, ()))
    if order.artefacts is None:
        return Lowered(artifact, product, tuple(files), said=said)
    return Lowered(artifact, product, tuple(files), tuple(order.artefacts / name for name in sorted(looked_into)), said)


def _product(text: str) -> Product:
    for product in PRODUCTS:
        if text == product:
            return product  # type: ignore[return-value]
    suggestion = did_you_mean(text, PRODUCTS)
    raise UsageError(f"--to {text!r} is not a product", hint=f"{suggestion}valid: {', '.join(PRODUCTS)}")


def _spec(order: LowerOrder, product: Product) -> TosaSpec | None:
    """Return the TOSA to lower to, where TOSA is the product. Raises UsageError for options that say nothing then."""
    question, given = order.question, order.given
    if product != "tosa":
        if order.tosa is not None:
            raise UsageError(
                f"--to {product} takes the TOSA of its NPU, so --tosa {order.tosa} says nothing",
                hint="leave it out, or use --to tosa",
            )
        return None
    for name in GROUPS["compile"]:
        flag = OPTIONS[name].flag(name)
        if name in given and name in ("npu", "memory_mode"):
            raise UsageError(
                f"--to tosa is for no NPU, so {flag} {getattr(question, name)} says nothing",
                hint="leave it out; the TOSA that Vela is given for an NPU is among the --artifacts of --to vela",
            )
        if name in given and name != "as_upstream":
            raise UsageError(f"--to tosa does not call Vela, so {flag} says nothing", hint="leave it out")
    spec = TosaSpec.parse(order.tosa or DEFAULT_TOSA)
    flags = question.flags(_QUANTISATION)
    if flags and not spec.quantised:
        raise UsageError(f"{spec} is not quantised, so {flags[0]} says nothing", hint="ask for TOSA-1.0+INT")
    return spec


def _path(order: LowerOrder, product: Product) -> Path:
    """Return the product's path, for example net.pte or out/net.pte."""
    name = f"{Path(order.question.label.rpartition(':')[2]).stem}.{product}"
    path = Path(order.output or name)
    with writable(path):  # the name may be too long
        return path / name if _is_folder(order.output) or path.is_dir() else path


def _is_folder(output: str | None) -> bool:
    """Return whether the user names a folder for the product, which is made if it is missing."""
    return output is not None and output.endswith("/")
