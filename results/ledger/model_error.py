"""How far modelled cycles of whole networks are from counted ones: the one place that has these numbers.

They are of the published runs on Arm's FVPs that nothing was fitted to, in the memories of those runs (docs/npu.md,
"Published runs"). An error is the distance of modelled / counted from 1: 2 and 1/2 are both 100 % away. Single small
operations are further off, and no silicon was compared. `python -m ethos_hil.suites.lab.published --kind network` works
the numbers out, and a test compares.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

MODELLED = "modelled"
_NPU = "ethos-"


@dataclass(frozen=True)
class ModelError:
    """The timing model's error on a family of NPUs.

    Attributes:
        family: "u55".
        runs: how many published runs it is of.
        median, worst: the middle and the largest error: 0.06 is 6 %.
        worst_of: the run with the largest one.
    """

    family: str
    runs: int
    median: float
    worst: float
    worst_of: str

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.worst:.0%} at worst, {self.median:.0%} in the median".replace("%", " %")


HELD_OUT: Mapping[str, ModelError] = MappingProxyType({
    each.family: each
    for each in (
        ModelError("u55", 9, 0.010, 0.059, "vww u55-64"),
        ModelError("u65", 5, 0.032, 0.191, "rnnoise u65-512"),
        ModelError("u85", 12, 0.047, 0.146, "w2l u85-1024"),
    )
})  # fmt: skip
"""By family."""


def model_error(npu: str, provenance: str) -> ModelError | None:
    """Return the error that cycles have because they are modelled; None where they are not, or nothing is known of it.

    Args:
        npu: name of the NPU, "ethos-u55-128".
        provenance: of the cycles.
    """
    return HELD_OUT.get(npu.removeprefix(_NPU).partition("-")[0]) if provenance == MODELLED else None
