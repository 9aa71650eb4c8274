"""`ethos-hil scan`: the tables, and one line and the right exit status for what cannot be scanned."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ethos_hil.harness.scan.tests.small_wheels import only_from, wheel
from ethos_hil.harness.testing.command import Ended, Run, check_errors
from ethos_hil.harness.testing.snapshot import Snapshot

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


def test_what_cannot_be_scanned_is_one_line_and_status_2(ethos_hil: Run) -> None:
    check_errors(ethos_hil, "net.py:net --over", Snapshot("""
        numpy=1.0: 2 ethos-hil: --over numpy=1.0: 'numpy' is not a package to scan over (as in --over
            ethos-u-vela=4.4..5.2)
        ethos-u-vela=9.2..9.1: 2 ethos-hil: --over ethos-u-vela=9.2..9.1: 9.2..9.1 runs backwards (give the
            older version first: 9.1..9.2)
        ethos-u-vela=9.3..9.9: 2 ethos-hil: --over ethos-u-vela=9.3..9.9: no release lies in this range (the
            newest is 9.2.0)
        ethos-u-vela=9.1.7: 2 ethos-hil: ethos-u-vela has no release 9.1.7 (there are 9.1.0, 9.2.0)
        ethos-u-vela=9.1 --json there/x.json: 2 ethos-hil: cannot write there/x.json: No such file or
            directory (nothing was written there)
        ethos-u-vela=9.1 --json net.py: 2 ethos-hil: --json and MODEL are the same file, net.py (name
            another file for --json)
    """))  # fmt: skip
    check_errors(ethos_hil, "--over ethos-u-vela=9.1", Snapshot("""
        net.py:none: 2 ethos-hil: net.py has no function 'none' (functions there: float64, net)
        net.py:float64: 2 ethos-hil: net.py:float64 raised ZeroDivisionError: division by zero (net.py:12)
            (it must return (module, example_inputs) or (module, example_inputs, calibration_inputs), or a
            dictionary of these by method name, without arguments)
        none.py:net: 2 ethos-hil: no such file: none.py (did you mean net.py?)
        net.pte: 2 ethos-hil: net.pte is compiled already, and has no TOSA to compile again (give the model
            that it was made from)
    """))  # fmt: skip


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
