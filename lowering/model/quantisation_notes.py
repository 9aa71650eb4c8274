"""What a record says of a quantisation that is not what anybody expects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ethos_hil.lowering.model.torch_model import TorchModel
from ethos_hil.lowering.program.program_file import ProgramFile
from ethos_hil.lowering.upstream.names.pt2e import is_quantised

if TYPE_CHECKING:
    import torch


def quantisation_notes(model: TorchModel | ProgramFile, method: str, scheme: str | None) -> tuple[str, ...]:
    """Return sentences about the quantisation of a method, where it is not what anybody expects.

    Args:
        model: what was lowered.
        method: the method's name.
        scheme: how it was quantised (`Artifact.scheme`).
    """
    if scheme is None or not isinstance(model, TorchModel):
        return ()
    mine = model.methods[method]
    if is_quantised(mine.module):
        return ("it is quantised already: its own scales are kept",)
    found = () if scheme == "a8w8" else (f"quantised with {scheme}",)
    sets = mine.calibration_inputs
    own = all(map(_same, sets[0], mine.example_inputs))
    if (mine.changed or not mine.steady) and own and all(each is sets[0] for each in sets):
        return (
            *found,
            f"calibrated on {len(sets)} calls with its one example, from the state that it begins with: larger values "
            "of other calls are clipped; --calibrate gives it a sequence",
        )
    if len(sets) != 1:
        return found
    what = "its one example" if own else "one input set"
    return (
        *found,
        f"calibrated on {what}: larger values of other inputs are clipped; --calibrate gives it more",
    )


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    from ethos_hil.lowering.user_code.module_changes import same_tensor

    return one is other or same_tensor(one, other)
