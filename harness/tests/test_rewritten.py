"""A network of operators that are rewritten before it is quantised runs on the NPU alone, and is right."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

import ethos_hil


class Streaming(nn.Module):
    """A step of a language model that streams: positions, causal attention, a Conv1D, a cell, a norm, a softplus."""

    def __init__(self) -> None:
        super().__init__()
        self.places, self.cell, self.norm = nn.Embedding(8, 8), nn.GRUCell(8, 6), nn.RMSNorm(6)
        self.weights, self.bias = nn.Parameter(torch.randn(8, 8) / 3), nn.Parameter(torch.randn(8))

    def forward(self, words: Tensor, state: Tensor) -> Tensor:
        words = words + self.places(torch.arange(6))
        mixed = functional.scaled_dot_product_attention(words, words, words, is_causal=True)
        hidden = torch.addmm(self.bias, functional.mish(mixed[0]), self.weights)
        return functional.softplus(self.norm(self.cell(hidden, state)))


def test_it_is_verified_and_leaves_nothing_to_the_cpu() -> None:
    torch.manual_seed(0)
    result = ethos_hil.run(Streaming(), (torch.randn(1, 6, 8), torch.randn(6, 6)), npu="ethos-u55-128")
    result.assert_verified()
    assert {name for name in result.artifact.cpu_ops if "quantize" not in name} == set()
    notes = " ".join(result.record.notes)
    for words in ("aten.addmm.default", "aten.gru_cell.default", "constant masks", "look-up tables", "no input"):
        assert words in notes, words
