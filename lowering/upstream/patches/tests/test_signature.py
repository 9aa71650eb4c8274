"""The names of a program's weights are torch's own, and follow changes of its inputs."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch.export.graph_signature import ExportGraphSignature, InputKind

from ethos_hil.lowering.upstream.patches.patch import apply
from ethos_hil.lowering.upstream.patches.table import SPEED

PATCHES = [patch for patch in SPEED if patch.name.startswith("names of")]


class Weights(torch.nn.Module):
    """A parameter, buffers of two kinds, and a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.register_buffer("kept", torch.ones(4))
        self.register_buffer("left_out", torch.ones(4), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """A sum of all."""
        return self.layer(x) + self.kept + self.left_out + torch.tensor([1.0, 2.0, 3.0, 4.0])


def test_the_names_are_torchs_own_also_after_the_inputs_have_changed() -> None:
    assert len(PATCHES) == 2
    signature = torch.export.export(Weights(), (torch.ones(4),)).graph_signature
    own = dict(signature.inputs_to_parameters), dict(signature.inputs_to_buffers)
    assert [len(names) for names in own] == [2, 2]
    of_torch = ExportGraphSignature.inputs_to_buffers
    with apply(PATCHES):
        assert ExportGraphSignature.inputs_to_buffers is not of_torch
        assert (signature.inputs_to_parameters, signature.inputs_to_buffers) == own
        index = next(i for i, spec in enumerate(signature.input_specs) if spec.kind is InputKind.BUFFER)
        signature.input_specs[index] = replace(signature.input_specs[index], target="another")
        signature.input_specs[0].target = "a.third"
        changed = signature.inputs_to_parameters, signature.inputs_to_buffers
    assert changed == (signature.inputs_to_parameters, signature.inputs_to_buffers)
    assert "a.third" in changed[0].values()
    assert "another" in changed[1].values()
