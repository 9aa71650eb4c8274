"""Run one test: lower it, run it where its profile is computed, and compare."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from ethos_hil.base import environment
from ethos_hil.base.errors import EthosHilError, UsageError
from ethos_hil.base.judge import Evidence, Findings, decide
from ethos_hil.base.options import DEFAULT_TARGET, NOWHERE
from ethos_hil.base.question import Question
from ethos_hil.base.record import Check, Op, Record, RunFacts, SuiteTest, TargetInfo
from ethos_hil.base.verdict import Failure, FailureKind
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
        artifact: the artifact that was lowered.
        board: the target that it runs on.
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
    ) -> None:
        """Prepare it.

        Args:
            test: the test.
            question: what every test of the session asks.
            cache: where its artifact is kept; by default the user's.
            pool: virtual boards that may be used.
            about: what pytest calls the test, for the record, or None.
        """
        self.test = test
        self._asked, self._compile_only = question, question.target == NOWHERE
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
            lacking = ", ".join(check.needed for check in _checks(error) if check.name == "kernels" and check.fix)
            findings = self._explain_error(Evidence(stopped=error.failure, kernels_missing=lacking))
        findings = dataclasses.replace(findings, evidence=self.test.declare(findings.evidence))
        decision = decide(findings.evidence)
        self.defect = self.test.defect(decision)
        return self._judge(findings)

    @property
    def question(self) -> Question:
        """What the test asks in this session. Its declaration says what is on the NPU, and is compared by itself."""
        npu = self.test.profile.npu
        if npu is None:
            return self._asked.but(model=self.test.name, npu="", target=DEFAULT_TARGET)
        return self._asked.but(model=self.test.name, npu=str(npu), cpu=self.test.profile.cpu)

    def stop(self, failure: Failure) -> Record:
        """Return the record of a test that something else than its own errors ended."""
        return self._judge(self._explain_error(Evidence(stopped=failure)))

    def _judge(self, findings: Findings) -> Record:
        """Make the record, with what only the test knows."""
        about, facts = self.about, findings.facts
        notes = facts.notes
        if about is not None and self.defect is not None:
            about = dataclasses.replace(about, defect=self.defect.link)
        if self.unknown:
            why = ", ".join(self.unknown)
            notes = (*notes, f"lowered again, as in every session, because what decides it cannot be known: {why}")
        seconds = tuple(metric for metric in self._watch.metrics() if metric.name == "total_seconds")
        return findings.with_facts(
            notes=notes, metrics=(*facts.metrics, *seconds), test=about, question=self.question
        ).record

    def _explain_error(self, evidence: Evidence) -> Findings:
        """Return the findings of a test without an answer, with the facts of the error that ended it."""
        from ethos_hil.harness.verdict.artifact_info import info, versions_of
        from ethos_hil.harness.verdict.findings import describe

        artifact, npu = self.artifact, self.test.profile.npu
        facts = RunFacts(
            model=self.test.name,
            npu=str(npu or ""),
            target=TargetInfo("none", "none", "") if self.board is None else describe(self.board),
            artifact=info(artifact) if artifact is not None else None,
            versions=versions_of(artifact),
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
        if self.test.lacking is not None:
            return self._explain_error(Evidence(missing=self.test.lacking))
        # A missing target or firmware is reported before lowering, which may take a minute.
        if npu is not None and not self._compile_only:
            from ethos_hil.harness.ask.place import target_of
            from ethos_hil.harness.image.firmware_elf import find_firmware
            from ethos_hil.harness.image.preflight import check_firmware

            self.board = target_of(question, pool=self._pool)
            check_firmware(find_firmware(self.board.soc), self.board.soc)
        lowering = self.test.lower(question.memory_mode, self._cache or Cache(), question.subject)
        self.artifact, self.unknown = lowering.artifact, lowering.made_from.unknown
        # What stays on the CPU is declared of the tested set.
        problem = None if question.subject else self.test.problem(lowering.artifact)
        if problem is not None:
            return self._explain_error(Evidence(misplaced=problem))
        if self._compile_only:
            return self._explain_error(Evidence(compile_only=True))
        if self.board is None:
            self.answer = Reference(lowering.artifact).run(lowering.artifact.example_inputs)
        else:
            from ethos_hil.harness.run import run_artifact

            self.report = run_artifact(lowering.artifact, self.board, question)
        return self._judge_answer(lowering.artifact)

    def _judge_answer(self, artifact: Artifact) -> Findings:
        from ethos_hil.harness.verdict.artifact_info import depth_of

        findings = self.report
        if findings is None:
            from ethos_hil.suites.trial.verify_against_pytorch import findings_on_host

            assert self.answer is not None
            return findings_on_host(self.test.name, artifact, self.answer)
        # The run's rows also include the operations of the command stream that no row of the map covers.
        rows: list[NpuOp | Op] = [*artifact.npu_ops, *findings.facts.ops]
        bare = depth_of(artifact) == "bare"  # it has no origins of operations
        unmapped = dict.fromkeys(f"{op.id} {op.npu_op}" for op in rows if not op.aten_ops and not bare)
        return dataclasses.replace(findings, evidence=dataclasses.replace(findings.evidence, unmapped=tuple(unmapped)))


def _checks(error: EthosHilError | None) -> tuple[Check, ...]:
    from ethos_hil.harness.image.preflight import PreflightFailed

    return error.checks if isinstance(error, PreflightFailed) else ()
