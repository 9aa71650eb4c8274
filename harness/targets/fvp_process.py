"""A simulator's process: started in a group of its own, its console read live, ended and reaped however it ends."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ethos_hil.base.errors import TargetNotAvailable
from ethos_hil.base.process import start_child
from ethos_hil.harness.link.console_text import ConsoleText
from ethos_hil.harness.targets.executor_runner import TELLING

_GRACE_SECONDS = 1.0
"""Between asking a simulator to end and killing it. It may hold a licence that it should give back."""
_REAP_SECONDS = 5.0
_POLL_SECONDS = 0.005


def _unheard(data: bytes) -> None:
    """Do nothing with what a simulator writes."""


class Simulation:
    """One run of a simulator. A context manager: leaving it leaves no process behind.

    Attributes:
        command: its command line.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        variables: Mapping[str, str] | None = None,
        hear: Callable[[bytes], object] = _unheard,
    ) -> None:
        """Start a simulator.

        Args:
            command: its command line.
            folder: where it runs.
            variables: environment variables, as well as our own.
            hear: gets all that it writes, in pieces; `lines` may be shortened.

        Raises:
            TargetNotAvailable: it can't be started.
        """
        self.command = tuple(command)
        self._console_text = ConsoleText(TELLING)
        self._hear = hear
        try:
            self._process = start_child(command, cwd=folder, env={**os.environ, **(variables or {})})
        except OSError as error:
            raise TargetNotAvailable(
                f"{command[0]} could not be started: {error.strerror}",
                hint="is it a program for this machine, with permission to execute it?",
            ) from error
        assert self._process.stdout is not None
        self._console: int | None = self._process.stdout.fileno()

    def __enter__(self) -> Simulation:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def lines(self) -> list[str]:
        """Return the lines of its stdout and stderr so far (ConsoleText says which are kept)."""
        return list(self._console_text.lines())

    @property
    def status(self) -> int | None:
        """Return the exit status (negative: the signal that ended it), or None while it runs."""
        # It is left unreaped until `stop`, which still needs its number: no one else can have it until then.
        if self._process.returncode is not None:
            return self._process.returncode
        ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    def watch(self, seconds: float) -> bool:
        """Read its console for at most `seconds`. Return whether it still runs; after False, everything was read."""
        if self._console is None:
            end = time.monotonic() + seconds
            while self.status is None and time.monotonic() < end:
                time.sleep(min(_POLL_SECONDS, seconds))
            return self.status is None
        running = self.status is None  # before reading: what it wrote before it ended is there to be read then
        if select.select([self._console], [], [], seconds if running else 0.0)[0]:
            data = os.read(self._console, 1 << 16)
            self._console_text.write(data)
            self._hear(data)
            if data:
                return True
        elif running:
            return True
        # Closed by the simulator; or it has ended, and a process it left behind holds the other end.
        self._close_console()
        return self.status is None

    def stop(self) -> None:
        """End it and all that it started, and reap it. May be called again."""
        if self._process.returncode is not None:
            return
        if self.status is None:
            self._signal(signal.SIGTERM)
            end = time.monotonic() + _GRACE_SECONDS
            while time.monotonic() < end and self.watch(max(0.0, end - time.monotonic())):
                pass
        self._signal(signal.SIGKILL)
        self._process.wait(_REAP_SECONDS)
        self._close_console()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _close_console(self) -> None:
        if self._console is None:
            return
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._console = None
