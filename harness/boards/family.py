"""The targets `board:NAME` and `board:NAME+NAME`."""

from __future__ import annotations

from pathlib import Path

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.boards.board import Board
from ethos_hil.harness.boards.catalogue import board_files, find_board, is_path
from ethos_hil.harness.boards.group import BoardGroup
from ethos_hil.harness.boards.target import FAMILY, BoardTarget, missing
from ethos_hil.harness.targets.base import Target
from ethos_hil.harness.targets.plugin import TargetFamily, TargetPlugin, TargetSettings

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


def located(target: str, folder: Path) -> str:
    """Return the name of a target in which the paths of boards' files are absolute.

    Args:
        target: as for `--target`, of whatever kind.
        folder: where relative paths start from.
    """
    family, colon, names = target.partition(":")
    if family != FAMILY or not colon:
        return target
    found = (str(folder / Path(name).expanduser()) if is_path(name) else name for name in names.split(_AND))
    return f"{FAMILY}:{_AND.join(found)}"


def _nameless(npu: EthosU, settings: TargetSettings) -> Target:
    raise UsageError(f"--target {FAMILY} needs the board's name", hint=f"{FAMILY}:NAME; `ethos-hil boards` lists them")


def _nothing(npu: EthosU) -> None:
    return None


PLUGIN = TargetPlugin(
    name=FAMILY,
    kind="board",
    description=f"a board on the bench, {FAMILY}:NAME, or the first of several that is free, {FAMILY}:NAME+NAME",
    socs=(),
    npus=(),
    make=_nameless,
    find=_nothing,
    family=TargetFamily(_member, lambda: tuple(board_files())),
)
