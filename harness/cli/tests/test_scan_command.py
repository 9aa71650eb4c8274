"""`ethos-hil scan`: the tables, and one line and the right exit status for what cannot be scanned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.scan.tests.small_wheels import only_from, wheel
from ethos_hil.harness.testing.command import Ended, Run, check_errors

MODEL = """
import torch

class Net(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + x

def net():
    return Net(), (torch.linspace(-1, 1, 8).reshape(1, 8),)

def float64():
    return 1 / 0
"""


@pytest.fixture
def ethos_hil(command_line: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs `ethos-hil scan` in a folder with a model, and leaves its progress out; pip knows no wheels but those in
    `wheels`.
    """
    Path("net.py").write_text(MODEL)
    Path("net.pte").write_bytes(b"")
    Path("wheels").mkdir()
    for version in ("9.1.0", "9.2.0"):
        wheel(Path("wheels"), "ethos-u-vela", version)
    for name, value in only_from(Path("wheels").absolute()).items():
        monkeypatch.setenv(name, value)

    def call(*arguments: object) -> Ended:
        status, out, err = command_line("scan", *arguments, "--environments", "kept")
        return Ended(status, out, "".join(line for line in err.splitlines(keepends=True) if not line.endswith("...\n")))

    return call


def test_what_cannot_be_scanned_is_one_line_and_status_2(ethos_hil: Run, recorded: Recorded) -> None:
    check_errors(recorded, ethos_hil, "net.py:net --over", [
        "numpy=1.0", "ethos-u-vela=9.2..9.1", "ethos-u-vela=9.3..9.9", "ethos-u-vela=9.1.7",
        "ethos-u-vela=9.1 --json there/x.json", "ethos-u-vela=9.1 --json net.py",
    ])  # fmt: skip
    check_errors(recorded, ethos_hil, "--over ethos-u-vela=9.1", [
        "net.py:none", "net.py:float64", "none.py:net", "net.pte",
    ])  # fmt: skip


def test_without_an_index_it_ends_with_3(ethos_hil: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    status, out, err = ethos_hil("net.py:net", "--over", "ethos-u-vela=9.1..9.2")
    assert (status, out) == (3, "")
    assert err.startswith("ethos-hil: pip cannot list the releases of ethos-u-vela")
    assert "check the network" in err


def test_versions_that_make_no_program_are_rows_with_their_reason(ethos_hil: Run) -> None:
    """These wheels have no Vela in them. The scan was made all the same."""
    wheel(Path("wheels"), "ethos-u-vela", "9.2.0", ["never-there"])
    status, out, _ = ethos_hil("net.py:net", "--over", "ethos-u-vela=9.1..9.2", "--npu", "ethos-u85-128")
    assert status == 0
    lines = out.splitlines()
    assert lines[:2] == [
        "ethos-u-vela on ethos-u85-128, Sram_Only, Ethos_U85_SYS_DRAM_Mid",
        "no version of ethos-u-vela makes a program",
    ]
    assert "ethos-u-vela 9.1.0 makes no program: Vela failed with ModuleNotFoundError: No module named 'ethosu'" in out
    assert "ethos-u-vela 9.2.0 makes no program: pip cannot install it: " in out
    assert sum(line.split() in (["9.1.0", "no", "program"], ["9.2.0", "no", "program"]) for line in lines) == 2
    status, out, _ = ethos_hil("net.py:net", "--over", "ethos-u-vela=9.1.0", "--json", "-")
    assert status == 0
    (version,) = json.loads(out)["points"][0]["versions"]
    assert version["reason"].startswith("Vela failed with ModuleNotFoundError")
    assert version["cycles"] is None
