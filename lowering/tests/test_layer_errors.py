"""Layers that return several tensors: their parts are not layers, and no other value takes their place."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from ethos_hil.base.question import Question
from ethos_hil.lowering.lower import host_modules
from ethos_hil.lowering.model.torch_model import from_module


class Parts(nn.Module):
    """Halves, maxima with their places, and the best of them."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave = nn.Conv2d(3, 8, 3), nn.Linear(5, 4)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        left, right = torch.tanh(self.enter(image)).chunk(2, 1)
        best, _ = (left * right).flatten(2).max(1)
        best, places = torch.topk(best, 5, 1)
        return self.leave(best), places


def test_a_layer_of_several_tensors_does_not_take_the_place_of_one_of_them() -> None:
    torch.manual_seed(0)
    sets = [(torch.randn(1, 3, 8, 8),) for _ in range(2)]
    question = Question("net", npu="ethos-u85-256")
    layers = host_modules(from_module(Parts().eval(), sets[0], sets), "forward", question).layers
    assert layers is not None
    for inputs in sets:
        layers.add([np.asarray(tensor) for tensor in inputs])
    found = {error.aten: error for error in layers.worst_first()}
    assert {"aten.conv2d.default", "aten.tanh.default", "aten.linear.default"} <= found.keys(), found.keys()
    assert all(20 < error.so_far_db < 80 for error in found.values()), found
