"""From a case of a benchmark to its model. torch is imported when one is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ethos_hil.base.errors import EthosHilError, UsageError, raise_if_interrupted
from ethos_hil.harness.bench.case import BenchCase, BenchStep
from ethos_hil.lowering.model.torch_model import TorchModel, from_module, load_model
from ethos_hil.lowering.user_code.source import summary

if TYPE_CHECKING:
    from torch import nn

_OF_A_LIST = ("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack")
"""Functions of torch that take their tensors as one list."""


def case_model(case: BenchCase) -> TorchModel:
    """Return the model of a case. Its random values come from its name.

    Raises:
        UsageError: torch has no layer or function of that name, it cannot be made or called so, or the model is none;
            the message names the case and its line.
    """
    try:
        return _model(case) if case.model else _steps(case)
    except EthosHilError as error:
        raise UsageError(f"{case.source}: case {case.name}: {error.message}", hint=error.hint) from error


def _model(case: BenchCase) -> TorchModel:
    loaded = load_model(case.model)
    if not isinstance(loaded, TorchModel):
        raise UsageError(f"{case.model} is a compiled program", hint="name a function or a .pt2, which can be compiled")
    return loaded


def _steps(case: BenchCase) -> TorchModel:
    import torch

    from ethos_hil.harness.declared.modules import Chain, random_inputs, seed

    seed(case.name)
    modules = [_module(step) for step in case.steps]
    module = modules[0] if len(modules) == 1 else Chain(modules)
    try:
        example, calibration = random_inputs(case.inputs)
        with torch.no_grad():
            module.eval()(*example)
    except Exception as error:
        raise_if_interrupted(error)
        shapes = ", ".join(str(list(each.shape)) for each in case.inputs)
        raise UsageError(f"its steps cannot be computed: {summary(error)}", hint=f"the inputs are {shapes}") from error
    return from_module(module, example, calibration, label=case.name)


def _module(step: BenchStep) -> nn.Module:
    from ethos_hil.harness.declared.modules import Function, new_layer, tensor_function

    if step.layer:
        try:
            return new_layer(step.layer, step.args, step.options)
        except EthosHilError:
            raise
        except Exception as error:
            raise_if_interrupted(error)
            raise UsageError(
                f"torch.nn.{step.layer} cannot be made with these arguments: {summary(error)}",
                hint=f"args are {list(step.args)}, options are {dict(step.options)}",
            ) from error
    function = tensor_function(step.call)
    if step.call in _OF_A_LIST:
        return Function(lambda *inputs, **options: function(inputs, **options), **step.options)
    return Function(function, **step.options)
