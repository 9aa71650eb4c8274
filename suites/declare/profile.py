"""The profiles of a case: what it is lowered to, and so what can be tested."""

from __future__ import annotations

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.options import CPU_ALONE, CPU_FLOAT, DEFAULT_NPU
from ethos_hil.base.suffix import CPU_SUFFIX, SUFFIXES, marker_of, parse_suffix
from ethos_hil.lowering.formats.tosa_spec import TosaSpec


@dataclass(frozen=True)
class Profile:
    """A profile, named after the suffix of its tests.

    Attributes:
        name: "MI" (TOSA main inference, float), "BI" (TOSA base inference, quantised), BI compiled for an NPU, or
            "M55_BI" (BI on the CPU beside one).
        target: the target that a case is lowered to.
        cpu: what runs on the CPU, as `--cpu` has it.
    """

    name: str
    target: EthosU | TosaSpec
    cpu: str = CPU_FLOAT

    @property
    def npu(self) -> EthosU | None:
        """The NPU it compiles for, or that is beside its CPU; None where no target computes it."""
        return self.target if isinstance(self.target, EthosU) else None

    @property
    def marker(self) -> str:
        """The marker of its tests, for `-m`: "mi", "bi", "u55", "u65", "u85" or "m55"."""
        return marker_of(self.name)

    @property
    def quantised(self) -> bool:
        """Whether its programs compute in integers."""
        return isinstance(self.target, EthosU) or self.target.quantised


_TARGETS: tuple[EthosU | TosaSpec, ...] = (TosaSpec("1.0", "FP"), TosaSpec("1.0", "INT"), *EthosU.usual())
_OF_TARGETS = (Profile(name, target) for name, target in zip(SUFFIXES[:-1], _TARGETS, strict=True))
PROFILES = (*_OF_TARGETS, Profile(CPU_SUFFIX, EthosU.parse(DEFAULT_NPU), CPU_ALONE))


def parse(text: str) -> Profile:
    """Return the profile with that suffix, in any case. Raises UsageError, which lists the profiles."""
    suffix = parse_suffix(text, "--suffix")
    return next(profile for profile in PROFILES if profile.name == suffix)
