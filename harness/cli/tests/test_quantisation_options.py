"""How a model is quantised, from the command line: calibration, bits, and a quantiser of the user's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ethos_hil as api
from ethos_hil.harness.testing.command import Run, check_errors
from ethos_hil.harness.testing.snapshot import Snapshot
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


def test_options_that_cannot_be_used(ethos_hil: Run, here: Path) -> None:
    np.savez(here / "wrong.npz", np.zeros(3))
    check_errors(ethos_hil, "run blocks.py:blocks", Snapshot("""
        --scheme a8w9: 2 ethos-hil: --scheme is 'a8w9' (did you mean a8w8? valid: a8w8, a16w8)
        --int16 heads: 2 ethos-hil: blocks.py:blocks calls no module 'heads' (did you mean head? its
            modules: blocks, blocks.0, blocks.0.conv, blocks.1, blocks.1.conv, head, unused)
        --int16 unused: 2 ethos-hil: method forward calls no module 'unused' (its modules: blocks.0,
            blocks.0.conv, blocks.1, blocks.1.conv, head)
        --int16 head --scheme a16w8: 2 ethos-hil: method forward: a16w8 has 16 bits in every module, so
            int16 for head says nothing (leave one of them out)
        --quantizer blocks.py:wide_linears --int16 head: 2 ethos-hil: method forward: the quantizer decides
            all bits, so int16 for head says nothing (leave one of them out; upstream's quantisers have
            set_module_name)
        --quantizer blocks.py:wide_linears --scheme a16w8: 2 ethos-hil: method forward: the quantizer
            decides all bits, so the scheme a16w8 says nothing (leave one of them out; upstream's quantisers
            have set_module_name)
        --quantizer blocks.py:no_quantizer: 2 ethos-hil: the quantizer no_quantizer returned a int (it takes
            upstream's compile spec and returns a quantiser, such as
            EthosUQuantizer(spec).set_global(get_symmetric_quantization_config()))
        --quantizer blocks.py:broken_quantizer: 2 ethos-hil: the quantizer broken_quantizer raised
            RuntimeError: not today (blocks.py:65) (it takes upstream's compile spec and returns a
            quantiser, such as EthosUQuantizer(spec).set_global(get_symmetric_quantization_config()))
        --quantizer blocks.py:absent: 2 ethos-hil: blocks.py has no function 'absent' (functions there:
            blocks, broken_quantizer, data, declared, no_quantizer, nothing, on_cpu, other_shapes, raises,
            wide_linears, with_quantizer)
        --quantizer absent.py:f: 2 ethos-hil: no such file: absent.py (did you mean net.py?)
        --calibrate blocks.py:raises: 2 ethos-hil: --calibrate blocks.py:raises raised ValueError: no data
            set here (blocks.py:47) (it takes no arguments and returns a list of input tuples)
        --calibrate blocks.py:nothing: 2 ethos-hil: blocks.py:nothing gives no inputs (give at least one
            input set)
        --calibrate blocks.py:other_shapes: 2 ethos-hil: blocks.py:other_shapes: calibration_inputs[0] is
            (float32[2, 4, 6, 6]) (the example inputs are (float32[1, 4, 6, 6]))
        --calibrate absent.npz: 2 ethos-hil: no such calibration inputs file: absent.npz
        --calibrate wrong.npz: 2 ethos-hil: wrong.npz: array 'arr_0': expected float32[1, 4, 6, 6], or one
            more leading axis for several sets; found float64[3]
        --calibrate '': 2 ethos-hil: --calibrate is empty (give X.npz or file.py:function)
        --calibrate blocks: 2 ethos-hil: --calibrate 'blocks' names no function (give file.py:function or
            package.module:function)
    """), lowers=True)  # fmt: skip


def test_options_that_say_nothing(ethos_hil: Run, here: Path) -> None:
    (here / "blocks.pte").write_bytes((DATA / "add.pte").read_bytes())
    check_errors(ethos_hil, "run blocks.pte", Snapshot("""
        --int16 head: 2 ethos-hil: blocks.pte is compiled already, so --int16 says nothing (leave it out)
        --calibrate blocks.py:data: 2 ethos-hil: blocks.pte is compiled already, so --calibrate says nothing
            (leave it out)
        --quantizer blocks.py:wide_linears: 2 ethos-hil: blocks.pte is compiled already, so --quantizer says
            nothing (leave it out)
    """), lowers=True)  # fmt: skip
    check_errors(ethos_hil, "lower blocks.py:blocks --to tosa --tosa TOSA-1.0+FP", Snapshot("""
        --quantizer blocks.py:wide_linears: 2 ethos-hil: TOSA-1.0+FP is not quantised, so --quantizer says
            nothing (ask for TOSA-1.0+INT)
        --int16 head: 2 ethos-hil: TOSA-1.0+FP is not quantised, so --int16 says nothing (ask for
            TOSA-1.0+INT)
        --scheme a16w8: 2 ethos-hil: TOSA-1.0+FP is not quantised, so --scheme says nothing (ask for
            TOSA-1.0+INT)
    """), lowers=True)  # fmt: skip
    check_errors(ethos_hil, "run blocks.py:on_cpu", Snapshot("""
        --calibrate blocks.py:data: 2 ethos-hil: method forward stays on the CPU in float, so --calibrate
            says nothing (leave it out)
    """), lowers=True)  # fmt: skip
    with pytest.raises(api.UsageError, match="asked for in float"):
        lower(load_model("blocks.py:with_quantizer"), TosaSpec.parse("TOSA-1.0+FP"))
    result = ethos_hil("lower", "blocks.py:blocks", "--to", "tosa", "--int16", "head", "--json", "-")
    assert json.loads(result.out)["target"] == "TOSA-1.0+INT+int16"
