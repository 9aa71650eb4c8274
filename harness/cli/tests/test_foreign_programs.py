"""Programs from elsewhere: they run, and are never green unless somebody says what is right, and it is."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import ethos_hil as api
from ethos_hil.base.errors import UsageError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Verdict
from ethos_hil.harness.cli.tests import upstream_programs
from ethos_hil.harness.testing.command import Run, assert_one_clear_line, check_errors
from ethos_hil.lowering.formats.pte_reader import BundledProgram


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    """Files that ExecuTorch alone made, and what the quantised module answers to three input sets."""
    folder = tmp_path_factory.mktemp("made")
    module, example = upstream_programs.quantised()
    program = upstream_programs.compiled(module, example)
    (folder / "up.pte").write_bytes(program.buffer)
    sets = upstream_programs.inputs(3)
    np.savez(folder / "x.npz", np.concatenate([entry[0].numpy() for entry in sets])[:, None])
    float_module = upstream_programs.two_heads()[0].eval()
    return SimpleNamespace(
        pte=folder / "up.pte",
        x=folder / "x.npz",
        bpte=upstream_programs.bundled(program, module, sets, folder / "up.bpte"),
        of_floats=upstream_programs.bundled(program, float_module, sets, folder / "floats.bpte"),
    )


def test_a_program_from_elsewhere_runs_and_is_not_green(ethos_hil: Run, here: Path, files: SimpleNamespace) -> None:
    result = ethos_hil("run", files.pte, "--json", "r.json", "--outputs", "o.npz")
    assert result.status == 1
    assert result.out.startswith("unverified  ")
    assert "was not lowered here" in result.out
    assert "--expected Y.npz" in result.out
    assert "float32[1, 3, 6, 6]: not compared" in result.out
    assert "every element of every input is 1" in result.out
    record = json.loads((here / "r.json").read_text())
    assert (record["verdict"], record["failure"]["kind"]) == ("unverified", "no-reference")
    assert [(output["compared"], output["reference"]) for output in record["outputs"]] == [(0, "")] * 4
    cycles = {metric["name"]: metric["value"] for metric in record["metrics"]}
    assert cycles["npu_cycles"] == sum(op["cycles"] for op in record["ops"]) > 0
    assert "npu_cycles_estimate" not in cycles, "Vela's estimate is not in the file"
    assert next(array.shape for array in np.load(here / "o.npz").values()) == (1, 3, 6, 6)
    assert ethos_hil("run", files.pte, "--allow-unverified").status == 0
    assert ethos_hil("runs").out.count("unverified") == 2
    assert ethos_hil("export", "r.json", "--to", "csv").out.count("\n") == len(record["ops"]) + 1


def test_what_the_user_expects_is_compared(ethos_hil: Run, here: Path, files: SimpleNamespace) -> None:
    ran = ("run", files.pte, "--inputs", files.x)
    assert ethos_hil(*ran, "--outputs", "y.npz").status == 1
    arrays = dict(np.load(here / "y.npz"))
    assert list(arrays) == ["output_0", "output_1", "output_2", "output_3"]
    assert arrays["output_1"].shape == (3, 1, 4)
    result = ethos_hil(*ran, "--expected", "y.npz", "--json", "r.json")
    assert result.status == 0, result
    assert "12 of 12 elements equal to y.npz" in result.out
    np.savez(here / "shuffled.npz", **dict(reversed(arrays.items())))
    assert ethos_hil(*ran, "--expected", "shuffled.npz").status == 0, "arrays are found by their names"
    np.savez(here / "in_order.npz", *arrays.values())
    assert ethos_hil(*ran, "--expected", "in_order.npz").status == 0, "or by their order"
    arrays["output_1"][2, 0, 3] += np.float32(0.125)
    np.savez(here / "wrong.npz", **arrays)
    wrong = ethos_hil(*ran, "--expected", "wrong.npz", "--json", "r.json")
    assert wrong.status == 1
    assert "mismatch: output 1: 1 of 4 elements differ from wrong.npz, by at most 0.125" in wrong.out
    assert "input set 2, repeat 0, index [0, 3]" in wrong.out
    assert "--atol" in wrong.out
    near = ethos_hil(*ran, "--expected", "wrong.npz", "--atol", "0.2", "--json", "r.json")
    assert near.status == 0, near
    assert "12 of 12 elements within 0.2 of wrong.npz, largest difference 0.125" in near.out
    record = json.loads((here / "r.json").read_text())
    assert record["outputs"][1]["tolerance"] == 0.2
    assert any("--atol 0.2, --rtol 0" in note for note in record["notes"]), "a tolerance says where it comes from"


def test_a_bundled_program_says_what_is_right(ethos_hil: Run, files: SimpleNamespace) -> None:
    result = ethos_hil("run", files.bpte)
    assert result.status == 0, result
    assert "324 of 324 elements equal to the bundle's expected outputs" in result.out
    floats = ethos_hil("run", files.of_floats)
    assert floats.status == 1
    assert "mismatch: output 0" in floats.out
    assert "--atol" in floats.out
    assert ethos_hil("run", files.of_floats, "--atol", "0.05").status == 0
    own = ethos_hil("run", files.of_floats, "--inputs", files.x)
    assert own.out.startswith("unverified"), "other inputs than the bundle's have other answers"
    assert ethos_hil("preflight", files.bpte).status == 0


def test_the_api_says_the_same(files: SimpleNamespace, tmp_path: Path) -> None:
    result = api.run(files.pte)
    assert result.verdict is Verdict.UNVERIFIED
    assert not result.verified
    assert result.references == ()
    assert list(result.named_outputs()) == [f"output {index}" for index in range(4)]
    with pytest.raises(api.NotVerified, match="was not lowered here"):
        result.assert_verified()
    assert "#1a7f37" not in result._repr_html_(), "not green"
    assert api.run(files.pte, expected=result.outputs).verified
    assert api.run(files.pte, expected=[result.outputs]).verified
    assert api.run(files.pte, expected=result.save_outputs(tmp_path / "y.npz")).verified
    off = tuple(array + np.float32(1) for array in result.outputs)
    assert api.run(files.pte, expected=off).verdict is Verdict.FAILED
    assert api.run(files.pte, expected=off, atol=1.5).verified
    with pytest.raises(UsageError, match="expected\\[0\\] has 1 outputs, the program has 4"):
        api.run(files.pte, expected=result.outputs[0])
    with pytest.raises(UsageError, match="expected\\[0\\] has a str"):
        api.run(files.pte, expected=(("a", "b")))


def test_what_is_said_of_expected_outputs_that_do_not_fit(
    ethos_hil: Run, here: Path, files: SimpleNamespace, recorded: Recorded
) -> None:
    shapes = ((1, 3, 6, 6), (1, 4), (1, 4, 6, 6), (1, 4, 6, 6))
    right = {f"output_{number}": np.zeros(shape, np.float32) for number, shape in enumerate(shapes)}
    for name, arrays in {
        "none": {},
        "few": {"output_0": right["output_0"]},
        "shape": right | {"output_1": np.zeros((1, 5), np.float32)},
        "type": right | {"output_1": np.zeros((1, 4))},
        "count": {name: np.stack([array, array]) for name, array in right.items()},
        "uneven": right | {"output_1": np.zeros((2, 1, 4), np.float32)},
        "object": right | {"output_1": np.array([None])},
    }.items():
        np.savez(here / f"{name}.npz", **arrays)  # type: ignore[arg-type]
    (here / "up.pte").write_bytes(files.pte.read_bytes())
    check_errors(recorded, ethos_hil, "run up.pte --expected", [
        "none.npz", "few.npz", "shape.npz", "type.npz", "count.npz", "uneven.npz", "object.npz", "absent.npz",
        "net.py",
    ], lowers=True)  # fmt: skip


def test_arguments_that_cannot_be_used(ethos_hil: Run, here: Path, files: SimpleNamespace, recorded: Recorded) -> None:
    (here / "up.pte").write_bytes(files.pte.read_bytes())
    before = (here / "net.py").read_text()
    check_errors(recorded, ethos_hil, "run up.pte", [
        "--atol 0.1", "--atol -1", "--rtol nan", "--outputs no/such/o.npz", "--outputs net.py --expected net.py",
        "--npu ethos-u85-256",
    ], lowers=True)  # fmt: skip
    assert (here / "net.py").read_text() == before


def test_a_damaged_bundle_is_refused_or_read(files: SimpleNamespace, here: Path, ethos_hil: Run) -> None:
    data = files.bpte.read_bytes()
    generator = np.random.default_rng(0)
    refused = 0
    for size in (0, 4, 8, 100, len(data) // 2):
        with pytest.raises(UsageError, match=r"cut\.bpte: not a usable bundled program"):
            BundledProgram.parse(data[:size], "cut.bpte")
    for _ in range(300):
        damaged = bytearray(data)
        damaged[generator.integers(len(data))] ^= 1 << int(generator.integers(8))
        try:
            BundledProgram.parse(bytes(damaged), "damaged.bpte")
        except UsageError:
            refused += 1
    assert 0 < refused < 300
    (here / "cut.bpte").write_bytes(data[:1000])
    assert_one_clear_line(ethos_hil("run", "cut.bpte"), 2, "cut.bpte: not a usable bundled program")
    assert_one_clear_line(ethos_hil("lower", files.bpte), 2, "is compiled already")
