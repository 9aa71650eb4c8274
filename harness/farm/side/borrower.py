"""Borrows places of a labgrid coordinator, and gives them back.

A place stays with the user that labgrid knows it by, whatever becomes of his processes. So the name under which the
harness borrows has its process id: what a dead process of this machine has borrowed is given back by the next one.
"""

from __future__ import annotations

import asyncio
import getpass
import importlib
import os
import re
import socket
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ethos_hil.harness.farm.side.place_board import SideTrouble, labgrid, place_board

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
        """Return all places: names, tags, and who has them."""
        await self.connect()
        return [
            {"name": place.name, "aliases": sorted(place.aliases), "tags": dict(place.tags), "holder": place.acquired}
            for _, place in sorted(self._session.places.items())
        ]

    async def borrow(self, names: Sequence[str], tags: Mapping[str, str], seconds: float) -> dict[str, Any]:
        """Borrow one of these places and return where its board is. The one that is held already is taken first."""
        await self.connect()
        if self.held is not None and self.held in names and not await self._is_wanted(self.held):
            self.in_use = True
            return await self._board_of(self.held)
        await self.give_back()
        name = await self._wait(names, tags, time.monotonic() + seconds)
        self.in_use = True
        return await self._board_of(name)

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
            await self._board_of(place.name)
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

    async def _board_of(self, name: str) -> dict[str, Any]:
        return await place_board(self._session, name, self._owner)
