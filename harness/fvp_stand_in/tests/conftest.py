"""Fixtures of the launchers' tests: installed launchers, and test programs that know nothing of ethos-hil."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ethos_hil.base.testing.processes import parent_of
from ethos_hil.harness.socs.registry import MODELS, FvpModel

GUEST = Path(__file__).parent / "guest"
CORSTONE_300_U55 = MODELS["FVP_Corstone_SSE-300_Ethos-U55"]
CORSTONE_320 = MODELS["FVP_Corstone_SSE-320"]
_DEFINES = {
    "corstone-300": ("UART=0x59303000", "NPU_BASE=0x58102000", "NPU_IRQ=56", "PMU=0", "NPU_LIMITS=0x0F1F0000"),
    "corstone-320": ("UART=0x58203000", "NPU_BASE=0x50004000", "NPU_IRQ=16", "PMU=0x1000", "NPU_LIMITS=0"),
}
_PLACES = {"corstone-300": (0x10000000, 0x30000000), "corstone-320": (0x11000000, 0x31000000)}
"""Addresses of code, with the vector table first, and of data."""
BOARDS = (CORSTONE_300_U55, CORSTONE_320)


@dataclass(frozen=True)
class Ended:
    """How a launcher ended."""

    status: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Board:
    """An installed launcher, and the test program for its board."""

    model: FvpModel
    launchers: Path
    guest: Path
    folder: Path

    def command(self, words: str, *options: str, seconds: float = 30.0) -> list[str]:
        """The launcher's command line for a test program that is given `words`, as upstream's tests write it."""
        cpu = self.model.fvp.cpu_path
        npu, board = self.model.fvp.npu_path, self.model.fvp.board_path
        settings = {
            f"{npu}.num_macs": "128" if self.model.soc.name == "corstone-300" else "256",
            f"{board}.visualisation.disable-visualisation": "1",
            f"{board}.telnetterminal0.start_telnet": "0",
            f"{board}.uart0.out_file": "'-'",
            f"{cpu}.semihosting-enable": "1",
            f"{cpu}.semihosting-stack_base": "0",
            f"{cpu}.semihosting-heap_limit": "0",
            f"{cpu}.semihosting-cwd": str(self.folder),
            f"{npu}.extra_args": "'--fast'",
            f"{cpu}.semihosting-cmd_line": f"'guest {words}'",
        }
        arguments = [word for name, value in settings.items() for word in ("-C", f"{name}={value}")]
        limit = ["-a", str(self.guest), "--timelimit", f"{seconds:g}"]
        return [str(self.launchers / self.model.fvp.executable), *arguments, *limit, *options]

    def run(self, words: str, *options: str, seconds: float = 30.0, typed: bytes = b"") -> Ended:
        """Run the test program to its end, with its standard input; the output must be UTF-8."""
        done = subprocess.run(
            self.command(words, *options, seconds=seconds), input=typed, capture_output=True, timeout=60, check=False
        )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())


def build(soc: str, output: Path, source: str = "guest.c", code: int | None = None) -> Path:
    """Compile a test program for `soc`."""
    code_at, data_at = _PLACES[soc]
    options = "-mcpu=cortex-m55 -mthumb -mfloat-abi=hard -O1 -g -Wall -Wextra -Werror --specs=rdimon.specs -T guest.ld"
    given = [f"-D{define}" for define in _DEFINES[soc]] + (["-nostartfiles"] if source == "wrapped.c" else [])
    places = [f"-Wl,--defsym=CODE={code_at if code is None else code}", f"-Wl,--defsym=DATA={data_at}"]
    command = ["arm-none-eabi-gcc", *options.split(), *given, *places, "startup.S", source, "-o", str(output)]
    subprocess.run(command, cwd=GUEST, check=True, timeout=60)
    return output


@pytest.fixture(scope="session")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The test program for a system on chip, compiled once."""
    folder = tmp_path_factory.mktemp("guest")
    return functools.cache(lambda soc: build(soc, folder / f"{soc}.elf"))


@pytest.fixture(params=[BOARDS[0], pytest.param(BOARDS[1], marks=pytest.mark.proof)], ids=lambda model: model.soc.name)
def board(request: pytest.FixtureRequest, launchers: Path, guest: Callable[[str], Path], tmp_path: Path) -> Board:
    """Return each board in turn. What our firmware does on both is in the contract of targets."""
    return Board(request.param, launchers, guest(request.param.soc.name), tmp_path)


@pytest.fixture
def board300(launchers: Path, guest: Callable[[str], Path], tmp_path: Path) -> Board:
    """Return the Corstone-300, for tests whose result is the same on both boards."""
    return Board(CORSTONE_300_U55, launchers, guest("corstone-300"), tmp_path)


def children(pid: int) -> set[int]:
    """Return the process ids of all descendants of a process."""
    parents = {int(folder.name): parent_of(int(folder.name)) for folder in Path("/proc").glob("[0-9]*")}
    descendants: set[int] = set()
    while more := {child for child, parent in parents.items() if parent in descendants | {pid}} - descendants:
        descendants |= more
    return descendants
