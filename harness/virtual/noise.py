"""The random bytes that memories hold when a strict board gets power."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator

_BYTES = 1 << 20


def noise(seed: int, address: int, size: int) -> Iterator[tuple[int, memoryview]]:
    """Yield what memory holds at `size` bytes from `address` on: pieces with their addresses.

    A byte depends on the seed and its address only. The seed is made from the image, so a run that fails fails again.
    """
    doubled = _doubled()
    while size > 0:
        begin = (address + seed) % _BYTES
        length = min(size, _BYTES)
        yield address, doubled[begin : begin + length]
        address += length
        size -= length


@functools.cache
def _doubled() -> memoryview:
    """Return random bytes, twice in a row."""
    return memoryview(random.Random(0).randbytes(_BYTES) * 2)
