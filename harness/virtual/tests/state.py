"""All of a machine's state by name, as QEMU itself would move it to another host.

A migration stream has every register of every device, and every page of memory that is not shared with this process.
QEMU's docs/devel/migration.rst has its layout; a JSON description at its end names the devices' fields and their sizes.
RAM is in pages of the smallest size that an Arm processor can have.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ethos_hil.base.deadline import Deadline
from ethos_hil.harness.virtual.board import QemuBoard

_PAGE = 1 << 10
_RAM_ZERO, _RAM_SIZES, _RAM_PAGE, _RAM_END, _RAM_SAME_BLOCK = 0x02, 0x04, 0x08, 0x10, 0x20
_END, _START, _FULL, _SUBSECTION, _CONFIGURATION, _COMMAND, _FOOTER = 0, 1, 4, 5, 7, 8, 0x7E

State = dict[str, bytes]


def state_of(board: QemuBoard, folder: Path) -> State:
    """Return every field and every page that is not zero, by name. Afterwards the board can only be stopped."""
    file = folder / "state"
    deadline = Deadline(60)
    capabilities = [{"capability": "x-ignore-shared", "state": True}]  # the DDR, which this process can read directly
    board.qmp.command("migrate-set-capabilities", deadline, capabilities=capabilities)
    board.qmp.command("migrate", deadline, uri=f"exec:cat > {file}")
    while (status := board.qmp.command("query-migrate", deadline)["status"]) != "completed":
        assert status in ("setup", "active", "device"), status
    return _Stream(file.read_bytes()).state


class _Stream:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._block = ""
        self.state: State = {}
        starts = (b'{"page_size"', b'{"configuration": {"vmsd_name"')  # of QEMU 7.2, and of 10.0
        description = json.loads(data[max(map(data.rfind, starts)) : data.rindex(b"}") + 1])
        devices = {(device["name"], device["instance_id"]): device for device in description["devices"]}
        assert self._take(4) == b"QEVM"
        self._take(4)
        while (kind := self._number(1)) != _END:
            if kind == _CONFIGURATION:
                self._configuration()
                continue
            if kind == _COMMAND:  # of QEMU 10.0, to the other host
                self._take(2)
                self._take(self._number(2))
                continue
            number = self._number(4)
            if kind in (_START, _FULL):
                name, instance = self._text(1), self._number(4)
                self._take(4)
            if kind == _FULL:
                self._fields(devices[name, instance], f"{name}{instance}")
            else:
                assert name == "ram"
                self._ram()
            assert (self._number(1), self._number(4)) == (_FOOTER, number)

    def _take(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big")

    def _text(self, size: int) -> str:
        return self._take(self._number(size)).decode()

    def _configuration(self) -> None:
        self._text(4)
        while self._data[self._at] == _SUBSECTION:
            self._take(1)
            assert self._text(1) == "configuration/capabilities"
            self._take(4)
            for _ in range(self._number(4)):
                self._text(1)

    def _fields(self, description: dict[str, Any], name: str) -> None:
        for field in description.get("fields", ()):
            of = f"{name}.{field['name']}" + (f"[{field['index']}]" if "index" in field else "")
            for index in range(field.get("array_len", 1)):
                key = of + (f"[{index}]" if "array_len" in field else "")
                if "struct" in field:
                    self._fields(field["struct"], key)
                else:
                    self.state[key] = self._take(field["size"])
        for subsection in description.get("subsections", ()):
            assert self._number(1) == _SUBSECTION
            assert self._text(1) == subsection["vmsd_name"]
            self._take(4)
            self._fields(subsection, f"{name}/{subsection['vmsd_name']}")

    def _ram(self) -> None:
        while not (word := self._number(8)) & _RAM_END:
            address, flags = word & -_PAGE, word & _PAGE - 1
            if flags & _RAM_SIZES:
                while address > 0:
                    self._text(1)
                    address -= self._number(8)
                    self._take(8)
                continue
            if not flags & _RAM_SAME_BLOCK:
                self._block = self._text(1)
            size = _PAGE if flags & _RAM_PAGE else 1
            assert flags & (_RAM_PAGE | _RAM_ZERO)
            page = self._take(size)
            if any(page):
                self.state[f"{self._block} 0x{address:x}"] = page
