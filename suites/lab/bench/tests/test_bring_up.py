"""`ethos-hil boards bring-up` names what is wrong with a board, and leaves out what cannot be known then."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.deadline import Deadline
from ethos_hil.harness.boards import bring_up, bring_up_probe
from ethos_hil.harness.boards.board import Board
from ethos_hil.harness.boards.bring_up import BringUp
from ethos_hil.harness.boards.bring_up_probe import spans
from ethos_hil.harness.boards.bring_up_report import BringUpStep, StepStatus
from ethos_hil.harness.boards.catalogue import find_board
from ethos_hil.harness.boards.lease import lease
from ethos_hil.harness.boards.loader import park, reset
from ethos_hil.harness.terminal.progress import Silent
from ethos_hil.harness.virtual.tests.conftest import qemu_processes
from ethos_hil.lowering.cache.contents import CACHE_VARIABLE
from ethos_hil.suites.lab.bench.bench_board import BenchBoard
from ethos_hil.suites.lab.bench.tests.conftest import attach

pytestmark = pytest.mark.product

FILE = ("file", "lease")
MEMORIES = ("memory ITCM", "memory DTCM", "memory SRAM", "memory DDR")
BY_PROBE = (*FILE, "probe", *MEMORIES)
STEPS = (*BY_PROBE, "firmware", "monitor", "npu", "speed", "convolution", "clock")
SECONDS = 60.0
Bench = tuple[BenchBoard, Path]


@pytest.fixture(scope="module")
def whole_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with BenchBoard() as board:
        yield board, board.write_board_file(tmp_path_factory.mktemp("boards"), "bench")
        pid = board.pid
    assert qemu_processes(pid) == set()


@pytest.fixture
def bench(whole_bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """The board, without what tests before did to it. Uploads are short, and so are waits for what does not come."""
    monkeypatch.setattr(bring_up, "MOST_BYTES", 16384)
    monkeypatch.setattr(bring_up, "_ANSWER_SECONDS", 2.0)
    yield whole_bench
    whole_bench[0].tell("heal")


def checked(board: Board, npu: str = "") -> dict[str, BringUpStep]:
    progress: list[BringUpStep] = []
    steps = BringUp(board, f"board:{board.path}", npu, progress.append, Silent()).run()
    assert list(steps) == progress
    assert tuple(step.name for step in steps) == STEPS
    return {step.name: step for step in steps}


def judge(steps: Mapping[str, BringUpStep], failed: Mapping[str, str], ok: tuple[str, ...]) -> BringUpStep:
    """Compare the ends of all steps; those that are not named have to be left out. Return the first that failed."""
    assert {name: step.finding.kind for name, step in steps.items() if step.status is StepStatus.FAILED} == failed
    assert tuple(name for name, step in steps.items() if step.status is StepStatus.OK) == ok
    for step in steps.values():
        assert bool(step.finding.remedy) or step.status is not StepStatus.FAILED
        assert (step.exit_status > 0) == (step.status is StepStatus.FAILED)
        assert "\n" not in step.finding.text + step.finding.remedy
    return next(step for step in steps.values() if step.status is StepStatus.FAILED)


OTHERS = tuple(name for name in BY_PROBE if name != "memory ITCM")
LINE = (*BY_PROBE, "firmware", "monitor")
FAULTS = {
    "stuck-bit": ("stuck:0x10000100", "memory ITCM", "readback", OTHERS, "at 0x10000100, so bits 0x00000001 are wrong"),
    "npu-dead": ("npu-dead", "npu", "wrong-board", (*LINE, "speed"), "the firmware finds no NPU at 0x58102000"),
    "server-ends": ("gdb-dies:20", "probe", "probe", FILE, "it closed the connection"),
    "amid-a-memory": ("gdb-dies:90", "memory ITCM", "probe", (*FILE, "probe"), "it closed the connection"),
    "server-is-mute": ("gdb-mute:20", "probe", "probe", FILE, "it does not answer a read within 10 s"),
    "nothing-comes": ("to-host.cut", "monitor", "link", LINE[:-1], "The firmware's UART is at 0x59303000"),
    "nothing-goes": ("to-board.cut", "monitor", "link", LINE[:-1], "the firmware's first word arrives on"),
    "reset": ("reset:3000", "speed", "lost-board", (*LINE, "npu"), "the firmware started again"),
    "hang": ("hang:3000", "speed", "link", (*LINE, "npu"), "its firmware answers no more"),
    "npu-hang": ("npu-hang", "convolution", "timeout", (*LINE, "npu", "speed"), "the NPU did not finish within"),
}
"""What the bench does, the step that meets it, its kind, the steps that pass, and a part of what is said."""
IN_MAKE_TEST = ("stuck-bit", "npu-dead", "amid-a-memory", "nothing-goes")


def with_value(part: Any, place: str, value: object) -> Any:
    """Return a board, or a part of it, with another value at a place."""
    first, _, rest = place.partition(".")
    return replace(part, **{first: with_value(getattr(part, first), rest, value) if rest else value})


def without_sram(board: Board) -> Board:
    memories = board.soc.memories
    moved = (replace(one, base=0x3C000000, alias=None) if one.name == "SRAM" else one for one in memories)
    return with_value(board, "soc.memories", tuple(moved))


NO_SRAM = tuple(name for name in BY_PROBE if name != "memory SRAM")
FILES: dict[str, tuple[Callable[[Board], Board], str, str, tuple[str, ...], str]] = {
    "processor": (
        lambda board: with_value(board, "soc.firmware.cpu", "cortex-m85"),
        *("probe", "wrong-board", FILE, "the processor is Cortex-M55 r0p1"),
    ),
    "memory": (without_sram, "memory SRAM", "readback", NO_SRAM, "SRAM (0x3c000000, 2 MiB) cannot be read at 0x3c0000"),
    "server": (
        lambda board: with_value(board, "loading.address", "127.0.0.1:1"),
        *("probe", "not-launched", FILE, "127.0.0.1:1"),
    ),
    "port": (
        lambda board: with_value(board, "link.url", "/dev/nowhere"),
        *("monitor", "not-launched", LINE[:-1], "/dev/nowhere"),
    ),
}
"""What a board's file has that is another board's, and the same as above."""


@pytest.mark.parametrize(
    ("cause", "step", "kind", "ok", "message"),
    [
        *(
            pytest.param(*FAULTS[name], id=name, marks=[pytest.mark.proof] * (name not in IN_MAKE_TEST))
            for name in FAULTS
        ),
        *(pytest.param(*row, id=name) for name, row in FILES.items()),
    ],
)
def test_what_is_wrong_is_named_by_the_step_that_meets_it(
    bench: Bench, cause: str | Callable[[Board], Board], step: str, kind: str, ok: tuple[str, ...], message: str
) -> None:
    board = find_board(str(bench[1]))
    if isinstance(cause, str):
        bench[0].tell(f"fault {cause}")
    else:
        board = cause(board)
    first = judge(checked(board), {step: kind}, ok)
    assert message in first.finding.text
    assert first.exit_status == (3 if kind == "not-launched" else 1)


def test_another_npu_than_the_files_is_told(bench: Bench) -> None:
    steps = checked(find_board(str(bench[1])), "ethos-u55-256")
    first = judge(steps, {"npu": "wrong-board"}, (*LINE, "speed"))
    assert "ethos-u55-128" in first.finding.text
    assert first.finding.text.endswith("expected ethos-u55-256")


def test_a_board_that_another_has_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bring_up, "LEASE_SECONDS", 0.2)
    board = find_board(str(bench[1]))
    with lease(board):
        first = judge(checked(board), {"lease": "leased"}, ("file",))
    assert first.exit_status == 3
    assert str(os.getpid()) in first.finding.text


def test_a_memory_that_the_firmware_powers_is_no_fault(bench: Bench) -> None:
    """That of an Alif is not there for the probe; its place is empty on the bench."""
    ours = find_board(str(bench[1]))
    alif = replace(find_board("alif-e8-hp"), link=ours.link, loading=ours.loading, reset=ours.reset)
    probed = bring_up_probe.ParkedBoard(alif, None)
    empty = [span for span in spans(alif.soc) if span.name.startswith("SRAM")]
    assert {use for span in empty for use in span.uses} == {"pool", "package"}
    for span in empty:
        finding = bring_up_probe.memory(probed, span, lambda text: None)
        assert finding.status is StepStatus.LEFT_OUT
        assert "once the firmware runs" in finding.text


def test_a_wrong_clock_of_the_uart_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The firmware is told that its UART has twice the clock that it has, so it sends at half the speed."""
    board = find_board(str(bench[1]))
    wrong = replace(bring_up_probe.OWN_CLOCKS, peripheral_hz=2 * board.soc.peripheral_hz)
    monkeypatch.setattr(bring_up_probe, "OWN_CLOCKS", wrong)
    first = judge(checked(board), {"monitor": "link"}, (*BY_PROBE, "firmware"))
    assert "none of them is the firmware's" in first.finding.text
    assert "soc.peripheral_hz" in first.finding.remedy


def test_memories_have_what_they_had(bench: Bench) -> None:
    board = find_board(str(bench[1]))
    wanted = {span.base: bytes(range(256)) * 16 for span in spans(board.soc)}
    remote = attach(bench[0])
    reset(remote, board.reset, Deadline(SECONDS))
    for base, data in wanted.items():
        remote.write(base + 0x2000, data)
        remote.write(base, data)
    # Without a debugger the board goes on: with what was written, the processor would lock up.
    park(remote, board.soc.boot + 0x4000, board.soc.boot + 0x6000, Deadline(SECONDS))
    remote.close()
    probed = bring_up_probe.ParkedBoard(board, None)
    for span in spans(board.soc):
        assert bring_up_probe.memory(probed, span, lambda text: None).values["restored"] is True
    remote = attach(bench[0])
    for base, data in wanted.items():
        content = bytearray(data)
        if base == board.soc.boot:  # two bytes are the loop where the processor is parked
            content = bytearray(remote.read(base, len(data)))
            assert sum(old != new for old, new in zip(data, content, strict=True)) <= 2
        assert remote.read(base, len(data)) == content
        assert remote.read(base + 0x2000, len(data)) == data
    remote.detach()


def command(path: Path, *more: str) -> list[str]:
    return [str(Path(sys.executable).with_name("ethos-hil")), "boards", "bring-up", str(path), *more]


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.proof)])
def test_an_interrupt_leaves_nothing(
    bench: Bench, number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No process, no report, no lease. The board is good for the next one."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    report, document = tmp_path / "report.md", tmp_path / "report.json"
    options = ("--report", str(report), "--json", str(document))
    with subprocess.Popen(
        command(bench[1], *options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout is not None
        line = ""
        while "npu" not in line:
            line = process.stdout.readline()
            assert line, process.stderr and process.stderr.read()
        time.sleep(0.5)
        process.send_signal(number)
        _, errors = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert [path.name for path in tmp_path.iterdir()] == ["cache"]
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    with lease(find_board(str(bench[1])), 1.0):
        pass
    assert bring_up_probe.probe(bring_up_probe.ParkedBoard(find_board(str(bench[1])), None)).status is StepStatus.OK


@pytest.mark.slow
@pytest.mark.proof
def test_a_whole_board_passes_all_steps(whole_bench: Bench, tmp_path: Path) -> None:
    report, document = tmp_path / "report.md", tmp_path / "report.json"
    done = subprocess.run(
        command(whole_bench[1], "--report", str(report), "--json", str(document), "--npu", "ethos-u55-128"),
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    data = json.loads(document.read_text())
    ends = {step["name"]: step["status"] for step in data["steps"]}
    assert ends == {**dict.fromkeys(STEPS, "ok"), "clock": "left out"}
    assert (data["exit_status"], data["npu"]) == (0, "ethos-u55-128")
    assert done.stdout.splitlines()[-1] == "bench: 13 steps: 12 ok, 1 left out"
    text = report.read_text()
    assert "| convolution | ok | verified: 49,152 elements of 6 executions" in text
    private = (str(whole_bench[1].parent), whole_bench[0].gdb, "power.sh", str(Path.home()))
    assert not [word for word in private if word in text + json.dumps(data)], "it says where the user's things are"
