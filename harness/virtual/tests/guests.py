"""Tiny guests, and the machine that runs them. Their macros are in data/start.s."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.socs.soc import Soc
from ethos_hil.harness.virtual.board import new_board
from ethos_hil.harness.virtual.fittings import Fittings
from ethos_hil.harness.virtual.machine import Machine
from ethos_hil.harness.virtual.rules import Rule
from ethos_hil.harness.virtual.tests.conftest import CORSTONE_300
from ethos_hil.harness.virtual.tests.programs import DATA

NPUS = {"corstone-300": "ethos-u55-128", "corstone-310": "ethos-u55-128", "corstone-320": "ethos-u85-256"}


def machine(
    elf: bytes,
    soc: Soc = CORSTONE_300,
    fittings: Fittings | None = None,
    rules: Collection[Rule] = (),
    seconds: float = 10.0,
    **more: Any,
) -> Machine:
    board = new_board(soc, elf, rules=frozenset(rules), fittings=fittings)
    return Machine(board, EthosU.parse(NPUS[soc.name]), Deadline(seconds), **more)


def words(board: Machine, count: int) -> list[int]:
    """Return the first words that a guest sends."""
    data = b""
    while len(data) < 4 * count:
        data += board.output()
    return [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]


def outcome(*arguments: Any, **more: Any) -> str:
    """Run a machine until its guest sends a full stop, or until an error."""
    data = b""
    with machine(*arguments, **more) as board:
        try:
            while not data.endswith(b"."):
                data += board.output()
            board.check_rules()
        except TargetError as error:
            return f"{error.kind}: {error.message}"  # what it sent before may not have come yet
        return f"{data!r}; {board.accesses} accesses to devices that are modelled here"


def programs(file: str) -> Iterator[tuple[str, tuple[list[str], str]]]:
    """Return the programs of a file: the name, the other fields of the line of ===, and the body with its end."""
    for part in (DATA / file).read_text().split("\n=== ")[1:]:
        head, *bodies = part.strip().split("\n\n")
        name, *more = head.split(" | ")
        for number, body in enumerate(bodies, 1):
            end = "" if "finish" in body else "\n    finish"
            yield name if len(bodies) == 1 else f"{name} {number}", (more, f"{body}{end}\n")
