"""Why the quantised answer is lost at a layer, where its numbers tell: a mask that takes the range of the numbers
beside it, numbers too small for their step, or large numbers that cancel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.lowering.upstream.layer_errors import LostLayer
from ethos_hil.lowering.user_code.user_function import Sources

if TYPE_CHECKING:
    import torch

_OUTLIER = 16.0
"""A lowest number so many times beyond the range of the others leaves these 16 of the 256 values of 8 bits at most."""
_GAP = 8.0
"""What a mask has to be below the scores: e^-8 is less than half of 1/256, the step of a softmax in 8 bits."""
_STEPS = 32.0
"""Numbers that use no more than so many of 127 steps have lost two bits to a step that cannot be smaller."""
_CANCELS = 32.0
"""Where terms are so many times as large as their sum, five bits are lost."""
_ATTENTION, _MASK = "aten.scaled_dot_product_attention.", 3
"""An attention as one operator, and the number of the argument in its signature that is the mask."""
_SUMS = ("aten.add.", "aten.sub.", "aten.rsub.", "aten.add_.", "aten.sub_.")


@dataclass(frozen=True)
class LossCause:
    """What is wrong with the numbers at a layer, and what to write, in words.

    Attributes:
        text: both, in a sentence.
        number: what a mask may have in place of what it has; None for another cause.
    """

    text: str
    number: float | None = None


def cause_of(lost: LostLayer, sources: Sources) -> LossCause | None:
    """Return why the answer is lost at a layer; None where its numbers do not tell.

    Args:
        lost: the layer.
        sources: names the lines of the model.
    """
    near = (lost.node, *lost.node.all_input_nodes, *_after(lost.node))
    cause = _attention_mask(lost, sources)
    cause = cause or next((cause for node in near if (cause := _mask_in(node, lost, sources))), None)
    if cause is not None:
        return cause
    largest = _largest(lost, lost.node)
    if largest < _STEPS * lost.step:
        return LossCause(
            f"its numbers are {largest:.3g} at most, and a step of its quantisation is {lost.step:.3g}: keep them "
            "larger there, by dividing before multiplying (x * (n / m) for x * n / m), or by a factor that is taken "
            "out at the end"
        )
    terms = max((_largest(lost, node) for node in lost.node.all_input_nodes), default=0.0)
    if str(lost.node.target).startswith(_SUMS) and terms > _CANCELS * largest:
        return LossCause(
            f"of numbers up to {terms:.3g} it leaves {largest:.3g}: what large numbers cancel to is lost in their "
            "steps; take out before what they have in common"
        )
    return None


def _after(node: torch.fx.Node) -> Iterator[torch.fx.Node]:
    """Yield what may share the quantisation of a node's output: its users, and theirs."""
    for user in node.users:
        yield user
        yield from user.users


def _largest(lost: LostLayer, node: torch.fx.Node) -> float:
    value = _numbers(lost, node)
    return float(value.abs().max()) if value is not None else 0.0


def _numbers(lost: LostLayer, node: torch.fx.Node) -> torch.Tensor | None:
    """Return the floats of a node, in float64, infinities included; None where it has none, or they are not known."""
    import torch

    value = lost.values.get(node.name)
    if not isinstance(value, torch.Tensor) or not value.is_floating_point() or not value.numel():
        return None
    value = value.double().flatten()
    return value[~value.isnan()] if not value.isnan().all() else None


def _attention_mask(lost: LostLayer, sources: Sources) -> LossCause | None:
    """Return what is said of a mask that is given to an attention, whose scores are in no node; None without one."""
    import torch

    args = lost.node.args
    if not str(lost.node.target).startswith(_ATTENTION) or len(args) <= _MASK:
        return None
    nodes = [node for node in (*args[:2], args[_MASK]) if isinstance(node, torch.fx.Node)]
    values = [lost.values[node.name].double() for node in nodes if node.name in lost.values]
    if len(values) < 3 or values[0].shape[:-2] != values[1].shape[:-2]:
        return None
    query, key, mask = values
    scale = lost.node.kwargs.get("scale") or query.shape[-1] ** -0.5
    scores = query @ key.transpose(-1, -2) * float(str(scale)) + mask
    return _of_mask(scores.flatten(), lambda lowest: (_origin(nodes[-1], lowest, lost), True), sources)


def _mask_in(node: torch.fx.Node, lost: LostLayer, sources: Sources) -> LossCause | None:
    """Return what is said of a mask that is in the numbers of a node, if there is one."""
    numbers = _numbers(lost, node)
    if numbers is None:
        return None

    def origin(lowest: float) -> tuple[torch.fx.Node, bool]:
        found = _origin(node, lowest, lost)
        return found, found is not node and str(node.target).startswith(_SUMS)

    return _of_mask(numbers, origin, sources)


def _of_mask(
    numbers: torch.Tensor, origin_of: Callable[[float], tuple[torch.fx.Node, bool]], sources: Sources
) -> LossCause | None:
    """Return what is said of a mask among numbers, if there is one.

    Args:
        numbers: in one axis.
        origin_of: for the lowest of them, the node that it comes from, and whether it was added to others there.
        sources: names the lines of the model.
    """
    lowest = float(numbers.min())
    others = numbers[numbers.isfinite() & (numbers > lowest / 2)]
    if lowest >= 0 or not len(others):
        return None
    low, top = float(others.min()), float(others.max())
    if top - low == 0 or -lowest < _OUTLIER * max(top - low, abs(low)):
        return None
    origin, added = origin_of(lowest)
    number = float(math.floor((low - top if added else low) - _GAP))
    return LossCause(
        f"{_name(origin, sources)} has {lowest:.3g}, which takes the range of the numbers beside it, {low:.3g} to "
        f"{top:.3g}: {number:g} in its place masks as well",
        number,
    )


def _origin(node: torch.fx.Node, lowest: float, lost: LostLayer) -> torch.fx.Node:
    """Return the node that such a number comes from."""
    for before in node.all_input_nodes:
        numbers = _numbers(lost, before)
        if numbers is not None and float(numbers.min()) <= lowest / 2:
            return _origin(before, lowest, lost)
    return node


def _name(node: torch.fx.Node, sources: Sources) -> str:
    if node.op == "placeholder":
        inputs = [other.name for other in node.graph.find_nodes(op="placeholder")]
        return f"input {inputs.index(node.name)} ({node.name})"
    if node.op == "get_attr":
        return f"the model's constant {node.target}"
    line = sources.line_of(node)
    return f"{node.target}{f' at {line}' if line else ''}"
