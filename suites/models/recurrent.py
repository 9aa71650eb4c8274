"""An LSTM that labels every step of a sequence, seeded, not trained.

Hochreiter and Schmidhuber, "Long Short-Term Memory" (1997), as torch.nn implements it.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ethos_hil.lowering.model import Method
from ethos_hil.suites.models.seeded import seed

SHAPE = (1, 8, 20)
"""Eight steps of twenty features: few, because each step has its own operators and takes seconds to lower."""
_HIDDEN, _LABELS = 32, 8
_REMEMBERING = 2.0
"""Bias of the forget gates: it keeps the effect of a step visible several steps later."""


class Lstm(nn.Module):
    """float32 [N, 8, 20] -> a score for each label at each step, [N, 8, 8]."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(SHAPE[2], _HIDDEN, batch_first=True)
        self.head = nn.Linear(_HIDDEN, _LABELS)

    def forward(self, steps: Tensor) -> Tensor:
        """Return the scores."""
        states, _ = self.lstm(steps)
        return self.head(states)


def lstm() -> Method:
    """Return the model for `ethos-hil run`."""
    model = Lstm()
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, weights in model.lstm.named_parameters():
            if name.startswith("weight"):
                weights.normal_(0, weights.shape[1] ** -0.5, generator=random)
            else:
                weights.zero_()
        # Rows of torch's weights: input, forget, cell and output gate.
        dict(model.lstm.named_parameters())["bias_ih_l0"][_HIDDEN : 2 * _HIDDEN] = _REMEMBERING
    return seed(model, *SHAPE)
