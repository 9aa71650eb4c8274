"""The DWT of a virtual processor: it counts instructions, and only when it is told to."""

from __future__ import annotations

import pytest

from ethos_hil.harness.virtual.device import Unmodelled
from ethos_hil.harness.virtual.plugin import InstructionCounter

CONTROL, COUNT = 0, 4


@pytest.fixture
def counter() -> InstructionCounter:
    return InstructionCounter()


def execute(counter: InstructionCounter, instructions: int) -> None:
    """Do what the plug-in does."""
    counter._map[:8] = (counter.executed + instructions).to_bytes(8, "little")


def test_it_stands_still_until_it_is_enabled(counter: InstructionCounter) -> None:
    execute(counter, 5)
    assert (counter.read(CONTROL), counter.read(COUNT)) == (0, 0)
    counter.write(CONTROL, 1)
    assert (counter.read(CONTROL), counter.read(COUNT)) == (1, 0)
    execute(counter, 7)
    counter.write(CONTROL, 1)
    assert counter.read(COUNT) == 7


def test_it_wraps_as_a_register_of_32_bits(counter: InstructionCounter) -> None:
    counter.write(CONTROL, 1)
    execute(counter, (1 << 32) + 3)
    assert counter.read(COUNT) == 3


def test_it_can_be_cleared_and_not_be_set(counter: InstructionCounter) -> None:
    counter.write(CONTROL, 1)
    execute(counter, 9)
    counter.write(COUNT, 0)
    assert counter.read(COUNT) == 0
    with pytest.raises(Unmodelled, match="DWT_CYCCNT"):
        counter.write(COUNT, 1)
