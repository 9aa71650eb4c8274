"""The seed of a declaration: all its random values come from its name."""

from __future__ import annotations

import random
import zlib

import numpy as np
import torch


def seed(name: str) -> None:
    """Seed the common generators of torch, NumPy and Python, so that they give the same numbers in every session.

    Args:
        name: name of the declaration; decides the seed.
    """
    number = zlib.crc32(name.encode())
    torch.manual_seed(number)
    np.random.seed(number)
    random.seed(number)
