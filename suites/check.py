"""Runs one case in one profile, and says what came of it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from lowering.artifact import Artifact
from lowering.cache import Cache
from lowering.memory_mode import MemoryMode
from lowering.profile import Npu
from lowering.specification import TosaSpec
from lowering.toolchain import EthosUToolchain, TosaToolchain
from results import environment
from results.record import Failure, Record, TargetInfo
from suites import warm
from suites.case import Case, Operator
from suites.profile import Profile


@dataclass(frozen=True)
class Settings:
    """What is asked of a whole session.

    Attributes:
        target: where the NPU profiles run; None for nowhere: then they are compiled only.
        memory_mode: by Vela's name; None for the NPU's default.
        timeout: wall seconds of one run on the target.
        strict: fail on missing waits in command streams.
    """

    target: str | None = "virtual"
    memory_mode: str | None = None
    timeout: float = 120.0
    strict: bool = False


@dataclass(frozen=True)
class Declared:
    """One test: a case in a profile."""

    operator: Operator
    case: Case
    profile: Profile
    file: Path

    @property
    def name(self) -> str:
        """For example "add_broadcast"."""
        return f"{self.operator.name}_{self.case.name}"

    @property
    def on_cpu(self) -> str | None:
        """Why nothing of it is delegated in this profile, or None when it is."""
        return self.case.on_cpu.get(self.profile.name) or self.operator.on_cpu.get(self.profile.name)

    def lower(self, memory_mode: str | None, cache: Cache) -> Artifact:
        """Its artifact, from the cache if it can be."""
        target = self.profile.target
        mode = MemoryMode.chosen(memory_mode, target) if isinstance(target, Npu) else None
        key = (
            TosaToolchain(target, self.case.scheme).key
            if isinstance(target, TosaSpec)
            else EthosUToolchain(target, mode or MemoryMode.default(target), self.case.scheme).key
        )
        place = f"{self.file}::{self.name}"
        found = warm.find(cache, place, key)
        if found is not None:
            return found
        from lowering.lower import lower
        from suites.build import build

        model = build(self.name, self.case, self.file.parent)
        artifact = lower(model, target, memory_mode=mode, scheme=self.case.scheme, cache=cache)
        warm.keep(cache, place, key, artifact)
        return artifact


def expectations(test: Declared, artifact: Artifact) -> str | None:
    """What is wrong with where the case was compiled to, or None."""
    from lowering.tosa import TosaGraph

    graphs = [TosaGraph.parse(delegate.tosa) for delegate in artifact.delegates if delegate.tosa is not None]
    found = [operator.op for graph in graphs for operator in graph.operators]
    if test.on_cpu is not None:
        return None if not found else f"it is declared to be left to the CPU ({test.on_cpu}), but is delegated: {found}"
    if not found:
        return f"nothing was delegated; on the CPU: {', '.join(artifact.cpu_ops) or 'nothing'}"
    wanted = test.operator.fp if test.profile.name == "MI" else test.operator.int
    missing = [op for op in wanted if op not in found]
    return f"the delegate has no {', '.join(missing)}, it has {', '.join(sorted(set(found)))}" if missing else None


def check(test: Declared, settings: Settings, cache: Cache | None = None) -> Record:
    """Lower the case, run it where its profile is computed, and compare.

    Raises:
        EthosHilError: it could not be lowered or run. A wrong answer is not raised; it is the record's verdict.
    """
    artifact = test.lower(settings.memory_mode, cache or Cache())
    problem = expectations(test, artifact)
    if problem is not None:
        return _record(test, artifact, "failed", Failure("delegation", problem))
    npu = test.profile.npu
    if npu is None:
        from suites.host import verify_on_host

        return verify_on_host(test.name, artifact)
    if settings.target is None:
        return _record(test, artifact, "compiled-only")
    from harness.firmware import find_firmware
    from harness.run import run_artifact
    from harness.targets import make_target

    board = make_target(settings.target, npu, strict=settings.strict)
    record = run_artifact(artifact, board, find_firmware(board.soc), label=test.name, timeout=settings.timeout).record
    unmapped = [op.id for op in artifact.npu_ops if not op.aten_ops]
    if record.verdict == "verified" and unmapped:
        failure = Failure("unmapped", f"no aten operator is known for {', '.join(unmapped)}")
        return dataclasses.replace(record, verdict="failed", failure=failure)
    return record


def _record(test: Declared, artifact: Artifact, verdict: str, failure: Failure | None = None) -> Record:
    """The record of a case that did not run."""
    from harness.run import info

    return Record(
        verdict=verdict,
        model=test.name,
        npu=str(artifact.npu or ""),
        target=TargetInfo("none", "none", ""),
        failure=failure,
        artifact=info(artifact),
        versions=environment.versions(),
        notes=artifact.notes,
        memory_mode=str(artifact.memory_mode or ""),
    )
