"""The model of a question, lowered; loaded only where that is needed."""

from __future__ import annotations

from typing import Any

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.harness.ask.quantisation import check_calibration, in_user_code, quantise_as_asked
from ethos_hil.lowering.conditions.progress import Progress, silent
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.made_from.named_model import LoweredModel, ModelChange, Needed, lower_named, never_needed
from ethos_hil.lowering.model.torch_model import TorchModel, load_model
from ethos_hil.lowering.program.program_file import ProgramFile
from ethos_hil.lowering.vela.options import VelaSetup
from ethos_hil.results.known_clocks import asked_clock


def check_question(question: Question) -> None:
    """Check what can be checked before a model is loaded, which takes seconds.

    Raises:
        UsageError: a value is wrong, Vela could not be asked that, or a file is missing.
    """
    question.check()
    asked_clock(question.clock)
    VelaSetup.asked(question)
    check_calibration(question)


def lower_question(
    question: Question,
    spec: TosaSpec | None = None,
    *,
    needed: Needed = never_needed,
    progress: Progress = silent,
    **options: Any,
) -> LoweredModel:
    """Lower a question's model for its NPU, or to TOSA, or find it in the cache without loading it.

    Args:
        question: what is asked.
        spec: the TOSA to lower to, where that is the end product.
        needed: as for `ethos_hil.lowering.made_from.named_model.lower_named`.
        progress: called with what is being done.
        options: further arguments of `ethos_hil.lowering.lower.lower`, such as hosts.

    Raises:
        UsageError, CompileError, ToolError: as `load_model` and `lower`.
    """
    target: EthosU | TosaSpec = question.npu_name if spec is None else spec
    settings: dict[str, Any] = {
        "progress": progress,
        "vela": VelaSetup.asked(question) if spec is None else None,
        "scheme": question.scheme,
        "as_upstream": question.as_upstream,
        "leave": question.leave,
        # A TOSA program does not run, so there is nothing that an Inspector could join with it.
        "etrecord": spec is None,
        **options,
    }
    model = question.model
    if isinstance(model, str):
        # Functions and files of the user's are not among what a model by name is known to be made from.
        if not in_user_code(question):
            change = ModelChange(lambda loaded: quantise_as_asked(loaded, question), question.int16)
            return lower_named(model, target, change=change, trust=question.trust_model, needed=needed, **settings)
        progress("loading the model")
        model = load_model(model, trust=question.trust_model)
    assert isinstance(model, TorchModel | ProgramFile)
    model = quantise_as_asked(model, question)
    return LoweredModel.of(lower(model, target, **settings), model)
