"""The process of a native tool, from this side: it is started once, and again after a crash."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import re
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.environment import version
from ethos_hil.base.errors import ToolError
from ethos_hil.base.process import start_child
from ethos_hil.lowering.native import serve

LIMIT_SECONDS = 1800
"""CPU time that one call may take. The longest that is known takes a minute."""
MEMORY_BYTES = 8 << 30
"""Memory that a call may take at most. Networks of tens of megabytes take hundreds of megabytes."""
_LEAST_MEMORY_BYTES = 1 << 30
_REASON = re.compile(r"error|assert|terminate|what\(\)|failed|alloc", re.IGNORECASE)
"""In a line of a tool's output that may say why it ended."""
_LINE_LENGTH = 200
_NOTE_BYTES = 4000
_LISTING_BYTES = 64 << 20


class NativeCrash(Exception):
    """A call ended the tool's process, or took all the memory it may take.

    Attributes:
        how: what happened, as what the tool did: "crashed with SIGSEGV (Segmentation fault)".
        said: what the tool printed about it, as the end of a sentence, or "".
    """

    def __init__(self, how: str, words: str = "") -> None:
        super().__init__(how + words)
        self.how = how
        self.said = words


class ToolRaised(Exception):
    """The tool raised an exception.

    Attributes:
        name: its class.
        text: its message.
    """

    def __init__(self, name: str, text: str) -> None:
        super().__init__(f"{name}: {text}")
        self.name = name
        self.text = text


@dataclass(frozen=True)
class ToolAnswer:
    """What a tool answered.

    Attributes:
        header: its fields, by name.
        blocks: its bytes.
        listing: what it printed.
    """

    header: dict[str, Any]
    blocks: tuple[bytes, ...]
    listing: str


class _Process:
    def __init__(self, tool: str, most: int | None, *, forked: bool, python: Path | None = None) -> None:
        self.tool = tool
        self._most = most
        output = os.memfd_create(tool)
        watched, lifeline = os.pipe()
        try:
            fcntl.fcntl(output, fcntl.F_SETFL, os.O_APPEND)  # so that it can be emptied between calls
            # No programs: on an assertion tosa_reference_model starts gdb, which takes seconds.
            environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PATH": os.devnull}
            # -I -S: isolated and quick to start; it gets our path. Another Python has one of its own.
            alone = ("-I", "-S") if python is None else ("-I",)
            self.process = start_child(
                [str(python or sys.executable), *alone, serve.__file__, str(watched)],
                bufsize=0,  # a buffer has a lock, which a process that is forked meanwhile could never take
                pass_fds=(watched,),
                stdin=subprocess.PIPE,
                stderr=output,
                env=environment,
                # Nothing that lets it die with the thread that starts it: the pipe ends it with the process.
                preexec_fn=partial(_serve, watched, environment) if forked else None,
            )
        except OSError as error:
            os.close(output)
            os.close(lifeline)
            raise ToolError(f"a process for {tool} cannot be started: {error}") from error
        finally:
            os.close(watched)
        self.said = output
        self.lifeline = lifeline
        """Open as long as this process lives: the worker ends when it is closed."""
        self.ready = False
        """Whether the tool's import was answered."""
        self.idle = False
        """Whether it has answered everything."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._requests: Any = self.process.stdin
        self._answers: Any = self.process.stdout

    def send(self, header: dict[str, Any], blocks: Sequence[bytes]) -> None:
        """Send a request. A process that has ended is found by `receive`."""
        self.idle = False
        self._seconds = header["seconds"]
        self.memory = resource.RLIM_INFINITY if self._most is None else _memory(self._most)
        os.ftruncate(self.said, 0)
        with contextlib.suppress(BrokenPipeError):
            serve.send(self._requests, {**header, "memory": self.memory}, blocks)

    def receive(self, tell: Callable[[str], None] = lambda _: None) -> serve.Message:
        """Return the answer; `tell` is told what the tool does meanwhile. Raise NativeCrash if the process ends."""
        while (answer := serve.receive(self._answers)) is not None and "progress" in answer[0]:
            tell(str(answer[0]["progress"]))
        if answer is None:
            raise self._ending()
        self.idle = True
        return answer

    def _ending(self) -> NativeCrash:
        status = self.process.wait()
        printed = self.listing(_NOTE_BYTES)
        lines = [line.strip() for line in printed.splitlines() if _REASON.search(line)]
        quote = f"; it said: {lines[0][:_LINE_LENGTH]}" if lines else ""
        if status >= 0:
            return NativeCrash(f"ended its process with status {status}", quote)
        number = -status
        if number == signal.SIGXCPU:
            return NativeCrash(f"did not end within {self._seconds} seconds of CPU time")
        if number == signal.SIGABRT and "bad_alloc" in printed:
            return self.without_memory()
        name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
        meaning = "; memory may have run out" if number == signal.SIGKILL else ""
        return NativeCrash(f"crashed with {name} ({signal.strsignal(number)}{meaning})", quote)

    def without_memory(self) -> NativeCrash:
        """Return that the memory was not enough."""
        return NativeCrash(f"needs more memory than the {self.memory / 1e9:.1f} GB that it may take")

    def listing(self, limit: int) -> str:
        """Return the end of what it printed since the last request."""
        size = os.fstat(self.said).st_size
        wanted = min(size, limit)
        return os.pread(self.said, wanted, size - wanted).decode(errors="replace")

    def end(self) -> None:
        """End and reap it."""
        self.process.kill()
        self.process.wait()
        self.abandon()

    def abandon(self) -> None:
        """Close its files: it has ended, or belongs to the parent of this forked process."""
        self.process.returncode = self.process.returncode or 0  # so that deleting it gives no warning
        for file in (self._requests, self._answers):
            file.close()
        os.close(self.said)
        os.close(self.lifeline)


def _serve(lifeline: int, environment: Mapping[str, str]) -> None:
    """Be the worker, in a fork of this process that executes no program."""
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        os.closerange(3, lifeline)
        os.closerange(lifeline + 1, os.sysconf("SC_OPEN_MAX"))  # with them the pipe on which the parent waits for exec
        os.environ.update(environment)
        sys.stdout = sys.stderr = os.fdopen(2, "w")  # without what this process has not written yet
        serve.main(lifeline)
    finally:
        os._exit(1)


def _memory(most: int) -> int:
    """Return the memory that a call may take, in bytes: three quarters of what is available, but not too much."""
    if most <= _LEAST_MEMORY_BYTES:
        return most
    try:
        with Path("/proc/meminfo").open() as file:
            available = next((int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable:")), 0)
    except OSError:  # such as a sandbox without /proc; caches that could be given up are not counted then
        available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(_LEAST_MEMORY_BYTES, min(most, MEMORY_BYTES, available * 3 // 4))


class NativeTool:
    """A tool in a process of its own. Calls from several threads wait for each other.

    Attributes:
        name, tool, package: as they were given.
        version: of the installed tool, or "".
    """

    def __init__(
        self,
        tool: str,
        name: str,
        package: str,
        *,
        path: Sequence[str] = (),
        version: str = "",
        memory: int | None = MEMORY_BYTES,
        python: Path | None = None,
        first: Mapping[str, str] = MappingProxyType({}),
        last: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Make a tool whose process is not started yet.

        Args:
            tool: one of `ethos_hil.lowering.native.serve.TOOLS`, or a module with a function `answer`.
            name: in messages.
            package: the distribution that has it.
            path: Python's path in its process, for a tool that is installed elsewhere; by default this process's.
            version: of the tool that is installed elsewhere.
            memory: bytes that a call may take at most; None for no limit.
            python: another interpreter, with a path of its own.
            first: packages that are taken from a folder, whatever is in Python's path, and
            last: those that are taken from one where Python's path has none.
        """
        self.name, self.tool, self.package = name, tool, package
        self._path = tuple(path)
        self._version = version
        self._memory = memory
        self._python = python
        self._first, self._last = dict(first), dict(last)
        self._lock = threading.RLock()
        self._process: _Process | None = None
        _tools.append(self)

    @property
    def version(self) -> str:
        return self._version if self._path else version(self.package) or ""

    def start(self, *, forked: bool = False) -> None:
        """Start the process if there is none, and have it import the tool meanwhile. Raises ToolError.

        Args:
            forked: as a fork of this process, if that has a single thread and no torch: what is imported here need not
                be imported there. NumPy is two thirds of what a worker takes.
        """
        with self._lock:
            if self._process is not None and self._process.process.poll() is not None and self._process.idle:
                self.stop()
            if self._process is None:
                alone = threading.active_count() == 1 and "torch" not in sys.modules
                self._process = _Process(self.tool, self._memory, forked=forked and alone, python=self._python)
                path = [] if self._python is not None else list(self._path) or sys.path
                packages = {"first": self._first, "last": self._last}
                self._process.send({"tool": self.tool, "path": path, **packages, "seconds": LIMIT_SECONDS}, ())

    def require(self) -> None:
        """Wait until the tool is imported.

        Raises:
            ToolRaised: it cannot be imported.
            NativeCrash: that ends its process.
            ToolError: the process cannot be started.
        """
        with self._call() as process:
            self._import(process)

    def call(
        self,
        header: dict[str, Any],
        blocks: Sequence[bytes] = (),
        *,
        seconds: int = LIMIT_SECONDS,
        tell: Callable[[str], None] = lambda _: None,
    ) -> ToolAnswer:
        """Call the tool.

        Args:
            header: the fields of its request (`ethos_hil.lowering.native.serve`).
            blocks: the bytes of its request.
            seconds: CPU time that it may take.
            tell: is told what the tool does.

        Raises:
            ToolRaised: it raises an exception, or cannot be imported. What it printed is a note.
            NativeCrash: the call ends its process, or takes more CPU time or memory than it may.
            ToolError: the process cannot be started.
        """
        with self._call() as process:
            self._import(process)
            process.send({**header, "seconds": seconds}, blocks)
            answer, data = process.receive(tell)
            listing = process.listing(_LISTING_BYTES)
            if answer.get("raised") == "MemoryError":
                raise process.without_memory()
            self._raise(answer, listing)
            return ToolAnswer(answer, tuple(data), listing)

    @contextlib.contextmanager
    def _call(self) -> Iterator[_Process]:
        with self._lock:
            self.start()
            assert self._process is not None
            try:
                yield self._process
            except BaseException as error:
                if not isinstance(error, ToolRaised):
                    self.stop()  # it has ended, or is still at work on what no one waits for
                raise

    def _import(self, process: _Process) -> None:
        if not process.ready:
            answer, _ = process.receive()
            if "raised" in answer:
                self.stop()
            self._raise(answer, "")
            process.ready = True

    @staticmethod
    def _raise(answer: dict[str, Any], listing: str) -> None:
        if "raised" in answer:
            error = ToolRaised(str(answer["raised"]), str(answer["text"]))
            if listing.strip():
                error.add_note(f"printed meanwhile:\n{listing[-_NOTE_BYTES:].strip()}")
            raise error

    def stop(self) -> None:
        """End the process if there is one."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                process.end()

    def forget(self) -> None:
        """Leave the process to the parent of this forked process: files kept open here would keep it alive."""
        self._lock = threading.RLock()
        process, self._process = self._process, None
        if process is not None:
            process.abandon()


_tools: list[NativeTool] = []
VELA = NativeTool("vela", "Vela", "ethos-u-vela")
REFERENCE_MODEL = NativeTool("tosa_reference_model", "tosa_reference_model", "tosa-tools")


def _stop() -> None:
    for tool in _tools:
        tool.stop()


def _after_fork() -> None:
    for tool in _tools:
        tool.forget()


atexit.register(_stop)
os.register_at_fork(after_in_child=_after_fork)
