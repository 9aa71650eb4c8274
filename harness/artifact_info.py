"""What a record says of the program that ran."""

from __future__ import annotations

import hashlib

from ethos_hil.lowering.artifact import Artifact, Delegate
from ethos_hil.lowering.placement import Placement
from ethos_hil.results.record import ArtifactInfo, CpuOp, DelegateInfo


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
        delegates=tuple(map(_delegate, artifact.delegates)),
    )


def _delegate(delegate: Delegate) -> DelegateInfo:
    tosa = delegate.tosa if delegate.compiled is None else delegate.compiled
    blob = delegate.blob if delegate.vela else None
    return DelegateInfo(
        delegate.instruction,
        _sha256(tosa),
        _sha256(None if blob is None else blob.command_stream),
        _sha256(None if blob is None else blob.weights),
    )


def _sha256(data: bytes | None) -> str:
    return "" if data is None else hashlib.sha256(data).hexdigest()


def cpu_ops(placed: Placement) -> tuple[CpuOp, ...]:
    """Return the calls on the CPU for a record."""
    return tuple(
        CpuOp(call.operator, call.kind, call.aten, call.module, call.source, call.reason, call.remedy)
        for call in placed.calls
    )
