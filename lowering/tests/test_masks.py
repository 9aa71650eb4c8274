"""Masks of attention and of maxima compute what they did, and no longer take the scale of what they mask."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.testing.function_module import keeping, module_of
from ethos_hil.lowering.upstream.export import export
from ethos_hil.lowering.upstream.graph_repairs import prepare
from ethos_hil.lowering.upstream.rewritten.masks import APPLIED, CAPPED

LENGTH = 12
LOWEST = torch.finfo(torch.float32).min
KEPT = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril()
BAND = KEPT & ~KEPT.tril(-5)
EMPTY = KEPT.clone().index_fill(0, torch.tensor([3]), False)
"""Row 3 keeps nothing."""


def drawn(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def heads(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = (drawn(2, 2, LENGTH, 8, seed=seed + part) for part in range(3))
    return query, key, value


Inputs = tuple[Tensor, ...]


def prepared(module: nn.Module, inputs: Inputs) -> tuple[torch.fx.GraphModule, tuple[str, ...]]:
    floating: torch.fx.GraphModule = export(module.eval(), inputs).module(check_guards=False)
    notes = prepare(floating, quantised=True, as_upstream=False, calibration=[inputs], locate=lambda node: "net.py:7")
    return floating, notes


def scores(query: Tensor, key: Tensor) -> Tensor:
    return query @ key.transpose(-2, -1) / math.sqrt(8)


def attention(mask: Callable[[Any, Tensor], Tensor], kept: Tensor = KEPT) -> nn.Module:
    def step(net: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return torch.softmax(mask(net, scores(query, key)), -1) @ value

    return keeping(step, kept=kept, slopes=-0.3 * torch.arange(2.0)[:, None, None] * torch.arange(float(LENGTH)))


def added(number: float, kept: Tensor = KEPT) -> nn.Module:
    def step(net: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=net.mask)

    return keeping(step, mask=torch.zeros(LENGTH, LENGTH).masked_fill(~kept, number))


def flat(net: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """As older models of Hugging Face: batch and heads in one axis."""
    masked = scores(query, key) + torch.zeros(LENGTH, LENGTH).masked_fill(~net.kept, LOWEST)
    weights = torch.softmax(masked.view(4, LENGTH, LENGTH), -1)
    return weights @ value.reshape(4, LENGTH, 8)


CONSTANT = {
    "causal": module_of(lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True)),
    "scaled": module_of(lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, None, 0.0, True, scale=0.1)),
    "grouped": module_of(
        lambda q, k, v: functional.scaled_dot_product_attention(q, k[:, :1], v[:, :1], is_causal=True, enable_gqa=True)
    ),
    "truth": keeping(lambda net, q, k, v: functional.scaled_dot_product_attention(q, k, v, net.kept), kept=BAND),
    "added -inf": added(-math.inf),
    "added lowest": added(LOWEST),
    "added -1e4": added(-1e4, BAND),
    "added -100": added(-100, BAND),
    "masked_fill": attention(lambda net, s: s.masked_fill(~net.kept, -1e9)),
    "masked_fill in place": attention(lambda net, s: s.masked_fill_(~net.kept, -math.inf)),
    "where": attention(lambda net, s: torch.where(net.kept, s, LOWEST)),
    "where other": attention(lambda net, s: torch.where(~net.kept, -1e9, s), BAND),
    "subtracted": attention(lambda net, s: s - 1e9 * (1 - net.kept.float())),
    "slopes": attention(lambda net, s: s + (net.slopes + torch.where(net.kept, 0.0, -math.inf))),
    "cast": attention(lambda net, s: (s.float() + torch.triu(torch.full((LENGTH, LENGTH), -1e9), 1)).float()),
    "flat": keeping(flat, kept=KEPT),
}


@pytest.mark.parametrize("name", CONSTANT)
def test_constant_masks_compute_the_same(name: str) -> None:
    """Rounding: a softmax of 12 numbers here and there, whose sums and quotients are each rounded, and two products."""
    module = CONSTANT[name]
    floating, notes = prepared(module, heads())
    assert APPLIED in notes
    for seed in (0, 3, 6):
        inputs = heads(seed)
        torch.testing.assert_close(floating(*inputs), module(*inputs), rtol=0, atol=64 * 2**-24 * 4)
    assert all("val" in node.meta for node in floating.graph.nodes if node.op == "call_function")
    held = {**dict(floating.named_buffers()), **dict(floating.named_parameters())}
    read = [held[node.target] for node in floating.graph.nodes if node.op == "get_attr"]
    least = min(float(tensor.detach().min()) for tensor in read if tensor.is_floating_point())
    assert least > -50, "no constant that is read has the mask's number"


@pytest.mark.parametrize(
    "module",
    [
        pytest.param(added(-math.inf, EMPTY), id="nothing kept: NaN in PyTorch"),
        pytest.param(attention(lambda net, s: s.masked_fill(~net.kept, -1e9), EMPTY), id="nothing kept: all alike"),
        pytest.param(attention(lambda net, s: s + net.slopes), id="no mask"),
        pytest.param(attention(lambda net, s: s.masked_fill(~net.kept, -4.0)), id="a number among the scores"),
    ],
)
def test_masks_that_would_compute_something_else_stay(module: nn.Module) -> None:
    floating, notes = prepared(module, heads())
    assert APPLIED not in notes
    torch.testing.assert_close(floating(*heads(3)), module(*heads(3)), equal_nan=True)


def lengths(number: float) -> Callable[..., Tensor]:
    """As Hugging Face's attention_mask: which words there are is an input."""

    def step(query: Tensor, key: Tensor, value: Tensor, there: Tensor) -> Tensor:
        mask = (1.0 - there[:, None, None].float()) * number
        first = torch.softmax(scores(query, key) + mask, -1) @ value
        return torch.softmax(scores(first, key) + mask, -1) @ value

    return step


def chosen(query: Tensor, key: Tensor, value: Tensor, there: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=there[:, None, None] > 0)


def where_zero(query: Tensor, key: Tensor, value: Tensor, there: Tensor) -> Tensor:
    mask = torch.where(there[:, None, None] > 0, 0.0, LOWEST)
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def longest(query: Tensor, key: Tensor, value: Tensor, there: Tensor) -> Tensor:
    return functional.relu(value).masked_fill(there[:, None, :, None] == 0, -1e9).amax(2)


THERE = (torch.arange(LENGTH) < torch.tensor([[7], [12]])).int()
DECIDED = {
    "multiplied": (lengths(-1e9), 2),
    "lowest": (lengths(LOWEST), 2),
    "truth": (chosen, 1),
    "where": (where_zero, 1),
    "maximum": (longest, 0),
}


@pytest.mark.parametrize("name", DECIDED)
def test_numbers_of_masks_that_inputs_decide_are_replaced(name: str) -> None:
    """What is masked weighs at most exp(-17) of the largest: 12 of them, in each of up to two attentions."""
    function, attentions = DECIDED[name]
    module = module_of(function)
    floating, notes = prepared(module, (*heads(), THERE))
    (note,) = (note for note in notes if "was replaced by" in note)
    assert "net.py:7" in note
    for seed in (0, 3):
        inputs = (*heads(seed), THERE.flip(0))
        bound = attentions * (64 * 2**-24 + 12 * math.exp(-17)) * 8
        torch.testing.assert_close(floating(*inputs), module(*inputs), rtol=0, atol=bound)


def test_a_mask_that_is_an_input_is_told_with_the_number_that_helps() -> None:
    module = module_of(lambda q, k, v, mask: torch.softmax(scores(q, k) + mask, -1) @ v)
    mask = torch.zeros(LENGTH, LENGTH).masked_fill(~KEPT, -1e9)
    _, (note,) = prepared(module, (*heads(), mask))
    assert "is an input" in note
    number = float(note.rpartition("give it ")[2].partition(" ")[0])
    assert -60 < number < -17
    assert prepared(module, (*heads(), mask.clamp(min=number)))[1] == (), "with it there is nothing to tell"


def test_a_number_that_something_else_reads_stays() -> None:
    def both(query: Tensor, key: Tensor, value: Tensor, there: Tensor) -> tuple[Tensor, Tensor]:
        mask = (1.0 - there[:, None, None].float()) * -1e9
        return torch.softmax(scores(query, key) + mask, -1) @ value, mask

    module, inputs = module_of(both), (*heads(), THERE)
    floating, notes = prepared(module, inputs)
    assert notes == ()
    torch.testing.assert_close(floating(*inputs), module(*inputs))


def test_a_constant_mask_of_a_maximum_is_a_minimum() -> None:
    late = torch.arange(LENGTH) > 8
    module = keeping(lambda net, x: functional.relu(x).masked_fill(net.late, -1e9).amax(-1), late=late)
    floating, notes = prepared(module, (drawn(2, LENGTH),))
    assert CAPPED in notes
    assert torch.equal(floating(drawn(2, LENGTH, seed=3)), module(drawn(2, LENGTH, seed=3)))


# --- Quantised.


def sqnr(artifact: Artifact) -> float:
    wanted, answer = artifact.floating[0].astype(float), artifact.quantised[0].astype(float)
    return float(10 * np.log10((wanted**2).sum() / ((wanted - answer) ** 2).sum()))


@pytest.mark.parametrize("npu", ["ethos-u55-128", "ethos-u85-256"])
def test_causal_attention_is_as_good_as_without_a_mask(npu: str, tmp_path: Path) -> None:
    """Sees red: as upstream quantises it, it has 17 dB in place of 38, and on a U55 the mask is on the CPU."""

    def lowered(causal: bool, *, as_upstream: bool = False) -> Artifact:
        module = module_of(lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=causal))
        return lower(from_module(module, heads()), EthosU.parse(npu), cache=Cache(tmp_path), as_upstream=as_upstream)

    masked, plain, theirs = lowered(True), lowered(False), lowered(True, as_upstream=True)
    assert {name for name in masked.cpu_ops if "quantize" not in name} == set()
    assert len(masked.methods[0].delegates) == 1
    assert sqnr(masked) > sqnr(plain) - 2
    assert sqnr(theirs) < sqnr(plain) - 10
    assert [APPLIED in artifact.notes for artifact in (masked, plain, theirs)] == [True, False, False]
