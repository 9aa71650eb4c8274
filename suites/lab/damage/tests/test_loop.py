"""The loop of all that is damaged: a finding keeps the steps that show it, and the report says how to see it again."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

from ethos_hil.base.testing.recorded import Recorded, plain
from ethos_hil.suites.lab.damage.loop import CRASHED, DamageEnding, damage, smallest


@dataclass(frozen=True)
class Numbers:
    """Every seventh number is wrong, and so is one that ends its process."""

    title = "Counting"
    command = "numbers --seed 1"
    seconds = 20.0
    outcomes = ("even", "odd", CRASHED)

    def kin(self, number: int) -> int:
        return number // 10

    def prepare(self, number: int) -> Callable[[int], DamageEnding]:
        block = self.kin(number)

        def examine(number: int) -> DamageEnding:
            assert self.kin(number) == block
            if number == 13:
                raise KeyError(number)
            finding = "" if number % 7 else f"{number} is wrong at 0x1f"
            return DamageEnding(number, f"case {number}", "all", ("even", "odd")[number % 2], finding=finding)

        return examine

    def lost(self, number: int, reason: str) -> DamageEnding:
        return DamageEnding(number, f"case {number}", "all", CRASHED, finding=reason.partition(" (")[0])


def test_every_number_has_its_ending_whatever_becomes_of_the_others(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], recorded: Recorded
) -> None:
    file = tmp_path / "endings.json"
    with pytest.raises(typer.Exit) as ended:
        damage(Numbers(), count=25, first=5, only=None, jobs=2, json_file=file)
    assert ended.value.exit_code == 1
    assert [ending["number"] for ending in json.loads(file.read_text())["endings"]] == list(range(5, 30))
    recorded.check(plain(capfd.readouterr().out), "printed")
    recorded.check(json.loads(file.read_text())["endings"][7:9], "written")


def test_a_finding_keeps_the_fewest_steps_that_show_it() -> None:
    def examine(kept: Collection[int]) -> DamageEnding:
        finding = f"{len(kept)} steps" if {1, 3} <= set(kept) else "something else" if 3 in kept else ""
        return DamageEnding(0, str(sorted(kept)), "", "", finding=finding)

    assert smallest(5, examine)[1].case == "[1, 3]"
    assert smallest(1, examine)[1] == DamageEnding(0, "[0]", "", "")
