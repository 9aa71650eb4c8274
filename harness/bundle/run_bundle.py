"""One run as data: the program, its inputs, what was asked and answered, and the record; and how it is run again, or
its answer judged once more.

A stranger may have written it, and digests only say that its parts are whole. So they are checked against one another.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from ethos_hil.base import environment
from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import EthosHilError, ToolError, UsageError
from ethos_hil.base.options import GROUPS, MOST_EXECUTIONS, OPTIONS
from ethos_hil.base.plain_text import escape, one_line
from ethos_hil.base.question import Question
from ethos_hil.base.record import Record
from ethos_hil.base.typed_json import from_json
from ethos_hil.harness.ask.place import target_of
from ethos_hil.harness.bundle.archive import json_member, pack, refusal_of, unpack
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.image.inputs import InputSet, describe, fits
from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.link.outcome import Outcome, Progress
from ethos_hil.harness.link.outcome_json import Arrays, outcome, outcome_to_json
from ethos_hil.harness.run import run_artifact
from ethos_hil.harness.targets.base import CYCLE_PROVENANCES, Capability, Target
from ethos_hil.harness.terminal.progress import Reporter, Silent
from ethos_hil.harness.verdict.artifact_info import naming_program
from ethos_hil.harness.verdict.findings import Answer, Report, report_of
from ethos_hil.harness.verdict.run_data import RunData
from ethos_hil.harness.verdict.verify import references_of
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.array_archive import BadArchive, packed_arrays, packed_sets, read_arrays
from ethos_hil.lowering.formats.io_scale import IoScales
from ethos_hil.lowering.formats.pte_model import Tensor, archive_names
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.oracle.reference import ReferenceRun
from ethos_hil.lowering.program.program_file import ProgramDelegates, ProgramFile


@dataclass(frozen=True)
class TargetFacts:
    """The facts about a target that judging its answer needs. See `Target`."""

    name: str
    kind: str
    soc: str
    npu: str
    cycle_provenance: str
    version: str
    capabilities: tuple[str, ...]

    @classmethod
    def of(cls, target: Target) -> TargetFacts:
        """Return the facts about a target."""
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
        """Return the recorded target's capabilities."""
        return self._capabilities

    def _load(self, image: Image) -> None:
        """Do nothing: nothing is loaded."""

    def _run(self, image: Image, *, timeout: float, progress: Progress | None) -> Outcome:
        return self._outcome

    def _check_answer(self, outcome: Outcome, image: Image) -> None:
        """Accept the answer of another run: that is what was recorded."""

    def _reset(self) -> None:
        """Do nothing: nothing was started."""


ARTIFACT = "artifact/"
INPUTS, EXPECTED, RECORD = "inputs.npz", "expected.npz", "record.json"
README = "README.txt"


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
        expected: the outputs that are right, where someone beside the reference says so: for each input set, or for
            each execution.
        answer: what the target answered in the run that was made for the bundle; None if nothing ran, or nothing came.
    """

    record: Record
    question: Question
    soc: str
    artifact: Artifact
    input_sets: tuple[InputSet, ...]
    expected: tuple[InputSet, ...] | None = None
    answer: RecordedAnswer | None = None

    @property
    def repeat(self) -> int:
        """Executions of each input set."""
        return self.question.repeat or 1

    def pack(self) -> bytes:
        """Return the bundle as a file. Raises UsageError if it is too large."""
        files = {f"{ARTIFACT}{name}": data for name, data in _artifact_files(self.artifact).items()}
        names = [f"input_{index}" for index in range(len(self.artifact.plan.input_tensors))]
        files[INPUTS] = packed_sets(self.input_sets, names)
        files[RECORD] = _json(self.record.to_json())
        if self.expected is not None:
            files[EXPECTED] = packed_sets(self.expected, archive_names(self.artifact.outputs))
        if self.answer is not None:
            arrays: Arrays = {}
            document = {
                "board": dataclasses.asdict(self.answer.board),
                "outcome": outcome_to_json(self.answer.outcome, arrays),
            }
            files |= {"recording.json": _json(document), "recording.npz": packed_arrays(arrays)}
        files[README] = readme(self).encode()
        facts = {"question": self.question.to_json(), "soc": self.soc, "program_sha256": self.artifact.sha256}
        return pack(files, facts)

    @classmethod
    def read(cls, path: Path) -> RunBundle:
        """Read a bundle of anybody's. Nothing in it is executed, nothing is written.

        Raises:
            UsageError: there is no such file, or it is refused; it says why.
        """
        manifest, files = unpack(path)
        try:
            return _bundle(manifest, files)
        except BadArchive as error:
            raise refusal_of(path, str(error)) from error
        except UsageError as error:
            raise refusal_of(path, error.message) from error
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as error:
            raise refusal_of(path, f"its parts do not fit together: {type(error).__name__}: {error}") from error


def _bundle(manifest: Mapping[str, Any], files: Mapping[str, bytes]) -> RunBundle:
    question, soc = _question(manifest)
    artifact = _artifact(files)
    check_artifact(artifact, question.npu)
    artifact = artifact.of(question.method).rename(question.label)
    if artifact.sha256 != manifest["program_sha256"]:
        raise BadArchive("its program is not the one that its manifest names")
    input_sets = sets_of(_member(files, INPUTS), artifact.plan.input_tensors, INPUTS)
    repeat = 1 if question.repeat is None else question.repeat
    check_executions(artifact, len(input_sets), repeat)
    expected = None
    if EXPECTED in files:
        expected = sets_of(files[EXPECTED], artifact.plan.output_tensors, EXPECTED, artifact.io_scales[1])
    return RunBundle(
        record=_record(files),
        question=question,
        soc=soc,
        artifact=artifact,
        input_sets=input_sets,
        expected=expected,
        answer=_answer(files, artifact, len(input_sets), repeat),
    )


def _question(manifest: Mapping[str, Any]) -> tuple[Question, str]:
    """Return the question of a manifest, and the system on chip. Raises BadArchive where it cannot be used."""
    try:
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
            artifact = Artifact.load(Path(scratch))
        except OSError as error:
            raise BadArchive(f"{ARTIFACT} cannot be used: {error.strerror}") from error
        except UsageError as error:
            raise BadArchive(error.message.replace(scratch, ARTIFACT.rstrip("/"))) from error
    # An ETRecord is for ExecuTorch's Inspector, whose reader is not made for files of strangers.
    return dataclasses.replace(artifact, etrecord=b"")


def _artifact_files(artifact: Artifact) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as scratch:
        dataclasses.replace(artifact, etrecord=b"").save(Path(scratch))
        return {path.name: path.read_bytes() for path in sorted(Path(scratch).iterdir())}


def _answer(files: Mapping[str, bytes], artifact: Artifact, input_sets: int, repeat: int) -> RecordedAnswer | None:
    if "recording.json" not in files:
        return None
    document = json_member(files, "recording.json")
    arrays = named_arrays(_member(files, "recording.npz"), "recording.npz")
    recording = RecordedAnswer(from_json(TargetFacts, document["board"]), outcome(document["outcome"], arrays))
    check_outcome(recording.outcome, recording.board, artifact, input_sets, repeat)
    return recording


def _record(files: Mapping[str, bytes]) -> Record:
    try:
        return Record.from_json(json_member(files, RECORD))
    except ValueError as error:
        raise BadArchive(f"{RECORD}: {error}") from error


def _member(files: Mapping[str, bytes], name: str) -> bytes:
    if name not in files:
        raise BadArchive(f"it has no member {name}")
    return files[name]


def _json(document: Mapping[str, Any]) -> bytes:
    return (json.dumps(document, indent=1, allow_nan=False) + "\n").encode()


def readme(bundle: RunBundle) -> str:
    """Return the text for someone who has never seen a bundle."""
    record, question = bundle.record, bundle.question
    lines = [
        f"One run of ethos-hil: {question.label} for {question.npu} on {question.target} {bundle.soc}",
        *([f"of the test {record.test.id}"] if record.test is not None else []),
        f"that ended as {one_line(end_of(record))}",
        "",
        "Show it again, with the name of this file, on any machine that has ethos-hil:",
        "",
        "    ethos-hil run failure.zip",
        "",
        "It needs QEMU, and neither the model nor a board. Nothing in this file is executed on your machine itself:",
        "the program runs on the virtual board, with the firmware that you have.",
    ]
    if bundle.answer is not None:
        lines += ["Without QEMU, the answer that was recorded is judged again: ethos-hil run failure.zip --replay"]
    lines += ["", f"program  SHA-256 {bundle.artifact.sha256}"]
    lines += [f"versions {', '.join(f'{name} {text}' for name, text in sorted(record.versions.items()))}"]
    return "".join(f"{escape(line)}\n" for line in lines)


def end_of(record: Record) -> str:
    """Return the end of a run as a part of a sentence: "failed (mismatch): output 0: 3 of 4 elements differ"."""
    if record.failure is None:
        return str(record.verdict)
    return f"{record.verdict} ({record.failure.kind}): {record.failure.message}"


def end_alike(record: Record, other: Record) -> bool:
    """Return whether two runs have one verdict, one kind of failure, and the same wrong elements."""
    return _facts(record) == _facts(other)


def _facts(record: Record) -> tuple[object, ...]:
    outputs = [(output.name, output.compared, output.mismatches, output.first_mismatch) for output in record.outputs]
    return record.verdict, record.kind, outputs


def sets_of(data: bytes, tensors: Sequence[Tensor], name: str, scales: IoScales = ()) -> tuple[InputSet, ...]:
    """Return the sets of `packed_sets`, which must fit the tensors of a program.

    Args:
        data: the .npz.
        tensors: the program's inputs or outputs.
        name: of the member, for an error.
        scales: of the tensors. The array of one that has a scale may be in real numbers.

    Raises:
        BadArchive: they do not fit, or the .npz is damaged.
    """
    arrays = list(named_arrays(data, name).values())
    if len(arrays) != len(tensors):
        raise BadArchive(f"{name} has {len(arrays)} arrays, the program takes {len(tensors)}")
    columns = []
    for array, tensor, scale in zip(arrays, tensors, scales or (None,) * len(tensors), strict=True):
        column = array[None] if array.shape == tensor.sizes else array
        if not column.ndim or not len(column) or not fits(column[0], tensor, real=scale is not None):
            raise BadArchive(f"{name} has {describe(array)}, the program has {tensor}")
        columns.append(column)
    if len({len(column) for column in columns}) > 1:
        raise BadArchive(f"the arrays of {name} hold different numbers of sets")
    return tuple(zip(*columns, strict=True)) or ((),)


def named_arrays(data: bytes, name: str) -> Arrays:
    """Return the arrays of a member. Raises BadArchive, which names it."""
    try:
        return read_arrays(io.BytesIO(data))
    except BadArchive as error:
        raise BadArchive(f"{name}: {error}") from error


_MOST_IN_A_ROW = 100_000
"""Executions of a program that keeps state: the reference computes each of them, however long that takes."""
TARGET_KINDS = ("virtual", "fvp", "board")


def check_artifact(artifact: Artifact, npu: str) -> None:
    """Check an artifact against its own program.

    Args:
        artifact: as it was read; its types are right.
        npu: the NPU that the bundle is for.

    Raises:
        BadArchive: a field says something else than the program.
        UsageError: the program is damaged, or a TOSA program is.
    """
    # A program without delegates does not say what it is for.
    program = ProgramDelegates.of(artifact.pte, artifact.model, artifact.ptd)
    call = attrgetter("index", "instruction", "vela")
    beside = {method.name: [*map(call, method.delegates)] for method in artifact.methods}
    kept = {name: delegates for name, delegates in program.methods.items() if delegates or name in beside}
    there = {name: [*map(call, delegates)] for name, delegates in kept.items()}
    if beside != there:
        raise BadArchive("the delegates beside the program are not those in it")
    if str(artifact.npu or npu) != npu or str(program.npu or npu) != npu:
        raise BadArchive(f"the program is for {program.npu or artifact.npu}, its manifest says {npu}")
    for method in artifact.methods:
        for delegate in method.delegates:
            for tosa in (delegate.tosa, delegate.compiled):
                if tosa is not None:
                    TosaGraph.parse(tosa)  # before a native program reads it


def check_outcome(outcome: Outcome, board: TargetFacts, artifact: Artifact, input_sets: int, repeat: int) -> None:
    """Check a target's recorded answer against the program.

    Args:
        outcome: as it was read; its types are right.
        board: the target, likewise.
        artifact: the program, seen from the method that ran.
        input_sets, repeat: what was asked.

    Raises:
        BadArchive: it is the answer of another program, or has another form than any target's.
    """
    if outcome.program_hash.hex() != artifact.sha256:
        raise BadArchive("the recorded answer is of another program than the one in it")
    if board.kind not in TARGET_KINDS or board.cycle_provenance not in CYCLE_PROVENANCES:
        raise BadArchive(f"the recorded target is a {board.kind!r:.50} with cycles {board.cycle_provenance!r:.50}")
    unknown = set(board.capabilities) - {capability.value for capability in Capability}
    if unknown:
        raise BadArchive(f"the recorded target can {sorted(unknown)[0]!r:.50}, which no target can")
    expected = [(number, turn) for number in range(input_sets) for turn in range(repeat)]
    if [(run.input_set, run.repeat) for run in outcome.runs] != expected:
        raise BadArchive(f"the recorded answer is not of {input_sets} input sets, each {repeat} times")
    calls = {delegate.instruction: delegate.index for delegate in artifact.delegates}
    for run in outcome.runs:
        if len(run.outputs) != len(artifact.plan.outputs):
            raise BadArchive(f"the recorded answer has {len(run.outputs)} outputs, not {len(artifact.plan.outputs)}")
        for call in run.delegates:
            if calls.get(call.instruction) != call.delegate:
                raise BadArchive(f"the recorded answer has a delegate at instruction {call.instruction}")


def check_executions(artifact: Artifact, input_sets: int, repeat: int) -> None:
    """Raise BadArchive unless the executions are as many as a run may have."""
    most = _MOST_IN_A_ROW if artifact.keeps_state else MOST_EXECUTIONS
    if repeat < 1 or input_sets * repeat > most:
        raise BadArchive(f"it asks for {input_sets} input sets, each {repeat} times; at most {most:,} in all are run")


def repeat_question(bundle: RunBundle, **changes: Any) -> Question:
    """Return the question that asks what a bundle's run asked; `changes` are other fields of it."""
    program = ProgramFile(bundle.question.label, bundle.artifact.pte, ptd=bundle.artifact.ptd)
    return bundle.question.but(model=program, ptd=(), inputs=bundle.input_sets, expected=bundle.expected, **changes)


def run_again(bundle: RunBundle, question: Question, reporter: Reporter | None = None) -> Report:
    """Pack a bundle's program with the firmware that is here, run it on a target, and compare.

    Args:
        bundle: whose program and inputs run; its image does not.
        question: of `repeat_question`.
        reporter: receives the progress.

    Raises:
        UsageError, ToolError, TargetError, OracleError: as `ethos_hil.harness.run.run`.
    """
    reporter = reporter or Silent()
    question.check()
    board = target_of(question, tell=reporter.stage)
    with naming_program(bundle.artifact):
        return run_artifact(bundle.artifact, board, question, reporter=reporter)


def replay(bundle: RunBundle, reporter: Reporter | None = None) -> Report:
    """Compare the answer in a bundle with the reference that is here. Neither a target nor torch is needed.

    Raises:
        UsageError: there is no answer in it.
        OracleError: the reference gives none.
    """
    reporter = reporter or Silent()
    if bundle.answer is None:
        raise UsageError("the bundle has no recorded answer: its run ended before one", hint="leave out --replay")
    artifact, question, sets = bundle.artifact, bundle.question, bundle.input_sets
    board = RecordedTarget(bundle.answer.board, bundle.answer.outcome)
    expected = RunData.read(repeat_question(bundle)).answers(artifact, len(sets), bundle.repeat)
    references: tuple[ReferenceRun, ...] = ()
    lacking = None
    if expected is None or not artifact.foreign:
        references, lacking = references_of(artifact, sets, bundle.repeat, reporter)
    answer = Answer(
        artifact,
        board,
        sets,
        references,
        bundle.answer.outcome,
        min_sqnr=question.min_sqnr,
        expected=expected,
        lacking=lacking,
    )
    try:
        report = report_of(answer, question.label, reporter=reporter)
    except EthosHilError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, AssertionError) as error:
        raise UsageError(
            f"the bundle's answer does not fit its program: {type(error).__name__}: {error}", hint="--debug shows where"
        ) from error
    return report.with_facts(notes=(*report.facts.notes, "the answer was recorded when the bundle was made"))


def differences(bundle: RunBundle, firmware: bool = True) -> tuple[str, ...]:
    """Return sentences about what is different here from where a bundle was made.

    Args:
        bundle: the bundle.
        firmware: whether the firmware matters.
    """
    sentences = []
    there = bundle.record.firmware_sha256
    if firmware and there:
        here = _firmware_here(bundle)
        if here and here != there:
            sentences.append(f"the firmware here ({here[:12]}) is another than the bundle's ({there[:12]})")
    now, before = environment.versions(), bundle.record.versions
    changed = [f"{name} {text}, here {now[name]}" for name, text in before.items() if now.get(name, text) != text]
    if changed:
        sentences.append(f"versions differ from the bundle's: {', '.join(changed)}")
    return tuple(sentences)


def compare_ends(bundle: RunBundle, record: Record, where: str) -> tuple[str, ...]:
    """Return sentences about whether a run ended as the bundle's.

    Args:
        bundle: the bundle.
        record: of the run.
        where: the bundle's name.
    """
    if end_alike(bundle.record, record):
        return (f"it ended as the run in {where}",)
    return (f"it did not end as the run in {where}, which is {end_of(bundle.record)}",)


def _firmware_here(bundle: RunBundle) -> str:
    try:
        return hashlib.sha256(find_firmware(bundle.soc)).hexdigest()
    except (ToolError, UsageError):
        return ""
