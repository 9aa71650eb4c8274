"""The known defects of Vela, in the order in which they are repaired: each repair sees what those before it made."""

from __future__ import annotations

from ethos_hil.lowering.repairs import (
    batched_average,
    constant_result,
    cropped_transpose_conv,
    dropped_output,
    fused_shape,
    input_weights,
    padded_transposition,
    reduce_min,
    reduced_part,
    shared_bias,
    shifted_operands,
    sliced_input,
    table_beyond_shram,
    uneven_resize,
)
from ethos_hil.lowering.repairs.defect import VelaDefect

DEFECTS: tuple[VelaDefect, ...] = (
    constant_result.DEFECT,
    table_beyond_shram.DEFECT,
    padded_transposition.DEFECT,
    cropped_transpose_conv.DEFECT,
    uneven_resize.DEFECT,
    batched_average.DEFECT,
    input_weights.DEFECT,
    shifted_operands.DEFECT,
    shared_bias.DEFECT,
    dropped_output.DEFECT,
    reduced_part.DEFECT,
    fused_shape.DEFECT,
    sliced_input.DEFECT,
    reduce_min.DEFECT,
)
