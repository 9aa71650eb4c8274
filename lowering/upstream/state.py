"""The state that a program keeps between its calls: buffers that it writes.

torch.export keeps a write to a buffer. Two steps of upstream may lose it. PT2E (torchao 0.18, convert_pt2e) computes
constants once, and takes a buffer for a constant wherever it is quantised, even if the program writes to it: later
reads, and all that follows from them, would have the value of the first call. `LiftedState` keeps it from that. And
ExecuTorch writes no initial value of such a buffer into the program, unless it is told to (`keep_first_values`).
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.lowering.upstream.export import export, graphs
from ethos_hil.lowering.upstream.names.operators import writes

if TYPE_CHECKING:
    import torch

Influence = dict[str, frozenset[str]]
"""By input or buffer: the outputs, and the buffers' next values, that depend on it."""


def has_writes(module: torch.nn.Module) -> bool:
    """Whether the graph of an exported module writes to a buffer or an input."""
    return any(writes(node.target) for part in graphs(module) for node in part.graph.nodes)


def unchanging(module: torch.nn.Module) -> torch.nn.Module:
    """The module, or a copy of it if a call would change its buffers."""
    return copy.deepcopy(module) if has_writes(module) else module


def state_inputs(program: torch.export.ExportedProgram) -> list[torch.fx.Node]:
    """The placeholders of the buffers that a program in functional form writes."""
    signature = program.graph_signature
    written, buffers = set(signature.buffers_to_mutate.values()), signature.inputs_to_buffers
    return [node for node in program.graph.nodes if node.op == "placeholder" and buffers.get(node.name) in written]


def find_lost(floating: torch.export.ExportedProgram, program: torch.export.ExportedProgram) -> dict[str, str]:
    """What a program does not keep of the state of the model that it was made from.

    Args:
        floating: the model, as exported.
        program: what was made of it, before or after delegation; the names of buffers are the same.

    Returns:
        By buffer that the model writes, and the program does not keep or does not start rightly: a sentence.
    """
    if not has_writes(floating.graph_module):
        return {}
    model, result = influences(floating), influences(program)
    sentences = {}
    written = written_buffers(floating)
    for name in written:
        if not model.get(name):
            continue  # written, and never read
        # Buffers that nothing writes are constants, which may be folded: those of a batch norm are part of weights.
        sources = {
            other
            for other, reached in model.items()
            if name in reached and (other in written or other.startswith(_INPUT))
        }
        missing = sorted(model[name] - result.get(name, frozenset()))
        unfed = sorted(other for other in sources if name not in result.get(other, frozenset()))
        if missing or unfed:
            outputs = [name for name in missing if name.startswith("output ")]
            if outputs:
                verb = "depend on" if len(outputs) > 1 else "depends on"
                sentences[name] = f"{' and '.join(outputs)} {verb} buffer {name} in the model, not in the program"
            else:
                sentences[name] = f"the program computes the next value of buffer {name} from less than the model does"
    return sentences


_INPUT = "input "
"""How the names of inputs start in an Influence; those of buffers are without spaces."""
_WRITTEN = "et_init_buffer"
"""What exir (executorch 1.5.1, InitializedMutableBufferPass) notes of a buffer whose value is to be written."""


def keep_first_values(program: torch.export.ExportedProgram) -> None:
    """Have ExecuTorch write the values that the state of a lowered program starts with, where they are not zeros."""
    for node, value in _first_values(program).values():
        if value is not None and (value != 0).any():
            node.meta[_WRITTEN] = True


def find_other_starts(floating: torch.export.ExportedProgram, program: torch.export.ExportedProgram) -> dict[str, str]:
    """By buffer that a lowered program starts with another value than the model that it was made from: a sentence."""
    sentences = {}
    for name, (node, value) in _first_values(program).items():
        wanted = floating.state_dict.get(name, floating.constants.get(name))
        if wanted is None or (wanted.equal(value) if _WRITTEN in node.meta and value is not None else not wanted.any()):
            continue
        found = "other values" if _WRITTEN in node.meta else "zeros"
        sentences[name] = f"the program starts with {found} in buffer {name}, the model does not"
    return sentences


def _first_values(
    program: torch.export.ExportedProgram,
) -> dict[str, tuple[torch.fx.Node, torch.Tensor | None]]:
    """The placeholders of the buffers that a program in functional form writes, and their values, by name."""
    names = program.graph_signature.inputs_to_buffers
    return {
        names[node.name]: (node, program.state_dict.get(names[node.name], program.constants.get(names[node.name])))
        for node in state_inputs(program)
    }


def written_buffers(program: torch.export.ExportedProgram) -> tuple[str, ...]:
    """The names of the buffers that a program writes."""
    if not has_writes(program.graph_module):
        return tuple(program.graph_signature.buffers_to_mutate.values())
    return tuple(dict.fromkeys(program.run_decompositions({}).graph_signature.buffers_to_mutate.values()))


def influences(program: torch.export.ExportedProgram) -> Influence:
    """Which outputs and buffers depend on which inputs and buffers, by the names "output 0", "input 0", "cache.k"."""
    functional = program.run_decompositions({}) if has_writes(program.graph_module) else program
    signature = functional.graph_signature
    names = {placeholder: f"{_INPUT}{at}" for at, placeholder in enumerate(signature.user_inputs)}
    names |= signature.inputs_to_buffers
    reached: dict[Any, set[str]] = {}
    numbers = itertools.count()
    results = []
    for spec in signature.output_specs:
        if spec.kind.name == "USER_OUTPUT":
            results.append(f"output {next(numbers)}")
        else:
            results.append(str(spec.target) if spec.kind.name == "BUFFER_MUTATION" else "")
    output = next(node for node in functional.graph.nodes if node.op == "output")
    for node, result in zip(output.args[0], results, strict=False):
        if result and hasattr(node, "op"):
            reached.setdefault(node, set()).add(result)
    for node in reversed(functional.graph.nodes):
        for source in node.all_input_nodes if node.op != "output" and not _reads_no_number(node) else ():
            reached.setdefault(source, set()).update(reached.get(node, ()))
    return {
        names[node.name]: frozenset(reached.get(node, ()))
        for node in functional.graph.nodes
        if node.op == "placeholder" and node.name in names
    }


_CHOOSING = ("argmax", "argmin", "softmax", "log_softmax", "_softmax", "_log_softmax")


def _reads_no_number(node: torch.fx.Node) -> bool:
    """Whether a call takes of its input the shape alone, or compares a number with no other."""
    name = str(node.target).partition(".")[2].partition(".")[0]
    if name in _CHOOSING:
        sizes: Any = node.all_input_nodes[0].meta["val"].shape
        axis = node.args[1] if len(node.args) > 1 else None
        return sizes.numel() == 1 or (isinstance(axis, int) and sizes[axis] == 1)
    return name.endswith("_like") or name.startswith("new_")


# A model's state as inputs of its graph, while PT2E quantises it.
#
# PT2E and upstream's quantiser fold what they take for constant, before and after the calibration (torchao 0.18,
# `constant_fold`; executorch 1.5.1, `transform_for_annotation`). A buffer is a constant for them where it is read, even
# if the program writes to it. An input is not. So a buffer that the program writes becomes an input of the graph for
# that time, which the graph writes to when it ends, and a buffer again afterwards.


@dataclass(frozen=True)
class LiftedState:
    """A graph whose state is among its inputs.

    Attributes:
        module: the graph. It takes the model's inputs, flat, and then the tensors of the state, which it writes to.
        buffers: the buffers of the state by name, in the order of these inputs, with the values that they start with.
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
        # Every buffer is read once, at the start, and written once, at the end.
        program = export(floating, inputs).run_decompositions({})
        count = len(program.graph_signature.buffers_to_mutate)
        if not count:
            return None
        functional = program.module(check_guards=False)
        graph = functional.graph
        # What attention gives lies otherwise in memory once upstream has taken it apart: no view of it may be left.
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.view.default):
            node.target = torch.ops.aten.reshape.default
        at_the_end = [node for node in graph.nodes if writes(node.target)]
        written = [node.args[0] for node in at_the_end[:count]]
        for node in at_the_end[count:]:
            # Writes to inputs, which no one reads. torch 2.13 takes an input for a buffer of the same name here.
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
        """Return new tensors with the state of the start; the graph takes them, and writes to them."""
        return tuple(value.clone() for value in self.buffers.values())

    def lower(self, module: torch.fx.GraphModule) -> None:
        """Make the state of a graph that was made from this one buffers again, with the values of the start."""
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
