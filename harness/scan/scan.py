"""The scan: what is asked, for each NPU and memory mode, compiled by each version, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ethos_hil.base import environment
from ethos_hil.base.errors import EthosHilError, ToolError, UsageError
from ethos_hil.base.judge import Evidence
from ethos_hil.base.question import DEFAULT_NPU, Question
from ethos_hil.base.record import Metric, Record, TargetInfo
from ethos_hil.base.typed_json import from_json
from ethos_hil.base.verdict import FailureKind, Verdict
from ethos_hil.harness.ask.lower_question import lower_question
from ethos_hil.harness.campaign.engine import CampaignCrew, CrewAnswer, read_more
from ethos_hil.harness.campaign.place import ASIDE, CampaignAnswers, RunPlace
from ethos_hil.harness.campaign.planned import Planned, digest_of_model, digest_of_plan, share_of, write_plan
from ethos_hil.harness.campaign.run_folder import SCAN, CampaignSubject, Facet
from ethos_hil.harness.campaign.shard import Shard
from ethos_hil.harness.npu.timing.model_id import timing_model_id
from ethos_hil.harness.scan.compiled_version import MODELLED, CompiledVersion
from ethos_hil.harness.scan.compilers import ScanPoint, by_executorch, by_vela, lower_elsewhere
from ethos_hil.harness.scan.environment import KeptEnvironments, PipFailed, releases
from ethos_hil.harness.scan.releases import VELA, WantedVersions
from ethos_hil.harness.scan.report import PackageScan, PointScan, ScanReport
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.harness.verdict.artifact_info import failed_findings
from ethos_hil.harness.verdict.tool_state import tool_state
from ethos_hil.lowering.vela.options import VelaSetup

_OF_A_TEST = {"method", "trust_model", "npu", "memory_mode"}
"""Fields that may be given for a test; the rest it says itself."""
_SHOWN = 5
"""How many problems one line names."""


@dataclass(frozen=True)
class ScanOrder:
    """What to scan.

    Attributes:
        question: the question: a MODEL, or a test's id; its NPU and memory mode are not used.
        over: the versions, of one package or of several.
        npus: the NPUs; empty for the default, or for that of the test.
        memory_modes: the memory modes; empty for ExecuTorch's default for each NPU.
        environments: where environments are kept; None for the user's cache.
    """

    question: Question
    over: tuple[WantedVersions, ...]
    npus: tuple[str, ...] = ()
    memory_modes: tuple[str, ...] = ()
    environments: Path | None = None

    def check(self) -> None:
        """Check what needs no environment and no lowering.

        Raises:
            UsageError: nothing is to be scanned over, a package is named twice, or an NPU, a mode or an option cannot
                be used.
        """
        if not self.over:
            raise UsageError("no versions to scan over", hint="give --over ethos-u-vela=4.4..5.2")
        packages = [wanted.package for wanted in self.over]
        twice = next((package for package in packages if packages.count(package) > 1), None)
        if twice is not None:
            raise UsageError(f"--over names {twice} twice", hint="separate versions and ranges by commas")
        self.question.check()
        if self.question.is_program:
            raise UsageError(
                f"{self.question.label} is compiled already, and has no TOSA to compile again",
                hint="give the model that it was made from",
            )
        for question in self.questions:
            if question.npu:
                VelaSetup.of(question)
        asked = self.question
        if asked.is_test and set(asked.given) - _OF_A_TEST:
            raise UsageError(
                f"{asked.model} is a test of a suite, which says itself how it is lowered",
                hint="only --npu and --memory-mode can be chosen for it",
            )

    @property
    def questions(self) -> tuple[Question, ...]:
        """The question for each NPU in each memory mode."""
        npus = dict.fromkeys(self.npus or (("",) if self.question.is_test else (DEFAULT_NPU,)))
        modes = dict.fromkeys(self.memory_modes or (None,))
        return tuple(self.question.but(npu=npu, memory_mode=mode) for npu in npus for mode in modes)


@dataclass(frozen=True, kw_only=True)
class PlannedVersion(Planned):
    """A question that a version of a package compiles."""

    package: str
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
    versions = {wanted.package: _versions(wanted, environments, reporter, bool(place.merge)) for wanted in order.over}
    plan = tuple(
        PlannedVersion(question, question.label, more=f"{package} {version}", package=package, version=version)
        for package, of_package in versions.items()
        for version in of_package
        for question in order.questions
    )
    with place.opened(_subject(order, plan, place.shard)) as run:
        mine = share_of(plan, place.shard)
        if run.campaign is not None:
            folder = run.campaign.run_folder
            write_plan(folder.path, mine, folder.info.shard)
            counts = {package: sum(it.package == package for it in mine) for package in versions}
            compiling = _Compiling(environments, reporter, counts)
            CampaignCrew(folder, 1, reporter).ask_here(mine, compiling.answers, is_settled)
        answers = run.answers(mine)
        kept = {digest: more for place_ in run.folders for digest, more in read_more(place_).items()}
    lost = [planned for planned in mine if planned.digest not in answers.by_digest or planned.digest not in kept]
    problems = [*answers.problems, *(f"{it.package} {it.version} has no answer for {it.name}" for it in lost)]
    if problems:
        raise ToolError(f"the scan is not whole: {'; '.join(problems[:_SHOWN])}", hint="ask again what is missing")
    points = {question: [planned for planned in mine if planned.question == question] for question in order.questions}
    packages = tuple(
        PackageScan(
            package,
            tuple(
                _point([planned for planned in of_point if planned.package == package], answers, kept)
                for of_point in points.values()
                if any(planned.package == package for planned in of_point)
            ),
        )
        for package in versions
    )
    return ScanReport(order.question.label, packages, timing_model_id())


def _subject(order: ScanOrder, plan: Sequence[Planned], shard: Shard | None) -> CampaignSubject:
    model = digest_of_model(order.question.label)
    facet = Facet("model", model, "is of another model, or it has changed")
    return CampaignSubject(SCAN, digest_of_plan(plan), tool_state(), shard=str(shard or ""), facets=(facet,))


def is_settled(record: Record) -> bool:
    """Return whether a version would answer the same again: it has a program, or says why it makes none."""
    return record.verdict is Verdict.COMPILED_ONLY or record.kind is FailureKind.COMPILE


def _point(
    planned: Sequence[PlannedVersion], answers: CampaignAnswers, kept: Mapping[str, Mapping[str, Any]]
) -> PointScan:
    """Return the answers of all versions to one question."""
    first = answers.by_digest[planned[0].digest]
    compiled = (from_json(CompiledVersion, kept[it.digest]["compiled"]) for it in planned)
    return PointScan(first.npu, first.memory_mode, first.system_config, tuple(compiled), first.notes)


def _versions(
    wanted: WantedVersions, environments: KeptEnvironments, reporter: Reporter, known: bool
) -> tuple[str, ...]:
    """Return the versions; those that are `known` to exist need no index where they are named in full."""
    named = wanted.named
    if named is not None and (known or all(environments.find(wanted.package, version) for version in named)):
        return named  # no index is asked where there is nothing to install
    reporter.stage(f"Listing the releases of {wanted.package}")
    return wanted.resolve(releases(wanted.package))


def _lower(question: Question, reporter: Reporter) -> ScanPoint:
    what = f"Lowering {question.label}" + (f" for {question.npu}" if question.npu else "")
    reporter.stage(what)
    if question.is_test:
        artifact = lower_elsewhere(question)
        if artifact.npu is None or (question.npu and artifact.npu != question.npu_name):
            raise UsageError(
                f"{question.label} is not compiled for {question.npu or 'an NPU'}",
                hint="give a test whose id ends in the profile of the NPU, such as _U85_BI",
            )
    else:
        artifact = lower_question(question, progress=lambda stage: reporter.stage(f"{what}: {stage}")).artifact
        artifact = artifact.of(question.method)
    npu = artifact.npu if artifact.npu is not None else question.npu_name
    if not artifact.delegates:
        raise UsageError(f"nothing of {question.label} is on the NPU", hint="`ethos-hil lower` says why")
    return ScanPoint(question, artifact, VelaSetup.of(question.but(npu=str(npu))))


@dataclass(frozen=True)
class _Compiling:
    """Compiles with one version after the other.

    Attributes:
        environments: where versions are installed.
        reporter: receives the progress.
        counts: how many questions are planned of each package; some may be answered already.
    """

    environments: KeptEnvironments
    reporter: Reporter
    counts: Mapping[str, int]

    def answers(self, plan: Sequence[PlannedVersion]) -> Iterator[tuple[PlannedVersion, CrewAnswer]]:
        """Yield what the versions made. The model is lowered once for all of them."""
        asked = dict.fromkeys(planned.question for planned in plan)
        points = {question: _lower(question, self.reporter) for question in asked}
        by_package: dict[str, dict[str, list[PlannedVersion]]] = {}
        for planned in plan:
            by_package.setdefault(planned.package, {}).setdefault(planned.version, []).append(planned)
        for package, versions in by_package.items():
            failures = 0
            for number, (version, of_version) in enumerate(versions.items()):
                mine = [points[planned.question] for planned in of_version]
                try:
                    installed = self.environments.get(package, version, self.reporter)
                except PipFailed as error:
                    failures += len(mine)
                    if failures == self.counts[package]:
                        raise ToolError(
                            f"no version of {package} can be installed; the last, {version}: {error}",
                            hint="check the network, `pip config list`, and that there are wheels for this Python",
                        ) from error
                    compiled = [CompiledVersion(version, f"pip cannot install it: {error}")] * len(mine)
                    kind = FailureKind.NOT_AVAILABLE
                else:
                    self.reporter.stage(f"Compiling with {package} {version}")
                    self.reporter.step(number, len(versions))
                    compiled = (by_vela if package == VELA else by_executorch)(installed, mine)
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
