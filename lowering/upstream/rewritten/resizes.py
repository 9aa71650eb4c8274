"""Resizes to the nearest element that upstream leaves to the CPU, as slices and concatenations.

An Ethos-U55 or U65 enlarges one image at a time, by 2, 4 or 8 in both directions (executorch 1.5.1,
backends/arm/operator_support/ethos_u55_support.py); nothing else is delegated there, and nowhere one of vectors or
volumes, or one of the kind `nearest-exact`. Each of them only says which elements are taken, along each axis.

Of a map of 8x6x6 between two convolutions, enlarged by 3 on an Ethos-U55-128, slices take 17,808 cycles, stacks 26,352,
an expansion 31,440 (modelled). Slices are as many as the elements of an axis, so longer axes are stacked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from ethos_hil.lowering.upstream.rewritten.elements import repeated
from ethos_hil.lowering.upstream.rewritten.splice import write_out

if TYPE_CHECKING:
    import torch
    from torch import Tensor

MOST_SLICES = 64
"""Of one axis. More are stacked where every element is taken as often, and stay on the CPU otherwise."""
MOST_IMAGES = 16
"""Of a batch that is enlarged one image at a time."""


def write_resizes(module: torch.fx.GraphModule, *, u55: bool) -> tuple[str, ...]:
    """Write out the resizes of one graph that upstream leaves to the CPU.

    Args:
        module: the module of a float exported program.
        u55: whether it is lowered for an Ethos-U55 or U65.

    Returns:
        The names of the operators that were written out.
    """
    import torch

    aten = torch.ops.aten
    exact = aten._upsample_nearest_exact1d.vec
    lines = dict.fromkeys((aten.upsample_nearest1d.vec, aten.upsample_nearest3d.vec), aten.upsample_nearest1d.vec)
    lines |= dict.fromkeys((exact, aten._upsample_nearest_exact2d.vec, aten._upsample_nearest_exact3d.vec), exact)
    if u55:
        lines[aten.upsample_nearest2d.vec] = aten.upsample_nearest1d.vec
    names: dict[str, None] = {}
    for node in [node for node in module.graph.nodes if node.target in lines]:
        function = _resize(node, lines[node.target])
        if function is not None:
            names[str(node.target)] = None
            write_out(module, node, function)
    return tuple(names)


def _resize(node: torch.fx.Node, line: Any) -> Callable[..., Tensor] | None:
    """What computes a resize, or None where it stays. `line` is the operator of the same kind for vectors."""
    import torch

    images, sizes, scales = node.args[0].meta["val"].shape, node.args[1], node.args[2]  # type: ignore[union-attr]
    taken = []
    for axis, length in enumerate(images[2:]):
        places = torch.arange(float(length))[None, None]
        size = None if sizes is None else [sizes[axis]]  # type: ignore[index]
        scale = None if scales is None else [scales[axis]]  # type: ignore[index]
        taken.append([int(place) for place in line(places, size, scale)[0, 0]])
    factors = {_factor(places, length) for places, length in zip(taken, images[2:], strict=True)}
    if node.target == torch.ops.aten.upsample_nearest2d.vec and len(factors) == 1 and factors <= {2, 4, 8}:
        return _one_at_a_time(node.target, images[0]) if 1 < images[0] <= MOST_IMAGES else None
    if not all(_is_expressible(places, length) for places, length in zip(taken, images[2:], strict=True)):
        return None

    def resize(source: Tensor, *_: Any) -> Tensor:
        for axis, places in enumerate(taken, start=2):
            source = _take(source, axis, places)
        return source

    return resize


def _factor(places: Sequence[int], length: int) -> int | None:
    """How often each element of an axis is taken; None if it is not the same for all."""
    factor = len(places) // length
    return factor if [*places] == [place for place in range(length) for _ in range(factor)] else None


def _is_expressible(places: Sequence[int], length: int) -> bool:
    return len(places) <= MOST_SLICES or _factor(places, length) is not None


def _one_at_a_time(operator: Any, batch: int) -> Callable[..., Tensor]:
    import torch

    def resize(source: Tensor, *how: Any) -> Tensor:
        return torch.cat([operator(source[number : number + 1], *how) for number in range(batch)])

    return resize


def _take(source: Tensor, axis: int, places: Sequence[int]) -> Tensor:
    """The elements of an axis at these places."""
    import torch

    length = source.shape[axis]
    if [*places] == list(range(length)):
        return source
    part = torch.ops.aten.slice.Tensor
    if len(places) <= MOST_SLICES:
        runs = [(place, len([*run])) for place, run in groupby(places)]
        return torch.cat([repeated(part(source, axis, at, at + 1), axis, times) for at, times in runs], axis)
    factor = _factor(places, length)
    assert factor is not None, "it was asked before"
    return repeated(source.unsqueeze(axis + 1), axis + 1, factor).flatten(axis, axis + 1)
