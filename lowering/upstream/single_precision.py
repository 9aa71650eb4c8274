"""Models that compute in other floats than float32: halves, bfloat16 or doubles, all over or in places.

ExecuTorch's Arm quantisers (1.5.1) take float32 alone, and so do the firmware's kernels of layers. So such a model is
written in float32: its weights, the casts and constants in it, and what torch.autocast does. Its inputs and outputs
keep their types, with a cast behind or in front; but an output in bfloat16, which NumPy lacks, becomes float32.

torch.autocast is in a program as an operator with a graph, and so is torch.no_grad; such graphs become part of the
program's own.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.upstream.export import export, graphs
from ethos_hil.lowering.upstream.names.trees import flatten
from ethos_hil.lowering.upstream.rewritten.splice import value_of

if TYPE_CHECKING:
    import torch

_OTHERS = ("float16", "bfloat16", "float64")
NOTE = "what the model computes in {types} is float32 in the program, which quantisers and kernels take"
_AUTOCAST = "wrap_with_autocast"
_ON = 2
"""The argument that says whether it is on; the one before is the type."""
_CONTEXTS = {_AUTOCAST: 4, "wrap_with_set_grad_enabled": 1}
"""torch.export's operators (2.13) for what is around a part of a model: torch.autocast, torch.no_grad and the like; and
which argument is the graph of that part. Behind it is what the graph is given.
"""


def in_float32(
    exported: torch.export.ExportedProgram, inputs: Sequence[torch.Tensor]
) -> tuple[torch.export.ExportedProgram, tuple[str, ...]]:
    """Return a program that computes in float32 what another one computes in other floats, and a note that says so.

    It has no contexts, which matters where one is in another.

    Args:
        exported: the program; it does not change.
        inputs: its example inputs.

    Returns:
        The program itself, if it has neither other floats nor a context in another one. A note only for other floats.
    """
    import torch

    parts = graphs(exported.graph_module)
    nodes = [node for part in parts for node in part.graph.nodes]
    found = dict.fromkeys(name for node in nodes for name in (*_types(node), *_autocast(node)) if name in _OTHERS)
    nested = any(_is_context(node) for part in parts[1:] for node in part.graph.nodes)
    if not found and not nested:
        return exported, ()
    module = copied_in(exported.module(check_guards=False), torch.float32)
    for part in reversed(graphs(module)):  # inner ones first
        _leave_contexts_out(part)
    _cast_at_border(module)
    return export(module, inputs), (NOTE.format(types=" and ".join(found)),) if found else ()


def _types(node: torch.fx.Node) -> list[str]:
    """The names of the types of the tensors that a node gives."""
    leaves = flatten(node.meta.get("val"))[0]
    return [str(leaf.dtype).removeprefix("torch.") for leaf in leaves if hasattr(leaf, "dtype")]


def _autocast(node: torch.fx.Node) -> list[str]:
    """The name of the type that a node casts to as torch.autocast does; its own type does not say it."""
    return [str(node.args[1]).removeprefix("torch.")] if str(node.target) == _AUTOCAST and node.args[_ON] else []


def copied_in(module: torch.nn.Module, dtype: torch.dtype) -> Any:
    """Return a copy of a module that computes in one type of floats.

    Args:
        module: of any kind; in that of an exported program, the casts, types and constants of its graph are changed,
            too.
        dtype: float32 or float64.
    """
    import torch

    largest = torch.finfo(dtype).max

    def changed(leaf: Any) -> Any:
        if isinstance(leaf, torch.dtype) and leaf.is_floating_point:
            return dtype
        if isinstance(leaf, float) and largest < abs(leaf) < math.inf:  # the least of all doubles, as a mask has it
            return math.copysign(largest, leaf)
        return leaf

    module = copy.deepcopy(module)
    module = module.double() if dtype == torch.float64 else module.float()
    for part in graphs(module):
        for node in part.graph.nodes:
            value = value_of(part, node)
            if value is not None and value.is_floating_point() and value.dtype != dtype:  # no buffer, no parameter
                owner, _, name = node.target.rpartition(".")
                setattr(part.get_submodule(owner), name, value.to(dtype))
            if node.op == "call_function":
                node.args, node.kwargs = torch.fx.node.map_aggregate((node.args, node.kwargs), changed)
                if str(node.target) == _AUTOCAST:
                    node.update_arg(_ON, False)
        part.recompile()
    return module


def _is_context(node: torch.fx.Node) -> bool:
    return str(node.target) in _CONTEXTS


def _leave_contexts_out(part: torch.fx.GraphModule) -> None:
    """Put what is in a context into the graph itself. torch.export (2.13) loses a context that is in another one."""
    for node in filter(_is_context, [*part.graph.nodes]):
        graph, *given = node.args[_CONTEXTS[str(node.target)] :]
        body: Any = part.get_submodule(graph.target).graph
        placed: dict[Any, Any] = dict(zip(body.find_nodes(op="placeholder"), given, strict=True))
        with part.graph.inserting_before(node):
            results: Any = part.graph.graph_copy(body, placed)
        for copied in placed.values():
            if copied.op == "get_attr" and copied not in given:
                copied.target = f"{graph.target}.{copied.target}"
        for user in [*node.users]:
            user.replace_all_uses_with(results[user.args[1]])
            part.graph.erase_node(user)
        part.graph.erase_node(node)
    part.recompile()


def _cast_at_border(module: torch.fx.GraphModule) -> None:
    """Let inputs and outputs keep their types; an output in bfloat16 becomes float32."""
    import torch

    graph, cast = module.graph, torch.ops.aten.to.dtype
    output = graph.output_node()
    for node in dict.fromkeys(output.all_input_nodes):
        if _types(node)[:1] in (["float16"], ["float64"]):
            with graph.inserting_before(output):
                output.replace_input_with(node, graph.call_function(cast, (node, node.meta["val"].dtype)))
    inputs = graph.find_nodes(op="placeholder")
    for node in inputs:
        if _types(node)[0] in _OTHERS:
            with graph.inserting_after(inputs[-1]):
                wide = graph.call_function(cast, (node, torch.float32))
            node.replace_all_uses_with(wide, delete_user_cb=lambda user, wide=wide: user is not wide)
    module.recompile()
