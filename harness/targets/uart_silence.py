"""What may be wrong where a board runs and not one byte comes from its UART."""

from __future__ import annotations

from ethos_hil.harness.socs.soc import Soc


def silence(soc: Soc, parameter: str | None = None) -> str:
    """Return what may be wrong, for a hint.

    Args:
        soc: the system on chip, whose UART the firmware writes to.
        parameter: of an FVP, the instance whose output is read.
    """
    places = " or ".join(f"0x{uart.base:08x}" for uart in soc.uarts)
    read = f"; what is read is {parameter}, which may be another one" if parameter else ""
    return f"not one byte came: the firmware writes to the UART at {places}{read}"
