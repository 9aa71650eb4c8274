"""The files of a lowered model."""

from __future__ import annotations

import io
import json

import numpy as np
import pytest

from ethos_hil.base.errors import CompileError
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
    assert manifest["files"] == sorted(files)
    assert manifest["missing"] == []
    assert manifest["versions"]["ethos-u-vela"] == "5.1.0"
    assert list(arrays(files["inputs.npz"])) == ["x"]
    (delegate,) = artifact.delegates
    reference = arrays(files["reference.npz"])
    assert list(reference) == ["output_0", f"instruction_{delegate.instruction}_output_0"]
    pytorch = arrays(files["pytorch.npz"])
    assert list(pytorch) == ["float_0", "quantised_0"]
    assert np.abs(reference["output_0"] - pytorch["quantised_0"]).max() < 0.01
    (mapped,) = json.loads(files["delegate-map.json"])["methods"]["forward"]
    assert [row["source"] for row in mapped["ops"]] == [op.source for op in artifact.npu_ops]
    (totals,) = json.loads(files["vela-summary.json"])["methods"]["forward"]
    assert totals["cycles_total"] == sum(op.vela_cycles for op in artifact.npu_ops)


def test_tosa_alone_has_neither_blobs_nor_a_map(cache: Cache) -> None:
    artifact = lower(f"{MODELS}:add", TosaSpec.parse("TOSA-1.0+FP"), cache=cache)
    files = artefacts(artifact)
    assert "delegate-0.tosa" in files
    assert not {"delegate-0.vela", "delegate-map.json", "vela-summary.json"} & files.keys()


def test_a_program_without_a_reference_says_so() -> None:
    stranger = Artifact.of_program((DATA / "add.pte").read_bytes(), "add.pte")
    files = artefacts(stranger)
    assert "reference.npz" not in files
    assert "was not lowered here" in json.loads(files[MANIFEST])["missing"][0]


def test_the_summary_is_a_line_a_method(lowered: Lowered) -> None:
    lines = summary(lowered("methods"))
    assert lines[0].startswith("encode: 1 delegate, ")
    assert lines[0].endswith(
        "NPU operations; on the CPU: quantized_decomposed::quantize_per_tensor.out, "
        "quantized_decomposed::dequantize_per_tensor.out"
    )
    (rank,) = [line for line in lines if line.startswith("rank: 0 delegates")]
    assert rank.startswith("rank: 0 delegates, 0 NPU operations; on the CPU: aten::mul.out, aten::sort")
    assert "rank: 0 operators delegated, 2 not, with 0 conversions between numbers and integers" in lines
    assert any(line.startswith("  on the CPU: aten::sort.values at known_model.py:") for line in lines)
