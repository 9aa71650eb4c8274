"""The same model for another NPU, memory mode or system, without lowering it again.

ExecuTorch makes one TOSA program for all Ethos-U55 and U65, and another one for all Ethos-U85: NPU, memory mode and
system are Vela's business alone. So a model that is lowered once is compiled for the others from its frozen TOSA, in
Vela's process, in hundredths of a second. The command streams, weights and rows are those that lowering gives; a test
compares them. There is no .pte with them: what boots is lowered.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ethos_hil.base.errors import CompileError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.scan.compilers import map_rows
from ethos_hil.lowering.artifact import Artifact, Delegate, NpuOp
from ethos_hil.lowering.formats.tosa import without_locations
from ethos_hil.lowering.repairs.defect import DefectFinding
from ethos_hil.lowering.repairs.mend import Mended, mend, mend_crash
from ethos_hil.lowering.vela.compiler import DEBUG_FLAGS, VelaCrash, run_vela, with_ini
from ethos_hil.lowering.vela.options import VelaSetup


class RecompilationDeparts(CompileError):
    """The frozen TOSA is not certain to be what lowering for that NPU makes; it has to be lowered."""


def shares_tosa(npu: EthosU, other: EthosU) -> bool:
    """Return whether ExecuTorch makes the same TOSA program for both (executorch 1.4.1, EthosUCompileSpec)."""
    return npu.family.tosa == other.family.tosa


def recompile_for(artifact: Artifact, setup: VelaSetup) -> Artifact:
    """Return the method that an artifact is seen from, compiled for another NPU, memory mode or system.

    The result has the delegates, rows, flags and summaries of lowering for `setup`. Its `pte` is still that of
    `artifact`, so it cannot be run or saved.

    Args:
        artifact: lowered for an NPU with the same TOSA (`shares_tosa`), with Vela's defects repaired.
        setup: what Vela is asked.

    Raises:
        RecompilationDeparts: only lowering can tell what the program for this NPU is.
        CompileError: Vela refuses the program, or another of its errors; lowering says where in the model.
    """
    if artifact.npu is None or not shares_tosa(artifact.npu, setup.npu):
        raise RecompilationDeparts(f"{artifact.model} was lowered for {artifact.npu}, whose TOSA is not {setup.npu}'s")
    flags = setup.flags
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder:
        arguments = [*with_ini(flags, setup.ini, Path(folder)), *DEBUG_FLAGS]
        new = [_compile(delegate, arguments, setup.npu) for delegate in artifact.delegates]
    delegates = _renumber(artifact.delegates, new)
    return replace(
        artifact,
        npu=setup.npu,
        memory_mode=setup.mode,
        vela_flags=flags,
        vela_ini=setup.ini.text if setup.user_ini else "",
        delegates=delegates,
        others=(),
    )


def _compile(old: Delegate, arguments: Sequence[str], npu: EthosU) -> Delegate:
    assert old.tosa is not None, "a delegate that was lowered here has its TOSA"
    done = _mend(old.tosa, arguments, npu)
    output = done.output
    rewritten = without_locations(output.tosa) if output.tosa != old.tosa else None
    if rewritten != old.compiled:  # the rows of the one say nothing of the operators of the other
        raise RecompilationDeparts(f"a defect of Vela is met on {npu} and not where the model was lowered for")
    try:
        rows = map_rows(output, old)
    except (LookupError, ValueError) as error:
        raise RecompilationDeparts(f"the rows for {npu} cannot be told: {error}") from error
    defects = tuple(dict.fromkeys(finding.defect.id for finding in done.findings))
    return replace(old, vela=output.blob, npu_ops=rows, summary=output.summary, compiled=rewritten, defects=defects)


def _mend(tosa: bytes, arguments: Sequence[str], npu: EthosU) -> Mended:
    """Compile a program, and repair Vela's known defects in it as lowering does."""

    def place(finding: DefectFinding) -> str:
        return f"TOSA's {finding.op}"

    try:
        output = run_vela(tosa, arguments)
    except VelaCrash as crash:
        return mend_crash(crash, tosa, arguments, npu.family, place)
    return mend(output, arguments, as_upstream=False, place=place)


def _renumber(old: Sequence[Delegate], new: Sequence[Delegate]) -> tuple[Delegate, ...]:
    """Return delegates whose rows are numbered through in the order in which the delegates were compiled."""
    order = sorted(range(len(new)), key=lambda at: min((row.id for row in old[at].npu_ops), default=""))
    numbered = list(new)
    following = 0
    for at in order:
        rows = new[at].npu_ops
        numbered[at] = replace(new[at], npu_ops=tuple(_with_id(row, following + n) for n, row in enumerate(rows)))
        following += len(rows)
    return tuple(numbered)


def _with_id(row: NpuOp, number: int) -> NpuOp:
    return replace(row, id=f"npu{number:05d}")
