"""Protects that the process with labgrid is found and started, and that its absence and its end say what to do; that it
needs nothing of the harness, and knows what dead processes have.
"""

from __future__ import annotations

import ast
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ethos_hil.base.errors import TargetNotAvailable, UsageError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil_labgrid import side_process
from ethos_hil_labgrid.labgrid_side import borrower_name, is_left_behind
from ethos_hil_labgrid.side_process import (
    COORDINATOR_VARIABLE,
    PROGRAM,
    PYTHON_VARIABLE,
    WAIT_VARIABLE,
    SideProcess,
    coordinator,
    labgrid_python,
    wait_seconds,
)

PLACES = """read line; echo '{"places": []}'"""
MakeSide = Callable[[str], SideProcess]
NO_ANSWERS = {
    "ends at once": "exit 0",
    "ends": "read line; exit 1",
    "a text": "read line; echo 'DeprecationWarning: no'",
    "a list": "read line; echo '[1]'",
    "no places": "read line; echo '{}'",
    "a place of another form": """read line; echo '{"places": [{"name": 1}]}'""",
    "notes without an end": """read line; while echo '{"note": ""}'; do :; done""",
    "a line without an end": "read line; while printf %99999s; do :; done",
    "leased": """read line; echo '{"error": "leased", "message": "no place is free", "hint": "wait"}'""",
}


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def make_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeSide]:
    """Let a shell script be labgrid's Python."""
    sides: list[SideProcess] = []

    def make(text: str) -> SideProcess:
        monkeypatch.setenv(PYTHON_VARIABLE, str(program(tmp_path / "python", text)))
        sides.append(SideProcess("farm:1"))
        return sides[-1]

    yield make
    for side in sides:
        side.close()


def test_the_environment_is_given_by_its_folder_or_its_python_else_that_of_labgrid_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = program(tmp_path / "env/bin/python", "")
    for path in (python, tmp_path / "env"):
        monkeypatch.setenv(PYTHON_VARIABLE, str(path))
        assert labgrid_python() == str(python)
    monkeypatch.setenv(PYTHON_VARIABLE, str(tmp_path))
    with pytest.raises(TargetNotAvailable, match="which is neither a program nor an environment") as caught:
        labgrid_python()
    assert "docs/farm.md" in str(caught.value.hint)
    monkeypatch.delenv(PYTHON_VARIABLE)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(TargetNotAvailable, match="labgrid is not installed") as caught:
        labgrid_python()
    assert f"let {PYTHON_VARIABLE} name its Python" in str(caught.value.hint)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/labgrid-client").symlink_to(program(tmp_path / "env/bin/labgrid-client", ""))
    assert labgrid_python() == str(python)


def test_a_coordinator_and_a_time_to_wait_may_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(COORDINATOR_VARIABLE, raising=False)
    assert coordinator() == "127.0.0.1:20408"
    monkeypatch.setenv(COORDINATOR_VARIABLE, "farm:1")
    assert coordinator() == "farm:1"
    for text, seconds in (("", 900.0), ("0", 0.0), ("2.5", 2.5)):
        monkeypatch.setenv(WAIT_VARIABLE, text)
        assert wait_seconds() == seconds
    for text in ("soon", "-1", "nan", "1e9"):
        monkeypatch.setenv(WAIT_VARIABLE, text)
        with pytest.raises(UsageError, match=f"{WAIT_VARIABLE} is "):
            wait_seconds()


@pytest.mark.parametrize("text", NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_what_is_no_answer_is_an_error_and_never_without_an_end(
    text: str, make_side: MakeSide, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recorded: Recorded
) -> None:
    monkeypatch.setattr(side_process, "_ANSWER_SECONDS", 0.5 if "note" in text else 30.0)
    monkeypatch.setattr(side_process, "_END_SECONDS", 0.1)
    with pytest.raises(TargetNotAvailable) as caught:
        make_side(text).places()
    message = caught.value.message.replace(str(tmp_path), "HERE")
    recorded.check({"kind": str(caught.value.kind), "message": message, "hint": caught.value.hint})


def test_a_program_that_has_ended_is_started_again(make_side: MakeSide, tmp_path: Path) -> None:
    side = make_side("exit 0")
    with pytest.raises(TargetNotAvailable, match="has ended"):
        side.places()
    program(tmp_path / "python", PLACES)
    assert side.places() == ()


def test_a_python_that_has_no_labgrid_or_cannot_be_started_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken").write_bytes(b"\0")
    (tmp_path / "broken").chmod(0o755)
    for python, message, hint in (
        (sys.executable, "has no labgrid: No module named", "docs/farm.md has how to install"),
        (tmp_path / "broken", "cannot be started: ", f"correct {PYTHON_VARIABLE}"),
    ):
        monkeypatch.setenv(PYTHON_VARIABLE, str(python))
        side = SideProcess("127.0.0.1:1")
        with pytest.raises(TargetNotAvailable, match=message) as caught:
            side.places()
        assert (caught.value.kind, caught.value.hint) == ("not-launched", hint)
        side.close()


def test_notes_are_told_and_the_answer_is_the_line_behind_them(
    make_side: MakeSide, capfd: pytest.CaptureFixture[str]
) -> None:
    says = """read line; echo '{"note": "waiting\\u001b for"}'; echo '{"places": []}'; read line"""
    assert make_side(says).places() == ()
    error = capfd.readouterr().err
    assert error.startswith("ethos-hil: waiting")
    assert "\x1b" not in error


def test_the_program_ends_with_its_pipe(make_side: MakeSide, tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    side = make_side(f"{PLACES}; read line || touch {ended}")
    side.places()
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    side.close()
    assert ended.exists()
    assert len(list(Path("/proc/self/fd").iterdir())) < descriptors


# --- What runs there. ---


def test_it_imports_the_standard_library_and_nothing_else() -> None:
    """labgrid and what came with it are imported late, by `importlib`."""
    for node in ast.walk(ast.parse(PROGRAM.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
        for name in names:
            assert name.partition(".")[0] in sys.stdlib_module_names, name


def test_without_labgrid_it_says_so_in_an_interpreter_without_any_package(tmp_path: Path) -> None:
    command = (sys.executable, "-I", "-S", str(PROGRAM), "serve", "127.0.0.1:1", str(os.getpid()))
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (3, b"")
    answer = json.loads(done.stdout)
    assert answer["error"] == "labgrid"
    assert answer["message"].startswith(f"{sys.executable} has no labgrid: ")


def test_a_process_is_known_by_its_name_until_it_ends() -> None:
    process = subprocess.Popen(["sleep", "60"])
    try:
        host, user = borrower_name(process.pid)
        assert not is_left_behind(f"{host}/{user}", host)
    finally:
        process.kill()
        process.wait()
    assert is_left_behind(f"{host}/{user}", host)


def test_what_is_not_ours_or_of_this_machine_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LG_USERNAME", "me")
    monkeypatch.delenv("LG_HOSTNAME", raising=False)
    host, user = borrower_name(os.getpid())
    assert host == socket.gethostname()
    assert user.startswith("me+ethos-hil-")
    _, machine, _, _ = user.removeprefix("me+").rsplit("-", 3)
    dead = user.rpartition("-")[0] + "-1"
    assert is_left_behind(f"{host}/{dead}", host)
    assert not is_left_behind(f"elsewhere/{dead}", host), "another machine's processes cannot be seen from here"
    assert not is_left_behind(f"{host}/{dead.replace(machine, '00000000')}", host), "another boot, or container"
    assert not is_left_behind(f"{host}/me", host), "who used labgrid-client"
    assert not is_left_behind(f"{host}/{dead} ", host)
