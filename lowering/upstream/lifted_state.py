"""A model's state as inputs of its graph, while PT2E quantises it.

PT2E and upstream's quantiser fold what they take for constant, before and after the calibration (torchao 0.18,
`constant_fold`; executorch 1.4.1, `transform_for_annotation`). A buffer is a constant for them where it is read, even
if the program writes to it. An input is not. So a buffer that the program writes becomes an input of the graph for that
time, which the graph writes to when it ends, and a buffer again afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.upstream.export import export
from ethos_hil.lowering.upstream.names.operators import writes
from ethos_hil.lowering.upstream.state import has_writes

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class LiftedState:
    """A graph whose state is among its inputs.

    Attributes:
        module: the graph. It takes the model's inputs, flat, and then the tensors of the state, which it writes to.
        buffers: the buffers of the state by name, in the order of these inputs, with the values that they begin with.
        codegen: how the graph's inputs and outputs are structured without the state.
    """

    module: torch.fx.GraphModule
    buffers: Mapping[str, torch.Tensor]
    codegen: Any

    @classmethod
    def of(cls, floating: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> LiftedState | None:
        """Lift the state of a module; None if it writes no buffer.

        Args:
            floating: the module of an exported program. It does not change.
            inputs: inputs of it.
        """
        import torch

        if not has_writes(floating):
            return None
        # Every buffer is read once, at the beginning, and written once, at the end.
        program = export(floating, inputs).run_decompositions({})
        count = len(program.graph_signature.buffers_to_mutate)
        if not count:
            return None
        functional = program.module(check_guards=False)
        graph = functional.graph
        at_the_end = [node for node in graph.nodes if writes(node.target)]
        written = [node.args[0] for node in at_the_end[:count]]
        for node in at_the_end[count:]:
            # Writes to inputs, which nobody reads. torch 2.13 takes an input for a buffer of the same name here.
            graph.erase_node(node)
        buffers = {node.target: attrgetter(node.target)(functional).detach().clone() for node in written}
        first = next(node for node in graph.nodes if node.op not in ("placeholder", "get_attr"))
        for node in written:
            with graph.inserting_before(first):
                given = graph.placeholder(f"state_{node.name}")
            given.meta.update({key: value for key, value in node.meta.items() if key in ("val", "tensor_meta")})
            node.replace_all_uses_with(given)
            graph.erase_node(node)
        codegen = graph._codegen
        graph.set_codegen(torch.fx.graph.CodeGen())
        functional.recompile()
        return cls(functional, buffers, codegen)

    def first_values(self) -> tuple[torch.Tensor, ...]:
        """Return new tensors with the state of the beginning; the graph takes them, and writes to them."""
        return tuple(value.clone() for value in self.buffers.values())

    def lower(self, module: torch.fx.GraphModule) -> None:
        """Make the state of a graph that was made from this one buffers again, with the values of the beginning."""
        graph = module.graph
        placeholders = [node for node in graph.nodes if node.op == "placeholder"]
        inputs = placeholders[len(placeholders) - len(self.buffers) :]
        for (name, value), node in zip(self.buffers.items(), inputs, strict=True):
            _register(module, name, value.clone())
            with graph.inserting_before(next(iter(graph.nodes))):
                buffer = graph.get_attr(name)
            buffer.meta.update(node.meta)
            node.replace_all_uses_with(buffer)
            graph.erase_node(node)
        write_directly(module)
        graph.set_codegen(self.codegen)
        graph.eliminate_dead_code()
        graph.lint()
        module.recompile()


def write_directly(module: torch.fx.GraphModule) -> None:
    """Let a graph write to its state itself.

    Whatever read the state was given observers and conversions, and so was the operator that writes to it.
    """
    for node in module.graph.nodes:
        if writes(node.target):
            node.update_arg(0, _read(node.args[0]))
    module.recompile()


def _read(node: torch.fx.Node) -> torch.fx.Node:
    while node.op not in ("get_attr", "placeholder"):
        node = node.all_input_nodes[0]
    return node


def _register(module: torch.nn.Module, name: str, value: torch.Tensor) -> None:
    import torch

    *path, last = name.split(".")
    for part in path:
        if not hasattr(module, part):
            module.add_module(part, torch.nn.Module())
        module = module.get_submodule(part)
    if hasattr(module, last):
        delattr(module, last)
    module.register_buffer(last, value)
