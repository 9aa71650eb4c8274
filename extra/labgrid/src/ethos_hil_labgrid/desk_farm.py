"""A farm on one machine: labgrid's coordinator and exporter, ser2net, and a power socket, for boards that are given."""

from __future__ import annotations

import contextlib
import http.server
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ethos_hil.base.deadline import Deadline
from ethos_hil.base.errors import ToolError
from ethos_hil.base.process import dies_with, end_marked, wait_for_end
from ethos_hil.harness.boards.catalogue import BOARDS_VARIABLE
from ethos_hil_labgrid.place import BOARD_TAG
from ethos_hil_labgrid.side_process import COORDINATOR_VARIABLE, PYTHON_VARIABLE

ENVIRONMENT = Path(__file__).resolve().parents[4] / "build/labgrid"
BOARD = "bench-corstone-300"
"""The name of all its boards."""
_SER2NET = (4, 2)
"""The exporter gives older ones another command line."""
_MARK = "ETHOS_HIL_DESK_FARM"
_START_SECONDS = 60.0
_CLIENT_SECONDS = 120.0
_END_SECONDS = 20.0


def labgrid_environment() -> Path:
    """Return the folder of an environment with labgrid: the given one, or the one that make sets up.

    Raises:
        ToolError: there is none, or ser2net is missing; says how to get it.
    """
    if not os.environ.get(PYTHON_VARIABLE) and not (ENVIRONMENT / ".installed").exists():
        raise ToolError("labgrid's environment is not made", hint="make build/labgrid/.installed")
    ser2net = shutil.which("ser2net") or shutil.which("ser2net", path="/usr/sbin")
    if ser2net is None:
        raise ToolError("ser2net is not installed", hint="apt-get install ser2net")
    output = subprocess.run([ser2net, "-v"], capture_output=True, text=True, timeout=_END_SECONDS).stdout
    version = re.search(r"(\d+)\.(\d+)", output)
    if version is None or (int(version[1]), int(version[2])) < _SER2NET:
        raise ToolError(f"ser2net is {output.strip()}", hint="labgrid-exporter needs 4.2")
    path = Path(os.environ.get(PYTHON_VARIABLE) or ENVIRONMENT)
    return path if path.is_dir() else path.parent.parent


class FarmBoard(Protocol):
    """A board at a place of a farm.

    Attributes:
        serial: the device of its serial line.
        gdb: "host:port" of its GDB server.
    """

    serial: str
    gdb: str

    def tell(self, line: str, /) -> str:
        """Have it do something, such as "power off"."""

    def write_board_file(self, folder: Path, name: str, /) -> Path:
        """Write the file of boards of its kind."""

    def close(self) -> None:
        """Have it end."""


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
    boards: Sequence[FarmBoard]
    folder: Path
    switched: list[tuple[int, str]] = field(default_factory=list)
    _running: dict[str, contextlib.ExitStack] = field(default_factory=dict)

    @property
    def variables(self) -> dict[str, str]:
        """What a process needs to use it."""
        return {
            PYTHON_VARIABLE: str(self.environment),
            COORDINATOR_VARIABLE: self.coordinator,
            BOARDS_VARIABLE: str(self.folder / "boards"),
        }

    def client(self, *words: str) -> str:
        """Run labgrid-client and return what it says. It asks again for what an exporter is about to let go.

        Raises:
            ToolError: it fails; has its last line.
        """
        command = [str(self.environment / "bin/labgrid-client"), "-x", self.coordinator, *words]
        marked = {**os.environ, _MARK: str(self.folder)}
        deadline = Deadline(_CLIENT_SECONDS)
        while True:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_CLIENT_SECONDS, env=marked)
            if not done.returncode:
                return done.stdout
            lines = (done.stderr or done.stdout).strip().splitlines()
            if deadline.passed or not lines or "Failed to acquire resources" not in lines[-1]:
                raise ToolError(f"labgrid-client {' '.join(words)}: {lines[-1] if lines else done.returncode}")
            time.sleep(0.2)

    def holders(self) -> dict[str, str]:
        """Return who has which place."""
        places = re.findall(r"Place '(\S+)':.*?acquired: (\S+)", self.client("-v", "places"), re.DOTALL)
        return {name: who for name, who in places if who != "None"}

    def free_within(self, seconds: float) -> dict[str, str]:
        """Return who has which place when no one has one any more, or the time is up."""
        deadline = Deadline(seconds)
        while (holders := self.holders()) and not deadline.passed:
            time.sleep(0.2)
        return holders

    def start(self, name: str) -> None:
        """Start the "coordinator" or the "exporter"."""
        words = {
            "coordinator": ("-l", self.coordinator),
            "exporter": ("-c", self.coordinator, "-n", "desk", "--hostname", "127.0.0.1", "exporter.yaml"),
        }[name]
        stack = self._running[name] = contextlib.ExitStack()
        log = stack.enter_context((self.folder / f"{name}.log").open("ab"))
        process = subprocess.Popen(
            [str(self.environment / f"bin/labgrid-{name}"), *words],
            cwd=self.folder,  # the coordinator keeps its places there
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C on the terminal ends this process, which ends it in its turn
            env={**os.environ, _MARK: str(self.folder), "PATH": f"{os.environ['PATH']}:/usr/sbin"},
            preexec_fn=dies_with(os.getpid()),
        )
        stack.callback(_end, process)
        if name == "coordinator":
            _wait_for_port(self.coordinator)

    def stop(self, name: str) -> None:
        """End the "coordinator" or the "exporter", if it runs."""
        if name in self._running:
            self._running.pop(name).close()


@contextlib.contextmanager
def desk_farm(environment: Path, folder: Path, boards: Sequence[FarmBoard]) -> Iterator[DeskFarm]:
    """Run a farm. Nothing of it is left afterwards but its files.

    Args:
        environment: labgrid's.
        folder: for its files.
        boards: of its places.
    """
    farm = DeskFarm(environment, f"127.0.0.1:{_free_port()}", boards, folder)
    (folder / "boards").mkdir(exist_ok=True)
    boards[0].write_board_file(folder / "boards", BOARD)  # a place says where its board is, so the first one's will do
    with contextlib.ExitStack() as stack:
        stack.callback(end_marked, _MARK, str(folder))
        switch = stack.enter_context(_switch(farm))
        exported = (_export(number, board, switch) for number, board in enumerate(boards, 1))
        (folder / "exporter.yaml").write_text("".join(exported))
        for name in ("coordinator", "exporter"):
            farm.start(name)
            stack.callback(farm.stop, name)
        for place in (f"board{number}" for number in range(1, len(boards) + 1)):
            for words in (("create",), ("add-match", f"desk/{place}/*"), ("set-tags", f"{BOARD_TAG}={BOARD}")):
                farm.client("-p", place, *words)
        yield farm


def _export(number: int, board: FarmBoard, switch: str) -> str:
    host, _, port = board.gdb.rpartition(":")
    return f"""board{number}:
  RawSerialPort: {{port: {board.serial}, speed: 115200}}
  GdbServer: {{host: {host}, port: {port}}}
  NetworkPowerPort: {{model: simplerest, host: 'http://{switch}/{{index}}/{{value}}', index: {number}}}
"""


def _end(process: subprocess.Popen[bytes]) -> None:
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
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _wait_for_port(address: str) -> None:
    host, _, port = address.rpartition(":")
    deadline = Deadline(_START_SECONDS)
    while not deadline.passed:
        with contextlib.suppress(OSError):
            socket.create_connection((host, int(port)), 1).close()
            return
        time.sleep(0.05)
    raise ToolError(f"nothing listens at {address} after {_START_SECONDS:g} s")
