"""What memory a lowered program asks of a device, from the program alone."""

from __future__ import annotations

from dataclasses import dataclass

from ethos_hil.harness.image.formats import DeviceMemoryMode
from ethos_hil.harness.npu import Configuration, Fault, Npu
from ethos_hil.lowering.artifact import Artifact, Delegate

ALIGNMENT = 32
"""Of every piece of the device's memory (firmware/runtime/memory.h)."""
FAST_SCRATCH_REGION = 2
"""Of a command stream (executorch 1.4.1, backends/arm/runtime/EthosUBackend.cpp: the third base pointer)."""

_TABLES = 16 << 10
"""Bytes of SRAM kept free for the firmware's own tables of a program, measured to be below 8 KiB."""


@dataclass(frozen=True)
class Footprint:
    """Bytes.

    Attributes:
        planned: the method's buffers of planned memory.
        scratch: the largest scratch area of its delegates; they share one.
        constants: command stream and weights of each delegate, which lie in the program.
        fast_scratch: the largest extent of region 2 in a command stream, 0 where none uses it.
        unknown: why the fast scratch is not known, or None: a command stream that could not be decoded.
    """

    planned: tuple[int, ...]
    scratch: int
    constants: tuple[int, ...]
    fast_scratch: int
    unknown: str | None = None

    @classmethod
    def of(cls, artifact: Artifact) -> Footprint:
        """Of an artifact. Streams are decoded only where the memory mode allows a fast scratch, or is not known."""
        fast, unknown = 0, None
        mode = artifact.memory_mode
        if artifact.npu is not None and (mode is None or mode.dedicated):
            npu = Npu(Configuration.parse(artifact.npu.name))
            try:
                fast = max((_fast_scratch(npu, delegate) for delegate in artifact.delegates), default=0)
            except Fault as fault:
                # Such a program may well be refused, but by the device, with the device's words.
                unknown = fault.message
        blobs = [delegate.blob for delegate in artifact.delegates]
        return cls(
            planned=artifact.plan.planned_sizes,
            scratch=max((blob.scratch_size for blob in blobs), default=0),
            constants=tuple(size for blob in blobs for size in (blob.stream_size, len(blob.weights))),
            fast_scratch=fast,
            unknown=unknown,
        )


def rounded(size: int) -> int:
    """`size` as a piece of the device's memory takes it."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def memory_mode(artifact: Artifact, footprint: Footprint, sram: int | None) -> DeviceMemoryMode:
    """Where the firmware shall put the parts of a program.

    A program that does not say its mode needs a fast scratch if its streams use one, and is otherwise at home in the
    mode that asks least of the SRAM. One that is compiled for `Sram_Only`, as ExecuTorch does by default for an
    Ethos-U85, and is too large for that runs like one for `Shared_Sram`: its constants stay in DDR, behind the port
    they are then read through.

    Args:
        artifact: the program.
        footprint: of the program.
        sram: bytes of the device's SRAM pool, or None where that is not known.
    """
    if artifact.memory_mode is None:
        return DeviceMemoryMode.DEDICATED_SRAM if footprint.fast_scratch else DeviceMemoryMode.SHARED_SRAM
    mode = DeviceMemoryMode[artifact.memory_mode.kind.upper()]
    needed = sum(map(rounded, footprint.constants)) + rounded(footprint.scratch) + _TABLES
    if mode is DeviceMemoryMode.SRAM_ONLY and sram is not None and needed > sram:
        return DeviceMemoryMode.SHARED_SRAM
    return mode


def _fast_scratch(npu: Npu, delegate: Delegate) -> int:
    extent = npu.decode(delegate.blob.command_stream).extents.get(FAST_SCRATCH_REGION)
    return 0 if extent is None else max(extent.read_end, extent.write_end)
