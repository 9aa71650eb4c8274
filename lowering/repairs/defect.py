"""Vela's known defects: programs that it compiles into something else, while it reports success."""

from __future__ import annotations

from collections.abc import Callable

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.npu.ethos_u import FAMILIES
from ethos_hil.base.npu.family import Family
from ethos_hil.base.npu.u55 import U55
from ethos_hil.base.npu.u65 import U65
from ethos_hil.base.sightings import Sightings
from ethos_hil.lowering.formats.tosa_draft import DraftBlock, DraftOperator
from ethos_hil.lowering.vela.compiler import VelaOutput

WITHOUT_U85 = (U55, U65)
Treatment = Callable[[DraftBlock, Family], list[DraftOperator]]
"""Returns the operators of a block that meet a defect. One that repairs edits the block so that they no longer do."""


@dataclass(frozen=True)
class VelaDefect:
    """A defect of Vela, declared as the DEFECT of a module of its own.

    The module's docstring is the text of its page, in Markdown: what meets the defect, its cause, and the repair.

    Attributes:
        id: its name, which is that of its module, its page in docs/defects, and its reproducer.
        effect: what Vela does, as a sentence without its subject: "drops ...".
        remedy: what a user can do where it is not repaired.
        versions: the versions of Vela in which it was looked for, and those that have it.
        families: the NPUs for which Vela has it.
        repair: finds the operators that meet it, and rewrites them; None if no rewriting is known.
        refuse: finds the operators that `repair` leaves, for which no rewriting is known; None if it leaves none.
        seen: tells whether a compiled program shows it; None where the TOSA program decides.
    """

    id: str
    effect: str
    remedy: str
    versions: Sightings = Sightings(("5.1.0", "5.2.0"))
    families: tuple[Family, ...] = FAMILIES
    repair: Treatment | None = None
    refuse: Treatment | None = None
    seen: Callable[[VelaOutput], bool] | None = None

    @property
    def treatments(self) -> tuple[tuple[Treatment, bool], ...]:
        """What finds the operators that meet it, in order, each with whether it rewrites them."""
        both = ((self.repair, True), (self.refuse, False))
        return tuple((treat, repaired) for treat, repaired in both if treat is not None)


@dataclass(frozen=True)
class DefectFinding:
    """One place at which a program meets a defect.

    Attributes:
        defect: what is wrong.
        region: the region of upstream's TOSA program.
        op: the TOSA operator's name.
        index: its number among the region's operators.
        repaired: whether it was rewritten.
    """

    defect: VelaDefect
    region: str
    op: str
    index: int
    repaired: bool
