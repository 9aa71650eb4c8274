"""What an inference would take in energy, by a table that the user gives. Nothing here is measured.

schema_version = 1
of = "our board, its data sheet"     # where the numbers come from
per_mac = 1.1e-12                    # joules for a product
idle_watt = 0.004                    # while the NPU works, whatever it does

[per_byte]                           # joules for a byte that is moved, by Vela's name of the memory
Sram = 0.9e-12
OffChipFlash = 45e-12
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ethos_hil.base.checked_toml import read_toml
from ethos_hil.base.errors import UsageError

PROVENANCE = "assumed"
_MEMORIES = ("Sram", "Dram", "OnChipFlash", "OffChipFlash")
_SEE = "docs/latency.md explains such files"
_KNOWN = ("schema_version", "of", "per_mac", "idle_watt", "per_byte")


@dataclass(frozen=True)
class EnergyTable:
    """A user's assumptions.

    Attributes:
        of: where the numbers come from.
        per_mac: joules for a product.
        per_byte: joules for a byte that goes over a port, by memory.
        idle_watt: power while the NPU works, on top of products and bytes.
    """

    of: str
    per_mac: float
    per_byte: Mapping[str, float] = field(default_factory=dict)
    idle_watt: float = 0.0

    def joules(self, macs: int | None, moved: Mapping[str, int], seconds: float | None) -> float | None:
        """Return the energy of an inference; None where something is not known, or a memory is not in the table.

        Args:
            macs: products of it.
            moved: bytes by memory, both directions.
            seconds: of it at the stated clock.
        """
        if macs is None or (self.idle_watt and seconds is None):
            return None
        if any(size and name not in self.per_byte for name, size in moved.items()):
            return None
        bytes_moved = sum(size * self.per_byte.get(name, 0.0) for name, size in moved.items())
        return macs * self.per_mac + bytes_moved + self.idle_watt * (seconds or 0.0)

    @classmethod
    def from_json(cls, data: Mapping[str, Any], path: str) -> EnergyTable:
        """Return the table that a file has.

        Args:
            data: its content.
            path: the file, for messages.

        Raises:
            UsageError: it is not an energy table.
        """
        unknown = sorted(set(data) - set(_KNOWN))
        if unknown:
            raise _refusal(path, f"{unknown[0]!r:.50} is unknown; it takes: {', '.join(_KNOWN)}")
        if data.get("schema_version") != 1:
            raise _refusal(path, f"schema_version is {data.get('schema_version')!r:.50}; this program reads 1")
        source = data.get("of")
        if not isinstance(source, str) or not source.strip():
            raise _refusal(path, "`of` has to say where the numbers come from")
        table = data.get("per_byte", {})
        if not isinstance(table, dict):
            raise _refusal(path, "per_byte is not a table")
        wrong = sorted(set(table) - set(_MEMORIES))
        if wrong:
            raise _refusal(path, f"per_byte.{wrong[0]:.50} is not a memory; it takes: {', '.join(_MEMORIES)}")
        return cls(
            source,
            _number(path, "per_mac", data.get("per_mac")),
            {name: _number(path, f"per_byte.{name}", value) for name, value in table.items()},
            _number(path, "idle_watt", data.get("idle_watt", 0.0)),
        )

    def to_json(self) -> dict[str, Any]:
        """Return it as `from_json` takes it."""
        return {"schema_version": 1, **asdict(self), "per_byte": dict(self.per_byte)}


def read_energy(path: Path) -> EnergyTable:
    """Read a table.

    Raises:
        UsageError: the file cannot be read, or is not an energy table.
    """
    return EnergyTable.from_json(read_toml(path, _SEE)[1], str(path))


def _refusal(path: str, what: str) -> UsageError:
    return UsageError(f"{path}: {what}", hint=_SEE)


def _number(path: str, name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise _refusal(path, f"{name} is {value!r:.50}; give a number that is not negative")
    return float(value)
