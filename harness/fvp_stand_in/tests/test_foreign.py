"""Programs that know nothing of ethos-hil, run by the launchers as upstream runs its own: as black boxes."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ethos_hil.base.errors import TargetError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.processes import left_of
from ethos_hil.base.testing.recorded import Recorded, plain
from ethos_hil.harness.fvp_stand_in.tests.conftest import BOARDS, CORSTONE_320, Board, build, children
from ethos_hil.harness.fvp_stand_in.tests.jobs import DATA, job
from ethos_hil.harness.socs.registry import FvpModel
from ethos_hil.harness.targets.registry import make_target

_LINES = [line.split(" | ") for line in (DATA / "runs.txt").read_text().splitlines() if " | " in line]
RUNS = {name: (boards, words, options, float(seconds)) for boards, name, words, options, seconds in _LINES}


@pytest.mark.parametrize(
    ("board", "name"),
    [(model, name) for name, run in RUNS.items() for model in (BOARDS if run[0] == "both" else BOARDS[:1])],
    ids=lambda value: value.soc.name if isinstance(value, FvpModel) else value,
    indirect=["board"],
)
def test_a_run_ends_as_recorded(recorded: Recorded, board: Board, name: str) -> None:
    """Its status, its words, and the files it leaves: what cannot go on ends at once, with a reason in one line."""
    given = {"patch.bin": bytes(range(100)), "in.bin": bytes(range(256)) * 300}
    for file, data in given.items():
        (board.folder / file).write_bytes(data)
    job("add", board.model.soc.name).write(board.folder)
    before = set(board.folder.iterdir())
    _, words, options, seconds = RUNS[name]
    filled = options.format(board=board.model.fvp.board_path, folder=board.folder)
    started = time.monotonic()
    ended = board.run(words, *([] if options == "-" else filled.split()), seconds=seconds)
    assert time.monotonic() - started < max(15, seconds)
    assert ended.stderr.count("\n") <= 2
    text = f"status {ended.status}\n{ended.stdout}\n--- stderr\n{ended.stderr}"
    text = re.sub(r"(in \w+) at 0x[0-9a-f]+( \([\w.:]+\))?", r"\1 [place]", text)  # the compiler's
    if name != "time limit":  # how far it got is the computer's
        text = re.sub(r"the program was in .*|spinning\n", "", text)
    for path in sorted({*board.folder.iterdir()} - before):
        data = path.read_bytes()
        text += f"--- {path.name}: {next((file for file in given if given[file] == data), repr(data[:100]))}\n"
    recorded.check(plain(re.sub("Lockup.*", "Lockup", text), [board.folder]))


def test_heap_and_stack_are_the_programs_own_choice(board: Board) -> None:
    """The start-up sets MSPLIM, so that any stack but the program's own faults at once."""
    ended = board.run("heap")
    assert ended.status == 0, ended.stderr
    base = 0x30000000 if board.model.soc.name == "corstone-300" else 0x31000000
    words = ended.stdout.split()
    assert base < int(words[1], 16) < int(words[3], 16) < base + (256 << 10)


def test_heap_and_stack_of_a_program_with_one_function_for_all_calls(board: Board, tmp_path: Path) -> None:
    elf = build(board.model.soc.name, tmp_path / "wrapped.elf", "wrapped.c")
    cpu = board.model.fvp.cpu_path
    options = ("-C", f"{cpu}.semihosting-heap_base=4660", "-C", f"{cpu}.semihosting-stack_limit=0x20000000")
    ended = Board(board.model, board.launchers, elf, board.folder).run("", *options)
    assert ended.stdout.split()[:4] == ["00001234", "00000000", "00000000", "20000000"]
    assert (ended.status, ended.stderr) == (3, "")


@pytest.mark.parametrize("name", ["add", "convolutions"])
@pytest.mark.parametrize("place", ["sram", "ddr"])
def test_npu_job_driven_by_interrupt(board: Board, name: str, place: str) -> None:
    expected = job(name, board.model.soc.name)
    expected.write(board.folder)
    ended = board.run(f"npu {place} done.bin")
    assert ended.status == 0, ended.stdout + ended.stderr
    assert expected.answered((board.folder / "done.bin").read_bytes())
    words = ended.stdout.split()
    assert words[0] == "cycles"
    assert int(words[1]) > 0
    assert words[2:4] == ["interrupts", "1"]


def test_an_invalid_command_stream_is_an_error_of_the_npu(board: Board) -> None:
    job("add", board.model.soc.name).write(board.folder)
    (board.folder / "stream.bin").write_bytes(random.Random(0).randbytes(256))
    ended = board.run("npu sram done.bin")
    assert ended.status == 1
    assert "E [guest] the NPU failed, status 00000010\n" in ended.stdout, "cmd_parse_error"
    assert ended.stderr.startswith("the NPU had stopped with a parse fault at 0x0")


def test_image_outside_the_memories_is_refused(board300: Board, tmp_path: Path) -> None:
    elf = build("corstone-300", tmp_path / "elsewhere.elf", code=0x12000000)
    ended = Board(board300.model, board300.launchers, elf, board300.folder).run("args")
    assert ended.status == 1
    assert f"Error: the application {elf} has" in ended.stderr
    assert "at 0x12000000: there is no memory" in ended.stderr


@pytest.fixture
def board320(launchers: Path, tmp_path: Path) -> Board:
    """A Corstone-320 whose program lies in the FPGA's SRAM, as Arm's and ExecuTorch's runners do."""
    elf = build("corstone-320", tmp_path / "fpga.elf", code=0x12000000)
    return Board(CORSTONE_320, launchers, elf, tmp_path)


def test_a_corstone_320_has_the_memory_of_its_fpga(board320: Board) -> None:
    source, dump = (board320.folder / name for name in ("in.bin", "out.bin"))
    source.write_bytes(os.urandom(1000))
    files = ("--data", f"{source}@0x12180000", "--dump", f"{dump}@0x12180000,1000")
    for strict in ((), ("--strict-board",)):  # with one plug-in that adds it, and with another that watches
        dump.unlink(missing_ok=True)
        ended = board320.run("args one", *files, *strict, "-C", "mps4_board.subsystem.cpu0.INITSVTOR=0x12000000")
        assert (ended.status, "[one]" in ended.stdout) == (0, True), ended
        assert dump.read_bytes() == source.read_bytes()


def test_without_a_compiler_that_memory_is_missing_and_it_says_why(board320: Board) -> None:
    (board320.folder / "bin").mkdir()
    (board320.folder / "bin" / "qemu-system-arm").symlink_to(str(shutil.which("qemu-system-arm")))
    done = subprocess.run(
        board320.command("args"), env={"PATH": str(board320.folder / "bin")}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "no C compiler is on PATH to compile it" in done.stderr


@pytest.mark.parametrize("address", [0x70800000, 0x11100000, *(
    pytest.param(at, marks=pytest.mark.proof) for at in (0x31080000, 0x38000000, 0x30060000, 0x21080000)
)])  # fmt: skip
def test_data_is_put_into_memory_and_dumped_at_the_end(board300: Board, address: int) -> None:
    data = os.urandom(1000)
    source, dump, rest = (board300.folder / name for name in ("in,put.bin", "dump,1.bin", "part.bin"))
    source.write_bytes(data)
    options = ("--data", f"cpu0={source}@{address:#x}", "--dump", f"cpu0={dump}@{address:#x},1000")
    ended = board300.run(f"peek {address:#x} 1000 out.bin", *options, "--dump", f"{rest}@{address + 990},20")
    assert ended.status == 0, ended.stderr
    assert (board300.folder / "out.bin").read_bytes() == dump.read_bytes() == data
    assert rest.read_bytes() == data[990:] + bytes(10)


def test_what_the_program_wrote_is_in_the_dump(board300: Board) -> None:
    """The program reads the file into this memory, by semihosting, just before it ends."""
    job("add", board300.model.soc.name).write(board300.folder)
    path = board300.folder / "stack.bin"
    ended = board300.run("npu sram done.bin", "--dump", f"{path}@0x31000000,0x400000")
    assert ended.status == 0, ended.stderr
    assert (board300.folder / "done.bin").read_bytes() in path.read_bytes()


def spinning(board: Board) -> subprocess.Popen[bytes]:
    """Start a program that never ends, and wait until it runs."""
    process = subprocess.Popen(board.command("spin"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"spinning\n"
    return process


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.proof)]
)
def test_a_signal_leaves_nothing_behind(board300: Board, number: int) -> None:
    process = spinning(board300)
    started = children(process.pid)
    assert started, "QEMU at least"
    process.send_signal(number)
    with process:
        assert process.stderr is not None
        assert process.wait(10) == (128 + number if number != signal.SIGKILL else -number)
        assert b"Traceback" not in process.stderr.read()
    assert left_of(started) == []


def test_a_reader_that_goes_away_ends_the_run(board300: Board) -> None:
    process = subprocess.Popen(
        board300.command("uart x spin"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait(30) == 128 + signal.SIGPIPE


def test_qemu_that_is_killed_is_not_a_success(board300: Board) -> None:
    process = spinning(board300)
    (qemu,) = (pid for pid in children(process.pid) if "qemu" in Path(f"/proc/{pid}/comm").read_text())
    os.kill(qemu, signal.SIGTERM)  # QEMU itself would end with status 0
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    os.kill(qemu, signal.SIGKILL)
    with process:
        assert process.stderr is not None
        assert process.wait(10) == 1
        assert process.stderr.read().startswith(b"Error: crashed: QEMU was ended by SIGKILL")


# --- On the strict board: what programs do wrong is named with its place, and others run as ever. ---


NPUS = {"corstone-300": "ethos-u55-128", "corstone-320": "ethos-u85-256"}
BREACH = (
    "rule part-memories of the strict board: 4 bytes loaded from 0x11100000, where this system has no memory, in "
    "careless at 0x"
)


@pytest.fixture
def careless(board: Board, tmp_path: Path) -> Board:
    """Each board with the careless program."""
    return replace(board, guest=build(board.model.soc.name, tmp_path / "careless.elf", "careless.c"))


@pytest.mark.parametrize("way", ["option", pytest.param("variable", marks=pytest.mark.proof)])
def test_a_launcher_names_the_rule_and_the_place(careless: Board, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    assert careless.run("").status == 0
    if way == "variable":
        monkeypatch.setenv("ETHOS_HIL_STRICT_BOARD", "1")
    ended = careless.run("", *(["--strict-board"] if way == "option" else []))
    assert ended.status == 1
    assert re.fullmatch(rf"Error: board-rule: {re.escape(BREACH)}[0-9a-f]+ \(careless\.c:5\)\n", ended.stderr), ended


def test_the_variable_is_zero_or_one(careless: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETHOS_HIL_STRICT_BOARD", "perhaps")
    ended = careless.run("")
    assert (ended.status, ended.stdout) == (1, "")
    assert ended.stderr.startswith("Error: ETHOS_HIL_STRICT_BOARD is 'perhaps'")


def test_a_runner_is_told_the_rule_and_the_place(careless: Board, tmp_path: Path) -> None:
    targets = [
        make_target("virtual", EthosU.parse(NPUS[careless.model.soc.name]), strict_board=on) for on in (False, True)
    ]
    elf = careless.guest.read_bytes()
    assert targets[0].boot(elf, "", tmp_path, timeout=30).status == 0
    with pytest.raises(TargetError) as caught:
        targets[1].boot(elf, "", tmp_path, timeout=30)
    assert caught.value.kind == "board-rule"
    assert caught.value.message.startswith(BREACH)
