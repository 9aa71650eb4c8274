"""The zip archive of a bundle: the same run makes the same bytes, and a stranger's is read as a stranger's.

Every member is named in `manifest.json`, with its size and digest. What differs is refused before anything is made of
it, and nothing is unpacked to the disk. The digests find damage; they are not a signature.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from ethos_hil.base.errors import UsageError
from ethos_hil.base.files import opened
from ethos_hil.lowering.formats.array_archive import BadArchive, ZipMembers, members
from ethos_hil.lowering.program.program_file import no_file

SCHEMA_VERSION = 3
_READ = (2, SCHEMA_VERSION)
"""2 had an image, the reference's answers and a second record as well: they are left alone."""
KIND = "ethos-hil bundle"
MANIFEST = "manifest.json"
_FORMS = "give a bundle that `ethos-hil bundle` wrote"
_HINT = "ask for the file again, or make the bundle again with `ethos-hil bundle`"
_TIME = (1980, 1, 1, 0, 0, 0)
"""Of all members: the first that a zip archive can have."""
_MOST_FILE = (2 << 30) - 1
_MOST_UNPACKED = 4 << 30
_MOST_MEMBERS = 1000
_MOST_LIST = 1 << 20
"""Bytes of the archive's own list of members."""
_MOST_MANIFEST = 1 << 20
_MOST_JSON = 256 << 20
_END = struct.Struct("<4sHHHHIIH")
"""The end of an archive (APPNOTE.TXT 4.3.16): signature, two disks, two counts, size and place of the list, comment."""
_END_SIGNATURE, _ZIP64_SIGNATURE, _ZIP64_SIZE = b"PK\5\6", b"PK\6\7", 20
_KINDS = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder"}


def pack(files: Mapping[str, bytes], facts: Mapping[str, Any]) -> bytes:
    """Return the archive of a bundle.

    Args:
        files: the members' contents by name.
        facts: what the manifest says beside the list of members.

    Raises:
        UsageError: it would be larger than what is read.
    """
    listed = {name: {"sha256": _digest(data), "bytes": len(data)} for name, data in sorted(files.items())}
    manifest = {"kind": KIND, "schema_version": SCHEMA_VERSION, **facts, "members": listed}
    everything = {**files, MANIFEST: (json.dumps(manifest, indent=1, allow_nan=False) + "\n").encode()}
    reason = ""
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED):  # the second where the first packs too well to be read
        data = _archive(everything, method)
        try:
            if len(data) > _MOST_FILE:
                raise BadArchive(f"it has {len(data):,} bytes, at most {_MOST_FILE:,} are read")
            _unpack(io.BytesIO(data), len(data))
        except BadArchive as error:
            reason = str(error)
            continue
        return data
    raise UsageError(f"the bundle could not be read again: {reason}", hint="bundle a run with fewer or smaller inputs")


def unpack(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the manifest of a bundle, and its members' contents by name, all checked against the manifest.

    Raises:
        UsageError: there is no such file, or it is refused; it says why.
    """
    try:
        with opened(path, most=_MOST_FILE) as file:
            return _unpack(file, os.fstat(file.fileno()).st_size)
    except FileNotFoundError:
        raise no_file(str(path), _FORMS) from None
    except BadArchive as error:
        raise refusal_of(path, str(error)) from error
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}", hint=_FORMS) from error


def refusal_of(path: Path, why: str) -> UsageError:
    """Return the error for a file that is not a usable bundle."""
    return UsageError(f"{path} is refused: {why}", hint=_HINT)


def json_member(files: Mapping[str, bytes], name: str) -> dict[str, Any]:
    """Return the JSON object in a member.

    Raises:
        BadArchive: there is no such member, or it is not a JSON object.
    """
    if name not in files:
        raise BadArchive(f"it has no member {name}")
    return _parse(files[name], name, _MOST_JSON)


def _archive(files: Mapping[str, bytes], method: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in sorted(files.items()):
            info = zipfile.ZipInfo(name, _TIME)
            info.create_system, info.external_attr = 3, (stat.S_IFREG | 0o644) << 16
            info.compress_type = method
            archive.writestr(info, data)
    return buffer.getvalue()


def _unpack(file: BinaryIO, size: int) -> tuple[dict[str, Any], dict[str, bytes]]:
    _check_end(file, size)
    with members(file, size) as archive:
        for info in zipfile.ZipFile(file).infolist():
            kind = stat.S_IFMT(info.external_attr >> 16)
            if kind not in (0, stat.S_IFREG):
                raise BadArchive(f"member {info.filename} is {_KINDS.get(kind, 'a special file')}")
        unpacked_size = sum(archive.sizes.values())
        if unpacked_size > _MOST_UNPACKED:
            raise BadArchive(f"it unpacks to {unpacked_size:,} bytes, at most {_MOST_UNPACKED:,} are read")
        manifest = _manifest(archive)
        listed = manifest["members"]
        _check_names(archive, listed)
        files = {}
        for name in listed:
            files[name] = archive.read(name)
            digest = _digest(files[name])
            if digest != listed[name]["sha256"]:
                raise BadArchive(f"member {name} has the SHA-256 {digest}, its manifest says {listed[name]['sha256']}")
    return manifest, files


def _check_end(file: BinaryIO, size: int) -> None:
    """Check how the archive ends, before its list of members is read: the list may be as large as the file."""
    file.seek(0)
    start = file.read(4)
    if start[:2] != b"PK":
        raise BadArchive("it is not a zip archive")
    file.seek(max(0, size - _END.size - _ZIP64_SIZE))
    tail = file.read()
    if len(tail) < _END.size or tail[-_END.size :][:4] != _END_SIGNATURE:
        raise BadArchive("it is cut short, or something was added at its end")
    _, *disks, count, total, list_size, list_at, comment = _END.unpack(tail[-_END.size :])
    if any(disks) or count != total or comment or tail.startswith(_ZIP64_SIGNATURE):
        raise BadArchive("it is a zip archive of another form than a bundle's")
    if total > _MOST_MEMBERS or list_size > _MOST_LIST:
        raise BadArchive(f"it has {total:,} members, listed in {list_size:,} bytes; at most {_MOST_MEMBERS:,} are read")
    if list_at + list_size + _END.size != size:
        raise BadArchive("it is cut short, or something was added to it")
    file.seek(0)


def _manifest(archive: ZipMembers) -> dict[str, Any]:
    if MANIFEST not in archive.sizes:
        raise BadArchive(f"it has no {MANIFEST}, so it is not a bundle")
    if archive.sizes[MANIFEST] > _MOST_MANIFEST:
        raise BadArchive(f"{MANIFEST} has {archive.sizes[MANIFEST]:,} bytes, at most {_MOST_MANIFEST:,} are read")
    manifest = _parse(archive.read(MANIFEST), MANIFEST, _MOST_MANIFEST)
    if manifest.get("kind") != KIND:
        raise BadArchive(f"{MANIFEST} says that it is {manifest.get('kind')!r:.100}, not {KIND!r}")
    version = manifest.get("schema_version")
    if version not in _READ:
        raise BadArchive(f"it has schema version {version!r:.100}, this program reads {SCHEMA_VERSION}")
    listed = manifest.get("members")
    whole = isinstance(listed, dict) and all(
        isinstance(member, dict) and isinstance(member.get("sha256"), str) and isinstance(member.get("bytes"), int)
        for member in listed.values()
    )
    if not whole:
        raise BadArchive(f"{MANIFEST} does not list the members")
    return manifest


def _check_names(archive: ZipMembers, listed: Mapping[str, Mapping[str, Any]]) -> None:
    there = archive.sizes.keys() - {MANIFEST}
    for name in sorted(there - listed.keys()):
        raise BadArchive(f"member {name} is not in its manifest")
    for name in sorted(listed.keys() - there):
        raise BadArchive(f"its manifest names {name}, which is not in it")
    for name, facts in listed.items():
        if archive.sizes[name] != facts["bytes"]:
            raise BadArchive(f"member {name} has {archive.sizes[name]:,} bytes, its manifest says {facts['bytes']:,}")


def _parse(data: bytes, name: str, most: int) -> dict[str, Any]:
    if len(data) > most:
        raise BadArchive(f"{name} has {len(data):,} bytes, at most {most:,} are read")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else error
        raise BadArchive(f"{name} is not JSON: {why}") from error
    if not isinstance(document, dict):
        raise BadArchive(f"{name} has no JSON object")
    return document


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
