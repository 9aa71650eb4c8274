"""Random numbers that are drawn while a model is loaded, from a generator that nobody seeded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Draws:
    """What a watch saw.

    Attributes:
        unseeded: whether torch's common generator gave numbers, and was not seeded meanwhile.
    """

    unseeded: bool = False


@contextmanager
def watched_draws() -> Iterator[Draws]:
    """Watch torch's common generator. Nothing of it changes.

    torch seeds it with a number of the system's when the process starts (torch 2.13, c10/core/GeneratorImpl.cpp), so
    what it gives differs in each process. `torch.manual_seed` changes its initial seed.
    """
    import torch

    seed, state = torch.initial_seed(), torch.get_rng_state()
    draws = Draws()
    yield draws
    draws.unseeded = torch.initial_seed() == seed and not torch.equal(torch.get_rng_state(), state)
