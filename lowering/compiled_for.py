"""The system that an artifact is compiled for, by the arguments of Vela that it records."""

from __future__ import annotations

from ethos_hil.base.errors import UsageError
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.vela_ini import SHIPPED, SystemConfiguration, VelaIni

_CONFIG = "--config="
_SYSTEM = "--system-config="


def user_ini(artifact: Artifact) -> VelaIni | None:
    """Return the user's configuration file that Vela was given, or None for the one in its wheel."""
    return VelaIni(_value(artifact, _CONFIG), artifact.vela_ini) if artifact.vela_ini else None


def system_name(artifact: Artifact) -> str:
    """Return the name of the system configuration that it is compiled for; "" where the file does not state it."""
    return _value(artifact, _SYSTEM)


def system(artifact: Artifact) -> SystemConfiguration | None:
    """Return the system configuration that it is compiled for; None where only its name is known, or not even that."""
    name = system_name(artifact)
    if artifact.npu is None or not name or (not artifact.vela_ini and _value(artifact, _CONFIG) != SHIPPED):
        return None
    try:
        return (user_ini(artifact) or VelaIni.shipped()).system(name, artifact.npu)
    except UsageError:  # a .pte of another Vela's
        return None


def _value(artifact: Artifact, flag: str) -> str:
    """Return the value of the last of these flags, as Vela takes it, or ""."""
    return next((each.removeprefix(flag) for each in reversed(artifact.vela_flags) if each.startswith(flag)), "")
