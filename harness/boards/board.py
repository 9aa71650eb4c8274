"""What is known of a board: its system on chip, and how it is loaded, reset, powered and talked to.

A board is data. `board_file` reads it from a TOML file, and `catalogue` finds the files; docs/boards.md tells how to
write one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ethos_hil.harness.socs.soc import Soc

UNTRIED = "untried"
"""Who tried a value, where nobody is known to have."""


class Server(StrEnum):
    """The program that speaks GDB's remote protocol for a board's probe."""

    NONE = "none"
    """There is no probe: the board has its firmware already, and the monitor in it takes the programs."""
    RUNNING = "running"
    """Somebody else started it; it is at `Loading.address`."""
    PYOCD = "pyocd"
    OPENOCD = "openocd"
    JLINK = "jlink"
    PROBE_RS = "probe-rs"


class Dialect(StrEnum):
    """Whose words a server understands as `monitor` commands."""

    QEMU = "qemu"
    PYOCD = "pyocd"
    OPENOCD = "openocd"
    JLINK = "jlink"
    PROBE_RS = "probe-rs"

    @property
    def reset_and_halt(self) -> tuple[str, ...]:
        """Return the `monitor` commands that reset the processor and leave it halted, in their order.

        Sources: QEMU's hmp-commands.hx (it has no "reset"; the machine stays stopped, as it was), pyOCD's and OpenOCD's
        documents of their gdb servers, Zephyr's scripts/west_commands/runners/jlink.py, probe-rs's gdb server, which
        knows "info", "reset" and "reset halt" and nothing else.
        """
        return {
            Dialect.QEMU: ("system_reset",),
            Dialect.PYOCD: ("reset halt",),
            Dialect.OPENOCD: ("reset halt",),
            Dialect.JLINK: ("halt", "reset"),
            Dialect.PROBE_RS: ("reset halt",),
        }[self]


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
    dialect: Dialect | None = None
    address: str | None = None
    command: tuple[str, ...] = ()
    device: str = ""
    serial: str = ""
    core: int = 0
    port: int = 0
    timeout: float = 20.0


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
        printable: whether something on the way obeys control bytes, so that frames have to be made of letters.
    """

    url: str | None
    baud: int
    fastest_baud: int
    printable: bool = False


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
    ONE_BYTE_RECEIVER = "one-byte-receiver"
    SHORT_WRITES = "short-writes"
    UNPOWERED_MEMORY = "unpowered-memory"
    KEEPS_MEMORY = "keeps-memory"


QUIRKS = {
    Quirk.REOPEN_SERIAL: "halting the processor upsets the probe's serial port (DAPLink#657): it is opened anew after a "
    "program was loaded",
    Quirk.ONE_BYTE_RECEIVER: "its UART holds one received byte, so the firmware may lose some: the monitor starts with "
    "small chunks and counts what was lost",
    Quirk.SHORT_WRITES: "its probe breaks packets of more than 64 bytes (openthread#2857): the host writes at most 64 at "
    "a time",
    Quirk.UNPOWERED_MEMORY: "a memory may be without power until another processor switches it on: what cannot be read "
    "back is said to be that",
    Quirk.KEEPS_MEMORY: "a reset keeps what is in memory, so an old answer may still be there: the host spoils it before "
    "each start",
}
"""What each quirk makes the code do."""


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
        sources: where each address, register and clock is from, by its place in the file: ("soc.npu.irq", "...").
        tried: who tried a value on a real board, by its place in the file; of the others nobody is known to have.
        path: the file that describes it.
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
    sources: tuple[tuple[str, str], ...]
    tried: tuple[tuple[str, str], ...]
    path: Path

    def source_of(self, key: str) -> str | None:
        """Return where the value at `key` ("soc.npu.base") is from, or None: said of it, or of what it is a part of."""
        return _nearest(self.sources, key)

    def tried_by(self, key: str) -> str:
        """Return who tried the value at `key` on a real board, or UNTRIED."""
        return _nearest(self.tried, key) or UNTRIED


def _nearest(texts: tuple[tuple[str, str], ...], key: str) -> str | None:
    known = dict(texts)
    while key:
        if key in known:
            return known[key]
        key = key.rpartition(".")[0]
    return None
