"""Operators of torch, and of PT2E: what they say of themselves beside their public interface (torch 2.13, executorch
1.5.1), which graphs have them, and how torch.export.save writes them.
"""

from __future__ import annotations

import dataclasses
import importlib
import typing
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.conditions.process import quiet

if TYPE_CHECKING:
    import torch


def unwrap(target: Any) -> Any:
    """The target of a graph node; for an edge operator of ExecuTorch's, the operator of torch that it wraps."""
    return target if is_overload(target) else getattr(target, "_op", target)


def is_operator(target: Any) -> bool:
    """Whether a target is one of torch's operators, those of higher order included."""
    import torch

    return isinstance(target, torch._ops.OperatorBase)


def is_overload(target: Any) -> bool:
    """Whether a target is an overload of one of torch's operators, such as torch.ops.aten.add.Tensor."""
    import torch

    return isinstance(target, torch._ops.OpOverload)


def full_name(overload: Any) -> str:
    """The name that a program has for an overload: "aten::sort.values", or "aten::copy_" where it has no name."""
    schema = overload._schema
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else str(schema.name)


def writes(target: Any) -> bool:
    """Whether a target is an operator that writes to one of its arguments, such as torch.ops.aten.add_.Tensor."""
    return is_overload(target) and bool(target._schema.is_mutable)


def schema_arguments(overload: Any) -> Sequence[Any]:
    """The arguments in an overload's schema, in order. Each has `name`, `type`, `is_out` and `kwarg_only`."""
    arguments: Sequence[Any] = overload._schema.arguments
    return arguments


def map_rows(function: Callable[..., Any], rows: Any, *others: Any) -> Any:
    """torch's `map` operator: applies `function` to each row of `rows` (along dimension 0) and to `others`."""
    from torch._higher_order_ops.map import map as torch_map

    return torch_map(function, rows, *others)


PT2E_OPERATORS = "quantized_decomposed"
"""Namespace of the operators that convert_pt2e puts around each operator (torchao 0.14, quantization/pt2e)."""
_REGISTERS = "torchao.quantization.pt2e.quantize_pt2e"


def is_quantised(module: torch.nn.Module) -> bool:
    """Return whether a module is a graph with PT2E's operators in it."""
    import torch

    return isinstance(module, torch.fx.GraphModule) and any(map(is_conversion, module.graph.nodes))


def is_conversion(node: torch.fx.Node) -> bool:
    """Return whether a node of a graph is one of PT2E's conversions between numbers and integers."""
    return getattr(node.target, "namespace", None) == PT2E_OPERATORS


def register_operators() -> None:
    """Register PT2E's operators with torch, which cannot load a quantised .pt2 without them."""
    importlib.import_module(_REGISTERS)


def program_type() -> Any:
    """The dataclass of models/model.json."""
    from torch._export.serde.schema import ExportedProgram

    return ExportedProgram


def payloads_type() -> Any:
    """The dataclass of model_weights_config.json and model_constants_config.json."""
    from torch._export.serde.schema import PayloadConfig

    return PayloadConfig


@cache
def fields_of(cls: Any) -> dict[str, Any] | None:
    """The types of a dataclass's fields, by name; None for a type of another kind."""
    if not dataclasses.is_dataclass(cls):
        return None
    from torch._export.serde import schema

    return typing.get_type_hints(cls, globalns=vars(schema))


@cache
def required_fields(cls: Any) -> frozenset[str]:
    """The fields of a dataclass that have no default; none for a union."""
    if is_union(cls):
        return frozenset()
    missing = dataclasses.MISSING
    return frozenset(
        field.name for field in dataclasses.fields(cls) if field.default is missing and field.default_factory is missing
    )


def is_union(cls: Any) -> bool:
    """Whether exactly one of a dataclass's fields is present."""
    from torch._export.serde.union import _Union

    return isinstance(cls, type) and issubclass(cls, _Union)


@cache
def dispatched_names(namespace: str) -> frozenset[str]:
    """The operators of a namespace that compute with tensors, "aten::add.Tensor" or "aten::relu".

    TorchScript's others are not among them: some read and write files. PT2E's operators are registered first: torch
    alone does not have them.
    """
    import torch

    if namespace == PT2E_OPERATORS:
        with quiet():
            register_operators()
    return frozenset(name for name in torch._C._dispatch_get_all_op_names() if name.startswith(f"{namespace}::"))
