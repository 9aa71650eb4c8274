"""Shell completion of option values. Each tab calls it in a new process."""

from __future__ import annotations


def npus(incomplete: str) -> list[str]:
    """Return every Ethos-U configuration."""
    from ethos_hil.base.npu.ethos_u import EthosU

    return [name for name in EthosU.names() if name.startswith(incomplete)]


def targets(incomplete: str) -> list[str]:
    """Return every target."""
    from ethos_hil.harness.targets.registry import TARGETS

    return [name for name in TARGETS.names() if name.startswith(incomplete)]


def memory_modes(incomplete: str) -> list[str]:
    """Return every memory mode of Vela."""
    from ethos_hil.lowering.vela.memory_mode import MemoryMode

    return [name for name in MemoryMode.VALID if name.startswith(incomplete)]


def system_configs(incomplete: str) -> list[str]:
    """Return every system configuration of Arm's file."""
    from ethos_hil.lowering.vela.ini import VelaIni

    return [name for name in VelaIni.shipped().systems if name.startswith(incomplete)]
