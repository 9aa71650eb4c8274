"""Layers that upstream leaves to the CPU, or the user does, run and are verified."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

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
    result = ethos_hil.run(f"{net}:mixed", npu="ethos-u55-128", leave=["left"], as_upstream=True)
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


class InOrder(nn.Module):
    """The heads of detectors and classifiers: after quantisation many scores are equal."""

    def forward(self, scores: Tensor, boxes: Tensor) -> tuple[Tensor, ...]:
        scores = torch.sigmoid(scores)
        values, at = torch.topk(scores, 20, 1)
        picked = torch.gather(boxes, 1, at[..., None].expand(-1, -1, 4))
        lowest, last = torch.topk(scores, 5, 1, largest=False, sorted=False)
        ordered, order = torch.sort(scores, 1, descending=True)
        best = torch.stack([scores.argmax(1), scores.argmin(1), scores.max(1).indices, scores.min(1).indices])
        return values, at, picked, lowest, last, ordered, order, torch.argsort(scores, 1), best


@pytest.mark.parametrize("npu", ["ethos-u55-128", "ethos-u85-256"])
def test_equal_scores_have_one_order_on_the_device_and_in_the_reference(npu: str) -> None:
    torch.manual_seed(0)
    inputs = torch.randint(0, 8, (2, 336)).float(), torch.rand(2, 336, 4)
    result = ethos_hil.run(InOrder(), inputs, npu=npu, repeat=2)
    assert result.verified, result.record.failure
    values, at = result.outputs[:2]
    assert len(np.unique(values)) < values.size, "there are ties"
    assert all(np.array_equal(np.lexsort((places, -row)), range(20)) for row, places in zip(values, at, strict=True))


class Scalars(nn.Module):
    """Results without dimensions, of which upstream makes tensors of one element where a number meets them."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, x: Tensor, factor: Tensor) -> tuple[Tensor, ...]:
        joined = torch.cat([x.sum()[None], torch.rsub((1 - x.mean()) / 2, 4, alpha=2)[None]])
        self.mean.mul_(0.5).add_(x.mean(), alpha=0.5)
        scaled = torch.sub(x.sum(), self.mean, alpha=0.5).add_(1)
        return x.sum() * 2, x.mean() + 1, x.amax(), factor * 2, x * factor, joined, scaled, x.sum() > 2


def test_a_result_without_dimensions_keeps_its_shape() -> None:
    torch.manual_seed(0)
    result = ethos_hil.run(Scalars(), (torch.rand(2, 3), torch.tensor(0.5)), npu="ethos-u55-128")
    assert result.verified, result.record.failure
    assert [output.shape for output in result.outputs] == [(), (), (), (), (2, 3), (2,), (), ()]
