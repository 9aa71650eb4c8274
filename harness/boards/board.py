"""What is known of a board: its system on chip, and how it is loaded, reset, powered and talked to.

A board is data. `board_file` reads it from a TOML file, and `catalogue` finds the files; docs/boards.md tells how to
write one.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.harness.gdb.dialect import ServerDialect
from ethos_hil.harness.socs.soc import Soc

UNTRIED = "untried"
"""Who tried a value, where no one is known to have."""


class Server(StrEnum):
    """The program that speaks GDB's remote protocol for a board's probe."""

    NONE = "none"
    """There is no probe: the board has its firmware already, and the monitor in it takes the programs."""
    RUNNING = "running"
    """It was started elsewhere, and is at `Loading.address`."""
    PYOCD = "pyocd"
    OPENOCD = "openocd"
    JLINK = "jlink"
    PROBE_RS = "probe-rs"


@dataclass(frozen=True)
class Loading:
    """How a program gets into the board's memories.

    Attributes:
        server: the program that speaks GDB's remote protocol, or none.
        dialect: whose `monitor` commands it understands; None where there is no server.
        address: "host:port" of a server that runs already; None where it is started.
        command: the server's command line; in each word {port}, {serial} and {device} stand for what is below. ()
            where none is started.
        device: what the server calls the part; "" where it needs no name.
        serial: serial number of the probe; "" for the only one that there is.
        core: number of the processor: a server for several has it at `port` + `core`.
        port: TCP port of a server that is started; 0 for a free one.
        timeout: seconds until a server that is started answers.
    """

    server: Server
    dialect: ServerDialect | None = None
    address: str | None = None
    command: tuple[str, ...] = ()
    device: str = ""
    serial: str = ""
    core: int = 0
    port: int = 0
    timeout: float = 20.0

    def command_line(self, port: int) -> tuple[str, ...]:
        """Return the command that starts the server at `port`.

        A word with {serial} or {device} is left out where that is "", and so is the option before it.
        """
        known = {"{port}": str(port), "{serial}": self.serial, "{device}": self.device}
        words: list[str] = []
        for word in self.command:
            if any(name in word and not value for name, value in known.items()):
                del words[-1:]
                continue
            for name, value in known.items():
                word = word.replace(name, value)
            words.append(word)
        return tuple(words)


@dataclass(frozen=True)
class WordWrite:
    """A 32-bit word that the loader writes to the board.

    Attributes:
        address: where, a multiple of four.
        value: what.
        why: what it is for, in a few words.
    """

    address: int
    value: int
    why: str = ""


@dataclass(frozen=True)
class ResetWords:
    """How the loader resets the board's processor and keeps it halted.

    Attributes:
        commands: `monitor` commands, in their order. () where the board must not be reset; it is only halted then.
        before: words that are written to the halted board before these.
        after: words that are written when it is halted again, before anything is loaded.
    """

    commands: tuple[str, ...] = ()
    before: tuple[WordWrite, ...] = ()
    after: tuple[WordWrite, ...] = ()


@dataclass(frozen=True)
class LinkSettings:
    """The serial line to the firmware.

    Attributes:
        url: a device ("/dev/ttyACM0") or what pyserial's `serial_for_url` takes ("rfc2217://lab:4000"); None where the
            user has to say it.
        baud: bits per second at the start.
        fastest_baud: the rate that the two ends may change to once they understand each other; `baud` where they may
            not.
    """

    url: str | None
    baud: int
    fastest_baud: int


@dataclass(frozen=True)
class Power:
    """Commands of this machine that switch the board. They are not run by a shell.

    Attributes:
        on, off: switch it on and off; () where there is only `cycle`.
        cycle: switches it off and on; () where `off` and `on` do that.
        settle: seconds that it needs after it was switched on.
    """

    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    cycle: tuple[str, ...] = ()
    settle: float = 2.0


class Quirk(StrEnum):
    """What a board does unlike others, so that the code has to. `QUIRKS` tells what it does then."""

    REOPEN_SERIAL = "reopen-serial"
    SHORT_WRITES = "short-writes"


QUIRKS = {
    Quirk.REOPEN_SERIAL: "halting the processor upsets the probe's serial port (DAPLink#657): it is opened again after "
    "a load",
    Quirk.SHORT_WRITES: "its probe breaks packets of more than 64 bytes (openthread#2857): writes have 64 at most",
}
"""What each quirk makes the code do."""


@dataclass(frozen=True)
class BoardValue:
    """A value of a board's file.

    Attributes:
        key: its place in the file: "soc.npu.irq".
        value: what the file says.
        source: where it is from; "" where the file does not say.
        tried: who tried it on a real board, or UNTRIED.
    """

    key: str
    value: object
    source: str
    tried: str

    def __str__(self) -> str:
        """Return the value as a file would have it; addresses and sizes are hexadecimal."""
        return _show(self.key, self.value)


_HEXADECIMAL = ("base", "alias", "size", "address", "value", "secure_bit")


def _show(key: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"0x{value:08x}" if key.rpartition(".")[2] in _HEXADECIMAL else str(value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {_show(name, item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(_show(key, item) for item in value) if value else "none"
    return str(value)


@dataclass(frozen=True)
class Board:
    """A board.

    Attributes:
        name: its name: `--target board:NAME`.
        soc: its system on chip, for which the firmware is built.
        description: maker, processor and NPU, in a few words.
        npus: names of the NPUs that it can have; one for all but FPGA boards.
        loading: how a program gets into it.
        link: its serial line.
        reset: how it is reset.
        power: how it is switched on and off; None where this machine cannot.
        quirks: what it does unlike others.
        notes: what its user has to do or know first, as sentences.
        values: all that its file says, with sources, in the file's order.
        path: the file that describes it.
        simulated: whether it is a program, whose NPU's cycles are modelled and whose processor counts instructions.
        npu_hz: the NPU's clock, as the firmware leaves it; 0 where it is not known.
    """

    name: str
    soc: Soc
    description: str
    npus: tuple[str, ...]
    loading: Loading
    link: LinkSettings
    reset: ResetWords
    power: Power | None
    quirks: tuple[Quirk, ...]
    notes: tuple[str, ...]
    values: tuple[BoardValue, ...]
    path: Path
    simulated: bool = False
    npu_hz: int = 0

    @property
    def untried(self) -> int:
        """How many values of its file no one is known to have tried on a real board."""
        return sum(value.tried == UNTRIED for value in self.values)

    def value(self, key: str) -> BoardValue:
        """Return what the file says at `key`. Raises KeyError where it says nothing."""
        for entry in self.values:
            if entry.key == key:
                return entry
        raise KeyError(f"{self.path} has no {key}")


SERVER_COMMANDS = {
    Server.PYOCD: (
        *("pyocd", "gdbserver", "-u", "{serial}", "-t", "{device}", "-p", "{port}"),
        *("-O", "connect_mode=halt", "-O", "cache.enable_memory=false"),
    ),
    Server.OPENOCD: (
        *("openocd", "-f", "interface/cmsis-dap.cfg", "-c", "adapter serial {serial}", "-c", "transport select swd"),
        *("-f", "{device}", "-c", "gdb_port {port}", "-c", "tcl_port disabled", "-c", "telnet_port disabled"),
        *("-c", "gdb_memory_map disable"),
    ),
    Server.JLINK: (
        *("JLinkGDBServer", "-select", "usb={serial}", "-device", "{device}", "-if", "swd", "-speed", "4000"),
        *("-port", "{port}", "-silent", "-nogui", "-singlerun", "-endian", "little"),
    ),
    Server.PROBE_RS: (
        *("probe-rs", "gdb", "--chip", "{device}", "--probe", "{serial}"),
        *("--gdb-connection-string", "127.0.0.1:{port}"),
    ),
}
"""The command lines, as `Loading.command` has them."""
