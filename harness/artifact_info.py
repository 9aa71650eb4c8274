"""What a record says of the program that ran."""

from __future__ import annotations

from ethos_hil.lowering.artifact import Artifact
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
        delegates=tuple(DelegateInfo(each.instruction, *each.digests) for each in artifact.delegates),
        lowering="" if artifact.foreign else artifact.versions.get("ethos-hil-lowering", ""),
    )


def cpu_ops(placed: Placement) -> tuple[CpuOp, ...]:
    """Return the calls on the CPU for a record."""
    return tuple(
        CpuOp(call.operator, call.kind, call.aten, call.module, call.source, call.reason, call.remedy)
        for call in placed.calls
    )
