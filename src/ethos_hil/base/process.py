"""Processes of a run, Linux only: child processes that never outlive this one, and signals that end it as Ctrl-C does.

When a signal ends a run, everything that it started is ended, and its folders are removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

_PR_SET_PDEATHSIG = 1
_END_SECONDS = 5.0
_MODULE_END_SECONDS = 10.0
_EXEC_SECONDS = 0.2
"""How long a process may take to start a program, until its environment can be seen."""
SELDOM = 50_000, 20, 100
"""How seldom Python's collector runs in a process of ours: objects that are made, less those that are dropped, before
the youngest are examined; then how many times, before the next older ones are, too. Python's own numbers are 700, 10
and 10."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def dies_with(parent: int) -> Callable[[], None]:
    """Return the function that makes a child die with its parent. The child calls it between fork and exec.

    The parent may have ended before the child asked for the signal. Then no signal comes, so the child checks its
    parent.
    """
    prctl = ctypes.CDLL(None, use_errno=True).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)

    return ask


@contextlib.contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Hold back Ctrl-C and the signals that end a run as it does.

    So none can strike between the start of a child and the moment we know its id.
    """
    # Only the main thread can do this, and only it gets them; None is a handler that Python can't restore.
    here = threading.current_thread() is threading.main_thread()
    before = {number: handler for number in _ENDING if here and (handler := signal.getsignal(number)) is not None}
    caught: list[int] = []
    try:
        for number in before:
            signal.signal(number, lambda sent, frame: caught.append(sent))
        yield
    finally:
        # Blocked, so that all handlers are back before the first of them can raise.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, before)
        for number, handler in before.items():
            signal.signal(number, handler)
        for sent in caught:
            signal.raise_signal(sent)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def start_child(command: Sequence[str], **how: Any) -> subprocess.Popen[Any]:
    """Start a program in a session of its own: Ctrl-C is for this process, which ends it. It dies with this process.

    It reads nothing, and its stdout and stderr are one pipe, unless `how` has other arguments of `subprocess.Popen`.

    Raises:
        OSError: it cannot be started.
    """
    usual = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    process = None
    try:
        with interrupts_deferred():
            process = subprocess.Popen(
                command, start_new_session=True, **{**usual, "preexec_fn": dies_with(os.getpid()), **how}
            )
    except BaseException:
        # What was held back has struck, and the caller, who would end the process, never hears of it.
        if process is not None:
            end_child(process, 0)
        raise
    return process


def end_child(process: subprocess.Popen[Any], seconds: float) -> None:
    """Wait until a child of `start_child` has ended, and kill it with its group if that takes longer than `seconds`.

    It is reaped, and its pipes are closed: that of its stdin first, which ends what reads to the end.
    """
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            wait_for_end(process, seconds)
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def run_module(arguments: Sequence[str], variables: Mapping[str, str], seconds: float | None = None) -> tuple[int, str]:
    """Run a module of this Python as a program, to its end. Return its status, and what it wrote.

    Args:
        arguments: the module's name, and its arguments.
        variables: environment variables on top of our own.
        seconds: how long it may take; None for no limit.

    Raises:
        subprocess.TimeoutExpired: it took longer, and was ended with all that it started.
    """
    command = [sys.executable, "-P", "-m", *arguments]  # -P: a module in the working directory is not the one meant
    process = start_child(command, env={**os.environ, **variables})
    try:
        said = process.communicate(timeout=seconds)[0]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
        end_child(process, _MODULE_END_SECONDS)
    return process.returncode, said.decode(errors="replace")


def end_marked(variable: str, value: str) -> None:
    """Kill every process of this user that has an environment variable of this value, until there is none.

    It finds what a program started and left behind: a process in a session of its own keeps its environment.
    """
    mark = f"{variable}={value}".encode()
    now = time.monotonic()
    end, doubt_ends = now + _END_SECONDS, now + _EXEC_SECONDS
    while time.monotonic() < end:
        marked, doubtful = _find_marked(mark)
        for process in marked:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process, signal.SIGKILL)
        if not marked and (not doubtful or time.monotonic() > doubt_ends):
            return
        time.sleep(0.001)


def _find_marked(mark: bytes) -> tuple[list[int], bool]:
    """Return the processes with this mark, and whether another shows no environment, as one that just starts to run a
    program does.
    """
    pids, doubtful = [], False
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        # Gone meanwhile, or of another user; a zombie or a thread of the kernel has no program either.
        with contextlib.suppress(OSError):
            variables = (folder / "environ").read_bytes()
            if mark in variables.split(b"\0"):
                pids.append(int(folder.name))
            elif not variables:
                doubtful |= bool((folder / "exe").readlink())
    return pids, doubtful


def wait_for_end(process: subprocess.Popen[Any], seconds: float) -> None:
    """Wait until a child has ended, and reap it. `Popen.wait` with a limit looks at intervals, and is up to 50 ms late.

    Raises:
        subprocess.TimeoutExpired: it has not ended within `seconds`.
    """
    until = time.monotonic() + seconds
    if process.poll() is None:
        with contextlib.suppress(OSError):  # before Linux 5.3, or without a free descriptor
            descriptor = os.pidfd_open(process.pid)
            try:
                watch = select.poll()
                watch.register(descriptor, select.POLLIN)
                watch.poll(seconds * 1000)
            finally:
                os.close(descriptor)
    process.wait(max(0.0, until - time.monotonic()))


_SAME_SECONDS = 1.0
"""A closed terminal sends SIGHUP twice: the kernel does, and the shell. The second one must not end the cleaning, and
no more must Ctrl-C from a hand that presses it several times."""
_AGAIN_SECONDS = 0.01
"""Between the end of Python's hook, which drops a signal, and the signal that is sent again."""


def undo_inherited() -> Callable[[], object]:
    """Undo what the program that started this one may have left behind. Only the main thread can call it.

    Where SIGCHLD is ignored, the kernel throws away how children end, and Python takes every child for a success. A
    signal that is blocked ends nothing; no one blocks one on purpose for another program, as `nohup` ignores one.

    Returns:
        As `end_on_signals`.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    if signal.getsignal(signal.SIGCHLD) != signal.SIG_IGN:
        return lambda: None
    return functools.partial(signal.signal, signal.SIGCHLD, signal.signal(signal.SIGCHLD, signal.SIG_DFL))


def end_on_signals() -> Callable[[], None]:
    """Raise KeyboardInterrupt at SIGTERM, SIGHUP and SIGQUIT, as Python does at SIGINT, and `undo_inherited`. Only the
    main thread can call it.

    Further ones within a second of the last have no effect. A signal that is ignored stays ignored (`nohup`), and one
    that has a handler keeps it. Where one strikes in a finalizer or in a callback of an import, Python drops the
    KeyboardInterrupt: the signal is sent once more.

    Returns:
        The function that puts back what was before.
    """
    last = float("-inf")
    struck = signal.SIGINT
    before = contextlib.ExitStack()

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal last, struck
        now = time.monotonic()
        again, last, struck = now - last < _SAME_SECONDS, now, signal.Signals(number)
        if not again:
            raise KeyboardInterrupt

    def send_again(ready: threading.Event) -> None:
        ready.wait()
        time.sleep(_AGAIN_SECONDS)
        os.kill(os.getpid(), struck)

    def hear(dropped: sys.UnraisableHookArgs) -> None:
        nonlocal last
        if issubclass(dropped.exc_type, KeyboardInterrupt):
            # Not before this function has ended, where Python would drop it once more.
            last, ready = float("-inf"), threading.Event()
            threading.Thread(target=send_again, args=(ready,), daemon=True).start()
            ready.set()
        else:
            tell(dropped)

    before.callback(undo_inherited())
    for number in _ENDING:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            before.callback(signal.signal, number, signal.signal(number, interrupt))
    tell, sys.unraisablehook = sys.unraisablehook, hear
    before.callback(setattr, sys, "unraisablehook", tell)
    return before.close


def ignore_further() -> None:
    """Have no signal but SIGKILL change how this process ends. Call it last."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)
