"""The archive of a .pt2: read strictly, checked member by member, and written anew for torch.

torch gets what was checked here and nothing else. A difference between two readers of zip archives or of JSON is no
way around the checks, and members that lowering does not need (other models, extra files) never reach torch.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from math import prod
from typing import Any, BinaryIO

from ethos_hil.lowering.formats.zip_members import BadArchive, ZipMembers, members
from ethos_hil.lowering.model.exported.document import checked_payloads, checked_program
from ethos_hil.lowering.model.exported.refused import RefusedPart, quoted
from ethos_hil.lowering.model.exported.tensor_pickle import check_tensors

_PROGRAM = "models/model.json"
_INPUTS = "data/sample_inputs/model.pt"
_WEIGHTS = "data/weights/"
_CONSTANTS = "data/constants/"
_LISTS = {_WEIGHTS: "model_weights_config.json", _CONSTANTS: "model_constants_config.json"}
_FOUNDATION = {"archive_format": b"pt2", "archive_version": b"0", "byteorder": b"little", ".data/version": b"6\n"}
_MOST_ELEMENTS = 1 << 20
_MOST_RATIO = 100
"""A tensor may have this many elements for each one that is stored (a broadcast one stores few), or 2**20."""


def checked_archive(file: BinaryIO) -> io.BytesIO:
    """Return the archive that torch may load.

    Args:
        file: the .pt2.

    Raises:
        RefusedPart: it has more than data; the error names the member and what it has.
        BadArchive: it is not a .pt2 of this version of torch, or is damaged.
    """
    with members(file, os.fstat(file.fileno()).st_size, packed=False) as archive:
        return _written(_checked(_Members(archive)))


class _Members:
    """An archive's members without the name of the folder that all of them are in."""

    def __init__(self, archive: ZipMembers) -> None:
        self._archive = archive
        roots = {name.partition("/")[0] for name in archive.sizes}
        if len(roots) != 1:
            found = "no members" if not roots else f"the folders {quoted(sorted(roots))}"
            raise BadArchive(f"expected one folder with everything in it, found {found}")
        self._root = roots.pop()
        self.names = frozenset(name.partition("/")[2] for name in archive.sizes)

    def read(self, name: str) -> bytes:
        return self._archive.read(f"{self._root}/{name}")


def _checked(archive: _Members) -> dict[str, bytes]:
    foreign = sorted(name for name in archive.names if name.startswith("data/aotinductor/"))
    if foreign:
        raise RefusedPart(foreign[0], "compiled code")
    if _PROGRAM not in archive.names:
        models = sorted(name for name in archive.names if name.startswith("models/"))
        raise BadArchive(f"it has no {_PROGRAM}" + (f", only {quoted(models)}" if models else ""))
    found = dict(_FOUNDATION)
    for name in ("archive_format", "archive_version", "byteorder"):
        if name in archive.names and archive.read(name).strip() != _FOUNDATION[name]:
            raise BadArchive(f"{name} is {quoted(archive.read(name))}, expected {quoted(_FOUNDATION[name])}")
    found[_PROGRAM] = json.dumps(checked_program(archive.read(_PROGRAM), _PROGRAM)).encode()
    found[_INPUTS] = archive.read(_INPUTS)
    if found[_INPUTS]:
        check_tensors(found[_INPUTS], _INPUTS)
    for folder in _LISTS:
        found |= _checked_payloads(archive, folder)
    return found


def _checked_payloads(archive: _Members, folder: str) -> dict[str, bytes]:
    """Return the checked members that hold weights or constants, with the list of them."""
    pickled = f"{folder}model.pt"
    if pickled in archive.names:  # of earlier versions of torch
        data = archive.read(pickled)
        check_tensors(data, pickled)
        return {pickled: data}
    name = folder + _LISTS[folder]
    payloads = checked_payloads(archive.read(name), name)
    found = {name: json.dumps(payloads).encode()}
    for payload in payloads["config"].values():
        path = folder + payload["path_name"]
        if path not in found:
            found[path] = archive.read(path)
        if payload["use_pickle"]:
            check_tensors(found[path], path)
        else:
            _check_size(path, found[path], payload["tensor_meta"])
    return found


def _check_size(path: str, data: bytes, meta: dict[str, Any] | None) -> None:
    """Check that a tensor is no larger than what is stored of it allows. Elements have at least one byte."""
    if meta is None:
        raise RefusedPart(path, "a tensor without a shape")
    sizes = [size.get("as_int") for size in meta["sizes"]]
    if any(size is None or size < 0 for size in sizes):
        raise RefusedPart(path, f"a tensor of shape {quoted(sizes)}")
    elements = prod(sizes)
    if elements > max(_MOST_RATIO * len(data), _MOST_ELEMENTS) or (elements and not data):
        raise RefusedPart(path, f"a tensor of {elements:,} elements, of which {len(data):,} bytes are stored")


def _written(found: dict[str, bytes]) -> io.BytesIO:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, data in found.items():
            archive.writestr(zipfile.ZipInfo(f"model/{name}"), data)
    stream.seek(0)
    return stream
