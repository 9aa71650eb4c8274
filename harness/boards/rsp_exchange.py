"""Questions to a GDB server and their answers.

The protocol does not number them: that an answer belongs to its question follows from the order alone. So nothing may
be left between them, and what is left makes the connection useless.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Sequence

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import StateError, TargetError
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.rsp_stream import PacketStream

STOP = re.compile(rb"[TS][0-9a-fA-F]{2}")
"""The begin of the packet that says why the processor stopped."""
CONSOLE = re.compile(rb"O(?:[0-9a-fA-F]{2})+")
"""Text of the target or of the server, for its user."""
ERROR = re.compile(rb"E(?:[0-9a-fA-F]{2}|\.[^\0]*)")
_END = re.compile(rb"[WX][0-9a-fA-F]{2}(?:;.*)?", re.DOTALL)
_IN_FLIGHT = 8
"""Packets that are sent before their answers are read, to a server that acknowledges none: it is far away or slow."""
_MOST_STRAY = 1000


class RspExchange:
    """The questions and answers of a connection.

    Every method that takes a deadline ends by it, and raises TargetError: of the kind `PROBE` where the server refuses,
    does not answer, sends what is no answer, or ends; of the kind `LOST_BOARD` where it says that there is no processor
    any more. After another error than a refusal `broken` says what it was.

    Attributes:
        server: what messages call the server.
        stream: its packets.
        running: whether the processor runs, so that nothing can be asked.
        console: what the server said without being asked.
    """

    def __init__(self, stream: socket.socket, server: str, seconds: float) -> None:
        """Take over a connected stream.

        Args:
            stream: it.
            server: what messages call the server.
            seconds: within which each answer has to come, where the deadline is later.
        """
        self.server = server
        self._seconds = seconds
        self.stream = PacketStream(stream, server)
        self.running = False
        self.console: list[str] = []
        self._stray = 0

    @property
    def usable(self) -> bool:
        """Whether the connection can be used."""
        return self.stream.broken is None

    def soon(self, deadline: Deadline) -> Deadline:
        """Return until when the next packet has to come: a load takes minutes, and silence is noticed sooner."""
        return deadline if deadline.remaining < self._seconds else Deadline(self._seconds)

    def ask(self, command: bytes, deadline: Deadline, what: str, *, stops: bool = False) -> bytes:
        """Send a command, and return its answer.

        Args:
            command: the packet.
            deadline: until when.
            what: what it is, for messages.
            stops: whether a packet that says why the processor stopped is an answer.
        """
        self.begin(what)
        self.stream.send(command, self.soon(deadline))
        while True:
            answer = self.stream.receive(self.soon(deadline), what)
            if (stops and STOP.match(answer)) or not self.is_stray(answer):
                return answer

    def ask_all(
        self, commands: Sequence[bytes], deadline: Deadline, what: str, take: Callable[[int, bytes], None]
    ) -> None:
        """Send commands, and hand each answer over with the number of its command.

        Where `take` refuses an answer with a TargetError, those that are still to come are waited for.
        """
        most = 1 if self.stream.acknowledges else _IN_FLIGHT
        sent = 0
        refused: TargetError | None = None
        self.begin(what)
        try:
            for number in range(len(commands)):
                while refused is None and sent < min(len(commands), number + most):
                    self.stream.send(commands[sent], self.soon(deadline))
                    sent += 1
                if number == sent:
                    break
                self._stray = 0
                self.stream.begin_question()
                while self.is_stray(answer := self.stream.receive(self.soon(deadline), what)):
                    pass
                try:
                    if refused is None:
                        take(number, answer)
                except TargetError as error:
                    if not self.usable:
                        raise
                    refused = error
        except TargetError:
            raise
        except BaseException:  # of `take`, such as Ctrl-C: answers may be on their way
            self.stream.broken = self.stream.broken or "it was interrupted"
            raise
        if refused is not None:
            raise refused

    def begin(self, what: str) -> None:
        """Make sure that nothing stands between a question and its answer.

        Raises:
            StateError: nothing can be asked at the moment.
        """
        self.stream.begin_question()
        self._stray = 0
        if not self.usable:
            raise StateError(f"{self.server} cannot be asked for {what}: {self.stream.broken}")
        if self.running:
            raise StateError(f"{self.server} cannot be asked for {what} while the processor runs; halt it first")
        while (answer := self.stream.poll(Deadline(0), what)) is not None:
            if not self.is_stray(answer):
                self.stream.fail(f"it sent {shown(answer)}, which nobody asked for")

    def is_stray(self, answer: bytes) -> bool:
        """Return whether a packet answers no question: a stop that an earlier client left, or text, which is kept."""
        if _END.fullmatch(answer):
            self.stream.broken = "the processor is gone"
            raise TargetError(
                f"{self.server}: it says that the program has ended ({shown(answer)})",
                kind=FailureKind.LOST_BOARD,
                hint="is the board still on, and the probe connected to it?",
            )
        if not STOP.match(answer) and not CONSOLE.fullmatch(answer):
            return False
        self._stray += 1
        if self._stray > _MOST_STRAY:
            self.stream.fail(f"it sent {self._stray:,} packets that are no answer")
        if answer[:1] == b"O" and len(self.console) < _MOST_STRAY:
            self.console.append(bytes.fromhex(answer[1:].decode()).decode("utf-8", "replace"))
        return True

    def data(self, answer: bytes, what: str) -> bytes:
        """Return the bytes of an answer in hexadecimal digits."""
        self._refused(answer, what)
        try:
            return bytes.fromhex(answer.decode("ascii"))
        except ValueError:
            self.stream.fail(f"asked to {what}, it sent {shown(answer)}")

    def accepted(self, answer: bytes, what: str) -> None:
        """Make sure that the server did what it was asked to do."""
        self._refused(answer, what)
        if answer != b"OK":
            self.stream.fail(f"asked to {what}, it sent {shown(answer)}")

    def refusal(self, message: str) -> TargetError:
        """Return the error for what the server does not do."""
        return TargetError(
            f"{self.server}: {message}",
            kind=FailureKind.PROBE,
            hint="does the board's file name the right part and memories? The server's own output may say more",
        )

    def _refused(self, answer: bytes, what: str) -> None:
        if not answer or ERROR.fullmatch(answer):
            raise self.refusal(f"it does not {what}: it answered {shown(answer)}")


def text_of(answer: bytes) -> str:
    """Return an answer as text."""
    return answer.decode("ascii", "replace")


def shown(answer: bytes) -> str:
    """Return an answer for a message: its begin."""
    return repr(text_of(answer[:80])) + (" ..." if len(answer) > 80 else "") if answer else "nothing"
