"""One run as data: the program, its inputs, what was asked and answered, and the record."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ethos_hil.base.errors import UsageError
from ethos_hil.base.question import GROUP_OF, GROUPS, OPTIONS, Question
from ethos_hil.base.record import Record
from ethos_hil.harness.bundle.archive import json_member, packed, refused, unpacked
from ethos_hil.harness.bundle.arrays import (
    named_arrays,
    packed_sets,
    references_of_json,
    references_to_json,
    sets_of,
)
from ethos_hil.harness.bundle.readme import readme
from ethos_hil.harness.bundle.sound import check_artifact, check_executions, check_outcome
from ethos_hil.harness.bundle.typed import mistyped
from ethos_hil.harness.image.inputs import InputSet
from ethos_hil.harness.link.outcome import Outcome
from ethos_hil.harness.link.outcome_json import Arrays, outcome, outcome_to_json
from ethos_hil.harness.targets.recorded import TargetFacts
from ethos_hil.harness.verdict.verify import HOST, REFERENCE
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.array_archive import BadArchive, packed_arrays
from ethos_hil.lowering.oracle.reference import ReferenceRun
from ethos_hil.lowering.program.output_names import archive_names

ARTIFACT = "artifact/"
PROGRAM = f"{ARTIFACT}model.pte"
INPUTS, EXPECTED, IMAGE, RECORD, AGAIN = "inputs.npz", "expected.npz", "image.elf", "record.json", "again.json"
README = "README.txt"
_DEMANDS = ("allow_cpu_only", "require_delegated", "max_cpu_ops")
_OLD_DEMANDS = ("allow_cpu_only", "require_all", "most")


@dataclass(frozen=True)
class RecordedAnswer:
    """What a target answered when the bundle was made."""

    board: TargetFacts
    outcome: Outcome


@dataclass(frozen=True)
class RunBundle:
    """One run.

    Attributes:
        record: as the run kept it.
        question: what was asked, as far as it decides the answer; the program and its data are in the bundle.
        soc: name of the target's system on chip.
        artifact: the program, seen from the method that ran, without its ETRecord.
        input_sets: its inputs.
        image: the firmware with the program and the inputs, as it ran; b"" where it could not be packed. Never run
            from a bundle.
        image_hash, firmware_sha256: digests of both, hexadecimal, or "".
        expected: the outputs that are right, where somebody beside the reference says so: for each input set, or for
            each execution.
        again: the record of the run that was made for the bundle, without wall times; None if there was none.
        answer: what the target answered in that run; None if it did not answer.
        references: what the reference answered, for each input set.
    """

    record: Record
    question: Question
    soc: str
    artifact: Artifact
    input_sets: tuple[InputSet, ...]
    image: bytes = b""
    image_hash: str = ""
    firmware_sha256: str = ""
    expected: tuple[InputSet, ...] | None = None
    again: Record | None = None
    answer: RecordedAnswer | None = None
    references: tuple[ReferenceRun, ...] = ()

    @property
    def repeat(self) -> int:
        """Executions of each input set."""
        return self.question.repeat or 1

    @property
    def seen(self) -> Record:
        """The newest record: of the run that was made for the bundle, if there was one."""
        return self.again or self.record

    def packed(self) -> bytes:
        """Return the bundle as a file. Raises UsageError if it is too large."""
        files = {f"{ARTIFACT}{name}": data for name, data in _artifact_files(self.artifact).items()}
        names = [f"input_{index}" for index in range(len(self.artifact.plan.input_tensors))]
        files[INPUTS] = packed_sets(self.input_sets, names)
        files[RECORD] = _json(self.record.to_json())
        if self.image:
            files[IMAGE] = self.image
        if self.again is not None:
            files[AGAIN] = _json(self.again.to_json())
        if self.expected is not None:
            files[EXPECTED] = packed_sets(self.expected, archive_names(self.artifact.outputs))
        if self.answer is not None:
            arrays: Arrays = {}
            document = {
                "board": dataclasses.asdict(self.answer.board),
                "outcome": outcome_to_json(self.answer.outcome, arrays),
            }
            files |= _with_arrays("recording", document, arrays)
        if self.references:
            arrays = {}
            source = REFERENCE if any(each.delegate_outputs for each in self.references) else HOST
            answers = references_to_json(self.references, arrays)
            files |= _with_arrays("reference", {"source": source, "answers": answers}, arrays)
        files[README] = readme(self.record, self.again, self.question, self.soc, self.artifact, sorted(files)).encode()
        facts = {
            "question": self.question.to_json(),
            "soc": self.soc,
            "versions": dict(self.seen.versions),
            "firmware_sha256": self.firmware_sha256,
            "image_hash": self.image_hash,
            "program": PROGRAM,
            "program_sha256": self.artifact.sha256,
        }
        return packed(files, facts)

    @classmethod
    def read(cls, path: Path) -> RunBundle:
        """Read a bundle of anybody's. Nothing in it is executed, nothing is written.

        Raises:
            UsageError: there is no such file, or it is refused; it says why.
        """
        manifest, files = unpacked(path)
        try:
            return _bundle(manifest, files)
        except BadArchive as error:
            raise refused(path, str(error)) from error
        except UsageError as error:
            raise refused(path, error.message) from error
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
            raise refused(path, f"its parts do not fit together: {type(error).__name__}: {error}") from error


def _bundle(manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> RunBundle:
    question, soc = _question(manifest)
    artifact = _artifact(files)
    check_artifact(artifact, question.npu)
    artifact = artifact.of(question.method).rename(question.label)
    if artifact.sha256 != manifest["program_sha256"]:
        raise BadArchive("its program is not the one that its manifest names")
    for name in ("firmware_sha256", "image_hash"):
        if not isinstance(manifest[name], str):
            raise BadArchive(f"{name} is no text")
    input_sets = sets_of(_member(files, INPUTS), artifact.plan.input_tensors, INPUTS)
    repeat = 1 if question.repeat is None else question.repeat
    check_executions(artifact, len(input_sets), repeat)
    expected = None
    if EXPECTED in files:
        expected = sets_of(files[EXPECTED], artifact.plan.output_tensors, EXPECTED)
    return RunBundle(
        record=_record(files, RECORD),
        question=question,
        soc=soc,
        artifact=artifact,
        input_sets=input_sets,
        image=files.get(IMAGE, b""),
        image_hash=manifest["image_hash"],
        firmware_sha256=manifest["firmware_sha256"],
        expected=expected,
        again=_record(files, AGAIN) if AGAIN in files else None,
        answer=_answer(files, artifact, len(input_sets), repeat),
        references=_references(files),
    )


def _question(manifest: Mapping[str, Any]) -> tuple[Question, str]:
    """Return the question of a manifest, and the system on chip. Raises BadArchive where it cannot be used."""
    try:
        if "settings" in manifest:  # of schema 1, which knew a part of the question
            settings = {**manifest["settings"]}
            soc, delegation = settings.pop("soc"), settings.pop("delegation")
            demands = dict(zip(_DEMANDS, (delegation[name] for name in _OLD_DEMANDS), strict=True))
            document: Any = {group: {} for group in GROUPS}
            for name, value in {**settings, **demands}.items():
                document[GROUP_OF[name]][name] = value
        else:
            document, soc = manifest["question"], manifest["soc"]
        unknown = sorted({name for group in GROUPS for name in document[group]} - {*OPTIONS})
        if unknown or not isinstance(soc, str):
            raise TypeError(f"{unknown[0]} is not known" if unknown else f"soc is {soc!r:.50}")
        return Question.from_json(document), soc
    except (AttributeError, KeyError, TypeError) as error:
        raise BadArchive(f"its question cannot be used: {error}") from error


def _artifact(files: Mapping[str, bytes]) -> Artifact:
    parts = {name.removeprefix(ARTIFACT): data for name, data in files.items() if name.startswith(ARTIFACT)}
    if any("/" in name or name in ("", ".") for name in parts):
        raise BadArchive(f"a member of {ARTIFACT} is in a folder of its own")
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as scratch:
        try:
            for name, data in parts.items():
                Path(scratch, name).write_bytes(data)
            found = Artifact.load(Path(scratch))
        except OSError as error:
            raise BadArchive(f"{ARTIFACT} cannot be used: {error.strerror}") from error
        except UsageError as error:
            raise BadArchive(error.message.replace(scratch, ARTIFACT.rstrip("/"))) from error
    # An ETRecord is for ExecuTorch's Inspector, whose reader is not made for files of strangers.
    return dataclasses.replace(found, etrecord=b"")


def _artifact_files(artifact: Artifact) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as scratch:
        dataclasses.replace(artifact, etrecord=b"").save(Path(scratch))
        return {path.name: path.read_bytes() for path in sorted(Path(scratch).iterdir())}


def _answer(files: Mapping[str, bytes], artifact: Artifact, input_sets: int, repeat: int) -> RecordedAnswer | None:
    if "recording.json" not in files:
        return None
    document = json_member(files, "recording.json")
    arrays = named_arrays(_member(files, "recording.npz"), "recording.npz")
    found = RecordedAnswer(TargetFacts.from_json(document["board"]), outcome(document["outcome"], arrays))
    check_outcome(found.outcome, found.board, artifact, input_sets, repeat)
    return found


def _references(files: Mapping[str, bytes]) -> tuple[ReferenceRun, ...]:
    if "reference.json" not in files:
        return ()
    arrays = named_arrays(_member(files, "reference.npz"), "reference.npz")
    found = references_of_json(json_member(files, "reference.json")["answers"], arrays)
    problem = mistyped(found, tuple[ReferenceRun, ...], "reference")
    if problem is not None:
        raise BadArchive(problem)
    return found


def _record(files: Mapping[str, bytes], name: str) -> Record:
    try:
        return Record.from_json(json_member(files, name))
    except ValueError as error:
        raise BadArchive(f"{name}: {error}") from error


def _member(files: Mapping[str, bytes], name: str) -> bytes:
    if name not in files:
        raise BadArchive(f"it has no member {name}")
    return files[name]


def _with_arrays(name: str, document: Mapping[str, Any], arrays: Arrays) -> dict[str, bytes]:
    return {f"{name}.json": _json(document), f"{name}.npz": packed_arrays(arrays)}


def _json(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()
