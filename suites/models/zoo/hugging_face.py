"""Networks of the package `transformers`, of small configurations and with random weights: nothing is downloaded."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

_DEVIATION = 0.2
"""Of the weights. With the 0.02 of most configurations, a small network's scores are all 0: a softmax of them is as
good as a mean, and a check of it proves little."""


class NamedAnswers(nn.Module):
    """A network that is given its inputs by position, and returns some of what it computes."""

    def __init__(self, network: nn.Module, names: Sequence[str], answers: Sequence[str]) -> None:
        super().__init__()
        self.network, self.names, self.answers = network, tuple(names), tuple(answers)

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        computed = self.network(**dict(zip(self.names, inputs, strict=True)))
        return tuple(computed[name] for name in self.answers)


def build(builder: str, names: Sequence[str], answers: Sequence[str], options: Mapping[str, Any]) -> nn.Module:
    """Return the network `builder`, a class of `transformers`, of the configuration that `options` describe.

    Args:
        builder: the class, after "transformers.".
        names: the keywords of its inputs.
        answers: the names of the outputs that it shall return.
        options: of its configuration.
    """
    module, _, name = f"transformers.{builder}".rpartition(".")
    kind = getattr(importlib.import_module(module), name)
    network: nn.Module = kind(kind.config_class(**options))
    for parameter in network.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=_DEVIATION)
    return NamedAnswers(network, names, answers)
