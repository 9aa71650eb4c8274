"""The memory mode, which decides where Vela puts a program's constants, arena and cache. Names are those of
Arm/vela.ini, Vela 5.1.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import ClassVar

from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import FAMILIES, EthosU

_FLAG = "--memory-mode="
# Vela's limit of the cache in each mode, bytes; only the NPU's addresses limit the other modes.
_CACHES = {"Dedicated_Sram_256KB": 256 << 10, "Dedicated_Sram_384KB": 384 << 10, "Dedicated_Sram_512KB": 512 << 10}
_DEDICATED = "Dedicated_Sram"
_ABLE = " or -".join(family.name.upper() for family in FAMILIES if family.arena_anywhere)
_ONE_OF_EACH_KIND = ("Shared_Sram", "Sram_Only", "Dedicated_Sram_384KB")


@dataclass(frozen=True)
class MemoryMode:
    """A memory mode by Vela's name.

    `Shared_Sram`: the arena is in SRAM, constants are read from flash or DRAM. `Sram_Only`: both are in SRAM.
    `Dedicated_Sram`, with or without a limit in its name: arena and constants are in DRAM, and only the NPU uses a fast
    scratch in SRAM (region 2 of the command stream).
    """

    name: str
    placement: str | None = None
    """The kind of a mode that is not one of Arm's."""
    limit: int | None = None
    """A limit of the cache that is not the mode's own, bytes."""

    VALID: ClassVar[tuple[str, ...]] = ("Shared_Sram", "Sram_Only", _DEDICATED, *_CACHES)

    @classmethod
    def parse(cls, text: str) -> MemoryMode:
        """Return the mode called `text`, in any case. Raises UsageError, which lists the modes."""
        wanted = text.strip().lower()
        for name in cls.VALID:
            if name.lower() == wanted:
                return cls(name)
        close = difflib.get_close_matches(wanted, [name.lower() for name in cls.VALID], n=1)
        suggestion = f"did you mean {cls.parse(close[0])}? " if close else ""
        raise UsageError(f"{text!r} is not a memory mode of Vela", hint=f"{suggestion}valid: {', '.join(cls.VALID)}")

    @classmethod
    def default(cls, npu: EthosU) -> MemoryMode:
        """Return ExecuTorch's default mode for `npu`."""
        return cls(npu.family.memory_mode)

    @classmethod
    def chosen(cls, name: str | None, npu: EthosU) -> MemoryMode:
        """Return the mode called `name`, or the default. Raises UsageError when `npu` does not support it."""
        if name is None:
            return cls.default(npu)
        mode = cls.parse(name)
        mode._check(npu)
        return mode

    @classmethod
    def one_of_each_kind(cls, npu: EthosU) -> tuple[MemoryMode, ...]:
        """Return a mode of each kind that `npu` supports, the default first."""
        default = cls.default(npu)
        others = (cls(name) for name in _ONE_OF_EACH_KIND)
        return default, *(mode for mode in others if mode != default and mode.usable_on(npu))

    @classmethod
    def of_flags(cls, flags: Sequence[str]) -> MemoryMode | None:
        """Return the mode in Vela's `flags`, or None when they name no known mode."""
        for flag in reversed(flags):
            if flag.startswith(_FLAG):
                name = flag.removeprefix(_FLAG)
                return cls(name) if name in cls.VALID else None
        return None

    @classmethod
    def declared(cls, name: str, placement: str, limit: int | None, npu: EthosU) -> MemoryMode:
        """Return a mode of a user's configuration file.

        Args:
            name: its name there.
            placement: "Shared_Sram", "Sram_Only" or "Dedicated_Sram".
            limit: the limit of the cache, bytes.
            npu: the NPU.

        Raises:
            UsageError: the NPU cannot work in it.
        """
        own = cls(name)
        known = name in cls.VALID and own.kind == placement
        mode = cls(name, None if known else placement, limit if limit != own.cache_limit else None)
        mode._check(npu)
        return mode

    def with_limit(self, limit: int | None) -> MemoryMode:
        """Return the mode with another limit of its cache, in bytes; None for no change."""
        return self if limit is None else replace(self, limit=limit)

    def _check(self, npu: EthosU) -> None:
        if not self.usable_on(npu):
            raise UsageError(
                f"the memory mode {self} is not for {npu}: Vela knows no {npu.family.title} that can write to DRAM",
                hint=f"use --memory-mode Shared_Sram or Sram_Only, or an Ethos-{_ABLE}",
            )

    def usable_on(self, npu: EthosU) -> bool:
        """Whether `npu` can work in the mode."""
        return npu.family.arena_anywhere or not self.dedicated

    @property
    def dedicated(self) -> bool:
        """Whether a program may use a fast scratch."""
        return self.kind == _DEDICATED

    @property
    def kind(self) -> str:
        """The mode without a limit: "Shared_Sram", "Sram_Only" or "Dedicated_Sram"."""
        if self.placement is not None:
            return self.placement
        return _DEDICATED if self.name.startswith(_DEDICATED) else self.name

    @property
    def cache_limit(self) -> int | None:
        """Vela's limit for the fast scratch, bytes, or None where there is no limit."""
        return _CACHES.get(self.name) if self.limit is None else self.limit

    def __str__(self) -> str:
        return self.name
