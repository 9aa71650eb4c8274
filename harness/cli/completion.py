"""What the shell completes: values of options that are one of a few. Called in a process of its own for each tab."""

from __future__ import annotations


def npus(incomplete: str) -> list[str]:
    """Every Ethos-U configuration."""
    from ethos_hil.lowering.npu_name import NpuName

    return [name for name in NpuName.VALID if name.startswith(incomplete)]


def targets(incomplete: str) -> list[str]:
    """Every target."""
    from ethos_hil.harness.targets.registry import TARGETS

    return [name for name in TARGETS.names() if name.startswith(incomplete)]


def memory_modes(incomplete: str) -> list[str]:
    """Every memory mode of Vela's."""
    from ethos_hil.lowering.memory_mode import MemoryMode

    return [name for name in MemoryMode.VALID if name.startswith(incomplete)]
