"""Targets by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.errors import TargetNotAvailable
from lowering.errors import UsageError

if TYPE_CHECKING:
    from harness.targets.base import Target
    from lowering.profile import Npu

TARGETS = ("virtual",)


def make_target(name: str, npu: Npu, *, strict: bool = False) -> Target:
    """The target called `name`, with `npu` in it; `strict` makes it fail on hazards in command streams.

    Raises:
        UsageError: there is no such target; says which there are.
        TargetNotAvailable: the target can't have that NPU, or its simulator is missing.
    """
    if name == "virtual":
        from harness.npu.configuration import CONFIGURATIONS, Generation
        from harness.targets.virtual import VirtualTarget
        from harness.virtual.qemu import find_qemu

        # A Corstone-300 as QEMU simulates it, whose driver knows the registers of an Ethos-U55.
        possible = [c.name for c in CONFIGURATIONS if c.generation is Generation.U55]
        if str(npu) not in possible:
            raise TargetNotAvailable(
                f"the virtual board cannot have an {npu}", hint=f"it can have {', '.join(possible)}"
            )
        find_qemu()  # now, not after a minute of lowering
        return VirtualTarget(str(npu), strict=strict)
    raise UsageError(f"no target is called {name!r}", hint=f"targets: {', '.join(TARGETS)}")
