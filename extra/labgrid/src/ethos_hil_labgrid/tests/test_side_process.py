"""Protects that the process with labgrid is found and started, and that its absence and its end say what to do."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from ethos_hil.base.errors import TargetNotAvailable, UsageError
from ethos_hil.base.verdict import FailureKind
from ethos_hil_labgrid import side_process
from ethos_hil_labgrid.side_process import (
    COORDINATOR_VARIABLE,
    PYTHON_VARIABLE,
    WAIT_VARIABLE,
    SideProcess,
    coordinator,
    labgrid_python,
    wait_seconds,
)


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_the_environment_may_be_given_by_its_folder_or_its_python(
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


def test_else_it_is_that_of_labgrid_client_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(TargetNotAvailable, match="labgrid is not installed") as caught:
        labgrid_python()
    assert f"let {PYTHON_VARIABLE} name its Python" in str(caught.value.hint)
    python = program(tmp_path / "env/bin/python", "")
    client = program(tmp_path / "env/bin/labgrid-client", "")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/labgrid-client").symlink_to(client)
    assert labgrid_python() == str(python)


def test_the_coordinator_is_on_this_machine_unless_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(COORDINATOR_VARIABLE, raising=False)
    assert coordinator() == "127.0.0.1:20408"
    monkeypatch.setenv(COORDINATOR_VARIABLE, "farm:1")
    assert coordinator() == "farm:1"


@pytest.mark.parametrize(("text", "seconds"), [("", 900.0), ("0", 0.0), ("2.5", 2.5)])
def test_how_long_a_place_is_waited_for(text: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WAIT_VARIABLE, text)
    assert wait_seconds() == seconds


@pytest.mark.parametrize("text", ["soon", "-1", "nan", "1e9"])
def test_what_is_no_time_to_wait(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WAIT_VARIABLE, text)
    with pytest.raises(UsageError, match=f"{WAIT_VARIABLE} is "):
        wait_seconds()


def test_a_python_without_labgrid_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, sys.executable)
    side = SideProcess("127.0.0.1:1")
    with pytest.raises(TargetNotAvailable, match="has no labgrid: No module named") as caught:
        side.places()
    assert caught.value.kind is FailureKind.NOT_LAUNCHED
    assert caught.value.hint == "docs/farm.md has how to install"
    side.close()


@pytest.mark.parametrize("text", ["exit 0", "read line; exit 1"])
def test_a_program_that_ends_is_an_error_and_started_again(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, str(program(tmp_path / "ends", text)))
    side = SideProcess("farm:1")
    with pytest.raises(TargetNotAvailable, match="the program that borrows places of farm:1 has ended"):
        side.places()
    monkeypatch.setenv(PYTHON_VARIABLE, str(program(tmp_path / "answers", """read line; echo '{"places": []}'""")))
    assert side.places() == ()
    side.close()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "echo 'DeprecationWarning: no'",
            "'\"DeprecationWarning: no\"', which is not an answer",
        ),
        ("echo '[1]'", "which is not an answer"),
        ("echo '{}'", "says '{}', which is not an answer"),
        ("""echo '{"places": [{"name": 1}]}'""", "which is not an answer"),
        ("""while echo '{"note": ""}'; do :; done""", "does not answer"),
        ("while printf %99999s; do :; done", "and no answer"),
    ],
)
def test_what_is_no_answer_is_an_error_and_never_without_an_end(
    text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PYTHON_VARIABLE, str(program(tmp_path / "lies", f"read line; {text}")))
    monkeypatch.setattr(side_process, "_ANSWER_SECONDS", 0.5 if "note" in text else 30.0)
    monkeypatch.setattr(side_process, "_END_SECONDS", 0.1)
    side = SideProcess("farm:1")
    with pytest.raises(TargetNotAvailable, match=f"places of farm:1 .*{re.escape(words)}"):
        side.places()
    side.close()


def test_notes_are_told_and_the_answer_is_the_line_behind_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    says = """read line; echo '{"note": "waiting\\u001b for"}'; echo '{"places": []}'; read line"""
    monkeypatch.setenv(PYTHON_VARIABLE, str(program(tmp_path / "notes", says)))
    side = SideProcess("farm:1")
    assert side.places() == ()
    side.close()
    error = capfd.readouterr().err
    assert error.startswith("ethos-hil: waiting")
    assert "\x1b" not in error


def test_what_leased_means(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says = """read line; echo '{"error": "leased", "message": "no place is free", "hint": "wait"}'"""
    monkeypatch.setenv(PYTHON_VARIABLE, str(program(tmp_path / "leased", says)))
    side = SideProcess("farm:1")
    with pytest.raises(TargetNotAvailable, match="no place is free") as caught:
        side.places()
    assert (caught.value.kind, caught.value.hint) == (FailureKind.LEASED, "wait")
    side.close()


def test_a_program_that_cannot_be_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "broken"
    path.write_bytes(b"\0")
    path.chmod(0o755)
    monkeypatch.setenv(PYTHON_VARIABLE, str(path))
    with pytest.raises(TargetNotAvailable, match="cannot be started: ") as caught:
        SideProcess("farm:1").places()
    assert caught.value.hint == f"correct {PYTHON_VARIABLE}"


def test_the_program_ends_with_its_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = tmp_path / "ended"
    says = f"""read line; echo '{{"places": []}}'; read line || touch {ended}"""
    monkeypatch.setenv(PYTHON_VARIABLE, str(program(tmp_path / "waits", says)))
    side = SideProcess("farm:1")
    side.places()
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    side.close()
    assert ended.exists()
    assert len(list(Path("/proc/self/fd").iterdir())) < descriptors
    side.close()
