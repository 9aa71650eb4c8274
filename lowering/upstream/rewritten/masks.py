"""Masks of attention, and of maxima, whose numbers would take the scale of what they mask.

A mask adds -inf, the lowest float or -1e9 to the scores of an attention, or puts it in their place. Upstream
(executorch 1.5.1, ReplaceInfAndLimitValuesPass) makes -256 of the first two and leaves the third. Quantised, scores and
mask share a scale, so that the scores have few of 256 steps, or one.

A mask that is the same in every call is applied in another way. With s the scores and K the set of what is kept,

    t = minimum(s, cap)         cap is `low` where masked, and above all scores where kept
    e = exp(t - max(t))
    p = e' / sum(e')            e' = e * keep, with keep 1 where kept and 0 where masked

computes softmax over K: where kept, t is s and e' is e; a softmax does not change with what is subtracted, so max(t)
may be `low`. `low` is the least score of calibration: it widens no range.
What is dropped had a weight of at most exp(-MARGIN) < 2^-24 of the largest, or none: below the rounding of a float.
A row in which all is masked has another answer, so such a mask stays.

In one that an input decides, the number is replaced: by one MARGIN below the spread of the scores (the same bound), or,
where only a maximum follows, by the least number that calibration has met there.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.lowering.upstream.names.operators import writes
from ethos_hil.lowering.upstream.rewritten.constants import LARGEST, constant_nodes, values_of
from ethos_hil.lowering.upstream.rewritten.products import attention
from ethos_hil.lowering.upstream.rewritten.splice import call, constant, write_out

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    Node = torch.fx.Node
    Sets = Sequence[tuple[Tensor, ...]]
    """Sets of a program's inputs."""

MARGIN = 17.0
"""exp(-17) is 4.1e-8, less than half of the distance from 1 to the next float32 (2^-24 is 6.0e-8)."""
HEADROOM = 16
"""How many times the largest score of calibration a kept score may be; the quantised program ends at the largest."""
LARGE = -50.0
"""A number below this is a mask's. Softmax and its sums are spoilt from about here: a step is a fifth and more."""

APPLIED = (
    "constant masks were applied around the exponential of each softmax, where they widen no range: ExecuTorch adds "
    "them to the scores, which then have few of 256 steps"
)

CAPPED = (
    "constant masks of maxima were written as a minimum with a constant, which widens no range: ExecuTorch gives what "
    "is masked the scale of its number, and leaves the choice to the CPU on an Ethos-U55 or U65"
)


def apply_masks(
    module: torch.fx.GraphModule, calibration: Sets, locate: Callable[[Node], str | None]
) -> tuple[str, ...]:
    """Rewrite the masks of one graph.

    Args:
        module: the module of a float exported program.
        calibration: sets of inputs that decide the ranges.
        locate: names the line of a node.

    Returns:
        A note for each kind of change, and for each mask that cannot be changed.
    """
    import torch

    _take_attention_apart(module)
    uses = list(_uses(module, constant_nodes(module)))
    if not uses:
        return ()
    measured = _ranges(
        module, {node for use in uses for node in (use.scores, use.mask) if node is not None}, calibration
    )
    constants = constant_nodes(module)
    done = [
        use
        for use in uses
        if use.constant and (_apply if use.softmax else _cap)(module, use, measured[use.scores], constants)
    ]
    others = [use for use in uses if use not in done and not (use.softmax and use.constant)]
    numbers = _replace_numbers(module, others, measured, constants, locate)
    told = _tell_inputs(others, measured, locate)
    assertion = torch.ops.aten._assert_tensor_metadata.default
    for node in list(module.graph.find_nodes(op="call_function", target=assertion)):
        module.graph.erase_node(node)  # it keeps alive what it is about; upstream drops it later
    module.graph.eliminate_dead_code()
    applied = {APPLIED if use.softmax else CAPPED for use in done}
    return (*sorted(applied), *numbers, *told)


# --- Where masks are.


@dataclass(frozen=True)
class _Use:
    """A mask that is applied to numbers of which a softmax or a maximum is taken.

    Attributes:
        reader: the softmax or maximum.
        masking: the operator that applies the mask.
        scores: what is masked.
        mask: what is added, or None where numbers are replaced.
        softmax: whether the reader is a softmax.
        constant: whether the mask is the same in every call.
    """

    reader: Any
    masking: Any
    scores: Any
    mask: Any
    softmax: bool
    constant: bool


def _uses(module: torch.fx.GraphModule, constants: set[Node]) -> Iterator[_Use]:
    import torch

    aten = torch.ops.aten
    softmaxes = {aten.softmax.int, aten._softmax.default, aten._safe_softmax.default}
    maxima = {
        aten.amax.default,
        aten.max.dim,
        aten.max.default,
        aten.adaptive_max_pool1d.default,
        aten.max_pool1d.default,
    }
    for node in module.graph.nodes:
        if node.target not in softmaxes | maxima:
            continue
        softmax, masking = node.target in softmaxes, _source(node.args[0])
        if masking.target in (aten.add.Tensor, aten.sub.Tensor) and not masking.kwargs and softmax:
            for scores, mask in _operands(masking, constants):
                yield _Use(node, masking, scores, mask, True, mask in constants)
        elif masking.target in _fills():
            mask, scores = _filled(masking, constants)
            if scores is not None:
                yield _Use(node, masking, scores, None, softmax, mask in constants)


def _fills() -> set[Any]:
    import torch

    aten = torch.ops.aten
    return {
        aten.masked_fill.Scalar, aten.masked_fill.Tensor,
        aten.where.self, aten.where.ScalarOther, aten.where.ScalarSelf,
    }  # fmt: skip


def _operands(masking: Node, constants: set[Node]) -> Iterator[tuple[Any, Any]]:
    """The scores and the mask of an addition; of what depends on inputs, either may be the mask."""
    first, second = masking.args
    if not hasattr(second, "op") or not _is_float(first) or not _is_float(second):
        return
    subtracts = "sub" in str(masking.target)
    if second in constants or _numbers(second, constants):
        yield first, second
    elif not subtracts and (first in constants or _numbers(first, constants)):
        yield second, first
    elif _is_input(second):
        yield first, second


def _filled(masking: Node, constants: set[Node]) -> tuple[Any, Any]:
    """The truth values and the scores of an operator that puts one number in the place of scores."""
    arguments = list(masking.args)
    if "masked_fill" in str(masking.target):
        return arguments[1], arguments[0]
    truth, first, second = arguments
    plain = [value for value in (first, second) if hasattr(value, "op") and value not in constants]
    return truth, plain[0] if len(plain) == 1 and not _numbers(plain[0], constants) else None


def _source(node: Any) -> Any:
    """What a node is a copy of, or the same numbers in another shape."""
    import torch

    aten = torch.ops.aten
    copies = {
        aten.view.default, aten.reshape.default, aten._unsafe_view.default,
        aten.to.dtype, aten.to.dtype_layout, aten.clone.default, aten.contiguous.default, aten.dropout.default,
        aten.alias.default, aten.detach.default, aten._to_copy.default,
    }  # fmt: skip
    while node.op == "call_function" and node.target in copies and _is_float(node.args[0]):
        node = node.args[0]
    return node


def _is_float(node: Any) -> bool:
    import torch

    value = node.meta.get("val") if hasattr(node, "meta") else None
    return isinstance(value, torch.Tensor) and value.dtype is torch.float32


def _is_input(node: Any) -> bool:
    """Whether a node is an input of the program, or a view of one."""
    while node.op == "call_function" and len(node.all_input_nodes) == 1 and not _computes(node):
        node = node.all_input_nodes[0]
    return bool(node.op == "placeholder")


def _computes(node: Node) -> bool:
    import torch

    return torch.Tag.pointwise in getattr(node.target, "tags", ()) or "matmul" in str(node.target)


# --- Attention.


def _take_attention_apart(module: torch.fx.GraphModule) -> None:
    """Write scaled_dot_product_attention with a mask as its scores, the mask, and a softmax."""
    import torch

    target = torch.ops.aten.scaled_dot_product_attention.default
    constants = constant_nodes(module)
    for node in list(module.graph.find_nodes(op="call_function", target=target)):
        mask = node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")
        causal = node.args[5] if len(node.args) > 5 else node.kwargs.get("is_causal", False)
        if mask is None and not causal:
            continue
        if mask in constants and _has_empty_rows(_added(values_of(module, constants, [mask])[mask]) < LARGE):
            continue
        write_out(module, node, attention)


def _added(mask: Tensor) -> Tensor:
    """What a mask adds; a mask of truth values says what is kept."""
    import torch

    return torch.where(mask, 0.0, -math.inf) if mask.dtype is torch.bool else mask


def _has_empty_rows(masked: Tensor, axis: int = -1) -> bool:
    return bool(masked.all(axis).any())


# --- Masks that are the same in every call.


def _apply(module: torch.fx.GraphModule, use: _Use, measured: tuple[float, float], constants: set[Node]) -> bool:
    """Apply a constant mask around the exponential of a softmax."""
    import torch

    aten = torch.ops.aten
    added = _constant_addend(module, use, constants)
    low, high = measured
    spread = max(high, 0.0) - min(low, 0.0)
    node, axis = use.reader, use.reader.args[1]
    shape, before = node.meta["val"].shape, use.masking.meta["val"].shape
    scores = use.scores
    if shape != before:  # there is a view between both
        if math.prod(shape) > LARGEST or scores.meta["val"].shape != before:
            return False
        added, scores = added.expand(before).reshape(shape), call(node, aten.view.default, scores, list(shape))
    added = added.reshape([1] * (len(shape) - added.dim()) + [*added.shape])
    masked = added < -(spread + MARGIN)
    if not bool(masked.any()) or _has_empty_rows(masked, axis) or not bool((added < LARGE).any()):
        return False
    bias = added.masked_fill(masked, 0.0)
    if bool(bias.any()):
        scores = call(node, aten.add.Tensor, scores, constant(module, node, bias))
        low, high = low + float(bias.min()), high + float(bias.max())
    above = HEADROOM * max(abs(low), abs(high), 2**-10)
    cap = constant(module, node, torch.where(masked, low, above))
    kept = constant(module, node, (~masked).float())
    capped = call(node, aten.minimum.default, scores, cap)
    least = call(node, aten.sub.Tensor, capped, call(node, aten.amax.default, capped, [axis], True))
    weights = call(node, aten.mul.Tensor, call(node, aten.exp.default, least), kept)
    total = call(node, aten.sum.dim_IntList, weights, [axis], True)
    result = call(node, aten.mul.Tensor, weights, call(node, aten.reciprocal.default, total))
    node.replace_all_uses_with(result)
    module.graph.erase_node(node)
    return True


def _cap(module: torch.fx.GraphModule, use: _Use, measured: tuple[float, float], constants: set[Node]) -> bool:
    """Apply a constant mask before a maximum."""
    import torch

    low, high = measured
    node, masking = use.reader, use.masking
    if node.target not in (torch.ops.aten.amax.default, torch.ops.aten.max.dim, torch.ops.aten.max.default):
        return False
    added = _constant_addend(module, use, constants)
    masked = (added < min(LARGE, low)).expand(masking.meta["val"].shape)
    axes = node.args[1] if len(node.args) > 1 else list(range(masked.dim()))
    if not bool(masked.any()) or bool(torch.amin(masked.int(), axes).any()) or list(masking.users) != [node]:
        return False
    above = HEADROOM * max(abs(low), abs(high), 2**-10)
    cap = constant(module, masking, torch.where(added < min(LARGE, low), low, above))
    masking.replace_all_uses_with(call(masking, torch.ops.aten.minimum.default, use.scores, cap))
    return True


def _constant_addend(module: torch.fx.GraphModule, use: _Use, constants: set[Node]) -> Tensor:
    """What a constant mask adds to the scores, or puts in their place, as what is added."""
    import torch

    def known(argument: Any) -> Tensor:
        if hasattr(argument, "op"):
            return values_of(module, constants, [argument])[argument]
        return torch.tensor(float(argument))

    if use.mask is not None:
        value = known(use.mask).float()
        return -value if "sub" in str(use.masking.target) else value
    arguments = use.masking.args
    if "masked_fill" in str(use.masking.target):
        return torch.where(known(arguments[1]), known(arguments[2]).float(), 0.0)
    truth = known(arguments[0])
    first = arguments[1] is not use.scores
    number = known(arguments[1 if first else 2]).float()
    return torch.where(truth if first else ~truth, number, 0.0)


# --- Masks that inputs decide.


def _numbers(node: Any, constants: set[Node]) -> list[tuple[Any, int | str]]:
    """The arguments in which a mask has its number: of the operators that compute it, back to the inputs."""
    import torch

    found: list[tuple[Any, int | str]] = []
    waiting, seen = [node], set[Any]()
    while waiting:
        here = waiting.pop()
        if here in seen or here.op != "call_function" or not isinstance(here.target, torch._ops.OpOverload):
            continue
        seen.add(here)
        if not _makes_masks(here):
            continue
        for key, argument in (*enumerate(here.args), *here.kwargs.items()):
            if isinstance(argument, int | float) and not isinstance(argument, bool) and argument < LARGE:
                found.append((here, key))
        waiting += here.all_input_nodes
    return found


def _makes_masks(node: Node) -> bool:
    """Whether an operator may stand between a mask's number and the scores: elementwise, a shape, or a constant."""
    import torch

    computed = ("matmul", "linear", "conv", "mm.", "attention", "softmax", "norm", "pool", "sum", "mean", "embedding")
    name = str(node.target)
    return torch.Tag.pointwise in node.target.tags or not any(part in name for part in computed)  # type: ignore[union-attr]


def _replace_numbers(
    module: torch.fx.GraphModule,
    uses: Sequence[_Use],
    measured: dict[Any, tuple[float, float]],
    constants: set[Node],
    locate: Callable[[Node], str | None],
) -> tuple[str, ...]:
    wanted: dict[tuple[Any, int | str], float] = {}
    for use in uses:
        low, high = measured[use.scores]
        number = min(low, 0.0) - max(high, 0.0) - MARGIN if use.softmax else low
        for place in _numbers(use.masking if use.mask is None else use.mask, constants):
            if place[0] in _before(use.scores):
                continue
            wanted[place] = min(wanted.get(place, math.inf), float(math.floor(number)) if use.softmax else number)
    ends = {use.masking for use in uses}
    notes = []
    for (node, key), number in wanted.items():
        old = node.args[key] if isinstance(key, int) else node.kwargs[key]
        if old >= number or not _reaches_only(node, ends):
            continue
        if isinstance(key, int):
            node.update_arg(key, number)
        else:
            node.update_kwarg(key, number)
        line = locate(node)
        notes.append(
            f"the mask's {old:g}{f' at {line}' if line else ''} was replaced by {number:g}, which masks as well: "
            "quantised, what is masked shares its scale"
        )
    return tuple(dict.fromkeys(notes))


def _before(node: Node) -> set[Node]:
    """A node and all that it is computed from."""
    found, waiting = set[Any](), [node]
    while waiting:
        here = waiting.pop()
        if here not in found:
            found.add(here)
            waiting += here.all_input_nodes
    return found


def _reaches_only(node: Node, ends: set[Any]) -> bool:
    """Whether whatever uses a node does so by way of these."""
    waiting, seen = [node], set[Any]()
    while waiting:
        here = waiting.pop()
        if here in ends or here in seen:
            continue
        seen.add(here)
        if not here.users or any(user.op == "output" for user in here.users):
            return False
        if here is not node and not _makes_masks(here):
            return False
        waiting += list(here.users)
    return True


def _tell_inputs(
    uses: Sequence[_Use], measured: dict[Any, tuple[float, float]], locate: Callable[[Node], str | None]
) -> tuple[str, ...]:
    """A note for each mask that is an input of the program: which number it should have."""
    notes = []
    for use in uses:
        if use.mask is None or not _is_input(use.mask):
            continue
        (least, _), (low, high) = measured[use.mask], measured[use.scores]
        number = math.floor(min(low, 0.0) - max(high, 0.0) - MARGIN)
        if least < min(LARGE, 2 * number):
            line = locate(use.masking)
            notes.append(
                f"the mask that is added{f' at {line}' if line else ''} is an input and as low as {least:g}, and "
                f"takes the scale of the scores, which are between {low:.3g} and {high:.3g}: give it {number} there"
            )
    return tuple(dict.fromkeys(notes))


# --- Ranges.


def _ranges(module: torch.fx.GraphModule, nodes: set[Any], calibration: Sets) -> dict[Any, tuple[float, float]]:
    """The least and the largest finite number that each node gives for sets of inputs."""
    import torch

    found: dict[Any, tuple[float, float]] = dict.fromkeys(nodes, (math.inf, -math.inf))

    class Watching(torch.fx.Interpreter):
        def run_node(self, node: Node) -> Any:
            result = super().run_node(node)
            if node in nodes and isinstance(result, torch.Tensor):
                finite = result[torch.isfinite(result)]
                if finite.numel():
                    low, high = found[node]
                    found[node] = min(low, float(finite.min())), max(high, float(finite.max()))
            return result

    changes = any(writes(node.target) for node in module.graph.nodes)
    watching = Watching(copy.deepcopy(module) if changes else module, graph=module.graph)
    with torch.no_grad():
        for inputs in calibration:
            watching.run(*(tensor.clone() for tensor in inputs))
    return {node: (low, high) if low <= high else (0.0, 0.0) for node, (low, high) in found.items()}
