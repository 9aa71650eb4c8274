"""A model of one convolution, and some that are not models, as a user's file."""

MODEL = """
import torch

class Net(torch.nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.conv = torch.nn.Conv2d(2, channels, 3)

    def forward(self, x):
        return torch.relu(self.conv(x))

class Untraceable(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x

def net():
    torch.manual_seed(0)
    return Net(), (torch.randn(1, 2, 8, 8),)

def untraceable():
    return Untraceable(), (torch.randn(1, 4),)

def nothing():
    return None

def not_a_module():
    return 7, (torch.zeros(1),)

def wrong_inputs():
    return Net(), (torch.randn(1, 3, 8, 8),)

def broken():
    raise RuntimeError("the weights file is missing")
"""
