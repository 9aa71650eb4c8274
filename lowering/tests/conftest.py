"""Lowered models shared by the tests: each is lowered once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ethos_hil.base.errors import EthosHilError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.harness.verdict.against_pytorch import against_example
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.model.torch_model import TorchModel, load_model
from ethos_hil.lowering.oracle.reference import Reference
from ethos_hil.lowering.vela.memory_mode import MemoryMode

if TYPE_CHECKING:
    import torch

MODELS = Path(__file__).resolve().parent / "known_model.py"
DATA = Path(__file__).resolve().parent / "data"
U55 = EthosU.parse("ethos-u55-128")

Lowered = Callable[..., Artifact]


def is_as_pytorch(artifact: Artifact) -> bool:
    """Whether the reference's answer to the example inputs is PyTorch's, but for roundings."""
    return against_example(artifact, Reference(artifact).run(artifact.example_inputs).outputs).failure is None


def refusals(*asks: Callable[[], object], folder: Path = DATA) -> str:
    """What is said of each question that is refused: the class of the error, its message, and its hint if it has one.

    The folder's path, which differs from run to run, is left out.
    """
    lines = []
    for ask in asks:
        with pytest.raises(EthosHilError) as caught:
            ask()
        error = caught.value
        assert "\n" not in error.message
        lines += [f"{type(error).__name__}: {error.message}", *([f"    {error.hint}"] if error.hint else [])]
    return "\n".join(lines).replace(str(folder), "HERE")


@pytest.fixture(scope="session")
def cache() -> Cache:
    """The one of all tests: those of commands have some of these models, too."""
    return Cache()


@pytest.fixture(scope="session")
def lowered(cache: Cache) -> Lowered:
    """Lower a function of known_model.py: lowered("known"), lowered("add", Npu("u85", 256), "Sram_Only")."""

    def get(name: str, npu: EthosU = U55, memory_mode: str | None = None) -> Artifact:
        from ethos_hil.lowering.lower import lower

        mode = MemoryMode.chosen(memory_mode, npu)
        return lower(f"{MODELS}:{name}", npu, memory_mode=mode, cache=cache, etrecord=True)

    return get


# --- ExecuTorch's documented flow for the models of these tests, without our code.


def quantised_by_upstream(model: str, npu: EthosU) -> tuple[Any, torch.export.ExportedProgram]:
    """The EthosUCompileSpec for `npu`, and the program of a MODEL calibrated and quantised for it."""
    import torch
    from executorch.backends.arm.ethosu import EthosUCompileSpec
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    loaded = load_model(model)
    assert isinstance(loaded, TorchModel)
    spec = EthosUCompileSpec(npu.name)
    quantiser = EthosUQuantizer(spec).set_global(get_symmetric_quantization_config())
    floating = torch.export.export(loaded.default.module, loaded.default.example_inputs).module(check_guards=False)
    prepared = prepare_pt2e(floating, quantiser)
    for inputs in loaded.default.calibration_inputs:
        prepared(*inputs)
    return spec, torch.export.export(convert_pt2e(prepared), loaded.default.example_inputs)
