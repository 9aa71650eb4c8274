"""A bundle may be a stranger's: whatever is wrong with it is one line, and nothing of it is executed or written."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import os
import random
import re
import stat
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ethos_hil.base.errors import EthosHilError, UsageError
from ethos_hil.base.options import GROUPS
from ethos_hil.base.testing.recorded import Recorded, plain
from ethos_hil.harness.bundle.archive import KIND, MANIFEST, SCHEMA_VERSION, pack
from ethos_hil.harness.bundle.run_bundle import RunBundle, replay
from ethos_hil.harness.bundle.tests.conftest import ROOT, FailedRun
from ethos_hil.harness.testing.command import Run, assert_one_clear_line

Files = dict[str, bytes]
Facts = dict[str, Any]
Damage = Callable[[Files, Facts], bytes]
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


def edited(name: str, change: Callable[[Any], object]) -> Damage:
    """Return a damage: the JSON in a member is changed, and its digests are made right."""

    def damage(files: Files, facts: Facts) -> bytes:
        document = json.loads(files[name])
        change(document)
        return signed(files | {name: json.dumps(document).encode()}, facts)

    return damage


def replaced(name: str, data: bytes) -> Damage:
    """Return a damage: a member has another content, and its digests are made right."""
    return lambda files, facts: signed(files | {name: data}, facts)


def asked(**changes: Any) -> Damage:
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


_OWNED = Path("owned")


class Owner:
    """What a stranger's pickle may be: reading it makes a file."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (str(_OWNED), "w"))


def _special(kind: int) -> Damage:
    return lambda files, facts: zipped(with_manifest(files, facts), of="inputs.npz", external_attr=(kind | 0o644) << 16)


def _named(*names: str) -> Damage:
    return lambda files, facts: zipped(with_manifest(files | dict.fromkeys(names, b""), facts))


def _twice(files: Files, facts: Facts) -> bytes:
    whole = zipped(with_manifest(files, facts) | {"inputs.npY": b"other"})
    return whole.replace(b"inputs.npY", b"inputs.npz")


def _manifest(text: bytes) -> Damage:
    return lambda files, facts: zipped(files | {MANIFEST: text})


def _entry(field: int, value: int, form: str = "<I") -> Damage:
    return lambda files, facts: entry(zipped(with_manifest(files, facts)), "inputs.npz", field, value, form)


def _longer_than_declared(files: Files, facts: Facts) -> bytes:
    """Return an archive in which a member unpacks to more than it declares, and the manifest agrees with the lie."""
    whole = with_manifest(files | {"bomb": bytes(16)}, facts)
    return entry(zipped(whole | {"bomb": bytes(32 << 20)}), "bomb", 24, 16)


def _zip64(files: Files, facts: Facts) -> bytes:
    data = zipped(with_manifest(files, facts))
    return data[:-22] + b"PK\6\7" + bytes(16) + data[-22:]


CONTAINER: dict[str, Damage] = {
    "cut by a byte": lambda files, facts: pack(files, facts)[:-1],
    "cut in the list": lambda files, facts: pack(files, facts)[:-300],
    "a byte more": lambda files, facts: pack(files, facts) + b"\0",
    "no zip": lambda files, facts: b"%PDF-1.7 " * 10,
    "zip64": _zip64,
    "no bundle": lambda files, facts: zipped({"a.txt": b"text"}),
    "traversal": _named("../evil"),
    "traversal inside": _named("artifact/../../evil"),
    "absolute": _named("/tmp/evil"),
    "backslash": _named("..\\evil"),
    "the artifact's folder itself": _named("artifact/."),
    "a name that no disk takes": _named("artifact/" + "a" * 300),
    "link": _special(stat.S_IFLNK),
    "folder": _special(stat.S_IFDIR),
    "twice": _twice,
    "not in the manifest": lambda files, facts: zipped({**with_manifest(files, facts), "more.txt": b"x"}),
    "not in the archive": lambda files, facts: zipped(
        files | {MANIFEST: with_manifest(files | {"less.txt": b""}, facts)[MANIFEST]}
    ),
    "content": lambda files, facts: zipped(with_manifest(files, facts) | {"record.json": files["record.json"].upper()}),
    "CRC": _entry(16, 7),
    "encrypted": _entry(8, 1, "<H"),
    "method": _entry(10, 12, "<H"),
    "declares 4 GB": _entry(24, 0xFFFFFFF0),
    "bomb": lambda files, facts: zipped(with_manifest(files | {"zeros": bytes(128 << 20)}, facts)),
    "bomb that lies": _longer_than_declared,
    "many members": _named(*(f"m{index}" for index in range(1000))),
    "manifest of something else": _manifest(b'{"kind": "wheel"}'),
    "manifest of a later release": lambda files, facts: zipped(with_manifest(files, facts, schema_version=4)),
    "manifest without members": lambda files, facts: zipped(with_manifest(files, facts, members=[])),
    "manifest is a list": _manifest(b"[]"),
    "manifest is not JSON": _manifest(b"{"),
    "manifest is nested": _manifest(b"[" * 200_000),
    "manifest is giant": _manifest(b" " * (2 << 20)),
    "manifest without a question": lambda files, facts: pack(files, {"soc": facts["soc"]}),
}


CONTENT: dict[str, Damage] = {
    "program cut": replaced("artifact/model.pte", b"x" * 40),
    "program for another backend": lambda files, facts: replaced(
        "artifact/model.pte", files["artifact/model.pte"].replace(b"EthosUBackend", b"EthosXBackend")
    )(files, facts),
    "another delegate beside the program": replaced("artifact/delegate-0.vela", b"vela"),
    "TOSA damaged": replaced("artifact/delegate-0.tosa", bytes(range(64))),
    "artifact's digests": lambda files, facts: pack(files | {"artifact/SHA256SUMS": b"../../evil  x\n"}, facts),
    "a cycle count in words": edited(
        "artifact/artifact.json",
        lambda document: document["methods"][0]["delegates"][0]["npu_ops"][0].update(vela_cycles="many"),
    ),
    "another NPU": asked(npu="ethos-u55-256"),
    "another method": asked(method="backward"),
    "repeated for ever": asked(repeat=10**12),
    "inputs of another shape": replaced("inputs.npz", npz(a=np.zeros(3, np.float32))),
    "inputs with objects": replaced("inputs.npz", npz(a=np.array([Owner()], object))),
    "answers with objects": replaced("recording.npz", npz(run0=np.array([Owner()], object))),
    "record of something else": replaced("record.json", b'{"schema_version": 9}'),
    "answer of another program": edited(
        "recording.json", lambda document: document["outcome"].update(program_hash="ab" * 32)
    ),
    "answer of another question": edited(
        "recording.json", lambda document: document["outcome"]["runs"][0].update(input_set=1)
    ),
    "answer of a toaster": edited("recording.json", lambda document: document["board"].update(kind="toaster")),
    "a target that can all": edited("recording.json", lambda document: document["board"].update(capabilities=["all"])),
    "a wall time without an end": edited(
        "recording.json", lambda document: document["outcome"]["seconds"].update(total=1e300)
    ),
}


@pytest.mark.parametrize("what", [*CONTAINER, *CONTENT])
def test_a_damaged_bundle_is_refused_by_name(
    failed: FailedRun, ethos_hil: Run, here: Path, what: str, recorded: Recorded
) -> None:
    (here / "sent.zip").write_bytes((CONTAINER | CONTENT)[what](dict(failed.files), dict(failed.facts)))
    before = sorted(here.parent.rglob("*"))
    ended = ethos_hil("run", "sent.zip")
    assert ended.status == 2
    assert "sent.zip is refused" in ended.error
    recorded.check(plain(re.sub(r"\d[\d,]*(?= bytes)|(?<=unpacks to )[\d,]+", "[some]", ended.error), [ROOT]))
    assert sorted(here.parent.rglob("*")) == before
    assert not _OWNED.exists()


def test_what_is_refused_is_whole_without_its_damage(failed: FailedRun, ethos_hil: Run, here: Path) -> None:
    """The helpers that damage a bundle make one that runs, where they change nothing."""
    files = dict(failed.files)
    makers: dict[str, Damage] = {
        "signed": signed,
        "edited": edited("artifact/artifact.json", lambda document: None),
        "asked": asked(),
        "zipped": lambda files, facts: zipped(with_manifest(files, facts)),
    }
    for name, make in makers.items():
        (here / "sent.zip").write_bytes(make(files, dict(failed.facts)))
        result = ethos_hil("run", "sent.zip", "--replay")
        assert result.status == 1, (name, result.err)
        assert "it ended as the run in sent.zip" in result.out, name


def test_text_of_a_bundle_stays_text(failed: FailedRun, ethos_hil: Run, here: Path) -> None:
    (here / "sent.zip").write_bytes(asked(model="\x1b[2J[/red]net\u202e\n")(failed.files, dict(failed.facts)))
    result = ethos_hil("run", "sent.zip", "--replay")
    assert result.status == 1
    for text in (result.out, result.err):
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "[/red]net" in text


def test_objects_would_make_a_file(here: Path) -> None:
    (here / "a.npz").write_bytes(npz(a=np.array([Owner()], object)))
    with zipfile.ZipFile(here / "a.npz") as archive, archive.open("a.npy") as member:
        np.lib.format.read_array(member, allow_pickle=True)
    assert (here / _OWNED).exists()


def test_a_file_that_is_none_is_refused(here: Path, ethos_hil: Run) -> None:
    os.mkfifo(here / "pipe.zip")
    (here / "folder.zip").mkdir()
    assert_one_clear_line(ethos_hil("run", "pipe.zip"), 2, "cannot read pipe.zip", "named pipe")
    assert_one_clear_line(ethos_hil("run", "folder.zip"), 2, "cannot read folder.zip", "folder")


def test_bytes_that_change_are_refused_or_change_nothing(failed: FailedRun, tmp_path: Path) -> None:
    files = dict(failed.files)
    whole = pack(files, dict(failed.facts))
    path = tmp_path / "sent.zip"
    path.write_bytes(whole)
    expected = RunBundle.read(path).record
    chance = random.Random(17)
    refused = 0
    for _ in range(300):
        data = bytearray(whole)
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        try:
            assert RunBundle.read(path).record == expected
        except UsageError:
            refused += 1
    assert refused > 200


def _leaves(document: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(document, dict | list):
        for key in document if isinstance(document, dict) else range(len(document)):
            yield from _leaves(document[key], (*way, key))
    yield way


@pytest.mark.parametrize("name", ["recording.json", "artifact/artifact.json", "record.json", "question"])
def test_values_of_another_kind_are_refused_or_judged(failed: FailedRun, tmp_path: Path, name: str) -> None:
    """Whatever a stranger writes for a value: it is refused, or the answer is judged, and nothing else happens."""
    files = dict(failed.files)
    question_only = name == "question"
    document = failed.facts["question"] if question_only else json.loads(files[name])
    ways = [way for way in _leaves(document) if way]
    chance = random.Random(name)
    path = tmp_path / "sent.zip"
    statuses: set[int] = set()
    for way in chance.sample(ways, min(len(ways), 40)):
        place = changed = json.loads(json.dumps(document))
        for key in way[:-1]:
            place = place[key]
        place[way[-1]] = chance.choice([None, "x", -1, 1 << 40, 0.5, [], {}, True, ["x"], {"x": 1}])
        facts = dict(failed.facts)
        if question_only:
            facts["question"] = changed
        else:
            files[name] = json.dumps(changed).encode()
        path.write_bytes(signed(files, facts))
        try:
            replay(RunBundle.read(path))
        except EthosHilError as error:
            statuses.add(error.exit_status)
    assert statuses <= {1, 2}
