"""The profiles of a case: what it is lowered to, and so what can be tested."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.suggestion import did_you_mean
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.suites.declare.suffix import SUFFIXES, marker_of


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

    def with_npu(self, npu: EthosU) -> Profile:
        """Return the same profile for another configuration of its NPU."""
        assert self.npu is not None
        assert self.npu.family == npu.family
        return replace(self, target=npu)


_TARGETS: tuple[EthosU | TosaSpec, ...] = (
    TosaSpec("1.0", "FP"),
    TosaSpec("1.0", "INT"),
    *EthosU.usual(),
)
PROFILES = tuple(Profile(name, target) for name, target in zip(SUFFIXES, _TARGETS, strict=True))
_ALIASES = {"FP": "MI", "INT": "BI"}


def parse(text: str) -> Profile:
    """Return the profile with that suffix, in any case. Raises UsageError, which lists the profiles."""
    wanted = text.strip().upper()
    wanted = _ALIASES.get(wanted, wanted)
    for profile in PROFILES:
        if profile.name == wanted:
            return profile
    names = [*(profile.name for profile in PROFILES), *_ALIASES]
    suggestion = did_you_mean(wanted, names)
    raise UsageError(f"--suffix {text!r} is no profile", hint=f"{suggestion}valid: {', '.join(names)}")
