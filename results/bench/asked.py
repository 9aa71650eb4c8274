"""The budgets that a run folder's benchmark was asked about, so that its report answers them too.

They are in the `bench.json` of the folder, under `which`: the text of each, and the energies that came with it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ethos_hil.base.files import write_whole
from ethos_hil.base.regular_file import read_text
from ethos_hil.results.bench.budget import Budget
from ethos_hil.results.bench.energy import EnergyTable

STATE = "bench.json"
_WHICH = "which"


@dataclass(frozen=True)
class AskedBudget:
    """A budget, with the energies that its points are judged by; None where the user gave no table."""

    budget: Budget
    energy: EnergyTable | None = None


def keep_budget(folder: Path, asked: AskedBudget) -> None:
    """Add a budget to those of a run folder that has a benchmark.

    Raises:
        OSError: its file cannot be read or written.
        ValueError: its file is damaged.
    """
    data = _read(folder)
    entry = {"budget": str(asked.budget), "energy": None if asked.energy is None else asked.energy.to_json()}
    before = data.get(_WHICH, [])
    if entry not in before:
        write_whole(folder / STATE, json.dumps({**data, _WHICH: [*before, entry]}, indent=2) + "\n")


def budgets_of(folder: Path) -> tuple[AskedBudget, ...]:
    """Return the budgets that a run folder's benchmark was asked about; none where it has no benchmark.

    Raises:
        OSError: its file cannot be read.
        ValueError: its file is damaged.
    """
    if not (folder / STATE).exists():
        return ()
    try:
        return tuple(_parsed(entry, folder) for entry in _read(folder).get(_WHICH, []))
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"{folder / STATE} is damaged: its budgets cannot be read: {error!r:.100}") from error


def _parsed(entry: dict[str, Any], folder: Path) -> AskedBudget:
    energy = entry["energy"]
    table = None if energy is None else EnergyTable.from_json(energy, str(folder / STATE))
    try:
        return AskedBudget(Budget.parse(entry["budget"]), table)
    except ValueError as error:
        raise ValueError(f"{folder / STATE} is damaged: {error}") from error


def _read(folder: Path) -> dict[str, Any]:
    try:
        data = json.loads(read_text(folder / STATE))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{folder / STATE} is damaged: {error!s:.200}") from error
    if not isinstance(data, dict) or not isinstance(data.get(_WHICH, []), list):
        raise ValueError(f"{folder / STATE} is damaged: its budgets are not a list")
    return data
