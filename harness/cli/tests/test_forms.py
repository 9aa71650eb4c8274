"""Forms of models: modules that are quantised already, and outputs that have names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

import ethos_hil as api
from ethos_hil.harness.cli.tests import upstream_programs
from ethos_hil.harness.testing.command import Run, assert_one_clear_line
from ethos_hil.lowering.formats.array_archive import packed_arrays
from ethos_hil.lowering.formats.pte_model import archive_names
from ethos_hil.lowering.upstream.export import output_names

FACTORY = f"{upstream_programs.__file__}:quantised"
FLOAT = f"{upstream_programs.__file__}:two_heads"


@pytest.fixture(scope="module")
def pt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pt2") / "q.pt2"
    torch.export.save(torch.export.export(*upstream_programs.quantised()), path)
    return path


def test_a_quantised_module_is_not_quantised_again(ethos_hil: Run, here: Path, pt2: Path) -> None:
    records = []
    for model in (FACTORY, pt2):
        result = ethos_hil("run", model, "--json", "r.json")
        assert result.status == 0, result
        records.append(json.loads((here / "r.json").read_text()))
    for record in records:
        assert record["verdict"] == "verified"
        assert "it is quantised already: its own scales are kept" in record["notes"]
        assert record["artifact"]["scheme"] == "as given"
        convolutions = [op for op in record["ops"] if op["npu_op"] == "Conv2D"]
        assert [op["module"] for op in convolutions][:2] == ["stem", "head"]
        assert all(op["source"].startswith("upstream_programs.py:") for op in convolutions)
        assert not any("quantized_decomposed" in name for op in record["ops"] for name in op["aten_ops"])
    assert records[0]["artifact"]["sha256"] == records[1]["artifact"]["sha256"]
    module, example = upstream_programs.quantised()
    answer = api.run(module, example)
    assert answer.verified
    assert answer.artifact.sha256 == records[0]["artifact"]["sha256"]
    upstream = upstream_programs.compiled(module, example)
    assert answer.artifact.delegates[0].vela in bytes(upstream.buffer), "byte for byte upstream's own"


def test_outputs_keep_the_names_of_the_model(ethos_hil: Run, here: Path) -> None:
    result = ethos_hil("run", FLOAT, "--json", "r.json", "--outputs", "o.npz")
    assert result.status == 0, result
    record = json.loads((here / "r.json").read_text())
    names = [output["name"] for output in record["outputs"] if not output["name"].startswith("delegate")]
    assert tuple(names) == upstream_programs.NAMES
    assert {row["name"] for row in record["accuracy"]} == set(names)
    assert "class.logits  " in result.out
    assert "class.logits in float" in result.out
    written = np.load(here / "o.npz")
    assert tuple(written) == upstream_programs.NAMES
    answer = api.run(FLOAT)
    assert answer.output_names == upstream_programs.NAMES
    for index, (name, array) in enumerate(answer.named_outputs().items()):
        assert np.array_equal(array, written[name])
        assert np.array_equal(array, answer.outputs[index])
    assert ethos_hil("run", FLOAT, "--expected", "o.npz").status == 0
    assert ethos_hil("lower", FLOAT, "--artifacts", "look").status == 0
    assert set(upstream_programs.NAMES) <= set(np.load(here / "look/reference.npz"))
    assert ethos_hil("run", "two_heads.pte", "--json", "r.json").status == 0
    assert json.loads((here / "r.json").read_text())["outputs"][0]["name"] == "mask"


def test_several_executions_are_rows(ethos_hil: Run, here: Path) -> None:
    sets = [entry[0].numpy() for entry in upstream_programs.inputs(2)]
    np.savez(here / "x.npz", np.stack(sets))
    ran = ("run", FLOAT, "--inputs", "x.npz")
    assert ethos_hil(*ran, "--outputs", "two.npz").status == 0
    assert np.load(here / "two.npz")["mask"].shape == (2, 1, 3, 6, 6)
    assert ethos_hil(*ran, "--repeat", "2", "--outputs", "four.npz").status == 0
    four, two = (np.load(here / name)["mask"] for name in ("four.npz", "two.npz"))
    assert np.array_equal(four, two[[0, 0, 1, 1]]), "input sets in order, each as often as it is repeated"
    assert ethos_hil(*ran, "--repeat", "2", "--expected", "four.npz").status == 0
    assert ethos_hil(*ran, "--repeat", "2", "--expected", "two.npz").status == 0
    assert_one_clear_line(ethos_hil(*ran, "--expected", "four.npz"), 2, "outputs for 4 input sets, the program runs 2")


class Pair(NamedTuple):
    left: object
    right: object


@pytest.mark.parametrize(
    ("structure", "names"),
    [
        (0, ["output 0"]),
        ((0, 0), ["output 0", "output 1"]),
        ([0, (0, 0)], ["output 0", "output 1", "output 2"]),
        ({"a": 0, "b": {"c": 0, "d": [0, 0]}}, ["a", "b.c", "b.d.0", "b.d.1"]),
        ((0, {"a": 0}), ["output 0", "1.a"]),
        (Pair(0, {"x": 0}), ["left", "right.x"]),
        ({1: 0, "b": 0}, ["1", "b"]),
        ({"a.b": 0, "a": {"b": 0}}, ["output 0", "output 1"]),
        ({"": 0}, ["output 0"]),
        ({"x" * 200: 0}, ["output 0"]),
    ],
)
def test_names_of_outputs(structure: object, names: list[str]) -> None:
    from torch.utils._pytree import tree_structure

    assert list(output_names(tree_structure(structure))) == names


@pytest.mark.parametrize(
    ("names", "stored"),
    [
        (["output 0", "output 12"], ["output_0", "output_12"]),
        (["../../etc/x", "b\0c"], [".._.._etc_x", "b_c"]),
        (["a/b", "a_b"], ["output_0", "output_1"]),
        (["class logits", "é"], ["class logits", "é"]),
        (["file", "allow_pickle"], ["file", "allow_pickle"]),  # parameters of numpy.savez
    ],
)
def test_names_in_an_archive(names: list[str], stored: list[str], tmp_path: Path) -> None:
    assert list(archive_names(names)) == stored
    (tmp_path / "o.npz").write_bytes(packed_arrays(dict.fromkeys(stored, np.zeros(1))))
    assert list(np.load(tmp_path / "o.npz")) == stored
