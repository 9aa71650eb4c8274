"""From a compiled program to one without the known defects of Vela: find, rewrite, compile again, check.

The TOSA program that upstream made stays the reference, so that every run on a target also checks the rewriting.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.environment import VELA, version
from ethos_hil.base.errors import CompileError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import Family
from ethos_hil.lowering.formats.tosa_draft import TosaDraft
from ethos_hil.lowering.repairs import (
    batched_average,
    chained_shape,
    chained_tables,
    constant_result,
    cropped_transpose_conv,
    dropped_output,
    fused_shape,
    input_weights,
    lost_saturation,
    padded_transposition,
    reduce_min,
    reduced_part,
    reduced_row,
    rescaled_weights,
    scaled_maximum,
    shared_bias,
    shared_sums,
    shifted_operands,
    sliced_input,
    table_beyond_shram,
    uneven_resize,
)
from ethos_hil.lowering.repairs.checks import excess_padding, missing_outputs, overruns
from ethos_hil.lowering.repairs.constant_result import constant_results
from ethos_hil.lowering.repairs.defect import DefectFinding, VelaDefect
from ethos_hil.lowering.vela.compiler import VelaCrash, VelaOutput, VelaRefusal, run_vela

DEFECTS: tuple[VelaDefect, ...] = (
    constant_result.DEFECT,
    lost_saturation.DEFECT,
    table_beyond_shram.DEFECT,
    padded_transposition.DEFECT,
    cropped_transpose_conv.DEFECT,
    uneven_resize.DEFECT,
    batched_average.DEFECT,
    rescaled_weights.DEFECT,
    input_weights.DEFECT,
    shifted_operands.DEFECT,
    shared_bias.DEFECT,
    dropped_output.DEFECT,
    reduced_part.DEFECT,
    reduced_row.DEFECT,
    fused_shape.DEFECT,
    sliced_input.DEFECT,
    reduce_min.DEFECT,
    scaled_maximum.DEFECT,
    chained_shape.DEFECT,
    chained_tables.DEFECT,
    shared_sums.DEFECT,
)

PAGES = "docs/defects"


class KnownDefect(CompileError):
    """Vela would compile the model into something else, and no rewriting that avoids it is known."""


@dataclass(frozen=True)
class Mended:
    """A compiled program, and the defects that the one before it had.

    Attributes:
        output: the program.
        findings: where upstream's program meets a known defect.
    """

    output: VelaOutput
    findings: tuple[DefectFinding, ...] = ()


def mend(
    output: VelaOutput, arguments: Sequence[str], *, as_upstream: bool, place: Callable[[DefectFinding], str]
) -> Mended:
    """Return a program that computes the same without a known defect.

    Args:
        output: what the installed Vela made of upstream's TOSA program.
        arguments: Vela's, to compile another one in the same way.
        as_upstream: find defects and repair none.
        place: says where in the model a finding is.

    Raises:
        KnownDefect: a defect cannot be repaired.
        CompileError: the compiled program contradicts its TOSA program in a way that is not known.
    """
    npu = EthosU.from_config_word(output.parsed.config_word)
    rewritten, findings = treat(output, npu.family)
    if as_upstream:
        return Mended(output, findings)
    for finding in findings:
        if not finding.repaired:
            raise refusal(finding.defect, place(finding))
    if rewritten != output.tosa:
        try:
            output = run_vela(rewritten, arguments)
        except VelaRefusal as error:  # a form that the NPU lacks, in place of one that Vela compiles into another
            raise refusal(findings[0].defect, place(findings[0])) from error
    _check(output, npu)
    return Mended(output, findings)


def _check(output: VelaOutput, npu: EthosU) -> None:
    """Check what shows that a compiled program is not its TOSA program. Raises CompileError."""
    left = overruns(output.parsed)
    if left:
        defect = table_beyond_shram.DEFECT
        raise CompileError(
            f"{vela()} places a look-up table beyond the SHRAM of {npu}: bytes 0x{left[0].begin:x} to "
            f"0x{left[0].end:x} of 0x{left[0].shram:x}; no hardware can run that ({PAGES}/{defect.id}.md)",
            hint=defect.remedy,
        )
    problem = missing_outputs(output)
    written = constant_results(output.parsed)
    if problem is None and written:
        problem = f"its operation at 0x{written[0]:x} writes among the constants, which may be in flash"
    excess = next(iter(excess_padding(output.parsed, output.tosa)), None)
    if problem is None and excess is not None:
        problem = (
            f"its operation at 0x{excess.offset:x} has {excess.padding} positions of padding at the {excess.side} of a "
            f"window of {excess.extent}"
        )
    if problem is not None:
        raise CompileError(
            f"{vela()} compiled a delegate for {npu} into another program: {problem}",
            hint=f"this defect of Vela has no name yet ({PAGES}); leave one operator after the other to the CPU "
            "(Method.leave), or --as-upstream to run it all the same",
        )


def mend_crash(
    crash: VelaCrash | VelaRefusal,
    tosa: bytes,
    arguments: Sequence[str],
    family: Family,
    place: Callable[[DefectFinding], str],
) -> Mended:
    """Return a program that computes the same as one on which Vela crashes, or which it refuses, without what meets a
    known defect.

    Args:
        crash: what is raised if nothing is known of the program, or Vela fails in this way nevertheless.
        tosa: upstream's TOSA program.
        arguments: Vela's.
        family: of the NPU.
        place: says where in the model a finding is.

    Raises:
        VelaCrash, VelaRefusal, KnownDefect, CompileError: as for `mend`.
    """
    rewritten, findings = treat_program(tosa, family)
    if rewritten == tosa:
        raise crash
    try:
        output = run_vela(rewritten, arguments)
    except (VelaCrash, VelaRefusal) as another:
        raise crash from another
    mended = mend(output, arguments, as_upstream=False, place=place)
    return Mended(mended.output, findings)


def treat(output: VelaOutput, family: Family) -> tuple[bytes, tuple[DefectFinding, ...]]:
    """Return the TOSA program of a compiled one without what meets a known defect, and all that met one."""
    return treat_program(output.tosa, family, output)


def treat_program(
    tosa: bytes, family: Family, output: VelaOutput | None = None
) -> tuple[bytes, tuple[DefectFinding, ...]]:
    """Return a program without what meets a known defect, and all that met one.

    Without Vela's output only what the TOSA program shows is found.
    """
    findings: list[DefectFinding] = []
    draft = TosaDraft(tosa)
    for defect in DEFECTS:
        unseen = defect.seen is not None and (output is None or not defect.seen(output))
        if family not in defect.families or unseen or not defect.versions.include(version(VELA)):
            continue
        for treat, repaired in defect.treatments:
            for block in draft.blocks:
                met = treat(block, family)
                findings += [DefectFinding(defect, block.name, op.op, op.index, repaired) for op in met]
    return draft.finish(), tuple(findings)


def vela() -> str:
    """Return the installed Vela's name and version."""
    return f"Vela {version(VELA)}"


def refusal(defect: VelaDefect, place: str) -> KnownDefect:
    """Return the error of a defect that cannot be repaired."""
    return KnownDefect(f"{vela()} {defect.effect}: {place} ({defect.id}, {PAGES}/{defect.id}.md)", hint=defect.remedy)
