"""A farm on one machine for tests: labgrid's coordinator and exporter, ser2net, and the laboratory's bench boards."""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ethos_hil.harness.clock import Deadline
from ethos_hil.harness.farm.side_process import PYTHON_VARIABLE
from ethos_hil.harness.process import dies_with, end_marked, wait_for_end
from ethos_hil.lowering.cache_settings import cache_folder
from ethos_hil.lowering.file_lock import locked
from ethos_hil.suites.lab.bench.bench_board import BenchBoard

REQUIREMENTS = Path(__file__).parents[1] / "requirements-labgrid.txt"
SER2NET = (4, 2)
"""The exporter gives older ones another command line."""
MARK = "ETHOS_HIL_TEST_FARM"
_INSTALL_SECONDS = 240
_START_SECONDS = 30.0
_END_SECONDS = 10.0


def missing_ser2net() -> str | None:
    """Return what keeps an exporter from offering serial ports here, or None."""
    found = shutil.which("ser2net") or shutil.which("ser2net", path="/usr/sbin")
    if found is None:
        return "ser2net is not installed: apt-get install ser2net"
    said = subprocess.run([found, "-v"], capture_output=True, text=True, timeout=_END_SECONDS).stdout
    version = re.search(r"(\d+)\.(\d+)", said)
    if version is None or (int(version[1]), int(version[2])) < SER2NET:
        return f"ser2net is {said.strip()}; labgrid-exporter needs 4.2"
    return None


def labgrid_environment() -> Path:
    """Return the folder of an environment with labgrid: the given one, or one that is kept beside the tests' cache.

    Raises:
        OSError, subprocess.SubprocessError: it cannot be made.
    """
    given = os.environ.get(PYTHON_VARIABLE)
    if given:
        path = Path(given)
        return path if path.is_dir() else path.parent.parent
    digest = hashlib.sha256(REQUIREMENTS.read_bytes() + sys.version.encode()).hexdigest()[:16]
    folder = cache_folder() / "labgrid" / digest
    with locked(folder.with_suffix(".lock"), limit=_INSTALL_SECONDS):
        if not (folder / "bin/labgrid-client").exists() or not (folder / "ready").exists():
            shutil.rmtree(folder, ignore_errors=True)
            for command in (
                [sys.executable, "-m", "venv", str(folder)],
                [str(folder / "bin/pip"), "install", "-q", "--require-hashes", "-r", str(REQUIREMENTS)],
            ):
                subprocess.run(command, check=True, capture_output=True, timeout=_INSTALL_SECONDS)
            (folder / "ready").touch()
    return folder


@dataclass
class DeskFarm:
    """A farm that runs.

    Attributes:
        environment: labgrid's.
        coordinator: "host:port" of its coordinator.
        boards: of its places, in their order: place board1 has the first one.
        folder: where its files and logs are.
        switched: what labgrid's driver for power asked of it: the number of the board, and "0" or "1".
    """

    environment: Path
    coordinator: str
    boards: Sequence[BenchBoard]
    folder: Path
    switched: list[tuple[int, str]] = field(default_factory=list)

    def client(self, *words: str) -> str:
        """Run labgrid-client and return what it says."""
        done = subprocess.run(
            [str(self.environment / "bin/labgrid-client"), "-x", self.coordinator, *words],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, MARK: str(self.folder)},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def holders(self) -> dict[str, str]:
        """Return who has which place."""
        return {
            name: who
            for name, who in re.findall(r"Place '(\S+)':.*?acquired: (\S+)", self.client("-v", "places"), re.DOTALL)
            if who != "None"
        }

    def wait_until_free(self, seconds: float = 15.0) -> None:
        """Wait until nobody has a place."""
        deadline = Deadline(seconds)
        while holders := self.holders():
            assert not deadline.passed, holders


@contextlib.contextmanager
def desk_farm(environment: Path, folder: Path, boards: Sequence[BenchBoard]) -> Iterator[DeskFarm]:
    """Run a farm of bench boards. Nothing of it is left afterwards."""
    farm = DeskFarm(environment, f"127.0.0.1:{_free_port()}", boards, folder)
    with contextlib.ExitStack() as stack:
        stack.callback(end_marked, MARK, str(folder))
        switch = stack.enter_context(_switch(farm))
        stack.enter_context(_running(farm, "coordinator", "-l", farm.coordinator))
        _wait_for_port(farm.coordinator)
        exports = folder / "exporter.yaml"
        exports.write_text("".join(_export(number, board, switch) for number, board in enumerate(boards, 1)))
        stack.enter_context(
            _running(farm, "exporter", "-c", farm.coordinator, "-n", "desk", "--hostname", "127.0.0.1", str(exports))
        )
        for number in range(1, len(boards) + 1):
            place = f"board{number}"
            farm.client("-p", place, "create")
            farm.client("-p", place, "add-match", f"desk/{place}/*")
            farm.client("-p", place, "set-tags", "board=bench-corstone-300")
        yield farm


def _export(number: int, board: BenchBoard, switch: str) -> str:
    host, _, port = board.gdb.rpartition(":")
    return f"""board{number}:
  RawSerialPort: {{port: {board.serial}, speed: 115200}}
  GdbServer: {{host: {host}, port: {port}}}
  NetworkPowerPort: {{model: simplerest, host: 'http://{switch}/{{index}}/{{value}}', index: {number}}}
"""


@contextlib.contextmanager
def _running(farm: DeskFarm, name: str, *words: str) -> Iterator[None]:
    """Run one of labgrid's programs, with its log in the farm's folder."""
    with (farm.folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(farm.environment / f"bin/labgrid-{name}"), *words],
            cwd=farm.folder,  # the coordinator keeps its places there
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, MARK: str(farm.folder), "PATH": f"{os.environ['PATH']}:/usr/sbin"},
            preexec_fn=dies_with(os.getpid()),
        )
        try:
            yield
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                wait_for_end(process, _END_SECONDS)
            process.kill()
            process.wait()


@contextlib.contextmanager
def _switch(farm: DeskFarm) -> Iterator[str]:
    """Be a power socket that labgrid's driver "simplerest" switches; return its host:port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:  # the name that the library calls
            number, value = self.path.strip("/").split("/")
            farm.switched.append((int(number), value))
            farm.boards[int(number) - 1].tell(f"power {'on' if value == '1' else 'off'}")
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def _wait_for_port(address: str) -> None:
    host, _, port = address.rpartition(":")
    deadline = Deadline(_START_SECONDS)
    while True:
        try:
            socket.create_connection((host, int(port)), 1).close()
        except OSError:
            assert not deadline.passed, f"nothing listens at {address}"
            time.sleep(0.05)
        else:
            return
