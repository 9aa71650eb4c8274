"""Modules and inputs that torch.export, the host or a run cannot take are refused by name, with what to give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ethos_hil.base.errors import UsageError
from ethos_hil.lowering.user_code.module_changes import laid_out

if TYPE_CHECKING:
    import torch

_INPUTS = frozenset({
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64",
})  # fmt: skip
"""Types that NumPy, ExecuTorch and the kernels have."""


def require_plain_module(module: torch.nn.Module, what: str) -> None:
    """Check that a module is eager PyTorch's, and that its tensors are in the host's memory.

    Raises:
        UsageError: it is not, or one of them is not.
    """
    import torch

    for name, part in module.named_modules():
        held = {name: part, **{f"{name}.{key}".lstrip("."): value for key, value in vars(part).items()}}
        for place, value in held.items():
            if isinstance(value, torch.jit.ScriptModule | torch.jit.ScriptFunction):
                raise UsageError(
                    f"{what}: {place or 'the module'} is TorchScript, which torch.export does not take",
                    hint="give the nn.Module or function that was scripted or traced",
                )
    for name, tensor in (*module.named_parameters(), *module.named_buffers()):
        _require_numbers(tensor, f"{what}: {name}")


def plain_input(tensor: torch.Tensor, what: str) -> torch.Tensor:
    """Return an input as a tensor of torch's own class, without its gradient, laid out as ExecuTorch takes it.

    Raises:
        UsageError: its numbers are not in the host's memory, side by side, or are of a type that no program takes.
    """
    import torch

    _require_numbers(tensor, what)
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in _INPUTS:
        if tensor.is_quantized:
            hint = "give its numbers: .dequantize()"
        elif tensor.dtype.is_complex:
            hint = "give its real and its imaginary part, as two inputs or as channels"
        elif tensor.dtype.is_floating_point:
            hint = "convert it, and the module with it, to float32: .float()"
        else:
            hint = "give it as int32 or int64: .int(), .long()"
        raise UsageError(f"{what} has type {dtype}, which no program takes", hint=hint)
    return laid_out(tensor.as_subclass(torch.Tensor))


def _require_numbers(tensor: torch.Tensor, what: str) -> None:
    import torch

    if tensor.device.type == "meta":
        hint = "make it without device='meta'; load a module's weights"
        raise UsageError(f"{what} is on the device meta, and so has no numbers", hint=hint)
    if tensor.device.type != "cpu":
        raise UsageError(f"{what} is on the device {tensor.device}", hint="move the module and its inputs: .cpu()")
    if tensor.is_nested:
        raise UsageError(f"{what} is a nested tensor", hint="pad it to one shape: .to_padded_tensor(0.0), and a mask")
    if tensor.layout is not torch.strided:
        layout = str(tensor.layout).removeprefix("torch.")
        raise UsageError(f"{what} has the layout {layout}", hint="give all numbers: .to_dense()")
