"""The campaign's board: it starts each scenario as if it had just been switched on, and tells what was left behind."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock, Timeout

from ethos_hil.base.deadline import Deadline
from ethos_hil.harness.boards.catalogue import find_board
from ethos_hil.harness.boards.lease import lease_file
from ethos_hil.harness.virtual.tests.programs import NPU
from ethos_hil.lowering.cache.settings import CACHE_VARIABLE
from ethos_hil.suites.lab.bench.bench_board import BenchBoard
from ethos_hil.suites.lab.bench.campaign.harness_user import MARK
from ethos_hil.suites.lab.bench.campaign.scenario import Moment, Scenario

_RELAY = Path(__file__).with_name("gdb_relay.py")
_DYING_SECONDS = 5.0
"""Within which what a process has started ends after it."""
_POLL_SECONDS = 0.02


class CampaignBench:
    """A bench board with a folder for its file and its locks.

    Attributes:
        board: the bench board.
        link: the path of its serial device, for the board's file.
    """

    def __init__(self, folder: Path) -> None:
        """Start it.

        Args:
            folder: an empty one. $ETHOS_HIL_CACHE is set to a folder in it.

        Raises:
            TargetNotAvailable: it does not start.
        """
        self._folder, self.link = folder, folder / "serial"
        folder.mkdir(parents=True, exist_ok=True)
        os.environ[CACHE_VARIABLE] = str(folder / "cache")
        self.board = BenchBoard(NPU)

    def begin(self, scenario: Scenario) -> Path:
        """Make everything new, and return the board's file."""
        self.board.tell("heal")
        self.board.tell(f"seed {scenario.number}")
        self.board.tell("power cycle")
        self.plug_in()
        path = self._folder / "campaign-board.toml"
        path.write_text(self._file(scenario))
        return path

    def heal(self) -> None:
        """Take all faults away. What was unplugged is plugged in again, and has another name."""
        self.board.tell("heal")
        self.plug_in()

    def plug_in(self) -> None:
        """Let the link of the board's file lead to its serial device, as those in /dev/serial/by-id do."""
        fresh = self.link.with_suffix(".new")
        fresh.symlink_to(self.board.status()["serial"])
        fresh.replace(self.link)

    def left_behind(self, board_file: Path, mark: str) -> Iterator[str]:
        """Yield what the harness has left: processes, a held lease, a board set aside, files, its client."""
        deadline = Deadline(_DYING_SECONDS)
        while (processes := _marked(mark)) and not deadline.passed:
            time.sleep(_POLL_SECONDS)
        yield from (f"a process: {process}" for process in processes)
        for path in lease_file(find_board(str(board_file))).parent.iterdir():
            if path.suffix != ".lock":
                yield f"a file: {path.name}: {path.read_text(errors='replace')}"
                continue
            try:
                FileLock(path).acquire(blocking=False).lock.release()
            except Timeout:
                yield f"a lease that is held: {path.read_text()}"
        if not self._serves_gdb():
            yield "a client at the gdb server"

    def seen(self) -> Moment:
        """Return what the board has seen so far."""
        status = self.board.status()
        return Moment(status["packets"], sum(status[way]["passed"] for way in ("to-board", "to-host")))

    def jobs(self) -> int:
        """Return how many jobs its NPU has had."""
        return int(self.board.status()["jobs"])

    def close(self) -> None:
        """End it."""
        self.board.close()

    def gdb_client(self) -> socket.socket:
        """Connect to its gdb server, which halts the board."""
        host, _, port = self.board.gdb.rpartition(":")
        return socket.create_connection((host, int(port)), _DYING_SECONDS)

    def _serves_gdb(self) -> bool:
        """Return whether its gdb server answers: it does, unless someone is there already."""
        with self.gdb_client() as client:
            client.settimeout(_DYING_SECONDS)
            try:
                client.sendall(b"$qSupported#37")
                return client.recv(1) == b"+"
            except OSError:
                return False

    def _file(self, scenario: Scenario) -> str:
        """Return the text of its file."""
        board = self.board
        commands = {what: board.power_command(what) for what in ("on", "off", "cycle")}
        power = "".join(f"{what} = {json.dumps(command)}\n" for what, command in commands.items())
        relay = [sys.executable, "-S", "-E", str(_RELAY), "{port}", board.gdb]
        loading = (
            f'server = "openocd"\ncommand = {json.dumps(relay)}\n'
            if scenario.starts_server
            else f'server = "running"\naddress = {json.dumps(board.gdb)}\n'
        )
        return (
            'description = "the campaign\'s board"\n'
            f'npus = ["{NPU}"]\nsoc = "corstone-300"\nsimulated = true\n'
            f'[loading]\n{loading}dialect = "qemu"\n'
            f"[link]\nurl = {json.dumps(str(self.link))}\nbaud = 115200\nfastest_baud = 921600\n"
            + (f"[power]\n{power}settle = 0.1\n" if scenario.has_power else "")
        )


def _marked(mark: str) -> list[str]:
    """Return the command lines of the processes with a mark."""
    commands = []
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                commands.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # it has ended, or is another user's
    return commands


def server_of(mark: str) -> int | None:
    """Return the process id of the gdb server that a process with a mark has started, or None."""
    wanted = f"{MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                return int(folder.name)
        except OSError:
            continue
    return None
