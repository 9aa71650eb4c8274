"""pyOCD's remote probe protocol, as a probe speaks it that is connected by SWD.

A request is a line of JSON with "id", "request" and "arguments"; the answer has "id", "status" and "result" or "error".
pyOCD describes it in docs/remote_probe_protocol.md, version 1. The probe has SWD alone, and no SWO.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ethos_hil.suites.lab.bench.probes.debug_port import DebugPort, StickyError
from ethos_hil.suites.lab.bench.probes.front_end import FrontEnd
from ethos_hil.suites.lab.bench.probes.probed_board import BusFault

VERSION = 1
GENERAL_ERROR, TRANSFER_FAULT = 1, 12
_PROPERTIES: dict[str, object] = {
    "vendor_name": "ethos-hil",
    "product_name": "simulated probe",
    "unique_id": "bench",
    "capabilities": ["SWJ_SEQUENCE", "BANKED_DP_REGISTERS"],
    "supported_wire_protocols": ["DEFAULT", "SWD"],
    "wire_protocol": "SWD",
}
_NOTHING = ("open", "lock", "unlock", "connect", "disconnect", "swj_sequence", "set_clock", "flush")
"""Requests without an effect on what is simulated."""


class RequestError(Exception):
    """A request that cannot be carried out. The message says why."""


class RemoteProbe(FrontEnd):
    """A probe with one client."""

    def __init__(self, port: DebugPort) -> None:
        """Make one for a debug port."""
        self._port = port
        self._line = b""
        self._ended = self._in_reset = False
        self._requests: dict[str, Callable[..., object]] = {
            **dict.fromkeys(_NOTHING, _nothing),
            "hello": _hello,
            "close": self._close,
            "readprop": _property,
            "reset": port.bus.reset,
            "assert_reset": self._assert_reset,
            "is_reset_asserted": lambda: self._in_reset,
            "read_dp": port.read,
            "write_dp": port.write,
            "read_ap": port.read_ap,
            "write_ap": port.write_ap,
            "read_ap_multiple": lambda register, count: [port.read_ap(register) for _ in range(count)],
            "write_ap_multiple": self._write_many,
            "get_memory_interface_for_ap": _nothing,
            "has_swo": lambda: False,
        }

    @property
    def ended(self) -> bool:
        """Whether the client has closed the probe."""
        return self._ended

    def feed(self, data: bytes) -> bytes:
        """Carry out the requests that are whole now."""
        *lines, self._line = (self._line + data).split(b"\n")
        return b"".join(json.dumps(self._answer(line)).encode() + b"\n" for line in lines)

    def _answer(self, line: bytes) -> dict[str, object]:
        number: object = -1
        try:
            request = json.loads(line)
            number = request["id"]
            body = self._requests.get(request["request"])
            if body is None:
                raise RequestError(f"there is no request {request['request']!r}")
            result = body(*request.get("arguments", ()))
        except (StickyError, BusFault) as error:
            return {"id": number, "status": TRANSFER_FAULT, "error": str(error)}
        except (RequestError, ValueError, LookupError, TypeError, AttributeError) as error:
            return {"id": number, "status": GENERAL_ERROR, "error": f"{type(error).__name__}: {error}"}
        return {"id": number, "status": 0} | ({} if result is None else {"result": result})

    def _write_many(self, register: int, values: list[int]) -> None:
        for value in values:
            self._port.write_ap(register, value)

    def _assert_reset(self, asserted: bool) -> None:
        if self._in_reset and not asserted:
            self._port.bus.reset()
        self._in_reset = asserted

    def _close(self) -> None:
        self._ended = True


def _nothing(*_: object) -> None:
    """Do nothing, and have no result."""


def _hello(version: int) -> None:
    if version != VERSION:
        raise RequestError(f"the client speaks version {version}, the probe {VERSION}")


def _property(name: str) -> Any:
    if name not in _PROPERTIES:
        raise RequestError(f"there is no property {name!r}")
    return _PROPERTIES[name]
