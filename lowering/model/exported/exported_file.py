"""Load a .pt2. Nothing in it is executed, unless the user trusts it."""

from __future__ import annotations

import io
import json
import os
import pickletools
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ethos_hil.base.errors import UsageError, raise_if_interrupted
from ethos_hil.base.files import opened
from ethos_hil.lowering.conditions.process import quiet
from ethos_hil.lowering.formats.array_archive import BadArchive, ZipMembers, members
from ethos_hil.lowering.model.exported.document import RefusedPart, check_payloads, check_program, quote
from ethos_hil.lowering.upstream.names.exported_schema import TENSOR_GLOBALS
from ethos_hil.lowering.upstream.names.operators import register_operators
from ethos_hil.lowering.user_code.user_function import summary

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
                return _load(path, file)
            archive = check_archive(file)
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
        program = _load(path, archive)
    _check_inputs(path, program.example_inputs)
    return program


def _load(path: Path, file: BinaryIO) -> torch.export.ExportedProgram:
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
        raise UsageError(f"{path} has example inputs that are not arguments of a call", hint=_WRITE)
    if not all(isinstance(name, str) for name in inputs[1]):
        raise UsageError(f"{path} has keyword arguments that have no names", hint=_WRITE)


# The archive of a .pt2: read strictly, checked member by member, and written again for torch.
#
# torch gets what was checked here and nothing else. A difference between two readers of zip archives or of JSON is not
# a way around the checks, and members that lowering does not need (other models, extra files) never reach torch.

_PROGRAM = "models/model.json"
_INPUTS = "data/sample_inputs/model.pt"
_WEIGHTS = "data/weights/"
_CONSTANTS = "data/constants/"
_LISTS = {_WEIGHTS: "model_weights_config.json", _CONSTANTS: "model_constants_config.json"}
_FOUNDATION = {"archive_format": b"pt2", "archive_version": b"0", "byteorder": b"little", ".data/version": b"6\n"}
_MOST_ELEMENTS = 1 << 20
_MOST_RATIO = 100
"""A tensor may have this many elements for each one that is stored (a broadcast one stores few), or 2**20."""


def check_archive(file: BinaryIO) -> io.BytesIO:
    """Return the archive that torch may load.

    Args:
        file: the .pt2.

    Raises:
        RefusedPart: it has more than data; the error names the member and what it has.
        BadArchive: it is not a .pt2 of this version of torch, or is damaged.
    """
    with members(file, os.fstat(file.fileno()).st_size, packed=False) as archive:
        return _write(_check(_Members(archive)))


class _Members:
    """An archive's members without the name of the folder that all of them are in."""

    def __init__(self, archive: ZipMembers) -> None:
        self._archive = archive
        roots = {name.partition("/")[0] for name in archive.sizes}
        if len(roots) != 1:
            given = "no members" if not roots else f"the folders {quote(sorted(roots))}"
            raise BadArchive(f"expected one folder with everything in it, found {given}")
        self._root = roots.pop()
        self.names = frozenset(name.partition("/")[2] for name in archive.sizes)

    def read(self, name: str) -> bytes:
        return self._archive.read(f"{self._root}/{name}")


def _check(archive: _Members) -> dict[str, bytes]:
    foreign = sorted(name for name in archive.names if name.startswith("data/aotinductor/"))
    if foreign:
        raise RefusedPart(foreign[0], "compiled code")
    if _PROGRAM not in archive.names:
        models = sorted(name for name in archive.names if name.startswith("models/"))
        raise BadArchive(f"it has no {_PROGRAM}" + (f", only {quote(models)}" if models else ""))
    members = dict(_FOUNDATION)
    for name in ("archive_format", "archive_version", "byteorder"):
        if name in archive.names and archive.read(name).strip() != _FOUNDATION[name]:
            raise BadArchive(f"{name} is {quote(archive.read(name))}, expected {quote(_FOUNDATION[name])}")
    members[_PROGRAM] = json.dumps(check_program(archive.read(_PROGRAM), _PROGRAM)).encode()
    members[_INPUTS] = archive.read(_INPUTS)
    if members[_INPUTS]:
        check_tensors(members[_INPUTS], _INPUTS)
    for folder in _LISTS:
        members |= _check_payloads(archive, folder)
    return members


def _check_payloads(archive: _Members, folder: str) -> dict[str, bytes]:
    """Return the checked members that hold weights or constants, with the list of them."""
    pickled = f"{folder}model.pt"
    if pickled in archive.names:  # of earlier versions of torch
        data = archive.read(pickled)
        check_tensors(data, pickled)
        return {pickled: data}
    name = folder + _LISTS[folder]
    payloads = check_payloads(archive.read(name), name)
    members = {name: json.dumps(payloads).encode()}
    for payload in payloads["config"].values():
        path = folder + payload["path_name"]
        if path not in members:
            members[path] = archive.read(path)
        if payload["use_pickle"]:
            check_tensors(members[path], path)
        else:
            _check_size(path, members[path], payload["tensor_meta"])
    return members


def _check_size(path: str, data: bytes, meta: dict[str, Any] | None) -> None:
    """Check that a tensor is no larger than what is stored of it allows. Elements have at least one byte."""
    if meta is None:
        raise RefusedPart(path, "a tensor without a shape")
    sizes = [size.get("as_int") for size in meta["sizes"]]
    if any(size is None or size < 0 for size in sizes):
        raise RefusedPart(path, f"a tensor of shape {quote(sizes)}")
    elements = prod(sizes)
    if elements > max(_MOST_RATIO * len(data), _MOST_ELEMENTS) or (elements and not data):
        raise RefusedPart(path, f"a tensor of {elements:,} elements, of which {len(data):,} bytes are stored")


def _write(members: dict[str, bytes]) -> io.BytesIO:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(f"model/{name}"), data)
    stream.seek(0)
    return stream


_MEMBER = re.compile(
    r"[^/]+/(?:data\.pkl|byteorder|version|\.format_version|\.storage_alignment|data/\d+|\.data/serialization_id)"
)
_OPCODES = frozenset(
    {
        "APPEND", "APPENDS", "BINFLOAT", "BINGET", "BININT", "BININT1", "BININT2", "BINPERSID", "BINPUT", "BINUNICODE",
        "BUILD", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "GLOBAL", "LONG1", "LONG_BINGET", "LONG_BINPUT", "MARK",
        "NEWFALSE", "NEWTRUE", "NONE", "PROTO", "REDUCE", "SETITEM", "SETITEMS", "STOP", "TUPLE", "TUPLE1", "TUPLE2",
        "TUPLE3",
    }
)  # fmt: skip


def check_tensors(data: bytes, member: str) -> None:
    """Check that a member of a .pt2 is a file of torch.save with nothing but tensors, numbers, texts and containers.

    Raises:
        RefusedPart: it needs more, and what.
    """
    try:
        with members(io.BytesIO(data), len(data), packed=False) as inner:
            odd = [name for name in inner.sizes if not _MEMBER.fullmatch(name)]
            pickles = [name for name in inner.sizes if name.endswith("/data.pkl")]
            if odd or len(pickles) != 1:
                raise RefusedPart(member, f"not a file of torch.save with tensors: it has {quote(odd or pickles)}")
            _check_pickle(inner.read(pickles[0]), member)
    except BadArchive as error:
        raise RefusedPart(member, f"not a file of torch.save: {error}") from error


def _check_pickle(data: bytes, member: str) -> None:
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name not in _OPCODES:
                raise RefusedPart(member, f"a pickle with {opcode.name}, which tensors do not need")
            if opcode.name == "GLOBAL" and argument not in TENSOR_GLOBALS and not _is_dtype(str(argument)):
                wanted = str(argument).replace(" ", ".")
                raise RefusedPart(member, f"a pickle that needs {quote(wanted)}, and tensors do not")
    except RefusedPart:
        raise
    except Exception as error:  # pickletools raises ValueError and others for damaged pickles
        raise RefusedPart(member, f"a damaged pickle: {error}") from error


def _is_dtype(name: str) -> bool:
    import torch

    module, _, attribute = name.partition(" ")
    return module == "torch" and isinstance(getattr(torch, attribute, None), torch.dtype)
