"""Forms of models: quantised already, with outputs that have names, with control flow, of several methods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch

import ethos_hil as api
from ethos_hil.base.testing.once import Once
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.cli.tests import upstream_programs
from ethos_hil.harness.testing.command import Run, check_session
from ethos_hil.lowering.formats.array_archive import packed_arrays
from ethos_hil.lowering.formats.pte_model import archive_names
from ethos_hil.lowering.upstream.export import output_names

MODULE = "ethos_hil.harness.cli.tests.upstream_programs"
FACTORY, FLOAT = f"{MODULE}:quantised", f"{MODULE}:two_heads"


def test_a_quantised_module_is_not_quantised_again(ethos_hil: Run, here: Path, once: Once, recorded: Recorded) -> None:
    torch.export.save(torch.export.export(*upstream_programs.quantised()), here / "q.pt2")
    check_session(recorded, ethos_hil, [
        line for model in (FACTORY, "q.pt2")
        for line in (f"run {model} --json r.json | verified",
                     "json r.json notes artifact.scheme ops.npu_op ops.module ops.aten_ops")
    ])  # fmt: skip
    record = json.loads((here / "r.json").read_text())
    assert {op["source"].partition(":")[0] for op in record["ops"]} == {"upstream_programs.py"}
    artifact = api.lower(FACTORY)
    assert artifact.sha256 == record["artifact"]["sha256"]
    upstream = (once("made by upstream", upstream_programs.write) / "up.pte").read_bytes()
    assert artifact.delegates[0].vela in upstream, "byte for byte upstream's own"


def test_outputs_keep_the_names_of_the_model(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    check_session(recorded, ethos_hil, [
        f"run {FLOAT} --json r.json --outputs o.npz | verified", "json r.json outputs.name accuracy.name",
        f"run {FLOAT} --expected o.npz | verified", f"lower {FLOAT} --artifacts look",
        "run two_heads.pte --json r.json | verified", "json r.json outputs.name",
    ])  # fmt: skip
    written = np.load(here / "o.npz")
    assert tuple(written) == upstream_programs.NAMES
    assert set(written) <= set(np.load(here / "look/reference.npz"))
    answer = api.run(FLOAT)
    assert answer.output_names == upstream_programs.NAMES
    for index, (name, array) in enumerate(answer.named_outputs().items()):
        assert np.array_equal(array, written[name])
        assert np.array_equal(array, answer.outputs[index])


def test_several_executions_are_rows(ethos_hil: Run, here: Path, recorded: Recorded) -> None:
    sets = [entry[0].numpy() for entry in upstream_programs.inputs(2)]
    np.savez(here / "x.npz", np.stack(sets))
    ran = f"run {FLOAT} --inputs x.npz"
    check_session(recorded, ethos_hil, [
        f"{ran} --outputs two.npz | verified", f"{ran} --repeat 2 --outputs four.npz | verified",
        f"{ran} --repeat 2 --expected four.npz | verified", f"{ran} --repeat 2 --expected two.npz | verified",
        f"{ran} --expected four.npz",
    ])  # fmt: skip
    four, two = (np.load(here / name)["mask"] for name in ("four.npz", "two.npz"))
    assert two.shape == (2, 1, 3, 6, 6)
    assert np.array_equal(four, two[[0, 0, 1, 1]]), "input sets in order, each as often as it is repeated"


class Pair(NamedTuple):
    left: object
    right: object


def test_names_of_outputs_and_of_arrays_in_an_archive(recorded: Recorded, tmp_path: Path) -> None:
    from torch.utils._pytree import tree_structure

    structures = [
        0, (0, 0), [0, (0, 0)], {"a": 0, "b": {"c": 0, "d": [0, 0]}}, (0, {"a": 0}), Pair(0, {"x": 0}), {1: 0, "b": 0},
        {"a.b": 0, "a": {"b": 0}}, {"": 0}, {"x" * 200: 0},
    ]  # fmt: skip
    outputs = [f"{structure!r:.50}: {list(output_names(tree_structure(structure)))}" for structure in structures]
    recorded.check("\n".join(outputs), "of outputs")
    lines = []
    for names in (["output 0", "output 12"], ["../../etc/x", "b\0c"], ["a/b", "a_b"], ["class logits", "é"],
                  ["file", "allow_pickle"]):  # the last are parameters of numpy.savez  # fmt: skip
        stored = list(archive_names(names))
        (tmp_path / "o.npz").write_bytes(packed_arrays(dict.fromkeys(stored, np.zeros(1))))
        assert list(np.load(tmp_path / "o.npz")) == stored
        lines.append(f"{names}: {stored}")
    recorded.check("\n".join(lines), "in an archive")


KNOWN = "ethos_hil.lowering.tests.known_model"
PATHS = {
    "a delegate for each way, and the CPU jumps": [
        f"{KNOWN}:branching --inputs {name}.npz" for name in ("one", "both")
    ],
    "a branch inside of the delegate": [f"{KNOWN}:branching --inputs both.npz --npu ethos-u85-256"],
    "a branch inside of a branch": [f"{KNOWN}:nested --inputs small.npz --npu ethos-u85-256"],
    "as many loops as the values say": [f"{KNOWN}:looping --inputs loops.npz --npu ethos-u85-256"],
    "a whole method of several": ["whole.pte --method score"],
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.proof] if "of a branch" in name else []) for name in PATHS]
)
def test_every_path_through_a_program_runs_and_is_verified(
    ethos_hil: Run, here: Path, name: str, recorded: Recorded
) -> None:
    """The models choose by the signs of the inputs' sums, which are opposite."""
    x, small = (np.random.default_rng(0).random((1, 2, size, size), np.float32) for size in (6, 4))
    sets = {"one": [x], "both": [x, -x], "small": [small, -small], "loops": [0.1 * x, x, 4 * x]}
    for file, arrays in sets.items():
        np.savez(here / f"{file}.npz", x=np.stack(arrays))
    if "method" in name:
        assert ethos_hil("lower", f"{KNOWN}:methods", "--whole", "-o", "whole.pte").status == 0
    facts = "json r.json outputs.name outputs.mismatches artifact.cpu_ops executions"
    runs = [f"run {arguments} --json r.json | verified" for arguments in PATHS[name]]
    check_session(recorded, ethos_hil, [line for run in runs for line in (run, facts)])
