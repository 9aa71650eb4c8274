"""One version's way from a question to programs: Vela's from the frozen TOSA, ExecuTorch's from the model."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from ethos_hil.base.asking import LOWER, TESTING, words
from ethos_hil.base.errors import CompileError, ToolError, UsageError
from ethos_hil.base.plain_text import cut, one_line
from ethos_hil.base.process import run_module
from ethos_hil.base.question import Question
from ethos_hil.base.regular_file import read_text
from ethos_hil.base.verdict import Verdict
from ethos_hil.harness.npu.isa.fault import Fault
from ethos_hil.harness.scan.compiled_version import Answer, CompiledVersion, answers, measure
from ethos_hil.harness.scan.environment import VersionEnvironment, torch_wanted
from ethos_hil.harness.scan.origins import map_rows
from ethos_hil.harness.scan.releases import VELA
from ethos_hil.lowering.artifact import Artifact, Delegate
from ethos_hil.lowering.cache.contents import CACHE_VARIABLE, LIMIT_VARIABLE
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.native.worker import NativeTool, ToolRaised
from ethos_hil.lowering.upstream.patches.patch import VARIABLE
from ethos_hil.lowering.vela.compiler import DEBUG_FLAGS, VelaOutput, run_vela
from ethos_hil.lowering.vela.ini import VelaIni
from ethos_hil.lowering.vela.options import VelaSetup
from ethos_hil.results.store import StoredRecord, read

_ITS_OWN = (UsageError, Fault, ToolRaised)
"""Errors that are a version's: it has no program, and the scan goes on."""
_FROZEN = "frozen"
"""The name of a configuration file that is given to all versions alike, though it is the one in our Vela's wheel."""
_LIMIT = "1GB"
"""Of what is kept of the artifacts of another ExecuTorch."""
_MOST_REASON = 400
_OURS = "ethos-hil: "
_ADVICE = re.compile(r" \(--debug [^()]*\)$")
"""What is of no use here, at the end of an error of that process."""


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
        return [_compile(tool, environment, point) for point in points]
    finally:
        tool.stop()


def _compile(tool: NativeTool, environment: VersionEnvironment, point: ScanPoint) -> CompiledVersion:
    setup = point.setup
    arguments = [*setup.flags, *DEBUG_FLAGS]
    began = time.monotonic()
    notes: list[str] = []
    try:
        delegates = []
        for delegate in point.artifact.delegates:
            tosa = delegate.tosa if delegate.compiled is None else delegate.compiled
            assert tosa is not None, "a delegate that was lowered here has its TOSA"
            output = run_vela(tosa, arguments, VelaIni(_FROZEN, setup.ini.text), tool=tool)
            delegates.append(_delegate(delegate, output, notes))
        same = [new.vela == old.vela for new, old in zip(delegates, point.artifact.delegates, strict=True)]
        if environment.version == point.artifact.versions.get(VELA) and not all(same):
            notes.append(f"the installed {VELA} {environment.version} makes another program of this TOSA")
        seconds = time.monotonic() - began
        return measure(
            environment.version, delegates, setup, point.right, packages=environment.packages, notes=notes,
            seconds=seconds,
        )  # fmt: skip
    except _ITS_OWN as error:
        return CompiledVersion(environment.version, _reason(error), environment.packages)


def _delegate(delegate: Delegate, output: VelaOutput, notes: list[str]) -> Delegate:
    """Return a delegate as another version compiled it."""
    try:
        rows = map_rows(output, delegate)
    except (CompileError, LookupError, ValueError) as error:
        notes.append(f"its operations have no lines: the debug database of this Vela is another one ({error})")
        rows = ()
    return replace(delegate, vela=output.blob, npu_ops=rows, summary=output.summary)


def by_executorch(environment: VersionEnvironment, points: Sequence[ScanPoint]) -> list[CompiledVersion]:
    """Lower each point with one version of ExecuTorch, which is laid over the present environment.

    Raises:
        ToolError: its process, or the cache of what it lowers, does not work.
    """
    wanted = torch_wanted(environment.site, environment.package)
    if wanted is not None:
        reason = f"it requires torch {wanted}, and torch {importlib.metadata.version('torch')} is installed"
        return [CompiledVersion(environment.version, reason, environment.packages)] * len(points)
    return [_lower_by(environment, point) for point in points]


def _lower_by(environment: VersionEnvironment, point: ScanPoint) -> CompiledVersion:
    began = time.monotonic()
    try:
        cache = environment.folder.parent / "lowered" / environment.folder.name
        artifact = lower_elsewhere(point.question, environment.site, cache).of(point.question.method)
        if not artifact.delegates:
            raise CompileError("it leaves all operators to the CPU")
        seconds = time.monotonic() - began
        packages = {**artifact.versions, **environment.packages}
        return measure(
            environment.version, artifact.delegates, point.setup, answers(artifact), packages=packages,
            notes=artifact.notes, seconds=seconds,
        )  # fmt: skip
    except _ITS_OWN as error:
        return CompiledVersion(environment.version, _reason(error), environment.packages)


def _reason(error: Exception) -> str:
    """Return why a version makes no program, as it says itself."""
    lines = [line.strip() for note in getattr(error.__cause__, "__notes__", ()) for line in note.splitlines()]
    last = next((line for line in reversed(lines) if "error:" in line), "")
    return one_line(f"{error}".rstrip(": ") + (f": {last}" if last else ""))


def lower_elsewhere(question: Question, overlay: Path | None = None, cache: Path | None = None) -> Artifact:
    """Lower a question in a process of its own, and return the artifact.

    Args:
        question: the question; its model is a text. The NPU of a test may be "", for the one of its profile.
        overlay: a folder that comes first in Python's path, with another ExecuTorch; then none of our patches of
            ExecuTorch is applied. None for what is installed.
        cache: the root of the cache of artifacts; by default the user's.

    Raises:
        UsageError: the question names no test, or nothing that can be scanned.
        CompileError: it cannot be lowered.
        ToolError: the process or the cache does not work.
    """
    model = str(question.model)
    store = Cache(cache)
    variables = {CACHE_VARIABLE: str(store.folder)}
    if overlay is not None:
        path = os.pathsep.join(filter(None, (str(overlay), os.environ.get("PYTHONPATH", ""))))
        limit = os.environ.get(LIMIT_VARIABLE, _LIMIT)
        variables |= {"PYTHONPATH": path, VARIABLE: "off", LIMIT_VARIABLE: limit}
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder:
        digest = (_of_case if question.is_test else _of_model)(question, Path(folder), variables)
    artifact = store.find_by_pte(digest)
    if artifact is None:
        raise ToolError(
            f"{model} was lowered, but is no longer in the cache {store.root}", hint="is the cache's limit too small?"
        )
    return artifact


def _of_model(question: Question, folder: Path, variables: Mapping[str, str]) -> str:
    """Return the digest of a MODEL's program."""
    answer = folder / "lowered.json"
    program = folder / "program.pte"
    command = ["ethos_hil.harness.cli.main", "lower", *words(question, LOWER), "--output", str(program), "--json",
               str(answer)]  # fmt: skip
    status, lines = _call(command, variables)
    if status:
        ours = [_ADVICE.sub("", line.removeprefix(_OURS)) for line in lines if line.startswith(_OURS)]
        raise CompileError(_short(ours or lines, status))
    return str(json.loads(read_text(answer))["pte_sha256"])


def _of_case(question: Question, folder: Path, variables: Mapping[str, str]) -> str:
    """Return the digest of the program of a suite's test."""
    case = question.label
    command = ["pytest", "--quiet", "-p", "no:cacheprovider", "--compile-only", "--runs", str(folder)]
    command += words(question, TESTING)
    status, lines = _call(command, variables)
    records = [item.record for item in read(folder) if isinstance(item, StoredRecord)]
    if not records:
        raise UsageError(
            f"pytest finds no test {case} that is lowered: {_short(lines, status)}",
            hint="give the id of one test of a suite, as pytest --collect-only prints it",
        )
    if len(records) > 1:
        raise UsageError(f"{case} is {len(records)} tests", hint=f"give one, such as {records[0].label}")
    record = records[0]
    if record.verdict is not Verdict.COMPILED_ONLY or record.artifact is None:
        why = record.failure.message if record.failure is not None else f"it is {record.verdict}"
        raise CompileError(f"{case} cannot be lowered: {one_line(why)}")
    return record.artifact.sha256


def _call(command: Sequence[str], variables: Mapping[str, str]) -> tuple[int, list[str]]:
    """Run a module of Python as a program. Return its status, and the lines that it wrote."""
    status, output = run_module(command, variables)
    return status, [line.strip() for line in output.splitlines() if line.strip()]


def _short(lines: Sequence[str], status: int) -> str:
    return cut(one_line(lines[-1]), _MOST_REASON) if lines else f"it ended with status {status}"
