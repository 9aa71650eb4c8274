"""The end of a process: its status is the verdict's, whoever listens, and nothing is left behind."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
import typer

from ethos_hil.base.errors import unforeseen
from ethos_hil.base.testing.processes import alive, name_of, wait_for_full_pipe, wait_until
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.cli import main
from ethos_hil.harness.fvp_stand_in.tests.conftest import children
from ethos_hil.harness.testing.command import Ended, assert_one_clear_line, run_command
from ethos_hil.harness.testing.small_model import MODEL

_SOURCES = str(Path(main.__file__).parents[3])


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The .pte of a model. To run it takes a second, because it needs no torch."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "net.py").write_text(MODEL)
    assert run_command("lower", "net.py:net", cwd=folder).status == 0
    return (folder / "net.pte").read_bytes()


@pytest.fixture
def here(tmp_path: Path, program: bytes) -> Path:
    (tmp_path / "net.pte").write_bytes(program)
    (tmp_path / "tmp").mkdir()
    return tmp_path


def environment(here: Path, changes: Mapping[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": _SOURCES, "TMPDIR": str(here / "tmp"), **(changes or {})}


COMMAND = [sys.executable, "-m", "ethos_hil.harness.cli.main"]


def of_guard(body: str) -> list[str]:
    """A process whose main function is this text."""
    text = textwrap.indent(body, "    ")
    head = "import os, signal\nfrom ethos_hil.harness.cli.main import guard"
    return [sys.executable, "-c", f"{head}\ndef body():\n{text}\nguard(body)"]


def shell(here: Path, line: str, changes: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run a line of bash in which `E` is the command line."""
    script = f'E() {{ {shlex.join(COMMAND)} "$@"; }}\n{line}'
    return subprocess.run(
        ["bash", "-c", script], cwd=here, env=environment(here, changes), capture_output=True, timeout=200
    )


def shown(here: Path, done: subprocess.CompletedProcess[bytes]) -> str:
    return Ended(done.returncode, "", done.stderr.decode()).shown(here)


# --- Small programs for a Corstone-300 that talk by semihosting, as hostile runners. ---

_SOURCE = """
.syntax unified
.thumb
.word 0x30001000
.word reset
.thumb_func
.type reset, %function
reset:
{body}
.size reset, . - reset
.balign 4
text: .asciz "{text}"
"""
_WRITE0 = " movs r0, #4\n ldr r1, =text\n bkpt 0xab\n"
_EXIT = " movs r0, #0x18\n ldr r1, =0x20026\n bkpt 0xab\n b .\n .ltorg\n"
SAYS = _WRITE0 + _EXIT
"""Print the text and end well."""
ENDS_WITH_3 = " movs r0, #0x20\n ldr r1, =block\n bkpt 0xab\n b .\n .balign 4\nblock: .word 0x20026, 3\n .ltorg\n"
"""End with the status 3."""
FOR_EVER = "again:\n" + _WRITE0 + " b again\n .ltorg\n"
"""Print the text for ever."""
HANGS = _WRITE0 + " b .\n .ltorg\n"
"""Print the text and wait for ever."""
UART_FOR_EVER = """
 ldr r0, =0x49303000
 movs r1, #16
 str r1, [r0, #16]
 movs r1, #1
 str r1, [r0, #8]
 movs r1, #120
again:
 ldr r2, [r0, #4]
 lsls r2, r2, #31
 bne again
 str r1, [r0]
 b again
 .ltorg
"""
"""Send the letter x to UART0 for ever. Registers: Arm's CMSDK UART (DDI 0479), CTRL at 8, STATE at 4, BAUDDIV at 16."""


def guest(folder: Path, body: str, text: str = "") -> Path:
    """Build an ELF of instructions; its text is as the assembler writes it: `\\\\033` is ESC, `\\\\n` a line feed."""
    (folder / "guest.s").write_text(_SOURCE.format(body=body, text=text))
    command = "arm-none-eabi-gcc -mcpu=cortex-m55 -mthumb -g -nostdlib -Wl,-Ttext=0x10000000,-e,reset guest.s -o guest"
    subprocess.run(command.split(), cwd=folder, check=True, timeout=60, capture_output=True)
    return folder / "guest"


# --- stdout and stderr, folders, encodings. ---

PREFLIGHT = "preflight net.pte --npu ethos-u55-256"


@pytest.mark.parametrize(
    "line",
    [
        *("E run net.pte --json - | true; exit ${PIPESTATUS[0]}", "E --help >/dev/full", "E run net.pte >/dev/full"),
        *(f"E run net.pte --json r.json {closed}" for closed in ("<&-", ">&-", "2>/dev/full")),
        *(pytest.param(f"E {line}", marks=pytest.mark.proof) for line in (
            *(f"run net.pte --json r.json {closed}" for closed in ("2>&-", "<&- 2>&-", "<&- >&- 2>&-")),
            *(f"{short} | true; exit ${{PIPESTATUS[0]}}" for short in ("run net.pte", PREFLIGHT)),
            f"{PREFLIGHT} >/dev/full",
        )),
        "mkdir gone; cd gone; rmdir ../gone; E run ../net.pte",
    ],
)  # fmt: skip
def test_the_status_is_the_verdicts_whoever_listens(here: Path, line: str, recorded: Recorded) -> None:
    """Nobody, a full disk, a closed descriptor; nor is there a working directory."""
    done = shell(here, line)
    recorded.check(shown(here, done))
    records = [*here.glob("results/runs/*/*.jsonl"), *here.glob("r.json")]
    assert len(records) == (0 if not line.startswith("E run") else 2 if "r.json" in line else 1), "the record is kept"
    for record in records:
        text = record.read_text()
        assert re.search('"verdict": *"verified"', text)
        assert "Loading" not in text, "progress went into a file that got the descriptor's number"


@pytest.mark.parametrize("limit", [8, *(pytest.param(limit, marks=pytest.mark.proof) for limit in (9, 10, 12, 16, 24))])
def test_too_few_descriptors_are_named(here: Path, limit: int) -> None:
    done = shell(here, f"ulimit -n {limit}; E run net.pte")
    assert done.returncode in (0, 2, 3), done.stderr
    assert done.returncode == 0 or "oo many open files" in Ended(2, "", done.stderr.decode()).error


def test_an_output_that_does_not_block_gets_everything(here: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with subprocess.Popen(of_guard("print('x' * 500_000)"), stdout=writing, env=environment(here)) as process:
        os.close(writing)
        wait_for_full_pipe(reading)
        with os.fdopen(reading, "rb") as file:
            assert len(file.read()) == 500_001
    assert process.returncode == 0


def guarded(ending: BaseException | Callable[[], object]) -> int:
    """The exit status of a command that raises or calls it."""
    app = typer.Typer()

    @app.command()
    def command() -> None:
        if isinstance(ending, BaseException):
            raise ending
        ending()

    with pytest.raises(SystemExit) as ended:
        main.guard(lambda: app([], standalone_mode=False))
    return int(ended.value.code or 0)


ERRORS = [
    *(MemoryError(), RuntimeError("can't start new thread"), RuntimeError("wrong")),
    OSError(errno.ENOSPC, "No space left on device", "/tmp/x"),
    OSError(errno.EMFILE, "Too many open files"),
    OSError(errno.EFBIG, "File too large"),
    OSError(errno.ENOSYS, "Function not implemented"),
    # Such as tosa-tools, where shards are put together and nothing is lowered. A missing part of a package is a defect.
    *(ModuleNotFoundError(f"no {name}", name=name) for name in ("absent.part", "ethos_hil.absent", "json.absent")),
    # typer takes it for the end of a dialogue. Truncated bytecode of a module raises it, too.
    EOFError("marshal data too short"),
    # typer takes each for stdout's, and ends with status 1.
    BrokenPipeError(errno.EPIPE, "Broken pipe"),
]


def test_a_shortage_is_no_defect(recorded: Recorded, capsys: pytest.CaptureFixture[str]) -> None:
    lines = []
    for error in ERRORS:
        status = guarded(error)
        line = re.sub("may have [0-9]+", "may have [some]", capsys.readouterr().err.splitlines()[-1])
        # Nor is one a defect in the record of a worker, which went on after it.
        lines.append(f"{error!r}: {status} {line} {unforeseen(error).kind}")
    recorded.check("\n".join(lines))


def test_what_a_plugin_or_a_model_exits_with_is_not_how_a_command_ended(capsys: pytest.CaptureFixture[str]) -> None:
    """A red night would be green, were an exporter to end it so."""
    for status in (0, 1, None):
        code = compile(f"import sys; sys.exit({status})", "plugin.py", "exec")
        assert guarded(partial(exec, code, {"__name__": "plugin"})) == 2
        assert f"ended the program with status {status}" in capsys.readouterr().err


def test_a_machine_without_proc_is_named(here: Path) -> None:
    hide = 'unshare -rm sh -c \'mount -t tmpfs none /proc && exec "$0" "$@"\''
    if shell(here, f"{hide} true").returncode:
        pytest.skip("unshare may not mount anything here")
    done = shell(here, f"{hide} {shlex.join(COMMAND)} run net.pte")
    error = Ended(done.returncode, "", done.stderr.decode())
    assert_one_clear_line(error, 3, "QEMU did not start", "mount /proc")


def test_a_name_that_the_encoding_lacks_is_shown_escaped(here: Path) -> None:
    changes = {"PYTHONIOENCODING": "ascii:strict", "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    (here / "né").mkdir()
    (here / "net.pte").rename(here / "né/net\n.pte")
    done = shell(
        here, "E run $'né/net\\n.pte' --runs né/runs --json né/r.json; s=$?; E runs --runs né/runs; exit $s", changes
    )
    assert done.returncode == 0, done.stderr
    first = done.stdout.decode("ascii").splitlines()[0]
    assert first.startswith(("verified  n\\xe9/net\\n.pte for", "verified  n\\udcc3\\udca9/net\\n.pte for"))
    assert json.loads((here / "né/r.json").read_text())["verdict"] == "verified"


# --- Signals. ---

STOPS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT]


def at_default() -> None:
    """Undo what a shell or nohup did to these signals."""
    for number in STOPS:
        signal.signal(number, signal.SIG_DFL)


def inherits(handler: signal.Handlers, masked: bool) -> None:
    """Be a careless parent."""
    at_default()
    signal.signal(signal.SIGCHLD, handler)
    if masked:
        signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP})


@pytest.mark.parametrize(
    ("numbers", "blocked"),
    [
        *(([signal.SIGTERM], True), ([signal.SIGINT] * 20, False)),
        *(pytest.param([number], False, marks=pytest.mark.proof) for number in STOPS),
        pytest.param([signal.SIGHUP, signal.SIGHUP, signal.SIGTERM], False, marks=pytest.mark.proof),
    ],
)
def test_a_signal_in_a_run_with_a_runner_leaves_no_folder_and_no_process(
    here: Path, numbers: list[signal.Signals], blocked: bool
) -> None:
    """Also of a run whose parent had blocked the signal."""
    elf = guest(here, HANGS, "started\\n")
    with subprocess.Popen(
        [*COMMAND, "run", "net.pte", "--runner", str(elf)], cwd=here, env=environment(here), stderr=subprocess.PIPE,
        preexec_fn=lambda: inherits(signal.SIG_DFL, blocked),
    ) as process:  # fmt: skip
        wait_until(lambda: any(name_of(child).startswith("qemu") for child in children(process.pid)), "it runs")
        assert list((here / "tmp").glob("ethos-hil-runner-*"))
        running = children(process.pid)
        for number in numbers:
            process.send_signal(number)
            time.sleep(0.01)
        _, error = process.communicate(timeout=30)
    assert process.returncode == 130, error
    assert error.decode().splitlines()[-1] == "ethos-hil: interrupted"
    assert list((here / "tmp").iterdir()) == []
    assert not [pid for pid in running if alive(pid)]


@pytest.mark.parametrize(("launcher", "masked"), [
    (False, True), (True, False), *(pytest.param(both, both, marks=pytest.mark.proof) for both in (False, True)),
])  # fmt: skip
def test_how_children_end_is_known_where_the_parent_ignored_it(here: Path, masked: bool, launcher: bool) -> None:
    elf = str(guest(here, ENDS_WITH_3))
    command = [*COMMAND, "run", "net.pte", "--runner", elf]
    if launcher:
        model = "FVP_Corstone_SSE-300_Ethos-U55"
        options = ["-C", "cpu0.semihosting-enable=1", "--timelimit", "60"]
        command = [sys.executable, "-m", "ethos_hil.harness.fvp_stand_in", model, *options, "-a", elf]
    done = subprocess.run(
        command, cwd=here, env=environment(here), capture_output=True,
        preexec_fn=lambda: inherits(signal.SIG_IGN, masked),
    )  # fmt: skip
    assert done.returncode == (3 if launcher else 1), done.stderr
    assert launcher or b"the runner exited with status 3" in done.stderr


def test_an_ignored_hangup_stays_ignored(here: Path) -> None:
    """`nohup ethos-hil run` is not ended by a terminal that closes."""
    command = of_guard("os.kill(os.getpid(), signal.SIGHUP)")
    starts = (lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN), at_default)
    assert [
        subprocess.run(command, env=environment(here), preexec_fn=start).returncode for start in starts
    ] == [0, 130]  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_a_second_signal_does_not_end_the_cleaning(here: Path, number: signal.Signals) -> None:
    """The kernel sends SIGHUP when a terminal closes, and the shell sends another. A hand presses Ctrl-C twice."""
    end = f"os.kill(os.getpid(), {int(number)})"
    command = of_guard(f"try:\n    {end}\nfinally:\n    {end}\n    open('cleaned', 'w').close()")
    done = subprocess.run(command, cwd=here, env=environment(here), capture_output=True, preexec_fn=at_default)
    assert done.returncode == 130, done.stderr
    assert (here / "cleaned").exists()


def test_a_signal_while_nobody_reads_ends_it_at_once(here: Path) -> None:
    reading, writing = os.pipe()
    with subprocess.Popen(
        of_guard("print('x' * 5_000_000)"), stdout=writing, stderr=subprocess.PIPE, env=environment(here),
        preexec_fn=at_default,
    ) as process:  # fmt: skip
        os.close(writing)
        wait_for_full_pipe(reading)  # so it waits for a reader, and its handlers are in place
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    os.close(reading)
    assert process.returncode == 130


# --- Text of a target or a name. ---


def on_a_terminal(here: Path, *arguments: str) -> tuple[int, str]:
    """Run the command line on a terminal. Return its status and all that it printed."""
    master, slave = pty.openpty()
    variables = environment(here, {"COLUMNS": "200", "TERM": "xterm"})
    printed = b""
    with subprocess.Popen(
        [*COMMAND, *arguments], cwd=here, env=variables, stdin=slave, stdout=slave, stderr=slave
    ) as process:
        os.close(slave)
        with contextlib.suppress(OSError):  # nobody has it open any more
            while data := os.read(master, 65_536):
                printed += data
    os.close(master)
    return process.returncode, printed.decode()


@pytest.mark.parametrize(
    "name",
    [
        "[/red]\x1b]0;owned\x07.pte",
        *(pytest.param(name, marks=pytest.mark.proof) for name in ("a[bold]b.pte", ":smile:.pte", "\u202egp.pte")),
    ],
)
def test_a_name_is_no_markup_and_no_escape_sequence_on_a_terminal(here: Path, name: str) -> None:
    (here / name).parent.mkdir(exist_ok=True)
    (here / "net.pte").rename(here / name)
    status, printed = on_a_terminal(here, "run", name)
    assert status == 0, printed
    assert ascii(name)[1:-1] in printed
    assert not [text for text in ("\x1b]0;", "\u202e") if text in printed]


def test_a_runner_cannot_write_escape_sequences_to_the_terminal(here: Path, recorded: Recorded) -> None:
    guest(here, SAYS, "\\033]0;owned\\007\\033[2J\\nE: bad \\033]52;c;AAAA\\007\\n")
    done = shell(here, "E run net.pte --runner guest --json r.json")
    recorded.check(shown(here, done))
    record = json.loads((here / "r.json").read_text())
    assert record["console"][0] == "\x1b]0;owned\x07\x1b[2J", "the record has the text as it is"
    debug = shell(here, "E run net.pte --runner guest --debug")
    assert b"Traceback" in debug.stderr
    usage = shell(here, "E run $'--\\e[2J' net.pte")
    assert usage.returncode == 2
    assert not {b"\x1b"[0], b"\x07"[0]} & {*done.stderr, *debug.stderr, *usage.stderr}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (FOR_EVER, "x" * 50_000),
        pytest.param(FOR_EVER, "y\\n", marks=pytest.mark.proof),
        pytest.param(UART_FOR_EVER, "", marks=pytest.mark.proof),
    ],
)
def test_an_endless_console_ends_in_time_and_in_bounded_space(here: Path, body: str, text: str) -> None:
    elf = guest(here, body, text)
    before = time.monotonic()
    done = shell(here, f"E run net.pte --runner {elf} --timeout 2 --json r.json")
    assert time.monotonic() - before < 30
    assert done.returncode == 1, done.stderr[-3000:]
    assert b"no end within" in done.stderr
    assert len(done.stderr) < 20_000
    assert (here / "r.json").stat().st_size < 1 << 20
