"""A program that is compiled again is what lowering for that NPU makes: streams, weights, rows, summaries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import CompileOptions
from ethos_hil.harness.bench.case_work import RecompilationDeparts, recompile_for
from ethos_hil.lowering.artifact import Artifact, Delegate
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import TorchModel, from_module
from ethos_hil.lowering.vela.memory_mode import MemoryMode
from ethos_hil.lowering.vela.options import VelaSetup

POINTS = (
    ("ethos-u55-128", "Sram_Only", None),
    ("ethos-u65-512", "Dedicated_Sram_384KB", None),
    ("ethos-u85-1024", "Dedicated_Sram_384KB", None),
    ("ethos-u85-2048", "Shared_Sram", "Ethos_U85_SYS_DRAM_High"),
)


def models() -> list[TorchModel]:
    """Return a model with two delegates, and one with a transposed convolution, whose rows are split and invented."""
    import torch
    from torch import nn

    from ethos_hil.lowering.testing.function_module import keeping

    def sort(self: Any, x: torch.Tensor) -> torch.Tensor:
        values = torch.sort(self.head(x).relu().flatten(1), 1)[0].reshape(1, 16, 8, 8)
        return nn.functional.gelu(self.tail(values))

    torch.manual_seed(0)
    two = keeping(sort, head=nn.Conv2d(8, 16, 3, padding=1), tail=nn.Conv2d(16, 8, 1))
    return [
        from_module(two, (torch.randn(1, 8, 8, 8),), label="sorted"),
        from_module(nn.ConvTranspose2d(8, 8, 3, 2), (torch.randn(1, 8, 7, 7),), label="transposed"),
    ]


def content(delegate: Delegate) -> Delegate:
    """Return a delegate without the names of tensors that Vela invents by counting."""
    rows = tuple(replace(row, tensor="#" if row.tensor.startswith("#") else row.tensor) for row in delegate.npu_ops)
    return replace(delegate, npu_ops=rows)


def lowered(model: TorchModel, setup: VelaSetup) -> Artifact:
    return lower(model, setup.npu, vela=setup)


def test_is_what_lowering_makes() -> None:
    for model in models():
        bases = {family: lower(model, EthosU.parse(f"ethos-{family}-256")) for family in ("u55", "u85")}
        for npu, mode, system in POINTS:
            setup = VelaSetup.of(CompileOptions(npu=npu, memory_mode=mode, system_config=system))
            right = lowered(model, setup)
            artifact = recompile_for(bases["u85" if "u85" in npu else "u55"], setup)
            assert [content(delegate) for delegate in artifact.delegates] == [
                content(delegate) for delegate in right.delegates
            ], npu
            for name in ("npu", "memory_mode", "vela_flags", "vela_ini", "question", "placement", "scheme"):
                assert getattr(artifact, name) == getattr(right, name)


def test_another_setup_is_another_program() -> None:
    """The comparison above sees the memory mode: it would fail if the setup were not the one that was asked for."""
    model = models()[0]
    base = lower(model, EthosU.parse("ethos-u55-256"))
    npu = EthosU.parse("ethos-u65-512")
    right = lowered(model, VelaSetup.default(npu, MemoryMode("Dedicated_Sram_384KB")))
    other = recompile_for(base, VelaSetup.default(npu, MemoryMode("Sram_Only")))
    assert [content(delegate) for delegate in other.delegates] != [content(delegate) for delegate in right.delegates]


def test_the_other_family_is_refused() -> None:
    base = lower(models()[1], EthosU.parse("ethos-u55-256"))
    with pytest.raises(RecompilationDeparts, match="was lowered for ethos-u55-256, whose TOSA is not ethos-u85-128's"):
        recompile_for(base, VelaSetup.default(EthosU.parse("ethos-u85-128")))


def test_a_program_that_is_rewritten_for_one_npu_only_has_to_be_lowered() -> None:
    model = models()[0]  # Vela would place the table of its gelu beyond the SHRAM of a small Ethos-U55
    small, smaller = EthosU.parse("ethos-u55-64"), VelaSetup.default(EthosU.parse("ethos-u55-32"))
    with pytest.raises(RecompilationDeparts, match="a defect of Vela is met on ethos-u55-32"):
        recompile_for(lower(model, EthosU.parse("ethos-u55-256")), smaller)
    artifact = recompile_for(lower(model, small), smaller)
    assert [content(delegate) for delegate in artifact.delegates] == [
        content(delegate) for delegate in lowered(model, smaller).delegates
    ]
    assert [delegate.defects for delegate in artifact.delegates] == [(), ("vela-table-beyond-shram",)]
