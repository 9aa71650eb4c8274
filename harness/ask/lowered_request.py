"""The model of a request, lowered; loaded only where that is needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ethos_hil.base.npu_name import NpuName
from ethos_hil.harness.ask.quantisation_options import QuantisationOptions
from ethos_hil.harness.ask.request import RunRequest
from ethos_hil.lowering.conditions.progress import Progress, silent
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.made_from.named_model import LoweredModel, ModelChange, Needed, lower_named, never_needed
from ethos_hil.lowering.model.torch_model import TorchModel, load_model
from ethos_hil.lowering.program.program_file import ProgramFile


def lowered_request(
    request: RunRequest, *, needed: Needed = never_needed, progress: Progress = silent, **options: Any
) -> LoweredModel:
    """Lower a request's model for its NPU, as the request says, or find it in the cache without loading it.

    Args:
        request: what is asked.
        needed, progress: as for `lowered`.
        options: further arguments of it, such as hosts.

    Raises:
        UsageError, CompileError, ToolError: as `load_model` and `lower`.
    """
    return lowered(
        request.model,
        request.npu_name,
        request.quantisation,
        method=request.method,
        trust=request.trust_model,
        vela=request.setup,
        scheme=request.scheme,
        as_upstream=request.as_upstream,
        leave=request.leave,
        needed=needed,
        progress=progress,
        **options,
    )


def lowered(
    model: str | TorchModel | ProgramFile,
    target: NpuName | TosaSpec,
    quantisation: QuantisationOptions,
    *,
    method: str | None = None,
    trust: bool = False,
    needed: Needed = never_needed,
    progress: Progress = silent,
    **options: Any,
) -> LoweredModel:
    """Lower a model, or find it in the cache without loading it.

    Args:
        model: a MODEL's name, or a loaded model.
        target: the NPU or the TOSA to lower to.
        quantisation: what the user says about the quantisation.
        method: the method that calibration inputs are for.
        trust: load a .pt2 with more than data in it.
        needed: as for `ethos_hil.lowering.made_from.named_model.lower_named`.
        progress: called with what is being done.
        options: further arguments of `ethos_hil.lowering.lower.lower`.

    Raises:
        UsageError, CompileError, ToolError: as `load_model` and `lower`.
    """
    # A TOSA program does not run, so there is nothing that an Inspector could join with it.
    settings: Mapping[str, Any] = {"progress": progress, "etrecord": isinstance(target, NpuName), **options}
    if isinstance(model, str):
        # Functions and files of the user's are not among what a model by name is known to be made from.
        if quantisation.calibrate is None and quantisation.quantizer is None:
            change = ModelChange(lambda loaded: quantisation.applied(loaded, method), quantisation.int16)
            return lower_named(model, target, change=change, trust=trust, needed=needed, **settings)
        progress("loading the model")
        model = load_model(model, trust=trust)
    model = quantisation.applied(model, method)
    return LoweredModel.of(lower(model, target, **settings), model)
