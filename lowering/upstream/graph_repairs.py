"""What a model's graph has in a form that upstream cannot lower, or leaves to the CPU: each is rewritten, in place.

A model without such operators is not changed, so its program is byte for byte what upstream alone makes of it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.upstream.export import graphs, operator_calls
from ethos_hil.lowering.upstream.names.operators import is_overload, unwrap, writes
from ethos_hil.lowering.upstream.patches.in_executorch import table_operators
from ethos_hil.lowering.upstream.rewritten.branch_norms import FOLDED_NORMS, fold_norms
from ethos_hil.lowering.upstream.rewritten.constants import FOLDED, WITHOUT_INPUT, fill_without_input, fold_constants
from ethos_hil.lowering.upstream.rewritten.elements import repeated
from ethos_hil.lowering.upstream.rewritten.identities import drop_identities
from ethos_hil.lowering.upstream.rewritten.masks import apply_masks
from ethos_hil.lowering.upstream.rewritten.operators import write_operators, write_out_of_place, written_note
from ethos_hil.lowering.upstream.rewritten.resizes import write_resizes
from ethos_hil.lowering.upstream.rewritten.splice import call, described, write_out

if TYPE_CHECKING:
    import torch

TAKEN_APART = (
    "maxima and minima whose indices are used were taken apart, into amax and argmax: ExecuTorch's quantiser takes the "
    "values for the indices"
)
CONCATENATED = (
    "circular padding was written as a concatenation: ExecuTorch's Arm backend transposes around it, and does not cut "
    "where an amount is negative"
)
CUT_OFF = "padding by negative amounts was written with slices: ExecuTorch's Arm backend fails on it"
REPEATED = (
    "tensors that are concatenated with themselves were written as repetitions: ExecuTorch's Arm backend may keep one "
    "of them only"
)
RELU6 = (
    "relu6 was written as hardtanh from 0 to 6, as nn.ReLU6 is: ExecuTorch's Arm quantiser leaves the other form in "
    "float, on the CPU"
)
LONE_NORMS = (
    "batch norms that no convolution before them takes in were written as depthwise convolutions with a kernel of one "
    "element: ExecuTorch's Arm quantiser takes batch norms apart into elementwise operations, each of them rounded"
)
NEGATED = (
    "negations were written as products with -1: ExecuTorch's Arm backend takes the scales before and behind a "
    "negation for equal, and its quantiser gives them different ones"
)
SEPARATED = (
    "activations that share the range of a concatenation got a quantisation of their own inputs, of the same scale: "
    "ExecuTorch's Arm backend would leave them out, or leave them and the layers before them to the CPU; no number of "
    "the quantised model changes"
)
TABLES = (
    "functions of one number that ExecuTorch's Arm quantiser does not know (softplus, mish, log_sigmoid, ...) are "
    "look-up tables of the NPU: it leaves them in float, on the CPU"
)
_PAD_MODE = 2
"""Number of the argument in the signature of aten.pad."""
_INPUT, _SCALE, _OFFSET, _MEAN, _VARIANCE, _TRAINING, _EPSILON = 0, 1, 2, 3, 4, 5, 7
"""Numbers of the arguments in the signature of aten.batch_norm."""


def prepare(
    floating: torch.fx.GraphModule,
    *,
    quantised: bool,
    as_upstream: bool,
    u55: bool = False,
    calibration: Sequence[tuple[torch.Tensor, ...]] = (),
    locate: Callable[[torch.fx.Node], str | None] = lambda node: None,
) -> tuple[str, ...]:
    """Rewrite a module in place, so that upstream can lower it and it computes the same.

    Args:
        floating: the module of a float exported program, in eval mode.
        quantised: whether it is quantised next; else what only upstream's quantisers miss stays as it is.
        as_upstream: rewrite only what upstream fails on, or gives another size or type.
        u55: whether it is lowered for an Ethos-U55 or U65.
        calibration: sets of inputs that decide the ranges of what is masked.
        locate: names the line of a node.

    Returns:
        A sentence for each kind of change that was made.
    """
    if quantised:  # Vela fails on what they become; nothing that is computed or rounded changes
        rewrite_graphs(floating, drop_identities)
    repairs: list[tuple[Callable[[torch.fx.GraphModule], int], str]] = [
        (take_apart, TAKEN_APART),
        (concatenate_circular, CONCATENATED),
        (repeat_parts, REPEATED),
        (cut_off, CUT_OFF),
        (fill_without_input, WITHOUT_INPUT),
    ]
    if not quantised or as_upstream:
        return tuple(note for repair, note in repairs if rewrite_graphs(floating, repair))
    folded_norms = (FOLDED_NORMS,) if fold_norms(floating) else ()
    repairs += [
        (fold_constants, FOLDED),
        (write_relu6, RELU6),
        (write_negations, NEGATED),
        (write_as_convolutions, LONE_NORMS),
    ]
    names = _rewrites(floating, lambda part: (*write_out_of_place(part), *write_operators(part)))
    names += _rewrites(floating, lambda part: write_resizes(part, u55=u55))
    masks = apply_masks(floating, calibration, locate) if calibration else ()
    if masks:
        floating.recompile()
    written = (written_note(dict.fromkeys(names)),) if names else ()
    if any(str(node.target) in table_operators() for node in operator_calls(floating)):
        written = (*written, TABLES)
    return (*folded_norms, *written, *masks, *(note for repair, note in repairs if rewrite_graphs(floating, repair)))


def _rewrites(module: torch.nn.Module, rewrite: Callable[[torch.fx.GraphModule], Sequence[str]]) -> tuple[str, ...]:
    """The names of what is rewritten in a module's graph, and in those of its branches and loops."""
    names: list[str] = []

    def rewritten(part: torch.fx.GraphModule) -> int:
        found = rewrite(part)
        names.extend(found)
        return len(found)

    rewrite_graphs(module, rewritten)
    return tuple(names)


def rewrite_graphs(module: torch.nn.Module, repair: Callable[[torch.fx.GraphModule], int]) -> int:
    """Rewrite a module's graph, and those of its branches and loops.

    Args:
        module: the module of an exported program.
        repair: rewrites one graph, and returns how many changes it made.

    Returns:
        The number of all changes.
    """
    count = 0
    for part in graphs(module):
        changes = repair(part)
        if changes:
            part.recompile()
        count += changes
    return count


def finish(program: torch.export.ExportedProgram) -> None:
    """Repair a lowered program, of which upstream (executorch 1.5.1) writes some that no runtime takes."""
    rewrite_graphs(program.graph_module, cut_off)
    rewrite_graphs(program.graph_module, copy_before_views)
    _say_orders(program)


def _say_orders(program: torch.export.ExportedProgram) -> None:
    """Have each cast and copy of a lowered program name the order of memory that its result is written with.

    Where an axis has size 1, upstream (executorch 1.5.1, MemoryFormatOpsPass) names torch's order, and writes another:
    its kernels refuse the program when it runs.
    """
    from executorch.exir.tensor import dim_order_from_stride

    for node in operator_calls(program.graph_module):
        if "dim_order" in node.kwargs:
            node.update_kwarg("dim_order", list(dim_order_from_stride(node.meta["val"].stride())))


def copy_before_views(module: torch.fx.GraphModule) -> int:
    """Copy what a view of a lowered program reads into torch's order of memory, where it has another one.

    A view copies bytes as they are: each runtime refuses another order when the program runs. Upstream (executorch
    1.5.1) writes such a program where an input is permuted, and the view stays on the CPU.
    """
    import torch
    from executorch.exir.dialects._ops import ops

    aten = torch.ops.aten
    views = (aten.view_copy.default, aten.unsqueeze_copy.default, aten.squeeze_copy.dim, aten.squeeze_copy.dims)
    count = 0
    for node in [node for node in module.graph.nodes if unwrap(node.target) in views]:
        source = node.args[0]
        value = source.meta["val"]
        if not value.is_contiguous():
            with module.graph.inserting_before(node):
                copied = module.graph.call_function(ops.edge.dim_order_ops._to_dim_order_copy.default, (source,))
            copied.kwargs = {"dtype": value.dtype, "dim_order": list(range(value.dim()))}
            copied.meta = described(node, value.contiguous())
            node.replace_input_with(source, copied)
            count += 1
    return count


def keep_ranks(module: torch.fx.GraphModule) -> int:
    """Give what is computed without dimensions back its shape, wherever an operator reads more than single elements.

    Upstream (executorch 1.5.1, ScalarsToAttributePass and ReplaceScalarWithTensorByProfilePass) makes tensors of shape
    [1] of the numbers in a model, and so what is computed of one of them and a tensor without dimensions is one, too:
    a concatenation behind it fails, or a write to a buffer, no torch.cond takes it, and an output has another shape.
    """
    import torch

    def by_element(node: Any) -> bool:
        return is_overload(node.target) and torch.Tag.pointwise in node.target.tags

    count = 0
    for node in [node for node in module.graph.nodes if by_element(node)]:
        if getattr(node.meta.get("val"), "shape", None) != ():
            continue
        readers = [user for user in node.users if not by_element(user)]
        if readers:
            with module.graph.inserting_after(node):
                whole = module.graph.call_function(torch.ops.aten.reshape.default, (node, []))
            whole.meta = described(node, node.meta["val"])
            for reader in readers:
                reader.replace_input_with(node, whole)
            count += 1
    return count


def take_apart(module: torch.fx.GraphModule) -> int:
    """Make amax and argmax (amin, argmin) of maxima and minima of a dimension whose indices the model uses.

    Upstream's quantiser (executorch 1.5.1, backends/arm/_passes/convert_minmax_pass.py) refuses them where the values
    are used as well; where only the indices are, it takes the values for them.
    """
    import torch

    aten = torch.ops.aten
    parts = {
        aten.max.dim: (aten.amax.default, aten.argmax.default),
        aten.min.dim: (aten.amin.default, aten.argmin.default),
    }
    count = 0
    for node in [node for node in module.graph.nodes if node.target in parts]:
        picked = {user.args[1]: user for user in node.users if user.target is operator.getitem}
        if 1 not in picked or not picked[1].users:
            continue
        values, indices = parts[node.target]
        source, dimension, *keep = node.args
        # The values come last: the delegate map goes by the last call of one origin.
        _replace(module, node, picked[1], indices, (source, dimension, *keep))
        if 0 in picked:
            _replace(module, node, picked[0], values, (source, [dimension], *keep))
        module.graph.erase_node(node)
        count += 1
    return count


def _replace(module: torch.fx.GraphModule, node: Any, picked: Any, target: Any, arguments: tuple[Any, ...]) -> None:
    with module.graph.inserting_before(node):
        call = module.graph.call_function(target, arguments)
    call.meta = {**node.meta, "val": picked.meta.get("val")}
    picked.replace_all_uses_with(call)
    module.graph.erase_node(picked)


def concatenate_circular(module: torch.fx.GraphModule) -> int:
    """Make slices and a concatenation of circular padding, as of `nn.Conv2d(padding_mode="circular")`.

    PyTorch makes it of an empty tensor into which parts are copied. It is a concatenation of the end, the whole and the
    start. Upstream finds that out since 1.5 (executorch 1.5.1), but transposes before and after it, and gives another
    shape where a part is cut off.
    """
    import torch

    pads = [node for node in module.graph.nodes if node.target is torch.ops.aten.pad.default]
    paddings = [node for node in pads if len(node.args) > _PAD_MODE and node.args[_PAD_MODE] == "circular"]
    for node in paddings:
        _concatenate(module, node)
    return len(paddings)


def cut_off(module: torch.fx.GraphModule) -> int:
    """Make slices of negative amounts of padding. Upstream (executorch 1.5.1) fails, or gives another shape.

    In a lowered program, a decomposed `fold` has them, and each kernel of a runtime refuses them.
    """
    import torch
    from executorch.exir.dialects._ops import ops

    pads = (torch.ops.aten.pad.default, torch.ops.aten.constant_pad_nd.default)
    count = 0
    for node in module.graph.nodes:
        if unwrap(node.target) not in pads or min(node.args[1]) >= 0:
            continue
        cut = torch.ops.aten.slice.Tensor if node.target in pads else ops.edge.aten.slice_copy.Tensor
        count += 1
        padded, amounts = node.args[0], node.args[1]
        if max(amounts) > 0:
            padded = call(node, node.target, padded, [max(0, amount) for amount in amounts], *node.args[2:])
        for number, (before, after) in enumerate(zip(amounts[::2], amounts[1::2], strict=True)):
            axis = padded.meta["val"].dim() - 1 - number
            if min(before, after) < 0:
                end = padded.meta["val"].shape[axis] - max(0, -after)
                padded = call(node, cut, padded, axis, max(0, -before), end)
        node.replace_all_uses_with(padded)
        module.graph.erase_node(node)
    return count


def repeat_parts(module: torch.fx.GraphModule) -> int:
    """Make repetitions of a tensor that is concatenated with itself, as a grey picture is to have three channels.

    Upstream (executorch 1.5.1, PropagateViewCopyPermuteUpPass) moves transposes through a concatenation, and then has
    each of its tensors once: Vela refuses the program, or the answer has another shape. Calls that compute the same of
    the same are one to it.
    """
    import torch

    aten = torch.ops.aten
    joins = [node for node in module.graph.nodes if node.target in (aten.cat.default, aten.stack.default)]
    first = _first_of_equals(module) if joins else {}
    again: list[tuple[torch.fx.Node, list[tuple[int, int]]]] = []
    for node in joins:
        equal = [first[part] for part in node.args[0]]
        if len(set(equal)) < len(equal):
            again.append((node, [(equal.index(part), len([*run])) for part, run in groupby(equal)]))
    for node, runs in again:  # one that is written may have been a part of another
        write_out(module, node, _joining(runs, stacks=node.target is aten.stack.default))
    return len(again)


def _joining(runs: Sequence[tuple[int, int]], *, stacks: bool) -> Callable[..., Any]:
    """The function that joins tensors, or stacks them: of each run, one of them, and how often it is there."""
    import torch

    def join(parts: Sequence[torch.Tensor], axis: int = 0, dim: int | None = None) -> torch.Tensor | None:
        axis = (axis if dim is None else dim) % (parts[0].dim() + stacks)
        joined = None  # from the end on, so that no concatenation has a tensor twice
        for at, times in reversed(runs):
            run = repeated(parts[at].unsqueeze(axis) if stacks else parts[at], axis, times)
            joined = run if joined is None else torch.cat([run, joined], axis)
        return joined

    return join


def _first_of_equals(module: torch.fx.GraphModule) -> dict[torch.fx.Node, torch.fx.Node]:
    """Of each node, the first that computes the same of the same. Where something is overwritten, each is the first."""
    import torch

    nodes = list(module.graph.nodes)
    calls = [node for node in nodes if node.op == "call_function" and is_overload(node.target)]
    if any(writes(node.target) for node in calls):
        return {node: node for node in nodes}
    drawn = torch.Tag.nondeterministic_seeded
    known: dict[Any, torch.fx.Node] = {}
    first: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in nodes:
        given = repr(torch.fx.node.map_arg((node.args, node.kwargs), lambda source: first[source].name))
        pure = node.op == "call_function" and is_overload(node.target) and drawn not in node.target.tags
        first[node] = known.setdefault((node.target, given) if pure else node.name, node)
    return first


def _concatenate(module: torch.fx.GraphModule, node: Any) -> None:
    import torch

    aten = torch.ops.aten

    def call(target: Any, *arguments: Any) -> Any:
        result = module.graph.call_function(target, arguments)
        values = torch.fx.node.map_arg(arguments, lambda argument: argument.meta["val"])
        result.meta = {**node.meta, "val": target(*values)}
        return result

    padded = node.args[0]
    dimensions = padded.meta["val"].dim()
    with module.graph.inserting_before(node):
        for number, (before, after) in enumerate(zip(node.args[1][::2], node.args[1][1::2], strict=True)):
            axis = dimensions - 1 - number
            size = padded.meta["val"].shape[axis]
            if before < 0 or after < 0:  # a negative amount is cut off, before the other one is taken from what is left
                padded = call(aten.slice.Tensor, padded, axis, max(0, -before), size - max(0, -after))
                size = padded.meta["val"].shape[axis]
            parts = [padded]
            if before > 0:
                parts.insert(0, call(aten.slice.Tensor, padded, axis, size - before, size))
            if after > 0:
                parts.append(call(aten.slice.Tensor, padded, axis, 0, after))
            if len(parts) > 1:
                padded = call(aten.cat.default, parts, axis)
    node.replace_all_uses_with(padded)
    module.graph.erase_node(node)


def write_relu6(module: torch.fx.GraphModule) -> int:
    """Write functional.relu6 as the hardtanh that it is.

    Upstream's quantiser knows hardtanh only (executorch 1.5.1, backends/arm/quantizer/quantization_annotator.py).
    """
    import torch

    aten = torch.ops.aten
    forms = {aten.relu6.default: aten.hardtanh.default, aten.relu6_.default: aten.hardtanh_.default}
    calls = [node for node in module.graph.nodes if node.target in forms]
    for node in calls:
        node.target, node.args = forms[node.target], (node.args[0], 0.0, 6.0)
    return len(calls)


def write_negations(module: torch.fx.GraphModule) -> int:
    """Write negations as products.

    Upstream (executorch 1.5.1, NegVisitor) makes a NEGATE of them without a RESCALE. Its quantiser finds a scale for
    each side, in the histogram of the numbers and in that of the negated ones. They are never the same of int16, seldom
    different of int8, and quite different where an operator behind it shares its scale, as a maximum does.
    """
    import torch

    calls = [node for node in module.graph.nodes if node.target is torch.ops.aten.neg.default]
    floats = [node for node in calls if node.meta["val"].is_floating_point()]
    for node in floats:
        write_out(module, node, lambda x: x * -1.0)
    return len(floats)


def write_as_convolutions(module: torch.fx.GraphModule) -> int:
    """Write batch norms that no convolution takes in, of maps with one or two dimensions, as depthwise convolutions.

    PT2E folds a batch norm into the convolution before it. One that follows a concatenation, an addition or a pool
    (DenseNet, MixNet, RepVGG) stays, and ExecuTorch's Arm quantiser (executorch 1.5.1, DecomposeBatchNormNoStatsPass)
    makes elementwise operations of it, each over the whole map and with a rounding; 1.4.1 left it to the CPU, in float.
    With fixed statistics it is a factor and an offset for each channel, hence a depthwise convolution with a kernel of
    one element: one of them between two convolutions took 158,409 cycles in place of 285,114 on an Ethos-U55-128, and
    33,863 in place of 60,711 on an Ethos-U85-256 (modelled), with 41.5 dB in place of 36.9.
    """
    norms = list(_lone_norms(module))
    for number, node in enumerate(norms):
        _write_as_convolution(module, node, f"_norm_{number}")
    if norms:
        module.graph.eliminate_dead_code()
    return len(norms)


def _lone_norms(module: torch.fx.GraphModule) -> Iterator[Any]:
    import torch

    aten = torch.ops.aten
    takers = {aten.conv1d.default, aten.conv2d.default, aten.conv_transpose1d.default, aten.conv_transpose2d.input}
    for node in module.graph.nodes:
        if node.target != aten.batch_norm.default or node.args[_TRAINING]:
            continue
        before, value = node.args[_INPUT], node.meta.get("val")
        taken = before.target in takers and len(before.users) == 1
        if taken or value is None or value.dim() not in (3, 4) or value.dtype != torch.float32:
            continue
        if all(at is None or at.op == "get_attr" for at in node.args[_SCALE : _VARIANCE + 1]):
            yield node


def _write_as_convolution(module: torch.fx.GraphModule, node: Any, name: str) -> None:
    import torch

    def tensor_of(index: int) -> torch.Tensor | None:
        return None if node.args[index] is None else attrgetter(node.args[index].target)(module).detach().double()

    mean, variance, scale, offset = (tensor_of(index) for index in (_MEAN, _VARIANCE, _SCALE, _OFFSET))
    assert mean is not None, "a norm with fixed statistics has them"
    assert variance is not None, "a norm with fixed statistics has them"
    factor = (variance + node.args[_EPSILON]).rsqrt() * (1 if scale is None else scale)
    bias = (0 if offset is None else offset) - mean * factor
    dimensions = node.meta["val"].dim() - 2
    constants = {"weight": factor.reshape(-1, 1, *[1] * dimensions).float(), "bias": bias.float()}
    for part, values in constants.items():
        module.register_parameter(f"{name}_{part}", torch.nn.Parameter(values, requires_grad=False))
    aten = torch.ops.aten
    with module.graph.inserting_before(node):
        weight, added = (module.graph.get_attr(f"{name}_{part}") for part in constants)
        for attribute, values in zip((weight, added), constants.values(), strict=True):
            # The quantiser passes by what has no shape and type.
            attribute.meta["val"] = node.meta["val"].fake_mode.from_tensor(values)
        places: tuple[Any, ...] = ([1] * dimensions, [0] * dimensions, [1] * dimensions, factor.numel())
        target = aten.conv1d.default if dimensions == 1 else aten.conv2d.default
        convolution = module.graph.call_function(target, (node.args[_INPUT], weight, added, *places))
    convolution.meta = dict(node.meta)
    node.replace_all_uses_with(convolution)
    module.graph.erase_node(node)


def separate(module: torch.fx.GraphModule) -> int:
    """Quantise the inputs of ReLUs whose quantisation has another zero point than its smallest integer.

    Upstream's Arm quantiser quantises a convolution and the ReLU behind it as one, with no quantisation between both.
    Where a concatenation shares the ReLU's range, as at the skip connections of a U-Net, the zero point is above the
    smallest integer. Up to 1.4, both layers then stay on the CPU, in float. Since 1.5 (executorch 1.5.0 and 1.5.1,
    FuseQuantizedActivationPass; pytorch/executorch#21974) the ReLU is removed, and the zero point becomes the `qmin` of
    the quantisation, which nothing reads after that: negative numbers pass.

    The same quantisation between the two changes no bit: rounding and saturating never change the order of two numbers,
    so `quantise(relu(x))` is `quantise(relu(dequantise(quantise(x))))`.
    """
    import torch

    aten, decomposed = torch.ops.aten, torch.ops.quantized_decomposed
    layers = {
        aten.conv1d.default, aten.conv2d.default, aten.conv3d.default, aten.conv_transpose1d.default,
        aten.conv_transpose2d.input, aten.conv_transpose3d.input, aten.convolution.default, aten.linear.default,
    }  # fmt: skip
    count = 0
    for node in [node for node in module.graph.nodes if _clamps_at_zero(node) and node.args[0].target in layers]:
        users = list(node.users)
        if len(node.args[0].users) > 1 or len(users) != 1:
            continue
        (user,) = users
        if user.target != decomposed.quantize_per_tensor.default or user.args[2] == user.args[3]:
            continue
        with module.graph.inserting_before(node):
            given = node.args[0]
            integers = module.graph.call_function(user.target, (given, *user.args[1:]))
            floats = module.graph.call_function(decomposed.dequantize_per_tensor.default, (integers, *user.args[1:]))
        for conversion in (integers, floats):
            conversion.meta = dict(user.meta)
        floats.meta["val"] = given.meta.get("val")
        node.replace_input_with(given, floats)
        count += 1
    return count


def _clamps_at_zero(node: Any) -> bool:
    import torch

    aten = torch.ops.aten
    if node.target in (aten.relu.default, aten.relu_.default, aten.relu6.default, aten.relu6_.default):
        return True
    return node.target in (aten.hardtanh.default, aten.hardtanh_.default) and len(node.args) > 1 and node.args[1] == 0
