"""Ordinary networks, end to end on the virtual Corstone-300: every one verified bit for bit, at every size of NPU."""

from __future__ import annotations

import numpy as np
import pytest
import tosa_reference_model

from harness.delegate import run_delegate
from harness.npu import CONFIGURATIONS
from harness.npu import Npu as FunctionalNpu
from harness.run import run
from lowering.hoist import hoist_tables
from lowering.lower import lower
from lowering.model import from_module
from lowering.profile import Npu
from lowering.shram import overruns
from lowering.tosa import TosaGraph
from lowering.vela import VelaBlob
from suites.models.stacks import STACKS

SEEDS = (0, 1, 2)
SIZES = (32, 64, 128, 256)


def npu_for(name: str, seed: int) -> Npu:
    return Npu.parse(f"ethos-u55-{SIZES[(list(STACKS).index(name) + seed) % len(SIZES)]}")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", STACKS)
def test_stack_is_verified(name: str, seed: int) -> None:
    """Each network meets three of the four sizes; over the networks, each size meets all kinds of layers."""
    source = from_module(*STACKS[name].example(seed), label=f"{name}-{seed}")
    report = run(source, npu_for(name, seed), strict=True)
    assert report.record.verdict == "verified", report.record.failure
    assert report.record.ops
    assert sum(op.cycles or 0 for op in report.record.ops) == report.record.metric("npu_cycles").value  # type: ignore[union-attr]


@pytest.mark.parametrize("name", STACKS)
def test_every_npu_computes_what_the_reference_model_does(name: str) -> None:
    """The same TOSA program compiled for all configurations, on random int8 inputs from end to end of their range."""
    from executorch.backends.arm.arm_vela import vela_compile
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    artifact = lower(from_module(*STACKS[name].example(0), label=name), npu_for(name, 0))
    random = np.random.default_rng(0)
    for delegate in artifact.delegates:
        assert delegate.tosa is not None
        inputs = [
            random.integers(-128, 128, place.shape, np.int8).reshape(shape)
            for place, shape in zip(delegate.blob.inputs, tosa_shapes(delegate.tosa), strict=True)
        ]
        expected, status = tosa_reference_model.run(delegate.tosa, inputs)
        assert status == tosa_reference_model.GraphStatus.TOSA_VALID
        for configuration in CONFIGURATIONS:
            flags = EthosUCompileSpec(configuration.name).compiler_flags
            blob = VelaBlob.parse(vela_compile(delegate.tosa, list(flags)), name)
            if artifact.notes or overruns(blob):  # what lowering does about it, tested in lowering/tests
                blob = VelaBlob.parse(vela_compile(hoist_tables(delegate.tosa)[0], list(flags)), name)
            result = run_delegate(
                FunctionalNpu(configuration, strict=True), blob, [value.tobytes() for value in inputs]
            )
            for output, value in zip(result.outputs, expected, strict=True):
                assert output == np.asarray(value).tobytes(), configuration.name


def tosa_shapes(tosa: bytes) -> list[tuple[int, ...]]:
    return [tensor.shape for tensor in TosaGraph.parse(tosa).inputs]
