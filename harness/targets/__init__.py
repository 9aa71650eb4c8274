"""Targets by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lowering.errors import UsageError

if TYPE_CHECKING:
    from harness.targets.base import Target
    from lowering.profile import Npu

TARGETS = ("virtual",)


def make_target(name: str, npu: Npu, *, strict: bool = False) -> Target:
    """The target called `name`, with `npu` in it; `strict` makes it fail on hazards in command streams.

    Raises:
        UsageError: there is no such target; says which there are.
        TargetNotAvailable: its simulator is missing.
    """
    if name == "virtual":
        from harness.targets.virtual import VirtualTarget
        from harness.virtual.qemu import find_qemu

        find_qemu()  # now, not after a minute of lowering
        return VirtualTarget(str(npu), strict=strict)
    raise UsageError(f"no target is called {name!r}", hint=f"targets: {', '.join(TARGETS)}")
