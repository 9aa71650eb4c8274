"""The suffixes of profiles, which are the ends of tests' names."""

from __future__ import annotations

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import FAMILIES
from ethos_hil.base.plain_text import did_you_mean

HOST_SUFFIXES = ("MI", "BI")
"""TOSA main inference and TOSA base inference: no target computes them."""
NPU_SUFFIXES = tuple(family.suffix for family in FAMILIES)
"""Base inference compiled for an NPU."""
CPU_SUFFIX = "M55_BI"
"""Base inference on a Cortex-M55 alone, with ExecuTorch's Cortex-M backend: of operators that say what it calls."""
SUFFIXES = (*HOST_SUFFIXES, *NPU_SUFFIXES, CPU_SUFFIX)
_ALIASES = {"FP": "MI", "INT": "BI"}


def marker_of(suffix: str) -> str:
    """Return the marker of a profile's tests, for `-m`: "mi", "bi", "u55", "u65", "u85" or "m55"."""
    return suffix.removesuffix("_BI").lower()


def parse_suffix(text: str, asked: str) -> str:
    """Return the suffix that a text is, in any case.

    Args:
        text: the text.
        asked: what asks for it, for the message: "--suffix".

    Raises:
        UsageError: it is not a suffix; lists the suffixes.
    """
    wanted = text.strip().upper()
    wanted = _ALIASES.get(wanted, wanted)
    if wanted not in SUFFIXES:
        names = (*SUFFIXES, *_ALIASES)
        raise UsageError(
            f"{asked} {text!r} is not a profile", hint=f"{did_you_mean(wanted, names)}valid: {', '.join(names)}"
        )
    return wanted
