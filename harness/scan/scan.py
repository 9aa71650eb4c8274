"""The scan: what is asked, for each NPU and memory mode, compiled by each version, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from ethos_hil.base import environment
from ethos_hil.base.dataclasses import asdict, dataclass, replace
from ethos_hil.base.environment import VELA
from ethos_hil.base.errors import EthosHilError, ToolError, UsageError
from ethos_hil.base.judge import Evidence
from ethos_hil.base.question import DEFAULT_NPU, Question
from ethos_hil.base.record import Metric, Record, TargetInfo
from ethos_hil.base.typed_json import from_json
from ethos_hil.base.verdict import FailureKind, Verdict
from ethos_hil.harness.ask.lower_question import lower_question
from ethos_hil.harness.campaign.engine import CampaignCrew, CrewAnswer, read_more
from ethos_hil.harness.campaign.place import ASIDE, RunPlace
from ethos_hil.harness.campaign.planned import Planned, digest_of_model, digest_of_plan, share_of, write_plan
from ethos_hil.harness.campaign.run_folder import SCAN, CampaignSubject, Facet
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.npu.timing.rules import timing_model_id
from ethos_hil.harness.scan.compiled_version import MODELLED, CompiledVersion, ScanPoint, by_vela
from ethos_hil.harness.scan.report import PointScan, ScanReport
from ethos_hil.harness.scan.versions import WantedVersions
from ethos_hil.harness.subjects.environments import KeptEnvironments, PipFailed, releases
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.harness.verdict.artifact_info import failed_findings
from ethos_hil.harness.verdict.tool_state import tool_state
from ethos_hil.lowering.vela.options import VelaSetup

_SHOWN = 5
"""How many problems one line names."""


@dataclass(frozen=True)
class ScanOrder:
    """What to scan.

    Attributes:
        question: the question; its NPU and memory mode are not used.
        over: the versions.
        npus: the NPUs; empty for the default.
        memory_modes: the memory modes; empty for ExecuTorch's default for each NPU.
        environments: where environments are kept; None for the user's cache.
    """

    question: Question
    over: WantedVersions
    npus: tuple[str, ...] = ()
    memory_modes: tuple[str, ...] = ()
    environments: Path | None = None

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

    version: str


def scan(order: ScanOrder, reporter: Reporter, place: RunPlace = ASIDE) -> ScanReport:
    """Compile a question with each version.

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
    environments = KeptEnvironments(order.environments)
    plan = tuple(
        PlannedVersion(question, question.label, more=f"{VELA} {version}", version=version)
        for version in _versions(order.over, environments, reporter, bool(place.merge))
        for question in order.questions
    )
    with place.opened(_subject(order, plan, place.shard)) as run:
        mine = share_of(plan, place.shard)
        if run.campaign is not None:
            folder = run.campaign.run_folder
            write_plan(folder.path, mine, folder.info.shard)
            compiling = partial(_compile, environments, reporter, len(mine))
            CampaignCrew(folder, 1, reporter).ask_here(mine, compiling, is_settled)
        answers = run.answers(mine)
        kept = {digest: more for place_ in run.folders for digest, more in read_more(place_).items()}
    lost = [planned for planned in mine if planned.digest not in answers.by_digest or planned.digest not in kept]
    problems = [*answers.problems, *(f"{it.more} has no answer for {it.name}" for it in lost)]
    if problems:
        raise ToolError(f"the scan is not whole: {'; '.join(problems[:_SHOWN])}", hint="ask again what is missing")
    points = []
    for question in order.questions:
        planned = [it for it in mine if it.question == question]
        if planned:
            first = answers.by_digest[planned[0].digest]
            compiled = tuple(from_json(CompiledVersion, kept[it.digest]["compiled"]) for it in planned)
            points.append(PointScan(first.npu, first.memory_mode, first.system_config, compiled, first.notes))
    return ScanReport(order.question.label, tuple(points), timing_model_id())


def _subject(order: ScanOrder, plan: Sequence[Planned], shard: Shard | None) -> CampaignSubject:
    facet = Facet("model", digest_of_model(order.question.label), "is of another model, or it has changed")
    return CampaignSubject(SCAN, digest_of_plan(plan), tool_state(), shard=str(shard or ""), facets=(facet,))


def is_settled(record: Record) -> bool:
    """Return whether a version would answer the same again: it has a program, or says why it makes none."""
    return record.verdict is Verdict.COMPILED_ONLY or record.kind is FailureKind.COMPILE


def _versions(
    wanted: WantedVersions, environments: KeptEnvironments, reporter: Reporter, known: bool
) -> tuple[str, ...]:
    """Return the versions; those that are `known` to exist need no index where they are named in full."""
    named = wanted.named
    if named is not None and (known or all(environments.find(VELA, version) for version in named)):
        return named  # no index is asked where there is nothing to install
    reporter.stage(f"Listing the releases of {VELA}")
    return wanted.resolve(releases(VELA))


def _lower(question: Question, reporter: Reporter) -> ScanPoint:
    what = f"Lowering {question.label} for {question.npu}"
    reporter.stage(what)
    artifact = lower_question(question, progress=lambda stage: reporter.stage(f"{what}: {stage}")).artifact
    artifact = artifact.of(question.method)
    if not artifact.delegates:
        raise UsageError(f"nothing of {question.label} is on the NPU", hint="`ethos-hil lower` says why")
    return ScanPoint(question, artifact, VelaSetup.of(question))


def _compile(
    environments: KeptEnvironments, reporter: Reporter, count: int, plan: Sequence[PlannedVersion]
) -> Iterator[tuple[PlannedVersion, CrewAnswer]]:
    """Yield what each version makes of what is left of `count` questions. The model is lowered once for all of them."""
    asked = dict.fromkeys(planned.question for planned in plan)
    points = {question: _lower(question, reporter) for question in asked}
    versions: dict[str, list[PlannedVersion]] = {}
    for planned in plan:
        versions.setdefault(planned.version, []).append(planned)
    failures = 0
    for number, (version, of_version) in enumerate(versions.items()):
        mine = [points[planned.question] for planned in of_version]
        try:
            installed = environments.get(VELA, version, reporter.stage)
        except PipFailed as error:
            failures += len(mine)
            if failures == count:
                raise ToolError(
                    f"no version of {VELA} can be installed; the last, {version}: {error}",
                    hint="check the network, `pip config list`, and that there are wheels for this Python",
                ) from error
            compiled = [CompiledVersion(version, f"pip cannot install it: {error}")] * len(mine)
            kind = FailureKind.NOT_AVAILABLE
        else:
            reporter.stage(f"Compiling with {VELA} {version}")
            reporter.step(number, len(versions))
            compiled = by_vela(installed, mine)
            kind = FailureKind.COMPILE
        for planned, point, result in zip(of_version, mine, compiled, strict=True):
            yield planned, CrewAnswer(_record(point, result, kind), {"compiled": asdict(result)})


def _record(point: ScanPoint, compiled: CompiledVersion, kind: FailureKind) -> Record:
    """Return the record of a version: only compiled, also where the functional NPU executed it. Nothing is booted."""
    setup = point.setup
    error = EthosHilError(compiled.reason, kind=kind)
    cycles = () if compiled.cycles is None else (Metric("npu_cycles", compiled.cycles, "cycles", MODELLED),)
    findings = failed_findings(point.question, error).with_facts(
        npu=str(setup.npu),
        memory_mode=setup.mode.name,
        system_config=setup.system.name,
        target=TargetInfo("none", "none", ""),
        versions={**environment.versions(), **compiled.packages},
        metrics=cycles,
        ops=compiled.ops,
        notes=point.artifact.notes,
        timing_model=timing_model_id(),
    )
    return findings.record if compiled.reason else replace(findings, evidence=Evidence(compile_only=True)).record
