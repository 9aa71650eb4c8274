"""The scan: what is asked, for each NPU and memory mode, compiled by each version, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.question import DEFAULT_NPU, Question
from ethos_hil.harness.ask.lower_question import lower_question
from ethos_hil.harness.npu.timing.model_id import timing_model_id
from ethos_hil.harness.scan.compiled_version import CompiledVersion
from ethos_hil.harness.scan.compilers import ScanPoint, by_executorch, by_vela, lower_elsewhere
from ethos_hil.harness.scan.environment import KeptEnvironments, PipFailed, releases
from ethos_hil.harness.scan.releases import VELA, WantedVersions
from ethos_hil.harness.scan.report import PackageScan, PointScan, ScanReport
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.lowering.vela.options import VelaSetup

_OF_A_TEST = {"method", "trust_model", "npu", "memory_mode"}
"""Fields that may be given for a test; the rest it says itself."""


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


def scan(order: ScanOrder, reporter: Reporter) -> ScanReport:
    """Compile a question with each version.

    Raises:
        UsageError: what is asked for cannot be, there is no such version, or the model cannot be used.
        CompileError: the model cannot be lowered here.
        ToolError: no version can be installed, or a tool or a folder does not work.
    """
    order.check()
    environments = KeptEnvironments(order.environments)
    versions = {wanted.package: _versions(wanted, environments, reporter) for wanted in order.over}
    points = [_lower(question, reporter) for question in order.questions]
    packages = []
    for package, wanted in versions.items():
        rows = zip(points, _all(package, wanted, environments, points, reporter), strict=True)
        packages.append(PackageScan(package, tuple(_point(point, compiled) for point, compiled in rows)))
    return ScanReport(order.question.label, tuple(packages), timing_model_id())


def _point(point: ScanPoint, versions: tuple[CompiledVersion, ...]) -> PointScan:
    setup = point.setup
    return PointScan(str(setup.npu), setup.mode.name, setup.system.name, versions, point.artifact.notes)


def _versions(wanted: WantedVersions, environments: KeptEnvironments, reporter: Reporter) -> tuple[str, ...]:
    named = wanted.named
    if named is not None and all(environments.find(wanted.package, version) for version in named):
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


def _all(
    package: str,
    versions: Sequence[str],
    environments: KeptEnvironments,
    points: Sequence[ScanPoint],
    reporter: Reporter,
) -> list[tuple[CompiledVersion, ...]]:
    """Return for each point what the versions made of it."""
    by_point: list[list[CompiledVersion]] = [[] for _ in points]
    failures = 0
    for number, version in enumerate(versions):
        try:
            environment = environments.get(package, version, reporter)
        except PipFailed as error:
            failures += 1
            reason = f"pip cannot install it: {error}"
            if failures == len(versions):
                raise ToolError(
                    f"no version of {package} can be installed; the last, {version}: {error}",
                    hint="check the network, `pip config list`, and that there are wheels for this Python",
                ) from error
            results = [CompiledVersion(version, reason)] * len(points)
        else:
            reporter.stage(f"Compiling with {package} {version}")
            reporter.step(number, len(versions))
            results = (by_vela if package == VELA else by_executorch)(environment, points)
        for of_point, result in zip(by_point, results, strict=True):
            of_point.append(result)
    return [tuple(of_point) for of_point in by_point]
