"""What a target may be able to do, and what each ability obliges it to.

`harness/targets/contract.py` tests every obligation.
"""

from __future__ import annotations

import enum


class Capability(enum.Enum):
    """Something that some targets can do and others cannot."""

    NPU_CYCLES = "npu-cycles"
    """The target counts the NPU's cycles.

    With it: `DelegateRun.cycles` of every call is above 0 and has the provenance that the target states; a runner that
    logs a count has it in `Run.counted`. Without it: `cycles` is 0 and `counted` is None; `Target.run` sees to that.
    """
    OP_EVENTS = "op-events"
    """The target sees every operation inside the NPU.

    With it: `DelegateRun.op_events` lists every NPU operation and DMA of the call, in the order of the command stream,
    and their cycles sum to the call's cycles. It needs NPU_CYCLES. Without it: `op_events` is empty; `Target.run` sees
    to that.
    """
    SEMIHOSTING = "semihosting"
    """The target runs programs that talk by semihosting.

    With it: `boot` serves the files of a folder, a command line of `MAX_COMMAND_LINE` characters, the console and the
    end of the program. Without it: `boot` raises TargetNotAvailable.
    """
    STAYS_UP = "stays-up"
    """The target need not start anew for every run.

    With it: given a pool, the target keeps what takes long to start. Each run still finds memories, processor and
    devices as after a start, whatever the last run did. After a failed run nothing is kept. The plug-in honours
    TargetOption.POOL.
    """
