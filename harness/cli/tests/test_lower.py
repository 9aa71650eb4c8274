"""`ethos-hil lower`: each product is written whole or not at all, and bad input ends in one clear line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.cli import main
from ethos_hil.harness.testing.command import Run, assert_one_clear_line, check_errors, check_session, full_disk
from ethos_hil.harness.virtual.tests.programs import DATA

METHODS = """
import torch
from ethos_hil.lowering.model import Method

class Double(torch.nn.Module):
    def forward(self, x):
        return x + x

class Sorted(torch.nn.Module):
    def forward(self, x):
        return torch.sort(x, dim=-1).values

def both():
    torch.manual_seed(0)
    x = torch.randn(1, 4, 4, 3)
    return {"double": (Double(), (x,)), "sort": Method(Sorted(), (x,), on_cpu=True)}
"""


@pytest.fixture
def both(here: Path) -> str:
    (here / "both.py").write_text(METHODS)
    return "both.py:both"


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "__pycache__")


def test_each_product_is_written_where_it_was_asked_for(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    """A program is called after the model and can be run; a folder that is named as one is made."""
    check_session(recorded, ethos_hil, [
        "lower net.py:net", "lower net.py:net --to vela --npu ethos-u85-256 -o u85",
        "lower net.py:net --to tosa -o integers", "lower net.py:net --to tosa --tosa TOSA-1.0+FP -o floats",
        "lower net.py:net -o build/ --artifacts build/look --json build/made.json", "lower net.py:net -o a/b/", "ls",
        "run net.pte | verified",
    ])  # fmt: skip
    assert (here / "u85").read_bytes().startswith(b"vela_bin_stream")
    assert [(here / name).read_bytes()[4:8] for name in ("integers", "floats")] == [b"TOSA"] * 2


def test_a_method_is_run_by_its_name(ethos_hil: Run, both: str, recorded: Recorded) -> None:
    fields = "verdict method artifact.cpu_ops"
    check_session(recorded, ethos_hil, [
        f"run {both} --method double --json r.json | verified", f"json r.json {fields}",
        f"run {both} --method sort --json r.json | verified", f"json r.json {fields}",
        f"run {both} --json r.json | verified", "json r.json method", f"lower {both}",
        "run both.pte --method sort | verified", f"preflight {both} --method sort | npu",
    ])  # fmt: skip


def test_our_folder_is_replaced_and_no_other(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    assert ethos_hil("lower", "net.py:net", "--artifacts", "look").status == 0
    manifest = json.loads((here / "look/lowering.json").read_text())
    manifest["files"].append("stale.txt")
    (here / "look/lowering.json").write_text(json.dumps(manifest))
    (here / "look/stale.txt").write_text("of another model")
    (here / "mine").mkdir()
    (here / "mine/model.pte").write_text("years of work")
    check_session(recorded, ethos_hil, [
        "lower net.py:net --artifacts look --npu ethos-u55-256", "json look/lowering.json target",
        "lower net.py:net --artifacts mine -o other.pte", "ls",
    ])  # fmt: skip
    assert (here / "mine/model.pte").read_text() == "years of work"


def test_arguments_that_cannot_be_used(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    """What can be told at once is told before the model is lowered."""
    (here / "out").mkdir()
    check_errors(recorded, ethos_hil, "lower net.py:net", [
        "--to vella", "--to tosa --tosa TOSA-1.1+INT", "--to tosa --npu ethos-u55-128",
        "--to tosa --memory-mode Sram_Only", "--tosa TOSA-1.0+INT", "--artifacts net.py", "-o no/such/folder/net.pte",
        "--json no/made.json", "-o net.py/", "-o build --artifacts build/look", "-o build --json build/made.json",
        "--artifacts net.py/look", "-o out --artifacts out", "--json out/x --artifacts out", "-o x --json x",
        "-o net.py",
    ])  # fmt: skip
    assert "class Net" in (here / "net.py").read_text()
    assert_one_clear_line(ethos_hil("lower", "net.py:net", "-o", "n" * 300), 2, "File name too long")


def test_models_that_cannot_be_lowered(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    (here / "sorts.py").write_text(METHODS.replace('"double": (Double(), (x,)), ', ""))
    (here / "net.pte").write_bytes((DATA / "add.pte").read_bytes())
    check_errors(recorded, ethos_hil, "lower", [
        "net.py:untraceable", "sorts.py:both --to vela", "net.pte",
    ], lowers=True)  # fmt: skip


def test_what_was_made_is_told_to_programs_too(ethos_hil: Run, both: str, recorded: Recorded) -> None:
    methods = " ".join(f"methods.{name}" for name in ("name", "scheme", "delegates", "delegated", "cpu_ops"))
    check_session(recorded, ethos_hil, [
        f"lower {both} --artifacts look --json made.json",
        f"json made.json schema_version product target files artifacts {methods}",
        f"lower {both} --to vela --json made.json", "json made.json files",
    ])  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.proof)])
def test_an_interrupted_lowering_leaves_nothing(
    here: Path, tmp_path_factory: pytest.TempPathFactory, number: signal.Signals
) -> None:
    cache = str(tmp_path_factory.mktemp("cache"))  # an empty one, so that there is something to interrupt
    environment = {**os.environ, "PYTHONPATH": str(Path(main.__file__).parents[3]), "ETHOS_HIL_CACHE": cache}
    arguments = ("lower", "net.py:net", "--artifacts", "look", "--json", "made.json")
    command = [sys.executable, "-m", "ethos_hil.harness.cli.main", *arguments]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, cwd=here
    ) as process:
        assert process.stderr is not None
        stage = next(line for line in process.stderr if "lowering to" in line)
        process.send_signal(number)
        out, err = process.communicate(timeout=120)
    assert "TOSA and Vela" in stage
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "ethos-hil: interrupted"
    assert "Traceback" not in err
    assert files(here) == ["net.py"]


def test_a_full_disk_leaves_nothing_half_written(ethos_hil: Run, here: Path) -> None:
    (here / "net.pte").write_text("before")
    assert ethos_hil("lower", "net.py:net", "-o", "elsewhere.pte").status == 0
    with full_disk(2000):  # the program has more bytes
        ended = ethos_hil("lower", "net.py:net", "--artifacts", "look")
    assert_one_clear_line(ended, 2, "cannot write ", "File too large")
    assert (here / "net.pte").read_text() == "before"
    assert files(here) == ["elsewhere.pte", "look", "net.pte", "net.py"]
    assert files(here / "look") == []
