"""Outputs in another order than PyTorch's.

Two outputs of equal shape and type may be swapped while a model is lowered. The program then computes exactly what it
says, and PyTorch's answers are there, in another order. After many layers the distance from PyTorch has no useful
bound, so the order is judged by chance.

Let d be PyTorch's answers in the other order minus those in the model's order, and e what the program's answers differ
from the latter. If the program is right, e is made of roundings, which know nothing of d. The other order fits better
where e lies close to d: the distance of e from d, relative to the length of e, is the square root of

    r = (energy of the difference in the other order) / (energy of the difference in the model's order).

A vector of n independent components whose direction is random lies so close to a given direction with a probability of
at most r**((n - 1) / 2), the part of a sphere's surface in a cap of that width. As n only the number of different
values of d, in steps, is counted, since equal components may have an error in common. One step for each element is
added to the energy above the line: answers are multiples of a step, and may agree by rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

CHANCE = 1e-9
"""An order is called wrong if chance explains it with a probability below this."""
_STEPS_OF_8_BITS = 255


def permutation(
    wanted: Sequence[np.ndarray], found: Sequence[np.ndarray], steps: Sequence[float]
) -> tuple[int, ...] | None:
    """Return the order in which the program's outputs are PyTorch's, or None if it is the model's or uncertain.

    Args:
        wanted: PyTorch's answer.
        found: the program's, of as many outputs.
        steps: of each output, the difference between neighbouring values; 0 where it is not known.

    Returns:
        For each of the program's outputs the index of PyTorch's.
    """
    groups: dict[tuple[object, ...], list[int]] = {}
    for index, (one, other) in enumerate(zip(wanted, found, strict=True)):
        if one.shape == other.shape and one.size > 1 and other.dtype.kind in "fi":
            groups.setdefault((one.shape, other.dtype.str), []).append(index)
    order = list(range(len(found)))
    for members in groups.values():
        for at, nearest in zip(members, _nearest(members, wanted, found), strict=True):
            order[at] = nearest
    moved = [at for at, other in enumerate(order) if at != other]
    if not moved or sorted(order) != list(range(len(order))):
        return None
    return tuple(order) if _by_chance(wanted, found, steps, order, moved) < CHANCE else None


def _nearest(members: Sequence[int], wanted: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> list[int]:
    """Return for each member of a group the output of PyTorch's that is nearest; its own if several are."""
    nearest = []
    for at in members:
        energies = {other: _energy(wanted[other], found[at]) for other in members}
        best = min(energies.values())
        nearest.append(at if energies[at] == best else min(energies, key=lambda other: energies[other]))
    return nearest


def _by_chance(
    wanted: Sequence[np.ndarray],
    found: Sequence[np.ndarray],
    steps: Sequence[float],
    order: Sequence[int],
    moved: Sequence[int],
) -> float:
    """Return the largest probability that the other order fits so well by chance."""
    above = below = 0.0
    different = 0
    for at in moved:
        one, other = _numbers(wanted[at]), _numbers(wanted[order[at]])
        step = steps[at] or float(np.ptp(one)) / _STEPS_OF_8_BITS or 1.0
        above += _energy(wanted[order[at]], found[at]) + one.size * step**2
        below += _energy(wanted[at], found[at])
        different = max(different, len(np.unique(np.rint((other - one) / step))))
    if not math.isfinite(above) or not below or above >= below:
        return 1.0
    return float((above / below) ** ((different - 1) / 2))


def _energy(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.sum((_numbers(one) - _numbers(other)) ** 2))


def _numbers(array: np.ndarray) -> np.ndarray:
    """Return finite numbers: NaNs and infinities, which are compared elsewhere, count as 0."""
    return np.nan_to_num(array.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
