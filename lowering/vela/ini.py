"""Vela's configuration file: the memories around an NPU, and which of them holds what.

The keys and their meaning are those of `architecture_features.py` of ethos-u-vela 5.1. Vela takes what it needs and
has a default for the rest, so that a misspelt key changes the numbers in silence. Here every number must be there, but
for those that came late to the format: files of vendors lack them, and Vela's default is taken and told.
"""

from __future__ import annotations

import configparser
import difflib
import math
from collections.abc import Mapping
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Literal

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.files import read_bytes
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.options import MOST_ARENA

SHIPPED = "Arm/vela.ini"
"""The name by which Vela knows the file in its wheel."""
Placement = Literal["Sram_Only", "Shared_Sram", "Dedicated_Sram"]
"""Where constants and arena are: both in the fast memory, only the arena, or none of them."""

_SYSTEM = "System_Config."
_MODE = "Memory_Mode."
_MEMORIES = ("Sram", "Dram", "OnChipFlash", "OffChipFlash")
_NUMBERS = ("burst_length", "read_latency", "write_latency", "max_reads", "max_writes")
_LATE: Mapping[str, int] = {"max_reads": 1, "max_writes": 1}
"""Vela's defaults (ethosu/regor/regor.cpp in the source distribution of 5.1.0). It reads both for an Ethos-U85 only."""
_SYSTEM_KEYS = ("clock_scale", "ports_used", *_NUMBERS)
_AREAS = ("const_mem_area", "arena_mem_area", "cache_mem_area")
# The memory areas of constants, arena and cache, by AXI port.
_PLACEMENTS: Mapping[tuple[str, str, str], Placement] = {
    ("Axi0", "Axi0", "Axi0"): "Sram_Only",
    ("Axi1", "Axi0", "Axi0"): "Shared_Sram",
    ("Axi1", "Axi1", "Axi0"): "Dedicated_Sram",
}
_KNOWN = {
    *(f"{memory}_{key}".lower() for memory in _MEMORIES for key in _SYSTEM_KEYS),
    *("core_clock", "axi0_port", "axi1_port", "inherit", "arena_cache_size", *_AREAS),
}
_MOST_TEXT = 1 << 20


@dataclass(frozen=True)
class MemoryArea:
    """A memory behind an AXI port.

    Attributes:
        name: "Sram", "Dram", "OnChipFlash" or "OffChipFlash".
        clock_scale: its bandwidth as a share of the port's, which is one beat in each cycle of the NPU.
        burst_length: most bytes of a transaction.
        read_latency, write_latency: cycles of the NPU.
        max_reads, max_writes: transactions under way at most.
        ports_used: AXI ports that lead to it; above 1 where `Family.several_ports`.
        assumed: those of its keys that the file does not have.
    """

    name: str
    clock_scale: float
    burst_length: int
    read_latency: int
    write_latency: int
    max_reads: int
    max_writes: int
    ports_used: int = 1
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True)
class SystemConfiguration:
    """A section System_Config: the NPU's clock, in Hz, and the memories behind its ports 0 and 1."""

    name: str
    core_clock: float
    axi0: MemoryArea
    axi1: MemoryArea

    @property
    def assumed(self) -> tuple[str, ...]:
        """The keys that Vela's file does not have, and for which Vela's defaults are taken."""
        return (*self.axi0.assumed, *self.axi1.assumed)


@dataclass(frozen=True)
class ModeSection:
    """A section Memory_Mode: where a program's parts are, and the limit of the arena or its cache in bytes, if any."""

    name: str
    placement: Placement
    arena_cache_size: int | None


@dataclass(frozen=True)
class VelaIni:
    """A configuration file.

    Attributes:
        name: as Vela is told it: a path, or SHIPPED.
        text: what is in it.
    """

    name: str
    text: str

    @classmethod
    @cache
    def shipped(cls) -> VelaIni:
        """Return the file that is in Vela's wheel."""
        try:
            text = (files("ethosu.config_files") / SHIPPED).read_text("utf-8")
        except (ModuleNotFoundError, OSError) as error:
            raise ToolError("Vela's Arm/vela.ini is not installed", hint="pip install ethos-u-vela") from error
        return cls(SHIPPED, text)

    @classmethod
    def read(cls, path: Path) -> VelaIni:
        """Read a user's file.

        Raises:
            UsageError: it cannot be read, is not a configuration file, or has a blank in its path.
        """
        if any(char.isspace() for char in str(path)):
            raise UsageError(
                f"--vela-ini {path}: ExecuTorch separates Vela's arguments by blanks", hint="give a path without them"
            )
        try:
            text = read_bytes(path, most=_MOST_TEXT).decode()
        except OSError as error:
            raise UsageError(f"--vela-ini {path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"--vela-ini {path} is not text: byte {error.start} is not UTF-8") from error
        ini = cls(str(path), text)
        ini._parser  # noqa: B018 - what is wrong with the whole file is told now
        return ini

    @property
    def systems(self) -> list[str]:
        """The names of its system configurations."""
        return self._names(_SYSTEM)

    def system(self, name: str, npu: EthosU) -> SystemConfiguration:
        """Return a system configuration.

        Raises:
            UsageError: there is none of that name, it lacks a number or has an impossible one, or it is one of Arm's
                for another family of NPUs.
        """
        section = self._section(_SYSTEM, name, "--system-config")
        if self.name == SHIPPED and not name.startswith(npu.family.system_prefix):
            mine = [name for name in self._names(_SYSTEM) if name.startswith(npu.family.system_prefix)]
            raise UsageError(
                f"--system-config {name} is a system with another NPU than {npu}", hint=f"use {' or '.join(mine)}"
            )
        clock = self._number(section, "core_clock", least=1)
        areas = [self._area(section, f"axi{port}_port", npu) for port in (0, 1)]
        return SystemConfiguration(name, clock, areas[0], areas[1])

    def mode(self, name: str, system: SystemConfiguration) -> ModeSection:
        """Return a memory mode.

        Raises:
            UsageError: there is none of that name, it places a program's parts where our firmware cannot, or where the
                system has no memory for them.
        """
        section = self._section(_MODE, name, "--memory-mode")
        areas = tuple(self._value(section, key) for key in _AREAS)
        placement = next((kind for known, kind in _PLACEMENTS.items() if known == areas), None)
        if placement is None:
            known = "; ".join(f"{kind} has {', '.join(places)}" for places, kind in _PLACEMENTS.items())
            raise self._wrong(section, f"{', '.join(_AREAS)} are {', '.join(areas)}", f"of the possible ones {known}")
        # The rules of Vela, which says less when it refuses.
        if system.axi0.name != "Sram":
            raise self._wrong(
                f"{_SYSTEM}{system.name}", f"axi0_port is {system.axi0.name}", f"with {name} it has to be Sram"
            )
        allowed = {"Shared_Sram": ("Dram", "OnChipFlash", "OffChipFlash"), "Dedicated_Sram": ("Dram",)}.get(placement)
        if allowed is not None and system.axi1.name not in allowed:
            holds = "the arena, which is written," if placement == "Dedicated_Sram" else "the constants"
            raise self._wrong(
                section, f"{holds} would be in {system.axi1.name} of {system.name}", f"possible: {', '.join(allowed)}"
            )
        if self._find(section, "arena_cache_size") is None:
            return ModeSection(name, placement, None)
        limit = self._number(section, "arena_cache_size", whole=True, most=MOST_ARENA)
        return ModeSection(name, placement, int(limit))

    @cached_property
    def _parser(self) -> configparser.ConfigParser:
        parser = configparser.ConfigParser()  # as Vela reads it
        try:
            parser.read_string(self.text)
        except configparser.Error as error:
            line = getattr(error, "lineno", None)
            where = f" line {line}" if line else ""
            what = {
                configparser.MissingSectionHeaderError: "a line before the first [section]",
                configparser.DuplicateSectionError: f"[{getattr(error, 'section', '')}] is there twice",
                configparser.DuplicateOptionError: f"{getattr(error, 'option', '')} is there twice",
            }.get(type(error), "it is not a configuration file")
            raise UsageError(f"{self.name}{where}: {what}", hint="see Arm/vela.ini in ethos-u-vela") from error
        return parser

    def _names(self, kind: str) -> list[str]:
        return [name.removeprefix(kind) for name in self._parser.sections() if name.startswith(kind)]

    def _section(self, kind: str, name: str, option: str) -> str:
        names = self._names(kind)
        if name not in names:
            close = difflib.get_close_matches(name, names, n=1)
            hint = (f"did you mean {close[0]}? " if close else "") + f"it has: {', '.join(names) or 'none'}"
            raise UsageError(f"{option} {name}: {self.name} has no section [{kind}{name}]", hint=hint)
        return kind + name

    def _find(self, section: str, key: str) -> str | None:
        """Return the value of a key in a section, or in one that it inherits from."""
        parser, seen, at = self._parser, [section], section
        while True:
            if parser.has_option(at, key):
                return self._get(parser, at, key)
            if not parser.has_option(at, "inherit"):
                return None
            at = self._get(parser, at, "inherit")
            if at in seen or not parser.has_section(at):
                what = "itself" if at in seen else f"[{at}], which is not there"
                raise self._wrong(seen[-1], f"it inherits from {what}", "name another section")
            seen.append(at)

    def _get(self, parser: configparser.ConfigParser, section: str, key: str) -> str:
        try:
            return parser.get(section, key)
        except configparser.InterpolationError as error:
            raise self._wrong(section, f"{key} has a % that stands for nothing", "write %%") from error

    def _lacks(self, section: str, key: str) -> bool:
        """Return whether a key is in no section that counts, under no name that looks like a misspelt one."""
        return self._find(section, key) is None and not self._misspelt(section, key)

    def _misspelt(self, section: str, key: str) -> str | None:
        """Return an unknown key that looks like another one."""
        unknown = [option for option in self._parser.options(section) if option not in _KNOWN]
        return next(iter(difflib.get_close_matches(key.lower(), unknown, n=1, cutoff=0.8)), None)  # read in lower case

    def _value(self, section: str, key: str) -> str:
        value = self._find(section, key)
        if value is None:
            close = self._misspelt(section, key)
            raise self._wrong(section, f"{key} is missing", f"is {close} it?" if close else f"add {key}=...")
        return value

    def _number(
        self, section: str, key: str, *, least: float = 0, most: float = math.inf, whole: bool = False
    ) -> float:
        text = self._value(section, key)
        try:
            number = int(text) if whole else float(text)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and least <= number <= most):
            limits = f"from {least:g}" + (f" to {most:g}" if math.isfinite(most) else "")
            raise self._wrong(section, f"{key} is {text!r}", f"a {'whole ' if whole else ''}number {limits} is wanted")
        return number

    def _area(self, section: str, key: str, npu: EthosU) -> MemoryArea:
        memory = self._value(section, key)
        if memory not in _MEMORIES:
            raise self._wrong(section, f"{key} is {memory!r}", f"known memories: {', '.join(_MEMORIES)}")
        scale = self._number(section, f"{memory}_clock_scale")
        if not scale:
            raise self._wrong(section, f"{memory}_clock_scale is 0", "nothing could be read then")
        late = {name: number for name, number in _LATE.items() if self._lacks(section, f"{memory}_{name}")}
        numbers = {
            name: late[name] if name in late else int(self._number(section, f"{memory}_{name}", whole=True))
            for name in _NUMBERS
        }
        for number in ("burst_length", "max_reads"):
            if not numbers[number]:
                raise self._wrong(section, f"{memory}_{number} is 0", "nothing could be read then")
        ports = 1
        if npu.family.several_ports and self._find(section, f"{memory}_ports_used") is not None:
            ports = int(self._number(section, f"{memory}_ports_used", least=1, most=4, whole=True))
        return MemoryArea(
            memory, scale, **numbers, ports_used=ports, assumed=tuple(f"{memory}_{name}" for name in late)
        )

    def _wrong(self, section: str, what: str, hint: str) -> UsageError:
        return UsageError(f"{self.name} [{section}]: {what}", hint=hint)
