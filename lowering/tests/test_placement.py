"""What stays on the CPU is known with its line, module and reason; what is left there on purpose has to exist."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from ethos_hil.base.environment import version
from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import ProgramFile, from_module
from ethos_hil.lowering.program.placement import CpuCall, group_calls, kind_of
from ethos_hil.lowering.testing.function_module import keeping, module_of
from ethos_hil.lowering.tests.conftest import DATA, U55, refusals
from ethos_hil.lowering.upstream.cpu_calls import Leavable, keep_reasons, require_known
from ethos_hil.lowering.upstream.reasons.quantised_by import QuantisedBy
from ethos_hil.lowering.upstream.reasons.reason import Circumstances, Origin

NET = """\
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3)

    def forward(self, x):
        return torch.sigmoid(self.conv(x))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(2, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.uneven = nn.ConvTranspose2d(4, 4, 3, stride=(2, 1))
        self.block = Block()

    def forward(self, x):
        x = self.norm(torch.relu(self.stem(x)))
        x = self.uneven(x)
        x = self.block(x)
        x = torch.tanh(x + 1.0)
        return (x * 2.0).flatten(1).sort(-1)[0]

def net():
    torch.manual_seed(0)
    return Net(), (torch.rand(1, 2, 14, 14),)
"""


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("placement") / "net.py"
    path.write_text(NET)
    return f"{path}:net"


def line(text: str) -> str:
    return f"net.py:{NET[: NET.index(text)].count(chr(10)) + 1}"


@pytest.mark.slow
def test_each_operator_on_the_cpu_has_its_line_module_and_reason(net: str, cache: Cache, recorded: Recorded) -> None:
    artifact = lower(net, U55, as_upstream=True, cache=cache)  # else the norm is on the NPU
    recorded.check(group_calls(artifact.placement.on_cpu))
    assert artifact.placement.delegated >= 4
    # It is the same calls as the program's, and survives being saved.
    assert tuple(call.operator for call in artifact.placement.calls) == artifact.cpu_ops
    assert lower(net, U55, as_upstream=True, cache=cache).placement == artifact.placement


def test_a_running_sum_of_booleans_is_left_to_the_cpu(cache: Cache) -> None:
    """Upstream's partitioner takes it for an Ethos-U85, and its passes fail on it. Image transformers encode positions
    by such sums.
    """
    counts_mask = module_of(lambda x: x * 2 + (x > 0).cumsum(1, dtype=torch.float32))
    model = from_module(counts_mask, (torch.randn(1, 4, 8),))
    artifact = lower(model, EthosU.parse("ethos-u85-256"), cache=cache)
    (call,) = [call for call in artifact.placement.on_cpu if call.operator == "aten::cumsum.out"]
    assert (call.reason, call.remedy) == (
        "the NPU makes running sums of quantised numbers only, and here they are bool",
        "give the program the mask or the numbers as float32",
    )  # fmt: skip


def test_what_fails_with_sixteen_bits_is_left_to_the_cpu(cache: Cache) -> None:
    """Upstream's partitioner takes both, its passes fail on the sum, and Vela on the transposed convolution."""
    net = keeping(lambda net, x: (net.up(x * 2), x.cumsum(1)), up=nn.ConvTranspose2d(3, 4, 3, 2))
    artifact = lower(from_module(net, (torch.randn(1, 3, 5, 5),)), U55, scheme="a16w8", cache=cache)
    assert artifact.delegates
    reasons = {call.operator: call.reason for call in artifact.placement.on_cpu}
    assert reasons["aten::convolution.out"] == "Vela refuses transposed convolutions of 16 bits for an Ethos-U55"
    assert reasons["aten::cumsum.out"] == (
        f"ExecuTorch {version('executorch')} makes a running sum of 16 bits a convolution with weights of 16 bits, "
        "and an Ethos-U55 takes 8"
    )


def test_integers_are_left_to_the_cpu_where_the_float_profile_has_none(cache: Cache) -> None:
    """Upstream's partitioner takes them, and lowering fails."""

    def integers(x: torch.Tensor, small: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        moved = torch.maximum(x.abs(), -x).clamp(1, 5) * 3 - x
        padded = torch.nn.functional.pad(moved, (1, 1))
        return moved.sum(1, dtype=torch.int32) + padded.amax(1), small * small

    model = from_module(module_of(integers), (torch.randint(-9, 9, (3, 5)).int(), torch.randint(-9, 9, (3, 5)).char()))
    artifact = lower(model, TosaSpec.parse("TOSA-1.0+FP"), cache=cache)
    calls = {(call.operator, call.reason, call.remedy) for call in artifact.placement.on_cpu}
    assert {call[0] for call in calls} >= {"aten::abs.out", "aten::neg.out", "aten::maximum.out", "aten::clamp.out",
                                           "aten::sum.IntList_out", "aten::amax.out", "aten::mul.out",
                                           "aten::constant_pad_nd.out"}  # fmt: skip
    assert {call[1:] for call in calls} == {
        (f"TOSA's float profile has it for floats only, and here it is {kind}", "cast its input to float")
        for kind in ("int32", "int8")
    }
    assert artifact.delegates, "int32 is added and multiplied there"


@pytest.mark.parametrize("npu", [U55, EthosU.parse("ethos-u85-256")], ids=str)
def test_limits_of_a_number_that_was_cast_are_left_to_the_cpu_and_the_rest_is_not(npu: EthosU, cache: Cache) -> None:
    """Upstream fails: "Unknown operator aten.clamp"; of the cast alone: "Output tensor x does not have any writers"."""
    model = from_module(module_of(lambda x: x.float().reshape(4, 2).relu() * 2.5), (torch.arange(-4, 4).int(),))
    artifact = lower(model, npu, cache=cache)
    assert [call.reason.split(",")[0] for call in artifact.placement.on_cpu if call.aten == "aten.relu.default"] == [
        "ExecuTorch takes the limits of a number that was cast before the cast"
    ]
    assert artifact.delegates


def test_a_pad_can_be_left(cache: Cache) -> None:
    """Upstream keeps pads whole for the NPU, and no kernel has their name."""
    model = from_module(module_of(lambda x: torch.nn.functional.pad(x * 2, (1, 1))), (torch.rand(1, 3, 5),))
    artifact = lower(model, U55, leave=["aten.pad"], cache=cache)
    assert "aten::constant_pad_nd.out" in artifact.cpu_ops
    assert artifact.delegates


@pytest.mark.slow
def test_an_operator_a_line_and_a_module_can_be_left(net: str, cache: Cache) -> None:
    artifact = lower(net, U55, leave=["aten.relu", line("x = torch.tanh("), "block"], cache=cache)
    calls = {(call.operator, call.source) for call in artifact.placement.on_cpu if "as asked" in call.reason}
    tanh, block = line("x = torch.tanh("), line("return torch.sigmoid(")
    assert {("aten::tanh.out", tanh), ("aten::add.out", tanh)} <= calls
    assert {("aten::sigmoid.out", block), ("aten::convolution.out", block)} <= calls
    assert ("aten::relu.out", line("x = self.norm(")) in calls
    assert len([call for call in artifact.placement.on_cpu if call.module == "stem"]) == 1, "it goes with its relu"
    assert lower(net, U55, cache=cache).sha256 != artifact.sha256, "it is in the key"


LEAVABLE = {
    "forward": Leavable(
        frozenset({"aten.sigmoid.default", "aten.gru_cell.default"}), frozenset({"a.py:3"}), frozenset({"b", "b.c"})
    )
}


def test_what_is_there_can_be_left_and_what_is_not_is_named_with_what_is(recorded: Recorded, tmp_path: Path) -> None:
    """Also where a model is lowered, of all methods or of one."""
    for entry in ("aten.sigmoid", "aten.sigmoid.default", "aten.gru_cell", "a.py:3", "/x/a.py:3", "b.c"):
        require_known([entry], LEAVABLE, "net")
    entries = ("aten.sigmiod", "aten.sig", "a.py:4", "xa.py:3", "c", "")
    twice = from_module(module_of(lambda x: x + x), (torch.ones(4),))
    misspelt = replace(twice, methods={"encode": replace(twice.default, leave=("aten.ad",))})
    ask = partial(lower, target=TosaSpec.parse("TOSA-1.0+FP"), cache=Cache(tmp_path))
    asks = partial(ask, twice, leave=["block"]), partial(ask, misspelt)
    recorded.check(refusals(*(partial(require_known, [entry], LEAVABLE, "net") for entry in entries), *asks))


def test_partitions_are_handed_over_by_their_numbers() -> None:
    """Upstream's order is that of a set of texts, which differs from process to process."""
    answer = SimpleNamespace(partition_tags=dict.fromkeys(("tag10", "tag2", "tag0")))
    tosa = SimpleNamespace(support_float=bool)
    upstreams = SimpleNamespace(partition=lambda _: answer, _create_operator_support=None, tosa_spec=tosa)
    program = torch.export.export(module_of(torch.relu), (torch.ones(1),))
    circumstances = Circumstances("an NPU", QuantisedBy(), lambda _: Origin("", ""))
    assert list(keep_reasons(upstreams, set(), circumstances).partition(program).partition_tags) == [
        "tag0",
        "tag2",
        "tag10",
    ]


def test_of_a_foreign_program_the_operators_are_known_and_no_reason() -> None:
    artifact = Artifact.of_program((DATA / "add.pte").read_bytes(), "add.pte")
    placed = artifact.placement
    assert tuple(call.operator for call in placed.calls) == artifact.cpu_ops
    assert placed.on_cpu == ()
    assert placed.conversions == len(placed.calls) > 0
    program = ProgramFile("add.pte", artifact.pte)
    with pytest.raises(UsageError, match="compiled already, so --leave says nothing"):
        lower(program, U55, leave=["aten.add"])


def test_equal_calls_are_one_group_and_conversions_and_state_are_no_operators() -> None:
    calls = [CpuCall(at, "aten::add.out", source="a.py:1", reason="why") for at in range(3)]
    calls.append(CpuCall(3, "aten::add.out", source="a.py:2", reason="why"))
    assert [(call.source, count) for call, count in group_calls(calls)] == [("a.py:1", 3), ("a.py:2", 1)]
    conversions = "quantized_decomposed::dequantize_per_channel.out", "cortex_m::quantize_per_tensor.out"
    kinds = [kind_of(name) for name in ("aten::copy_", "aten::copy.out", *conversions)]
    assert kinds == ["state", "operator", "conversion", "conversion"]
