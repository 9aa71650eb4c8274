"""From a float module to a quantised exported program, with ExecuTorch's Arm quantisers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ethos_hil.base.errors import UsageError
from ethos_hil.lowering.conditions.progress import tell_within
from ethos_hil.lowering.upstream.export import export
from ethos_hil.lowering.upstream.lifted_state import LiftedState, write_directly
from ethos_hil.lowering.upstream.patches.apply import apply
from ethos_hil.lowering.upstream.patches.table import ORIGINS

if TYPE_CHECKING:
    import torch


def quantise(
    floating: torch.fx.GraphModule,
    calibration_inputs: Sequence[tuple[torch.Tensor, ...]],
    quantiser: Any,
) -> tuple[torch.fx.GraphModule, torch.export.ExportedProgram]:
    """Quantises a float program.

    Args:
        floating: the module of a float exported program, without guards. A guard is a call_module node, which the Arm
            passes reject.
        calibration_inputs: sets of inputs whose ranges decide the scales. At least one; if the model branches, at least
            one for each way through it.
        quantiser: torchao's Quantizer, which says how (`ethos_hil.lowering.upstream.quantizers`).

    Returns:
        The quantised module, which runs in eager torch, and its exported program, for lowering.

    Raises:
        ToolError: a patch that keeps origins does not fit the installed ExecuTorch.
        UsageError: the program has branches, and the quantiser is not one of upstream's Arm backend.
    """
    import torch
    from executorch.exir.graph_module import get_cond_while_submodules
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    with torch.no_grad(), apply(ORIGINS):
        # A model may write to its inputs, and to buffers: its state. The first set of inputs and the program meet the
        # state that it begins with, each other set what the one before it left.
        sets = [tuple(tensor.clone() for tensor in inputs) for inputs in calibration_inputs]
        if get_cond_while_submodules(floating):
            # PT2E's own functions do not quantise branches and bodies of loops. Upstream's tests call this.
            if not hasattr(quantiser, "_quantize_with_submodules"):
                raise UsageError(
                    f"a {type(quantiser).__name__} cannot quantise a model with branches or loops",
                    hint="let the quantizer be an EthosUQuantizer",
                )
            converted = quantiser._quantize_with_submodules(floating, sets)
        else:
            lifted = LiftedState.of(floating, sets[0])
            prepared = prepare_pt2e(floating if lifted is None else lifted.module, quantiser)
            if lifted is not None:
                write_directly(prepared)
            state = () if lifted is None else lifted.first_values()
            for number, inputs in enumerate(sets):
                tell_within(f"calibrating with input {number + 1} of {len(sets)}")
                prepared(*inputs, *state)
            tell_within("choosing the ranges")
            converted = convert_pt2e(prepared)
            if lifted is not None:
                lifted.lower(converted)
    return converted, export(converted, calibration_inputs[0])
