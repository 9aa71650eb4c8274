"""What a record says of the program that ran."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.record import ArtifactInfo, CpuOp, DelegateInfo
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.program.placement import Placement

_PROGRAM = "program"
"""The attribute of an error that has the description of a program."""


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
        cpu_calls=cpu_ops(placed),
        scheme=artifact.scheme or "",
        question=f"pte:{artifact.sha256}" if artifact.foreign else artifact.question,
        delegates=tuple(DelegateInfo(each.instruction, *each.digests) for each in artifact.delegates),
        lowering="" if artifact.foreign else artifact.versions.get("ethos-hil-lowering", ""),
        key=artifact.key,
    )


def cached(program: ArtifactInfo, cache: Cache) -> Artifact | None:
    """Return the artifact that a record describes, or None where the cache no longer has it.

    Where only its key has left the cache, it is the newest copy of the same program: the same bytes, but the lines of
    the source as they were when that copy was made.
    """
    made = cache.get(program.key) if re.fullmatch(r"[0-9a-f]{64}", program.key) else None
    return made if made is not None and made.sha256 == program.sha256 else cache.find_by_pte(program.sha256)


def cpu_ops(placed: Placement) -> tuple[CpuOp, ...]:
    """Return the calls on the CPU for a record."""
    return tuple(
        CpuOp(call.operator, call.kind, call.aten, call.module, call.source, call.reason, call.remedy)
        for call in placed.calls
    )


@contextmanager
def naming_program(artifact: Artifact) -> Iterator[None]:
    """While inside, an error of the run knows the program that ran (`program_of`)."""
    try:
        yield
    except EthosHilError as error:
        vars(error).setdefault(_PROGRAM, info(artifact))
        raise


def program_of(error: EthosHilError) -> ArtifactInfo | None:
    """Return the description of the program that ran into an error, or None where none did."""
    found = vars(error).get(_PROGRAM)
    return found if isinstance(found, ArtifactInfo) else None
