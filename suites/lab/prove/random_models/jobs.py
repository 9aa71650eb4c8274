"""Trials of random networks in worker processes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ethos_hil.suites.lab.prove.random_models.trial import NetworkEnding, NetworkTrial, trial

if TYPE_CHECKING:
    from ethos_hil.base.question import Scheme
    from ethos_hil.harness.virtual.board import BoardPool

LIMIT_SECONDS = 300.0
"""For one network on one NPU. Most take under ten seconds."""


@dataclass(frozen=True)
class NetworkJob:
    """A network, on some NPUs.

    Attributes:
        seed: the network's.
        npus: the NPUs.
        scheme: how to quantise.
    """

    seed: int
    npus: Sequence[str]
    scheme: Scheme

    @property
    def count(self) -> int:
        """One trial for each NPU."""
        return len(self.npus)

    def prepare(self) -> Callable[[int], NetworkTrial]:
        """Draw the network."""
        from ethos_hil.suites.lab.prove.random_models.networks import network

        def tried(item: int) -> NetworkTrial:
            with tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder:
                return trial(network(self.seed), self.npus[item], Path(folder), self.scheme, pool=_pool())

        return tried

    def lost(self, item: int, reason: str) -> NetworkTrial:
        """Return the end of a trial that crashed, hung or raised."""
        return NetworkTrial(self.seed, self.npus[item], NetworkEnding.BROKEN, reason)


@cache
def _pool() -> BoardPool:
    """Return the boards of this worker. They end with it."""
    from ethos_hil.harness.virtual.board import BoardPool

    return BoardPool()
