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

CALIBRATED = ("--calibrate", "blocks.py:data")


@pytest.fixture(autouse=True)
def _model(here: Path) -> None:
    (here / "blocks.py").write_text(MODEL)


def run(ethos_hil: Run, here: Path, *options: object, model: str = "blocks.py:blocks") -> dict[str, Any]:
    """Return the record of a run, with the digest of its program, and the names of types of the delegate's outputs."""
    result = ethos_hil("run", model, *options, "--json", "r.json")
    assert result.status == 0, result
    record: dict[str, Any] = json.loads((here / "r.json").read_text())
    types = sorted(output["dtype"] for output in record["outputs"] if output["name"].startswith("delegate"))
    return {**record, "sha256": record["artifact"]["sha256"], "scheme": record["artifact"]["scheme"], "types": types}


def sqnr(record: dict[str, Any], name: str) -> float:
    return next(float(row["sqnr_db"]) for row in record["accuracy"] if row["name"] == name)


def test_one_example_to_calibrate_with_is_said(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    np.savez(here / "one.npz", np.full((1, 4, 6, 6), 2, np.float32))
    records = [run(ethos_hil, here, *options) for options in ((), CALIBRATED, ("--calibrate", "one.npz"))]
    notes = [" ".join([record["scheme"], *record["notes"]]) for record in records]
    recorded.check("\n".join([*notes, ethos_hil("lower", "blocks.py:blocks").shown()]))
    assert len({record["sha256"] for record in records}) == 3


def test_sixteen_bits_everywhere_or_in_some_modules(ethos_hil: Run, here: Path) -> None:
    narrow, wide, mixed = (
        run(ethos_hil, here, *CALIBRATED, *more) for more in ((), ("--scheme", "a16w8"), ("--int16", "head"))
    )
    assert [record["types"] for record in (narrow, mixed, wide)] == [["int8"] * 2, ["int16", "int8"], ["int16"] * 2]
    assert [record["scheme"] for record in (wide, mixed)] == ["a16w8", "a8w8, a16w8 in head"]
    assert sqnr(mixed, "class") > sqnr(narrow, "class") + 3
    assert sqnr(wide, "mask") > sqnr(mixed, "mask")
    assert "quantised with a8w8, a16w8 in head" in mixed["notes"]
    lists = run(ethos_hil, here, *CALIBRATED, "--int16", "blocks", "--npu", "ethos-u85-128")
    assert lists["types"] == ["int16", "int8"], "a list of modules has no calls of its own: those in it are meant"
    assert run(ethos_hil, here, *CALIBRATED, model="blocks.py:declared")["sha256"] == mixed["sha256"]
    answer = api.run("blocks.py:blocks", calibrate="blocks.py:data", int16=["head"])
    assert answer.artifact.sha256 == mixed["sha256"]


def test_a_quantizer_of_the_users_decides(ethos_hil: Run, here: Path) -> None:
    quantizer = ("--quantizer", "blocks.py:wide_linears")
    ours, theirs = run(ethos_hil, here), run(ethos_hil, here, *quantizer)
    assert theirs["scheme"] == "quantizer wide_linears"
    # Its function is not known by its name alone: what it does now is what counts.
    (here / "blocks.py").write_text(MODEL.replace("is_per_channel=False", "is_per_channel=True "))
    changed = run(ethos_hil, here, *quantizer)
    assert len({ours["sha256"], theirs["sha256"], changed["sha256"]}) == 3
    answer = api.run("blocks.py:blocks", quantizer="blocks.py:wide_linears")
    assert answer.artifact.sha256 == changed["sha256"]


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
