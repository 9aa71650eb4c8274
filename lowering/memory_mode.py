"""The memory mode, which decides where Vela puts a program's constants, arena and cache. Names are those of
Arm/vela.ini, Vela 5.1.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ethos_hil.lowering.errors import UsageError
from ethos_hil.lowering.npu_name import Family, NpuName

_FLAG = "--memory-mode="
# EthosUCompileSpec's defaults (executorch 1.4.1, backends/arm/ethosu/compile_spec.py); a test compares them.
_DEFAULTS: dict[Family, str] = {"u55": "Shared_Sram", "u65": "Dedicated_Sram_384KB", "u85": "Sram_Only"}
# Vela's limit of the cache in each mode, bytes; only the NPU's addresses limit the other modes.
_CACHES = {"Dedicated_Sram_256KB": 256 << 10, "Dedicated_Sram_384KB": 384 << 10, "Dedicated_Sram_512KB": 512 << 10}
_DEDICATED = "Dedicated_Sram"
_ONE_OF_EACH_KIND = ("Shared_Sram", "Sram_Only", "Dedicated_Sram_384KB")


@dataclass(frozen=True)
class MemoryMode:
    """A memory mode by Vela's name.

    `Shared_Sram`: the arena is in SRAM, constants are read from flash or DRAM. `Sram_Only`: both are in SRAM.
    `Dedicated_Sram`, with or without a limit in its name: arena and constants are in DRAM, and only the NPU uses a fast
    scratch in SRAM (region 2 of the command stream).
    """

    name: str

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
    def default(cls, npu: NpuName) -> MemoryMode:
        """Return ExecuTorch's default mode for `npu`."""
        return cls(_DEFAULTS[npu.family])

    @classmethod
    def chosen(cls, name: str | None, npu: NpuName) -> MemoryMode:
        """Return the mode called `name`, or the default. Raises UsageError when `npu` does not support it."""
        if name is None:
            return cls.default(npu)
        mode = cls.parse(name)
        if not mode.usable_on(npu):
            raise UsageError(
                f"the memory mode {mode} is not for {npu}: Vela knows no Ethos-U55 that can write to DRAM",
                hint="use --memory-mode Shared_Sram or Sram_Only, or an Ethos-U65 or -U85",
            )
        return mode

    @classmethod
    def one_of_each_kind(cls, npu: NpuName) -> tuple[MemoryMode, ...]:
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

    def usable_on(self, npu: NpuName) -> bool:
        """Whether `npu` can work in the mode."""
        # All of vela.ini's systems with an Ethos-U55 have flash behind port 1, where an arena cannot be.
        return not (self.dedicated and npu.family == "u55")

    @property
    def dedicated(self) -> bool:
        """Whether a program may use a fast scratch."""
        return self.name.startswith(_DEDICATED)

    @property
    def kind(self) -> str:
        """The mode without a limit: "Shared_Sram", "Sram_Only" or "Dedicated_Sram"."""
        return _DEDICATED if self.dedicated else self.name

    @property
    def cache_limit(self) -> int | None:
        """Vela's limit for the fast scratch, bytes, or None where the mode sets no limit."""
        return _CACHES.get(self.name)

    def __str__(self) -> str:
        return self.name
