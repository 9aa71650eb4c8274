"""Layers that upstream leaves to the CPU, or the user does, run and are verified."""

from __future__ import annotations

from pathlib import Path

import pytest

import ethos_hil
from ethos_hil.harness.image.preflight import PreflightFailed

pytestmark = pytest.mark.slow
NET = """\
import torch
from torch import nn


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3)
        self.left = nn.Conv2d(8, 8, 3, padding=1)
        self.norm = nn.InstanceNorm2d(8)
        self.uneven = nn.ConvTranspose2d(8, 4, 3, stride=(2, 1))
        self.cell = nn.GRUCell(6, 8)

    def forward(self, x, h):
        x = torch.relu(self.norm(self.left(self.stem(x))))
        y = self.uneven(x).amax((2, 3))
        first, second = torch.split(torch.cat([y, y, y], 1), [6, 6], 1)
        return self.cell(first, h), torch.unbind(second.reshape(1, 3, 2), 2)[1]


class Then(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3)
        self.function = function

    def forward(self, x):
        return self.function(self.conv(x))


def select(y):
    return y[y > 0]


def masked():
    torch.manual_seed(0)
    return Then(select), (torch.rand(1, 2, 6, 6),)


def codes():
    torch.manual_seed(0)
    return Then(lambda y: nn.functional.one_hot(y.flatten(2).argmax(1), 4).float()), (torch.rand(1, 2, 6, 6),)


def mixed():
    torch.manual_seed(0)
    return Mixed(), (torch.rand(1, 3, 8, 7), torch.rand(1, 8))

"""


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cpu") / "net.py"
    path.write_text(NET)
    return path


def test_quantised_convolutions_recurrent_cells_and_instance_norms_on_the_cpu(net: Path) -> None:
    result = ethos_hil.run(f"{net}:mixed", npu="ethos-u55-128", leave=["left"])
    result.assert_verified()
    wanted = ("_native_batch_norm_legit.no_stats_out", "split_with_sizes_copy.out", "addmm.out")
    kernels = {f"aten::{name}" for name in wanted} | {"quantized_decomposed::dequantize_per_channel.out"}
    assert kernels <= set(result.artifact.cpu_ops)
    convolutions = [call for call in result.artifact.placement.on_cpu if call.operator == "aten::convolution.out"]
    assert [call.module for call in convolutions] == ["left", "uneven"]
    assert result.record.artifact is not None
    assert result.record.artifact.delegated


def test_a_mask_as_index_is_refused_before_boot_with_its_line(net: Path) -> None:
    line = NET[: NET.index("return self.function(")].count(chr(10)) + 1
    with pytest.raises(PreflightFailed, match=rf"aten::index.Tensor_out by a mask.*at net.py:{line}") as caught:
        ethos_hil.run(f"{net}:masked", npu="ethos-u55-128")
    assert caught.value.kind == "unsupported"


def test_what_a_delegate_cannot_give_in_its_type_stays_on_the_cpu(net: Path) -> None:
    """Upstream delegates one_hot's int64 constants; the delegate would answer int32."""
    result = ethos_hil.run(f"{net}:codes", npu="ethos-u55-128")
    result.assert_verified()
    assert [note for note in result.record.notes if note.startswith("operators whose result is used as float or int64")]
