"""Run one test: lower it, run it where its profile is computed, and compare."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from ethos_hil.base import environment
from ethos_hil.base.errors import EthosHilError, ToolError, UsageError
from ethos_hil.base.judge import Evidence, Findings, decide
from ethos_hil.base.question import DEFAULT_TARGET, NOWHERE, Question
from ethos_hil.base.record import Check, Decision, Op, Record, RunFacts, TargetInfo
from ethos_hil.base.record_context import SuiteTest
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.harness.targets.registry import check_npu, find_plugin
from ethos_hil.harness.verdict.metrics import Stopwatch
from ethos_hil.lowering.artifact import Artifact, NpuOp
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.oracle.reference import Reference, ReferenceRun
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.suites.trial.declared import Declared

if TYPE_CHECKING:
    from ethos_hil.harness.targets.base import Target
    from ethos_hil.harness.verdict.findings import Report
    from ethos_hil.harness.virtual.board import BoardPool
    from ethos_hil.suites.declare.case import Defect
    from ethos_hil.suites.trial.recording import Recording

_HOST = "tosa_reference_model"
"""The name of what computes the answer in profiles without an NPU."""


def place(test: Declared, folder: Path, root: Path) -> Path:
    """Return the path for a test's files in a folder: its file's path below `root`, and its name."""
    file = test.file.relative_to(root) if test.file.is_relative_to(root) else Path(test.file.name)
    return folder / file.with_suffix("") / f"{test.name}_{test.profile.name}"


def missing(question: Question) -> Failure | None:
    """Return the capability that is missing to answer a question on an NPU, or None. Nothing is started."""
    try:
        MemoryMode.chosen(question.memory_mode, question.npu_name)
        if question.target != NOWHERE:
            check_npu(find_plugin(question.target), question.npu_name)
    except UsageError as error:
        return Failure(FailureKind.CAPABILITY, error.message, error.hint)
    return None


class Trial:
    """One run of a test. Its intermediate results are kept, to examine a failure.

    Attributes:
        about: what pytest calls the test, for the record, or None.
        artifact: the artifact that was lowered, or recorded.
        board: the target that it runs on, or was recorded on.
        report: the run on a target.
        answer: the reference model's answer, where the reference model is under test.
        error: why there is no answer to compare.
        unknown: what the model depends on and cannot be known, as sentences.
        defect: the declared upstream defect that it fails for, or None.
    """

    def __init__(
        self,
        test: Declared,
        question: Question,
        cache: Cache | None = None,
        *,
        pool: BoardPool | None = None,
        about: SuiteTest | None = None,
        record: Path | None = None,
        replay: Path | None = None,
        root: Path = Path(),
    ) -> None:
        """Prepare it.

        Args:
            test: the test.
            question: what every test of the session asks.
            cache: where its artifact is kept; by default the user's.
            pool: virtual boards that may be used.
            about: what pytest calls the test, for the record, or None.
            record, replay, root: as in `ethos_hil.suites.plugin.options.Options`.
        """
        self.test = test
        self._asked, self._compile_only = question, question.target == NOWHERE
        self._record, self._replay, self._root = record, replay, root
        self._cache = cache
        self._pool = pool
        self.about = about
        self.artifact: Artifact | None = None
        self.board: Target | None = None
        self.report: Report | None = None
        self.answer: ReferenceRun | None = None
        self.error: EthosHilError | None = None
        self.unknown: tuple[str, ...] = ()
        self.defect: Defect | None = None
        self._recorded: Path | None = None
        self._watch = Stopwatch("trying")

    def run(self) -> Record:
        """Return the record, whatever the verdict. An error that is not an EthosHilError is a defect of the
        harness, and raised.
        """
        self._watch = Stopwatch("trying")
        try:
            findings = self._gather()
        except EthosHilError as error:
            self.error = error
            findings = self._explain_error(Evidence(stopped=error.failure, kernels_missing=_kernels_missing(error)))
        findings = dataclasses.replace(findings, evidence=self.test.declare(findings.evidence))
        decision = decide(findings.evidence)
        self.defect = self.test.defect(decision)
        return self._judge(findings, *self._settle_recording(decision))

    @property
    def question(self) -> Question:
        """What the test asks in this session. Its declaration says what is on the NPU, and is compared by itself."""
        npu = self.test.profile.npu
        if npu is None:
            return self._asked.but(model=self.test.name, npu="", target=DEFAULT_TARGET)
        return self._asked.but(model=self.test.name, npu=str(npu))

    def stop(self, failure: Failure) -> Record:
        """Return the record of a test that something else than its own errors ended."""
        return self._judge(self._explain_error(Evidence(stopped=failure)))

    def _judge(self, findings: Findings, *notes: str) -> Record:
        """Make the record, with what only the test knows."""
        about, facts = self.about, findings.facts
        if about is not None and self.defect is not None:
            about = dataclasses.replace(about, defect=self.defect.link)
        if self.unknown:
            why = ", ".join(self.unknown)
            notes = (f"lowered again, as in every session, because what decides it cannot be known: {why}", *notes)
        seconds = tuple(metric for metric in self._watch.metrics() if metric.name == "total_seconds")
        notes, metrics = (*facts.notes, *notes), (*facts.metrics, *seconds)
        return findings.with_facts(notes=notes, metrics=metrics, test=about, question=self.question).record

    def _explain_error(self, evidence: Evidence) -> Findings:
        """Return the findings of a test without an answer, with the facts of the error that ended it."""
        from ethos_hil.harness.verdict.artifact_info import info
        from ethos_hil.harness.verdict.findings import describe

        artifact, npu = self.artifact, self.test.profile.npu
        facts = RunFacts(
            model=self.test.name,
            npu=str(npu or ""),
            target=TargetInfo("none", "none", "") if self.board is None else describe(self.board),
            artifact=info(artifact) if artifact is not None else None,
            versions=environment.versions(),
            notes=artifact.notes if artifact is not None else (),
            console=self.error.console if self.error is not None else (),
            preflight=_checks(self.error),
            memory_mode=str((artifact.memory_mode if artifact is not None else None) or ""),
            created=environment.now(),
            question=self.question,
        )
        return Findings(facts, evidence)

    def _gather(self) -> Findings:
        """Lower it, run it where that is asked for, and return what is then known."""
        npu = self.test.profile.npu
        question = self.question
        lacking = None if npu is None else missing(question)
        if lacking is not None:
            return self._explain_error(Evidence(missing=lacking))
        if self._replay is not None:
            return self._judge_again(self._replay)
        if self.test.lacking is not None:
            return self._explain_error(Evidence(missing=self.test.lacking))
        # A missing target or firmware is reported before lowering, which may take a minute.
        if npu is not None and not self._compile_only:
            from ethos_hil.harness.ask.place import target_of
            from ethos_hil.harness.image.firmware_elf import find_firmware
            from ethos_hil.harness.image.preflight import check_firmware

            self.board = target_of(question, pool=self._pool)
            check_firmware(find_firmware(self.board.soc), self.board.soc)
        lowering = self.test.lower(question.memory_mode, self._cache or Cache())
        self.artifact, self.unknown = lowering.artifact, lowering.made_from.unknown
        problem = self.test.problem(lowering.artifact)
        if problem is not None:
            return self._explain_error(Evidence(misplaced=problem))
        if self._compile_only:
            return self._explain_error(Evidence(compile_only=True))
        if self.board is None:
            self.answer = Reference(lowering.artifact).run(lowering.artifact.example_inputs)
        else:
            from ethos_hil.harness.run import run_artifact

            self.report = run_artifact(lowering.artifact, self.board, question)
        if self._record is not None:
            from ethos_hil.harness.targets.recorded import TargetFacts
            from ethos_hil.suites.trial.recording import Recording, check_files_unchanged

            check_files_unchanged(lowering.made_from.files)
            answered = Recording(self._recorded_question(), lowering.made_from, lowering.artifact, answer=self.answer)
            if self.report is not None:
                ran = self.report.answer
                answered = dataclasses.replace(answered, board=TargetFacts.of(ran.board), outcome=ran.outcome)
            self._write(answered, self._record)
        return self._judge_answer(lowering.artifact)

    def _judge_answer(self, artifact: Artifact) -> Findings:
        """Return what is known of the answer."""
        findings = self.report
        if findings is None:
            from ethos_hil.suites.trial.verify_against_pytorch import findings_on_host

            assert self.answer is not None
            return findings_on_host(self.test.name, artifact, self.answer)
        # The run's rows also include the operations of the command stream that no row of the map covers.
        rows: list[NpuOp | Op] = [*artifact.npu_ops, *findings.facts.ops]
        unmapped = dict.fromkeys(f"{op.id} {op.npu_op}" for op in rows if not op.aten_ops)
        return dataclasses.replace(findings, evidence=dataclasses.replace(findings.evidence, unmapped=tuple(unmapped)))

    def _judge_again(self, folder: Path) -> Findings:
        """Judge a recorded answer again with today's oracle, declaration and comparison."""
        from ethos_hil.harness.targets.recorded import RecordedTarget
        from ethos_hil.harness.verdict.findings import Answer, report_of
        from ethos_hil.lowering.made_from.model_fingerprint import read_at_import
        from ethos_hil.suites.trial.recording import Recording

        path = self._archive(folder)
        today = read_at_import(self.test.origins)
        recording = Recording.read(path, self._recorded_question(), self._root, today)
        artifact = self.artifact = recording.artifact
        problem = self.test.problem(artifact)
        if problem is not None:
            return self._explain_error(Evidence(misplaced=problem))
        self.answer = recording.answer
        if recording.outcome is not None and recording.board is not None:
            inputs = artifact.example_inputs
            references = (Reference(artifact).run(inputs),)
            self.board = RecordedTarget(recording.board, recording.outcome)
            answer = Answer(artifact, self.board, (inputs,), references, recording.outcome)
            self.report = report_of(answer, self.test.name)
        findings = self._judge_answer(artifact)
        return findings.with_facts(notes=(*findings.facts.notes, f"the answer was recorded: {path.name}"))

    def _archive(self, folder: Path) -> Path:
        path = place(self.test, folder, self._root)
        return path.with_name(f"{path.name}.zip")

    def _recorded_question(self) -> dict[str, object]:
        from ethos_hil.suites.trial.recording import question_in_recording

        question, test = self.question, self.test
        target = _HOST if test.profile.npu is None else question.target
        name = place(test, Path(), self._root).as_posix()
        return question_in_recording(name, test.key(question.memory_mode), question.but(target=target))

    def _write(self, recording: Recording, folder: Path) -> None:
        path = self._archive(folder)
        try:
            self._recorded = recording.write(path, self._root)
        except OSError as error:
            raise ToolError(
                f"{path} cannot be written: {error.strerror or error}",
                hint="free some space",
                kind=FailureKind.RECORDING,
            ) from error

    def _settle_recording(self, decision: Decision) -> tuple[str, ...]:
        """Give a good recording its name; return a note with the path of another."""
        if self._recorded is None:
            return ()
        if decision.verdict == Verdict.VERIFIED:
            from ethos_hil.suites.trial.recording import accept

            accept(self._recorded)
            return ()
        return (f"its answer is in {self._recorded}",)


def _checks(error: EthosHilError | None) -> tuple[Check, ...]:
    from ethos_hil.harness.image.preflight import PreflightFailed

    return error.checks if isinstance(error, PreflightFailed) else ()


def _kernels_missing(error: EthosHilError) -> str:
    """Return the names of the kernels that the firmware lacks, as in preflight's row."""
    return ", ".join(check.needed for check in _checks(error) if check.name == "kernels" and check.fix)
