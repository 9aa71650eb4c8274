"""Load a .pt2. Nothing in it is executed, unless the user trusts it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ethos_hil.base.errors import UsageError, raise_if_interrupted
from ethos_hil.base.regular_file import opened
from ethos_hil.lowering.conditions.silence_tools import quiet
from ethos_hil.lowering.formats.zip_members import BadArchive
from ethos_hil.lowering.model.exported.archive import checked_archive
from ethos_hil.lowering.model.exported.refused import RefusedPart
from ethos_hil.lowering.upstream.names.pt2e import register_operators
from ethos_hil.lowering.user_code.error_text import summary

if TYPE_CHECKING:
    import torch

MOST_BYTES = 8 << 30
TRUST_OPTION = "--trust-model"
_WEIGHTS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
_NOT_WEIGHTS_ONLY = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
_WRITE = "write it with torch.export.save(torch.export.export(module, inputs), path), same torch version"


def load_exported(path: Path, *, trust: bool = False) -> torch.export.ExportedProgram:
    """Load an exported program.

    Args:
        path: the .pt2.
        trust: load what is more than data too: pickled objects, other operators. Loading may then execute what is in
            the file.

    Raises:
        UsageError: the file is not a readable .pt2, or it is more than data and not trusted.
    """
    try:
        with opened(path, most=MOST_BYTES) as file:
            if trust:
                return _loaded(path, file)
            archive = checked_archive(file)
    except RefusedPart as error:
        raise UsageError(
            f"{path} is more than data, at {error}",
            hint=f"if you know who made it: {TRUST_OPTION}, which lets the file run code on this machine",
        ) from None
    except BadArchive as error:
        raise UsageError(f"{path} cannot be loaded as an exported program: {error}", hint=_WRITE) from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    with _weights_only():
        program = _loaded(path, archive)
    _check_inputs(path, program.example_inputs)
    return program


def _loaded(path: Path, file: BinaryIO) -> torch.export.ExportedProgram:
    import torch

    try:
        with quiet():
            register_operators()
            return torch.export.load(file)
    except Exception as error:
        raise_if_interrupted(error)
        raise UsageError(f"{path} cannot be loaded as an exported program: {summary(error)}", hint=_WRITE) from error


@contextmanager
def _weights_only() -> Iterator[None]:
    """Make every torch.load in this process refuse what is more than tensors: a second wall behind the checks."""
    before = {name: os.environ.get(name) for name in (_WEIGHTS_ONLY, _NOT_WEIGHTS_ONLY)}
    os.environ.pop(_NOT_WEIGHTS_ONLY, None)
    os.environ[_WEIGHTS_ONLY] = "1"
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _check_inputs(path: Path, inputs: Any) -> None:
    """Raise UsageError unless example inputs are absent, or positional and keyword arguments."""
    if inputs is None:
        return
    plain = isinstance(inputs, tuple) and len(inputs) == 2
    if not plain or not isinstance(inputs[0], tuple) or not isinstance(inputs[1], dict):
        raise UsageError(f"{path} has example inputs that are no arguments of a call", hint=_WRITE)
    if not all(isinstance(name, str) for name in inputs[1]):
        raise UsageError(f"{path} has keyword arguments that have no names", hint=_WRITE)
