"""Boards of a farm as targets: `--target labgrid:PLACE`.

A process borrows a place when it first runs something there, and keeps it for the next run: the firmware stays on the
board. It gives it back when it ends, or between two runs when another user waits for it. So workers of one session
spread over places, and take turns where there are more workers than places. What fails on one place because of the
place is run on another one.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import EthosHilError, TargetNotAvailable, ToolError, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.boards.board import Board
from ethos_hil.harness.boards.catalogue import find_board
from ethos_hil.harness.boards.family import plugin_of
from ethos_hil.harness.boards.lease import INFRASTRUCTURE, set_aside, take_back, why_set_aside
from ethos_hil.harness.boards.target import BoardTarget
from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.link.outcome import Outcome, Progress
from ethos_hil.harness.targets.base import Capability, Target
from ethos_hil.harness.targets.plugin import TargetFamily, TargetPlugin, TargetSettings, lacking, needs_member
from ethos_hil_labgrid.place import FAMILY, PlaceChoice
from ethos_hil_labgrid.side_process import coordinator, labgrid_python, side_process, wait_seconds


class FarmTarget(Target):
    """A board at one of some places of a farm."""

    kind = "board"

    def __init__(self, choice: PlaceChoice, boards: Mapping[str, Board], npu: str) -> None:
        """Make the target. Nothing is borrowed yet.

        Args:
            choice: what was asked for.
            boards: the places that this is, and their boards, which are of a kind.
            npu: name of the NPU's configuration in all of them.
        """
        self._choice, self._boards = choice, boards
        like = BoardTarget(next(iter(boards.values())), npu)
        self.name = f"{FAMILY}:{choice}"
        self.soc, self.npu = like.soc, npu
        self.cycle_provenance, self.cpu_unit = like.cycle_provenance, like.cpu_unit
        self._able = like.capabilities()
        self._place = ""
        self._board: BoardTarget | None = None

    def capabilities(self) -> frozenset[Capability]:
        """Return what a board can do."""
        return self._able

    def _load(self, image: Image) -> None:
        names = [name for name in self._boards if why_set_aside(self._board_at(name)) is None]
        self._borrow(names or list(self._boards), wait_seconds(), image)

    def _borrow(self, names: Sequence[str], seconds: float, image: Image) -> None:
        """Borrow one of the places, and have its board take the image."""
        side = side_process()
        place = side.borrow(id(self), self._choice, names, seconds)
        self._place = place.name
        self._board = BoardTarget(place.board(self._boards[place.name], side.power_command(place)), self.npu)
        self._board.clocks = self.clocks
        self._board.listen(self._tell)
        self._board.load(image)

    def _run(self, image: Image, *, timeout: float, progress: Progress | None) -> Outcome:
        deadline = Deadline(timeout)
        failed: dict[str, EthosHilError] = {}
        while True:
            assert self._board is not None  # `_load` and `_borrow` make it
            try:
                outcome = self._board.run(timeout=deadline.remaining, progress=progress)
            except EthosHilError as error:
                if error.kind not in INFRASTRUCTURE:
                    raise
                failed[self._place] = error
                set_aside(self._board_at(self._place), error)
                others = [name for name in self._boards if name not in failed]
                side_process().give_back(id(self))
                if not others or deadline.passed:
                    raise _all_failed(failed) from error.__cause__
                self._tell(f"{self._place}: {error.message}; another place is used")
                try:
                    self._borrow(others, min(wait_seconds(), deadline.remaining), image)
                except TargetNotAvailable as lacking:
                    raise _all_failed(failed | {" and ".join(others): lacking}) from error.__cause__
                continue
            take_back(self._board_at(self._place))
            notes = (f"it ran at {self._place}", *(f"{name} failed: {error.message}" for name, error in failed.items()))
            return dataclasses.replace(outcome, notes=(*outcome.notes, *notes))

    def _reset(self) -> None:
        if self._board is None:
            return
        self._board.reset()
        self._board = None
        side_process().idle(id(self))

    def _board_at(self, name: str) -> Board:
        """Return the board of a place under a URL that does not change, which it is locked and set aside by."""
        board = self._boards[name]
        url = f"{FAMILY}://{coordinator()}/{name}"
        return dataclasses.replace(board, link=dataclasses.replace(board.link, url=url))


def _all_failed(failed: Mapping[str, EthosHilError]) -> EthosHilError:
    *_, last = failed.values()
    text = "; ".join(f"place {name}: {error.message}" for name, error in failed.items())
    return last.replace(message=text)


@functools.cache
def _boards(text: str, address: str) -> dict[str, Board]:
    """Return the places that a choice means, and their boards."""
    choice = PlaceChoice.parse(text)
    places = choice.among(side_process().places(), address)
    boards = {place.name: find_board(place.board) for place in places}
    if len({board.simulated for board in boards.values()}) > 1:
        raise UsageError(
            f"{FAMILY}:{text} has boards and programs that simulate one, whose cycles are not measurements",
            hint="name places of one kind",
        )
    return boards


def _member(text: str) -> TargetPlugin:
    boards = _boards(text, coordinator())

    def make(npu: EthosU, settings: TargetSettings) -> Target:
        return FarmTarget(PlaceChoice.parse(text), boards, npu.name)

    plugin = plugin_of(tuple(boards.values()), f"{FAMILY}:{text}")
    return dataclasses.replace(plugin, make=make, find=lambda npu: lacking(labgrid_python))


def _names() -> tuple[str, ...]:
    try:
        return tuple(place.name for place in side_process().places()) or ("PLACE",)
    except ToolError:
        return ("PLACE",)


PLUGIN = TargetPlugin(
    name=FAMILY,
    kind="board",
    description=f"a board of a labgrid farm: {FAMILY}:PLACE, or {FAMILY}:board=NAME for any that is free",
    socs=(),
    npus=(),
    make=needs_member,
    find=lambda npu: lacking(labgrid_python),
    family=TargetFamily(_member, _names),
)
