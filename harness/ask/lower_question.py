"""The model of a question, quantised as it says, and lowered; loaded only where that is needed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ethos_hil.base.dataclasses import dataclass, replace
from ethos_hil.base.errors import UsageError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.options import ARRAYS, ModelOptions
from ethos_hil.base.question import Question
from ethos_hil.harness.image.inputs import InputFile
from ethos_hil.lowering.conditions.process import Progress, silent
from ethos_hil.lowering.formats.tosa_spec import TosaSpec
from ethos_hil.lowering.made_from.named_model import LoweredModel, ModelChange, Needed, lower_named, never_needed
from ethos_hil.lowering.model.quantisation import chosen_modules, modules_in
from ethos_hil.lowering.model.torch_model import TorchModel, calibrate, load_model
from ethos_hil.lowering.program.program_file import ProgramFile
from ethos_hil.lowering.upstream.names.operators import is_quantised
from ethos_hil.lowering.user_code.user_function import call_user, load_function
from ethos_hil.lowering.vela.options import VelaSetup
from ethos_hil.results.latency import asked_clock

if TYPE_CHECKING:
    import torch

    from ethos_hil.lowering.model import Method

Quantizer = Callable[[Any], Any]
_FIELDS = ("calibrate", "int16", "quantizer")
_CALIBRATE = "--calibrate"
_CALIBRATION_HINT = "it takes no arguments and returns a list of input tuples"


def check_question(question: Question) -> None:
    """Check what can be checked before a model is loaded, which takes seconds.

    Raises:
        UsageError: a value is wrong, Vela could not be asked that, or a file is missing.
    """
    question.check()
    asked_clock(question.clock)
    VelaSetup.asked(question)
    check_calibration(question)
    if question.ptd and not question.is_program:
        raise UsageError(f"--ptd says nothing: {question.label} is no .pte", hint="leave it out, or give the program")


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
    if question.dim and isinstance(question.model, TorchModel):
        question = question.but(model=question.model.at_sizes(question.dim), dim=())
    if question.subject:
        from ethos_hil.harness.subjects.process import lower_in_subject  # late: few questions have one

        return lower_in_subject(question, spec, needed=needed, progress=progress, whole=bool(options.get("whole")))
    target: EthosU | TosaSpec = question.npu_name if spec is None else spec
    settings: dict[str, Any] = {
        "options": question,
        "progress": progress,
        "vela": VelaSetup.asked(question) if spec is None else None,
        # A TOSA program does not run, so there is nothing that an Inspector could join with it.
        "etrecord": spec is None,
        **options,
    }
    model = question.model
    if isinstance(model, str):
        # Functions and files of the user's are not among what a model by name is known to be made from.
        if not in_user_code(question):
            change = ModelChange(lambda loaded: as_asked(loaded, question), question.int16)
            return lower_named(model, target, change=change, needed=needed, **settings)
        progress("loading the model")
        model = load_model(model, trust=question.trust_model, ptd=question.ptd)
    from ethos_hil.lowering.lower import lower  # late: a model that is found does without

    assert isinstance(model, TorchModel | ProgramFile)
    model = as_asked(model, question)
    return LoweredModel.of(lower(model, target, **settings), model)


@dataclass(frozen=True)
class InputForm:
    """Dtype and shape of an input of a model."""

    dtype: np.dtype[Any]
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.sizes)}"


def check_calibration(options: ModelOptions) -> None:
    """Raise UsageError if a file of calibration inputs is missing."""
    if isinstance(options.calibrate, str) and options.calibrate.lower().endswith(ARRAYS):
        InputFile.read(Path(options.calibrate), "calibration inputs")


def in_user_code(options: ModelOptions) -> bool:
    """Return whether the quantisation depends on functions or files of the user's."""
    return options.calibrate is not None or options.quantizer is not None


def as_asked(model: TorchModel | ProgramFile, options: ModelOptions) -> TorchModel | ProgramFile:
    """Return the model at the sizes that are asked for, and with what is asked of its quantisation beside the scheme.

    Args:
        model: the model. Where nothing is asked it is returned as it is.
        options: sizes; calibration inputs, modules with 16 bits, a quantiser; and the method that the inputs are for:
            by default forward, or the first.

    Raises:
        UsageError: they do not fit the model, or a function of the user's raises.
    """
    flags = options.flags(("dim", *_FIELDS))
    if not flags:
        return model
    if isinstance(model, ProgramFile):
        raise UsageError(f"{model.label} is compiled already, so {flags[0]} says nothing", hint="leave it out")
    if options.dim:
        model = model.at_sizes(options.dim)
    flags = options.flags(_FIELDS)
    if not flags:
        return model
    name = model.default_name if options.method is None else options.method
    if name not in model.methods:
        raise UsageError(f"{model.label} has no method {name!r}", hint=f"it has: {', '.join(model.methods)}")
    quantised = [key for key, method in model.methods.items() if is_quantised(method.module)]
    if quantised == list(model.methods) or (options.calibrate is not None and name in quantised):
        raise UsageError(f"{model.label} is quantised already, so {flags[0]} says nothing", hint="give the float model")
    if options.calibrate is not None:
        if model.methods[name].on_cpu:
            raise UsageError(
                f"method {name} stays on the CPU in float, so --calibrate says nothing", hint="leave it out"
            )
        model = calibrate(model, name, *_calibration(options.calibrate, model.methods[name]))
    if options.int16:
        model = _with_int16(model, options.int16)
    if options.quantizer is not None:
        function = _function(options.quantizer, "--quantizer")
        model = replace(
            model,
            methods={
                key: method if key in quantised or method.on_cpu else replace(method, quantizer=function)
                for key, method in model.methods.items()
            },
        )
    return model


def _calibration(source: str | Sequence[tuple[Any, ...]], method: Method) -> tuple[Any, str]:
    """Return the calibration inputs, and where they come from."""
    if not isinstance(source, str):
        return list(source), "calibrate"
    if source.lower().endswith(ARRAYS):
        import torch

        forms = [InputForm(_dtype(tensor), tuple(tensor.shape)) for tensor in method.example_inputs]
        file = InputFile.read(Path(source), "calibration inputs")
        sets = file.input_sets(forms, _argument_names(method))
        return [tuple(torch.from_numpy(np.array(array)) for array in entry) for entry in sets], source
    return call_user(_function(source, _CALIBRATE), f"{_CALIBRATE} {source}", _CALIBRATION_HINT), source


def _argument_names(method: Method) -> tuple[str, ...]:
    """Return the names of forward's arguments, as `torch.export` names the inputs of a program."""
    named = inspect.signature(method.module.forward).parameters.values()
    names = [arg.name for arg in named if arg.kind in (arg.POSITIONAL_ONLY, arg.POSITIONAL_OR_KEYWORD)]
    return tuple(names[: len(method.example_inputs)])


def _with_int16(model: TorchModel, names: tuple[str, ...]) -> TorchModel:
    """Return the model with 16 bits in modules; each method gets the names that it has."""
    modules = {key: _module_names(method) for key, method in model.methods.items() if not method.on_cpu}
    chosen_modules(names, tuple(dict.fromkeys(name for own in modules.values() for name in own)), model.label)
    methods = {
        key: replace(method, int16=tuple(dict.fromkeys((*method.int16, *_of_method(names, modules.get(key, ()))))))
        for key, method in model.methods.items()
    }
    return replace(model, methods=methods)


def _of_method(names: tuple[str, ...], modules: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if any(path == name or path.startswith(f"{name}.") for path in modules))


def _module_names(method: Method) -> tuple[str, ...]:
    import torch

    if isinstance(method.module, torch.fx.GraphModule):
        return modules_in([method.module])
    return tuple(name for name, _ in method.module.named_modules() if name)


def _function(quantizer: str | Quantizer, what: str) -> Callable[..., Any]:
    if not isinstance(quantizer, str):
        if callable(quantizer):
            return quantizer
        raise UsageError(f"the quantizer is a {type(quantizer).__name__}", hint="give a function of the compile spec")
    function: Callable[..., Any]
    function, _ = load_function(quantizer, what)
    return function


def _dtype(tensor: torch.Tensor) -> np.dtype[Any]:
    try:
        return tensor[:0].numpy().dtype if tensor.ndim else tensor.numpy().dtype
    except TypeError:
        raise UsageError(
            f"an input has type {tensor.dtype}, which an .npz lacks", hint="calibrate with file.py:function"
        ) from None
