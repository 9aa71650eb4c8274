"""torch's names of parameters and buffers, collected quickly.

torch and ExecuTorch ask of every input of every trace whether it is a parameter or a buffer. For each answer torch
(torch/export/graph_signature.py) goes through all inputs, so the time grows with the square of their number; a
transformer has a thousand. The answer cannot be kept: passes change the inputs in place. Here it takes a fifth as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any


def names_of_parameters(_: property) -> property:
    """torch's `inputs_to_parameters`: the parameters by the names of their inputs."""
    from torch.export.graph_signature import InputKind

    return _names(InputKind.PARAMETER)


def names_of_buffers(_: property) -> property:
    """torch's `inputs_to_buffers`: the buffers by the names of their inputs."""
    from torch.export.graph_signature import InputKind

    return _names(InputKind.BUFFER)


def _names(kind: Any) -> property:
    from torch.export.graph_signature import TensorArgument

    def names(self: Any) -> Mapping[str, str]:
        return MappingProxyType({
            spec.arg.name: spec.target
            for spec in self.input_specs
            if spec.kind is kind and type(spec.arg) is TensorArgument and isinstance(spec.target, str)
        })  # fmt: skip

    return property(names)
