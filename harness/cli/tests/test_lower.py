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
from ethos_hil.harness.testing.command import Ended, Run, assert_one_clear_line, check_errors, full_disk
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


def written(result: Ended) -> list[str]:
    assert result.status == 0, result.err
    return result.out.splitlines()


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "__pycache__")


def test_a_program_is_called_after_the_model_and_can_be_run(ethos_hil: Run, here: Path) -> None:
    result = ethos_hil("lower", "net.py:net")
    assert written(result) == ["net.pte"]
    assert "forward: 1 delegate, " in result.err
    assert files(here) == ["net.pte", "net.py"]
    assert ethos_hil("run", "net.pte").out.startswith("verified  net.pte for ethos-u55-128")


@pytest.mark.parametrize(
    ("arguments", "start"),
    [
        (["--to", "vela", "--npu", "ethos-u85-256"], b"vela_bin_stream"),
        (["--to", "tosa"], None),
        (["--to", "tosa", "--tosa", "TOSA-1.0+FP"], None),
    ],
)
def test_blobs_and_tosa_are_products_too(ethos_hil: Run, here: Path, arguments: list[str], start: bytes | None) -> None:
    (name,) = written(ethos_hil("lower", "net.py:net", *arguments, "-o", "made.bin"))
    data = (here / name).read_bytes()
    assert name == "made.bin"
    assert data.startswith(start) if start is not None else data[4:8] == b"TOSA"


def test_a_folder_that_is_named_as_one_is_made(ethos_hil: Run, here: Path) -> None:
    """The command line of docs/lowering.md, in a fresh folder."""
    command = ("lower", "net.py:net", "-o", "build/", "--artifacts", "build/look", "--json", "build/made.json")
    assert ethos_hil(*command).status == 0
    assert files(here) == ["build", "net.py"]
    assert files(here / "build") == ["look", "made.json", "net.pte"]
    assert "model.pte" in files(here / "build/look")
    assert written(ethos_hil("lower", "net.py:net", "-o", "a/b/")) == ["a/b/net.pte"]


def test_a_method_is_run_by_its_name(ethos_hil: Run, here: Path, both: str) -> None:
    for method, kernels in (("double", 2), ("sort", 1)):
        result = ethos_hil("run", both, "--method", method, "--json", "r.json")
        assert result.status == 0, result.err
        record = json.loads((here / "r.json").read_text())
        assert (record["verdict"], record["method"]) == ("verified", method)
        assert len(record["artifact"]["cpu_ops"]) == kernels
    assert json.loads(ethos_hil("run", both, "--json", "-").out)["method"] == "double"
    (here / "both.pte").write_bytes((here / written(ethos_hil("lower", both))[0]).read_bytes())
    assert ethos_hil("run", "both.pte", "--method", "sort").status == 0
    assert ethos_hil("preflight", both, "--method", "sort").status == 0


def test_our_folder_is_replaced_and_no_other(ethos_hil: Run, here: Path) -> None:
    written(ethos_hil("lower", "net.py:net", "--artifacts", "look"))
    manifest = json.loads((here / "look/lowering.json").read_text())
    manifest["files"].append("stale.txt")
    (here / "look/lowering.json").write_text(json.dumps(manifest))
    (here / "look/stale.txt").write_text("of another model")
    written(ethos_hil("lower", "net.py:net", "--artifacts", "look", "--npu", "ethos-u55-256"))
    assert "stale.txt" not in files(here / "look")
    assert json.loads((here / "look/lowering.json").read_text())["target"].startswith("ethos-u55-256")
    (here / "mine").mkdir()
    (here / "mine/model.pte").write_text("years of work")
    refused = ethos_hil("lower", "net.py:net", "--artifacts", "mine", "-o", "other.pte")
    assert_one_clear_line(refused, 2, "cannot write mine: model.pte is there, and was not written by ethos-hil")
    assert (here / "mine/model.pte").read_text() == "years of work"
    assert files(here) == ["look", "mine", "net.pte", "net.py"], "nothing half-written"


def test_arguments_that_cannot_be_used(ethos_hil: Run, recorded: Recorded) -> None:
    """What can be told at once is told before the model is lowered."""
    check_errors(recorded, ethos_hil, "lower net.py:net", [
        "--to vella", "--to tosa --tosa TOSA-1.1+INT", "--to tosa --npu ethos-u55-128",
        "--to tosa --memory-mode Sram_Only", "--tosa TOSA-1.0+INT", "--artifacts net.py", "-o no/such/folder/net.pte",
        "--json no/made.json", "-o net.py/", "-o build --artifacts build/look", "-o build --json build/made.json",
        "--artifacts net.py/look",
    ])  # fmt: skip
    assert_one_clear_line(ethos_hil("lower", "net.py:net", "-o", "n" * 300), 2, "File name too long")


def test_models_that_cannot_be_lowered(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    (here / "sorts.py").write_text(METHODS.replace('"double": (Double(), (x,)), ', ""))
    (here / "net.pte").write_bytes((DATA / "add.pte").read_bytes())
    check_errors(recorded, ethos_hil, "lower", [
        "net.py:untraceable", "sorts.py:both --to vela", "net.pte",
    ], lowers=True)  # fmt: skip


def test_what_was_made_is_told_to_programs_too(ethos_hil: Run, here: Path, both: str) -> None:
    result = ethos_hil("lower", both, "--artifacts", "look", "--json", "made.json")
    assert written(result)[0] == "both.pte"
    data = json.loads((here / "made.json").read_text())
    assert (data["schema_version"], data["product"], data["target"]) == (1, "pte", "ethos-u55-128, Shared_Sram")
    assert [*data["files"], *data["artifacts"]] == written(result)
    double, sort = data["methods"]
    assert (double["name"], double["scheme"], double["delegates"], double["delegated"][0]) == (
        "double",
        "a8w8",
        1,
        "aten.add.Tensor",
    )
    assert (sort["name"], sort["scheme"], sort["delegates"], sort["cpu_ops"]) == (
        "sort",
        None,
        0,
        ["aten::sort.values"],
    )
    alone = ethos_hil("lower", both, "--to", "vela", "--json", "-")
    assert json.loads(alone.out)["files"] == ["both.vela"]
    assert "double: 1 delegate" in alone.err


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.proof)])
def test_an_interrupted_lowering_leaves_nothing(
    here: Path, tmp_path_factory: pytest.TempPathFactory, number: signal.Signals
) -> None:
    cache = str(tmp_path_factory.mktemp("cache"))  # an empty one, so that there is something to interrupt
    environment = {**os.environ, "PYTHONPATH": str(Path(main.__file__).parents[3]), "ETHOS_HIL_CACHE": cache}
    command = [
        sys.executable,
        "-m",
        "ethos_hil.harness.cli.main",
        "lower",
        "net.py:net",
        "--artifacts",
        "look",
        "--json",
        "made.json",
    ]
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
    written(ethos_hil("lower", "net.py:net", "-o", "elsewhere.pte"))
    with full_disk(2000):  # the program has more bytes
        ended = ethos_hil("lower", "net.py:net", "--artifacts", "look")
    assert_one_clear_line(ended, 2, "cannot write ", "File too large")
    assert (here / "net.pte").read_text() == "before"
    assert files(here) == ["elsewhere.pte", "look", "net.pte", "net.py"]
    assert files(here / "look") == []
