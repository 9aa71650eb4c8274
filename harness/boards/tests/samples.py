"""A small board of its own, as text, for tests that change it."""

from __future__ import annotations

from pathlib import Path

from ethos_hil.harness.boards.board import Board
from ethos_hil.harness.boards.board_file import read_board
from ethos_hil.harness.boards.catalogue import SHIPPED

OWN = """\
description = "A part that no one sells"
npus = ["ethos-u55-128"]
quirks = ["short-writes"]
notes = ["It does not exist."]

[soc]
number = 4000
summary = "No part, Cortex-M55"
cpu_hz = 100_000_000
peripheral_hz = 50_000_000
secure_bit = 0
options = { UNLOCK = 0x59 }

[soc.memories.CODE]
base = 0x10000000
size = 0x00040000
alias = 0x00000000

[soc.memories.DATA]
base = 0x20000000
size = 0x00040000
tcm = true

[soc.memories.POOL]
base = 0x30000000
size = 0x00100000
npu = true

[soc.memories.UPPER]
base = 0x30100000
size = 0x00100000
npu = true

[soc.memories.FLASH]
base = 0x60000000
size = 0x00100000
read_only = true

[soc.npu]
base = 0x40000000
size = 0x1000
irq = 12

[soc.uart]
driver = "ns16550"
base = 0x40010000
size = 0x1000
options = { REGISTER_STRIDE = 4, FRACTION_BITS = 4 }

[soc.firmware]
port = "corstone"
driver = "u55"
boot = "CODE"
code = "CODE"
data = "DATA"
stack = "DATA"
pool = "POOL"
package = { base = 0x30100000, size = 0x00100000 }

[loading]
server = "pyocd"
device = "cortex_m"
serial = "0240"

[link]
url = "/dev/ttyACM0"
baud = 115200
fastest_baud = 921600

[reset]
before = [{ address = 0x40020000, value = 1, why = "wakes it" }]

[power]
cycle = ["uhubctl", "-a", "cycle"]

[sources]
soc = "this test"
"soc.npu" = "a better source"

[tried]
"soc.npu.irq" = "nobody, really"
"""


def none(name: str, path: Path) -> Path:
    raise AssertionError(f"{path} extends {name}")


def beside(name: str, path: Path) -> Path:
    return path.with_name(f"{name}.toml")


def board(folder: Path, text: str = OWN, name: str = "own") -> Board:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return read_board(path, beside, SHIPPED)
