"""What is drawn: all kinds of layers, layouts, types, states and schemes, and the same network for a seed each time."""

from __future__ import annotations

import copy
from collections import Counter
from functools import cache

import torch

from ethos_hil.suites.lab.prove.random_models.layers import INTEGERS, OWN_INPUTS, STATES
from ethos_hil.suites.lab.prove.random_models.networks import EXECUTIONS, Drawn, network

SEEDS = 120
"""In which each kind occurs; the rarest does so four times in the mean of so many, and the draw is fixed."""


@cache
def drawn() -> list[Drawn]:
    return [network(seed) for seed in range(SEEDS)]


def test_each_kind_occurs() -> None:
    networks = drawn()
    layers = Counter(step.name for each in networks for step in each.steps)
    assert not {*OWN_INPUTS, *STATES, *INTEGERS} - layers.keys()
    assert {each.kind for each in networks} == {"a8w8", "a16w8", "mixed"}
    assert {len(each.int16) for each in networks} == {0, 1, 2}
    inputs = [tensor for each in networks for tensor in each.inputs]
    dtypes = {torch.float32, torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool}
    assert {tensor.dtype for tensor in inputs} == dtypes
    outputs = {tensor.dtype for each in networks for tensor in copy.deepcopy(each.module)(*each.inputs)}
    assert outputs >= {torch.float32, torch.int32, torch.int64, torch.bool}
    images = [tensor for tensor in inputs if tensor.dim() == 4 and min(tensor.shape) > 1]
    layouts = {
        "contiguous": any(tensor.is_contiguous() for tensor in images),
        "channels last": any(tensor.is_contiguous(memory_format=torch.channels_last) for tensor in images),
        "sliced": any(tensor.untyped_storage().nbytes() > tensor.nbytes for tensor in images),
        "expanded": any(0 in tensor.stride() for tensor in images),
        "an axis of size 1 with a stride of 0": any((1, 0) in zip(t.shape, t.stride(), strict=True) for t in inputs),
        "an axis of size 1": any(1 in tensor.shape[1:] for tensor in inputs),
    }
    assert all(layouts.values()), layouts


def test_a_network_depends_on_its_seed_alone() -> None:
    for first in drawn()[:20]:
        second = network(first.seed)
        assert first.recipe == second.recipe
        assert first.module.state_dict().keys() == second.module.state_dict().keys()
        pairs = zip(first.module.state_dict().values(), second.module.state_dict().values(), strict=True)
        assert all(torch.equal(one, other) for one, other in (*pairs, *zip(first.inputs, second.inputs, strict=True)))
    one, other = network(5), network(5, "a16w8")
    assert (other.scheme, other.int16) == ("a16w8", ())
    assert one.recipe.partition(": ")[2] == other.recipe.partition(": ")[2]


def test_a_network_with_state_is_called_in_turn_and_others_once() -> None:
    for each in drawn():
        module = copy.deepcopy(each.module)
        first, later = [module(*each.inputs) for _ in range(2)]
        differs = any(not torch.equal(one, other) for one, other in zip(first, later, strict=True))
        assert each.executions in (1, EXECUTIONS)
        assert each.executions == EXECUTIONS or not differs
