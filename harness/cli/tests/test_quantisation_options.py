"""How a model is quantised, from the command line: calibration, bits, and a quantiser of the user's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ethos_hil as api
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.testing.command import Run, check_errors
from ethos_hil.harness.virtual.tests.programs import DATA
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import load_model

MODEL = """
import torch
from torch import nn
from ethos_hil.lowering.model import Method

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)

    def forward(self, x):
        return torch.relu(self.conv(x))

class Blocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(4, 5)
        self.unused = nn.Linear(4, 5)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return {"class": self.head(x.mean((2, 3))), "mask": x}

def blocks():
    torch.manual_seed(0)
    return Blocks(), (torch.rand(1, 4, 6, 6),)

def declared():
    module, inputs = blocks()
    return Method(module, inputs, int16=("head",))

def with_quantizer():
    module, inputs = blocks()
    return Method(module, inputs, quantizer=wide_linears)

def on_cpu():
    module, inputs = blocks()
    return Method(module, inputs, on_cpu=True)

def data():
    generator = torch.Generator().manual_seed(3)
    return [(2 * torch.rand(1, 4, 6, 6, generator=generator),) for _ in range(4)]

def raises():
    raise ValueError("no data set here")

def nothing():
    return []

def other_shapes():
    return [(torch.rand(2, 4, 6, 6),)]

def wide_linears(spec):
    from executorch.backends.arm.quantizer import (
        EthosUQuantizer, get_symmetric_a16w8_quantization_config, get_symmetric_quantization_config)
    quantizer = EthosUQuantizer(spec).set_global(get_symmetric_quantization_config(is_per_channel=False))
    return quantizer.set_module_type(nn.Linear, get_symmetric_a16w8_quantization_config())

def no_quantizer(spec):
    return 7

def broken_quantizer(spec):
    raise RuntimeError("not today")
"""


@pytest.fixture(autouse=True)
def model(here: Path) -> str:
    (here / "blocks.py").write_text(MODEL)
    return "blocks.py:blocks"


def run(ethos_hil: Run, here: Path, *options: object, model: str = "blocks.py:blocks") -> dict[str, Any]:
    result = ethos_hil("run", model, *options, "--json", "r.json")
    assert result.status == 0, result
    record: dict[str, Any] = json.loads((here / "r.json").read_text())
    assert record["verdict"] == "verified"
    return record


def bits(record: dict[str, Any]) -> list[str]:
    """The types of the delegate's outputs: class, mask."""
    return sorted(output["dtype"] for output in record["outputs"] if output["name"].startswith("delegate"))


def sqnr(record: dict[str, Any], name: str) -> float:
    return next(float(row["sqnr_db"]) for row in record["accuracy"] if row["name"] == name)


def test_one_example_to_calibrate_with_is_said(ethos_hil: Run, here: Path) -> None:
    alone = run(ethos_hil, here)
    assert any(note.startswith("calibrated on its one example: ") for note in alone["notes"])
    assert alone["artifact"]["scheme"] == "a8w8"
    more = run(ethos_hil, here, "--calibrate", "blocks.py:data")
    assert not any("calibrated" in note for note in more["notes"])
    assert more["artifact"]["sha256"] != alone["artifact"]["sha256"]
    np.savez(here / "one.npz", np.full((1, 4, 6, 6), 2, np.float32))
    single = run(ethos_hil, here, "--calibrate", "one.npz")
    assert any(note.startswith("calibrated on one input set: ") for note in single["notes"])
    lowered = ethos_hil("lower", "blocks.py:blocks")
    assert "note: calibrated on its one example" in lowered.err


def test_sixteen_bits_everywhere_or_in_some_modules(ethos_hil: Run, here: Path) -> None:
    options = ("--calibrate", "blocks.py:data")
    narrow = run(ethos_hil, here, *options)
    wide = run(ethos_hil, here, *options, "--scheme", "a16w8")
    mixed = run(ethos_hil, here, *options, "--int16", "head")
    assert [bits(record) for record in (narrow, mixed, wide)] == [["int8"] * 2, ["int16", "int8"], ["int16"] * 2]
    assert [record["artifact"]["scheme"] for record in (wide, mixed)] == ["a16w8", "a8w8, a16w8 in head"]
    assert sqnr(mixed, "class") > sqnr(narrow, "class") + 3
    assert sqnr(wide, "mask") > sqnr(mixed, "mask")
    assert "quantised with a8w8, a16w8 in head" in mixed["notes"]
    lists = run(ethos_hil, here, *options, "--int16", "blocks", "--npu", "ethos-u85-128")
    assert bits(lists) == ["int16", "int8"], "a list of modules has no calls of its own: those in it are meant"
    declared = run(ethos_hil, here, *options, model="blocks.py:declared")
    assert declared["artifact"]["sha256"] == mixed["artifact"]["sha256"]
    assert api.run("blocks.py:blocks", calibrate="blocks.py:data", int16=["head"]).artifact.scheme == (
        "a8w8, a16w8 in head"
    )


def test_a_quantizer_of_the_users_decides(ethos_hil: Run, here: Path) -> None:
    ours = run(ethos_hil, here)
    theirs = run(ethos_hil, here, "--quantizer", "blocks.py:wide_linears")
    assert theirs["artifact"]["scheme"] == "quantizer wide_linears"
    assert theirs["artifact"]["sha256"] != ours["artifact"]["sha256"]
    # Its function is not known by its name alone: what it does now is what counts.
    text = MODEL.replace("is_per_channel=False", "is_per_channel=True ")
    (here / "blocks.py").write_text(text)
    changed = run(ethos_hil, here, "--quantizer", "blocks.py:wide_linears")
    assert changed["artifact"]["sha256"] != theirs["artifact"]["sha256"]
    assert (
        api.run("blocks.py:blocks", quantizer="blocks.py:wide_linears").artifact.sha256
        == (changed["artifact"]["sha256"])
    )


def test_options_that_cannot_be_used(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    np.savez(here / "wrong.npz", np.zeros(3))
    check_errors(recorded, ethos_hil, "run blocks.py:blocks", [
        "--scheme a8w9", "--int16 heads", "--int16 unused", "--int16 head --scheme a16w8",
        "--quantizer blocks.py:wide_linears --int16 head", "--quantizer blocks.py:wide_linears --scheme a16w8",
        "--quantizer blocks.py:no_quantizer", "--quantizer blocks.py:broken_quantizer",
        "--quantizer blocks.py:absent", "--quantizer absent.py:f", "--calibrate blocks.py:raises",
        "--calibrate blocks.py:nothing", "--calibrate blocks.py:other_shapes", "--calibrate absent.npz",
        "--calibrate wrong.npz", "--calibrate ''", "--calibrate blocks",
    ], lowers=True)  # fmt: skip


def test_options_that_say_nothing(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    (here / "blocks.pte").write_bytes((DATA / "add.pte").read_bytes())
    check_errors(recorded, ethos_hil, "run blocks.pte", [
        "--int16 head", "--calibrate blocks.py:data", "--quantizer blocks.py:wide_linears",
    ], lowers=True)  # fmt: skip
    check_errors(recorded, ethos_hil, "lower blocks.py:blocks --to tosa --tosa TOSA-1.0+FP", [
        "--quantizer blocks.py:wide_linears", "--int16 head", "--scheme a16w8",
    ], lowers=True)  # fmt: skip
    check_errors(recorded, ethos_hil, "run blocks.py:on_cpu", ["--calibrate blocks.py:data"], lowers=True)
    with pytest.raises(api.UsageError, match="asked for in float"):
        lower(load_model("blocks.py:with_quantizer"), TosaSpec.parse("TOSA-1.0+FP"))
    result = ethos_hil("lower", "blocks.py:blocks", "--to", "tosa", "--int16", "head", "--json", "-")
    assert json.loads(result.out)["target"] == "TOSA-1.0+INT+int16"
