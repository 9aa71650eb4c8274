"""The TOSA specification that a model is lowered to, where TOSA is the end product."""

from __future__ import annotations

import difflib
import re
from typing import ClassVar, Literal, get_args

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError

TosaProfile = Literal["FP", "INT"]

_FORM = re.compile(r"TOSA-([\w.]+)((?:\+\w+)*)", re.IGNORECASE)


@dataclass(frozen=True)
class TosaSpec:
    """A TOSA specification in ExecuTorch's notation: `TOSA-<version>+<profile>[+<extension>...]`.

    `FP` is the profile of float programs (main inference), `INT` that of quantised ones (base inference).
    """

    version: str
    profile: TosaProfile
    extensions: tuple[str, ...] = ()

    VERSIONS: ClassVar[tuple[str, ...]] = ("1.0",)
    """The supported versions. ExecuTorch 1.5.1 writes 1.0 and 1.1; 1.0 is final, and Vela 5.1 reads it."""
    EXTENSIONS: ClassVar[dict[TosaProfile, tuple[str, ...]]] = {
        "FP": ("bf16", "fp8e4m3", "fp8e5m2", "fft", "var", "cf"),
        "INT": ("int16", "int4", "var", "cf"),
    }
    """Extensions by profile (executorch 1.5.1, backends/arm/tosa/specification.py); a test compares them."""

    def __post_init__(self) -> None:
        """Refuse a version that is not supported, however it was requested."""
        self._check(self.version, str(self))

    @classmethod
    def parse(cls, text: str) -> TosaSpec:
        """Return the specification called `text`. Raises UsageError, which names the unknown part and the known
        ones.
        """
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise cls._unusable(text, "is not a TOSA specification")
        version, rest = match[1], match[2].lstrip("+")
        cls._check(version, text)
        profiles = [name for name in get_args(TosaProfile) if name in rest.upper().split("+")]
        if len(profiles) != 1:
            raise cls._unusable(text, "names no profile" if not profiles else "names more than one profile")
        (profile,) = profiles
        wanted = tuple(word.lower() for word in rest.split("+") if word.upper() != profile)
        for word in wanted:
            if word not in cls.EXTENSIONS[profile]:
                close = difflib.get_close_matches(word, cls.EXTENSIONS[profile], n=1)
                known = ", ".join(cls.EXTENSIONS[profile])
                hint = f"{f'did you mean {close[0]}? ' if close else ''}extensions of {profile}: {known}"
                raise UsageError(f"{text!r}: TOSA-{version}+{profile} has no extension {word!r}", hint=hint)
        return cls(version, profile, wanted)

    @classmethod
    def _check(cls, version: str, text: str) -> None:
        if version not in cls.VERSIONS:
            raise cls._unusable(text, f"asks for TOSA {version}, which is not supported")

    @classmethod
    def _unusable(cls, text: str, what: str) -> UsageError:
        valid = ", ".join(f"TOSA-{version}+{profile}" for version in cls.VERSIONS for profile in get_args(TosaProfile))
        return UsageError(f"{text!r} {what}", hint=f"valid: {valid}, with extensions as in TOSA-1.0+INT+int16")

    @property
    def quantised(self) -> bool:
        """Whether its programs compute in integers."""
        return self.profile == "INT"

    def __str__(self) -> str:
        return "+".join((f"TOSA-{self.version}", self.profile, *self.extensions))
