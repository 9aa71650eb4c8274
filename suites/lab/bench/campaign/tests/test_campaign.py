"""A sample of the campaign with every trouble, and the proof that it sees what it looks for."""

from __future__ import annotations

import dataclasses
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.errors import TargetError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.lease import lease_file, set_aside
from ethos_hil.harness.boards.target import BoardTarget
from ethos_hil.harness.link.outcome import Outcome, Run
from ethos_hil.harness.targets.base import Target
from ethos_hil.suites.lab.bench.campaign.command import BoardCampaign
from ethos_hil.suites.lab.bench.campaign.programs import INPUT_SETS, NAMES, CampaignRun, answers
from ethos_hil.suites.lab.bench.campaign.scenario import KILLED, VERIFIED, Human, Moment, Scenario
from ethos_hil.suites.lab.damage import loop

MILD = ["drop", "repeat", "corrupt", "insert"]


def scenario(number: int, *faults: str, human: Human | None = None, **others: Any) -> Scenario:
    """A scenario with the smallest runs."""
    runs = tuple(CampaignRun("add", (4 * number % 60 + place,)) for place in range(4))
    settings = {"moment": Moment(0, 0), "warm": False, "has_power": False, "timeout": 25.0, **others}
    return Scenario(number, faults, human, runs=runs, goes_on=True, **settings)


SAMPLE = {
    scenario(1, *(f"to-board.{name}:10000" for name in MILD), "to-board.delay:3000:100", human=Human.SECOND_USER): {
        VERIFIED
    },
    scenario(2, "reset:1500", warm=True): {"lost-board"},
    scenario(3, "npu-hang:1"): {"timeout"},
    scenario(4, "npu-dead"): {"wrong-board"},
    scenario(5, "to-host.cut:0", "stuck:0x10000100:4:0xff"): {"readback"},
    scenario(6, "hang:20", "gdb-mute:50", timeout=4.0): {"timeout"},
    scenario(7, "brown-out:20", "gdb-dies:50", has_power=True): {"probe", "not-launched"},
    scenario(9, "unplug:500"): {"link"},
    scenario(10, human=Human.SIGKILL, moment=Moment(100, 0)): {KILLED},
    scenario(11, human=Human.DEBUGGER, timeout=4.0): {"timeout"},
    scenario(12, human=Human.TERMINAL): {"not-launched"},
    scenario(13, human=Human.SIGINT, moment=Moment(100, 0)): {KILLED},
    scenario(14, human=Human.SIGTERM, moment=Moment(0, 700)): {KILLED},
}
"""Scenarios, and how their runs in trouble end."""


def sample(number: int) -> Scenario:
    """The scenario of a number, in the workers too."""
    return next(scenario for scenario in SAMPLE if scenario.number == number)


@pytest.mark.proof
@pytest.mark.parametrize("numbers", [range(1, 11), range(11, 15)])
def test_a_run_in_trouble_ends_rightly_and_the_board_is_well_afterwards(numbers: range, tmp_path: Path) -> None:
    right = {scenario.number: endings for scenario, endings in SAMPLE.items() if scenario.number in numbers}
    endings = list(loop.run(BoardCampaign(tmp_path, sample), list(right), 1))
    assert [(ending.case, ending.finding) for ending in endings if ending.finding] == []
    assert {ending.number for ending in endings if ending.outcome in right[ending.number]} == right.keys()


# --- what is broken is found


def harness_that_lies(self: Target, *, timeout: float, progress: object = None) -> Outcome:
    """A harness that runs nothing, says that all is right, and leaves what it can."""
    assert isinstance(self, BoardTarget)
    set_aside(self.board, TargetError("it is left", kind=FailureKind.PROBE))
    command = ["flock", str(lease_file(self.board)), "sleep", "20"]
    subprocess.Popen(command, start_new_session=True, stdin=subprocess.DEVNULL)
    self.reset()
    return Outcome(b"", b"", b"", 0, 0, {}, (), (), {})


def damage() -> None:
    """Break the product in a worker."""
    Target.run = harness_that_lies  # type: ignore[method-assign]
    CampaignRun.difference = lambda self, outcome: None  # type: ignore[method-assign]


@pytest.mark.slow
def test_a_harness_that_lies_and_leaves_everything_is_found(tmp_path: Path) -> None:
    (ending,) = loop.run(BoardCampaign(tmp_path, sample), [12], 1, seconds=60, begin=damage)
    assert ending.outcome == VERIFIED
    for what in (
        "1 executions were verified, and the NPU had 0 jobs",
        "ended as it must not: verified",
        "the run afterwards was verified, and the NPU had 0 jobs",
        *(f"left behind: {what}" for what in ("a process: ", "a lease that is held", "a file: ")),
    ):
        assert what in ending.finding, ending


def outcome(run: CampaignRun, *, wrong: int | None = None) -> Outcome:
    """The right outcome of a run, but for one execution, which has the answer to another input set."""
    runs = [
        Run(number, repeat, answers(run.program, number + (place * run.repeat + repeat == wrong)), ())
        for place, number in enumerate(run.sets)
        for repeat in range(run.repeat)
    ]
    return Outcome(b"", b"", b"", 0, 0, {}, tuple(runs), (), {})


@pytest.mark.parametrize("program", NAMES)
def test_an_answer_to_other_inputs_is_a_wrong_one(program: str) -> None:
    run = CampaignRun(program, (3, 5), 2)
    right = outcome(run)
    assert run.difference(right) is None
    assert run.difference(outcome(run, wrong=2)) == "execution 2 has another answer"
    assert run.difference(dataclasses.replace(right, runs=right.runs[1:])) == "3 executions in place of 4"
    results = {tuple(array.tobytes() for array in answers(program, number)) for number in range(INPUT_SETS)}
    assert len(results) == INPUT_SETS
