"""How long the firmware waits for one NPU job, in milliseconds of the board's own time.

That is simulated time on an FVP, which may pass slower or faster than the user's. So the limit is there to turn a stuck
NPU into an error that names its registers, and no job that works may meet it.
"""

from __future__ import annotations

import math

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.npu import Fault, Npu
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.lowering.artifact import Artifact

LEAST_MS = 10_000
_MARGIN = 10
"""Times the modelled cycles. No published total of an FVP is above twice the model's (docs/npu.md)."""
_OF_TIMEOUT = 2
"""The part of the user's limit that one job may take, so that its error comes before that limit has passed."""
_MOST_MS = (1 << 32) - 1


def npu_time_limit(artifact: Artifact, npu: str, soc: Soc, timeout: float, *, modelled: bool) -> int:
    """Return the limit in milliseconds for each job of an artifact.

    Args:
        artifact: the program.
        npu: name of the NPU's configuration.
        soc: its system on chip; the NPU has the processor's clock there.
        timeout: the user's limit for the whole run, wall seconds.
        modelled: whether to model the cycles of its jobs, which takes as long as decoding them; without, a job may take
            what LEAST_MS and `timeout` allow. The time of the virtual board needs no more.
    """
    cycles = _most_cycles(artifact, npu) if modelled else 0
    limits = (LEAST_MS, timeout * 1000 / _OF_TIMEOUT, _MARGIN * cycles * 1000 / soc.cpu_hz)
    return min(math.ceil(max(limits)), _MOST_MS)


def _most_cycles(artifact: Artifact, npu: str) -> int:
    """Return the modelled cycles of the longest job, or 0 where a command stream cannot be decoded."""
    model = Npu(EthosU.parse(npu))
    try:
        streams = [delegate.blob.command_stream for delegate in artifact.delegates]
        return max((model.decode(stream).timing().cycles for stream in streams), default=0)
    except Fault:  # the device says more about it
        return 0
