"""Find and load a MODEL.

A MODEL is `file.py:function` or `package.module:function`, a `.pt2` written by torch.export.save, or a `.pte`. The
function returns `(module, example_inputs)`, `(module, example_inputs, calibration_inputs)` or a `Method`, which becomes
the method "forward". For a program of several methods it returns a dictionary of these by the methods' names. A
`Method` can also stay on the CPU:

    def two():
        encoder, x, codes = ...
        return {"encode": (encoder, (x,)), "score": Method(Score(encoder), (codes,), on_cpu=True)}

Methods may share modules. ExecuTorch stores shared constants of the CPU once, and delegates that are equal as a whole;
other shared data is in the program once for each method.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ethos_hil.base.dataclasses import dataclass, field, replace
from ethos_hil.base.errors import EthosHilError, UsageError, raise_if_interrupted
from ethos_hil.lowering.formats.pte_model import FORWARD, default_method
from ethos_hil.lowering.model.flat_module import Structure, flat_module, flatten, is_flat
from ethos_hil.lowering.model.free_dimensions import FIXED, FreeSizes
from ethos_hil.lowering.model.plain_tensors import plain_input, require_plain_module
from ethos_hil.lowering.program.program_file import PROGRAM_SUFFIXES, ProgramFile, no_file
from ethos_hil.lowering.upstream.names import trees
from ethos_hil.lowering.upstream.pytorch_answers import outputs_of
from ethos_hil.lowering.user_code.module_changes import changes, copy_module, same_tensor
from ethos_hil.lowering.user_code.user_function import (
    Sources,
    call_user,
    check_bytecode,
    imported_files,
    load_function,
    summary,
    user_line,
)

if TYPE_CHECKING:
    import torch

    from ethos_hil.lowering.upstream.layer_errors import LayerErrors

Inputs = tuple["torch.Tensor", ...]
STATEFUL_CALLS = 16
"""Calls of its example that a model with state is calibrated with, if no one gives it other inputs."""

_RETURNS = (
    "it must return (module, example_inputs) or (module, example_inputs, calibration_inputs), or a dictionary of these "
    "by method name"
)
_MAX_NAME = 31  # bytes of a method's name that the firmware's package has room for (harness/image/formats.py)


@dataclass(frozen=True)
class Method:
    """One of a program's methods: a module, whose forward is the method.

    Attributes:
        module: a loaded model is in eval mode; for a .pt2 it is the module of the exported program.
        example_inputs: the positional arguments of forward.
        calibration_inputs: sets of such arguments to calibrate the quantisation with; by default the example. A model
            that keeps state is called with them in turn, and starts once; by default with the example, 16 times.
        on_cpu: run all of it on the CPU, in float.
        leave: what its partitioner leaves to the CPU, quantised like the rest: operators ("aten.sigmoid"), lines
            ("net.py:12") or modules ("head.0") (`ethos_hil.lowering.upstream.cpu_calls`).
        int16: the modules, by name ("head", "blocks.3"), whose activations have 16 bits where the others have 8.
        quantizer: makes the quantiser from upstream's compile spec, in place of ours; it decides all bits.
        notes: sentences for the record of a run, for example that the model is untrained.
        repeat: how often a run executes each input set, unless `--repeat` says otherwise. A model that keeps state may
            need many calls.
        text: the name of an integer output whose values are characters, by their numbers in Unicode: a run shows the
            text of all its executions. Empty where there is none.
        changed: the names of the module's buffers and attributes that a call of it changes ("stem.calls"), and
        steady: whether two equal calls give equal answers, and
        free: the sizes that an exported program leaves free, and
        structure: how the module's arguments are made of the inputs, where they are more than tensors; all four are
            filled in when the model is loaded.
    """

    module: torch.nn.Module
    example_inputs: Inputs
    calibration_inputs: tuple[Inputs, ...] = ()
    on_cpu: bool = False
    leave: tuple[str, ...] = ()
    int16: tuple[str, ...] = ()
    quantizer: Callable[[Any], Any] | None = None
    notes: tuple[str, ...] = ()
    repeat: int = 1
    text: str = ""
    changed: tuple[str, ...] = ()
    steady: bool = True
    free: FreeSizes = FIXED
    structure: Structure | None = None

    @property
    def stateful(self) -> bool:
        """Whether what a call answers may depend on the calls before it."""
        return bool(self.changed) or not self.steady

    @property
    def fresh(self) -> torch.nn.Module:
        """The module as the user gave it, for tracing or calling: a copy where a call changes it."""
        return copy_module(self.module, type(self.module).__name__) if self.changed else self.module


@dataclass(frozen=True)
class TorchModel:
    """A float model in PyTorch.

    Attributes:
        label: the user's name for it.
        methods: the methods by name, at least one.
        sources: names the lines of the user's files.
    """

    label: str
    methods: Mapping[str, Method]
    sources: Sources = field(default_factory=Sources)

    @property
    def default_name(self) -> str:
        """Name of the default method: forward, or the first."""
        return default_method(self.methods)

    @property
    def default(self) -> Method:
        """The default method."""
        return self.methods[self.default_name]

    def at_sizes(self, asked: Sequence[str]) -> TorchModel:
        """Return the model with other sizes of dimensions that it leaves free.

        Args:
            asked: "NAME=SIZE" each (`FreeSizes.chosen`).

        Raises:
            UsageError: it leaves no such dimension free, or it cannot have that size.
        """
        method = self.default
        sizes = method.free.chosen(asked, self.label)
        sets = (method.free.resized(inputs, sizes) for inputs in (method.example_inputs, *method.calibration_inputs))
        example, *calibration = map(tuple, sets)
        notes = (*(note for note in method.notes if note not in method.free.notes({})), *method.free.notes(sizes))
        sized = replace(method, example_inputs=example, calibration_inputs=tuple(calibration), notes=notes)
        return replace(self, methods={**self.methods, self.default_name: sized})

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of all methods, each once."""
        return tuple(dict.fromkeys(note for method in self.methods.values() for note in method.notes))


def load_model(text: str, *, trust: bool = False, ptd: Sequence[str] = ()) -> TorchModel | ProgramFile:
    """Load the model called `text`.

    Args:
        text: a MODEL as on the command line.
        trust: whether a .pt2 may have more than data, for example pickled objects: loading it may then execute code.
        ptd: the .ptd files that belong to a .pte.

    Raises:
        UsageError: says what is wrong with the model and where.
    """
    suffix = Path(text).suffix.lower()
    if suffix in PROGRAM_SUFFIXES:
        return ProgramFile.read(text, ptd)
    if suffix == ".pt2":
        return _load_exported(text, trust=trust)
    function, sources = load_function(text, "MODEL")
    loaded = _call(function, text, sources)
    if sources.root is not None:  # the function may have imported more
        check_bytecode(imported_files(sources.root))
    return loaded


def from_module(
    module: torch.nn.Module,
    example_inputs: Sequence[Any] | Mapping[str, Any],
    calibration_inputs: Sequence[Sequence[Any] | Mapping[str, Any]] = (),
    *,
    label: str = "model",
    root: Path | None = None,
) -> TorchModel:
    """Return a TorchModel of objects in memory, checked like a loaded model; `root` as in `Sources`."""
    example = example_inputs if isinstance(example_inputs, Mapping) else tuple(example_inputs)
    return _check_result((module, example, list(calibration_inputs)), label, label, Sources(root))


def from_exported(exported: torch.export.ExportedProgram, *, label: str = "model") -> TorchModel:
    """Return a TorchModel of an exported program, checked like a loaded model.

    Raises:
        UsageError: it has no example inputs, has keyword arguments, or is damaged.
    """
    if exported.example_inputs is None:
        raise UsageError(f"{label} has no example inputs", hint="export it again with this torch version")
    try:
        args, kwargs = exported.example_inputs
        if args and kwargs:
            raise UsageError(
                f"{label} takes keyword arguments {list(kwargs)} beside others", hint="export with either of the two"
            )
        module = exported.module(check_guards=False)
        free = FreeSizes.of(exported, [leaf for leaf in trees.flatten((args, kwargs))[0] if hasattr(leaf, "shape")])
    except EthosHilError:
        raise
    except Exception as error:
        raise_if_interrupted(error)
        raise UsageError(f"{label} is a damaged program: {summary(error)}", hint="export it again") from error
    model = _check_result((module, kwargs or args), label, label, Sources(), exported=True)
    method = replace(model.default, free=free, notes=free.notes({}))
    return replace(model, methods={model.default_name: method})


def _load_exported(text: str, *, trust: bool) -> TorchModel:
    path = Path(text).expanduser()
    if not path.exists():
        raise no_file(text)
    from ethos_hil.lowering.model.exported_file import load_exported

    return from_exported(load_exported(path, trust=trust), label=text)


def _call(function: Any, text: str, sources: Sources) -> TorchModel:
    result = call_user(function, text, f"{_RETURNS}, without arguments")
    return _check_result(result, text, text, sources)


def _check_result(result: Any, what: str, label: str, sources: Sources, *, exported: bool = False) -> TorchModel:
    if not isinstance(result, dict):
        return TorchModel(label, {FORWARD: _method(result, what, exported=exported)}, sources)
    if not result:
        raise UsageError(f"{what} returned an empty dictionary", hint=_RETURNS)
    for name in result:
        if not isinstance(name, str) or not name.isidentifier() or len(name.encode()) > _MAX_NAME:
            raise UsageError(
                f"{what} returned a method called {name!r}",
                hint=f"a method's name is a Python identifier of at most {_MAX_NAME} bytes",
            )
    return TorchModel(label, {name: _method(entry, f"{what}[{name!r}]") for name, entry in result.items()}, sources)


def _method(result: Any, what: str, *, exported: bool = False) -> Method:
    """Check what a function returned for one method, by calling copies of it, and return it as a Method."""
    import torch

    from ethos_hil.lowering.upstream.names.operators import is_quantised

    method = result if isinstance(result, Method) else None
    if isinstance(result, Method):
        result = (result.module, result.example_inputs, list(result.calibration_inputs))
    if not isinstance(result, tuple | list) or len(result) not in (2, 3) or not isinstance(result[0], torch.nn.Module):
        raise UsageError(f"{what} returned {_describe(result)}", hint=_RETURNS)
    module = result[0]
    require_plain_module(module, what)
    example, structure = _input_tuple(module, result[1], what, "example_inputs")
    given = result[2] if len(result) == 3 and result[2] is not None else ()
    calibration = _calibration(given, f"{what} returned", what, module, example, structure)
    if not exported and not is_quantised(module):  # an exported module has no train and eval modes
        module = module.eval()
    if structure is not None:
        module = flat_module(module, structure)
    try:
        changed, steady, whole = call_twice(module, example, what)
    except EthosHilError:
        raise
    except Exception as error:
        raise_if_interrupted(error)
        raise UsageError(
            f"{what}: calling the module with its example inputs failed: {summary(error)}{user_line(error)}",
            hint=f"the example inputs are {_describe(example)}",
        ) from error
    return replace(
        method or Method(module, example),
        module=module if whole or structure is not None else flat_module(module, None),
        example_inputs=example,
        structure=structure,
        calibration_inputs=calibration or (example,) * (STATEFUL_CALLS if changed or not steady else 1),
        changed=changed,
        steady=steady,
    )


def calibrate(model: TorchModel, method: str, value: Any, what: str) -> TorchModel:
    """Return a model whose method is calibrated with other inputs.

    Args:
        model: the model.
        method: the method's name.
        value: input sets, in the forms that a MODEL's function may return them in; at least one.
        what: where they come from, in an error.

    Raises:
        UsageError: they do not fit the method's example inputs, or there are none.
    """
    mine = model.methods[method]
    calibration = _calibration(value, f"{what} gives", what, mine.module, mine.example_inputs, mine.structure)
    if not calibration:
        raise UsageError(f"{what} gives no inputs", hint="give at least one input set")
    return replace(model, methods={**model.methods, method: replace(mine, calibration_inputs=calibration)})


def _calibration(
    value: Any, gives: str, what: str, module: torch.nn.Module, example: Inputs, structure: Structure | None
) -> tuple[Inputs, ...]:
    import torch

    if isinstance(value, torch.Tensor) or not isinstance(value, Sequence):
        raise UsageError(f"{gives} {_describe(value)} as calibration_inputs", hint="give a list of input tuples")
    calibration = []
    for index, given in enumerate(value):
        entry, arranged = _input_tuple(module, given, what, f"calibration_inputs[{index}]")
        if arranged is not None and arranged != structure:
            raise UsageError(
                f"{what}: calibration_inputs[{index}] is arranged otherwise than the example inputs",
                hint="give each set the same containers and constants",
            )
        calibration.append(entry)
        kinds = [(tensor.shape, tensor.dtype) for tensor in entry]
        if kinds != [(tensor.shape, tensor.dtype) for tensor in example]:
            raise UsageError(
                f"{what}: calibration_inputs[{index}] is {_describe(entry)}",
                hint=f"the example inputs are {_describe(example)}",
            )
    return tuple(calibration)


def _input_tuple(module: torch.nn.Module, value: Any, what: str, name: str) -> tuple[Inputs, Structure | None]:
    """Return the tensors in inputs, and how they are arranged; None where they are nothing but tensors."""
    import torch

    entries = (value,) if isinstance(value, torch.Tensor) else value
    if not isinstance(entries, tuple | list | Mapping):
        raise UsageError(f"{what}: {name} is {_describe(value)}, expected a tuple of tensors", hint=_RETURNS)
    place = f"{what}: {name}"
    tensors, structure = (entries, None) if is_flat(entries) else flatten(module, entries, place)
    return tuple(plain_input(tensor, f"{place}[{number}]") for number, tensor in enumerate(tensors)), structure


def _describe(value: Any) -> str:
    """Return a short description of a value: types, and shapes of tensors."""
    import torch

    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, tuple | list):
        shown = ", ".join(_describe(entry) for entry in value[:4]) + (", ..." if len(value) > 4 else "")
        return f"({shown})" if isinstance(value, tuple) else f"[{shown}]"
    return "None" if value is None else f"a {type(value).__name__}"


_HINT = "let forward return tensors, which a device can send"


def call_twice(
    module: torch.nn.Module, example: tuple[torch.Tensor, ...], what: str
) -> tuple[tuple[str, ...], bool, bool]:
    """Call a copy of a module twice, with copies of its example inputs.

    Return `Method.changed` and `Method.steady`, and whether there is no None among its outputs.

    Args:
        module: the user's module. Neither it nor its inputs change.
        example: its inputs.
        what: the module's name in an error.

    Raises:
        UsageError: the module cannot be copied, or returns nothing.
        Exception: what the call raises.
    """
    import torch

    called = copy_module(module, what)
    first = outputs_of(called, example)
    if all(output is None for output in first):
        raise UsageError(f"{what}: forward returns no outputs", hint=_HINT)
    odd = next((output for output in first if not isinstance(output, torch.Tensor | float | int | str | None)), None)
    if odd is not None:
        raise UsageError(f"{what}: forward returns {_describe(odd)}", hint=f"{_HINT}, in tuples, lists or dictionaries")
    changed = changes(module, called)
    second = outputs_of(called, example)
    steady = len(first) == len(second) and all(map(_same, first, second))
    return changed, steady, all(output is not None for output in first)


def _same(first: Any, two: Any) -> bool:
    import torch

    if isinstance(first, torch.Tensor) and isinstance(two, torch.Tensor):
        return same_tensor(first, two)
    return type(first) is type(two) and bool(first == two)


@dataclass(frozen=True)
class HostModules:
    """The modules of one method.

    Attributes:
        floating: the float module, exported; None where the user gave a quantised one.
        quantised: the quantised module, which computes in float with the integers' values; None where the method stays
            in float.
        sources: names the lines of the user's files.
    """

    floating: torch.fx.GraphModule | None
    quantised: torch.fx.GraphModule | None
    sources: Sources

    @property
    def layers(self) -> LayerErrors | None:
        """What compares the two layer by layer; None where there are not both."""
        from ethos_hil.lowering.upstream.layer_errors import LayerErrors

        if self.floating is None or self.quantised is None:
            return None
        return LayerErrors(self.floating, self.quantised, self.sources)

    def answers(self, inputs: Sequence[np.ndarray]) -> dict[str, tuple[np.ndarray, ...]]:
        """Return the flat outputs of "float" and "quantised", as far as there are such modules.

        Args:
            inputs: of the shapes and types of the method's inputs.

        Raises:
            UsageError: the module fails on these inputs.
        """
        named = {"float": self.floating, "quantised": self.quantised}
        return {name: _call_module(module, inputs) for name, module in named.items() if module is not None}


def _call_module(module: torch.nn.Module, inputs: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    import torch

    try:
        leaves = outputs_of(module, [torch.from_numpy(np.array(array)) for array in inputs])
    except Exception as error:
        raise_if_interrupted(error)
        raise UsageError(f"the model fails in PyTorch: {type(error).__name__}: {error}".split("\n")[0]) from error
    return tuple(leaf.numpy() for leaf in leaves if isinstance(leaf, torch.Tensor))
