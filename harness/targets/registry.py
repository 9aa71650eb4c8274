"""Targets by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ethos_hil.lowering.errors import UsageError

if TYPE_CHECKING:
    from ethos_hil.harness.targets.base import Target
    from ethos_hil.harness.virtual.pool import BoardPool
    from ethos_hil.lowering.npu_name import NpuName

FVPS = ("corstone-300", "corstone-320")
TARGETS = ("virtual", *FVPS)


def make_target(
    name: str, npu: NpuName, *, strict: bool = False, fast: bool = False, pool: BoardPool | None = None
) -> Target:
    """The target called `name`, with `npu` in it.

    Args:
        name: one of TARGETS.
        npu: what it must have.
        strict: fail on hazards in command streams; only the virtual board sees them.
        fast: leave out the NPU's timing; only FVPs have such a mode.
        pool: where boards wait between runs; only the virtual board can (Capability.STAYS_UP).

    Raises:
        UsageError: there is no such target, or it cannot do what is asked; says which can.
        TargetNotAvailable: its simulator is missing.
    """
    if name == "virtual":
        from ethos_hil.harness.targets.virtual import VirtualTarget
        from ethos_hil.harness.virtual.qemu import find_qemu

        if fast:
            raise UsageError("--fast is for FVPs; the virtual board has one speed", hint="leave out --fast")
        find_qemu()  # now, not after a minute of lowering
        return VirtualTarget(str(npu), strict=strict, pool=pool)
    if name in FVPS:
        from ethos_hil.harness.targets.fvp import FvpTarget

        if strict:
            raise UsageError(
                "--strict needs to see into the NPU, which an FVP does not allow", hint="use --target virtual"
            )
        return FvpTarget(name, npu, fast=fast)
    raise UsageError(f"no target is called {name!r}", hint=f"targets: {', '.join(TARGETS)}")
