"""The profiles of a case: what it is lowered to, and so what can be tested."""

from __future__ import annotations

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.suffix import SUFFIXES, marker_of, parse_suffix
from ethos_hil.lowering.formats.tosa_spec import TosaSpec


@dataclass(frozen=True)
class Profile:
    """A profile, named after the suffix of its tests.

    Attributes:
        name: "MI" (TOSA main inference, float), "BI" (TOSA base inference, quantised), or BI compiled for an NPU.
        target: the target that a case is lowered to.
    """

    name: str
    target: EthosU | TosaSpec

    @property
    def npu(self) -> EthosU | None:
        """The NPU it compiles for, or None."""
        return self.target if isinstance(self.target, EthosU) else None

    @property
    def marker(self) -> str:
        """The marker of its tests, for `-m`: "mi", "bi", "u55", "u65" or "u85"."""
        return marker_of(self.name)

    @property
    def quantised(self) -> bool:
        """Whether its programs compute in integers."""
        return isinstance(self.target, EthosU) or self.target.quantised


_TARGETS: tuple[EthosU | TosaSpec, ...] = (TosaSpec("1.0", "FP"), TosaSpec("1.0", "INT"), *EthosU.usual())
PROFILES = tuple(Profile(name, target) for name, target in zip(SUFFIXES, _TARGETS, strict=True))


def parse(text: str) -> Profile:
    """Return the profile with that suffix, in any case. Raises UsageError, which lists the profiles."""
    suffix = parse_suffix(text, "--suffix")
    return next(profile for profile in PROFILES if profile.name == suffix)
