"""What torch.export.save writes: the types of its JSON, and the operators that it may name (torch 2.13)."""

from __future__ import annotations

import dataclasses
import typing
from functools import cache
from typing import Any

from ethos_hil.lowering.conditions.process import quiet
from ethos_hil.lowering.upstream.names.operators import PT2E_OPERATORS, register_operators


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
