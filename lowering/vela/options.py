"""What a user asks of Vela beyond ExecuTorch's defaults, checked before anything is lowered. The memory mode decides
where Vela puts a program's constants, arena and cache; names are those of Arm/vela.ini, Vela 5.1.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import FAMILIES, EthosU
from ethos_hil.base.question import CompileOptions
from ethos_hil.lowering.vela.ini import SHIPPED, SystemConfiguration, VelaIni

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


# Arguments that are made from other options, or that change what Vela writes so that no one here could read it.
_OURS: Mapping[str, str] = {
    "--accelerator-config": "use --npu",
    "--system-config": "use --system-config of ethos-hil",
    "--memory-mode": "use --memory-mode of ethos-hil",
    "--config": "use --vela-ini",
    "--optimise": "use --optimise of ethos-hil",
    "--arena-cache-size": "use --arena-cache-size of ethos-hil",
    "--output-dir": "ethos-hil lower --artifacts DIR keeps Vela's output",
    "--output-format": "ExecuTorch takes the raw format only",
    "--enable-debug-db": "it is always on",
    "--verbose-performance": "it is always on",
    "--cop-format": "ExecuTorch's driver takes COP1 only",
    "--separate-io-regions": "ExecuTorch's driver has no such regions",
    "--debug-force-legacy-core": "the legacy compiler reads no TOSA",
}
_QUESTIONS = (
    "-h", "--help", "--version", "--api-version", "--supported-ops-report", "--list-config-files", "--list-configs",
)  # fmt: skip

_NOTHING = "--list-config-files"
"""An argument with which Vela compiles nothing."""
_ASK_SECONDS = 60


@dataclass(frozen=True)
class VelaSetup:
    """What Vela is asked for one NPU, all checked.

    Attributes:
        npu: the NPU.
        mode: the memory mode.
        system: the system configuration.
        ini: the configuration file that both are from.
        extra: Vela's further arguments.
    """

    npu: EthosU
    mode: MemoryMode
    system: SystemConfiguration
    ini: VelaIni
    extra: tuple[str, ...] = ()

    @property
    def flags(self) -> tuple[str, ...]:
        """Vela's arguments in ExecuTorch's order (EthosUCompileSpec)."""
        return (
            *self.extra,
            f"--accelerator-config={self.npu}",
            f"--config={self.ini.name}",
            "--output-format=raw",
            f"--system-config={self.system.name}",
            f"--memory-mode={self.mode}",
        )

    @classmethod
    def default(cls, npu: EthosU, mode: MemoryMode | None = None) -> VelaSetup:
        """Return ExecuTorch's defaults for an NPU, with a memory mode of Arm's file."""
        ini = VelaIni.shipped()
        return cls(npu, mode or MemoryMode.default(npu), ini.system(npu.family.system.name, npu), ini)

    @classmethod
    def asked(cls, options: CompileOptions) -> VelaSetup | None:
        """Return what Vela is asked; None where nothing is, so that no compiled program contradicts it.

        Raises:
            UsageError: as `of`.
        """
        return cls.of(options) if options.asks_vela else None

    @classmethod
    def of(cls, options: CompileOptions) -> VelaSetup:
        """Return what Vela is asked, with ExecuTorch's defaults for the rest.

        Raises:
            UsageError: any of it is unknown, impossible or inconsistent.
        """
        npu = options.npu_name
        extra = [
            *((f"--optimise={options.optimise}",) if options.optimise is not None else ()),
            *((f"--arena-cache-size={options.arena_cache_size}",) if options.arena_cache_size is not None else ()),
            *options.vela_flags,
        ]
        _check(options.vela_flags)
        system_config = options.system_config or npu.family.system.name
        if options.vela_ini is None:
            mode = MemoryMode.chosen(options.memory_mode, npu)
            ini = VelaIni.shipped()
            system = ini.system(system_config, npu)
            ini.mode(mode.name, system)
        else:
            ini = VelaIni.read(options.vela_ini)
            system = ini.system(system_config, npu)
            section = ini.mode(options.memory_mode or MemoryMode.default(npu).name, system)
            mode = MemoryMode.declared(section.name, section.placement, section.arena_cache_size, npu)
        return cls(npu, mode.with_limit(options.arena_cache_size), system, ini, tuple(extra))

    @property
    def key(self) -> tuple[str, ...]:
        """What of it decides a program, beside the NPU's and the mode's names; empty for the defaults."""
        parts = list(self.extra)
        if self.system.name != self.npu.family.system.name or self.user_ini:
            parts.append(f"system {self.system.name}")
        if self.user_ini:
            parts.append(f"ini {self.ini.name} {hashlib.sha256(self.ini.text.encode()).hexdigest()}")
        return tuple(parts)

    @property
    def told(self) -> tuple[str, ...]:
        """The same for people: what is not the default."""
        ini = (f"--vela-ini {self.ini.name}",) if self.user_ini else ()
        other = self.user_ini or self.system.name != self.npu.family.system.name
        return (*((f"--system-config {self.system.name}",) if other else ()), *ini, *self.extra)

    @property
    def user_ini(self) -> bool:
        """Whether the configuration file is the user's."""
        return self.ini.name != SHIPPED


def _check(flags: tuple[str, ...]) -> None:
    """Raise UsageError for an argument that cannot be passed on to Vela, or that Vela does not know."""
    for flag in flags:
        name = flag.partition("=")[0]
        if not name.startswith("-") or any(char.isspace() for char in flag):
            raise UsageError(
                f"--vela-flag {flag!r} is not an argument of Vela",
                hint="give one argument of Vela, as in --vela-flag=--tensor-allocator=Greedy",
            )
        # argparse takes any start of a name that fits no other.
        for known in (*_OURS, *_QUESTIONS):
            if name == known or (len(name) > 2 and known.startswith(name)):
                if known in _QUESTIONS:
                    raise UsageError(f"--vela-flag {flag} compiles nothing", hint=f"call vela {known} itself")
                raise UsageError(f"--vela-flag {flag} is not for users of ethos-hil", hint=_OURS[known])
    if flags:
        _ask_vela(flags)


@functools.cache
def _ask_vela(flags: tuple[str, ...]) -> None:
    """Have Vela read the arguments, which takes most of a second, and do nothing."""
    command = [sys.executable, "-m", "ethosu.vela", *flags, _NOTHING]
    asked = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_ASK_SECONDS)
    if asked.returncode:
        message = (asked.stderr.strip() or asked.stdout.strip() or f"status {asked.returncode}").splitlines()[-1]
        raise UsageError(
            f"Vela does not take {' '.join(flags)}: {message.removeprefix('vela: error: ')}", hint="see vela --help"
        )
