"""Protects that boards of a labgrid farm are lent to one user at a time, survive their boards' deaths and their users'
deaths, and that every way to fail says what to do.

Everything is real but the boards: labgrid's coordinator and exporter, ser2net, its driver for a power socket.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.errors import ToolError
from ethos_hil.base.process import dies_with, end_marked
from ethos_hil.base.testing.processes import left_of
from ethos_hil.harness.targets.contract import TargetContract
from ethos_hil.suites.lab.bench.bench_board import BenchBoard
from ethos_hil_labgrid.desk_farm import BOARD, DeskFarm, desk_farm, labgrid_environment
from ethos_hil_labgrid.side_process import side_process

pytestmark = [pytest.mark.proof, pytest.mark.timeout(900), pytest.mark.usefixtures("installed")]
ANY = f"labgrid:board={BOARD}"
_FREE_SECONDS = 15.0
_PATIENCE = 240.0
_MARK = "ETHOS_HIL_FARM_TEST"


class FarmUser:
    """A process that runs a small program on a farm."""

    def __init__(self, farm: DeskFarm, target: str, runs: int = 1, **variables: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ethos_hil_labgrid.tests.farm_user", target, str(runs)],
            env={**os.environ, **farm.variables, "ETHOS_HIL_CACHE": str(farm.folder / "cache"), **variables,
                 _MARK: str(farm.folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=dies_with(os.getpid()),
        )  # fmt: skip

    def line(self) -> dict[str, Any]:
        """Return its next line, which is there when the next run has ended."""
        assert self.process.stdout is not None
        data: dict[str, Any] = json.loads(self.process.stdout.readline())
        return data

    def end(self) -> tuple[int, list[dict[str, Any]], str]:
        """Wait for its end. Return its status, its lines, and what it wrote on stderr."""
        out, errors = self.process.communicate(timeout=_PATIENCE)
        return self.process.returncode, [json.loads(line) for line in out.splitlines()], errors.decode()

    def helpers(self) -> list[int]:
        """Return the processes that it started: the one with labgrid."""
        tasks = Path(f"/proc/{self.process.pid}/task")
        return [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]


@contextlib.contextmanager
def two_places(folder: Path) -> Iterator[DeskFarm]:
    try:
        labgrid = labgrid_environment()
    except ToolError as error:
        pytest.skip(f"no farm here: {error.message}; {error.hint}")
    with BenchBoard(baud=0) as first, BenchBoard(baud=0) as second:
        with desk_farm(labgrid, folder, (first, second)) as farm:
            yield farm
        end_marked(_MARK, str(folder))


@pytest.fixture(scope="module")
def farm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeskFarm]:
    """Two places, whose boards stay alive."""
    with two_places(tmp_path_factory.mktemp("farm")) as farm:
        yield farm


@pytest.fixture
def doomed(tmp_path: Path) -> Iterator[DeskFarm]:
    """Two places of which something will die."""
    with two_places(tmp_path) as farm:
        yield farm


def ran_at(line: dict[str, Any]) -> str:
    """The place of a run that went well."""
    assert line.get("right"), line
    (note,) = (note for note in line["notes"] if note.startswith("it ran at "))
    return str(note).removeprefix("it ran at ")


def failures(line: dict[str, Any]) -> int:
    """How many places failed before it went well."""
    return sum(" failed: " in note for note in line["notes"])


def test_a_run_borrows_the_place_and_gives_it_back(farm: DeskFarm) -> None:
    user = FarmUser(farm, "labgrid:board2", 3)
    assert ran_at(user.line()) == "board2"
    assert set(farm.holders()) <= {"board2"}
    status, lines, _ = user.end()
    assert (status, [ran_at(line) for line in lines]) == (0, ["board2"] * 2)
    assert farm.holders() == {}


def test_a_second_user_waits_for_its_turn_and_is_told_why(farm: DeskFarm) -> None:
    first = FarmUser(farm, "labgrid:board1", 40)
    first.line()
    second = FarmUser(farm, "labgrid:board1", 2)
    status, lines, errors = second.end()
    assert (status, [ran_at(line) for line in lines]) == (0, ["board1"] * 2), errors
    assert "waiting for a place: board1 is with " in errors
    assert first.process.poll() is None, "the second user had to wait for the first one's end"
    first.process.send_signal(signal.SIGINT)
    assert all(line["right"] for line in first.end()[1])
    assert farm.free_within(_FREE_SECONDS) == {}


def test_who_will_not_wait_is_told_who_has_the_place(farm: DeskFarm) -> None:
    farm.client("-p", "board1", "acquire")
    try:
        status, (line,), _ = FarmUser(farm, "labgrid:board1", ETHOS_HIL_LABGRID_WAIT="1").end()
    finally:
        farm.client("-p", "board1", "release")
    assert (status, line["kind"]) == (1, "leased")
    assert line["message"].startswith("no place is free: board1 is with ")
    assert "name more places" in line["hint"]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_user_that_is_ended_gives_the_place_back(farm: DeskFarm, how: signal.Signals) -> None:
    user = FarmUser(farm, "labgrid:board1", 1000)
    user.line()
    helpers = user.helpers()
    assert len(helpers) == 1
    user.process.send_signal(how)
    user.end()
    assert farm.free_within(_FREE_SECONDS) == {}
    assert left_of(helpers) == []


def test_what_dead_processes_have_is_taken_back_by_the_next_run(farm: DeskFarm) -> None:
    user = FarmUser(farm, "labgrid:board1", 1000)
    user.line()
    (helper,) = user.helpers()
    user.process.kill()
    os.kill(helper, signal.SIGKILL)
    user.end()
    assert set(farm.holders()) == {"board1"}, "the place would have been free anyway"
    status, (line,), errors = FarmUser(farm, "labgrid:board1").end()
    assert (status, ran_at(line)) == (0, "board1")
    assert "which is no more, and is taken back" in errors
    assert farm.holders() == {}


def test_labgrid_switches_the_power_of_a_board_that_does_not_answer(farm: DeskFarm) -> None:
    farm.switched.clear()
    farm.boards[0].tell("power off")
    status, (line,), errors = FarmUser(farm, "labgrid:board1").end()
    assert (status, ran_at(line)) == (0, "board1"), errors
    assert farm.switched == [(1, "0"), (1, "1")]


def test_the_work_of_a_dead_board_goes_to_the_other_and_the_dead_one_is_left_alone(doomed: DeskFarm) -> None:
    doomed.boards[0].close()
    status, lines, errors = FarmUser(doomed, "labgrid:board1+board2", 3).end()
    assert (status, [ran_at(line) for line in lines]) == (0, ["board2"] * 3), errors
    assert [failures(line) for line in lines] == [1, 0, 0], "it was tried again"
    status, (line,), _ = FarmUser(doomed, ANY).end()
    assert (ran_at(line), failures(line)) == ("board2", 0), "the next process tried it again"
    status, (line,), _ = FarmUser(doomed, "labgrid:board1").end()
    assert (status, line["kind"] in {"probe", "link", "lost-board", "not-launched"}) == (1, True), line
    assert doomed.holders() == {}


def test_a_board_that_dies_in_the_middle_of_two_users_work(doomed: DeskFarm) -> None:
    users = [FarmUser(doomed, ANY, 12) for _ in range(2)]
    assert {ran_at(user.line()) for user in users} == {"board1", "board2"}
    doomed.boards[0].close()
    for status, lines, errors in [user.end() for user in users]:
        assert status == 0, (lines, errors)
        assert ran_at(lines[-1]) == "board2"
    assert doomed.holders() == {}


def test_no_coordinator_and_no_exporter(doomed: DeskFarm) -> None:
    doomed.stop("exporter")
    status, (line,), _ = FarmUser(doomed, "labgrid:board1").end()
    assert (status, line["kind"]) == (1, "not-launched")
    assert line["message"] == (
        "nothing is exported for the place board1: match desk/board1/* has no matching remote resource"
    )
    assert line["hint"].startswith("is its labgrid-exporter running?")
    user = FarmUser(doomed, "labgrid:board2")
    doomed.stop("coordinator")
    user.end()
    status, (line,), _ = FarmUser(doomed, "labgrid:board1").end()
    assert (status, line["kind"]) == (1, "not-launched")
    assert line["message"] == f"labgrid's coordinator cannot be reached at {doomed.coordinator}"
    assert "start labgrid-coordinator" in line["hint"]


class TestFarmedBoard(TargetContract):
    """A place is a target like all others. See the class that it is made from."""

    target = "labgrid:board1"
    npu = "ethos-u55-128"
    timeout = 60.0
    patience = 15.0

    @pytest.fixture(scope="class")
    @classmethod
    def surroundings(cls, farm: DeskFarm) -> Iterator[None]:
        """The farm, and what says where it is. Nothing switches the board, which would have another process then."""
        farm.client("-p", "board1", "del-match", "desk/board1/*")
        farm.client("-p", "board1", "add-match", "desk/board1/NetworkSerialPort", "desk/board1/GdbServer")
        with pytest.MonkeyPatch.context() as patch:
            for name, value in farm.variables.items():
                patch.setenv(name, value)
            yield

    @pytest.fixture(autouse=True)
    def _given_back(self, _nothing_left_behind: None) -> Iterator[None]:
        """The exporter starts a ser2net for each loan: a run that gives its place back leaves another than it met."""
        yield
        side_process().close()
