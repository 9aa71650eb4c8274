"""The scan: what is asked, for each NPU and memory mode, compiled by each version, one after the other or bisecting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from ethos_hil.base import environment
from ethos_hil.base.dataclasses import asdict, dataclass, replace
from ethos_hil.base.environment import VELA
from ethos_hil.base.errors import EthosHilError, ToolError, UsageError
from ethos_hil.base.judge import Evidence
from ethos_hil.base.options import DEFAULT_NPU
from ethos_hil.base.question import Question
from ethos_hil.base.record import Metric, Record, TargetInfo
from ethos_hil.base.typed_json import from_json
from ethos_hil.base.verdict import FailureKind, Verdict
from ethos_hil.harness.ask.lower_question import lower_question
from ethos_hil.harness.campaign.engine import CampaignCrew, CrewAnswer, read_more
from ethos_hil.harness.campaign.place import ASIDE, OpenRun, RunPlace
from ethos_hil.harness.campaign.planned import Planned, digest_of_model, digest_of_plan, share_of, write_plan
from ethos_hil.harness.campaign.run_folder import SCAN, CampaignSubject, Facet
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.npu.timing.rules import timing_model_id
from ethos_hil.harness.scan.bisection import bisect, check_by
from ethos_hil.harness.scan.candidates import Candidate, Candidates, Over
from ethos_hil.harness.scan.commits import BuildFailed
from ethos_hil.harness.scan.compiled_version import MODELLED, CompiledVersion, ScanPoint, by_upstream, by_vela
from ethos_hil.harness.scan.report import PointScan, ScanReport
from ethos_hil.harness.subjects.process import SubjectProcess
from ethos_hil.harness.subjects.subject import LoweringSubject
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.harness.verdict.artifact_info import failed_findings
from ethos_hil.harness.verdict.tool_state import tool_state
from ethos_hil.lowering.cache.environments import KeptEnvironments, PipFailed
from ethos_hil.lowering.vela.options import VelaSetup

_SHOWN = 5
"""How many problems one line names."""


@dataclass(frozen=True)
class ScanOrder:
    """What to scan.

    Attributes:
        question: the question; its NPU and memory mode are not used.
        over: what it is scanned over.
        npus: the NPUs; empty for the default.
        memory_modes: the memory modes; empty for ExecuTorch's default for each NPU.
        bisect: whether to find the first change without trying each; commits are bisected in any case.
        by: what a bisection compares, one of `ethos_hil.harness.scan.bisection.BY`; None for what the ends differ in.
    """

    question: Question
    over: Over
    npus: tuple[str, ...] = ()
    memory_modes: tuple[str, ...] = ()
    bisect: bool = False
    by: str | None = None

    def check(self) -> None:
        """Check what needs no environment and no lowering.

        Raises:
            UsageError: the model, an NPU, a mode or an option cannot be used.
        """
        self.question.check()
        if self.question.is_program:
            raise UsageError(
                f"{self.question.label} is compiled already, and has no TOSA to compile again",
                hint="give the model that it was made from",
            )
        if self.question.subject and not self.over.is_frozen:
            raise UsageError(
                "--with and --over both say what lowers", hint="leave out --with, or give it in --over: 'A==1 B==2'"
            )
        check_by(self.by)
        for question in self.questions:
            VelaSetup.of(question)

    @property
    def questions(self) -> tuple[Question, ...]:
        """The question for each NPU in each memory mode."""
        npus = dict.fromkeys(self.npus or (DEFAULT_NPU,))
        modes = dict.fromkeys(self.memory_modes or (None,))
        return tuple(self.question.but(npu=npu, memory_mode=mode) for npu in npus for mode in modes)


@dataclass(frozen=True, kw_only=True)
class PlannedVersion(Planned):
    """A question that a version compiles."""

    candidate: Candidate


def scan(order: ScanOrder, reporter: Reporter, place: RunPlace = ASIDE) -> ScanReport:
    """Compile a question with each version, or with as many as a bisection needs.

    Args:
        order: what to scan.
        reporter: receives the progress.
        place: where answers are kept, and which of them are made here.

    Raises:
        UsageError: what is asked for cannot be, there is no such version, or the model cannot be used.
        CompileError: the model cannot be lowered here.
        ToolError: no version can be installed, or a tool or a folder does not work; or a version has no answer.
    """
    order.check()
    candidates = order.over.resolve(reporter.stage, known=bool(place.merge))
    plan = tuple(
        PlannedVersion(
            question, question.label, more=f"{candidates.package} {candidate.more}".strip(), candidate=candidate
        )
        for candidate in candidates.listed
        for question in order.questions
    )
    if candidates.bisect or order.bisect or order.by is not None:
        return _bisect(order, candidates, plan, reporter, place)
    with place.opened(_subject(order, plan, place.shard)) as run:
        mine = share_of(plan, place.shard)
        _ask(run, mine, reporter, place.shard)
        compiled = _answers(run, mine)
    if mine and all(record.kind is FailureKind.USAGE for record, _ in compiled.values()):
        raise UsageError(compiled[mine[0].digest][1].reason)  # what the user gave is wrong, whatever lowers it
    points = []
    for question in order.questions:
        planned = [it for it in mine if it.question == question]
        if planned:
            points.append(_point(compiled, planned))
    return ScanReport(order.question.label, candidates.package, tuple(points), timing_model_id())


def _bisect(
    order: ScanOrder, candidates: Candidates, plan: Sequence[PlannedVersion], reporter: Reporter, place: RunPlace
) -> ScanReport:
    if len(order.questions) > 1:
        raise UsageError("a bisection takes one NPU and one memory mode", hint="scan once for each")
    if place.shard is not None or place.merge:
        raise UsageError("a bisection cannot be divided", hint="leave out --shard and --merge")
    by_candidate = {planned.candidate: planned for planned in plan}
    asked: list[PlannedVersion] = []
    with place.opened(_subject(order, plan, None)) as run:

        def compile_one(candidate: Candidate) -> CompiledVersion:
            asked.append(by_candidate[candidate])
            _ask(run, asked, reporter, None)
            return _answers(run, asked)[asked[-1].digest][1]

        versions, bisected = bisect(candidates.listed, compile_one, order.by)
        point = _point(_answers(run, asked), [planned for planned in plan if planned in asked])
    point = replace(point, versions=versions, bisected=bisected)
    return ScanReport(order.question.label, candidates.package, (point,), timing_model_id())


def _ask(run: OpenRun, plan: Sequence[PlannedVersion], reporter: Reporter, shard: Shard | None) -> None:
    """Ask what of a plan has no settled answer."""
    if run.campaign is not None:
        folder = run.campaign.run_folder
        write_plan(folder.path, plan, folder.info.shard)
        CampaignCrew(folder, 1, reporter).ask_here(plan, partial(_compile, reporter, len(plan)), is_settled)


def _answers(run: OpenRun, plan: Sequence[PlannedVersion]) -> dict[str, tuple[Record, CompiledVersion]]:
    """Return the answers of a plan by its digests. Raises ToolError if one is missing."""
    answers = run.answers(plan)
    kept = {digest: more for place in run.folders for digest, more in read_more(place).items()}
    lost = [planned for planned in plan if planned.digest not in answers.by_digest or planned.digest not in kept]
    problems = [*answers.problems, *(f"{it.more} has no answer for {it.name}" for it in lost)]
    if problems:
        raise ToolError(f"the scan is not whole: {'; '.join(problems[:_SHOWN])}", hint="ask again what is missing")
    compiled = {it.digest: from_json(CompiledVersion, kept[it.digest]["compiled"]) for it in plan}
    return {digest: (answers.by_digest[digest], version) for digest, version in compiled.items()}


def _point(compiled: dict[str, tuple[Record, CompiledVersion]], planned: Sequence[PlannedVersion]) -> PointScan:
    first = compiled[planned[0].digest][0]
    versions = tuple(compiled[it.digest][1] for it in planned)
    return PointScan(first.npu, first.memory_mode, first.system_config, versions, first.notes)


def _subject(order: ScanOrder, plan: Sequence[Planned], shard: Shard | None) -> CampaignSubject:
    facet = Facet("model", digest_of_model(order.question.label), "is of another model, or it has changed")
    return CampaignSubject(SCAN, digest_of_plan(plan), tool_state(), shard=str(shard or ""), facets=(facet,))


def is_settled(record: Record) -> bool:
    """Return whether a version would answer the same again: it has a program, or says why it makes none."""
    return record.verdict is Verdict.COMPILED_ONLY or record.kind is FailureKind.COMPILE


def _lower(question: Question, reporter: Reporter) -> ScanPoint:
    what = f"Lowering {question.label} for {question.npu}"
    reporter.stage(what)
    artifact = lower_question(question, progress=lambda stage: reporter.stage(f"{what}: {stage}")).artifact
    artifact = artifact.of(question.method)
    if not artifact.delegates:
        raise UsageError(f"nothing of {question.label} is on the NPU", hint="`ethos-hil lower` says why")
    return ScanPoint(question, artifact, VelaSetup.of(question))


def _compile(
    reporter: Reporter, count: int, plan: Sequence[PlannedVersion]
) -> Iterator[tuple[PlannedVersion, CrewAnswer]]:
    """Yield what each version makes of what is left of `count` questions."""
    versions: dict[Candidate, list[PlannedVersion]] = {}
    for planned in plan:
        versions.setdefault(planned.candidate, []).append(planned)
    points: dict[Question, ScanPoint] = {}  # the model is lowered once for all versions of Vela
    missing = 0
    for number, (candidate, mine) in enumerate(versions.items()):
        reporter.step(number, len(versions))
        try:
            if candidate.subject is None:
                answers = [*_with_vela(candidate, mine, points, reporter)]
            else:
                answers = [*_with_upstream(candidate, mine, reporter)]
        except (PipFailed, BuildFailed) as error:
            missing += len(mine)
            if missing == count:
                raise ToolError(
                    f"no version can be installed; the last, {mine[0].more}: {error}",
                    hint="check the network, `pip config list`, and that there are wheels for this Python",
                ) from error
            said = f"pip cannot install it: {error}" if isinstance(error, PipFailed) else f"{error}"
            gone = CompiledVersion(candidate.version, said, title=candidate.title, built=False)
            answers = [_answer(planned.question, gone, FailureKind.NOT_AVAILABLE) for planned in mine]
        yield from zip(mine, answers, strict=True)


def _with_vela(
    candidate: Candidate, plan: Sequence[PlannedVersion], points: dict[Question, ScanPoint], reporter: Reporter
) -> Iterator[CrewAnswer]:
    """Yield what a version of Vela makes of the TOSA of here."""
    for planned in plan:
        if planned.question not in points:
            points[planned.question] = _lower(planned.question, reporter)
    mine = [points[planned.question] for planned in plan]
    installed = KeptEnvironments().get(VELA, candidate.version, reporter.stage)
    reporter.stage(f"Compiling with {VELA} {candidate.version}")
    for point, compiled in zip(mine, by_vela(installed, mine), strict=True):
        yield _answer(point.question, compiled, FailureKind.COMPILE, point.artifact.notes)


def _with_upstream(candidate: Candidate, plan: Sequence[PlannedVersion], reporter: Reporter) -> Iterator[CrewAnswer]:
    """Yield what an upstream makes of the model; its process ends with it."""
    uses = candidate.subject or () if candidate.build is None else candidate.build(reporter.stage)
    subject = LoweringSubject.parse(uses)
    try:
        if subject is not None and subject.interpreter() is None:
            subject.path(KeptEnvironments(), reporter.stage)
    except UsageError as error:
        raise BuildFailed(error.message) from error
    what = f"Lowering with {plan[0].more}"
    try:
        for planned in plan:
            question = planned.question.but(subject=uses)
            reporter.stage(what)
            try:
                compiled = by_upstream(candidate.version, question, lambda stage: reporter.stage(f"{what}: {stage}"))
            except EthosHilError as error:
                compiled = CompiledVersion(candidate.version, error.message)
                yield _answer(question, replace(compiled, title=candidate.title), error.kind)
            else:
                yield _answer(question, replace(compiled, title=candidate.title), FailureKind.COMPILE)
    finally:
        SubjectProcess.end(subject)


def _answer(
    question: Question, compiled: CompiledVersion, kind: FailureKind, notes: tuple[str, ...] = ()
) -> CrewAnswer:
    """Return the answer of a version: only compiled, also where the functional NPU executed it. Nothing is booted."""
    setup = VelaSetup.of(question)
    error = EthosHilError(compiled.reason, kind=kind)
    cycles = () if compiled.cycles is None else (Metric("npu_cycles", compiled.cycles, "cycles", MODELLED),)
    findings = failed_findings(question, error).with_facts(
        npu=str(setup.npu),
        memory_mode=setup.mode.name,
        system_config=setup.system.name,
        target=TargetInfo("none", "none", ""),
        versions={**environment.versions(), **compiled.packages},
        metrics=cycles,
        ops=compiled.ops,
        notes=notes,
        timing_model=timing_model_id(),
    )
    record = findings.record if compiled.reason else replace(findings, evidence=Evidence(compile_only=True)).record
    return CrewAnswer(record, {"compiled": asdict(compiled)})
