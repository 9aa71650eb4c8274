"""Programs from elsewhere: they run, and are never green unless somebody says what is right, and it is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import ethos_hil as api
from ethos_hil.base.errors import UsageError
from ethos_hil.base.testing.once import Once
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Verdict
from ethos_hil.harness.cli.tests import upstream_programs
from ethos_hil.harness.testing.command import Run, check_errors, check_session
from ethos_hil.lowering.formats.pte_reader import BundledProgram


@pytest.fixture
def here(here: Path, once: Once) -> Path:
    """Be in a folder that has net.py and all files that upstream has made."""
    for path in once("made by upstream", upstream_programs.write).iterdir():
        (here / path.name).symlink_to(path)
    return here


def test_a_program_from_elsewhere_runs_and_is_not_green(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    check_session(recorded, ethos_hil, [
        "run up.pte --json r.json --outputs o.npz | unverified failure note output",
        "json r.json verdict failure.kind outputs.compared outputs.reference metrics.name",
        "run up.pte --allow-unverified | unverified", "export r.json --to csv",
    ])  # fmt: skip
    record = json.loads((here / "r.json").read_text())
    cycles = next(metric["value"] for metric in record["metrics"] if metric["name"] == "npu_cycles")
    assert cycles == sum(op["cycles"] for op in record["ops"]) > 0
    assert next(array.shape for array in np.load(here / "o.npz").values()) == (1, 3, 6, 6)
    assert ethos_hil("runs").out.count("unverified") == 2


def test_what_the_user_expects_is_compared(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    """Arrays are found by their names, or by their order; a tolerance says where it comes from."""
    assert ethos_hil("run", "up.pte", "--inputs", "x.npz", "--outputs", "y.npz").status == 1
    arrays = dict(np.load(here / "y.npz"))
    assert [(name, array.shape[0]) for name, array in arrays.items()] == [(f"output_{at}", 3) for at in range(4)]
    np.savez(here / "shuffled.npz", **dict(reversed(arrays.items())))
    np.savez(here / "in_order.npz", *arrays.values())
    arrays["output_1"][2, 0, 3] += np.float32(0.125)
    np.savez(here / "wrong.npz", **arrays)
    ran = "run up.pte --inputs x.npz --json r.json --expected"
    shown = "| verified failed failure output"
    check_session(recorded, ethos_hil, [
        *(f"{ran} {name}.npz {shown}" for name in ("y", "shuffled", "in_order", "wrong")), "json r.json notes",
        f"{ran} wrong.npz --atol 0.2 --rtol 0.01 {shown}", "json r.json outputs.tolerance notes",
    ])  # fmt: skip


def test_a_bundled_program_says_what_is_right(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    """Other inputs than the bundle's have other answers."""
    check_session(recorded, ethos_hil, [
        "run up.bpte | verified output", "run floats.bpte | failed", "run floats.bpte --atol 0.05 | verified",
        "run floats.bpte --inputs x.npz | unverified", "preflight up.bpte | npu",
        "run cpu.bpte --allow-cpu-only | verified output",
    ])  # fmt: skip
    failed = ethos_hil("run", "floats.bpte").out
    assert "mismatch: output 0" in failed
    assert "--atol" in failed


def test_integers_stand_for_the_real_numbers_that_the_program_states(
    ethos_hil: Run, here: Path, recorded: Recorded
) -> None:
    """Upstream takes conversions away and leaves their scales as methods. PyTorch's quantised module is the judge."""
    rows = "| verified failed failure note input output"
    check_session(recorded, ethos_hil, [
        f"run int8.pte --inputs real.npz --expected real_y.npz --outputs a.npz --json r.json {rows}",
        "json r.json artifact.quantised_io.name artifact.quantised_io.zero_point outputs.dtype outputs.mismatches",
        f"run int8.pte --inputs int8.npz --expected real_y.npz --outputs b.npz {rows}",
        "bundle r.json -o x.zip", "run x.zip | verified",
        f"run int8.bpte {rows}", "preflight int8.pte | input output",
        f"run scaleless.pte --inputs int8.npz --allow-unverified {rows}",
    ])  # fmt: skip
    ours, theirs = (dict(np.load(here / name)) for name in ("a.npz", "b.npz"))
    for name, array in theirs.items():
        assert array.dtype == np.int8
        assert np.array_equal(ours[name], array)
    scales = json.loads((here / "r.json").read_text())
    real = [output["real"] for output in scales["outputs"]]
    expected = [(array.min(), array.max()) for array in np.load(here / "real_y.npz").values()]
    assert np.allclose(real, expected, atol=1e-6)


def test_an_answer_in_integers_may_be_a_step_from_real_numbers(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    step = json.loads(ethos_hil("run", "int8.bpte", "--json", "-").out)["artifact"]["quantised_io"][1]["scale"]
    right = dict(np.load(here / "real_y.npz"))
    for name, steps in {"near": 0.999, "far": 1.001}.items():
        off = right["real_y_0"].copy()
        off[1, 0, 2, 3] += np.float32(steps * step)
        np.savez(here / f"{name}.npz", real_y_0=off, real_y_1=right["real_y_1"])
    run = "run int8.pte --inputs real.npz --expected"
    check_session(recorded, ethos_hil, [
        f"{run} near.npz | verified", f"{run} far.npz | failed failure", f"{run} far.npz --atol 0.001 | verified",
    ])  # fmt: skip


def test_real_numbers_that_have_no_integer(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    real = dict(np.load(here / "real.npz"))
    for name, value in {"nan": np.nan, "beyond": 1e9}.items():
        changed = real["real_0"].copy()
        changed[0, 0, :2, 0] = value
        np.savez(here / f"{name}.npz", real_0=changed, real_1=real["real_1"])
    np.savez(here / "shape.npz", real_0=real["real_0"][:, :, :5], real_1=real["real_1"])
    np.savez(here / "wide.npz", real_0=real["real_0"].astype(np.int16), real_1=real["real_1"])
    check_session(recorded, ethos_hil, ["run int8.pte --inputs beyond.npz --allow-unverified | note"])
    check_errors(recorded, ethos_hil, "run", [
        "int8.pte --inputs nan.npz", "int8.pte --inputs shape.npz", "int8.pte --inputs wide.npz",
        "scaleless.pte --inputs real.npz", "scaleless.pte --inputs int8.npz --expected real_y.npz",
    ], lowers=True)  # fmt: skip


def test_the_api_takes_real_numbers(here: Path) -> None:
    inputs, answers = (
        [tuple(np.load(here / f"{name}.npz")[f"{name}_{at}"][0] for at in range(2))] for name in ("real", "real_y")
    )
    result = api.run(here / "int8.pte", inputs, expected=answers)
    assert result.verified
    for ours, theirs in zip(result.real_outputs(), answers[0], strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-6)  # products in float32, of a magnitude of 5
    with pytest.raises(UsageError, match="has no method 'input0_scale'") as caught:
        api.run(here / "int8.pte", method="input0_scale")
    assert caught.value.hint == "it has: forward"
    with pytest.raises(UsageError, match=r"inputs\[0\]: input 0 is float32\[1, 6, 5\], the program has int8"):
        api.run(here / "scaleless.pte", inputs)


def test_the_api_says_the_same(here: Path) -> None:
    result = api.run(here / "up.pte")
    assert (result.verdict, result.verified, result.references) == (Verdict.UNVERIFIED, False, ())
    assert list(result.named_outputs()) == [f"output {index}" for index in range(4)]
    with pytest.raises(api.NotVerified, match="was not lowered here"):
        result.assert_verified()
    assert "#1a7f37" not in result._repr_html_(), "not green"
    for expected in (result.outputs, [result.outputs], result.save_outputs(here / "y.npz")):
        assert api.run(here / "up.pte", expected=expected).verified
    off = tuple(array + np.float32(1) for array in result.outputs)
    assert api.run(here / "up.pte", expected=off).verdict is Verdict.FAILED
    assert api.run(here / "up.pte", expected=off, atol=1.5).verified
    with pytest.raises(UsageError, match="expected\\[0\\] has 1 outputs, the program has 4"):
        api.run(here / "up.pte", expected=result.outputs[0])
    with pytest.raises(UsageError, match="expected\\[0\\] has a str"):
        api.run(here / "up.pte", expected=(("a", "b")))


def test_what_is_said_of_expected_outputs_that_do_not_fit(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
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
    check_errors(recorded, ethos_hil, "run up.pte --expected", [
        "none.npz", "few.npz", "shape.npz", "type.npz", "count.npz", "uneven.npz", "object.npz", "absent.npz",
        "net.py",
    ], lowers=True)  # fmt: skip


def test_arguments_that_cannot_be_used(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    before = (here / "net.py").read_text()
    check_errors(recorded, ethos_hil, "run up.pte", [
        "--atol 0.1", "--atol -1", "--rtol nan", "--outputs no/such/o.npz", "--outputs net.py --expected net.py",
        "--npu ethos-u85-256",
    ], lowers=True)  # fmt: skip
    assert (here / "net.py").read_text() == before


def test_a_damaged_bundle_is_refused_or_read(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    data = (here / "up.bpte").read_bytes()
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
    check_errors(recorded, ethos_hil, "run cut.bpte", [""], lowers=True)
    check_errors(recorded, ethos_hil, "lower up.bpte", [""])
