"""Programs made with upstream's exporter alone, small enough for a test."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.ao.quantization.fx._decomposed  # registers torch.ops.quantized_decomposed

from ethos_hil.lowering.testing.function_module import module_of
from ethos_hil.lowering.upstream.patches.patch import apply
from ethos_hil.lowering.upstream.patches.table import SPEED
from ethos_hil.lowering.upstream.toolchain import import_executorch
from ethos_hil.suites.lab.damage.seed_programs import delegated


def raw(tensor: Any) -> bytes:
    """Return a tensor's bytes in the order of its dim_order; for a number the bytes that upstream's tests write."""
    if isinstance(tensor, int | float | None):
        return bytes(np.array(tensor).tobytes())
    in_memory = tensor.permute(tensor.dim_order()).contiguous()
    if tensor.dtype is torch.bfloat16:  # which numpy has not
        in_memory = in_memory.view(torch.int16)
    return bytes(in_memory.numpy().tobytes())


@dataclass(frozen=True)
class Exported:
    """A .pte, one input set for it, and the outputs of upstream's own host runtime for that set."""

    pte: bytes
    input_set: tuple[bytes, ...]
    outputs: tuple[Any, ...]


def export(
    module: Any, inputs: tuple[Any, ...], *, run: bool = True, preserve: bool = False, dim_orders: bool = True
) -> Exported:
    """Export without any delegate, and, if asked to, run on ExecuTorch's host runtime.

    Args:
        dim_orders: write copies with dim_order_ops, as exir does unless told otherwise.
        preserve: keep every operator that the module calls, instead of decomposing it.
    """
    import_executorch()
    from executorch.exir import EdgeCompileConfig, to_edge

    importlib.import_module("executorch.kernels.quantized")  # registers quantize and dequantize's out variants
    with apply(SPEED):
        program = torch.export.export(module_of(module), inputs)
        operators = [
            node.target for node in program.graph.nodes if isinstance(node.target, torch._ops.OpOverload) and preserve
        ]
        config = EdgeCompileConfig(
            _check_ir_validity=False, _skip_dim_order=not dim_orders, preserve_ops=list(dict.fromkeys(operators))
        )
        edge = to_edge(program, compile_config=config)
        pte = bytes(edge.to_executorch().buffer)
    outputs: tuple[Any, ...] = ()
    if run:
        from executorch.runtime import Runtime

        method = Runtime.get().load_program(pte).load_method("forward")
        outputs = tuple(output.clone() for output in method.execute(list(inputs)))
    return Exported(pte, tuple(raw(tensor) for tensor in inputs), outputs)


Edit = Callable[[Any], None]


def edited(pte: bytes, edit: Edit) -> bytes:
    """Return the program after `edit`, which changes upstream's own Program object."""
    from executorch.exir._serialize._program import deserialize_pte_binary, serialize_pte_binary

    file = deserialize_pte_binary(pte)
    edit(file.program)
    return bytes(serialize_pte_binary(file))


def plan(program: Any) -> Any:
    """Return the only method of upstream's own Program object."""
    return program.execution_plan[0]


def values(program: Any, kind: str) -> list[Any]:
    return [value.val for value in plan(program).values if type(value.val).__name__ == kind]


def planned(program: Any) -> list[Any]:
    """Return the tensors that have a place in the planned memory."""
    return [tensor for tensor in values(program, "Tensor") if tensor.allocation_info is not None]


def delegate(module: Any, inputs: tuple[Any, ...], npu: str = "ethos-u55-128", *, segments: bool = False) -> Exported:
    """Quantise and lower to one Ethos-U delegate with upstream's backend; no reference outputs."""
    pte = delegated(module_of(module), *inputs, npu=npu, segments=segments)
    return Exported(pte, tuple(raw(tensor) for tensor in inputs), ())
