"""What a Python function computes, in the place of a node of a float graph; constants of a graph."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    Constants = set[torch.fx.Node]
    """The nodes of a graph that are the same in every call."""
    Choice = Callable[[torch.fx.Node, Constants], Callable[..., Any] | None]
    """The function that is written in the place of a node, or None where it stays."""

Number = float | int

WRITTEN_OUT = "ethos_hil_written_out"
"""In a node's meta: the operator of the model that it computes a part of, by aten's name."""


def write_out(module: torch.fx.GraphModule, node: torch.fx.Node, function: Callable[..., Any]) -> None:
    """Put the operators that a function calls in the place of a node.

    Each of them has the line, the module and the origin of the node.

    Args:
        module: the module of a float exported program.
        node: a call of an operator. What is read of several tensors is made by as many results.
        function: is called with the node's arguments, and computes the same. It may look at shapes and types, not at
            numbers.
    """
    import torch
    from torch.fx.experimental.proxy_tensor import make_fx

    graph = module.graph
    sources = list(dict.fromkeys(node.all_input_nodes))

    def compute(*values: Any) -> Any:
        known = dict(zip(sources, values, strict=True))
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), known.__getitem__)
        return function(*args, **kwargs)

    with torch.no_grad():  # an operator that writes may be given a parameter
        traced = make_fx(compute, pre_dispatch=True)(*(source.meta["val"] for source in sources))
    traced.graph.eliminate_dead_code()
    placed: dict[Any, Any] = dict(zip(traced.graph.find_nodes(op="placeholder"), sources, strict=True))
    with graph.inserting_before(node):
        for part in traced.graph.nodes:
            if part.op != "call_function":
                continue
            placed[part] = graph.node_copy(part, placed.__getitem__)
            placed[part].meta = described(node, part.meta["val"])
    results: Any = traced.graph.output_node().args[0]
    if not isinstance(results, tuple):
        node.replace_all_uses_with(placed[results])
    for part in [*node.users]:  # those of several results
        number: Any = part.args[1]
        if number < len(results):
            part.replace_all_uses_with(placed[results[number]])
        graph.erase_node(part)
    graph.erase_node(node)


def described(node: torch.fx.Node, value: Any) -> dict[str, Any]:
    """The meta of a node that takes a part of another one's place.

    Args:
        node: the other one.
        value: the shape and type of what it gives.
    """
    return {**node.meta, "val": value, WRITTEN_OUT: node.meta.get(WRITTEN_OUT, str(node.target))}


def call(node: torch.fx.Node, target: Any, *arguments: Any) -> torch.fx.Node:
    """Insert a call before a node, as a part of what takes its place."""
    import torch

    with node.graph.inserting_before(node):
        result = node.graph.call_function(target, arguments)
    values = torch.fx.node.map_arg(arguments, lambda argument: argument.meta["val"])
    result.meta = described(node, target(*values))
    return result


def constant(module: torch.fx.GraphModule, node: torch.fx.Node, value: torch.Tensor) -> torch.fx.Node:
    """Insert a constant before a node.

    Floats are a parameter: upstream's passes give a buffer whose graph they trace again sizes that are not known, and
    then fail on a matmul (executorch 1.5.1: "Could not get device from s70").
    """
    import torch

    number = 0
    while hasattr(module, name := f"_written_out_{number}"):
        number += 1
    if value.is_floating_point():
        module.register_parameter(name, torch.nn.Parameter(value, requires_grad=False))
    else:
        module.register_buffer(name, value)
    with module.graph.inserting_before(node):
        attribute = module.graph.get_attr(name)
    # The quantiser passes by what has no shape and type.
    made = node.meta["val"]
    mode = (made[0] if isinstance(made, list | tuple) else made).fake_mode
    attribute.meta = {"val": mode.from_tensor(value, static_shapes=True)}
    return attribute


def value_of(module: torch.fx.GraphModule, node: Any) -> torch.Tensor | None:
    """The tensor that a node reads from its module; None if it is another node, or none."""
    import torch

    if getattr(node, "op", None) != "get_attr":
        return None
    value = attrgetter(node.target)(module)
    return value.detach() if isinstance(value, torch.Tensor) else None
