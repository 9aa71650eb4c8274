"""Protects what runs with labgrid's Python: it needs nothing of the harness, and knows what dead processes have."""

from __future__ import annotations

import ast
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ethos_hil_labgrid.labgrid_side import borrower_name, is_left_behind
from ethos_hil_labgrid.side_process import PROGRAM


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
