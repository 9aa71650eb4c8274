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

from ethos_hil.harness.farm.side.borrower import borrower_name, is_left_behind
from ethos_hil.harness.farm.side_process import PROGRAM

SIDE = PROGRAM.with_name("side")


def test_it_imports_itself_and_the_standard_library() -> None:
    """labgrid and what came with it are imported late, by `importlib`."""
    for path in (PROGRAM, *SIDE.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                ours = name.startswith("ethos_hil.harness.farm.side.")
                assert ours or name.partition(".")[0] in sys.stdlib_module_names, f"{path.name} imports {name}"


def test_without_labgrid_it_says_so_and_has_imported_nothing_else_of_ours(tmp_path: Path) -> None:
    """In an interpreter without any package: `-S`."""
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


def test_a_process_id_that_another_process_has_by_now_is_a_dead_ones() -> None:
    host, user = borrower_name(os.getpid())
    head, _, began = user.rpartition("-")
    assert is_left_behind(f"{host}/{head}-{int(began) - 1}", host)


def test_what_is_not_ours_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_words_that_are_no_command() -> None:
    """Needs a labgrid to come so far: an empty one will do."""
    code = (
        "import sys, types; sys.modules['attr'] = sys.modules['labgrid'] = types.ModuleType('labgrid')\n"
        "from ethos_hil.harness.farm.side import program\n"
        "program.register_gdb_server = lambda: None\n"
        "sys.exit(program.main(['lend', 'me']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: labgrid_side.py serve ")
