"""Digests of everything that decides what an artifact contains, and of what was asked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.lowering.cache.versions import versions
from ethos_hil.lowering.formats.tosa import module_path
from ethos_hil.lowering.model.torch_model import TorchModel
from ethos_hil.lowering.upstream.export import output_names
from ethos_hil.lowering.user_code.user_function import Sources

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class ModelIdentity:
    """What a model is known by.

    Attributes:
        key: the cache key (hexadecimal SHA-256) of the model compiled for a target.
        question: the same of what was asked, whatever answers it: without versions, target, and lines of the source. A
            history goes on when a tool gets a new version, or code moves.
    """

    key: str
    question: str


def identity(
    exported: Mapping[str, torch.export.ExportedProgram],
    model: TorchModel,
    target: Sequence[str],
    wishes: Sequence[str] = (),
    *,
    quantised: Mapping[str, torch.export.ExportedProgram] = MappingProxyType({}),
) -> ModelIdentity:
    """Return what a model that is compiled for a target is known by.

    The key covers, for every method, the graph with each operator's module path and source line (the delegate map names
    them), weights, buffers and constants, example and calibration inputs; the methods' order; the strings in `target`;
    and all versions. It does not cover the user's name for the model, nor the location of its folder.

    Args:
        exported: the model's methods, as exported in float.
        model: the model.
        target: the properties of the target that decide the result.
        wishes: what was asked beside the model, whatever the target is, such as the scheme; a part of the question.
        quantised: the methods that a quantiser of the user's has quantised.
    """
    methods: list[dict[str, Any]] = [
        {
            "name": name,
            "on_cpu": method.on_cpu,
            "leave": list(method.leave),
            "int16": list(method.int16),
            "quantised": _program(quantised[name], model.sources) if name in quantised else None,
            **_program(exported[name], model.sources),
            "output_names": output_names(exported[name].call_spec.out_spec),
            "example": [_digest(tensor) for tensor in method.example_inputs],
            "calibration": [[_digest(tensor) for tensor in inputs] for inputs in method.calibration_inputs],
        }
        for name, method in model.methods.items()
    ]
    key = _hash({"target": list(target), "versions": versions(), "methods": methods})
    for method in methods:
        for program in (method, method["quantised"]):
            if program is not None:
                program["graph"] = [row[:_LINE] for row in program["graph"]]
    return ModelIdentity(key, _hash({"wishes": list(wishes), "methods": methods}))


def _hash(parts: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


_LINE = 7
"""Place of the source line in a row of `_graph`."""


def _program(exported: torch.export.ExportedProgram, sources: Sources) -> dict[str, Any]:
    return {
        "graph": _graph(exported.graph_module, sources),
        "signature": [
            [str(spec.kind), str(getattr(spec.arg, "name", spec.arg)), str(spec.target)]
            for spec in exported.graph_signature.input_specs
        ],
        "outputs": [str(spec) for spec in exported.graph_signature.output_specs],
        "tensors": {key: _digest(tensor) for key, tensor in _tensors(exported)},
    }


def _graph(module: Any, sources: Sources) -> list[list[str]]:
    rows = []
    for name, part in module.named_modules():
        for node in getattr(getattr(part, "graph", None), "nodes", ()):
            stack = list((node.meta.get("nn_module_stack") or {}).values())
            rows.append(
                [
                    name,
                    node.op,
                    node.name,
                    str(node.target),
                    repr(node.args),
                    repr(node.kwargs),
                    module_path(stack[-1]) if stack else "",
                    sources.line_of(node) or "",
                ]
            )
    return rows


def _tensors(exported: Any) -> Iterable[tuple[str, torch.Tensor]]:
    import torch

    for kind, table in (("state", exported.state_dict), ("constant", exported.constants)):
        for name, value in table.items():
            if isinstance(value, torch.Tensor):
                yield f"{kind}:{name}", value


def _digest(tensor: torch.Tensor) -> str:
    import torch

    plain = tensor.detach().cpu()
    digest = hashlib.sha256(f"{plain.dtype} {tuple(plain.shape)} {plain.stride()} ".encode())
    flat = plain.contiguous().flatten().view(torch.uint8) if plain.numel() else plain.flatten()
    digest.update(flat.numpy().tobytes() if plain.numel() else b"")
    return digest.hexdigest()
