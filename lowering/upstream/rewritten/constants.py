"""What of a float graph is the same in every call; such parts are computed once, while the model is lowered.

Upstream (executorch 1.5.1, ConstantFoldingPass) does this with torchao's ConstantFolder for what is computed from
parameters and buffers, and leaves out what is made from nothing: an `arange`, a `triu` of `ones`, positions and the
buckets, embeddings and masks that follow from them. These run on the CPU, in each call, and cut delegates. Here they
are folded, too. ConstantFolder could do that, but calls operators that write to buffers (`mul_`, `add_`) on the buffers
of the model, so it would change the state that the program starts with. A `full` or `zeros` that is used as it is
stays: upstream makes constants of them. (Not as weights: with `--scheme a16w8` upstream gives them 16 bits, and no NPU
has such weights.) It does so with `eye` and `linspace`, too, but not where their reader is left
to the CPU, and there the firmware has no kernels for these two.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.upstream.names.operators import is_overload, writes
from ethos_hil.lowering.upstream.rewritten.splice import constant, value_of

if TYPE_CHECKING:
    import torch

FOLDED = (
    "what depends on no input (positions, ranges, masks made from them) was computed once, while the model was "
    "lowered: ExecuTorch would compute it in every call, much of it on the CPU"
)
LARGEST = 2**18
"""Elements of a folded constant; one that is made from larger constants may be as large as the largest of these."""


_UPSTREAMS_OWN = frozenset({
    "aten.full.default", "aten.zeros.default", "aten.ones.default", "aten.scalar_tensor.default",
})  # fmt: skip
_NO_WRITES = frozenset({"aten.detach_.default"})
"""Operators that say they write, and do not: torch.export has one behind each `torch.tensor` in a forward."""


def constant_nodes(module: torch.fx.GraphModule) -> set[torch.fx.Node]:
    """The nodes of a graph that give the same in every call: constants, and what is computed from them alone.

    Not among them are buffers that the graph writes, what is drawn at random, and any result of an operator that writes
    to what another reads.
    """
    import torch

    changing = _written(module)
    names = {node.target for node in changing if node.op == "get_attr"}
    found: set[torch.fx.Node] = set()
    for node in module.graph.nodes:
        if node in changing or not found.issuperset(node.all_input_nodes):
            continue
        if node.op == "get_attr":
            if node.target not in names and value_of(module, node) is not None:
                found.add(node)
        elif node.op == "call_function" and is_overload(node.target):
            if torch.Tag.nondeterministic_seeded not in node.target.tags and not _writes(node):
                found.add(node)
        elif node.target is operator.getitem:
            found.add(node)
    return found


def _written(module: torch.fx.GraphModule) -> set[torch.fx.Node]:
    """The nodes that operators of a graph write to, and all that these are views of or are computed from."""
    waiting = [node.args[0] for node in module.graph.nodes if _writes(node)]
    found: set[Any] = set()
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += node.all_input_nodes
    return found


def _writes(node: torch.fx.Node) -> bool:
    """Whether an operator writes to what something else can read."""
    return writes(node.target) and str(node.target) not in _NO_WRITES and not is_fresh(node.args[0])


def is_fresh(node: Any) -> bool:
    """Whether an operator made a node's numbers, and one other reads them."""
    if node.op != "call_function" or not is_overload(node.target) or len(node.users) != 1:
        return False
    return all(result.alias_info is None for result in node.target._schema.returns)


def fold_constants(module: torch.fx.GraphModule) -> int:
    """Compute what depends on no input, and put constants in its place; integers that meet floats become floats.

    Returns:
        How many there are that upstream would not fold.
    """
    known = constant_nodes(module)
    folded, others = _folded(module, known)
    values = values_of(module, known, folded)
    for node in folded:
        for mixed in (True, False):
            users = [user for user in node.users if user not in known and _mixes(user, node) is mixed]
            users = [user for user in users if user.op != "output"]
            if not users or (node.op == "get_attr" and not mixed):
                continue
            value = values[node].float() if mixed else values[node].clone()
            attribute = constant(module, node, value)
            for user in users:
                user.replace_input_with(node, attribute)
    if folded:
        module.graph.eliminate_dead_code()
    return others


def _folded(module: torch.fx.GraphModule, known: set[torch.fx.Node]) -> tuple[list[torch.fx.Node], int]:
    """Of the nodes that are `known` to be constant, those whose value takes their place, and the number of those that
    upstream would not fold. The weights of layers are left to upstream.
    """
    import torch

    from_nothing: set[torch.fx.Node] = set()
    largest: dict[torch.fx.Node, int] = {}
    """The elements of the largest constant that it is made from."""
    folded, others = [], 0
    for node in (node for node in module.graph.nodes if node in known):
        sources, value = node.all_input_nodes, node.meta.get("val")
        own = value.numel() if node.op == "get_attr" and isinstance(value, torch.Tensor) else 0
        largest[node] = max([own, *(largest[source] for source in sources)])
        if node.op != "get_attr" and (not sources or from_nothing.intersection(sources)):
            from_nothing.add(node)
        users = [user for user in node.users if user not in known and user.op != "output"]
        if not users or not isinstance(value, torch.Tensor) or value.numel() > max(LARGEST, largest[node]):
            continue
        is_kept = not sources and str(node.target) in _UPSTREAMS_OWN and not any(map(_has_weights, users))
        made = node in from_nothing and not is_kept
        if made or any(_mixes(user, node) for user in users):
            others += 1
        elif (
            node.op == "get_attr"
            or node in from_nothing
            or not value.is_floating_point()
            or all(map(_has_weights, users))
        ):
            continue
        folded.append(node)
    return folded, others


def _has_weights(user: torch.fx.Node) -> bool:
    return any(name in str(user.target) for name in ("conv", "linear", "norm", "embedding"))


def _mixes(user: torch.fx.Node, node: torch.fx.Node) -> bool:
    """Whether an operator computes floats from a node's integers or truth values, which upstream casts on the CPU."""
    import torch

    aten = torch.ops.aten
    if user.target not in (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor):
        return False
    value = node.meta["val"]
    return not value.is_floating_point() and not value.is_complex() and user.meta["val"].dtype is torch.float32


def values_of(
    module: torch.fx.GraphModule, known: set[torch.fx.Node], wanted: list[torch.fx.Node]
) -> dict[torch.fx.Node, torch.Tensor]:
    """The values of constant nodes, by node."""
    import torch

    needed, waiting = set[torch.fx.Node](), list(wanted)
    while waiting:
        node = waiting.pop()
        if node not in needed:
            needed.add(node)
            waiting += node.all_input_nodes
    values: dict[Any, Any] = {}
    with torch.no_grad():
        for node in (node for node in module.graph.nodes if node in needed):
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
            if writes(node.target):
                args = (args[0].clone(), *args[1:])
            values[node] = value_of(module, node) if node.op == "get_attr" else node.target(*args, **kwargs)
    return {node: values[node].contiguous() for node in wanted}


WITHOUT_INPUT = (
    "tensors of one number in the shape of another tensor were written as constants: ExecuTorch gives a delegate the "
    "other tensor, which its program does not have"
)


def fill_without_input(module: torch.fx.GraphModule) -> int:
    """Write `zeros_like(x)`, `x.new_full(...)` and the like as `full`: of `x` they take shape and type alone.

    Upstream (executorch 1.5.1) delegates them with `x` as an input. TOSA's program has none, and the runtime, which
    counts the inputs of Vela's program, writes the result to `x`.
    """
    import torch

    aten = torch.ops.aten
    numbers = {
        aten.zeros_like.default: 0, aten.ones_like.default: 1, aten.new_zeros.default: 0, aten.new_ones.default: 1,
        aten.full_like.default: None, aten.new_full.default: None,
    }  # fmt: skip
    nodes = [node for node in module.graph.nodes if node.target in numbers]
    for node in nodes:
        value = node.meta["val"]
        number = numbers[node.target]
        node.args = (list(value.shape), node.args[-1] if number is None else number)
        node.kwargs = {"dtype": value.dtype}
        node.target = aten.full.default
    return len(nodes)
