"""`ethos-hil lower`: a model lowered, and files of it."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING

from harness.progress import Reporter
from lowering.errors import UsageError
from lowering.listing import summary
from lowering.lower import lower as lower_model
from lowering.memory_mode import MemoryMode
from lowering.model import ProgramFile, load_model
from lowering.products import MANIFEST, PRODUCTS, Product, artefacts, products
from lowering.profile import Npu
from lowering.specification import TosaSpec
from results.files import write_folder, write_whole

if TYPE_CHECKING:
    from harness.commands import Order

DEFAULT_NPU = "ethos-u55-128"
DEFAULT_TOSA = "TOSA-1.0+INT"


def lower(order: Order, reporter: Reporter) -> tuple[list[Path], list[str]]:
    """Do what is asked for.

    Returns:
        The files written, and lines about them for people.

    Raises:
        UsageError: the arguments contradict one another, or a file cannot be written; CompileError, ToolError as
        `lowering.lower.lower`.
    """
    product = _product(order.product)
    target, mode = _target(order, product)
    if order.artefacts is not None:
        _check_folder(order.artefacts)
    model = load_model(order.model)
    if isinstance(model, ProgramFile):
        raise UsageError(f"{order.model} is compiled already", hint="give the model it was made from")
    what = f"Lowering {order.model} to {target}" if product == "tosa" else f"Lowering {order.model} for {target}"
    reporter.stage(what)
    artifact = lower_model(
        model,
        target,
        memory_mode=mode,
        whole=order.whole,
        progress=lambda stage: reporter.stage(f"{what}: {stage}"),
    )
    written = []
    contents = products(artifact, product)
    looked_into = artefacts(artifact) if order.artefacts is not None else None
    for ending, data in contents.items():
        path = _path(order, product, ending)
        _write(path, data)
        written.append(path)
    if order.artefacts is not None and looked_into is not None:
        try:
            write_folder(order.artefacts, looked_into)
        except OSError as error:
            raise UsageError(
                f"cannot write {order.artefacts}: {error.strerror}", hint="nothing was written there"
            ) from error
        written += [order.artefacts / name for name in sorted(looked_into)]
    return written, [*summary(artifact), *(f"note: {note}" for note in artifact.notes)]


def _product(text: str) -> Product:
    for known in PRODUCTS:
        if text == known:
            return known  # type: ignore[return-value]
    close = difflib.get_close_matches(text, PRODUCTS, n=1)
    suggestion = f"did you mean {close[0]}? " if close else ""
    raise UsageError(f"--to {text!r} is no product", hint=f"{suggestion}valid: {', '.join(PRODUCTS)}")


def _target(order: Order, product: Product) -> tuple[Npu | TosaSpec, MemoryMode | None]:
    if product == "tosa":
        for option, value in (("--npu", order.npu), ("--memory-mode", order.memory_mode)):
            if value is not None:
                raise UsageError(
                    f"--to tosa is for no NPU, so {option} {value} says nothing",
                    hint="leave it out; the TOSA that Vela is given for an NPU is among the --artifacts of --to vela",
                )
        return TosaSpec.parse(order.tosa or DEFAULT_TOSA), None
    if order.tosa is not None:
        raise UsageError(
            f"--to {product} takes the TOSA of its NPU, so --tosa {order.tosa} says nothing",
            hint="leave it out, or use --to tosa",
        )
    npu = Npu.parse(order.npu or DEFAULT_NPU)
    return npu, None if order.memory_mode is None else MemoryMode.chosen(order.memory_mode, npu)


def _path(order: Order, product: Product, ending: str) -> Path:
    """For example net.pte, out/net.pte, or net-1.tosa where there are several."""
    name = f"{Path(order.model.rpartition(':')[2]).stem}.{product}"
    path = order.output or Path(name)
    if path.is_dir():
        path /= name
    return path.with_name(f"{path.stem}-{ending}{path.suffix}") if ending else path


def _check_folder(folder: Path) -> None:
    """A folder is replaced if it is ours, so that nothing of two lowerings is ever mixed."""
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        raise UsageError(
            f"--artifacts {folder} has files that were not written by ethos-hil", hint="name an empty or a new folder"
        )


def _write(path: Path, data: bytes) -> None:
    try:
        write_whole(path, data)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", hint="nothing was written there") from error
