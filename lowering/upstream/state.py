"""The state that a program keeps between its calls: buffers that it writes.

torch.export keeps a write to a buffer. Two steps of upstream may lose it. PT2E (torchao 0.18, convert_pt2e) computes
constants once, and takes a buffer for a constant wherever it is quantised, even if the program writes to it: later
reads, and all that follows from them, would have the value of the first call. `lifted_state` keeps it from that. And
ExecuTorch 1.4.1 writes no initial value of such a buffer into the program.
"""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.upstream.export import graphs
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


def keep_state(partitioner: Any) -> Any:
    """The partitioner, which leaves buffers that the program writes out of the delegates: these take them as inputs.

    Upstream (executorch 1.4.1, `tag_constant_data`) gives a delegate each buffer that it alone reads, as a constant,
    but for one whose next value is computed from it by a single operator.
    """
    partition = partitioner.partition

    def partitioned(program: torch.export.ExportedProgram) -> Any:
        result = partition(program)
        for node in state_inputs(program):
            node.meta.pop("delegation_tag", None)
        return result

    partitioner.partition = partitioned
    return partitioner


def state_inputs(program: torch.export.ExportedProgram) -> list[torch.fx.Node]:
    """The placeholders of the buffers that a program in functional form writes."""
    signature = program.graph_signature
    written = set(signature.buffers_to_mutate.values())
    return [
        node
        for node in program.graph.nodes
        if node.op == "placeholder" and signature.inputs_to_buffers.get(node.name) in written
    ]


def lost(floating: torch.export.ExportedProgram, program: torch.export.ExportedProgram) -> dict[str, str]:
    """What a program does not keep of the state of the model that it was made from.

    Args:
        floating: the model, as exported.
        program: what was made of it, before or after delegation; the names of buffers are the same.

    Returns:
        By buffer that the model writes, and the program does not keep or does not start rightly: a sentence.
    """
    if not has_writes(floating.graph_module):
        return {}
    model, made = influences(floating), influences(program)
    sentences = {}
    for name in written_buffers(floating):
        if not model.get(name):
            continue  # written, and never read
        sources = {other for other, reached in model.items() if name in reached}
        missing = sorted(model[name] - made.get(name, frozenset()))
        unfed = sorted(other for other in sources if name not in made.get(other, frozenset()))
        if missing or unfed:
            outputs = [each for each in missing if each.startswith("output ")]
            if outputs:
                verb = "depend on" if len(outputs) > 1 else "depends on"
                sentences[name] = f"{' and '.join(outputs)} {verb} buffer {name} in the model, not in the program"
            else:
                sentences[name] = f"the program computes the next value of buffer {name} from less than the model does"
        elif _starts_elsewhere(floating, name):
            sentences[name] = f"the program starts with zeros in buffer {name}, the model with other values"
    return sentences


def written_buffers(program: torch.export.ExportedProgram) -> tuple[str, ...]:
    """The names of the buffers that a program writes."""
    if not has_writes(program.graph_module):
        return tuple(program.graph_signature.buffers_to_mutate.values())
    return tuple(dict.fromkeys(program.run_decompositions({}).graph_signature.buffers_to_mutate.values()))


def _starts_elsewhere(program: torch.export.ExportedProgram, name: str) -> bool:
    value = program.state_dict.get(name, program.constants.get(name))
    return value is not None and bool((value != 0).any())


def influences(program: torch.export.ExportedProgram) -> Influence:
    """Which outputs and buffers depend on which inputs and buffers, by the names "output 0", "input 0", "cache.k"."""
    functional = program.run_decompositions({}) if has_writes(program.graph_module) else program
    signature = functional.graph_signature
    names = {placeholder: f"input {at}" for at, placeholder in enumerate(signature.user_inputs)}
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
        for source in node.all_input_nodes if node.op != "output" else ():
            reached.setdefault(source, set()).update(reached.get(node, ()))
    return {
        names[node.name]: frozenset(reached.get(node, ()))
        for node in functional.graph.nodes
        if node.op == "placeholder" and node.name in names
    }
