"""The device memory that a lowered program needs, computed from the program alone."""

from __future__ import annotations

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.harness.image.formats import FAST_MEMORY_ID, DeviceMemoryMode
from ethos_hil.harness.npu import Fault, Npu
from ethos_hil.lowering.artifact import Artifact

ALIGNMENT = 32
"""Alignment of every block of the device's memory (firmware/runtime/memory.h), bytes."""
FAST_SCRATCH_REGION = 2
"""Region of the fast scratch in a command stream (executorch 1.4.1, backends/arm/runtime/EthosUBackend.cpp: the third
base pointer).
"""

_TABLES = 16 << 10
"""Bytes of SRAM kept free for the firmware's own tables of a program, measured to be below 8 KiB."""


@dataclass(frozen=True)
class Footprint:
    """The device memory that a program needs, in bytes.

    Attributes:
        planned: the method's buffers of planned memory.
        scratch: the largest scratch area among its delegates; they share it.
        constants: command stream and weights of each delegate, which are part of the program.
        fast_scratch: the largest extent of region 2 in a command stream, 0 where none uses it.
        unknown: why the fast scratch is unknown (a command stream that cannot be decoded), or None.
    """

    planned: tuple[int, ...]
    scratch: int
    constants: tuple[int, ...]
    fast_scratch: int
    unknown: str | None = None

    @property
    def divided(self) -> tuple[int, tuple[int, ...]]:
        """The bytes of planned memory that have to be in SRAM, and the other buffers, which are in DDR if there are any
        (firmware/runtime/storage.cc).
        """
        at = FAST_MEMORY_ID - 1
        fast = self.planned[at] if at < len(self.planned) else 0
        return fast, (*self.planned[:at], *self.planned[at + 1 :]) if fast else self.planned

    @classmethod
    def of(cls, artifact: Artifact) -> Footprint:
        """Return the footprint of an artifact. Streams are decoded only where the memory mode allows a fast scratch or
        is unknown.
        """
        fast, unknown = 0, None
        mode = artifact.memory_mode
        if artifact.npu is not None and (mode is None or mode.dedicated):
            npu = Npu(artifact.npu)
            try:
                streams = (delegate.blob.command_stream for delegate in artifact.delegates)
                fast = max((npu.decode(stream).used(FAST_SCRATCH_REGION) for stream in streams), default=0)
            except Fault as fault:
                # The device may well refuse such a program; its own error message says more.
                unknown = fault.message
        blobs = [delegate.blob for delegate in artifact.delegates]
        return cls(
            planned=artifact.plan.planned_sizes,
            scratch=max((blob.scratch_size for blob in blobs), default=0),
            constants=tuple(size for blob in blobs for size in (blob.stream_size, len(blob.weights))),
            fast_scratch=fast,
            unknown=unknown,
        )


def round_up(size: int) -> int:
    """Return `size` rounded up to the device's alignment, bytes."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def memory_mode(artifact: Artifact, footprint: Footprint, sram: int | None) -> DeviceMemoryMode:
    """Return where the firmware puts the parts of a program.

    A program that does not state its mode needs a fast scratch if its streams use one; otherwise the mode that needs
    the least SRAM fits it. A program for `Sram_Only` (ExecuTorch's default for an Ethos-U85) that is too large for the
    SRAM runs like one for `Shared_Sram`: its constants stay in DDR, and the NPU reads them through the port to DDR.

    Args:
        artifact: the program.
        footprint: the program's footprint.
        sram: bytes of the device's SRAM pool, or None where unknown.
    """
    if artifact.memory_mode is None:
        return DeviceMemoryMode.DEDICATED_SRAM if footprint.fast_scratch else DeviceMemoryMode.SHARED_SRAM
    mode = DeviceMemoryMode[artifact.memory_mode.kind.upper()]
    needed = sum(map(round_up, (*footprint.constants, footprint.scratch, footprint.divided[0]))) + _TABLES
    if mode is DeviceMemoryMode.SRAM_ONLY and sram is not None and needed > sram:
        return DeviceMemoryMode.SHARED_SRAM
    return mode
