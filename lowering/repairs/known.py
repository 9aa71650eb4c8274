"""The known defects of Vela 5.1, in the order in which they are repaired."""

from __future__ import annotations

from ethos_hil.lowering.repairs.batched_average import split_averages
from ethos_hil.lowering.repairs.constant_results import constant_results, fold_transposes
from ethos_hil.lowering.repairs.cropped_transpose_conv import widen_crops
from ethos_hil.lowering.repairs.defect import ALL, WITHOUT_U85, VelaDefect
from ethos_hil.lowering.repairs.dropped_output import keep_outputs
from ethos_hil.lowering.repairs.fused_shape import fold_activations
from ethos_hil.lowering.repairs.hoist_tables import free_padded, free_tables
from ethos_hil.lowering.repairs.outputs import outputs_are_missing
from ethos_hil.lowering.repairs.reduce_min import keep_minima
from ethos_hil.lowering.repairs.reduced_concat import keep_reductions
from ethos_hil.lowering.repairs.scales import find_input_weights, find_shifted_operands
from ethos_hil.lowering.repairs.shared_bias import part_biases
from ethos_hil.lowering.repairs.shram import overruns
from ethos_hil.lowering.repairs.sliced_input import find_slices, keep_slices
from ethos_hil.lowering.repairs.uneven_resize import find_uneven, repeat_elements

DEFECTS: tuple[VelaDefect, ...] = (
    VelaDefect(
        "vela-constant-result",
        "writes a step of the transposition of a constant among the constants, which may be in flash",
        ALL,
        "store the constant in the order in which it is used",
        fold_transposes,
        seen=lambda output: bool(constant_results(output.parsed)),
    ),
    VelaDefect(
        "vela-table-beyond-shram",
        "places a table that it fuses with a transposition beyond the SHRAM of a small Ethos-U55",
        ("u55",),
        "use --npu ethos-u55-128 or ethos-u55-256, or leave out the permute before sigmoid, hardswish or the like",
        free_tables,
        seen=lambda output: bool(overruns(output.parsed)),
    ),
    VelaDefect(
        "vela-padded-transposition",
        "writes an activation that it fuses with a transposition with the strides of a map without padding",
        ALL,
        "apply the activation before the permute",
        free_padded,
    ),
    VelaDefect(
        "vela-cropped-transpose-conv",
        "takes the stride of a transposed convolution for 1 along an axis of which one position stays",
        ALL,
        "crop less, and slice the result",
        widen_crops,
    ),
    VelaDefect(
        "vela-uneven-resize",
        "enlarges rows and columns by the same factor, where the model asks for two",
        WITHOUT_U85,
        "enlarge by one factor, and repeat the elements of one axis (repeat_interleave) after it",
        repeat_elements,
    ),
    VelaDefect(
        "vela-uneven-resize",
        "enlarges rows and columns by the same factor, where the model asks for two",
        WITHOUT_U85,
        "enlarge by one factor, and repeat the elements of one axis (repeat_interleave) after it",
        find_uneven,
        repaired=False,
    ),
    VelaDefect(
        "vela-batched-average",
        "writes the sums of an average pool that is a part of a larger map behind the memory that it reserves for them",
        ("u85",),
        "use a stride of at most 3, or a batch of 1 and an activation behind the pool",
        split_averages,
    ),
    VelaDefect(
        "vela-input-weights",
        "gives all channels of a convolution whose weights are computed the first channel's scale",
        ("u85",),
        "make the weights a parameter, or write the convolution as a matrix product",
        find_input_weights,
        repaired=False,
    ),
    VelaDefect(
        "vela-shifted-operands",
        "fuses the scales of two int16 operands that differ by a power of two into a sum that has no such setting",
        WITHOUT_U85,
        "use scheme a8w8 for this sum, or calibrate with inputs of another range",
        find_shifted_operands,
        repaired=False,
    ),
    VelaDefect(
        "vela-shared-bias",
        "gives a convolution the bias of another one with the same weights and scales",
        ALL,
        "give the two convolutions weights of their own, or do not concatenate their outputs",
        part_biases,
    ),
    VelaDefect(
        "vela-dropped-output",
        "drops an output that a transposition inside of the delegate reads, too",
        ALL,
        "return the tensor after an operator of its own, or leave out one of its two uses",
        keep_outputs,
        seen=outputs_are_missing,
    ),
    VelaDefect(
        "vela-reduced-part",
        "gives a maximum or minimum that becomes a part of a concatenation or padded map the shape of the whole",
        ALL,
        "apply an activation to the maximum before it is concatenated or padded",
        keep_reductions,
    ),
    VelaDefect(
        "vela-fused-shape",
        "gives an operation the shape of the activation that it fuses into it, though a reshape is between them",
        ALL,
        "apply the activation before the reshape, or use a batch of 1",
        fold_activations,
    ),
    VelaDefect(
        "vela-sliced-input",
        "has an operation read another part of a tensor than the slice in front of it takes",
        ALL,
        "slice after the operation, or put an activation between the slice and it",
        keep_slices,
    ),
    VelaDefect(
        "vela-sliced-input",
        "has an operation read another part of a tensor than the slice in front of it takes",
        ALL,
        "slice after the operation, or put an activation between the slice and it",
        find_slices,
        repaired=False,
    ),
    VelaDefect(
        "vela-reduce-min",
        "subtracts the first of all minima from each of them, where a reshape follows",
        WITHOUT_U85,
        "keep the dimension (keepdim=True)",
        keep_minima,
    ),
)
