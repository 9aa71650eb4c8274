"""Runs a case, and judges how it ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from traceback import extract_tb

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.board import ResetWords
from ethos_hil.harness.boards.loader import THUMB, load, start
from ethos_hil.harness.gdb.remote import GdbRemote
from ethos_hil.harness.testing.gdb_peer import BASE, SIZE, GdbPeer
from ethos_hil.harness.testing.tiny_elf import tiny_elf
from ethos_hil.suites.lab.fuzz.servers.case import ServerCase, TrickPlayer

LIMIT_SECONDS = 8.0
"""Of a case. The deadlines below come to less than four seconds; the machine may do other things as well."""
HANG_SECONDS = 60.0
_ANSWER_SECONDS, _LOAD_SECONDS = 0.3, 3.0
_HONEST_SECONDS = 15.0
"""For a server that must be served, on a machine that does other things as well. Nothing else limits such a case."""
_KINDS = (FailureKind.PROBE, FailureKind.READBACK, FailureKind.LOST_BOARD)
_NAME = "the hostile server"
SUCCESS = "success"
CRASHED = "crashed"
OUTCOMES = (SUCCESS, *map(str, _KINDS), CRASHED)

CODE = bytes((7 * at + at // 256) % 256 for at in range(3000)) + b"#$}*\0\0\0\0\0\0" * 20
STACK, ENTRY = BASE + SIZE - 64, BASE + 0x40
ELF = tiny_elf(BASE, CODE, stack=STACK, entry=ENTRY | 1, empty=(BASE + 0x8000, 64))
RESET = ResetWords(("reset halt",))
_IPSR = 0x1FF


@dataclass(frozen=True)
class ServerEnding:
    """How a case ended.

    Attributes:
        case: it, in words.
        outcome: one of OUTCOMES.
        seconds: how long it took.
        said: the error's message.
        finding: what is wrong with that; "" if nothing is.
    """

    case: str
    outcome: str
    seconds: float = 0.0
    said: str = ""
    finding: str = ""


@dataclass(frozen=True)
class ServerJob:
    """Cases in a row, for a worker.

    Attributes:
        seed: of all cases.
        first: number of the first one.
        count: how many.
    """

    seed: int
    first: int
    count: int

    def prepare(self) -> Callable[[int], ServerEnding]:
        """Limit the memory of this process."""
        from ethos_hil.suites.lab.fuzz.streams.jobs import limit_memory

        limit_memory()
        return lambda item: examine(ServerCase.draw(self.seed, self.first + item))

    def lost(self, item: int, reason: str) -> ServerEnding:
        """Return the ending of a case that crashed or hung."""
        return ServerEnding(str(ServerCase.draw(self.seed, self.first + item)), CRASHED, finding=reason)


def examine(case: ServerCase) -> ServerEnding:
    """Load and start a program through a case's server. Return how that ended, and what is wrong with it."""
    player = TrickPlayer(case)
    began = time.monotonic()
    message = ""
    with GdbPeer(case.traits, player) as peer:
        try:
            if case.recoverable:
                _load_and_start(peer, _HONEST_SECONDS, _HONEST_SECONDS)
            else:
                _load_and_start(peer, _ANSWER_SECONDS, _LOAD_SECONDS)
            outcome = SUCCESS
        except TargetError as error:
            outcome, message = str(error.kind), error.message
        except Exception as error:  # whatever it is, it is a finding
            frame = extract_tb(error.__traceback__)[-1]
            outcome, message = CRASHED, f"{type(error).__name__}: {error} ({frame.name}:{frame.lineno})"
        seconds = time.monotonic() - began
    return ServerEnding(str(case), outcome, seconds, message, _finding(case, player, peer, outcome, seconds, message))


def _load_and_start(peer: GdbPeer, answer_seconds: float, load_seconds: float) -> None:
    remote = GdbRemote(peer.client, server=_NAME, seconds=answer_seconds)
    start(
        remote,
        load(remote, ELF, words=RESET, vector_table=BASE, deadline=Deadline(load_seconds)),
        Deadline(answer_seconds),
    )


def _finding(case: ServerCase, player: TrickPlayer, peer: GdbPeer, outcome: str, seconds: float, message: str) -> str:
    """Return what is wrong with an ending; "" if nothing is."""
    if outcome not in OUTCOMES or outcome == CRASHED:
        return f"ended with {outcome}: {message}"
    if seconds > LIMIT_SECONDS and not case.recoverable:
        return f"took {seconds:.1f} s"
    if outcome != SUCCESS:
        if not message.startswith(_NAME):
            return f"an error does not name the server: {message}"
        return f"a server that can be served was not: {message}" if case.recoverable else ""
    if player.unsound:
        return "a packet with a wrong checksum was taken for an answer"
    if peer.state.memory[8 : 8 + len(CODE)] != CODE:
        return "success, and the program is not in memory"
    registers = peer.state.registers
    right = {"sp": STACK, "pc": ENTRY, "xpsr": THUMB}
    actual = {**{name: registers[name] for name in ("sp", "pc")}, "xpsr": registers["xpsr"] & (THUMB | _IPSR)}
    if player.described and actual != right:  # who lies about the numbers of registers lies with success
        return f"success, and the registers are {actual}"
    return "" if peer.state.running else "success, and the processor does not run"
