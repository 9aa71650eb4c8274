"""What a user asks of Vela beyond ExecuTorch's defaults, checked before anything is lowered."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu_name import NpuName
from ethos_hil.lowering.vela.ini import MOST_CACHE, SHIPPED, SYSTEMS, SystemConfiguration, VelaIni
from ethos_hil.lowering.vela.memory_mode import MemoryMode

Optimise = Literal["Performance", "Size"]
OPTIMISE: tuple[Optimise, ...] = get_args(Optimise)

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

    npu: NpuName
    mode: MemoryMode
    system: SystemConfiguration
    ini: VelaIni
    extra: tuple[str, ...] = ()

    @classmethod
    def default(cls, npu: NpuName, mode: MemoryMode | None = None) -> VelaSetup:
        """Return ExecuTorch's defaults for an NPU, with a memory mode of Arm's file."""
        ini = VelaIni.shipped()
        return cls(npu, mode or MemoryMode.default(npu), ini.system(SYSTEMS[npu.family], npu), ini)

    @property
    def key(self) -> tuple[str, ...]:
        """What of it decides a program, beside the NPU's and the mode's names; empty for the defaults."""
        parts = list(self.extra)
        if self.system.name != SYSTEMS[self.npu.family] or self.user_ini:
            parts.append(f"system {self.system.name}")
        if self.user_ini:
            parts.append(f"ini {self.ini.name} {hashlib.sha256(self.ini.text.encode()).hexdigest()}")
        return tuple(parts)

    @property
    def told(self) -> tuple[str, ...]:
        """The same for people: what is not the default."""
        ini = (f"--vela-ini {self.ini.name}",) if self.user_ini else ()
        other = self.user_ini or self.system.name != SYSTEMS[self.npu.family]
        return (*((f"--system-config {self.system.name}",) if other else ()), *ini, *self.extra)

    @property
    def user_ini(self) -> bool:
        """Whether the configuration file is the user's."""
        return self.ini.name != SHIPPED


@dataclass(frozen=True)
class VelaOptions:
    """What a user asks of Vela; the defaults are ExecuTorch's.

    Attributes:
        system_config: name of a system configuration, such as "Ethos_U55_Deep_Embedded": clock and memories, which
            decide Vela's schedule and the modelled cycles.
        ini: a configuration file in place of Arm/vela.ini, for system configurations and memory modes of one's own.
        optimise: "Performance" (Vela's default) or "Size", the least memory.
        arena_cache_size: bytes that the arena, or its cache in SRAM, may take.
        flags: further arguments of Vela, each as one string: "--disable-cascading".
    """

    system_config: str | None = None
    ini: Path | None = None
    optimise: str | None = None
    arena_cache_size: int | None = None
    flags: tuple[str, ...] = ()

    @property
    def given(self) -> tuple[str, ...]:
        """The command line's names of what is not the default."""
        named = {
            "--system-config": self.system_config,
            "--vela-ini": self.ini,
            "--optimise": self.optimise,
            "--arena-cache-size": self.arena_cache_size,
            "--vela-flag": self.flags or None,
        }
        return tuple(name for name, value in named.items() if value is not None)

    def setup(self, npu: NpuName, memory_mode: str | None) -> VelaSetup:
        """Return what Vela is asked for an NPU.

        Args:
            npu: the NPU.
            memory_mode: name of a memory mode in the configuration file; None for ExecuTorch's default.

        Raises:
            UsageError: any of it is unknown, impossible or inconsistent.
        """
        extra = []
        if self.optimise is not None:
            if self.optimise not in OPTIMISE:
                raise UsageError(f"--optimise {self.optimise!r} is unknown", hint=f"valid: {', '.join(OPTIMISE)}")
            extra.append(f"--optimise={self.optimise}")
        if self.arena_cache_size is not None:
            if not 0 <= self.arena_cache_size <= MOST_CACHE:
                raise UsageError(
                    f"--arena-cache-size is {self.arena_cache_size}", hint=f"give 0 to {MOST_CACHE:,} bytes"
                )
            if self.optimise == "Size":
                raise UsageError(
                    "--arena-cache-size says nothing with --optimise Size",
                    hint="Vela then uses as little memory as it can; leave out one of them",
                )
            extra.append(f"--arena-cache-size={self.arena_cache_size}")
        _check(self.flags)
        extra += self.flags
        if self.ini is None:
            mode = MemoryMode.chosen(memory_mode, npu)
            ini = VelaIni.shipped()
            system = ini.system(self.system_config or SYSTEMS[npu.family], npu)
            ini.mode(mode.name, system)
        else:
            ini = VelaIni.read(self.ini)
            system = ini.system(self.system_config or SYSTEMS[npu.family], npu)
            section = ini.mode(memory_mode or MemoryMode.default(npu).name, system)
            mode = MemoryMode.declared(section.name, section.placement, section.arena_cache_size, npu)
        return VelaSetup(npu, mode.limited(self.arena_cache_size), system, ini, tuple(extra))


NOTHING_ASKED = VelaOptions()
"""ExecuTorch's defaults."""


def _check(flags: Sequence[str]) -> None:
    """Raise UsageError for an argument that cannot be passed on to Vela, or that Vela does not know."""
    for flag in flags:
        name = flag.partition("=")[0]
        if not name.startswith("-") or any(each.isspace() for each in flag):
            raise UsageError(
                f"--vela-flag {flag!r} is none",
                hint="give one argument of Vela, as in --vela-flag=--tensor-allocator=Greedy",
            )
        # argparse takes any beginning of a name that fits no other.
        for known in (*_OURS, *_QUESTIONS):
            if name == known or (len(name) > 2 and known.startswith(name)):
                if known in _QUESTIONS:
                    raise UsageError(f"--vela-flag {flag} compiles nothing", hint=f"call vela {known} itself")
                raise UsageError(f"--vela-flag {flag} is not for users of ethos-hil", hint=_OURS[known])
    if flags:
        _ask_vela(flags)


def _ask_vela(flags: Sequence[str]) -> None:
    """Have Vela read the arguments, which takes most of a second, and do nothing."""
    command = [sys.executable, "-m", "ethosu.vela", *flags, _NOTHING]
    asked = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_ASK_SECONDS)
    if asked.returncode:
        said = (asked.stderr.strip() or asked.stdout.strip() or f"status {asked.returncode}").splitlines()[-1]
        raise UsageError(
            f"Vela does not take {' '.join(flags)}: {said.removeprefix('vela: error: ')}", hint="see vela --help"
        )
