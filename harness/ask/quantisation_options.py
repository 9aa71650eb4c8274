"""What the user says about the quantisation, beside the scheme: inputs to calibrate with, bits, a quantiser."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.image.inputs import InputFile
from ethos_hil.lowering.formats.tosa_spec import Scheme
from ethos_hil.lowering.model.module_names import chosen_modules, modules_in
from ethos_hil.lowering.model.torch_model import TorchModel, calibrated
from ethos_hil.lowering.program.program_file import ProgramFile
from ethos_hil.lowering.upstream.names.pt2e import is_quantised
from ethos_hil.lowering.user_code.user_function import called, load_function

if TYPE_CHECKING:
    import torch

    from ethos_hil.lowering.model import Method

Quantizer = Callable[[Any], Any]
_ARCHIVE = ".npz"
_CALIBRATE = "--calibrate"
_CALIBRATION_HINT = "it takes no arguments and returns a list of input tuples"


def parse_scheme(text: str) -> Scheme:
    """Return the scheme called `text`. Raises UsageError, which lists the schemes."""
    valid = get_args(Scheme)
    for known in valid:
        if text == known:
            return known
    close = difflib.get_close_matches(text, valid, n=1)
    suggestion = f"did you mean {close[0]}? " if close else ""
    raise UsageError(f"no scheme is called {text!r}", hint=f"{suggestion}valid: {', '.join(valid)}")


@dataclass(frozen=True)
class InputForm:
    """Dtype and shape of an input of a model."""

    dtype: np.dtype[Any]
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.sizes)}"


@dataclass(frozen=True)
class QuantisationOptions:
    """What the user says about the quantisation.

    Attributes:
        calibrate: an .npz of input sets, "file.py:function" which returns a list of them, or a list of tuples of
            tensors; None for the model's own.
        int16: names of modules whose activations have 16 bits.
        quantizer: makes a quantiser from upstream's compile spec, or "file.py:function" of such a function.
    """

    calibrate: str | Sequence[tuple[torch.Tensor, ...]] | None = None
    int16: tuple[str, ...] = ()
    quantizer: str | Quantizer | None = None

    @property
    def given(self) -> tuple[str, ...]:
        """The options that are given, as the command line calls them."""
        values = {"--calibrate": self.calibrate, "--int16": self.int16 or None, "--quantizer": self.quantizer}
        return tuple(name for name, value in values.items() if value is not None)

    def check_files(self) -> None:
        """Check what needs no model.

        Raises:
            UsageError: a file is missing.
        """
        if isinstance(self.calibrate, str) and self.calibrate.lower().endswith(_ARCHIVE):
            InputFile.read(Path(self.calibrate), "calibration inputs")
        if isinstance(self.calibrate, str) and self.calibrate == "":
            raise UsageError(f"{_CALIBRATE} is empty", hint="give X.npz or file.py:function")

    def applied(self, model: TorchModel | ProgramFile, method: str | None) -> TorchModel | ProgramFile:
        """Return the model with these options.

        Args:
            model: the model. One without options is returned as it is.
            method: the method that the calibration inputs are for; by default forward, or the first.

        Raises:
            UsageError: they do not fit the model, or a function of the user's raises.
        """
        given = self.given
        if not given:
            return model
        if isinstance(model, ProgramFile):
            raise UsageError(f"{model.label} is compiled already, so {given[0]} says nothing", hint="leave it out")
        name = model.default_name if method is None else method
        if name not in model.methods:
            raise UsageError(f"{model.label} has no method {name!r}", hint=f"it has: {', '.join(model.methods)}")
        quantised = [key for key, each in model.methods.items() if is_quantised(each.module)]
        if quantised == list(model.methods) or (self.calibrate is not None and name in quantised):
            raise UsageError(
                f"{model.label} is quantised already, so {given[0]} says nothing", hint="give the float model"
            )
        if self.calibrate is not None and model.methods[name].on_cpu:
            raise UsageError(
                f"method {name} stays on the CPU in float, so --calibrate says nothing", hint="leave it out"
            )
        if self.calibrate is not None:
            model = calibrated(model, name, *self._calibration(model.methods[name]))
        if self.int16:
            model = _with_int16(model, self.int16)
        if self.quantizer is not None:
            function = _function(self.quantizer, "--quantizer")
            model = replace(
                model,
                methods={
                    key: each if key in quantised or each.on_cpu else replace(each, quantizer=function)
                    for key, each in model.methods.items()
                },
            )
        return model

    def _calibration(self, method: Method) -> tuple[Any, str]:
        """Return the calibration inputs, and where they come from."""
        given = self.calibrate
        if not isinstance(given, str):
            return list(given or ()), "calibrate"
        if given.lower().endswith(_ARCHIVE):
            import torch

            forms = [InputForm(_dtype(tensor), tuple(tensor.shape)) for tensor in method.example_inputs]
            file = InputFile.read(Path(given), "calibration inputs")
            sets = file.input_sets(forms, _argument_names(method))
            return [tuple(torch.from_numpy(np.array(array)) for array in entry) for entry in sets], given
        return called(_function(given, _CALIBRATE), f"{_CALIBRATE} {given}", _CALIBRATION_HINT), given


def _argument_names(method: Method) -> tuple[str, ...]:
    """Return the names of forward's arguments, as `torch.export` names the inputs of a program."""
    named = inspect.signature(method.module.forward).parameters.values()
    names = [each.name for each in named if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    return tuple(names[: len(method.example_inputs)])


def _with_int16(model: TorchModel, names: tuple[str, ...]) -> TorchModel:
    """Return the model with 16 bits in modules; each method gets the names that it has."""
    known = {key: _module_names(method) for key, method in model.methods.items() if not method.on_cpu}
    chosen_modules(names, tuple(dict.fromkeys(name for own in known.values() for name in own)), model.label)
    methods = {
        key: replace(method, int16=tuple(dict.fromkeys((*method.int16, *_of_method(names, known.get(key, ()))))))
        for key, method in model.methods.items()
    }
    return replace(model, methods=methods)


def _of_method(names: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in names if any(path == name or path.startswith(f"{name}.") for path in known))


def _module_names(method: Method) -> tuple[str, ...]:
    import torch

    if isinstance(method.module, torch.fx.GraphModule):
        return modules_in([method.module])
    return tuple(name for name, _ in method.module.named_modules() if name)


def _function(given: str | Quantizer, what: str) -> Callable[..., Any]:
    if not isinstance(given, str):
        if callable(given):
            return given
        raise UsageError(f"the quantizer is a {type(given).__name__}", hint="give a function of the compile spec")
    function: Callable[..., Any]
    function, _ = load_function(given, what)
    return function


def _dtype(tensor: torch.Tensor) -> np.dtype[Any]:
    try:
        return tensor[:0].numpy().dtype if tensor.ndim else tensor.numpy().dtype
    except TypeError:
        raise UsageError(
            f"an input has type {tensor.dtype}, which an .npz lacks", hint="calibrate with file.py:function"
        ) from None
