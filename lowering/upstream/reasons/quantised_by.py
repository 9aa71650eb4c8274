"""Who quantised a method, and what it left in float that ExecuTorch's Arm quantiser would have quantised."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.plain_text import list_of
from ethos_hil.lowering.formats.tosa import module_path

if TYPE_CHECKING:
    import torch

_ANNOTATED = "quantization_annotation"
"""In the metadata of a node that a quantiser annotated (torchao 0.14, quantization/pt2e/quantizer)."""


_MOST = 12
"""Names of modules that a remedy lists."""


@dataclass(frozen=True)
class QuantisedBy:
    """Who quantised a method.

    Attributes:
        kind: "ours" is ExecuTorch's Arm quantiser with settings of ours; "arm" the same, as the user's function sets
            it; "foreign" another one; "given" if the model came quantised.
        name: for people: the user's function, or its class and function.
        would: the identifiers of the calls that ExecuTorch's Arm quantiser quantises by itself.
        unmatched: filters of the user's that find nothing, as text.
        there: the modules that there are, as text.
    """

    kind: Literal["ours", "arm", "foreign", "given"] = "ours"
    name: str = ""
    would: frozenset[str] = frozenset()
    unmatched: str = ""
    there: str = ""


def examine(
    quantiser: Any, name: str, floating: torch.fx.GraphModule, spec: Any, identify: Callable[[Any], str]
) -> QuantisedBy:
    """Return what is known of a quantiser of the user's, before it quantises.

    Args:
        quantiser: what the user's function returned.
        name: the function's name.
        floating: the float program.
        spec: upstream's compile spec.
        identify: gives a node's identifier.
    """
    from executorch.backends.arm.quantizer import TOSAQuantizer

    if not isinstance(quantiser, TOSAQuantizer):
        return QuantisedBy("foreign", f"{name} ({type(quantiser).__name__})")
    missing = ", ".join(_unmatched(quantiser, floating))
    would = _quantised_by_default(floating, spec, identify)
    return QuantisedBy("arm", name, would, missing, list_of(sorted(_modules(floating) - {""}), _MOST))


def _unmatched(quantiser: Any, floating: torch.fx.GraphModule) -> Iterator[str]:
    """Filters of upstream's quantiser that find no node."""
    inner = quantiser.quantizer
    for part in getattr(inner, "_quantizers", ()):
        finder = getattr(part, "node_finder", None)
        if finder is not None and not any(True for _ in finder.find_nodes(floating)):
            kind, _, what = str(finder).partition(" targeting ")
            yield f"filter for {what or kind}"
    for name in getattr(inner, "module_name_config", ()):
        if name not in _modules(floating):
            yield f"filter for module names: {name}"


def _modules(floating: torch.fx.GraphModule) -> set[str]:
    """The paths of the modules that a float program calls."""
    stacks = (node.meta.get("nn_module_stack") or {} for node in floating.graph.nodes)
    return {module_path(entry) for stack in stacks for entry in stack.values()}


def _quantised_by_default(floating: torch.fx.GraphModule, spec: Any, identify: Callable[[Any], str]) -> frozenset[str]:
    """The identifiers of the calls of a float program that upstream's quantiser annotates as it comes."""
    from executorch.backends.arm.quantizer import get_symmetric_quantization_config
    from executorch.backends.arm.util._factory import create_quantizer

    trial = copy.deepcopy(floating)
    ours = {
        identify(copied): identify(node) for copied, node in zip(trial.graph.nodes, floating.graph.nodes, strict=True)
    }
    default = create_quantizer(spec).set_global(get_symmetric_quantization_config())
    annotated = default.annotate(default.transform_for_annotation(trial))
    found = (identify(node) for node in annotated.graph.nodes if _ANNOTATED in node.meta)
    return frozenset(ours.get(key, key) for key in found)
