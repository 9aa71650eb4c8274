"""The limit of one NPU job follows from what it should take, and from how long the user waits."""

from __future__ import annotations

import pytest
import torch

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.image.npu_time_limit import LEAST_MS, npu_time_limit
from ethos_hil.harness.socs.registry import find_soc
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module

NPU = "ethos-u55-32"
SOC = find_soc("corstone-300")


@pytest.fixture(scope="module")
def slow_job() -> Artifact:
    """Some 50 million cycles on the smallest NPU: 1.6 s of a Corstone-300's time."""
    torch.manual_seed(0)
    example = (torch.randn(1, 128, 96, 96),)
    return lower(from_module(torch.nn.Conv2d(128, 128, 3, padding=1), example), EthosU.parse(NPU))


def test_a_short_job_may_take_ten_seconds(slow_job: Artifact) -> None:
    assert npu_time_limit(slow_job, NPU, SOC, 1.0, modelled=False) == LEAST_MS


def test_the_users_limit_raises_that_of_a_job(slow_job: Artifact) -> None:
    assert npu_time_limit(slow_job, NPU, SOC, 3600.0, modelled=False) == 1_800_000


def test_a_long_job_may_take_ten_times_what_is_modelled(slow_job: Artifact) -> None:
    limit = npu_time_limit(slow_job, NPU, SOC, 1.0, modelled=True)
    (delegate,) = slow_job.delegates
    estimated = float(delegate.summary["cycles_total"])
    assert estimated / 2 < limit / 1000 / 10 * SOC.cpu_hz < estimated * 2, "by Vela, which knows nothing of the model"


def test_no_limit_is_more_than_its_field_holds(slow_job: Artifact) -> None:
    assert npu_time_limit(slow_job, NPU, SOC, 1e10, modelled=False) == (1 << 32) - 1
