"""Control flow and several methods on the virtual target: every path through a program runs and is verified."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ethos_hil.harness.testing.command import Run

MODELS = Path(__file__).resolve().parents[3] / "lowering" / "tests" / "known_model.py"
pytestmark = pytest.mark.slow


def run(ethos_hil: Run, here: Path, *arguments: object) -> tuple[set[str], list[str], dict[str, Any]]:
    """Return the delegate calls that a run that must be verified compared, what is on the CPU, and the record."""
    result = ethos_hil("run", *arguments, "--json", "r.json")
    assert result.status == 0, result.err
    record: dict[str, Any] = json.loads((here / "r.json").read_text())
    assert record["verdict"] == "verified"
    assert all(output["mismatches"] == 0 and output["compared"] for output in record["outputs"])
    compared = {output["name"].rpartition(" output ")[0] for output in record["outputs"]} - {""}
    return compared, [name.partition("::")[2] for name in record["artifact"]["cpu_ops"]], record


def both_ways(here: Path, shape: tuple[int, ...]) -> str:
    """Return a file with two input sets; the models choose by the signs of their sums, which are opposite."""
    x = np.random.default_rng(0).random(shape, np.float32)
    np.savez(here / "both.npz", x=np.stack([x, -x]))
    return "both.npz"


def test_an_ethos_u55_has_a_delegate_for_each_way_and_the_cpu_jumps(ethos_hil: Run, here: Path) -> None:
    inputs = both_ways(here, (1, 2, 6, 6))
    np.savez(here / "bright.npz", x=np.load(inputs)["x"][:1])
    bright, _, _ = run(ethos_hil, here, f"{MODELS}:branching", "--inputs", "bright.npz")
    both, on_cpu, _ = run(ethos_hil, here, f"{MODELS}:branching", "--inputs", inputs)
    assert (len(bright), len(both)) == (3, 4), "stem, one way and head; then the other way as well"
    assert bright < both
    assert "gt.Tensor_out" in on_cpu


@pytest.mark.parametrize("name", ["branching", pytest.param("nested", marks=pytest.mark.proof)])
def test_an_ethos_u85_branches_inside_of_its_delegate(ethos_hil: Run, here: Path, name: str) -> None:
    inputs = both_ways(here, (1, 2, 6, 6) if name == "branching" else (1, 2, 4, 4))
    compared, on_cpu, _ = run(ethos_hil, here, f"{MODELS}:{name}", "--npu", "ethos-u85-256", "--inputs", inputs)
    assert compared == {"delegate call 1"}
    assert on_cpu == ["quantize_per_tensor.out", "dequantize_per_tensor.out"]


def test_an_ethos_u85_loops_as_often_as_the_values_say(ethos_hil: Run, here: Path) -> None:
    x = np.random.default_rng(0).random((1, 2, 6, 6), np.float32)
    np.savez(here / "loops.npz", x=np.stack([0.1 * x, x, 4 * x]))
    compared, _, record = run(ethos_hil, here, f"{MODELS}:looping", "--npu", "ethos-u85-256", "--inputs", "loops.npz")
    assert (compared, record["executions"]) == ({"delegate call 1"}, 3)


def test_a_whole_method_of_several_is_verified(ethos_hil: Run, here: Path) -> None:
    assert ethos_hil("lower", f"{MODELS}:methods", "--whole", "-o", "whole.pte").status == 0
    _, on_cpu, _ = run(ethos_hil, here, "whole.pte", "--method", "score")
    assert on_cpu == []
