"""Recorded runs: the answer of a target, or of the reference model, to one test, and the data to judge it again.

A recording is one zip archive: the artifact, the answer's arrays (.npz), and `recording.json` with the rest and with
    the question. It is written as `<test>.zip.new` and renamed when the test is verified, so that a failing run never
    replaces a good recording.

A recording has a past answer. It is stale as soon as the test's question differs: another declaration, another file or
environment variable of the model, another NPU, memory mode or target, other versions of the compilers. What the test
imports and reads today must be among what the recording names: it does not decide itself what makes it stale. Where a
model depends on what cannot be known, a recording of it is stale at once. The test fails if its recording is stale,
missing or damaged.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ethos_hil.base.errors import EthosHilError, UsageError
from ethos_hil.base.question import Question
from ethos_hil.base.regular_file import opened
from ethos_hil.base.typed_json import from_json
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.link.outcome_json import Arrays, answer, answer_to_json, outcome, outcome_to_json
from ethos_hil.harness.targets.recorded import TargetFacts
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.versions import versions
from ethos_hil.lowering.formats.array_archive import ZipMembers, members, read_arrays
from ethos_hil.lowering.made_from.file_watch import Reads
from ethos_hil.lowering.made_from.model_fingerprint import Fingerprint, changed_file
from ethos_hil.lowering.oracle.reference import ReferenceRun

SCHEMA_VERSION = 4
_NOT_COMPARED = ("python", "ethos-hil-lowering", "ethos-hil-patches", "ethos-hil-installed")
"""Versions that do not make a recording stale: lowering may change, and today's code judges the old answer. Another
machine may have another build of the same version.
"""
_HINT = "record it again: --record in place of --replay, on the target"


class RecordingError(EthosHilError):
    """No recording answers the question.

    Kinds: "no-recording", "stale-recording", "damaged-recording".
    """

    kind = FailureKind.NO_RECORDING


@dataclass(frozen=True)
class Recording:
    """One test's answer.

    Attributes:
        asked: the test's question, in the form of `question_in_recording`.
        made_from: what the model was made from.
        artifact: the program that was computed.
        board: the target that computed it; None for the reference model.
        outcome: the target's outcome.
        answer: the reference model's answer, where the reference model is not the oracle but under test.
    """

    asked: Mapping[str, Any]
    made_from: Fingerprint
    artifact: Artifact
    board: TargetFacts | None = None
    outcome: Outcome | None = None
    answer: ReferenceRun | None = None

    def write(self, path: Path, root: Path) -> Path:
        """Write it beside `path`, whole or not at all. Return its path.

        Args:
            path: its path once the test is verified; `accept` renames it.
            root: the project's folder; files below it are named relative to it.

        Raises:
            OSError: it cannot be written.
        """
        arrays: Arrays = {}
        document = {
            "schema_version": SCHEMA_VERSION,
            "asked": dict(self.asked),
            "files": {_relative(Path(name), root): digest for name, digest in self.made_from.files.items()},
            "variables": dict(self.made_from.variables),
            "unknown": list(self.made_from.unknown),
            "board": None if self.board is None else asdict(self.board),
            "outcome": None if self.outcome is None else outcome_to_json(self.outcome, arrays),
            "answer": None if self.answer is None else answer_to_json(self.answer, arrays),
        }
        packed = io.BytesIO()
        np.savez(packed, **arrays)
        fresh = path.with_name(path.name + ".new")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as scratch:
            folder = Path(scratch, "artifact")
            folder.mkdir()
            self.artifact.save(folder)
            archive = Path(scratch, path.name)
            with archive.open("wb") as stream, zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
                file.writestr("recording.json", json.dumps(document, indent=1))
                file.writestr("arrays.npz", packed.getvalue())
                for part in sorted(folder.iterdir()):
                    file.write(part, f"artifact/{part.name}")
                file.close()
                stream.flush()
                os.fsync(stream.fileno())
            archive.replace(fresh)
        return fresh

    @classmethod
    def read(cls, path: Path, asked: Mapping[str, Any], root: Path, today: Reads) -> Recording:
        """Return the recording at `path`, which must answer the question `asked`.

        Args:
            path: the archive.
            asked: the question, in the form of `question_in_recording`.
            root: the project's folder.
            today: what importing the test's files asked for in this session.

        Raises:
            RecordingError: the recording is missing, damaged, or stale.
        """
        try:
            with _members(path) as archive, tempfile.TemporaryDirectory() as scratch:
                document = json.loads(archive.read("recording.json"))
                _check_version(path, document["schema_version"])
                arrays = read_arrays(io.BytesIO(archive.read("arrays.npz")))
                for name in archive.sizes:
                    folder, _, part = name.rpartition("/")
                    if folder == "artifact" and part:
                        Path(scratch, part).write_bytes(archive.read(name))
                artifact = Artifact.load(Path(scratch))
            recording = cls(
                asked=document["asked"],
                made_from=Fingerprint(
                    {str(root / name): digest for name, digest in document["files"].items()},
                    dict(document["variables"]),
                    tuple(document["unknown"]),
                ),
                artifact=artifact,
                board=None if document["board"] is None else from_json(TargetFacts, document["board"]),
                outcome=None if document["outcome"] is None else outcome(document["outcome"], arrays),
                answer=None if document["answer"] is None else answer(document["answer"], arrays),
            )
        except FileNotFoundError:
            raise RecordingError(f"there is no recording {path}", hint=_HINT) from None
        except (
            OSError,
            RecursionError,
            UsageError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
        ) as error:
            raise RecordingError(
                f"{path} is damaged: {error}", hint=_HINT, kind=FailureKind.DAMAGED_RECORDING
            ) from error
        recording._check_question(path, asked, root, today)
        return recording

    def _check_question(self, path: Path, asked: Mapping[str, Any], root: Path, today: Reads) -> None:
        """Raise RecordingError unless it answers the question `asked`."""
        changes = [
            f"{name} was {self.asked.get(name)}, is {value}"
            for name, value in asked.items()
            if value != self.asked.get(name)
        ]
        outdated = self.made_from.why_outdated(today)
        if outdated is not None:
            changes.append(outdated.replace(f"{root}{os.sep}", ""))
        if changes:
            raise RecordingError(f"{path.name} is stale: {changes[0]}", hint=_HINT, kind=FailureKind.STALE_RECORDING)
        if (self.outcome is None or self.board is None) == (self.answer is None):
            raise RecordingError(f"{path.name} holds no answer", hint=_HINT, kind=FailureKind.DAMAGED_RECORDING)
        if self.outcome is not None and self.outcome.program_hash.hex() != self.artifact.sha256:
            what = f"{path.name} is an answer of another program than the one in it"
            raise RecordingError(what, hint=_HINT, kind=FailureKind.DAMAGED_RECORDING)


@contextmanager
def _members(path: Path) -> Iterator[ZipMembers]:
    with opened(path) as file, members(file, os.fstat(file.fileno()).st_size) as archive:
        yield archive


def check_files_unchanged(files: Iterable[str]) -> None:
    """Raise RecordingError if one of the files may differ from the version that ran."""
    path = changed_file(files)
    if path is not None:
        what = f"{path}, which the model is made from, was written since the session started"
        raise RecordingError(what, hint="run it again", kind=FailureKind.STALE_RECORDING)


def accept(fresh: Path) -> None:
    """Rename a new recording to its final name, in place of an old one."""
    fresh.replace(fresh.with_name(fresh.name.removesuffix(".new")))


def question_in_recording(name: str, key: tuple[str, ...], question: Question) -> dict[str, Any]:
    """Return a test's question as a recording has it, apart from the files that its model is made from.

    Args:
        name: name of the test.
        key: the properties of its target that decide the artifact.
        question: where it runs, and what it is held to. Recordings without the rules of a board do not say so.
    """
    compared = {name: version for name, version in versions().items() if name not in _NOT_COMPARED}
    rules = {"strict": question.strict} | ({"strict_board": True} if question.strict_board else {})
    return {"test": name, "program": list(key), "target": question.target, **rules, **compared}


def _check_version(path: Path, version: object) -> None:
    if version != SCHEMA_VERSION:
        what = f"{path} has schema version {version}, this program reads {SCHEMA_VERSION}"
        raise RecordingError(what, hint=_HINT, kind=FailureKind.STALE_RECORDING)


def _relative(path: Path, root: Path) -> str:
    return str(path.relative_to(root) if path.is_relative_to(root) else path)
