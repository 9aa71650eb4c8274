"""The GDB server for a board's probe: one that is started here, or one that was started elsewhere.

A server that is started ends with the connection, in whatever way that ends, with all that it started itself. It gets a
port that is free, and is connected to only once it listens there: a stranger who took the port is not taken for it, and
no client comes before ours, after whom some servers end.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import TargetError, TargetNotAvailable, UsageError, shortage
from ethos_hil.base.process import end_marked, start_child, wait_for_end
from ethos_hil.harness.boards.board import Loading, Server
from ethos_hil.harness.gdb.remote import GdbRemote, connect
from ethos_hil.harness.link.console_text import ConsoleText

SERVER_VARIABLE = "ETHOS_HIL_GDB_SERVER"
"""Marks the processes that a server starts."""
_LOOPBACK = "127.0.0.1"
_TRIES = 3
"""Of ports: another program may take one that was free."""
_MOST_PORTS = 100
_POLL_SECONDS = 0.02
_OWN_END_SECONDS = 0.3
"""Within which a server ends that ends with its client, and leaves the processor in peace: pyOCD, J-Link."""
_GRACE = ((signal.SIGINT, 2.0), (signal.SIGTERM, 0.5))
"""How a server is asked to end, and for how long. pyOCD lets go of the processor for the first only."""
_REAP_SECONDS = 5.0
_LISTENS = "0A"
"""The state of a socket in /proc/net/tcp."""
_LAST_LINES = 40


class StartedServer:
    """A GDB server that was started here. A context manager: leaving it leaves no process behind.

    Attributes:
        title: what messages call it.
        address: its host and port.
    """

    def __init__(self, loading: Loading) -> None:
        """Start it, and wait until it listens.

        Raises:
            TargetNotAvailable: it is not there, ends, or does not listen in time.
        """
        self._loading = loading
        self.title = _title(loading)
        for attempt in range(_TRIES):
            port = loading.port or _free_port(loading.core + 1)
            self.address = (_LOOPBACK, port + loading.core)
            self._launch(loading.command_line(port))
            try:
                self._wait_until_it_listens()
            except TargetNotAvailable:
                self.stop()
                if loading.port or attempt == _TRIES - 1 or not re.search("in use", "\n".join(self.lines)):
                    raise
            except BaseException:
                self.stop()
                raise
            else:
                return

    def __enter__(self) -> StartedServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def lines(self) -> tuple[str, ...]:
        """Return what it said so far (ConsoleText says which lines are kept)."""
        with self._lock:
            return self._text.lines()

    @property
    def last_words(self) -> str:
        """Return the last line that it said, for a message."""
        lines = [line.strip() for line in self.lines if line.strip()]
        return f"it said last: {lines[-1]}" if lines else "it said nothing"

    def explain(self, error: TargetError) -> TargetError:
        """Return an error of the connection with what the server said."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            wait_for_end(self._process, _OWN_END_SECONDS)  # what it says when it dies comes a little later
        status = self._process.poll()
        ended = "" if status is None else f"{self.title} {_ending(status)}; "
        lines = self.lines[-_LAST_LINES:]
        return error.replace(message=f"{error.message} ({ended}{self.last_words})", console=(*error.console, *lines))

    def stop(self) -> None:
        """End it and all that it started, and reap it. May be called again."""
        process = self._process
        for number, seconds in ((None, _OWN_END_SECONDS), *_GRACE):
            if process.poll() is None and number is not None:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                wait_for_end(process, seconds)
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            wait_for_end(process, _REAP_SECONDS)
        end_marked(SERVER_VARIABLE, self._mark)
        self._reader.join(_REAP_SECONDS)
        assert process.stdout is not None
        process.stdout.close()

    def _launch(self, command: tuple[str, ...]) -> None:
        self._mark = secrets.token_hex(8)
        self._text, self._lock = ConsoleText(), threading.Lock()
        try:
            environment = {**os.environ, SERVER_VARIABLE: self._mark, "PYTHONUNBUFFERED": "1"}
            self._process = start_child(command, env=environment)
        except (OSError, ValueError, IndexError) as error:
            lacking = shortage(error)
            if lacking is not None:
                raise lacking from error
            raise TargetNotAvailable(
                f"{self.title} could not be started as {' '.join(command)!r}: {getattr(error, 'strerror', error)}",
                hint="install it, put it on PATH, or give its command in the board's file, as loading.command",
            ) from error
        self._reader = threading.Thread(target=self._listen, args=(self._process, self._text), daemon=True)
        self._reader.start()

    def _listen(self, process: subprocess.Popen[bytes], text: ConsoleText) -> None:
        """Take what the server says, so that it never waits for us."""
        assert process.stdout is not None
        while data := os.read(process.stdout.fileno(), 1 << 16):
            with self._lock:
                text.write(data)

    def _wait_until_it_listens(self) -> None:
        deadline = Deadline(self._loading.timeout)
        while not _listens(self._process.pid, self.address[1]):
            status = self._process.poll()
            if status is not None:
                self._reader.join(_OWN_END_SECONDS)
                raise self._unavailable(_ending(status))
            if deadline.passed:
                raise self._unavailable(f"does not listen at port {self.address[1]} after {deadline.seconds:g} s")
            time.sleep(_POLL_SECONDS)

    def _unavailable(self, what: str) -> TargetNotAvailable:
        return TargetNotAvailable(
            f"{self.title} {what}: {self.last_words}",
            hint="is the probe connected, the board on, and no other debugger at it? `ethos-hil boards explain` shows "
            "the command",
            console=self.lines[-_LAST_LINES:],
        )


@contextlib.contextmanager
def board_remote(loading: Loading, *, seconds: float = 10.0) -> Iterator[GdbRemote]:
    """Connect to a board's GDB server. It is started where no one else did, and ends when the context is left.

    An error of the connection gets what the server said.

    Args:
        loading: how the board is loaded.
        seconds: within which the server answers a question.

    Raises:
        TargetNotAvailable: there is no server.
        TargetError: what listens there is not a GDB server.
        UsageError: the board has no probe, or its server's address is not an address.
    """
    if loading.server is Server.NONE:
        raise UsageError("the board has no debug probe", hint="its firmware's monitor takes programs over the link")
    if loading.server is Server.RUNNING:
        address = parse_address(loading.address or "")
        title = f"{_title(loading)} at {loading.address}"
        with contextlib.closing(_connect(address, title, loading, seconds)) as remote:
            yield remote
        return
    with StartedServer(loading) as server:
        try:
            with contextlib.closing(_connect(server.address, server.title, loading, seconds)) as remote:
                yield remote
        except TargetError as error:
            raise server.explain(error) from error.__cause__


def parse_address(text: str) -> tuple[str, int]:
    """Return the host and port in "host:port", "[::1]:port" or ":port".

    Raises:
        UsageError: it has another form.
    """
    match = re.fullmatch(r"(?:\[([0-9a-fA-F:.]+)\]|([^:\[\]]*)):(\d{1,5})", text)
    if match is None or not 0 < int(match[3]) < 1 << 16:
        raise UsageError(f"{text!r} is not an address of a GDB server", hint="write host:port, such as localhost:3333")
    return match[1] or match[2] or _LOOPBACK, int(match[3])


def _connect(address: tuple[str, int], title: str, loading: Loading, seconds: float) -> GdbRemote:
    try:
        return connect(address, server=title, dialect=loading.dialect, seconds=seconds)
    except OSError as error:
        raise TargetNotAvailable(
            f"{title} cannot be reached at {address[0]}:{address[1]}: {error.strerror or error}",
            hint="start it, or correct loading.address in the board's file; a firewall may be between",
        ) from error


def _title(loading: Loading) -> str:
    return "the GDB server" if loading.dialect is None else loading.dialect.words.product


def _ending(status: int) -> str:
    return f"ended with status {status}" if status >= 0 else f"was ended by {signal.Signals(-status).name}"


def _free_port(count: int) -> int:
    """Return a port that is free now, as are those behind it, `count` in all. Raises TargetNotAvailable."""
    for _ in range(_MOST_PORTS):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError, OverflowError):
            first = stack.enter_context(socket.create_server((_LOOPBACK, 0)))
            port: int = first.getsockname()[1]
            for number in range(1, count):
                stack.enter_context(socket.create_server((_LOOPBACK, port + number)))
            return port
    raise TargetNotAvailable("no free TCP port was found for a GDB server", hint="end other programs on this machine")


def _listens(session: int, port: int) -> bool:
    """Return whether a process of a session listens at a port of this machine.

    One whose files cannot be seen, as of another user, is believed.
    """
    sockets = {f"socket:[{inode}]" for inode in _listening(port)}
    if not sockets:
        return False
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError, IndexError):  # it has ended meanwhile
            # proc(5): the session is the 6th field of stat; the 2nd is a name with any characters.
            if int((folder / "stat").read_text().rpartition(")")[2].split()[3]) != session:
                continue
            try:
                files = list((folder / "fd").iterdir())
            except PermissionError:
                return True
            for file in files:
                with contextlib.suppress(OSError):
                    if str(file.readlink()) in sockets:
                        return True
    return False


def _listening(port: int) -> list[str]:
    """Return the inodes of the sockets that listen at a port."""
    addresses = []
    for table in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path("/proc/net", table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTENS and int(fields[1].rpartition(":")[2], 16) == port:
                    addresses.append(fields[9])
    return addresses
