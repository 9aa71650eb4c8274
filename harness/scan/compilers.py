"""One version's way from a question to programs: Vela's from the frozen TOSA, ExecuTorch's from the model."""

from __future__ import annotations

import importlib.metadata
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ethos_hil.base.errors import CompileError, UsageError
from ethos_hil.base.plain_text import one_line
from ethos_hil.base.question import Question
from ethos_hil.harness.npu.isa.fault import Fault
from ethos_hil.harness.scan import overlay
from ethos_hil.harness.scan.compiled_version import Answer, CompiledVersion, answers, measured
from ethos_hil.harness.scan.elsewhere import lowered_elsewhere
from ethos_hil.harness.scan.environment import VersionEnvironment
from ethos_hil.harness.scan.origins import mapped
from ethos_hil.harness.scan.releases import VELA
from ethos_hil.lowering.artifact import Artifact, Delegate
from ethos_hil.lowering.native.worker import NativeTool, ToolRaised
from ethos_hil.lowering.vela.compiler import DEBUG_FLAGS, VelaOutput, run_vela
from ethos_hil.lowering.vela.ini import VelaIni
from ethos_hil.lowering.vela.options import VelaSetup

_ITS_OWN = (UsageError, Fault, ToolRaised)
"""Errors that are a version's: it has no program, and the scan goes on."""
_FROZEN = "frozen"
"""The name of a configuration file that is given to all versions alike, though it is the one in our Vela's wheel."""


@dataclass(frozen=True)
class ScanPoint:
    """What is lowered here for an NPU and a memory mode: what all versions start from.

    Attributes:
        question: the question.
        artifact: as it was lowered.
        setup: what Vela is asked.
    """

    question: Question
    artifact: Artifact
    setup: VelaSetup

    @cached_property
    def right(self) -> tuple[Mapping[int, Answer], str]:
        """What `answers` returns for it."""
        return answers(self.artifact)


def by_vela(environment: VersionEnvironment, points: Sequence[ScanPoint]) -> list[CompiledVersion]:
    """Compile the frozen TOSA of each point with one version of Vela. Raises ToolError if its process cannot start."""
    tool = NativeTool("vela", "Vela", VELA, path=environment.alone, version=environment.version)
    try:
        return [_compiled(tool, environment, point) for point in points]
    finally:
        tool.stop()


def _compiled(tool: NativeTool, environment: VersionEnvironment, point: ScanPoint) -> CompiledVersion:
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
    try:
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
    except _ITS_OWN as error:
        return CompiledVersion(environment.version, _reason(error), environment.packages)


def _delegate(known: Delegate, output: VelaOutput, notes: list[str]) -> Delegate:
    """Return a delegate as another version compiled it."""
    try:
        rows = mapped(output, known)
    except (CompileError, LookupError, ValueError) as error:
        notes.append(f"its operations have no lines: the debug database of this Vela is another one ({error})")
        rows = ()
    return replace(known, vela=output.blob, npu_ops=rows, summary=output.summary)


def by_executorch(environment: VersionEnvironment, points: Sequence[ScanPoint]) -> list[CompiledVersion]:
    """Lower each point with one version of ExecuTorch, which is laid over the present environment.

    Raises:
        ToolError: its process, or the cache of what it lowers, does not work.
    """
    wanted = overlay.torch_wanted(environment.site, environment.package)
    if wanted is not None:
        reason = f"it requires torch {wanted}, and torch {importlib.metadata.version('torch')} is installed"
        return [CompiledVersion(environment.version, reason, environment.packages)] * len(points)
    return [_lowered_by(environment, point) for point in points]


def _lowered_by(environment: VersionEnvironment, point: ScanPoint) -> CompiledVersion:
    began = time.monotonic()
    try:
        cache = environment.folder.parent / "lowered" / environment.folder.name
        artifact = lowered_elsewhere(point.question, environment.site, cache).of(point.question.method)
        if not artifact.delegates:
            raise CompileError("it leaves all operators to the CPU")
        seconds = time.monotonic() - began
        packages = {**artifact.versions, **environment.packages}
        return measured(
            environment.version, artifact.delegates, point.setup, answers(artifact), packages=packages,
            notes=artifact.notes, seconds=seconds,
        )  # fmt: skip
    except _ITS_OWN as error:
        return CompiledVersion(environment.version, _reason(error), environment.packages)


def _reason(error: Exception) -> str:
    """Return why a version makes no program, as it says itself."""
    said = [line.strip() for note in getattr(error.__cause__, "__notes__", ()) for line in note.splitlines()]
    last = next((line for line in reversed(said) if "error:" in line), "")
    return one_line(f"{error}".rstrip(": ") + (f": {last}" if last else ""))
