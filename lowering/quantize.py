"""Float module to quantised exported program, with ExecuTorch's Arm quantiser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def quantise(
    floating: torch.fx.GraphModule, calibration_inputs: Sequence[tuple[torch.Tensor, ...]], compile_spec: Any
) -> tuple[torch.fx.GraphModule, torch.export.ExportedProgram]:
    """Quantises a float program to int8, symmetric, weights per channel.

    Args:
        floating: the module of a float exported program, without guards (with them it has a call_module node, which
            the Arm passes reject).
        calibration_inputs: sets of inputs whose value ranges decide the scales; at least one.
        compile_spec: upstream's EthosUCompileSpec of the target.

    Returns:
        The quantised module, which runs in eager torch, and the same exported again, for lowering.
    """
    import torch
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantiser = EthosUQuantizer(compile_spec)
    quantiser.set_global(get_symmetric_quantization_config())
    prepared = prepare_pt2e(floating, quantiser)
    with torch.no_grad():
        for inputs in calibration_inputs:
            prepared(*inputs)
    converted = convert_pt2e(prepared)
    return converted, torch.export.export(converted, tuple(calibration_inputs[0]))
