"""The scan: a question for each NPU and memory mode, compiled by each version, one after the other."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ethos_hil.harness.lowered_request import lowered_request
from ethos_hil.harness.npu.isa.fault import Fault
from ethos_hil.harness.npu.timing.model_id import timing_model_id
from ethos_hil.harness.progress import Reporter
from ethos_hil.harness.request import DEFAULT_NPU, RunRequest
from ethos_hil.harness.scan import overlay, pip
from ethos_hil.harness.scan.changes import VersionChange, changes, findings
from ethos_hil.harness.scan.compiled_version import Answer, CompiledVersion, answers, measured
from ethos_hil.harness.scan.elsewhere import is_case, lowered_elsewhere
from ethos_hil.harness.scan.environment import KeptEnvironments, VersionEnvironment
from ethos_hil.harness.scan.origins import mapped
from ethos_hil.harness.scan.releases import VELA, WantedVersions
from ethos_hil.lowering.artifact import Artifact, Delegate
from ethos_hil.lowering.errors import CompileError, ToolError, UsageError
from ethos_hil.lowering.native.worker import NativeTool, ToolRaised
from ethos_hil.lowering.vela import DEBUG_FLAGS, VelaOutput, run_vela
from ethos_hil.lowering.vela_ini import VelaIni
from ethos_hil.lowering.vela_options import VelaSetup
from ethos_hil.results.plain_text import one_line

_FROZEN = "frozen"
"""The name of a configuration file that is given to all versions alike, though it is the one in our Vela's wheel."""


@dataclass(frozen=True)
class ScanOrder:
    """What to scan.

    Attributes:
        request: the question: a MODEL, or a test's id; its NPU and memory mode are not used.
        over: the versions, of one package or of several.
        npus: the NPUs; empty for the default, or for that of the test.
        memory_modes: the memory modes; empty for ExecuTorch's default for each NPU.
        environments: where environments are kept; None for the user's cache.
    """

    request: RunRequest
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
        packages = [each.package for each in self.over]
        twice = next((each for each in packages if packages.count(each) > 1), None)
        if twice is not None:
            raise UsageError(f"--over names {twice} twice", hint="separate versions and ranges by commas")
        self.request.check_numbers()
        if self.request.is_program:
            raise UsageError(
                f"{self.request.label} is compiled already, and has no TOSA to compile again",
                hint="give the model that it was made from",
            )
        for request in self.requests:
            if request.npu:
                request.vela.setup(request.npu_name, request.memory_mode)
        asked = self.request
        if is_case(str(asked.model)) and (
            asked.vela.given or asked.quantisation.given or asked.leave or asked.as_upstream or asked.scheme != "a8w8"
        ):
            raise UsageError(
                f"{asked.model} is a test of a suite, which says itself how it is lowered",
                hint="only --npu and --memory-mode can be chosen for it",
            )

    @property
    def requests(self) -> tuple[RunRequest, ...]:
        """The question for each NPU in each memory mode."""
        npus = dict.fromkeys(self.npus or (("",) if is_case(str(self.request.model)) else (DEFAULT_NPU,)))
        modes = dict.fromkeys(self.memory_modes or (None,))
        return tuple(replace(self.request, npu=npu, memory_mode=mode) for npu in npus for mode in modes)


@dataclass(frozen=True)
class PointScan:
    """The versions for one NPU in one memory mode.

    Attributes:
        npu, memory_mode, system_config: what they compile for.
        versions: what each of them made, the oldest first.
        notes: sentences about the lowering that they start from.
    """

    npu: str
    memory_mode: str
    system_config: str
    versions: tuple[CompiledVersion, ...]
    notes: tuple[str, ...] = ()

    @cached_property
    def changes(self) -> tuple[VersionChange, ...]:
        """What changed from version to version."""
        return changes(self.versions)

    def findings(self, package: str) -> tuple[str, ...]:
        """Return what a user has to know."""
        return findings(package, self.versions, self.changes)


@dataclass(frozen=True)
class PackageScan:
    """A package's versions, for each NPU and memory mode."""

    package: str
    points: tuple[PointScan, ...]


@dataclass(frozen=True)
class ScanReport:
    """All that was scanned.

    Attributes:
        model: the user's name of the question.
        packages: in the order in which they were asked for.
        timing_model: id of the model that modelled cycles come from.
    """

    model: str
    packages: tuple[PackageScan, ...]
    timing_model: str


@dataclass(frozen=True)
class _Point:
    """What is lowered here for an NPU and a memory mode."""

    request: RunRequest
    artifact: Artifact
    setup: VelaSetup

    @cached_property
    def right(self) -> tuple[Mapping[int, Answer], str]:
        return answers(self.artifact)


def scan(order: ScanOrder, reporter: Reporter) -> ScanReport:
    """Compile a question with each version.

    Raises:
        UsageError: what is asked for cannot be, there is no such version, or the model cannot be used.
        CompileError: the model cannot be lowered here.
        ToolError: no version can be installed, or a tool or a folder does not work.
    """
    order.check()
    environments = KeptEnvironments(order.environments)
    versions = {wanted.package: _versions(wanted, environments) for wanted in order.over}
    points = [_lowered(request, reporter) for request in order.requests]
    found = []
    for package, wanted in versions.items():
        made = _all(package, wanted, environments, points, reporter)
        found.append(
            PackageScan(
                package,
                tuple(
                    PointScan(
                        str(point.setup.npu), point.setup.mode.name, point.setup.system.name, each, point.artifact.notes
                    )
                    for point, each in zip(points, made, strict=True)
                ),
            )
        )
    return ScanReport(order.request.label, tuple(found), timing_model_id())


def _versions(wanted: WantedVersions, environments: KeptEnvironments) -> tuple[str, ...]:
    named = wanted.named
    if named is not None and all(environments.find(wanted.package, each) for each in named):
        return named  # no index is asked where there is nothing to install
    return wanted.resolved(pip.releases(wanted.package))


def _lowered(request: RunRequest, reporter: Reporter) -> _Point:
    what = f"Lowering {request.label}" + (f" for {request.npu}" if request.npu else "")
    reporter.stage(what)
    if is_case(request.label):
        artifact = lowered_elsewhere(request)
        if artifact.npu is None or (request.npu and artifact.npu != request.npu_name):
            raise UsageError(
                f"{request.label} is not compiled for {request.npu or 'an NPU'}",
                hint="give a test whose id ends in the profile of the NPU, such as _U85_BI",
            )
    else:
        artifact = lowered_request(request, progress=lambda stage: reporter.stage(f"{what}: {stage}")).artifact
        artifact = artifact.of(request.method)
    npu = artifact.npu if artifact.npu is not None else request.npu_name
    if not artifact.delegates:
        raise UsageError(f"nothing of {request.label} is on the NPU", hint="`ethos-hil lower` says why")
    mode = request.memory_mode
    return _Point(request, artifact, request.vela.setup(npu, mode))


def _all(
    package: str,
    versions: Sequence[str],
    environments: KeptEnvironments,
    points: Sequence[_Point],
    reporter: Reporter,
) -> list[tuple[CompiledVersion, ...]]:
    """Return for each point what the versions made of it."""
    found: list[list[CompiledVersion]] = [[] for _ in points]
    failures = 0
    for number, version in enumerate(versions):
        try:
            environment = environments.get(package, version, reporter)
        except pip.PipFailed as error:
            failures += 1
            reason = f"pip cannot install it: {error}"
            if failures == len(versions):
                raise ToolError(
                    f"no version of {package} can be installed; the last, {version}: {error}",
                    hint="check the network, `pip config list`, and that there are wheels for this Python",
                ) from error
            made = [CompiledVersion(version, reason)] * len(points)
        else:
            reporter.stage(f"Compiling with {package} {version}")
            reporter.step(number, len(versions))
            by = _by_vela if package == VELA else _by_executorch
            made = by(environment, points, environments)
        for each, result in zip(found, made, strict=True):
            each.append(result)
    return [tuple(each) for each in found]


def _by_vela(
    environment: VersionEnvironment, points: Sequence[_Point], environments: KeptEnvironments
) -> list[CompiledVersion]:
    """Compile the frozen TOSA of each point with one version of Vela."""
    tool = NativeTool("vela", "Vela", VELA, path=environment.alone, version=environment.version)
    try:
        return [_compiled(tool, environment, point) for point in points]
    finally:
        tool.stop()


def _compiled(tool: NativeTool, environment: VersionEnvironment, point: _Point) -> CompiledVersion:
    setup = point.setup
    arguments = [
        f"--accelerator-config={setup.npu}",
        f"--config={setup.ini.name}",
        "--output-format=raw",
        f"--system-config={setup.system.name}",
        f"--memory-mode={setup.mode}",
        *setup.extra,
        *DEBUG_FLAGS,
    ]
    began = time.monotonic()
    notes: list[str] = []
    with _reasons() as failed:
        delegates = []
        for delegate in point.artifact.delegates:
            tosa = delegate.tosa if delegate.compiled is None else delegate.compiled
            assert tosa is not None, "a delegate that was lowered here has its TOSA"
            output = run_vela(tosa, arguments, VelaIni(_FROZEN, setup.ini.text), tool=tool)
            delegates.append(_delegate(delegate, output, notes))
        same = [made.vela == known.vela for made, known in zip(delegates, point.artifact.delegates, strict=True)]
        if environment.version == point.artifact.versions.get(VELA) and not all(same):
            notes.append(f"the installed {VELA} {environment.version} makes another program of this TOSA")
        seconds = time.monotonic() - began
        return measured(
            environment.version, delegates, setup, point.right, packages=environment.packages, notes=notes,
            seconds=seconds,
        )  # fmt: skip
    return CompiledVersion(environment.version, failed[0], environment.packages)


def _delegate(known: Delegate, output: VelaOutput, notes: list[str]) -> Delegate:
    """Return a delegate as another version compiled it."""
    try:
        rows = mapped(output, known)
    except (CompileError, LookupError, ValueError) as error:
        notes.append(f"its operations have no lines: the debug database of this Vela is another one ({error})")
        rows = ()
    return replace(known, vela=output.blob, npu_ops=rows, summary=output.summary)


def _by_executorch(
    environment: VersionEnvironment, points: Sequence[_Point], environments: KeptEnvironments
) -> list[CompiledVersion]:
    """Lower each point with one version of ExecuTorch, which is laid over the present environment."""
    wanted = overlay.torch_wanted(environment.site, environment.package)
    if wanted is not None:
        import importlib.metadata

        reason = f"it requires torch {wanted}, and torch {importlib.metadata.version('torch')} is installed"
        return [CompiledVersion(environment.version, reason, environment.packages)] * len(points)
    return [_lowered_by(environment, point, environments) for point in points]


def _lowered_by(environment: VersionEnvironment, point: _Point, environments: KeptEnvironments) -> CompiledVersion:
    began = time.monotonic()
    with _reasons() as failed:
        cache = environments.root / "lowered" / environment.folder.name
        artifact = lowered_elsewhere(point.request, environment.site, cache).of(point.request.method)
        seconds = time.monotonic() - began
        packages = {**artifact.versions, **environment.packages}
        return measured(
            environment.version, artifact.delegates, point.setup, answers(artifact), packages=packages,
            notes=artifact.notes, seconds=seconds,
        )  # fmt: skip
    return CompiledVersion(environment.version, failed[0], environment.packages)


@contextmanager
def _reasons() -> Iterator[list[str]]:
    """Take an error that is a version's for the reason why it has no row."""
    found: list[str] = []
    try:
        yield found
    except (UsageError, Fault, ToolRaised) as error:
        said = [line.strip() for note in getattr(error.__cause__, "__notes__", ()) for line in note.splitlines()]
        last = next((line for line in reversed(said) if "error:" in line), "")
        found.append(one_line(f"{error}".rstrip(": ") + (f": {last}" if last else "")))
