"""Exported programs of many kinds, as torch.export.save writes them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ethos_hil.lowering.testing.function_module import keeping, module_of


class Buffers(nn.Module):
    """Buffers of both kinds, one that is broadcast, one that is transposed, an empty one, and a scalar."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("ones", torch.ones(4))
        self.register_buffer("temporary", torch.ones(4), persistent=False)
        self.register_buffer("broadcast", torch.ones(1).expand(4))
        self.register_buffer("turned", torch.randn(4, 3).t())
        self.register_buffer("empty", torch.zeros(0, 4))
        self.register_buffer("scalar", torch.tensor(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        turned: Any = self.turned
        empty: Any = self.empty
        y = self.linear(x) + self.ones + self.temporary + self.broadcast
        return y + turned[:1] + empty.sum() + self.scalar


def constant(x: torch.Tensor) -> Any:
    """A constant that torch.export lifts, and a dictionary as output."""
    return x + torch.tensor([1.0, 2.0, 3.0, 4.0]), {"a b": x * 2}


def no_gradient(net: Any, x: torch.Tensor) -> torch.Tensor:
    """A part that torch.export wraps into an operator of higher order."""
    with torch.no_grad():
        y = net.linear(x)
    return y + 1


def texts(x: torch.Tensor) -> torch.Tensor:
    """Operators with texts as arguments, and an argument that is not finite."""
    y = nn.functional.gelu(x, approximate="tanh") + torch.div(x, 2, rounding_mode="floor")
    return torch.einsum("ij,ij->ij", y, nn.functional.pad(x, (1, 1), value=float("inf"))[..., 1:-1])


def shared() -> nn.Module:
    """Two names for one weight."""
    embedding, out = nn.Embedding(8, 4), nn.Linear(4, 8, bias=False)
    out.weight = embedding.weight
    return nn.Sequential(embedding, out)


def _exported(function: Callable[..., Any], *inputs: torch.Tensor) -> torch.export.ExportedProgram:
    return torch.export.export(module_of(function).eval(), inputs)


def _quantised() -> torch.export.ExportedProgram:
    from executorch.backends.arm.ethosu import EthosUCompileSpec
    from executorch.backends.arm.quantizer import EthosUQuantizer, get_symmetric_quantization_config
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    quantiser = EthosUQuantizer(EthosUCompileSpec("ethos-u55-128"))
    quantiser.set_global(get_symmetric_quantization_config())
    inputs = (torch.randn(1, 3, 8, 8),)
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5)).eval()
    prepared = prepare_pt2e(torch.export.export(module, inputs).module(), quantiser)
    prepared(*inputs)
    return torch.export.export(convert_pt2e(prepared), inputs)


def _convolutions() -> torch.export.ExportedProgram:
    layers = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    return _exported(nn.Sequential(*layers, nn.Linear(8 * 16, 5)), torch.randn(1, 3, 8, 8))


PROGRAMS: dict[str, Callable[[], torch.export.ExportedProgram]] = {
    # Two graphs inside the graph.
    "branch": lambda: _exported(
        lambda x: torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,)), torch.randn(2, 4)
    ),
    "buffers": lambda: _exported(Buffers(), torch.randn(2, 4)),
    "constant": lambda: _exported(constant, torch.randn(2, 4)),
    "convolutions": _convolutions,
    "encoder": lambda: _exported(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), torch.randn(1, 5, 16)),
    "lstm": lambda: _exported(nn.LSTM(4, 8, batch_first=True), torch.randn(1, 3, 4)),
    "no_gradient": lambda: _exported(keeping(no_gradient, linear=nn.Linear(4, 4)), torch.randn(2, 4)),
    "quantised": _quantised,
    "shared": lambda: _exported(shared(), torch.tensor([[1, 2]])),
    "texts": lambda: _exported(texts, torch.randn(2, 4)),
}


def save(name: str, folder: Path) -> Path:
    """Write one of the programs into a folder, and return the .pt2."""
    path = folder / f"{name}.pt2"
    torch.export.save(PROGRAMS[name](), path)
    return path


# --- Change what is in a .pt2.

PROGRAM = "models/model.json"
INPUTS = "data/sample_inputs/model.pt"
WEIGHTS = "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"


def contents(path: Path) -> dict[str, bytes]:
    """The members of a .pt2, without the name of their folder."""
    with zipfile.ZipFile(path) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def write(path: Path, members: Mapping[str, bytes]) -> Path:
    """Write a .pt2 of these members."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"model/{name}", data)
    return path


def changed(path: Path, member: str, change: Callable[[Any], object]) -> Path:
    """Write `evil.pt2` beside a .pt2, with one document changed in place by a function."""
    members = contents(path)
    document = json.loads(members[member])
    change(document)
    members[member] = json.dumps(document).encode()
    return write(path.with_name("evil.pt2"), members)


def replaced(path: Path, member: str, data: bytes) -> Path:
    """Write `evil.pt2` beside a .pt2, with one member replaced or added."""
    return write(path.with_name("evil.pt2"), {**contents(path), member: data})
