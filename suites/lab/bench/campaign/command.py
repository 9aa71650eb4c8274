"""Seeded scenarios of what may happen to a board and its users, in the loop of all that is damaged.

Each scenario makes a run on the bench board while something goes wrong, and then one with nothing wrong. Exit status: 0
nothing found, 1 findings, 2 unusable arguments.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.loadable import ResidentFirmware
from ethos_hil.suites.lab.bench.campaign.scenario import KILLED, NO_END, SEEDS_A_CAMPAIGN, VERIFIED, Scenario, draw
from ethos_hil.suites.lab.bench.campaign.trial import CampaignBench, ScenarioTrial
from ethos_hil.suites.lab.damage import loop
from ethos_hil.suites.lab.damage.loop import CRASHED, DamageEnding
from ethos_hil.suites.lab.shared import CORES, Jobs, JsonFile

_BLOCK = 10
_HANG_SECONDS = 240.0
"""For a whole scenario, after which it counts as lost."""


@dataclass(frozen=True)
class BoardCampaign:
    """Scenarios, by number. Each worker has one bench board for all of its own.

    Attributes:
        folder: an empty one, for the boards' files.
        scenarios: gives the scenario of a number.
    """

    folder: Path
    scenarios: Callable[[int], Scenario] = draw
    title = "Letting things go wrong"
    command = "campaign"
    seconds = _HANG_SECONDS
    outcomes = (VERIFIED, *map(str, FailureKind), KILLED, NO_END, CRASHED)

    def kin(self, number: int) -> int:
        """Return the block: scenarios in a row."""
        return number // _BLOCK

    def prepare(self, number: int) -> Callable[[int], DamageEnding]:
        """Start the board of this worker, which ends with it."""
        ResidentFirmware.of(self.scenarios(number).runs[0].image().elf)  # what all processes share is made once
        bench = _bench(self.folder / str(os.getpid()))
        return lambda number: ScenarioTrial(bench, self.scenarios(number)).ending()

    def lost(self, number: int, reason: str) -> DamageEnding:
        """Return the ending of a scenario that crashed or hung."""
        scenario = self.scenarios(number)
        return DamageEnding(number, str(scenario), str(scenario.troubles[0]), CRASHED, finding=reason)


@functools.cache
def _bench(folder: Path) -> CampaignBench:
    return CampaignBench(folder)


def main(
    count: Annotated[int, typer.Option("--count", "-n", min=1, max=SEEDS_A_CAMPAIGN, help="Scenarios.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Of all scenarios.")] = 1,
    first: loop.First = 0,
    only: loop.Only = None,
    jobs: Jobs = CORES,
    json_file: JsonFile = None,
) -> None:
    """Let things go wrong on the bench board; find what ends wrongly, or leaves a board that cannot be used."""
    with tempfile.TemporaryDirectory(prefix="ethos-hil-campaign-") as name:
        number = seed * SEEDS_A_CAMPAIGN + first
        loop.damage(BoardCampaign(Path(name)), count=count, first=number, only=only, jobs=jobs, json_file=json_file)
