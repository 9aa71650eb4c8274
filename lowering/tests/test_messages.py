"""What ExecuTorch fails on is refused by name, with its line and what helps; or it works."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from ethos_hil.base.errors import CompileError, UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.lowering.testing.function_module import keeping, module_of
from ethos_hil.lowering.tests.conftest import U55, is_as_pytorch
from ethos_hil.lowering.upstream.reasons import rules

U85 = EthosU.parse("ethos-u85-256")


def spectrum(x: Tensor) -> Tensor:
    window = torch.hann_window(16)
    return torch.stft(x, 16, 8, return_complex=True, window=window).abs()


COMPLEX: dict[str, Callable[[Tensor], Tensor]] = {
    "aten._fft_r2c.default": spectrum,
    "aten.complex.default": lambda x: torch.complex(x, x * 2).abs() + 1,
    "aten.polar.default": lambda x: torch.view_as_real(torch.polar(x, x)) * 2,
}


@pytest.mark.parametrize("operator", COMPLEX)
def test_complex_numbers_are_refused_where_they_are_made(operator: str, cache: Cache) -> None:
    """Sees red: "not a usable ExecuTorch program: tensor 37 has elements of type 9 (give a complete .pte)"."""
    with pytest.raises(CompileError) as caught:
        lower(from_module(module_of(COMPLEX[operator]), (torch.rand(1, 64),)), U55, cache=cache)
    first = COMPLEX[operator].__code__.co_firstlineno
    line = first + (2 if operator.startswith("aten._fft") else 0)
    assert (
        caught.value.message
        == f"{operator} at test_messages.py:{line} makes complex numbers, which a program cannot have"
    )
    assert "cosines and sines" in (caught.value.hint or "")


POWERS: dict[str, Callable[[Tensor], Tensor]] = {
    "aten.pow.Tensor_Tensor": lambda x: torch.pow(x, x % 3),
    "aten.pow.Scalar": lambda x: torch.pow(2, x),
}


@pytest.mark.parametrize("operator", POWERS)
def test_powers_of_integers_are_refused(operator: str, cache: Cache) -> None:
    """Sees red: the program is written, and stops at "aten::pow: INT to INT is not supported"."""
    x = torch.arange(8, dtype=torch.int32)[None]
    with pytest.raises(CompileError, match=rf"^{operator} at test_messages.py:\d+ is a power of integers") as caught:
        lower(from_module(module_of(POWERS[operator]), (x,)), U55, cache=cache)
    assert "torch.pow(x.float(), y.float()).to(x.dtype)" in (caught.value.hint or "")
    lower(from_module(module_of(lambda x: torch.pow(x.float(), (x % 3).float()).to(x.dtype)), (x,)), U55, cache=cache)


def logarithm(net: Any, x: Tensor) -> Tensor:
    return functional.linear(torch.log(x), net.w)


NANS = {
    "operator": (1.0, -1.0, "aten.log.default at test_messages.py:", " makes"),
    "weight": (float("nan"), 1.0, "the weight w has", ""),
    "input": (1.0, float("nan"), "the calibration input values_0 has", ""),
}
"""The first element of the weight and of the input, and what is said of them."""


@pytest.mark.parametrize("where", NANS)
def test_a_nan_is_told_where_it_is_made(where: str, cache: Cache) -> None:
    """Sees red: "torch.histc: range of [-nan, -nan] is not finite"."""
    weight, first, place, made = NANS[where]
    x = torch.rand(1, 8) + 1
    x[0, 0] = first
    model = from_module(keeping(logarithm, w=torch.full((1, 8), weight)), (x,))
    with pytest.raises(CompileError, match=f"^{re.escape(place)}[0-9]*{made} NaN .[18] of 8 elements., and integers"):
        lower(model, U55, cache=cache)
    x[0, 0] = 1
    keeps = from_module(keeping(logarithm, w=torch.ones(1, 8)), (x,))
    assert is_as_pytorch(lower(keeps, U55, cache=cache))


def test_what_topk_and_max_return_is_written_as_a_tuple(cache: Cache) -> None:
    """Sees red: "No registered serialization name for <class 'torch.return_types.topk'>"."""

    def found(x: Tensor) -> Any:
        return {"top": torch.topk(x * 2, 3), "most": [torch.max(x + 1, 1), x]}

    artifact = lower(from_module(module_of(found), (torch.randn(1, 20),)), U55, cache=cache)
    assert len(artifact.floating) == 5
    values = torch.topk(torch.from_numpy(artifact.example_inputs[0]) * 2, 3)[0].numpy()
    assert any(value.shape == values.shape and np.allclose(value, values) for value in artifact.floating)


@pytest.mark.parametrize("npu", [U55, U85], ids=str)
def test_weights_that_the_model_computes_are_left_to_the_cpu(npu: EthosU, cache: Cache) -> None:
    """Sees red: "unsupported param type, call_function", with a hint about a torch.cond that there is not."""

    def dynamic(net: Any, x: Tensor, flat: Tensor) -> tuple[Tensor, ...]:
        scaled = functional.conv2d(x, net.weights * x.mean(), padding=1)
        return net.layer(scaled), functional.linear(flat, net.square * flat.mean()), functional.linear(flat, net.square)

    layer = nn.Conv2d(4, 4, 1)
    net = keeping(dynamic, weights=torch.randn(4, 3, 3, 3), square=torch.randn(4, 8), layer=layer)
    artifact = lower(from_module(net, (torch.rand(1, 3, 8, 8), torch.rand(1, 8))), npu, cache=cache)
    reasons = {(call.aten, call.reason, call.remedy) for call in artifact.placement.on_cpu}
    why = rules.ASKED[1]
    assert {"aten.convolution.default", "aten.mm.default"} <= {aten for aten, *_ in reasons}
    assert {reason[1:] for reason in reasons} == {(why.why, why.remedy)}
    assert {"aten.convolution.default", "aten.linear.default"} <= set(artifact.delegated), "constant ones stay"
    assert is_as_pytorch(artifact)


def test_layers_of_a_branch_are_left_to_the_cpu_where_branches_are_delegated_alone(cache: Cache) -> None:
    """Sees red: "unsupported param type, placeholder"."""

    def chosen(net: Any, x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda x: torch.relu(net.one(x)), net.other, (x * 2,)) + 1

    net = keeping(chosen, one=nn.Conv2d(3, 3, 3, padding=1), other=nn.Conv2d(3, 3, 1))
    x = torch.rand(1, 3, 8, 8)
    artifact = lower(from_module(net, (x,), [(x,), (-x,)]), U55, cache=cache)
    calls = [call for call in artifact.placement.on_cpu if call.aten == "aten.convolution.default"]
    assert {call.module for call in calls} == {"one", "other"}
    assert {call.reason for call in calls} == {
        "it is in a branch, which is delegated by itself on an Ethos-U55, and its weights are outside"
    }
    assert is_as_pytorch(artifact)


def halves(net: Any, x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda x: torch.sort(net.one(x), 1).values, net.other, (x * 2,)) + 1


def nested(net: Any, x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda x: torch.cond(x.max() > 1, net.one, net.other, (x,)), torch.relu, (x * 2,))


def either(net: Any, x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, net.one, net.other, (x * 2,)) + 1


@pytest.mark.parametrize(
    ("choose", "groups"), [(halves, 1), (nested, 1), (either, 2)], ids=["part", "nested", "groups"]
)
def test_layers_of_a_branch_that_is_not_delegated_whole_are_left_to_the_cpu(
    choose: Callable[..., Tensor], groups: int, cache: Cache
) -> None:
    """Sees red: "unsupported param type", which names weights that the model computes."""
    net = keeping(choose, one=nn.Conv2d(4, 4, 3, padding=1, groups=groups), other=nn.Conv2d(4, 4, 1))
    x = torch.rand(1, 4, 8, 8)
    artifact = lower(from_module(net, (x,), [(x,), (-x,)]), U85, cache=cache)
    calls = [call for call in artifact.placement.on_cpu if call.aten == "aten.convolution.default"]
    assert len(calls) == 2
    assert all(call.reason.startswith("it is in a branch, its weights are outside") for call in calls)
    assert is_as_pytorch(artifact)


# --- Quantizers of the user's that upstream fails on.


def affine_16_bits(spec: Any) -> Any:
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config

    base = get_symmetric_quantization_config()
    wide: dict[str, Any] = {"dtype": torch.int16, "quant_min": -32768, "quant_max": 32767}
    sides = {
        name: dataclasses.replace(getattr(base, name), **wide) for name in ("input_activation", "output_activation")
    }
    return EthosUQuantizer(spec).set_global(dataclasses.replace(base, **sides))


def dynamic_ranges(spec: Any) -> Any:
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config

    return EthosUQuantizer(spec).set_global(get_symmetric_quantization_config(is_dynamic=True))


@pytest.mark.parametrize(
    ("quantizer", "hint"),
    [(affine_16_bits, "get_symmetric_a16w8_quantization_config()"), (dynamic_ranges, "is_dynamic=False")],
)
def test_a_quantizer_that_upstream_fails_on_is_told_what_to_change(
    quantizer: Callable[[Any], Any], hint: str, cache: Cache
) -> None:
    model = from_module(nn.Sequential(nn.Conv2d(3, 8, 3)), (torch.rand(1, 3, 8, 8) * 3 - 1,))
    with pytest.raises(CompileError) as caught:
        lower(replace(model, methods={"forward": replace(model.default, quantizer=quantizer)}), U55, cache=cache)
    assert hint in (caught.value.hint or "")


# --- What a program has none of.


def with_noise(x: Tensor) -> Tensor:
    return x + torch.randn(x.shape, generator=torch.Generator().manual_seed(3))


def by_a_number(x: Tensor) -> Tensor:
    return x * x.max().item()


LACKING: dict[str, Callable[[Tensor], Tensor]] = {
    "let a number that is computed stay a tensor": by_a_number,
    "ExecuTorch has none of torch.linalg's inverses": lambda x: torch.linalg.inv(x.reshape(2, 2, 2)),
    "give the program random numbers as an input": with_noise,
    "compute with torch's functions": lambda x: torch.from_numpy(x.numpy() * 2),
}


@pytest.mark.parametrize("hint", LACKING)
def test_what_a_program_has_none_of_is_told_with_what_to_do(hint: str, cache: Cache) -> None:
    """Sees red: "--debug shows the whole traceback"."""
    with pytest.raises(CompileError, match=r"test_messages\.py:\d+") as caught:
        lower(from_module(module_of(LACKING[hint]), (torch.rand(1, 8),)), U55, cache=cache)
    assert hint in (caught.value.hint or "")
    assert "without elements" not in caught.value.message


def test_lazy_layers_are_to_be_called_once(cache: Cache) -> None:
    module = nn.Sequential(nn.LazyLinear(4), nn.ReLU())
    with pytest.raises(CompileError) as caught:
        lower(from_module(module, (torch.rand(1, 8),)), U55, cache=cache)
    assert "call the module once before it is returned" in (caught.value.hint or "")
    module(torch.rand(1, 8))
    lower(from_module(module, (torch.rand(1, 8),)), U55, cache=cache)


def test_modules_of_eager_quantisation_are_told_what_to_give(cache: Cache) -> None:
    """Sees red: "does not have a field with name '__obj_flatten__'", and no more."""
    module = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 4)), {nn.Linear}, dtype=torch.qint8)
    with pytest.raises(CompileError) as caught:
        lower(from_module(module, (torch.rand(1, 4),)), U55, cache=cache)
    assert "give the float model, which is quantised here" in (caught.value.hint or "")


class Both(NamedTuple):
    """Two answers."""

    small: Tensor
    large: Tensor


@dataclasses.dataclass
class Each:
    """Two answers, in a class that torch.export is told of."""

    small: Tensor
    large: Tensor


def test_named_tuples_and_dataclasses_are_written_and_give_outputs_their_names(cache: Cache) -> None:
    """Sees red: "Can't serialize TreeSpec of namedtuple class"."""
    torch.export.register_dataclass(Each)
    for kind in (Both, Each):
        model = from_module(module_of(lambda x, kind=kind: [kind(x.relu(), x * 2)]), (torch.rand(1, 8),))
        assert lower(model, U55, cache=cache).output_names == ("0.small", "0.large")


def test_an_answer_that_torch_does_not_take_apart_is_named() -> None:
    """Sees red: "Boolean value of Tensor with more than one value is ambiguous"."""

    class Own:
        def __init__(self, x: Tensor) -> None:
            self.x = x

    with pytest.raises(UsageError, match=r"^model: forward returns a Own"):
        from_module(module_of(Own), (torch.rand(1, 8),))
