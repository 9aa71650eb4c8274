"""The targets `board:NAME`, and `board:NAME+NAME`: several boards of a kind as one target.

Of several boards a run takes the first that is free and well. A suite over boards of unequal speed needs no plan for
it: each worker takes a board for one test, so a fast board gets more of them. What fails on one board for a reason of
the board is run on another one, and the board is left alone for a while.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import EthosHilError, TargetNotAvailable, ToolError, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.board import Board
from ethos_hil.harness.boards.catalogue import board_files, find_board, is_path
from ethos_hil.harness.boards.lease import INFRASTRUCTURE, why_set_aside
from ethos_hil.harness.boards.target import FAMILY, BoardTarget, missing
from ethos_hil.harness.image.pack import Image
from ethos_hil.harness.link.outcome import Outcome, Progress
from ethos_hil.harness.targets.base import Capability, Target
from ethos_hil.harness.targets.plugin import TargetFamily, TargetPlugin, TargetSettings, needs_member

_POLL_SECONDS = 0.1
"""Between two looks whether a board is free."""


class BoardGroup(Target):
    """Boards with one system on chip and one NPU."""

    kind = "board"

    def __init__(self, name: str, members: Sequence[BoardTarget]) -> None:
        """Make the target.

        Args:
            name: what `--target` says.
            members: at least one.

        Raises:
            UsageError: they are not of a kind.
        """
        kinds = {(member.soc, member.npu, member.cycle_provenance) for member in members}
        if len(kinds) != 1:
            text = "; ".join(f"{member.name}: {member.soc}, {member.cycle_provenance}" for member in members)
            raise UsageError(
                f"the boards of {name} are not of a kind: {text}", hint="name boards with one system on chip"
            )
        self.name = name
        self._members = tuple(members)
        first = members[0]
        self.soc, self.npu = first.soc, first.npu
        self.cycle_provenance, self.cpu_unit = first.cycle_provenance, first.cpu_unit

    def capabilities(self) -> frozenset[Capability]:
        """Return what all of them can do."""
        return frozenset.intersection(*(member.capabilities() for member in self._members))

    def _load(self, image: Image) -> None:
        for member in self._members:
            member.load(image)
            member.reset()

    def _run(self, image: Image, *, timeout: float, progress: Progress | None) -> Outcome:
        deadline = Deadline(timeout)
        failed: dict[str, EthosHilError] = {}
        while not deadline.passed:
            # Those that are set aside come last.
            for member in sorted(self._members, key=lambda member: why_set_aside(member.board) is not None):
                if member.name in failed:
                    continue
                try:
                    outcome = self._run_on(member, image, deadline, progress)
                except EthosHilError as error:
                    if error.kind is FailureKind.LEASED:
                        continue
                    if error.kind not in INFRASTRUCTURE:
                        raise
                    failed[member.name] = error
                    self._tell(f"{member.name}: {error.message}; another board is used")
                    continue
                unusual = (f"{other} failed: {error.message}" for other, error in failed.items())
                return dataclasses.replace(outcome, notes=(*outcome.notes, f"it ran on {member.name}", *unusual))
            if len(failed) == len(self._members):
                raise _all_failed(self.name, failed)
            time.sleep(min(_POLL_SECONDS, deadline.remaining))
        raise TargetNotAvailable(
            f"no board of {self.name} was free within {timeout:g} s", kind=FailureKind.LEASED,
            hint="name more boards, start fewer workers, or wait longer (--timeout)",
        )  # fmt: skip

    def _run_on(self, member: BoardTarget, image: Image, deadline: Deadline, progress: Progress | None) -> Outcome:
        member.listen(self._tell)
        member.patience = 0.0
        member.load(image)
        return member.run(timeout=deadline.remaining, progress=progress)

    def _reset(self) -> None:
        for member in self._members:
            member.reset()


def _all_failed(name: str, failed: dict[str, EthosHilError]) -> EthosHilError:
    *_, last = failed.values()
    if len(failed) == 1:
        return last
    text = "; ".join(f"{name}: {error.message}" for name, error in failed.items())
    return last.replace(message=f"every board of {name} failed: {text}")


_AND = "+"


def plugin_of(boards: tuple[Board, ...], name: str) -> TargetPlugin:
    """Return the plug-in of a board, or of a group of them.

    Args:
        boards: at least one.
        name: what records call it.

    Raises:
        UsageError: they are not of a kind.
    """
    socs = tuple(dict.fromkeys(board.soc.name for board in boards))
    if len(socs) > 1:
        raise UsageError(
            f"the boards of {name} are not of a kind: they are {' and '.join(socs)}",
            hint="a program is packed for one system on chip: name boards of one kind",
        )
    npus = tuple(npu for npu in boards[0].npus if all(npu in board.npus for board in boards))
    if not npus:
        raise UsageError(f"no NPU is on all boards of {name}", hint="name boards with the same NPU")

    def make(npu: EthosU, settings: TargetSettings) -> Target:
        members = [BoardTarget(board, npu.name) for board in boards]
        return members[0] if len(members) == 1 else BoardGroup(name, members)

    def find(npu: EthosU) -> ToolError | None:
        return next((lacking for board in boards if (lacking := missing(board)) is not None), None)

    return TargetPlugin(
        name=name,
        kind="board",
        description=" and ".join(dict.fromkeys(board.description for board in boards)),
        socs=socs,
        npus=npus,
        make=make,
        find=find,
    )


def _member(names: str) -> TargetPlugin:
    boards = tuple(find_board(name) for name in names.split(_AND))
    return plugin_of(boards, f"{FAMILY}:{_AND.join(board.name for board in boards)}")


def locate(target: str, folder: Path) -> str:
    """Return the name of a target in which the paths of boards' files are absolute.

    Args:
        target: as for `--target`, of whatever kind.
        folder: where relative paths start from.
    """
    family, colon, names = target.partition(":")
    if family != FAMILY or not colon:
        return target
    places = (str(folder / Path(name).expanduser()) if is_path(name) else name for name in names.split(_AND))
    return f"{FAMILY}:{_AND.join(places)}"


PLUGIN = TargetPlugin(
    name=FAMILY,
    kind="board",
    description=f"a board on the bench, {FAMILY}:NAME, or the first of several that is free, {FAMILY}:NAME+NAME",
    socs=(),
    npus=(),
    make=needs_member,
    find=lambda npu: None,
    family=TargetFamily(_member, lambda: tuple(board_files())),
)
