"""The files of a lowered model."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pytest

from ethos_hil.base.errors import CompileError
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.formats.tosa import TosaGraph
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.formats.vela_blob import VelaBlob
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.output.export_files import MANIFEST, artefacts, products, summary
from ethos_hil.lowering.tests.conftest import DATA, MODELS, Lowered

pytestmark = pytest.mark.slow


def arrays(data: bytes) -> dict[str, np.ndarray]:
    with np.load(io.BytesIO(data)) as file:
        return dict(file)


def test_each_product_is_what_is_in_the_program(lowered: Lowered) -> None:
    artifact = lowered("two_partitions")
    assert products(artifact, "pte") == {"": artifact.pte}
    blobs, programs = products(artifact, "vela"), products(artifact, "tosa")
    assert list(blobs) == list(programs) == ["0", "1"]
    for blob, program, delegate in zip(blobs.values(), programs.values(), artifact.delegates, strict=True):
        assert blob in artifact.pte
        assert VelaBlob.parse(blob).command_stream == delegate.blob.command_stream
        assert TosaGraph.parse(program).operators


def test_blobs_of_nothing_are_an_error(lowered: Lowered) -> None:
    with pytest.raises(CompileError, match=r"could be delegated to ethos-u55-128.*aten::sort\.values"):
        products(lowered("undelegated"), "vela")
    assert products(lowered("undelegated"), "pte")[""]


def test_the_folder_has_all_there_is_to_look_into(lowered: Lowered) -> None:
    artifact = lowered("known")
    files = artefacts(artifact)
    names = ["model.pte", "delegate-0.tosa", "delegate-0.vela", "inputs.npz", "pytorch.npz", "reference.npz"]
    assert sorted(files) == sorted([*names, "delegate-map.json", "vela-summary.json", MANIFEST])
    manifest = json.loads(files[MANIFEST])
    assert (manifest["files"], manifest["missing"]) == (sorted(files), [])
    assert manifest["versions"]["ethos-u-vela"] == "5.1.0"
    (delegate,) = artifact.delegates
    inputs, reference, pytorch = (arrays(files[f"{name}.npz"]) for name in ("inputs", "reference", "pytorch"))
    assert [list(each) for each in (inputs, reference, pytorch)] == [
        ["x"], ["output_0", f"instruction_{delegate.instruction}_output_0"], ["float_0", "quantised_0"],
    ]  # fmt: skip
    assert np.abs(reference["output_0"] - pytorch["quantised_0"]).max() < 0.01
    (mapped,) = json.loads(files["delegate-map.json"])["methods"]["forward"]
    assert [row["source"] for row in mapped["ops"]] == [op.source for op in artifact.npu_ops]
    (totals,) = json.loads(files["vela-summary.json"])["methods"]["forward"]
    assert totals["cycles_total"] == sum(op.vela_cycles for op in artifact.npu_ops)


def test_what_is_not_there_is_left_out(cache: Cache) -> None:
    """TOSA alone has neither blobs nor a map, and a foreign program no reference."""
    files = artefacts(lower(f"{MODELS}:add", TosaSpec.parse("TOSA-1.0+FP"), cache=cache))
    assert "delegate-0.tosa" in files
    assert not {"delegate-0.vela", "delegate-map.json", "vela-summary.json"} & files.keys()
    files = artefacts(Artifact.of_program((DATA / "add.pte").read_bytes(), "add.pte"))
    assert "reference.npz" not in files
    assert "was not lowered here" in json.loads(files[MANIFEST])["missing"][0]


def test_the_summary_is_a_line_a_method(lowered: Lowered, recorded: Recorded) -> None:
    recorded.check("\n".join(re.sub(r"\.py:\d+", ".py:LINE", line) for line in summary(lowered("methods"))))
