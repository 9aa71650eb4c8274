"""The memories behind the NPU's ports: how fast each is, and how much of it the delegates' programs take."""

from __future__ import annotations

from collections.abc import Sequence

from ethos_hil.base.inference_profile import MemoryBehind
from ethos_hil.harness.image.footprint import FAST_SCRATCH_REGION, Footprint
from ethos_hil.harness.profile.compiled import CompiledDelegate
from ethos_hil.lowering.artifact import Artifact

_CONSTANTS, _SCRATCH = 0, 1
"""Regions of a command stream, as `harness/npu/timing/memory_system.py` has them."""


def memories_behind(artifact: Artifact, delegates: Sequence[CompiledDelegate]) -> dict[str, MemoryBehind]:
    """Return the memories by Vela's name; empty where nothing is delegated.

    Args:
        artifact: the program.
        delegates: its delegates, with the memories that they are run with.
    """
    if not delegates:
        return {}
    any_of = delegates[0]
    footprint = Footprint.of(artifact)
    sizes = {_CONSTANTS: sum(footprint.constants), _SCRATCH: footprint.scratch}
    sizes[FAST_SCRATCH_REGION] = footprint.fast_scratch
    used = dict.fromkeys(any_of.memories, 0)
    for region, size in sizes.items():
        used[any_of.memory(region)] += size
    rates = dict.fromkeys(any_of.memories, 0.0)
    for name, port in zip(any_of.memories, any_of.system.ports, strict=True):
        rates[name] = max(rates[name], port.rate)  # both ports may lead to one memory
    return {name: MemoryBehind(rates[name], used[name]) for name in used}
