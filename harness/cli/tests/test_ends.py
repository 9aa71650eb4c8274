"""The end of a process: its status is the verdict's, whoever listens, and nothing is left behind."""

from __future__ import annotations

import errno
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import typer

from ethos_hil.base.errors import unforeseen
from ethos_hil.base.testing.processes import alive, name_of, wait_for_full_pipe, wait_until
from ethos_hil.harness.cli import main
from ethos_hil.harness.cli.tests.guests import ENDS_WITH_3, FOR_EVER, HANGS, SAYS, UART_FOR_EVER, guest
from ethos_hil.harness.fvp_stand_in.tests.conftest import children

MODEL = """
import sys
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + x

class Quits(torch.nn.Module):
    def forward(self, x):
        sys.exit(0)

def net():
    return Net(), (torch.linspace(-1, 1, 8).reshape(1, 8),)

def quits():
    return Quits(), (torch.zeros(1, 8),)
"""
_SOURCES = str(Path(main.__file__).parents[3])


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The .pte of a model. To run it takes a second, because it needs no torch."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "net.py").write_text(MODEL)
    from ethos_hil.base.npu.ethos_u import EthosU
    from ethos_hil.lowering.lower import lower
    from ethos_hil.lowering.model.torch_model import load_model

    return lower(load_model(str(folder / "net.py") + ":net"), EthosU.parse("ethos-u55-128")).pte


@pytest.fixture
def here(tmp_path: Path, program: bytes) -> Path:
    (tmp_path / "net.py").write_text(MODEL)
    (tmp_path / "net.pte").write_bytes(program)
    (tmp_path / "tmp").mkdir()
    return tmp_path


def environment(here: Path, changes: Mapping[str, str] | None = None) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": _SOURCES, "TMPDIR": str(here / "tmp"), **(changes or {})}


def shell(here: Path, line: str, changes: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run a line of bash in which `$E` is the command line."""
    command = shlex.join([sys.executable, "-m", "ethos_hil.harness.cli.main"])
    script = f'E() {{ {command} "$@"; }}\n{line}'
    return subprocess.run(
        ["bash", "-c", script], cwd=here, env=environment(here, changes), capture_output=True, timeout=200
    )


def clear_line(done: subprocess.CompletedProcess[bytes], *words: str) -> None:
    """Assert that the only line on stderr besides progress is one of ours, with these words."""
    lines = [line for line in done.stderr.decode().splitlines() if not line.endswith("...")]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("ethos-hil: ")
    for word in words:
        assert word in lines[0]


# --- stdout and stderr. ---


@pytest.mark.parametrize("rest", ["", "--json -"])
def test_a_verified_run_is_verified_though_nobody_reads(here: Path, rest: str) -> None:
    done = shell(here, f"E run net.pte {rest} | true; exit ${{PIPESTATUS[0]}}")
    assert done.returncode == 0, done.stderr
    assert all(line.endswith("...") for line in done.stderr.decode().splitlines()), done.stderr
    assert b"verified" in shell(here, "E runs").stdout, "the record is kept"


@pytest.mark.parametrize("end", ["| true; exit ${PIPESTATUS[0]}", ">/dev/full"])
def test_a_failure_keeps_its_status_when_stdout_is_gone(here: Path, end: str) -> None:
    assert shell(here, f"E preflight net.pte --npu ethos-u55-256 {end}").returncode == 1


@pytest.mark.parametrize("arguments", ["run net.pte", "--help"])
def test_a_full_stdout_is_one_line_and_status_2(here: Path, arguments: str) -> None:
    done = shell(here, f"E {arguments} >/dev/full")
    assert done.returncode == 2
    clear_line(done, "cannot write stdout: No space left on device")


@pytest.mark.parametrize(
    ("closed", "status"),
    [
        *(("<&-", 0), (">&-", 2), ("2>/dev/full", 0)),
        *(pytest.param(*case, marks=pytest.mark.proof) for case in (("2>&-", 0), ("<&- 2>&-", 0), ("<&- >&- 2>&-", 2))),
    ],
)
def test_closed_streams(here: Path, closed: str, status: int) -> None:
    done = shell(here, f"E run net.pte --json r.json {closed}")
    assert done.returncode == status, done.stderr
    if closed == ">&-":
        clear_line(done, "cannot write stdout: Bad file descriptor")
    assert json.loads((here / "r.json").read_text())["verdict"] == "verified"
    for file in (*here.glob("results/runs/*/*"), here / "r.json"):
        assert "Loading" not in file.read_text(), "progress went into a file that got the descriptor's number"


def test_an_output_that_does_not_block_gets_everything(here: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    command = [
        sys.executable,
        "-c",
        "from ethos_hil.harness.cli.main import guard\nguard(lambda: print('x' * 500_000))",
    ]
    with subprocess.Popen(command, stdout=writing, env=environment(here)) as process:
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


_DEFECT = "(a defect in ethos-hil;"


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (MemoryError(), 3, "out of memory"),
        (OSError(errno.ENOSPC, "No space left on device", "/tmp/x"), 3, "No space left on device: /tmp/x"),
        (OSError(errno.EMFILE, "Too many open files"), 3, "ulimit -n"),
        (OSError(errno.EFBIG, "File too large"), 3, "ulimit -f"),
        (RuntimeError("can't start new thread"), 3, "ulimit -u"),
        (OSError(errno.ENOSYS, "Function not implemented"), 3, "lacks a system call"),
        # Such as tosa-tools, where shards are put together and nothing is lowered. A missing part of a package is one.
        (ModuleNotFoundError("", name="absent_package.part"), 3, "absent_package is not installed (`ethos-hil doctor`"),
        (ModuleNotFoundError("no ethos_hil.absent", name="ethos_hil.absent"), 70, f"no ethos_hil.absent {_DEFECT}"),
        (ModuleNotFoundError("no json.absent", name="json.absent"), 70, f"no json.absent {_DEFECT}"),
        # typer takes it for the end of a dialogue. Truncated bytecode of a module raises it, too.
        (EOFError("marshal data too short"), 70, "internal error: EOFError: marshal data too short"),
        # typer takes each for stdout's, and ends with status 1.
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 70, "internal error: BrokenPipeError"),
        (RuntimeError("wrong"), 70, "internal error: RuntimeError: wrong"),
    ],
)
def test_a_shortage_is_no_defect(
    error: BaseException, status: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert guarded(error) == status
    assert words in capsys.readouterr().err
    # Nor is one a defect in the record of a worker, which went on after it.
    if not isinstance(error, EOFError | ImportError):
        assert unforeseen(error).kind == ("not-available" if status == 3 else "internal")


@pytest.mark.parametrize("status", [0, 1, None])
def test_what_a_plugin_or_a_model_exits_with_is_not_how_a_command_ended(
    status: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """A red night would be green, were an exporter to end it so."""
    code = compile(f"import sys; sys.exit({status})", "plugin.py", "exec")
    assert guarded(lambda: exec(code, {"__name__": "plugin"})) == 2
    assert f"ended the program with status {status}" in capsys.readouterr().err


# --- Limits, folders, encodings. ---


@pytest.mark.parametrize("limit", [8, 12, *(pytest.param(limit, marks=pytest.mark.proof) for limit in (9, 10, 16, 24))])
def test_too_few_descriptors_are_named(here: Path, limit: int) -> None:
    done = shell(here, f"ulimit -n {limit}; E run net.pte")
    assert done.returncode in (0, 2, 3), done.stderr
    if done.returncode:
        assert b"oo many open files" in done.stderr
        clear_line(done)


def test_a_working_directory_that_was_removed_is_one_line(here: Path) -> None:
    (here / "gone").mkdir()
    done = shell(here, f"cd gone; rmdir ../gone; E run {here}/net.pte")
    assert done.returncode == 2
    clear_line(done, "working directory", "No such file or directory")


def test_a_machine_without_proc_is_named(here: Path) -> None:
    hide = 'unshare -rm sh -c \'mount -t tmpfs none /proc && exec "$0" "$@"\''
    if shell(here, f"{hide} true").returncode:
        pytest.skip("unshare may not mount anything here")
    done = shell(here, f"{hide} {shlex.quote(sys.executable)} -m ethos_hil.harness.cli.main run net.pte")
    assert done.returncode == 3, done.stderr
    clear_line(done, "QEMU did not start", "mount /proc")


@pytest.mark.parametrize(
    "changes",
    [{"PYTHONIOENCODING": "ascii:strict", "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
)
def test_a_name_that_the_encoding_lacks_is_shown_escaped(here: Path, changes: Mapping[str, str]) -> None:
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
    """Be a parent that is careless with signals."""
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
    command = [sys.executable, "-m", "ethos_hil.harness.cli.main", "run", "net.pte", "--runner", str(elf)]
    with subprocess.Popen(
        command, cwd=here, env=environment(here), stderr=subprocess.PIPE,
        preexec_fn=lambda: inherits(signal.SIG_DFL, blocked),
    ) as process:  # fmt: skip
        running = started(process.pid, here)
        for number in numbers:
            process.send_signal(number)
            time.sleep(0.01)
        _, error = process.communicate(timeout=30)
    assert process.returncode == 130, error
    assert error.decode().splitlines()[-1] == "ethos-hil: interrupted"
    assert list((here / "tmp").iterdir()) == []
    assert not [pid for pid in running if alive(pid)]


def started(pid: int, here: Path) -> set[int]:
    """Wait until the runner runs, and return the processes."""
    wait_until(lambda: any(name_of(child).startswith("qemu") for child in children(pid)), "the runner runs")
    assert list((here / "tmp").glob("ethos-hil-runner-*"))
    return children(pid)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("launcher", [False, True])
def test_how_children_end_is_known_where_the_parent_ignored_it(here: Path, masked: bool, launcher: bool) -> None:
    elf = str(guest(here, ENDS_WITH_3))
    command = [sys.executable, "-m", "ethos_hil.harness.cli.main", "run", "net.pte", "--runner", elf]
    if launcher:
        model = "FVP_Corstone_SSE-300_Ethos-U55"
        options = ["-C", "cpu0.semihosting-enable=1", "--timelimit", "60"]
        command = [sys.executable, "-m", "ethos_hil.harness.fvp_stand_in", model, *options, "-a", elf]
    done = subprocess.run(
        command,
        cwd=here,
        env=environment(here),
        capture_output=True,
        preexec_fn=lambda: inherits(signal.SIG_IGN, masked),
    )
    assert done.returncode == (3 if launcher else 1), done.stderr
    assert launcher or b"the runner exited with status 3" in done.stderr


def test_an_ignored_hangup_stays_ignored(here: Path) -> None:
    """`nohup ethos-hil run` is not ended by a terminal that closes."""
    code = "import os, signal\nfrom ethos_hil.harness.cli.main import guard\nguard(lambda: os.kill(os.getpid(), 1))"
    command = [sys.executable, "-c", code]
    ignored = subprocess.run(
        command, env=environment(here), preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    )
    assert ignored.returncode == 0
    assert subprocess.run(command, env=environment(here), preexec_fn=at_default).returncode == 130


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_a_second_signal_does_not_end_the_cleaning(here: Path, number: signal.Signals) -> None:
    """The kernel sends SIGHUP when a terminal closes, and the shell sends another. A hand presses Ctrl-C twice."""
    code = f"""
import os, signal
from ethos_hil.harness.cli.main import guard
def body():
    try:
        os.kill(os.getpid(), {int(number)})
    finally:
        os.kill(os.getpid(), {int(number)})
        open("cleaned", "w").close()
guard(body)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=here, env=environment(here), capture_output=True, preexec_fn=at_default)
    assert done.returncode == 130, done.stderr
    assert (here / "cleaned").exists()


def test_a_signal_while_nobody_reads_ends_it_at_once(here: Path) -> None:
    reading, writing = os.pipe()
    code = "from ethos_hil.harness.cli.main import guard\nguard(lambda: print('x' * 5_000_000))"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=writing,
        stderr=subprocess.PIPE,
        env=environment(here),
        preexec_fn=at_default,
    ) as process:
        os.close(writing)
        wait_for_full_pipe(reading)  # so it waits for a reader, and its handlers are in place
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
    os.close(reading)
    assert process.returncode == 130


# --- Text of a target or a name. ---


def on_a_terminal(here: Path, *arguments: str) -> tuple[int, str]:
    """Run the command line on a terminal. Return its status and all that it printed."""
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(here)
        command = [sys.executable, "-m", "ethos_hil.harness.cli.main", *arguments]
        os.execve(sys.executable, command, environment(here, {"COLUMNS": "200", "TERM": "xterm"}))
    printed = b""
    while True:
        try:
            data = os.read(master, 65_536)
        except OSError:
            break
        if not data:
            break
        printed += data
    os.close(master)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), printed.decode()


@pytest.mark.parametrize(
    "name",
    [
        *("[/red].pte", "\x1b]0;owned\x07.pte"),
        *(pytest.param(name, marks=pytest.mark.proof) for name in ("a[bold]b.pte", ":smile:.pte", "\u202egp.pte")),
    ],
)
def test_a_name_is_no_markup_and_no_escape_sequence_on_a_terminal(here: Path, name: str) -> None:
    (here / name).parent.mkdir(exist_ok=True)
    (here / "net.pte").rename(here / name)
    status, printed = on_a_terminal(here, "run", name)
    assert status == 0, printed
    shown = name.replace("\x1b", r"\x1b").replace("\x07", r"\x07").replace("\u202e", r"\u202e")
    assert shown in printed
    assert "\x1b]0;" not in printed
    assert "\u202e" not in printed


HOSTILE = "\\033]0;owned\\007\\033[2J\\nE: bad \\033]52;c;AAAA\\007\\n"


def test_a_runner_cannot_write_escape_sequences_to_the_terminal(here: Path) -> None:
    elf = guest(here, SAYS, HOSTILE)
    done = shell(here, f"E run net.pte --runner {elf} --json r.json")
    assert done.returncode == 1
    assert b"\x1b" not in done.stderr
    assert b"\x07" not in done.stderr
    assert rb"  device: \x1b]0;owned\x07\x1b[2J" in done.stderr
    assert rb"the runner reports: E: bad \x1b]52;c;AAAA\x07" in done.stderr
    record = json.loads((here / "r.json").read_text())
    assert record["console"][0] == "\x1b]0;owned\x07\x1b[2J", "the record has the text as it is"
    debug = shell(here, f"E run net.pte --runner {elf} --debug")
    assert b"Traceback" in debug.stderr
    assert b"\x1b" not in debug.stderr
    usage = shell(here, "E run $'--\\e[2J' net.pte")
    assert usage.returncode == 2
    assert b"\x1b" not in usage.stderr


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
    done = shell(here, f"E run net.pte --runner {elf} --timeout 5 --json r.json")
    assert time.monotonic() - before < 30
    assert done.returncode == 1, done.stderr[-3000:]
    assert b"no end within" in done.stderr
    assert len(done.stderr) < 20_000
    assert (here / "r.json").stat().st_size < 12 << 20
