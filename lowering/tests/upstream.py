"""ExecuTorch's documented flow for the models of these tests, without our code."""

from __future__ import annotations

from typing import Any

import torch

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.model.torch_model import TorchModel, load_model


def quantised_by_upstream(model: str, npu: EthosU) -> tuple[Any, torch.export.ExportedProgram]:
    """The EthosUCompileSpec for `npu`, and the program of a MODEL calibrated and quantised for it."""
    from executorch.backends.arm.ethosu import EthosUCompileSpec
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    loaded = load_model(model)
    assert isinstance(loaded, TorchModel)
    spec = EthosUCompileSpec(npu.name)
    quantiser = EthosUQuantizer(spec).set_global(get_symmetric_quantization_config())
    floating = torch.export.export(loaded.default.module, loaded.default.example_inputs).module(check_guards=False)
    prepared = prepare_pt2e(floating, quantiser)
    for inputs in loaded.default.calibration_inputs:
        prepared(*inputs)
    return spec, torch.export.export(convert_pt2e(prepared), loaded.default.example_inputs)
