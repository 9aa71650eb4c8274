"""Vela as upstream calls it, in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ethos_hil.lowering.conditions.progress import VELA, tell
from ethos_hil.lowering.native.worker import ToolRaised
from ethos_hil.lowering.vela.compiler import call_vela


class VelaElsewhere:
    """What upstream takes for Vela's module. It has the one function that upstream calls."""

    def main(self, arguments: Sequence[str]) -> int:
        """Call Vela's command line.

        Raises:
            RuntimeError: Vela's back end refuses the program.
            ToolRaised: Vela raises another exception.
            VelaCrash: Vela's process ends.
        """
        tell(VELA)
        try:
            return int(call_vela(arguments).header["status"])
        except ToolRaised as error:
            if error.name == "RuntimeError":
                raise RuntimeError(" ".join(error.text.split())) from None  # the reason is in its second line
            raise


def vela_elsewhere(_: Any) -> VelaElsewhere:
    """Return what takes the place of Vela's module."""
    return VelaElsewhere()
