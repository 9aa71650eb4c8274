"""Four sensors, six checks of each: the worst score says how each sensor is."""

import torch
from torch import nn


class Monitor(nn.Module):
    def __init__(self):
        super().__init__()
        self.checks = nn.Linear(16, 6)

    def forward(self, sensors):
        scores = torch.sigmoid(self.checks(sensors))
        return scores.amin(dim=-1)


def monitor():
    torch.manual_seed(0)
    return Monitor(), (torch.rand(1, 4, 16),)
