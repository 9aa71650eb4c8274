"""GDB servers are started, found, and ended in any case. The server here is QEMU's."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.errors import TargetError, TargetNotAvailable, UsageError
from ethos_hil.base.testing.processes import state_of, wait_until
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.boards.board import Loading, Server
from ethos_hil.harness.boards.gdb_server import SERVER_VARIABLE, StartedServer, board_remote, parse_address
from ethos_hil.harness.boards.tests.qemu_servers import marked, qemu_loading
from ethos_hil.harness.gdb.dialect import ServerDialect
from ethos_hil.harness.gdb.remote import GdbRemote


@pytest.fixture(autouse=True)
def _nothing_is_left() -> Iterator[None]:
    before = set(marked(SERVER_VARIABLE))
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    yield
    assert set(marked(SERVER_VARIABLE)) <= before
    assert len(list(Path("/proc/self/fd").iterdir())) <= descriptors


def script(text: str, timeout: float = 5.0) -> Loading:
    """Return a server that is a script of the shell, which gets {port}."""
    return Loading(Server.OPENOCD, ServerDialect.OPENOCD, command=("/bin/sh", "-c", text), timeout=timeout)


LISTEN = (
    f"{sys.executable} -c \"import socket, time; s = socket.create_server(('127.0.0.1', {{port}})); time.sleep(60)\""
)


def test_a_server_that_runs_is_used_and_left(tmp_path: Path) -> None:
    with StartedServer(qemu_loading(tmp_path)) as server:
        running = Loading(Server.RUNNING, ServerDialect.QEMU, address=f"localhost:{server.address[1]}")
        for _ in range(3):
            with board_remote(running) as remote:
                assert remote.server == f"QEMU at localhost:{server.address[1]}"
                assert remote.is_halted()
        assert len(marked(SERVER_VARIABLE)) == 1


def test_a_server_is_started_and_ends_with_what_it_starts(tmp_path: Path) -> None:
    loading = qemu_loading(tmp_path)
    shell = "setsid sleep 100 & sleep 101 & exec " + " ".join(loading.command)
    with board_remote(replace(loading, command=("/bin/sh", "-c", shell))) as remote:
        assert (remote.server, remote.is_halted()) == ("QEMU", True)
        assert len(marked(SERVER_VARIABLE)) == 3
    assert marked(SERVER_VARIABLE) == []


def test_a_server_that_ignores_signals_ends(tmp_path: Path) -> None:
    with StartedServer(script(f"trap '' INT TERM; {LISTEN} & while :; do sleep 1; done")):
        pass


def test_the_port_of_another_core_is_behind_the_first(tmp_path: Path) -> None:
    text = LISTEN.replace("{port})", "{port} + 1)")
    with StartedServer(replace(script(text), core=1)) as server, socket.create_connection(server.address, timeout=5):
        pass


LOADINGS = {
    "no such program": Loading(Server.PYOCD, ServerDialect.PYOCD, command=("no-such-server",)),
    "no program": Loading(Server.PYOCD, ServerDialect.PYOCD, command=("/etc/passwd",)),
    "no command": Loading(Server.PYOCD, ServerDialect.PYOCD, command=()),
    "status 3": script("echo no probe found >&2; exit 3"),
    "status 0": script("exit 0"),
    "a signal": script("ulimit -c 0; kill -SEGV $$"),
    "silence": script("echo waiting for a probe; exec sleep 60", timeout=2.0),
    "many words": script("seq 100000; exit 1", timeout=30),
    "no one at the address": Loading(Server.RUNNING, address="127.0.0.1:1"),
    "no probe": Loading(Server.NONE),
}


@pytest.mark.parametrize("name", LOADINGS)
def test_a_server_that_does_not_serve_is_explained(recorded: Recorded, name: str) -> None:
    """What it said is kept, and bounded."""
    with pytest.raises((TargetNotAvailable, UsageError)) as caught, board_remote(LOADINGS[name]):
        pass
    assert caught.value.hint
    assert len(caught.value.console) <= 40
    message = re.sub(r"port \d+", "port [number]", caught.value.message)
    recorded.check((caught.value.exit_status, caught.value.replace(message=message).failure, caught.value.console[-1:]))


def test_who_listens_and_is_no_gdb_server_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        loading = Loading(Server.RUNNING, ServerDialect.JLINK, address=f"127.0.0.1:{listener.getsockname()[1]}")
        with pytest.raises(TargetError, match="does not answer") as caught, board_remote(loading, seconds=0.3):
            pass
    assert caught.value.kind is FailureKind.PROBE


def test_a_stranger_at_the_port_is_not_taken_for_the_server() -> None:
    """Without the look at who listens, this would connect to it."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        loading = replace(script("exec sleep 60", timeout=0.5), port=stranger.getsockname()[1])
        with pytest.raises(TargetNotAvailable, match="does not listen at port"):
            StartedServer(loading)


def test_a_port_that_was_taken_meanwhile_is_changed(tmp_path: Path) -> None:
    mark = tmp_path / "first"
    text = f"if [ ! -e {mark} ]; then touch {mark}; echo Address already in use; exit 1; fi; exec {LISTEN}"
    with StartedServer(script(text)):
        assert mark.exists()


def signal_and_read(number: signal.Signals, remote: GdbRemote) -> None:
    processes = marked(SERVER_VARIABLE)
    for process in processes:
        os.kill(process, number)
    wait_until(lambda: all(state_of(process) in ("", "T", "Z") for process in processes), "it is stopped or ended")
    remote.read(0x10000000, 4)


@pytest.mark.parametrize(
    ("number", "seconds", "words"),
    [(signal.SIGKILL, 5, "QEMU was ended by SIGKILL"), (signal.SIGSTOP, 0.5, "does not answer a read within 0.5")],
)
def test_a_server_that_dies_or_is_stopped_is_explained(
    tmp_path: Path, number: signal.Signals, seconds: float, words: str
) -> None:
    with (
        pytest.raises(TargetError, match=words) as caught,
        board_remote(qemu_loading(tmp_path), seconds=seconds) as remote,
    ):
        signal_and_read(number, remote)
    assert caught.value.kind is FailureKind.PROBE


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_server_ends_with_the_harness(tmp_path: Path, number: signal.Signals) -> None:
    code = f"""
        import time
        from pathlib import Path
        from ethos_hil.harness.boards.gdb_server import board_remote
        from ethos_hil.harness.boards.tests.qemu_servers import qemu_loading
        with board_remote(qemu_loading(Path({str(tmp_path)!r}))):
            print("served", flush=True)
            time.sleep(60)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == b"served\n"
        assert len(marked(SERVER_VARIABLE)) == 1
        harness.send_signal(number)
        harness.wait(10)
    wait_until(lambda: marked(SERVER_VARIABLE) == [], "the server has ended")


ADDRESSES = {
    "lab:3333": ("lab", 3333),
    "127.0.0.1:1": ("127.0.0.1", 1),
    "[::1]:3333": ("::1", 3333),
    ":3333": ("127.0.0.1", 3333),
}


def test_addresses() -> None:
    assert {text: parse_address(text) for text in ADDRESSES} == ADDRESSES
    for text in ("", "lab", "lab:", "lab:0", "lab:65536", "::1:3333", "lab:3333x"):
        with pytest.raises(UsageError, match="is not an address"):
            parse_address(text)


def test_several_servers_at_once_have_ports_of_their_own() -> None:
    with StartedServer(script(f"exec {LISTEN}")) as one, StartedServer(script(f"exec {LISTEN}")) as other:
        assert one.address != other.address
