"""Recorded runs: what a target, or the reference model, answered to one test, with all it takes to judge it again.

A recording is one zip archive: the artifact, the answer's arrays (.npz), and `recording.json` with the rest and with
what was asked for. It is written as `<test>.zip.new` and takes its name when the test is verified, so that a failing
run never replaces a good recording.

A recording says what *was* answered. It is stale as soon as the test would ask for something else: another declaration,
another file the model is made from, another NPU, memory mode or target, other versions of the compilers. Then, and when
it is missing or damaged, the test fails.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.outcome import Outcome, Progress
from ethos_hil.harness.targets.base import Capability, Target
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.errors import EthosHilError, UsageError
from ethos_hil.lowering.oracle.reference import ReferenceRun
from ethos_hil.lowering.versions import versions
from ethos_hil.results.verdict import FailureKind
from ethos_hil.suites.trial.model_fingerprint import digest_of, unchanged_in_session
from ethos_hil.suites.trial.outcome_json import Arrays, answer, answer_to_json, outcome, outcome_to_json

SCHEMA_VERSION = 1
_NOT_COMPARED = ("python", "ethos-hil-lowering")
"""Versions that do not make a recording stale: what lowers may change, what was recorded stays judged by today's."""
_HINT = "record it again: --record in place of --replay, on the target"


class RecordingError(EthosHilError):
    """There is no recording that answers what is asked.

    Kinds: "no-recording", "stale-recording", "damaged-recording".
    """

    kind = FailureKind.NO_RECORDING


@dataclass(frozen=True)
class TargetFacts:
    """What judging an answer needs to know of the target that gave it. See `Target`."""

    name: str
    kind: str
    soc: str
    npu: str
    cycle_provenance: str
    version: str
    capabilities: tuple[str, ...]

    @classmethod
    def of(cls, target: Target) -> TargetFacts:
        """Of a target."""
        able = tuple(sorted(capability.value for capability in target.capabilities()))
        return cls(target.name, target.kind, target.soc, target.npu, target.cycle_provenance, target.version, able)


class RecordedTarget(Target):
    """A target that answers as it did when it was recorded."""

    def __init__(self, board: TargetFacts, outcome: Outcome) -> None:
        self.name, self.kind, self.soc, self.npu = board.name, board.kind, board.soc, board.npu
        self.cycle_provenance, self.version = board.cycle_provenance, board.version
        self._capabilities = frozenset(map(Capability, board.capabilities))
        self._outcome = outcome

    def capabilities(self) -> frozenset[Capability]:
        """Those of the target that was recorded."""
        return self._capabilities

    def load(self, image: Image) -> None:
        """Nothing is loaded."""

    def run(self, *, timeout: float, progress: Progress | None = None) -> Outcome:
        """What was recorded."""
        return self._outcome

    def reset(self) -> None:
        """It is always idle."""


@dataclass(frozen=True)
class Recording:
    """One test's answer.

    Attributes:
        asked: what the test asks for, as `question` has it.
        files: digests of the files the model was made from, by path.
        artifact: what was computed.
        board: what computed it; None for the reference model.
        outcome: what a target brought back.
        answer: what the reference model answered, where it is not the oracle but what is tested.
    """

    asked: Mapping[str, Any]
    files: Mapping[str, str]
    artifact: Artifact
    board: TargetFacts | None = None
    outcome: Outcome | None = None
    answer: ReferenceRun | None = None

    def write(self, path: Path, root: Path) -> Path:
        """Write it beside `path`, whole or not at all; gives where it is.

        Args:
            path: what it shall be called when the test is verified: `accept` renames it.
            root: of the project; files below it are named relative to it.

        Raises:
            OSError: it can't be written.
        """
        arrays: Arrays = {}
        document = {
            "schema_version": SCHEMA_VERSION,
            "asked": dict(self.asked),
            "files": {_relative(Path(name), root): digest for name, digest in self.files.items()},
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
    def read(cls, path: Path, asked: Mapping[str, Any], root: Path) -> Recording:
        """The recording at `path`, which must answer what is `asked` of today's files.

        Raises:
            RecordingError: there is none, it is damaged, or it is stale.
        """
        try:
            with zipfile.ZipFile(path) as file, tempfile.TemporaryDirectory() as scratch:
                document = json.loads(file.read("recording.json"))
                _check_version(path, document["schema_version"])
                with np.load(io.BytesIO(file.read("arrays.npz")), allow_pickle=False) as loaded:
                    arrays = {name: loaded[name] for name in loaded.files}
                file.extractall(scratch, [name for name in file.namelist() if name.startswith("artifact/")])
                artifact = Artifact.load(Path(scratch, "artifact"))
            recording = cls(
                asked=document["asked"],
                files={str(root / name): digest for name, digest in document["files"].items()},
                artifact=artifact,
                board=None if document["board"] is None else _board(document["board"]),
                outcome=None if document["outcome"] is None else outcome(document["outcome"], arrays),
                answer=None if document["answer"] is None else answer(document["answer"], arrays),
            )
        except FileNotFoundError:
            raise RecordingError(f"there is no recording {path}", hint=_HINT) from None
        except (
            OSError,
            zipfile.BadZipFile,
            UsageError,
            ValueError,
            KeyError,
            TypeError,
            EOFError,
            zlib.error,
        ) as error:
            raise RecordingError(
                f"{path} is damaged: {error}", hint=_HINT, kind=FailureKind.DAMAGED_RECORDING
            ) from error
        recording._check_question(path, asked, root)
        return recording

    def _check_question(self, path: Path, asked: Mapping[str, Any], root: Path) -> None:
        """Raises RecordingError unless it answers what is asked."""
        changes = [
            f"{name} was {self.asked.get(name)}, is {value}"
            for name, value in asked.items()
            if value != self.asked.get(name)
        ]
        for name, digest in self.files.items():
            try:
                same = digest_of(Path(name)) == digest
            except OSError:
                same = False
            if not same:
                changes.append(f"{_relative(Path(name), root)} has changed")
        if changes:
            raise RecordingError(f"{path.name} is stale: {changes[0]}", hint=_HINT, kind=FailureKind.STALE_RECORDING)
        if (self.outcome is None or self.board is None) == (self.answer is None):
            raise RecordingError(f"{path.name} holds no answer", hint=_HINT, kind=FailureKind.DAMAGED_RECORDING)
        if self.outcome is not None and self.outcome.program_hash.hex() != self.artifact.sha256:
            what = f"{path.name} is an answer of another program than the one in it"
            raise RecordingError(what, hint=_HINT, kind=FailureKind.DAMAGED_RECORDING)


def check_files_unchanged(files: Mapping[str, str]) -> None:
    """Raises RecordingError where it is not sure that the files are what was run."""
    if not unchanged_in_session(files):
        what = "a file that the model is made from was written since the session began"
        raise RecordingError(what, hint="run it again", kind=FailureKind.STALE_RECORDING)


def accept(fresh: Path) -> None:
    """Give a recording its name, in place of one that has it."""
    fresh.replace(fresh.with_name(fresh.name.removesuffix(".new")))


def question(name: str, key: tuple[str, ...], target: str, *, strict: bool) -> dict[str, Any]:
    """What a test asks for, apart from the files its model is made from.

    Args:
        name: of the test.
        key: what of its target decides the artifact.
        target: that runs it.
        strict: whether it fails on hazards.
    """
    compared = {name: version for name, version in versions().items() if name not in _NOT_COMPARED}
    return {"test": name, "program": list(key), "target": target, "strict": strict, **compared}


def _check_version(path: Path, version: object) -> None:
    if version != SCHEMA_VERSION:
        what = f"{path} has schema version {version}, this program reads {SCHEMA_VERSION}"
        raise RecordingError(what, hint=_HINT, kind=FailureKind.STALE_RECORDING)


def _relative(path: Path, root: Path) -> str:
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def _board(data: Mapping[str, Any]) -> TargetFacts:
    return TargetFacts(**{**data, "capabilities": tuple(data["capabilities"])})
