"""The NPU's read buffers: how many bytes of each kind it has asked for and not yet had.

A memory that answers after a latency delivers a buffer's size in that time at most, whatever its bandwidth. Sizes of
Ethos-U85 are those of regor (ethos_u85.cpp, `channelRBs`, words of 16 bytes), whose estimator takes USED of them as
what a buffer sustains; here that holds for weights alone, and a copy uses COPIED of its buffer, since it writes from it
at the same time. Those of Ethos-U65 are fitted to published runs of an FVP, as COPIED and those of Ethos-U55 are;
suites/lab/published says how well they agree. Each of two U65 cores has buffers of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from ethos_hil.harness.npu.isa.configuration import Configuration, Generation

USED = 0.8
COPIED = 0.55
_WORD = 16
_CHANNELS = ("dma", "stream", "weights", "ifm", "scales")
_U85: Mapping[int, tuple[int, ...]] = {
    128: (64, 64, 128, 104, 16),
    256: (104, 104, 128, 128, 16),
    512: (128, 128, 256, 128, 16),
    1024: (256, 256, 416, 256, 16),
    2048: (256, 256, 512, 256, 16),
}
"""Words for copies, for inputs that are read once, weights, windows of an IFM and scales, by MACs."""
_U65: Mapping[str, float] = MappingProxyType(
    {"dma": 2048.0, "stream": 1024.0, "ifm": 1024.0, "weights": 1536.0 * USED, "scales": 256.0}
)
# Weights and scales come in single bursts: with one under way, rnnoise's time for its flash follows the latency as
# published (harness/npu/timing/port_clock.py).
_U55: Mapping[str, float] = MappingProxyType({"dma": 256.0, "weights": 128.0, "scales": 128.0})


def sustained(configuration: Configuration, purpose: str) -> float:
    """Return the bytes under way for one purpose ("ifm", "stream", "weights", "scales", "dma"); inf where no limit is
    known, as for what is written.
    """
    if configuration.generation is Generation.U55:
        return _U55.get(purpose, math.inf)
    if configuration.generation is Generation.U65:
        cores = configuration.cores if purpose in ("weights", "scales") else 1
        return _U65.get(purpose, math.inf) * cores
    if purpose not in _CHANNELS:
        return math.inf
    share = {"weights": USED, "dma": COPIED}.get(purpose, 1.0)
    return _U85[configuration.macs][_CHANNELS.index(purpose)] * _WORD * share
