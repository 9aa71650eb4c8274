"""How a model is lowered, from the command line: calibration, bits, a quantiser of the user's, a system of his."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ethos_hil as api
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.ask.lower_question import as_asked
from ethos_hil.harness.testing.command import Run, check_errors
from ethos_hil.harness.virtual.tests.programs import DATA
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import TorchModel, from_module, load_model
from ethos_hil.lowering.vela.ini import VelaIni

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
    return Method(*blocks(), int16=("head",))

def with_quantizer():
    return Method(*blocks(), quantizer=wide_linears)

def on_cpu():
    return Method(*blocks(), on_cpu=True)

def data():
    generator = torch.Generator().manual_seed(3)
    return [(2 * torch.rand(1, 4, 6, 6, generator=generator),) for _ in range(4)]

raises = lambda: 1 / 0
nothing = lambda: []
other_shapes = lambda: [(torch.rand(2, 4, 6, 6),)]

def wide_linears(spec):
    from executorch.backends.arm.quantizer import (
        EthosUQuantizer, get_symmetric_a16w8_quantization_config, get_symmetric_quantization_config)
    quantizer = EthosUQuantizer(spec).set_global(get_symmetric_quantization_config(is_per_channel=False))
    return quantizer.set_module_type(nn.Linear, get_symmetric_a16w8_quantization_config())

no_quantizer = lambda spec: 7
broken_quantizer = lambda spec: 1 / 0
"""

CYCLES = ("npu_cycles", "modelled")
CALIBRATED = ("--calibrate", "blocks.py:data")


@pytest.fixture(autouse=True)
def _model(here: Path) -> None:
    (here / "blocks.py").write_text(MODEL)


def run(ethos_hil: Run, here: Path, *options: object, model: str = "blocks.py:blocks") -> dict[str, Any]:
    """Return the record of a run and its artifact's facts, with cycles, and the types of the delegate's outputs."""
    result = ethos_hil("run", model, *options, "--json", "r.json")
    assert result.status == 0, result
    record: dict[str, Any] = json.loads((here / "r.json").read_text())
    types = sorted(output["dtype"] for output in record["outputs"] if output["name"].startswith("delegate"))
    (cycles,) = (row["value"] for row in record["metrics"] if (row["name"], row["provenance"]) == CYCLES)
    return {**record, **record["artifact"], "types": types, "cycles": cycles}


def sqnr(record: dict[str, Any], name: str) -> float:
    return next(float(row["sqnr_db"]) for row in record["accuracy"] if row["name"] == name)


def test_one_example_to_calibrate_with_is_said(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    np.savez(here / "one.npz", np.full((1, 4, 6, 6), 2, np.float32))
    records = [run(ethos_hil, here, *options) for options in ((), CALIBRATED, ("--calibrate", "one.npz"))]
    notes = [" ".join([record["scheme"], *record["notes"]]) for record in records]
    recorded.check("\n".join([*notes, ethos_hil("lower", "blocks.py:blocks").shown()]))
    assert len({record["sha256"] for record in records}) == 3


def test_a_file_calibrates_with_all_its_sets_by_the_names_of_arguments() -> None:
    first, second = (np.arange(start, start + 6, dtype=np.float32).reshape(3, 1, 2) for start in (0, 9))
    np.savez("swapped.npz", target=second, input=first)
    model = from_module(torch.nn.MSELoss(), (torch.zeros(1, 2),) * 2)
    calibrated = as_asked(model, api.Question(model, calibrate="swapped.npz"))
    assert isinstance(calibrated, TorchModel)
    np.testing.assert_array_equal(calibrated.default.calibration_inputs, np.stack([first, second], 1))


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
    theirs = run(ethos_hil, here, *quantizer)
    assert theirs["scheme"] == "quantizer wide_linears"
    # Its function is not known by its name alone: what it does now is what counts.
    (here / "blocks.py").write_text(MODEL.replace("is_per_channel=False", "is_per_channel=True "))
    changed = run(ethos_hil, here, *quantizer)
    assert theirs["sha256"] != changed["sha256"]
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


# --- What a user asks of Vela reaches it, is in the record, and decides the modelled cycles. ---

SLOW = "[System_Config.Slow]" + VelaIni.shipped().text.partition("[System_Config.Ethos_U55_High_End_Embedded]")[2]
SLOW = SLOW.replace("OffChipFlash_clock_scale=0.125", "OffChipFlash_clock_scale=0.0125")


@pytest.mark.slow
def test_a_users_system_is_compiled_for_and_timed(
    ethos_hil: Run, here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "my.ini").write_text(SLOW)
    default = run(ethos_hil, here, model="net.py:net")
    assert default["system_config"] == "Ethos_U55_High_End_Embedded"
    options = ("--vela-ini", "my.ini", "--system-config", "Slow", "--vela-flag=--disable-cascading")
    own = run(ethos_hil, here, *options, model="net.py:net")
    assert own["system_config"] == "Slow"
    assert {"--config=my.ini", "--system-config=Slow", "--disable-cascading"} <= set(own["artifact"]["vela_flags"])
    assert own["cycles"] > 1.5 * default["cycles"]
    assert not [note for note in own["notes"] if "memories" in note]

    # The file is not needed any more, neither for the cached model nor for the program that was made with it.
    assert ethos_hil("lower", "net.py:net", *options).status == 0
    (here / "my.ini").unlink()
    assert run(ethos_hil, here, model="net.pte")["cycles"] == own["cycles"]

    # Where nobody knows the file, the cycles are the default system's, and the record says so. The program is one of
    # unknown origin then, which has no reference; what is said of its cycles is known before.
    monkeypatch.setenv("ETHOS_HIL_CACHE", str(tmp_path / "another"))
    unknown = ethos_hil("run", "net.pte")
    assert unknown.status == 1


def test_one_clear_line_before_anything_is_lowered(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    (here / "my.ini").write_text(SLOW.replace("core_clock=500e6", "core_clock=quick", 1))
    variants = [
        "--vela-ini my.ini --system-config Slow", "--vela-ini absent.ini", "--system-config Ethos_U85_SYS_DRAM_Mid",
        "--arena-cache-size much", "--vela-flag=--config=x",
    ]  # fmt: skip
    for command in ("run", "preflight", "lower"):
        check_errors(recorded, ethos_hil, f"{command} net.py:net", variants)
    check_errors(recorded, ethos_hil, "lower net.py:net --to tosa", ["--optimise Size"])
    assert ethos_hil("lower", "net.py:net").status == 0
    check_errors(recorded, ethos_hil, "run net.pte", ["--optimise Size"], lowers=True)
