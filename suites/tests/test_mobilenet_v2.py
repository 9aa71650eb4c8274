"""A network of real size: MobileNetV2 at 224x224, 3.5 million parameters."""

from __future__ import annotations

import pytest

from harness.run import run
from lowering.model import load_model
from lowering.profile import Npu
from suites.models.mobilenet_v2 import MobileNetV2


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_mobilenet_v2_is_verified() -> None:
    assert sum(parameter.numel() for parameter in MobileNetV2().parameters()) == 3_504_872
    report = run(load_model("suites.models.mobilenet_v2:mobilenet_v2"), Npu.parse("ethos-u55-128"), strict=True)
    assert report.record.verdict == "verified", report.record.failure
    assert len(report.artifact.delegates) == 1
    assert not [op for op in report.record.ops if op.id == "unmapped"]
    # The only module without a line of its own is the model itself, which calls mean().
    assert {op.module for op in report.record.ops if "." not in op.module} <= {"", "classifier"}
    assert all(op.source for op in report.record.ops)
