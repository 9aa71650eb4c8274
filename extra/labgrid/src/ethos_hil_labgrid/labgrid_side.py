"""The program that runs with labgrid's Python: it borrows a place, says where its board is, and gives it back.

labgrid brings a pyserial of its own, so it never comes into the environment of ethos-hil. This file needs labgrid and
the standard library, nothing else. The ways to use it:

    python -I labgrid_side.py serve HOST:PORT PARENT              # PARENT: id of the process whose end is its own
    python -I labgrid_side.py power HOST:PORT OWNER PLACE cycle   # OWNER: "host/user" that has the place
    labgrid-client -c FILE ...                                    # FILE: `imports: [".../labgrid_side.py"]`

The last one is for `labgrid-client`, which has to know the resource class GdbServer for some of its commands.

A place stays with the user that labgrid knows it by, whatever becomes of his processes. So the name under which it is
borrowed has a process id: what a dead process of this machine has borrowed is given back by the next one.
"""

from __future__ import annotations

import asyncio
import getpass
import importlib
import json
import logging
import os
import re
import signal
import socket
import sys
import time
import zlib
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

GDB = "GdbServer"


def labgrid(module: str) -> Any:
    """Return a module of labgrid."""
    return importlib.import_module(f"labgrid.{module}")


def register_gdb_server() -> None:
    """Make the class known to labgrid, where it is not yet.

    Its attributes are those in exporter.yaml: host, port, and the dialect of its monitor commands where it is not the
    one that the board's file states.
    """
    factory = importlib.import_module("labgrid.factory").target_factory
    if GDB in factory.all_classes:
        return
    attr = importlib.import_module("attr")
    network_resource = importlib.import_module("labgrid.resource.common").NetworkResource
    fields = {
        "port": attr.ib(validator=attr.validators.instance_of(int)),
        "dialect": attr.ib(default="", validator=attr.validators.instance_of(str)),
    }
    factory.reg_resource(attr.s(eq=False)(type(GDB, (network_resource,), fields)))


class SideTrouble(Exception):
    """A word for the kind, what is wrong, and what to do."""

    def __init__(self, kind: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.answer = {"error": kind, "message": message, "hint": hint}


_SERIAL = "NetworkSerialPort"
_CHOSEN = {_SERIAL: "serial", GDB: "gdb"}
"""The name that tells one of several resources of a class from the others."""
_POWER = (
    "NetworkPowerPort",
    "NetworkUSBPowerPort",
    "NetworkSiSPMPowerPort",
    "PDUDaemonPort",
    "TasmotaPowerPort",
    "NetworkYKUSHPowerPort",
    "NetworkSysfsGPIO",
)
"""The resources that `labgrid-client power` has a driver for (labgrid 26.0.1, remote/client.py, `power`)."""
_URLS = {"rfc2217": "rfc2217://{}:{}?ign_set_control", "raw": "socket://{}:{}"}
"""For pyserial, by labgrid's protocols. ser2net does not answer requests to set DTR and RTS where a port has none, as a
pseudo-terminal (4.3.11), and nothing here needs them.
"""
_SECONDS = 10.0
"""For an exporter to say at which port the serial line is: it starts ser2net when a place is borrowed."""
_POLL_SECONDS = 0.1


async def place_board(session: Any, name: str, owner: str) -> dict[str, Any]:
    """Return what the harness is told of a place that is borrowed.

    Args:
        session: labgrid's, which is connected.
        name: the place's.
        owner: under which name it is borrowed.

    Raises:
        SideTrouble: it has no serial port that can be used now.
    """
    until = time.monotonic() + _SECONDS
    while True:
        try:
            resources = session.get_target_resources(session.places[name])
        except (labgrid("remote.client").Error, KeyError):
            raise SideTrouble(
                "resource", f"the place {name} has lost its resources", "is its labgrid-exporter still running?"
            ) from None
        serial = _one(name, resources, _SERIAL)
        if serial is None:
            raise SideTrouble(
                "resource",
                f"the place {name} has no serial port among {', '.join(cls for _, cls in resources) or 'nothing'}",
                "export a RawSerialPort or USBSerialPort, and match it: `labgrid-client -p PLACE add-match`",
            )
        if serial.avail and serial.args.get("port"):
            break
        if time.monotonic() >= until:
            raise SideTrouble(
                "resource",
                f"the serial port of the place {name} is not available at its exporter",
                "is the cable plugged in there?",
            )
        await asyncio.sleep(_POLL_SECONDS)
    host, port = await _address(name, serial)
    answer = {
        "name": name,
        "owner": owner,
        "serial": _URLS[serial.args.get("protocol", "rfc2217")].format(host, port),
        "gdb": None,
        "dialect": "",
        "has_power": any(cls in _POWER for _, cls in resources) or role_of(name)[0] is not None,
    }
    gdb = _one(name, resources, GDB)
    if gdb is not None:
        host, port = await _address(name, gdb)
        answer |= {"gdb": f"{host}:{port}", "dialect": gdb.args.get("dialect", "")}
    return answer


def role_of(place: str) -> tuple[str | None, Any]:
    """Return the role that has this place in the file that LG_ENV names, and the environment of that file."""
    path = os.environ.get("LG_ENV")
    if not path:
        return None, None
    environment = labgrid("environment").Environment(path)
    return labgrid("remote.client").find_role_by_place(environment.config.get_targets(), place), environment


def _one(place: str, resources: Mapping[tuple[str, str], Any], cls: str) -> Any:
    """Return the resource of a class; of several the one with the name that is meant for it."""
    matching = {name: resource for (name, its), resource in resources.items() if its == cls}
    if len(matching) < 2:
        return next(iter(matching.values()), None)
    if _CHOSEN[cls] in matching:
        return matching[_CHOSEN[cls]]
    raise SideTrouble(
        "resource",
        f"the place {place} has several resources of class {cls}: {', '.join(sorted(matching))}",
        f"name the one that the firmware uses {_CHOSEN[cls]!r}: `labgrid-client -p {place} add-named-match`",
    )


async def _address(place: str, entry: Any) -> tuple[str, int]:
    """Return where a resource is reached: at its exporter, or at a port of this machine that ssh forwards."""
    target = labgrid("target").Target(place, env=None)
    resource = labgrid("factory").target_factory.make_resource(target, entry.cls, None, dict(entry.args))
    resource.extra = entry.extra
    proxies = labgrid("util.proxy").proxymanager
    host, port = await asyncio.get_running_loop().run_in_executor(None, lambda: proxies.get_host_and_port(resource))
    return f"[{host}]" if ":" in host else host, port


_MARK = re.compile(r"\+ethos-hil-([0-9a-f]{8})-(\d+)-(\d+)$")


def borrower_name(pid: int) -> tuple[str, str]:
    """Return host and user by which labgrid knows a process of ours."""
    host = os.environ.get("LG_HOSTNAME") or socket.gethostname()
    user = os.environ.get("LG_USERNAME") or getpass.getuser()
    return host, f"{user}+ethos-hil-{_machine()}-{pid}-{_began(pid)}"


def is_left_behind(owner: str, host: str) -> bool:
    """Return whether `owner`, which is "host/user", is a process of ours on this host that is no more."""
    mark = _MARK.search(owner)
    if mark is None or not owner.startswith(f"{host}/") or mark[1] != _machine():
        return False
    return _began(int(mark[2])) != int(mark[3])


def _machine() -> str:
    """Return what tells this machine, as it was started last, and its world of process ids from others of one name."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
        world = str(Path("/proc/self/ns/pid").readlink())
        return f"{zlib.crc32((boot + world).encode()):08x}"
    except OSError:
        return f"{zlib.crc32(os.urandom(8)):08x}"


def _began(pid: int) -> int | None:
    """Return when a process started, in ticks since the boot (22nd field in proc(5)'s stat), or None if it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return None


_CONNECT_SECONDS = 10.0
_RPC_SECONDS = 30.0
_GIVE_BACK_SECONDS = 10.0
_POLL_SECONDS = 0.5


class Borrower:
    """Borrows one place at a time.

    Attributes:
        held: name of the place that is borrowed, or None.
        in_use: whether the harness uses it at the moment. If not, it is given to whoever waits for it.
    """

    def __init__(self, coordinator: str, host: str, user: str, tell: Callable[[str], None]) -> None:
        self._coordinator, self._host, self._owner = coordinator, host, f"{host}/{user}"
        self._tell = tell
        self._session: Any = None
        self._pb = labgrid("remote.generated.labgrid_coordinator_pb2")
        self._rpc_error = importlib.import_module("grpc").aio.AioRpcError
        self.held: str | None = None
        self.in_use = False

    async def connect(self) -> None:
        """Connect to the coordinator, where there is no connection or none any more."""
        if self._session is not None and not self._session.stopping.is_set():
            return
        client = labgrid("remote.client")
        loop = asyncio.get_running_loop()
        # With LG_PROXY it is a port of this machine that ssh forwards.
        address = await loop.run_in_executor(
            None, lambda: client.proxymanager.get_grpc_address(self._coordinator, default_port=20408)
        )
        session = client.ClientSession(address, loop)
        try:
            await asyncio.wait_for(session.start(), _CONNECT_SECONDS)
        except (client.Error, TimeoutError, OSError):
            raise SideTrouble(
                "coordinator",
                f"labgrid's coordinator cannot be reached at {self._coordinator}",
                "start labgrid-coordinator, or say with LG_COORDINATOR=host:port where it is; docs/farm.md has how",
            ) from None
        self._session = session
        held = session.places.get(self.held)
        if held is None or held.acquired != self._owner:
            self.held = None

    async def places(self) -> list[dict[str, Any]]:
        """Return the names and tags of all places."""
        await self.connect()
        return [
            {"name": place.name, "aliases": sorted(place.aliases), "tags": dict(place.tags)}
            for _, place in sorted(self._session.places.items())
        ]

    async def borrow(self, names: Sequence[str], tags: Mapping[str, str], seconds: float) -> dict[str, Any]:
        """Borrow one of these places and return where its board is. The one that is held already is taken first."""
        await self.connect()
        if self.held is not None and self.held in names and not await self._is_wanted(self.held):
            self.in_use = True
            return await place_board(self._session, self.held, self._owner)
        await self.give_back()
        name = await self._wait(names, tags, time.monotonic() + seconds)
        self.in_use = True
        return await place_board(self._session, name, self._owner)

    async def give_back(self) -> None:
        """Give back what is borrowed, if anything."""
        if self.held is None:
            return
        name, self.held, self.in_use = self.held, None, False
        request = self._pb.ReleasePlaceRequest(placename=name, fromuser=self._owner)
        try:
            await self._session.stub.ReleasePlace(request, timeout=_GIVE_BACK_SECONDS, wait_for_ready=True)
        except self._rpc_error as error:
            self._tell(f"the place {name} could not be given back ({error.details()}): the next run does it")

    async def idle(self) -> None:
        """The harness does not use the place now. Give it to whoever waits for it."""
        self.in_use = False
        if self.held is not None and not self._session.stopping.is_set() and await self._is_wanted(self.held):
            await self.give_back()

    async def _is_wanted(self, name: str) -> bool:
        """Return whether another user's reservation waits for this place, or it is not a place any more."""
        waiting = labgrid("remote.common").ReservationState.waiting.value
        try:
            answer = await self._session.stub.GetReservations(self._pb.GetReservationsRequest(), timeout=_RPC_SECONDS)
        except self._rpc_error:
            return False
        place = self._session.places.get(name)
        if place is None:
            return True
        tags = {**place.tags, "name": name}.items()
        return any(
            reservation.state == waiting and dict(reservation.filters["main"].filter).items() <= tags
            for reservation in answer.reservations
            if reservation.owner != self._owner
        )

    async def _wait(self, names: Sequence[str], tags: Mapping[str, str], until: float) -> str:
        """Borrow one of the places as soon as one is free, and return its name.

        Who waits has reservations, so that the coordinator serves all in their order, and those who have a place see
        that it is wanted.
        """
        tokens: list[str] = []
        reported = ""
        try:
            while True:
                await self.connect()
                name = await self._take_one(names)
                if name is not None:
                    return name
                why = self._why(names)
                if time.monotonic() >= until:
                    message = f"no place is free: {why}"
                    raise SideTrouble("leased", message, "wait for them, or name more places: labgrid:PLACE1+PLACE2")
                if why != reported:
                    self._tell(f"waiting for a place: {why}")
                    reported = why
                if not tokens:
                    filters = self._filters(names, tags)
                    tokens = [token for condition in filters if (token := await self._reserve(condition))]
                await asyncio.sleep(_POLL_SECONDS)
                for token in tokens:
                    await self._ask("PollReservation", self._pb.PollReservationRequest(token=token))
        finally:
            for token in tokens:
                await self._ask("CancelReservation", self._pb.CancelReservationRequest(token=token))

    async def _take_one(self, names: Sequence[str]) -> str | None:
        broken = []
        for name in names:
            place = self._session.places.get(name)
            if place is None:
                continue
            if place.acquired and is_left_behind(place.acquired, self._host):
                self._tell(f"the place {name} is with {place.acquired}, which is no more, and is taken back")
                request = self._pb.ReleasePlaceRequest(placename=name, fromuser=place.acquired)
                await self._ask("ReleasePlace", request)
                await self._session.sync_with_coordinator()
            if place.acquired:
                continue
            try:
                if await self._take(place):
                    return name
            except SideTrouble as trouble:
                broken.append(trouble)
        if len(broken) == len(names):
            raise broken[0]
        return None

    async def _take(self, place: Any) -> bool:
        """Try to borrow a place; False if another user was faster, or has reserved it."""
        try:
            self._session.check_matches(place)
        except labgrid("remote.client").Error as error:
            what = str(error).removeprefix("Error: ")
            raise SideTrouble(
                "resource",
                f"nothing is exported for the place {place.name}: {what[:1].lower()}{what[1:]}",
                "is its labgrid-exporter running? `labgrid-client resources` lists what is exported",
            ) from None
        request = self._pb.AcquirePlaceRequest(placename=place.name)
        self.held = place.name  # from now on: who ends this program meanwhile does not know how far it came
        try:
            await self._session.stub.AcquirePlace(request, timeout=_RPC_SECONDS)
        except self._rpc_error as error:
            self.held = None
            if "Failed to acquire resources" in str(error.details()):
                raise SideTrouble(
                    "resource",
                    f"the place {place.name} cannot be had: {error.details()}",
                    "the output of its labgrid-exporter says why: a missing ser2net, a missing device, or another "
                    "place that has the same resource",
                ) from None
            return False
        await self._session.sync_with_coordinator()
        assert place.acquired == self._owner, place.acquired
        try:
            await place_board(self._session, place.name, self._owner)
        except SideTrouble:
            await self.give_back()
            raise
        return True

    def _filters(self, names: Sequence[str], tags: Mapping[str, str]) -> list[dict[str, str]]:
        """Return the filters of the reservations: by tags only if all places that have them will do."""
        tagged = {name for name, place in self._session.places.items() if tags.items() <= place.tags.items()}
        return [dict(tags)] if tags and tagged <= set(names) else [{"name": name} for name in names]

    async def _reserve(self, wanted: Mapping[str, str]) -> str | None:
        filters = {"main": self._pb.Reservation.Filter(filter=wanted)}
        answer = await self._ask("CreateReservation", self._pb.CreateReservationRequest(filters=filters, prio=0.0))
        return None if answer is None else str(answer.reservation.token)

    async def _ask(self, method: str, request: Any) -> Any:
        """Call the coordinator; None where it refuses."""
        try:
            return await getattr(self._session.stub, method)(request, timeout=_RPC_SECONDS)
        except self._rpc_error:
            return None

    def _why(self, names: Sequence[str]) -> str:
        known = [self._session.places[name] for name in names if name in self._session.places]
        return ", ".join(
            f"{place.name} is with {place.acquired}" if place.acquired else f"{place.name} is reserved"
            for place in known
        )


_LOOK_SECONDS = 1.0
"""Between two checks whether a user waits for a place that is borrowed and not in use."""
_PARENT_SECONDS = 0.5


async def serve(coordinator: str, parent: int) -> None:
    """Answer the harness until its pipe or its process ends, and give back what is borrowed then."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    helpers = [
        loop.create_task(_listen(lines, ended)),
        loop.create_task(_watch(parent, ended)),
    ]
    host, user = borrower_name(os.getpid())
    os.environ["LG_HOSTNAME"], os.environ["LG_USERNAME"] = host, user  # where labgrid's own code looks
    borrowed = Borrower(coordinator, host, user, lambda text: _say({"note": text}))
    end = loop.create_task(ended.wait())
    line = loop.create_task(lines.get())
    try:
        while not ended.is_set():
            await asyncio.wait({line, end}, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if line.done():
                work = loop.create_task(_answer(borrowed, json.loads(line.result())))
                line = loop.create_task(lines.get())
            else:
                work = loop.create_task(_look(borrowed))
            await asyncio.wait({work, end}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()  # raises what is wrong with this program
            else:
                work.cancel()
                await asyncio.wait({work})
    finally:
        await borrowed.give_back()
        for task in (*helpers, end, line):
            task.cancel()


async def _look(borrowed: Borrower) -> None:
    """Give a place that is not in use to a user who waits."""
    if borrowed.held is not None and not borrowed.in_use:
        await borrowed.idle()


async def _answer(borrowed: Borrower, words: Mapping[str, Any]) -> None:
    """Carry out a command, and answer."""
    answer: dict[str, Any] = {}
    try:
        if words["do"] == "places":
            answer = {"places": await borrowed.places()}
        elif words["do"] == "borrow":
            answer = await borrowed.borrow(words["places"], words["tags"], words["seconds"])
        elif words["do"] == "idle":
            await borrowed.idle()
        else:
            await borrowed.give_back()
    except SideTrouble as trouble:
        answer = trouble.answer
    _say(answer)


async def _listen(lines: asyncio.Queue[bytes], ended: asyncio.Event) -> None:
    """Take the harness's lines; the end of its pipe is the end."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        lines.put_nowait(line)
    ended.set()


async def _watch(parent: int, ended: asyncio.Event) -> None:
    """Wait for the harness's end: another process may still hold the other end of the pipe."""
    while os.getppid() == parent:
        await asyncio.sleep(_PARENT_SECONDS)
    ended.set()


def _say(answer: Mapping[str, Any]) -> None:
    try:
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # the end of standard input says it, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def power(coordinator: str, owner: str, place: str, action: str) -> int:
    """Switch the power of a borrowed place by labgrid's own drivers. Return an exit status."""
    os.environ["LG_HOSTNAME"], _, os.environ["LG_USERNAME"] = owner.partition("/")
    client = labgrid("remote.client")
    role, environment = role_of(place)
    wanted = Namespace(place=place, action=action, delay=None, name=None, state=None, initial_state=None)
    extra = {"args": wanted, "env": environment if role else None, "role": role}
    try:
        client.start_session(coordinator, extra=extra).power()
    except Exception as error:  # of a driver's library, such as one for HTTP
        sys.stderr.write(f"{place}: power {action}: {type(error).__name__}: {error}\n")
        return 1
    return 0


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says. Return an exit status."""
    logging.disable()  # what matters is said in an answer
    try:
        register_gdb_server()
    except ImportError as error:
        trouble = SideTrouble("labgrid", f"{sys.executable} has no labgrid: {error}", "docs/farm.md has how to install")
        _say(trouble.answer)
        return 3
    match list(arguments):
        case ["serve", coordinator, parent]:
            asyncio.run(serve(coordinator, int(parent)))
            return 0
        case ["power", coordinator, owner, place, action]:
            return power(coordinator, owner, place, action)
    sys.stderr.write("usage: labgrid_side.py serve HOST:PORT PARENT | power HOST:PORT OWNER PLACE on|off|cycle\n")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
if __name__ == "labgrid_side":  # the name by which labgrid imports this file
    register_gdb_server()
