"""Where the board of a borrowed place is, or what the harness is told instead."""

from __future__ import annotations

import asyncio
import importlib
import os
import time
from collections.abc import Mapping
from typing import Any

from ethos_hil.harness.farm.side.gdb_server_resource import GDB


def labgrid(module: str) -> Any:
    """Return a module of labgrid."""
    return importlib.import_module(f"labgrid.{module}")


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
        "place": name,
        "owner": owner,
        "serial": _URLS[serial.args.get("protocol", "rfc2217")].format(host, port),
        "gdb": None,
        "dialect": "",
        "power": any(cls in _POWER for _, cls in resources) or role_of(name)[0] is not None,
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
