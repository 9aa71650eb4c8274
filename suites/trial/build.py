"""From a declared case to a module and its inputs. Imports torch, so it is imported late."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from ethos_hil.harness.declared.modules import Function, find_named, new_layer, random_inputs, seed
from ethos_hil.lowering.model.torch_model import TorchModel, from_module
from ethos_hil.suites.declare.case import Case, Layer, TorchCall


def build(name: str, case: Case, root: Path) -> TorchModel:
    """Return the model of a case. All its random values come from its own seed.

    Args:
        name: name of the operator and the case; decides the seed.
        case: the case.
        root: folder of the file that declares it; its source lines are named relative to it.
    """
    seed(name)
    module = module_of(case)
    example, calibration = random_inputs(case.inputs)
    return from_module(module, example, calibration, label=name, root=root)


def module_of(case: Case) -> nn.Module:
    """Return the module of a case."""
    forward = case.forward
    if isinstance(forward, Layer):
        return _layer(forward)
    if isinstance(forward, tuple):
        return nn.Sequential(*map(_layer, forward))
    if isinstance(forward, TorchCall):
        return Function(find_named(forward.name), **forward.options)
    return Function(forward)


def _layer(layer: Layer) -> nn.Module:
    return new_layer(layer.name, layer.arguments, layer.options)
