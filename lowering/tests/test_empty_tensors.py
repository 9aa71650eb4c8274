"""Tensors without elements are refused with the operation and the line; what still crashes Vela is named as well."""

from __future__ import annotations

from pathlib import Path

import pytest

from ethos_hil.base.errors import CompileError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.upstream import ethosu
from ethos_hil.lowering.vela.compiler import VelaCrash

NET = """
import torch
from torch import nn
from ethos_hil.lowering.testing.function_module import module_of

def of(function, *shape):
    return module_of(function).eval(), (torch.rand(*shape),)

def empty_input(): return of(lambda x: x + x, 0, 4)
def empty_slice(): return of(lambda x: x[:, 2:2] + 1.0, 1, 4)
def empty_part(): return of(lambda x: x.unbind(1)[1][:, :2] * x.split([4, 0], 2)[1].sum(), 1, 2, 4)
def empty_rest(): return of(lambda x: torch.cat([x, x[:, :0]], 1) + 1.0, 1, 4)
def mean_of_nothing(): return of(lambda x: x.mean(1), 2, 0)
def statistics(): return nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)).eval(), (torch.rand(1, 3, 2, 2),)
"""
U55 = EthosU.parse("ethos-u55-128")


@pytest.fixture
def net(tmp_path: Path) -> Path:
    path = tmp_path / "net.py"
    path.write_text(NET)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("target", [U55, EthosU.parse("ethos-u85-256"), TosaSpec.parse("TOSA-1.0+INT")], ids=str)
def test_an_input_without_elements_is_refused(net: Path, tmp_path: Path, target: EthosU | TosaSpec) -> None:
    with pytest.raises(CompileError) as caught:
        lower(f"{net}:empty_input", target, cache=Cache(tmp_path / "cache"))
    assert caught.value.message.startswith("an input of aten.add.Tensor at net.py:")
    assert "has no elements: its shape is [0, 4], and TOSA has no dimension of 0" in caught.value.message
    assert caught.value.exit_status == 2


@pytest.mark.slow
def test_so_are_results_and_what_is_dropped_is_not(net: Path, tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    for name, message in (
        ("empty_slice", r"the result of aten\.slice_copy\.Tensor at net\.py:\d+ has no elements"),
        ("empty_part", r"the result of aten\.split_with_sizes_copy\.default at net\.py:\d+ has no"),
        ("mean_of_nothing", r"aten\.mean.*without elements, of shape \[2, 0\]"),
    ):
        with pytest.raises(CompileError, match=message):
            lower(f"{net}:{name}", U55, cache=cache)
    assert lower(f"{net}:empty_rest", U55, cache=cache).npu_ops
    assert lower(f"{net}:statistics", TosaSpec.parse("TOSA-1.0+FP"), cache=cache).delegates


@pytest.mark.slow
def test_a_crash_of_vela_while_a_model_is_lowered_names_operation_and_line(
    net: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ethosu, "refuse_empty", lambda *arguments: None)
    with pytest.raises(VelaCrash) as caught:
        lower(f"{net}:empty_input", U55, cache=Cache(tmp_path / "cache"))
    message = caught.value.message
    assert message.startswith("Vela 5.1.0 crashed with SIGSEGV (Segmentation fault) on TOSA operator ")
    assert "(aten.add.Tensor at net.py:" in message
    assert not list((tmp_path / "cache").rglob("*.pte"))
