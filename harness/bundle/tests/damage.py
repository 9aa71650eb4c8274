"""Ways to damage a bundle, or to make one that a stranger means ill with."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import stat
import struct
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ethos_hil.base.question import GROUPS
from ethos_hil.harness.bundle.archive import KIND, MANIFEST, SCHEMA_VERSION, pack

Files = dict[str, bytes]
Facts = dict[str, Any]
REGULAR = stat.S_IFREG | 0o644


def zipped(files: Mapping[str, bytes], **details: Any) -> bytes:
    """Return a zip archive of files as they are; `details` change the entry of the one called `of`."""
    buffer = io.BytesIO()
    of = details.pop("of", "")
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name)
            info.external_attr, info.compress_type = REGULAR << 16, zipfile.ZIP_DEFLATED
            for field, value in details.items() if name == of else ():
                setattr(info, field, value)
            archive.writestr(info, data)
    return buffer.getvalue()


def with_manifest(files: Files, facts: Facts, **changes: Any) -> Files:
    """Return a bundle's members with their manifest, and with what is changed in it."""
    listed = {name: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)} for name, data in files.items()}
    document = {"kind": KIND, "schema_version": SCHEMA_VERSION, **facts, "members": listed} | changes
    return {**files, MANIFEST: json.dumps(document).encode()}


def signed(files: Files, facts: Facts) -> bytes:
    """Return a bundle whose digests are all right, whatever is in it."""
    members = {name: data for name, data in files.items() if name.startswith("artifact/") and not name.endswith("SUMS")}
    sums = "".join(
        f"{hashlib.sha256(data).hexdigest()}  {name.removeprefix('artifact/')}\n"
        for name, data in sorted(members.items())
    )
    program = hashlib.sha256(files["artifact/model.pte"]).hexdigest()
    return pack(files | {"artifact/SHA256SUMS": sums.encode()}, facts | {"program_sha256": program})


def edited(name: str, change: Callable[[Any], object]) -> Callable[[Files, Facts], bytes]:
    """Return a damage: the JSON in a member is changed, and its digests are made right."""

    def damage(files: Files, facts: Facts) -> bytes:
        document = json.loads(files[name])
        change(document)
        return signed(files | {name: json.dumps(document).encode()}, facts)

    return damage


def replaced(name: str, data: bytes) -> Callable[[Files, Facts], bytes]:
    """Return a damage: a member has another content, and its digests are made right."""
    return lambda files, facts: signed(files | {name: data}, facts)


def asked(**changes: Any) -> Callable[[Files, Facts], bytes]:
    """Return a damage: what was asked is something else."""

    def damage(files: Files, facts: Facts) -> bytes:
        question = copy.deepcopy(facts["question"])
        for name, value in changes.items():
            group = next((group for group, names in GROUPS.items() if name in names), "judge")
            question[group][name] = value
        return signed(files, facts | {"question": question})

    return damage


def npz(**arrays: Any) -> bytes:
    """Return an .npz, with pickles where there are objects in it."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def entry(data: bytes, name: str, field: int, value: int, form: str = "<I") -> bytes:
    """Return an archive with another number in the entry of a member, both in the list and before its data.

    Args:
        data: the archive.
        name: of the member.
        field: offset in an entry of the list (APPNOTE.TXT 4.3.12); before the data it is two bytes earlier.
        value, form: the number.
    """
    changed = bytearray(data)
    for signature, header, shift in ((b"PK\1\2", 46, 0), (b"PK\3\4", 30, -2)):
        at = -1
        while (at := changed.find(signature, at + 1)) >= 0:
            if changed[at + header : at + header + len(name)] == name.encode():
                struct.pack_into(form, changed, at + field + shift, value)
    return bytes(changed)
