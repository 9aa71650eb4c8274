"""What a user asks of Vela beyond ExecuTorch's defaults, checked before anything is lowered."""

from __future__ import annotations

import functools
import hashlib
import subprocess
import sys
from collections.abc import Mapping

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.options import CompileOptions
from ethos_hil.lowering.vela.ini import SHIPPED, SystemConfiguration, VelaIni
from ethos_hil.lowering.vela.memory_mode import MemoryMode

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
    def notes(self) -> tuple[str, ...]:
        """A sentence where numbers are assumed that the user's file does not have."""
        keys = self.system.assumed
        if not keys:
            return ()
        return (
            f"{self.ini.name} [System_Config.{self.system.name}] lacks {', '.join(keys)}: Vela takes 1 for each, and "
            "so do the modelled cycles, in which a transaction waits for the one before; add what your memories take",
        )

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
