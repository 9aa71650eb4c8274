"""The FVPs of all systems on chip, and where they are on this machine."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass

from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.harness.socs.soc import Fvp, NpuChoice, Soc

FVP_PATH_VARIABLE = "ETHOS_HIL_FVP_PATH"
"""Names folders that are searched for FVPs before those of PATH, separated by colons."""


@dataclass(frozen=True)
class FvpModel:
    """An FVP with the system and the NPU that it models."""

    soc: Soc
    npu: NpuChoice
    fvp: Fvp


MODELS = {npu.fvp.executable: FvpModel(soc, npu, npu.fvp) for soc in SOCS for npu in soc.npus if npu.fvp is not None}
"""By executable."""


def fvp_model(soc: str, npu: str) -> FvpModel | None:
    """Return the FVP of the system `soc` that has `npu`, e.g. "ethos-u55-128", or None."""
    return next((model for model in MODELS.values() if model.soc.name == soc and npu in model.npu.names), None)


def installed_fvp(executable: str) -> str | None:
    """Return the path of an FVP: in a folder of $ETHOS_HIL_FVP_PATH, otherwise on PATH; None if it is in neither."""
    folders = os.environ.get(FVP_PATH_VARIABLE)
    return (shutil.which(executable, path=folders) if folders else None) or shutil.which(executable)
