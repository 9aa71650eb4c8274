"""Vela's known defects: programs that it compiles into something else, while it reports success."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.npu_name import Family
from ethos_hil.lowering.vela import VelaOutput

ALL: tuple[Family, ...] = ("u55", "u65", "u85")
WITHOUT_U85: tuple[Family, ...] = ("u55", "u65")
VERSIONS = ("5.1.0",)
"""The versions of Vela in which these defects were seen."""
# Returns the operators of a block that meet a defect. If the defect can be repaired, it edits the block so that they no
# longer do.
Treatment = Callable[[DraftBlock, Family], list[DraftOperator]]


@dataclass(frozen=True)
class VelaDefect:
    """A defect of Vela.

    Attributes:
        id: its name, which is that of its page in docs/defects.
        effect: what Vela does, as a sentence without its subject: "drops ...".
        families: the NPUs for which Vela has it.
        remedy: what a user can do where it is not repaired.
        treat: finds the operators that meet it, and repairs them if it can.
        repaired: whether `treat` repairs it.
        seen: tells whether a compiled program shows it; None where the TOSA program decides.
    """

    id: str
    effect: str
    families: tuple[Family, ...]
    remedy: str
    treat: Treatment
    repaired: bool = True
    seen: Callable[[VelaOutput], bool] | None = None


@dataclass(frozen=True)
class DefectFinding:
    """One place at which a program meets a defect.

    Attributes:
        defect: what is wrong.
        region: the region of upstream's TOSA program.
        op: the TOSA operator's name.
        index: its number among the region's operators.
    """

    defect: VelaDefect
    region: str
    op: str
    index: int
