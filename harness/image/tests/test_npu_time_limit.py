"""The limit of one NPU job follows from what it should take, and from how long the user waits."""

from __future__ import annotations

import dataclasses

import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.image.npu_time_limit import npu_time_limit
from ethos_hil.harness.npu import Npu
from ethos_hil.harness.socs.registry import find_soc
from ethos_hil.harness.virtual.tests.programs import DATA
from ethos_hil.lowering.artifact import Artifact

NPU = "ethos-u55-128"
ADD = Artifact.of_program((DATA / "add.pte").read_bytes(), "add.pte")
SOC = find_soc("corstone-300")
SLOW = dataclasses.replace(SOC, cpu_hz=1000)
"""One cycle of it is a millisecond."""
CYCLES = Npu(EthosU.parse(NPU)).decode(ADD.delegates[0].blob.command_stream).timing().cycles
DAMAGED = Artifact.of_program(ADD.pte.replace(ADD.delegates[0].blob.command_stream, bytes([0xFF] * 4) * (
    len(ADD.delegates[0].blob.command_stream) // 4)), "damaged.pte")  # fmt: skip


@pytest.mark.parametrize(
    ("artifact", "soc", "timeout", "modelled", "limit"),
    [
        (ADD, SOC, 1.0, True, 10_000),
        (ADD, SLOW, 1.0, False, 10_000),
        (ADD, SOC, 3600.0, False, 1_800_000),
        (ADD, SLOW, 1.0, True, max(10_000, 10 * CYCLES)),
        (ADD, dataclasses.replace(SOC, cpu_hz=3), 1.0, True, -(-10_000 * CYCLES // 3)),
        (ADD, SOC, 1e10, False, (1 << 32) - 1),
        (DAMAGED, SLOW, 1.0, True, 10_000),
    ],
    ids=["a short job", "not modelled", "a patient user", "a long job", "rounded up", "the field's", "undecodable"],
)
def test_the_limit_of_a_job(artifact: Artifact, soc: object, timeout: float, modelled: bool, limit: int) -> None:
    """Ten seconds, half of the user's limit, or ten times what is modelled; whichever is most."""
    assert npu_time_limit(artifact, NPU, soc, timeout, modelled=modelled) == limit  # type: ignore[arg-type]
