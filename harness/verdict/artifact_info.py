"""What a record says of the program that ran, also where its run has no answer."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ethos_hil.base import environment
from ethos_hil.base.errors import EthosHilError, UsageError
from ethos_hil.base.files import read_bytes
from ethos_hil.base.judge import Evidence, Findings
from ethos_hil.base.program_info import ArtifactInfo, CpuOp, DelegateInfo
from ethos_hil.base.question import Question
from ethos_hil.base.record import RunFacts, RunnerInfo, TargetInfo
from ethos_hil.base.verdict import Failure
from ethos_hil.harness.image.npu_share import npu_share
from ethos_hil.harness.image.quantised_io import quantised_io
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.formats.pte_model import KernelCall
from ethos_hil.lowering.program.multiplications import products_of_call

_PROGRAM = "program"
"""The attribute of an error that has the description of a program."""
_REPAIRED = "leave out --as-upstream: they are repaired then"


def info(artifact: Artifact) -> ArtifactInfo:
    """Return the artifact's description for a record."""
    placed = artifact.placement
    return ArtifactInfo(
        artifact.sha256,
        len(artifact.pte),
        len(artifact.npu_ops),
        artifact.cpu_ops,
        artifact.vela_flags,
        delegated=placed.delegated if artifact.key or not artifact.delegates else None,
        cpu_calls=cpu_ops(artifact),
        scheme=artifact.scheme or "",
        question=f"pte:{artifact.contents}" if artifact.foreign else artifact.question,
        delegates=tuple(DelegateInfo(delegate.instruction, *delegate.digests) for delegate in artifact.delegates),
        lowering=_lowering(artifact),
        key=artifact.key,
        depth=depth_of(artifact),
        npu_share=npu_share(artifact),
        quantised_io=quantised_io(artifact),
    )


_DEPTHS = {"on": "full", "off": "unpatched", "bare": "bare"}


def depth_of(artifact: Artifact) -> str:
    """Return `ArtifactInfo.depth`."""
    return _DEPTHS.get(artifact.versions.get("ethos-hil-patches", ""), "")


def _lowering(artifact: Artifact) -> str:
    """Return the digest of the code that lowered it; programs of another depth are made by other code."""
    digest = "" if artifact.foreign else artifact.versions.get("ethos-hil-lowering", "")
    return digest if depth_of(artifact) in ("", "full") else f"{digest} {depth_of(artifact)}"


def versions_of(artifact: Artifact | None) -> dict[str, str]:
    """Return the versions for a record: those that made the program, where it was lowered by ethos-hil."""
    made = {} if artifact is None or artifact.foreign else artifact.versions
    return {name: made.get(name, version) for name, version in environment.versions().items()}


def cached_artifact(program: ArtifactInfo, cache: Cache) -> Artifact | None:
    """Return the artifact that a record describes, or None where the cache no longer has it.

    Where only its key has left the cache, it is the newest copy of the same program: the same bytes, but the lines of
    the source as they were when that copy was made.
    """
    artifact = cache.get(program.key) if re.fullmatch(r"[0-9a-f]{64}", program.key) else None
    return artifact if artifact is not None and artifact.sha256 == program.sha256 else cache.find_by_pte(program.sha256)


def cpu_ops(artifact: Artifact) -> tuple[CpuOp, ...]:
    """Return the calls on the CPU for a record."""
    plan = artifact.plan
    return tuple(
        CpuOp(call.operator, call.kind, call.aten, call.module, call.source, call.reason, call.remedy, products)
        for call in artifact.placement.calls
        if isinstance(made := plan.instructions[call.instruction], KernelCall)
        for products in (products_of_call(plan, made),)
    )


@contextmanager
def naming_program(artifact: Artifact) -> Iterator[None]:
    """While inside, an error of the run knows the program that ran (`program_of`), and names its known defects.

    A program has known defects of Vela where it was lowered with `--as-upstream`.
    """
    try:
        yield
    except EthosHilError as error:
        if program_of(error) is None:
            vars(error)[_PROGRAM] = info(artifact)
        defects = () if isinstance(error, UsageError) else defects_in(artifact)
        if not defects:
            raise
        raise error.replace(message=f"{error.message}; {_defects_left(artifact, defects)}", hint=_REPAIRED) from error


def program_of(error: EthosHilError) -> ArtifactInfo | None:
    """Return the description of the program that ran into an error, or None where none did."""
    program = vars(error).get(_PROGRAM)
    return program if isinstance(program, ArtifactInfo) else None


def defects_in(artifact: Artifact) -> tuple[str, ...]:
    """Return the ids of the known defects that an artifact's compiled programs have."""
    kept = (delegate for delegate in artifact.delegates if delegate.compiled is None)
    return tuple(dict.fromkeys(defect for delegate in kept for defect in delegate.defects))


def name_defects(failure: Failure, artifact: Artifact) -> Failure:
    """Return a failure that names the known defects that the program has, if it has any."""
    defects = defects_in(artifact)
    if not defects:
        return failure
    return dataclasses.replace(
        failure, message=f"{failure.message}; {_defects_left(artifact, defects)}", hint=_REPAIRED
    )


def _defects_left(artifact: Artifact, defects: tuple[str, ...]) -> str:
    vela = f"Vela {artifact.versions.get(environment.VELA, '')}".rstrip()
    return f"the program has known defects of {vela}, left in by --as-upstream: {', '.join(defects)}"


def failed_findings(question: Question, error: EthosHilError) -> Findings:
    """Return what is known of a question that ended in an error."""
    from ethos_hil.harness.image.preflight import PreflightFailed
    from ethos_hil.harness.targets.registry import kind_of, name_in_records

    examined = error if isinstance(error, PreflightFailed) else None
    facts = RunFacts(
        model=question.label,
        npu=question.npu,
        target=TargetInfo(name_in_records(question.target), kind_of(question.target), ""),
        versions=environment.versions(),
        console=error.console,
        memory_mode=question.memory_mode or "",
        method=question.method or "forward",
        runner=_runner(question.runner),
        artifact=examined.artifact if examined is not None else program_of(error),
        preflight=examined.checks if examined is not None else (),
        created=environment.now(),
        question=question.for_record(),
    )
    return Findings(facts, Evidence(stopped=error.failure))


def _runner(path: Path | None) -> RunnerInfo | None:
    try:
        return None if path is None else RunnerInfo(str(path), hashlib.sha256(read_bytes(path)).hexdigest())
    except OSError:
        return None
