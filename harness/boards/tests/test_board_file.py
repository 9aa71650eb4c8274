"""Files of boards: what they say, and what is said about those that are wrong."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.boards.board import (
    SERVER_COMMANDS,
    UNTRIED,
    LinkSettings,
    Loading,
    Power,
    Quirk,
    Server,
    WordWrite,
)
from ethos_hil.harness.boards.tests.samples import OWN, board
from ethos_hil.harness.gdb.dialect import ServerDialect
from ethos_hil.harness.socs.registry import find_soc
from ethos_hil.harness.socs.soc import Window


def changed(old: str, new: str, text: str = OWN) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


def test_a_board_is_what_its_file_says(tmp_path: Path) -> None:
    own = board(tmp_path)
    soc = own.soc
    assert (own.name, own.npus, own.path) == ("own", ("ethos-u55-128",), tmp_path / "own.toml")
    assert (soc.name, soc.number, soc.boot, soc.interrupts, soc.secure_bit) == ("own", 4000, 0x10000000, 128, 0)
    assert (soc.cpu_hz, soc.peripheral_hz, soc.npu_irq) == (100_000_000, 50_000_000, 12)
    assert soc.memory("CODE").alias == 0
    assert [memory.name for memory in soc.memories if memory.npu] == ["POOL", "UPPER"]
    assert soc.memory("DATA").tcm
    assert soc.memory("FLASH").read_only
    assert (soc.npu_registers, soc.uarts) == (Window(0x40000000, 0x1000), (Window(0x40010000, 0x1000),))
    assert (soc.uart, dict(soc.uart_options)) == ("ns16550", {"REGISTER_STRIDE": 4, "FRACTION_BITS": 4})
    assert soc.options == (("UNLOCK", 0x59),)
    assert soc.npu_names == ("ethos-u55-128",)
    assert (soc.firmware.name, soc.firmware.cpu) == ("own", "cortex-m55")
    assert soc.firmware.package == Window(0x30100000, 0x100000)
    assert own.link == LinkSettings("/dev/ttyACM0", 115200, 921600)
    assert own.reset.commands == ("reset halt",)
    assert own.reset.before == (WordWrite(0x40020000, 1, "wakes it"),)
    assert own.power == Power(cycle=("uhubctl", "-a", "cycle"))
    assert own.quirks == (Quirk.SHORT_WRITES,)
    assert own.loading == Loading(
        Server.PYOCD, ServerDialect.PYOCD, command=SERVER_COMMANDS[Server.PYOCD], device="cortex_m", serial="0240"
    )
    assert own.loading.command_line(3333) == (
        *("pyocd", "gdbserver", "-u", "0240", "-t", "cortex_m", "-p", "3333", "-O", "connect_mode=halt"),
        *("-O", "cache.enable_memory=false"),
    )


def test_options_without_a_value_are_left_out(tmp_path: Path) -> None:
    own = board(tmp_path, changed('serial = "0240"\n', ""))
    assert own.loading.command_line(1)[:4] == ("pyocd", "gdbserver", "-t", "cortex_m")
    jlink = board(tmp_path, changed('server = "pyocd"', 'server = "jlink"').replace('serial = "0240"\n', ""))
    assert jlink.loading.command_line(1)[:3] == ("JLinkGDBServer", "-device", "cortex_m")
    assert jlink.reset.commands == ("halt", "reset")


def test_every_server_has_its_port_and_a_dialect() -> None:
    for server in Server:
        if server in SERVER_COMMANDS:
            assert any("{port}" in word for word in SERVER_COMMANDS[server])
            assert ServerDialect(server.value).words.reset_and_halt
    assert {*Server} - {*SERVER_COMMANDS} == {Server.NONE, Server.RUNNING}
    assert ServerDialect.QEMU.words.reset_and_halt == ("system_reset",)


def test_each_value_has_its_source_and_who_tried_it(tmp_path: Path) -> None:
    own = board(tmp_path)
    origins = {value.key: (value.source, value.tried) for value in own.values}
    assert origins["soc.npu.base"] == ("a better source", UNTRIED)
    assert origins["soc.npu.irq"] == ("a better source", "nobody, really")
    assert origins["soc.memories.CODE.base"] == ("this test", UNTRIED)
    assert origins["link.baud"] == ("own.toml", UNTRIED)  # a user's own value is the user's
    assert str(own.value("soc.memories.CODE.size")) == "0x00040000"
    assert str(own.value("soc.firmware.package.base")) == "0x30100000"
    assert str(own.value("reset.before")) == "address 0x40020000, value 0x00000001, why wakes it"
    with pytest.raises(KeyError, match=r"has no soc\.dma"):
        own.value("soc.dma")


def test_a_running_server_is_reached_by_its_address(tmp_path: Path) -> None:
    where = 'server = "running"\ndialect = "qemu"\naddress = "127.0.0.1:1234"\n'
    own = board(tmp_path, changed('server = "pyocd"\ndevice = "cortex_m"\nserial = "0240"\n', where))
    assert (own.loading.address, own.loading.dialect, own.loading.command) == ("127.0.0.1:1234", ServerDialect.QEMU, ())
    assert own.reset.commands == ("system_reset",)


def test_a_declared_system_is_named(tmp_path: Path) -> None:
    text = 'description = "x"\nnpus = ["ethos-u55-64"]\nsoc = "corstone-300"\n'
    text += '[loading]\nserver = "none"\n[link]\nbaud = 115200\n'
    own = board(tmp_path, text)
    assert own.soc is find_soc("corstone-300")
    assert own.reset.commands == ()
    assert own.value("soc.npu.irq").source == "harness/socs/corstone_300.py"
    with pytest.raises(
        UsageError, match=r"own.toml:2: npus\[1\]: corstone-300 has no ethos-u85-256; it has ethos-u55-32"
    ):
        board(tmp_path, text.replace("ethos-u55-64", "ethos-u85-256"))
    with pytest.raises(UsageError, match=r"own.toml:3: soc: no system on chip is called 'corstone300'") as error:
        board(tmp_path, text.replace("corstone-300", "corstone300"))
    assert "did you mean corstone-300?" in str(error.value.hint)
    with pytest.raises(UsageError, match=r"own.toml:7: link.baud: found 2000000; a cmsdk UART"):
        board(tmp_path, text.replace("115200", "2000000"))


def test_a_file_overrides_what_it_extends(tmp_path: Path) -> None:
    board(tmp_path)
    mine = board(tmp_path, 'extends = "own"\n[link]\nurl = "/dev/ttyUSB7"\n[loading]\nserial = "77"\n', "mine")
    assert mine.link == LinkSettings("/dev/ttyUSB7", 115200, 921600)
    assert (mine.loading.serial, mine.loading.device) == ("77", "cortex_m")
    assert mine.soc == board(tmp_path).soc  # its firmware is that of the board it extends
    assert (mine.soc.name, mine.name) == ("own", "mine")


def test_an_overridden_value_has_neither_the_source_nor_the_trial_of_the_old_one(tmp_path: Path) -> None:
    board(tmp_path)
    text = 'extends = "own"\n[soc]\nnumber = 4001\n[soc.npu]\nirq = 13\n'
    mine = board(tmp_path, text, "mine")
    assert (mine.soc.name, mine.soc.number, mine.soc.npu_irq) == ("mine", 4001, 13)
    irq, base = mine.value("soc.npu.irq"), mine.value("soc.npu.base")
    assert (irq.source, irq.tried) == ("mine.toml", UNTRIED)
    assert base.source == "a better source"
    other = board(tmp_path, text + '[sources]\n"soc.npu" = "page 12"\n', "mine")
    assert (other.value("soc.npu.irq").source, other.value("soc.npu.base").source) == ("page 12", "a better source")


def test_another_soc_needs_a_number_of_its_own(tmp_path: Path) -> None:
    board(tmp_path)
    with pytest.raises(UsageError, match=r"mine.toml:2: soc.number: not given; expected one of its own") as error:
        board(tmp_path, 'extends = "own"\n[soc.npu]\nirq = 13\n', "mine")
    assert "than own, which has 4000" in error.value.message


def test_a_file_that_is_called_as_a_shipped_board_keeps_its_soc(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"ek-ra8p1.toml:\d+: soc: ek-ra8p1 is shipped with another \[soc\]"):
        board(tmp_path, OWN, "ek-ra8p1")


def test_files_that_extend_one_another_are_refused(tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text('extends = "two"\n')
    with pytest.raises(UsageError, match=r"two.toml:1: extends: two extends one extends two"):
        board(tmp_path, 'extends = "one"\n', "two")


def test_what_an_extended_file_lacks_is_said_with_both_names(tmp_path: Path) -> None:
    (tmp_path / "half.toml").write_text('description = "half"\n')
    with pytest.raises(UsageError, match=r"whole.toml:1: 'npus' is a required property \(whole extends half\)"):
        board(tmp_path, 'extends = "half"\n', "whole")


@pytest.mark.parametrize("name", ["My-board", "my board", "-x"])
def test_a_board_is_called_with_small_letters(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="the name of a board cannot be"):
        board(tmp_path, OWN, name)


WRONG = [
    ("irq = 12", "irq = '12'", "irq", "soc.npu.irq: '12' is not of type 'integer'"),
    ("irq = 12", "irp = 12", "irp", "soc.npu.irp is not known: did you mean irq?"),
    ("[loading]", "[loadin]", "[loadin]", "loadin is not known: did you mean loading?"),
    ("number = 4000", "number = 300", "number", "soc.number: 300 is less than the minimum of 1000"),
    ('server = "pyocd"', 'server = "gdb"', "server", "loading.server: 'gdb' is not one of ['none', 'running', 'pyocd'"),
    ('quirks = ["short-writes"]', 'quirks = ["short"]', "quirks", "quirks[1]: 'short' is not one of"),
    ("ethos-u55-128", "ethos-u55-129", "npus", "npus[1]: 'ethos-u55-129' is not an Ethos-U configuration"),
    ('boot = "CODE"', 'boot = "COD"', "boot", "soc.firmware.boot: no memory is called 'COD'"),
    # Memories.
    ("alias = 0x00000000", "alias = 0x20000000", "base", "overlaps CODE, 0x20000000 to 0x2003ffff"),
    ("base = 0x60000000", "base = 0xfff80000", "size", "soc.memories.FLASH.size: found 0x00100000, which runs past"),
    # Devices.
    ("base = 0x40000000", "base = 0x30080000", "base", "which is in the memory POOL"),
    ("base = 0x40010000", "base = 0x40010002", "base", "found 0x40010002; expected a multiple of 4"),
    ("secure_bit = 0", "secure_bit = 3", "secure_bit", "found 0x00000003; expected one bit, or 0"),
    # The firmware's places.
    (
        'pool = "POOL"',
        'pool = "DATA"',
        "pool",
        "soc.firmware.pool: found DATA, which the NPU does not reach; it reaches POOL",
    ),
    ('data = "DATA"', 'data = "FLASH"', "data", "soc.firmware.data: found FLASH, which is read-only"),
    ("package = { base = 0x30100000", "package = { base = 0x30180000", "package", "which is in no memory"),
    ("package = { base = 0x30100000", "package = { base = 0x30000000", "package", "where soc.firmware.pool is too"),
    ("base = 0x30100000, size = 0x00100000", "base = 0x30100008, size = 0x00080000", "package", "a multiple of 16"),
    (
        "base = 0x30100000, size = 0x00100000",
        "base = 0x30100000, size = 0x00001000",
        "package",
        "expected 65536 at least",
    ),
    (
        "base = 0x30100000, size = 0x00100000",
        "base = 0x60000000, size = 0x00100000",
        "package",
        "found FLASH, which the NPU",
    ),
    ("base = 0x10000000", "base = 0x10000200", "base", "expected a multiple of 0x400, as the vector table of 128"),
    ("irq = 12", "irq = 128", "irq", "soc.npu.irq: found 128; expected less than soc.interrupts, which is 128"),
    ('driver = "u55"', 'driver = "u85"', "driver", "found 'u85', which does not drive npus[1], an ethos-u55-128"),
    # The line.
    (
        "peripheral_hz = 50_000_000",
        "peripheral_hz = 3_000_000",
        "fastest_baud",
        "a ns16550 UART with a clock of 3000000 Hz misses it by",
    ),
    (", FRACTION_BITS = 4", "", "fastest_baud", "link.fastest_baud: found 921600; a ns16550 UART"),
    ("fastest_baud = 921600", "fastest_baud = 9600", "fastest_baud", "found 9600; expected link.baud at least, 115200"),
    # The loader's words.
    ('device = "cortex_m"', 'command = ["gdbserver"]', "command", "loading.command: found no {port}"),
    (
        'device = "cortex_m"',
        'command = ["x", "{port}", "{probe}"]',
        "command",
        "found '{probe}'; there are {port}, {serial}",
    ),
    ('device = "cortex_m"', 'address = "localhost:1"', "address", 'and loading.server is "pyocd", not "running"'),
    ('server = "pyocd"', 'server = "running"', "[loading]", "loading.address: not given; expected host:port"),
    ('server = "pyocd"', 'server = "none"', "[reset]", "found words for a reset"),
    (
        "address = 0x40020000",
        "address = 0x40020001",
        "before",
        "found address 0x40020001 in entry 1; expected a multiple",
    ),
    ("cycle = [", "on = [", "[power]", "found neither cycle nor both of on and off"),
    # What is said of the others.
    ('"soc.npu" = "a better', '"soc.nbu" = "a better', '"soc.nbu"', 'sources."soc.nbu": the file has no value there'),
    (
        '"soc.npu.irq" = "nobody',
        '"soc.npu.clock" = "nobody',
        '"soc.npu.clock"',
        'tried."soc.npu.clock": the file has no value there',
    ),
]


@pytest.mark.parametrize(("old", "new", "line", "message"), WRONG, ids=[new for _, new, _, _ in WRONG])
def test_what_is_wrong_is_said_with_file_line_and_key(
    tmp_path: Path, old: str, new: str, line: str, message: str
) -> None:
    with pytest.raises(UsageError) as error:
        board(tmp_path, changed(old, new))
    place = re.match(r"(.*)/own\.toml:(\d+): ", error.value.message)
    assert place is not None, error.value.message
    assert place[1] == str(tmp_path)
    assert (tmp_path / "own.toml").read_text().splitlines()[int(place[2]) - 1].startswith(line)
    assert message in error.value.message
    assert error.value.hint


def test_an_error_in_an_extended_file_names_that_file(tmp_path: Path) -> None:
    board(tmp_path)
    (tmp_path / "own.toml").write_text(changed("irq = 12", "irq = 128"))
    with pytest.raises(UsageError, match=r"own.toml:42: soc.npu.irq: found 128"):
        board(tmp_path, 'extends = "own"\n', "mine")
    with pytest.raises(UsageError, match=r"mine.toml:3: link.baud: 31 is less"):
        board(tmp_path, 'extends = "own"\n[link]\nbaud = 31\n', "mine")
