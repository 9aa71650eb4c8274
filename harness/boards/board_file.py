"""Reads a board from its file, and from the files that it extends.

What is wrong is said with file, line, key, what was found and what was expected. Values have to fit one another:
memories, the firmware's places, clocks and the loader's words.
"""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ethos_hil.base.checked_toml import CheckedToml, problem_of, read_checked
from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.npu.family import Family
from ethos_hil.base.plain_text import did_you_mean
from ethos_hil.harness.boards.board import (
    SERVER_COMMANDS,
    UNTRIED,
    Board,
    BoardValue,
    LinkSettings,
    Loading,
    Power,
    Quirk,
    ResetWords,
    Server,
)
from ethos_hil.harness.boards.board_schema import PLACES, board_schema
from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.harness.socs.soc import KIB, FirmwareBoard, Memory, NpuChoice, Soc, Window

LEAST_PACKAGE = 64 * KIB
"""Bytes of the smallest window for programs that is of any use."""
MOST_DEVIATION = 0.025
"""Of a baud rate. The stop bit of ten is sampled in its middle, 9.5 bits after the start, so the two ends may differ by
half a bit in 9.5, 5.3 %; each may have half of that, less what their sampling in sixteenths costs."""
_PLACEHOLDER = re.compile(r"\{(\w*)\}")
_KNOWN = ("port", "serial", "device")
_ADDRESS = re.compile(r"[^\s:]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5}")


@dataclass(frozen=True)
class Complaint:
    """What is wrong with a board.

    Attributes:
        key: the place in its file.
        message: what was found, and what was expected.
        hint: what to do; None for a look into the document.
    """

    key: str
    message: str
    hint: str | None = None


@dataclass(frozen=True)
class BaudRates:
    """What a UART can make of its clock.

    Attributes:
        step: cycles of the clock by which the length of a bit can be set.
        least: cycles of the shortest bit.
    """

    step: float
    least: float

    def deviation(self, clock_hz: int, baud: int) -> float:
        """Return by how much the nearest rate differs from `baud`, as a part of it."""
        cycles = max(round(clock_hz / baud / self.step) * self.step, self.least)
        return abs(clock_hz / cycles / baud - 1)


_RATES = {
    # Arm Cortex-M System Design Kit TRM, "APB UART": a divider of at least 16.
    "cmsdk": BaudRates(1, 16),
    # PL011 TRM, "Baud rate": sixteen samples a bit, a divider with six bits behind the point.
    "pl011": BaudRates(16 / 64, 16),
    "ns16550": BaudRates(16, 16),
    # OpenNuvoton/M55M1BSP, Library/StdDriver/inc/uart.h: in mode 2 a bit has BRD + 2 cycles; the examples of uart_reg.h
    # start with a BRD of 8.
    "numicro": BaudRates(1, 10),
    # renesas/fsp, r_sci_b_uart.c: with BGDM and ABCS, eight cycles times a divider.
    "sci": BaudRates(8, 8),
}
FRACTION_BITS = "FRACTION_BITS"
"""The option of an ns16550 that has a divider with so many bits behind the point, as DesignWare's may."""


def check_board(board: Board) -> Iterator[Complaint]:
    """Yield what is wrong with a board, the worst first."""
    yield from _memories(board.soc)
    yield from _devices(board.soc)
    yield from _places(board.soc)
    yield from _vectors(board.soc)
    yield from _driver(board)
    yield from _rates(board)
    yield from _loading(board)
    yield from _words(board)


def _range(window: Window, base: int | None = None) -> str:
    first = window.base if base is None else base
    return f"0x{first:08x} to 0x{first + window.size - 1:08x}"


def _memories(soc: Soc) -> Iterator[Complaint]:
    spans = ((base, base + memory.size, memory) for memory in soc.memories for base in memory.bases)
    ranges = sorted(spans, key=lambda span: span[:2])
    for (first, end, memory), (begin, _, other) in itertools.pairwise(ranges):
        if begin < end:
            yield Complaint(
                f"soc.memories.{other.name}.base",
                f"found {_range(other, begin)}, which overlaps {memory.name}, {_range(memory, first)}",
                "memories and their aliases lie apart; one memory under two addresses has a base and an alias",
            )
    for memory in soc.memories:
        if any(base + memory.size > 1 << 32 for base in memory.bases):
            yield Complaint(
                f"soc.memories.{memory.name}.size", f"found 0x{memory.size:08x}, which runs past 0xffffffff"
            )


def _devices(soc: Soc) -> Iterator[Complaint]:
    for key, window in (("soc.npu", soc.npu_registers), ("soc.uart", soc.uarts[0])):
        for memory in soc.memories:
            if any(base < at + memory.size and at < base + window.size for base in window.bases for at in memory.bases):
                yield Complaint(f"{key}.base", f"found {_range(window)}, which is in the memory {memory.name}")
        if window.base % 4:
            yield Complaint(f"{key}.base", f"found 0x{window.base:08x}; expected a multiple of 4")
    if soc.secure_bit & (soc.secure_bit - 1):
        yield Complaint("soc.secure_bit", f"found 0x{soc.secure_bit:08x}; expected one bit, or 0")


def _places(soc: Soc) -> Iterator[Complaint]:
    board = soc.firmware
    for part in ("data", "stack", "pool"):
        memory = soc.memory(getattr(board, part))
        if memory.read_only:
            yield Complaint(
                f"soc.firmware.{part}", f"found {memory.name}, which is read-only; expected one to write to"
            )
    if not soc.memory(board.pool).npu:
        yield _complain_of_reach("soc.firmware.pool", board.pool, soc)
    package = board.package
    home = next((memory for memory in soc.memories if memory.holds(package.base, package.size)), None)
    key = "soc.firmware.package.base"
    if home is None:
        yield Complaint(
            key, f"found {_range(package)}, which is in no memory; expected a part of one that the NPU reaches"
        )
    elif not home.npu:
        yield _complain_of_reach(key, home.name, soc)
    elif home.name in [getattr(board, part) for part in PLACES]:
        part = next(part for part in PLACES if getattr(board, part) == home.name)
        yield Complaint(
            key,
            f"found {_range(package)} in {home.name}, where soc.firmware.{part} is too",
            "give the package a memory of its own: one memory may be described as two, one behind the other",
        )
    if package.base % 16:
        yield Complaint(key, f"found 0x{package.base:08x}; expected a multiple of 16")
    if package.size < LEAST_PACKAGE:
        yield Complaint("soc.firmware.package.size", f"found {package.size} bytes; expected {LEAST_PACKAGE} at least")


def _complain_of_reach(key: str, name: str, soc: Soc) -> Complaint:
    reached = ", ".join(memory.name for memory in soc.memories if memory.npu) or "none"
    return Complaint(key, f"found {name}, which the NPU does not reach; it reaches {reached}")


def _vectors(soc: Soc) -> Iterator[Complaint]:
    """Armv8-M Architecture Reference Manual, VTOR: the table is aligned to its size, rounded up to a power of two."""
    if soc.npu_irq >= soc.interrupts:
        yield Complaint(
            "soc.npu.irq", f"found {soc.npu_irq}; expected less than soc.interrupts, which is {soc.interrupts}"
        )
    alignment = max(1 << (4 * (16 + soc.interrupts) - 1).bit_length(), 128)
    if soc.boot % alignment:
        yield Complaint(
            f"soc.memories.{soc.firmware.boot}.base",
            f"found 0x{soc.boot:08x}; expected a multiple of 0x{alignment:x}, as the vector table of {soc.interrupts} "
            "interrupts starts there",
        )


def _driver(board: Board) -> Iterator[Complaint]:
    driver = board.soc.firmware.driver
    for index, name in enumerate(board.npus):
        if EthosU.parse(name).family.driver != driver:
            yield Complaint(
                "soc.firmware.driver", f"found {driver!r}, which does not drive npus[{index + 1}], an {name}"
            )


def _rates(board: Board) -> Iterator[Complaint]:
    link = board.link
    usual, fraction = _RATES[board.soc.uart], dict(board.soc.uart_options).get(FRACTION_BITS, 0)
    rates = BaudRates(usual.step / (1 << fraction), usual.least)
    if link.fastest_baud < link.baud:
        yield Complaint("link.fastest_baud", f"found {link.fastest_baud}; expected link.baud at least, {link.baud}")
    for key, baud in (("link.baud", link.baud), ("link.fastest_baud", link.fastest_baud)):
        deviation = rates.deviation(board.soc.peripheral_hz, baud)
        if deviation > MOST_DEVIATION:
            yield Complaint(
                key,
                f"found {baud}; a {board.soc.uart} UART with a clock of {board.soc.peripheral_hz} Hz misses it by "
                f"{deviation:.1%}; expected {MOST_DEVIATION:.1%} at most",
                "take another rate, or correct soc.peripheral_hz",
            )


def _loading(board: Board) -> Iterator[Complaint]:
    loading = board.loading
    if loading.server is Server.RUNNING:
        if loading.address is None:
            yield Complaint("loading.address", "not given; expected host:port of the server that runs")
        if loading.dialect is None:
            yield Complaint("loading.dialect", "not given; expected whose commands the running server knows")
    elif loading.address is not None:
        yield Complaint(
            "loading.address", f'found {loading.address!r}, and loading.server is "{loading.server}", not "running"'
        )
    elif loading.server is not Server.NONE:
        yield from _command(loading.command)
    if loading.address is not None and not _ADDRESS.fullmatch(loading.address):
        yield Complaint("loading.address", f'found {loading.address!r}; expected "host:port"')


def _command(command: tuple[str, ...]) -> Iterator[Complaint]:
    for word in command:
        for name in _PLACEHOLDER.findall(word):
            if name not in _KNOWN:
                known = ", ".join(f"{{{field}}}" for field in _KNOWN)
                yield Complaint("loading.command", f"found {word!r}; there are {known}")
    if not any("{port}" in word for word in command):
        yield Complaint("loading.command", "found no {port}; expected it, as each run takes a free one")


def _words(board: Board) -> Iterator[Complaint]:
    if board.loading.server is Server.NONE and (board.reset.commands or board.reset.before or board.reset.after):
        yield Complaint("reset", 'found words for a reset, and loading.server is "none", which sends none')
    for when, writes in (("before", board.reset.before), ("after", board.reset.after)):
        for index, write in enumerate(writes):
            if write.address % 4:
                yield Complaint(
                    f"reset.{when}",
                    f"found address 0x{write.address:08x} in entry {index + 1}; expected a multiple of 4",
                )
    if board.power is not None and not board.power.cycle and not (board.power.on and board.power.off):
        yield Complaint("power", "found neither cycle nor both of on and off; expected one of these")


SEE = "docs/boards.md has all keys and an example"
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
_T = TypeVar("_T")
_SAYINGS = ("extends", "sources", "tried")
"""Keys that say something about the others."""
Finder = Callable[[str, Path], Path]
"""Returns the file that another one, which is given as well, extends by that name."""


@dataclass(frozen=True)
class _Layer:
    """One file: its path, and what is in it."""

    path: Path
    file: CheckedToml

    @property
    def name(self) -> str:
        return self.path.stem


def read_board(path: Path, find: Finder, shipped: Path) -> Board:
    """Return the board that a file describes.

    Args:
        path: the file. The board is called as the file is, without its ending.
        find: looks up what files extend.
        shipped: the folder of our own files: a value of another file whose source is not said is from that file.

    Raises:
        UsageError: a file cannot be read, or what it says cannot be.
    """
    layers = _layers(path, find)
    return _BoardReader(layers, shipped).board()


def _layers(path: Path, find: Finder) -> list[_Layer]:
    """Return the file and what it extends, the innermost first."""
    layers: list[_Layer] = []
    while True:
        if any(path.samefile(layer.path) for layer in layers if path.exists()):
            around = " extends ".join(layer.name for layer in [*layers, _Layer(path, layers[0].file)])
            raise UsageError(
                f"{layers[0].file.line_of('extends')}: extends: {around}", hint="let one of them stand alone"
            )
        file = read_checked(path, board_schema(whole=False), SEE)
        layers.append(_Layer(path, file))
        if "extends" not in file.data:
            return layers[::-1]
        path = find(file.data["extends"], path)


class _BoardReader:
    def __init__(self, layers: list[_Layer], shipped: Path) -> None:
        self._layers = layers
        self._top = layers[-1]
        self._shipped = shipped
        merged: dict[str, Any] = {}
        for layer in layers:
            merged = _merge(merged, layer.file.data)
        self._data = {key: value for key, value in merged.items() if key not in _SAYINGS}

    def board(self) -> Board:
        name = self._top.name
        if not _NAME.fullmatch(name):
            raise UsageError(
                f"{self._top.path}: the name of a board cannot be {name!r}",
                hint="call the file with small letters, digits and dashes, such as my-board.toml",
            )
        problem = problem_of(self._data, board_schema(whole=True))
        if problem is not None:
            raise self._error(*problem)
        soc = self._soc()
        board = Board(
            name,
            soc,
            self._data["description"],
            self._npus(soc),
            self._loading(),
            self._link(),
            self._reset(),
            _typed(Power, self._data["power"]) if "power" in self._data else None,
            tuple(Quirk(quirk) for quirk in self._data.get("quirks", ())),
            tuple(self._data.get("notes", ())),
            tuple(self._values(soc)),
            self._top.path,
            self._data.get("simulated", False),
            self._data.get("npu_hz", 0),
        )
        for complaint in check_board(board):
            raise self._complaint(complaint)
        return board

    def _complaint(self, complaint: Complaint) -> UsageError:
        place = complaint.key.split(".")
        if isinstance(self._data["soc"], str) and place[0] == "soc":
            place = ["soc"]
        return self._error(place, f"{complaint.key}: {complaint.message}", hint=complaint.hint)

    def _error(self, place: Sequence[str | int], message: str, *, hint: str | None = None) -> UsageError:
        """Return the error about a key, with the line of the file that has it; without a key, about all files."""
        among = " extends ".join(layer.name for layer in self._layers[::-1])
        note = f" ({among})" if not place and len(self._layers) > 1 else ""
        return UsageError(f"{self._where(place)}: {message}{note}", hint=hint or SEE)

    def _where(self, place: Sequence[str | int]) -> str:
        for layer in reversed(self._layers):
            if _has(layer.file.data, place):
                return layer.file.line_of(*place)
        return self._top.file.line_of(*place)

    def _soc(self) -> Soc:
        data = self._data["soc"]
        if isinstance(data, str):
            return self._find_declared(data)
        layers = [layer for layer in self._layers if isinstance(layer.file.data.get("soc"), Mapping)]
        owner = layers[-1]
        if owner is not layers[0] and "number" not in owner.file.data["soc"]:
            raise UsageError(
                f"{owner.file.line_of('soc')}: soc.number: not given; expected one of its own: what changes [soc] has "
                f"other firmware than {layers[-2].name}, which has {data['number']}",
                hint="give it a number from 1000 on that no other board has",
            )
        if owner.path.parent != self._shipped and (self._shipped / owner.path.name).exists():
            raise UsageError(
                f"{owner.file.line_of('soc')}: soc: {owner.name} is shipped with another [soc]",
                hint=f"give the file another name than {owner.path.name}; without [soc] it may keep it",
            )
        memories = tuple(_typed(Memory, {**memory, "name": name}) for name, memory in data["memories"].items())
        names = [memory.name for memory in memories]
        for part in PLACES:
            if data["firmware"][part] not in names:
                raise self._unknown(("soc", "firmware", part), "memory", data["firmware"][part], names)
        boot = next(memory.base for memory in memories if memory.name == data["firmware"]["boot"])
        return Soc(
            name=owner.name,
            number=data["number"],
            summary=data["summary"],
            boot=boot,
            cpu_hz=data["cpu_hz"],
            peripheral_hz=data["peripheral_hz"],
            memories=memories,
            npus=self._choices(),
            npu_registers=_typed(Window, data["npu"]),
            npu_irq=data["npu"]["irq"],
            uarts=(_typed(Window, data["uart"]),),
            firmware=_typed(FirmwareBoard, {**data["firmware"], "name": owner.name}),
            secure_bit=data.get("secure_bit", 1 << 28),
            uart=data["uart"]["driver"],
            uart_options=tuple(data["uart"].get("options", {}).items()),
            options=tuple(data.get("options", {}).items()),
            interrupts=data.get("interrupts", 128),
        )

    def _find_declared(self, name: str) -> Soc:
        for soc in SOCS:
            if soc.name == name:
                return soc
        raise self._unknown(("soc",), "system on chip", name, [soc.name for soc in SOCS])

    def _unknown(self, place: Sequence[str], what: str, name: str, known: Sequence[str]) -> UsageError:
        suggestion = did_you_mean(name, known)
        return self._error(
            place, f"{'.'.join(place)}: no {what} is called {name!r}", hint=f"{suggestion}there are {', '.join(known)}"
        )

    def _names(self) -> list[EthosU]:
        names = []
        for index, text in enumerate(self._data["npus"]):
            try:
                names.append(EthosU.parse(text))
            except UsageError as error:
                raise self._error(("npus", index), f"npus[{index + 1}]: {error.message}", hint=error.hint) from None
        return names

    def _choices(self) -> tuple[NpuChoice, ...]:
        macs: dict[Family, list[int]] = {}
        for name in self._names():
            macs.setdefault(name.family, []).append(name.macs)
        return tuple(NpuChoice(family, tuple(sorted(sizes)), sizes[0]) for family, sizes in macs.items())

    def _npus(self, soc: Soc) -> tuple[str, ...]:
        names = tuple(str(name) for name in self._names())
        for index, name in enumerate(names):
            if name not in soc.npu_names:
                raise self._error(
                    ("npus", index), f"npus[{index + 1}]: {soc.name} has no {name}; it has {', '.join(soc.npu_names)}"
                )
        return names

    def _loading(self) -> Loading:
        data = self._data["loading"]
        server = Server(data["server"])
        own = server.value if server not in (Server.NONE, Server.RUNNING) else None
        return _typed(Loading, {"dialect": own, "command": SERVER_COMMANDS.get(server, ()), **data})

    def _link(self) -> LinkSettings:
        data = self._data["link"]
        return _typed(LinkSettings, {"url": None, "fastest_baud": data["baud"], **data})

    def _reset(self) -> ResetWords:
        dialect = self._loading().dialect
        usual = () if dialect is None else dialect.words.reset_and_halt
        return _typed(ResetWords, {"commands": usual, **self._data.get("reset", {})})

    def _values(self, soc: Soc) -> Iterator[BoardValue]:
        """Yield all values. The file that a value is from says its source: another's source is not this one's."""
        leaves = dict(_leaves(self._data))
        sources: dict[str, tuple[str, str]] = {}
        for layer in self._layers:
            if isinstance(layer.file.data.get("soc"), str):
                leaves |= dict(_declared_leaves(soc))
            default = "" if layer.path.parent == self._shipped else layer.path.name
            for key, own in _sources_in(layer.file.data, soc).items():
                sources[key] = (
                    _nearest(layer.file.data.get("sources", {}), key) or own or default,
                    _nearest(layer.file.data.get("tried", {}), key) or UNTRIED,
                )
            for table in ("sources", "tried"):
                for key in layer.file.data.get(table, {}):
                    if not any(leaf == key or leaf.startswith(f"{key}.") for leaf in leaves):
                        raise self._pointless(layer, table, key, list(leaves))
        for key, value in leaves.items():
            yield BoardValue(key, value, *sources[key])

    def _pointless(self, layer: _Layer, table: str, key: str, known: list[str]) -> UsageError:
        tables = {key.rpartition(".")[0] for key in known} - {""}
        close = difflib.get_close_matches(key, [*known, *tables], n=1)
        hint = f"did you mean {close[0]}? It is" if close else "a key is"
        return UsageError(
            f'{layer.file.line_of(table, key)}: {table}."{key}": the file has no value there',
            hint=f'{hint} written as its place, in quotes: "soc.npu.irq"',
        )


def _merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return both; tables are merged, anything else is replaced."""
    both = dict(base)
    for key, value in over.items():
        old = both.get(key)
        both[key] = _merge(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return both


def _has(data: Any, place: Sequence[str | int]) -> bool:
    for part in place:
        if isinstance(data, Mapping) and part in data:
            data = data[str(part)]
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return False
    return True


def _leaves(data: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _sources_in(data: Mapping[str, Any], soc: Soc) -> dict[str, str]:
    """Return the keys that a file has a value for, with the source that they have without its saying so."""
    keys = dict.fromkeys((key for key, _ in _leaves({k: v for k, v in data.items() if k not in _SAYINGS})), "")
    if isinstance(data.get("soc"), str):
        keys |= dict.fromkeys(
            (key for key, _ in _declared_leaves(soc)), f"harness/socs/{soc.name.replace('-', '_')}.py"
        )
    return keys


def _declared_leaves(soc: Soc) -> Iterator[tuple[str, Any]]:
    """Yield the values of a declared system by the places that they would have in a file."""
    yield from (("soc.number", soc.number), ("soc.summary", soc.summary))
    yield from (("soc.cpu_hz", soc.cpu_hz), ("soc.peripheral_hz", soc.peripheral_hz))
    for memory in soc.memories:
        yield f"soc.memories.{memory.name}.base", memory.base
        yield f"soc.memories.{memory.name}.size", memory.size
        if memory.alias is not None:
            yield f"soc.memories.{memory.name}.alias", memory.alias
        yield f"soc.memories.{memory.name}.npu", memory.npu
    yield "soc.npu.base", soc.npu_registers.base
    if soc.npu_registers.alias is not None:
        yield "soc.npu.alias", soc.npu_registers.alias
    yield "soc.npu.irq", soc.npu_irq
    yield from (("soc.uart.driver", soc.uart), ("soc.uart.base", [uart.base for uart in soc.uarts]))
    for part in PLACES:
        yield f"soc.firmware.{part}", getattr(soc.firmware, part)
    yield from (
        ("soc.firmware.package.base", soc.firmware.package.base),
        ("soc.firmware.package.size", soc.firmware.package.size),
    )


def _nearest(texts: Mapping[str, str], key: str) -> str | None:
    """Return what is said of a key, or of what it is a part of."""
    while key:
        if key in texts:
            return texts[key]
        key = key.rpartition(".")[0]
    return None


def _typed(kind: type[_T], data: Mapping[str, Any]) -> _T:
    """Return what a table of the file stands for. The schema has seen to its types."""
    from ethos_hil.base.typed_json import from_json  # late: `doctor` names the boards' folders without any package

    return from_json(kind, data)
