"""The functions that `ethos_hil` offers. Their keywords are the fields of a `Question`, as are the command line's."""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ethos_hil.base.asking import API, API_LOWER, API_OPEN, EVALUATE, PREFLIGHT, PROFILE, Asking
from ethos_hil.base.errors import UsageError
from ethos_hil.base.options import ANNOTATIONS, DEFAULT_TARGET, OPTIONS
from ethos_hil.base.question import Question
from ethos_hil.harness.ask.place import npu_of
from ethos_hil.harness.image.inputs import InputSet
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.harness.verdict.result import Result
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.model.flat_module import CONSTANTS
from ethos_hil.lowering.model.torch_model import ProgramFile, TorchModel, from_exported, from_module
from ethos_hil.lowering.upstream.names import trees
from ethos_hil.lowering.user_code.module_changes import copy_module

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import torch

    from ethos_hil.harness.dry_run.survey import Survey
    from ethos_hil.harness.evaluate.evaluation import Evaluation
    from ethos_hil.harness.virtual.board import BoardPool

    Model = str | os.PathLike[str] | torch.nn.Module | torch.export.ExportedProgram | TorchModel | ProgramFile
    Value = torch.Tensor | np.ndarray
    Inputs = Value | Sequence[Any] | os.PathLike[str] | str

_PLACE = "{options}"
"""Where the help of the keywords goes in a docstring."""
_WIDTH = 110
_KIND = inspect.Parameter.KEYWORD_ONLY
Function = TypeVar("Function", bound=Callable[..., Any])


def asks_by_keyword(asking: Asking) -> Callable[[Function], Function]:
    """Give a function the keywords of a question, which it takes as `**options`: in its signature and docstring."""

    def decorate(function: Function) -> Function:
        own = list(inspect.signature(function).parameters.values())
        taken = {parameter.name for parameter in own}
        names = [name for name in asking.fields if name not in taken]

        @functools.wraps(function)
        def ask(*arguments: Any, **options: Any) -> Any:
            unknown = options.keys() - taken - {*names}
            if unknown:
                raise TypeError(f"{function.__name__}() got an unexpected keyword argument {min(unknown)!r}")
            return function(*arguments, **options)

        parameters = [parameter for parameter in own if parameter.kind is not parameter.VAR_KEYWORD]
        for name in names:
            default = None if name == "npu" else asking.default(name)
            parameters.append(inspect.Parameter(name, _KIND, default=default, annotation=annotation_of(name)))
        parameters.sort(key=lambda parameter: parameter.kind)
        result = inspect.signature(function).return_annotation
        vars(ask)["__signature__"] = inspect.Signature(parameters, return_annotation=result)
        if function.__doc__:
            ask.__doc__ = function.__doc__.replace(_PLACE, "\n        ".join(_help(asking, names)).lstrip())
        return ask  # type: ignore[return-value]

    return decorate


def annotation_of(name: str) -> str:
    """Return the type of the keyword of a field, as it is written."""
    how, written = OPTIONS[name], ANNOTATIONS[name]
    if how.many:
        return "str | Sequence[str]"
    if how.content and how.in_python:
        return "Inputs | None"
    if how.kind is Path:
        return "str | os.PathLike[str] | None"
    if how.parse is not None:
        return f"{how.kind.__name__} | str | None"
    return "str | None" if name == "npu" else written


def _help(asking: Asking, names: Sequence[str]) -> Iterator[str]:
    for name in names:
        how = asking.option(name)
        default = f"By default {how.otherwise}." if how.otherwise else ""
        text = " ".join(filter(None, (f"{name}:", how.help, how.in_python, default)))
        yield from textwrap.wrap(text, _WIDTH, subsequent_indent="    ")


_INPUTS_HINT = "give a tensor, a tuple of tensors (one input set), a list of tuples (several), or the path of an .npz"

_EXPECTED_HINT = "give an array, a tuple of arrays (one for each output), a list of these, or the path of an .npz"


@asks_by_keyword(API)
def run(model: Model, inputs: Inputs | None = None, *, progress: Reporter | None = None, **options: Any) -> Result:
    """Lower a model, run it on a target, and compare every output with tosa_reference_model.

    Args:
        model: a float torch.nn.Module, a module quantised with PT2E, a torch.export.ExportedProgram, or the name of a
            model as on the command line: "file.py:function", "package.module:function", a .pt2, a .pte or a .bpte.
        inputs: a tensor or an array; a tuple of these, one for each positional argument of forward; a list of such
            tuples, to run several input sets in one boot; a dictionary of keyword arguments; or the path of an .npz.
            Among them may be None, numbers, and lists and dictionaries of tensors. A module in memory needs inputs (it
            is exported with the first set); other models have their own example inputs.
        progress: receives the progress, for example `ethos_hil.harness.terminal.progress.Live()`.
        {options}

    Returns:
        The result. A wrong answer is not raised: `Result.verdict` reports it, and `Result.assert_verified` raises it.
        Where nothing says what is right, the verdict is `Verdict.UNVERIFIED`, and `assert_verified` raises that.

    Raises:
        UsageError: the arguments or the model cannot be used; CompileError when the model cannot be lowered.
        ToolError: a tool or the target is not available.
        TargetError: the run on the target failed, or less is on the NPU than was demanded (kind "delegation").
        OracleError: there is no reference to compare with.
    """
    from ethos_hil.harness.run import run as run_question

    return Result(run_question(_question(model, inputs, options), reporter=progress))


@asks_by_keyword(PROFILE)
def profile(model: Model, inputs: Inputs | None = None, *, progress: Reporter | None = None, **options: Any) -> Result:
    """Run a model, and account for every cycle: NPU operations, transfers, operators on the CPU (docs/profiles.md).

    Args:
        model, inputs, progress: as for `run`.
        {options}

    Returns:
        The result. Its `record` has the rows (`ops`) with their cycles, and in `profile` why they take them, the rows
        of the CPU, the timeline, the buffers in memory and the data flow.

    Raises:
        UsageError: the target cannot do it, no event has such a name, or as for `run`, which may raise more.
        TargetError: kind "profile": the target's counts contradict one another.
    """
    return run(model, inputs, progress=progress, profile=True, **options)


@asks_by_keyword(API_LOWER)
def lower(model: Model, inputs: Inputs | None = None, **options: Any) -> Artifact:
    """Lower a model without running it.

    Args:
        model, inputs: as for `run`.
        {options}

    Returns:
        The artifact: `pte`, `delegates` with their TOSA and Vela blobs, `npu_ops` with their source lines, `cpu_ops`,
            and `placement`, which says why they are on the CPU. It comes from the cache if the same model was lowered
            before.

    Raises:
        UsageError, ToolError: as `run`.
    """
    from ethos_hil.harness.ask.lower_question import lower_question

    return lower_question(_question(model, inputs, options)).artifact


@asks_by_keyword(PREFLIGHT)
def preflight(model: Model, inputs: Inputs | None = None, **options: Any) -> Survey:
    """Check whether a model can run on a target, without running it.

    Args:
        model, inputs: as for `run`.
        {options}

    Returns:
        The checks, and the operators on the CPU with their reasons; `Survey.ok` is True if all checks passed.

    Raises:
        UsageError, ToolError: as `run`.
    """
    from ethos_hil.harness.dry_run.survey import survey

    return survey(_question(model, inputs, options))


@asks_by_keyword(EVALUATE)
def evaluate(
    model: Model,
    data: Any,
    inputs: Inputs | None = None,
    *,
    metric: str | Callable[[tuple[np.ndarray, ...], Any], float] | None = None,
    limit: int | None = None,
    jobs: int | None = None,
    progress: Reporter | None = None,
    **options: Any,
) -> Evaluation:
    """Score a model on a data set: in float and quantised in PyTorch, and on the device, each answer checked.

    Args:
        model, inputs, progress: as for `run`.
        data: pairs of inputs and label: a torch Dataset, a list or a generator; or "file.py:function", which returns
            one.
        metric: "top1", "top5", "mae", a function of a tuple of outputs and a label, or "file.py:function"; by default
            top1 for whole numbers as labels, else mae.
        limit: items at most.
        jobs: virtual boards at a time; by default one for each processor. Their processes import the main module, so a
            script has `if __name__ == "__main__":` around its calls.
        {options}

    Returns:
        The evaluation. An error that comes after the first item does not lose what was done: `Evaluation.stopped` has
            it, and `Evaluation.verified` is False.

    Raises:
        UsageError, ToolError, TargetError: as `run`, before the first item.
    """
    from ethos_hil.harness.evaluate.dataset import DataSet
    from ethos_hil.harness.evaluate.evaluation import EvaluationOrder
    from ethos_hil.harness.evaluate.evaluation import evaluate as evaluate_order
    from ethos_hil.harness.evaluate.metric import ItemMetric

    chosen = ItemMetric(getattr(metric, "__name__", "a function"), metric) if callable(metric) else metric
    question, data_set = _question(model, inputs, options), data if isinstance(data, str) else DataSet.of(data)
    return evaluate_order(EvaluationOrder(question, data_set, chosen, limit, jobs), progress)


class OpenTarget:
    """A target that stays up between runs. `target` makes one."""

    def __init__(self, name: str, npu: str, pool: BoardPool | None, **options: Any) -> None:
        self.name = name
        self.npu = npu
        self._pool = pool
        self._options = {"target": name, "npu": npu, **options}

    @asks_by_keyword(API_OPEN)
    def run(
        self, model: Model, inputs: Inputs | None = None, *, progress: Reporter | None = None, **options: Any
    ) -> Result:
        """Run a model on this target. Arguments and errors are those of `ethos_hil.run`."""
        from ethos_hil.harness.run import run as run_question

        question = _question(model, inputs, {**self._options, **options})
        return Result(run_question(question, reporter=progress, pool=self._pool))


@contextmanager
def target(
    name: str = DEFAULT_TARGET,
    *,
    npu: str | None = None,
    strict: bool = False,
    strict_board: bool = False,
    fast: bool = False,
) -> Iterator[OpenTarget]:
    """Return a target for many runs: a virtual board starts once and stays up between them.

        with ethos_hil.target(npu="ethos-u55-256") as board:
            for model, inputs in models:
                print(board.run(model, inputs))

    Args:
        name: name of the target.
        npu: NPU of the target; models are compiled for it. By default its only one, or ethos-u55-128.
        strict, strict_board, fast: as for `run`.

    Raises:
        UsageError: there is no such target, or it does not support this NPU.
        ToolError: the target is not available.
    """
    from ethos_hil.base.npu.ethos_u import EthosU
    from ethos_hil.harness.targets.base import Capability
    from ethos_hil.harness.targets.registry import make_target
    from ethos_hil.harness.virtual.board import BoardPool

    npu = npu_of(npu, name)
    rules: dict[str, Any] = {"strict": strict, "strict_board": strict_board, "fast": fast}
    board = make_target(name, EthosU.parse(npu), **rules)
    if Capability.STAYS_UP not in board.capabilities():
        yield OpenTarget(name, npu, None, **rules)
        return
    with BoardPool() as pool:
        yield OpenTarget(name, npu, pool, **rules)


def _question(model: Model, inputs: Inputs | None, options: dict[str, Any]) -> Question:
    """Return the question about a model in any form, with its inputs as arrays; `options` are its further fields."""
    data = None if inputs is None else Path(inputs) if isinstance(inputs, str | Path) else _input_sets(inputs)
    loaded = _load(model, None if isinstance(data, Path) else data)
    values = {name: _value(name, value) for name, value in options.items() if value is not None}
    values["inputs"] = data if data is None or isinstance(data, Path) else tuple(_arrays(entry) for entry in data)
    values["npu"] = npu_of(values.get("npu"), values.get("target", DEFAULT_TARGET))
    question = Question(loaded, **values)
    question.check()
    return question


def _value(name: str, value: Any) -> Any:
    """Return a field's value in the form that a question has it in. Raises UsageError where it has none."""
    how = OPTIONS[name]
    if how.many:
        values = (value,) if isinstance(value, str) else tuple(value)
        if not all(isinstance(item, str) for item in values):
            raise UsageError(f"{name} is {value!r}", hint=f"give a list of texts, such as {list(how.example)}")
        return values
    if name == "expected" and not isinstance(value, str | Path):
        return _expected_sets(value)
    if name == "calibrate" and not isinstance(value, str | Path):
        return [_tensors(entry) for entry in _input_sets(list(value))]
    if isinstance(value, str) and how.parse is not None:
        return how.parse(value, name)
    return how.kind(value) if how.kind is Path or isinstance(value, Path) else value


def _expected_sets(expected: Any) -> tuple[InputSet, ...]:
    sets = _input_sets(expected)
    for index, entry in enumerate(sets):
        for value in entry:
            if not isinstance(value, np.ndarray) and not hasattr(value, "detach"):
                raise UsageError(f"expected[{index}] has a {type(value).__name__}", hint=_EXPECTED_HINT)
    return tuple(_arrays(entry) for entry in sets)


def _load(model: Model, inputs: list[tuple[Any, ...]] | None) -> TorchModel | ProgramFile | str:
    """Return the model; a MODEL by name is loaded when it is lowered, if at all."""
    if isinstance(model, TorchModel | ProgramFile):
        return model
    if isinstance(model, str | Path):
        return str(model)
    import torch

    if isinstance(model, torch.export.ExportedProgram):
        return from_exported(model)
    if not isinstance(model, torch.nn.Module):
        raise UsageError(
            f"an object of type {type(model).__name__} is not a model",
            hint="give a torch.nn.Module, an ExportedProgram, file.py:function, a .pt2, a .pte or a .bpte",
        )
    if not inputs:
        raise UsageError(f"{type(model).__name__}: a module in memory needs inputs", hint=_INPUTS_HINT)
    sets = [_tensors(entry) for entry in inputs]
    label = type(model).__name__
    own = copy_module(model, label)  # lowering puts it into eval mode; the user's module must not change
    return from_module(own, sets[0], sets, label=label, root=_folder(type(model)))


def _folder(cls: type) -> Path | None:
    """Return the folder of the file that defines a module's class; source paths are relative to it. None without a
    file.
    """
    try:
        file = inspect.getsourcefile(cls)
    except (TypeError, OSError):  # OSError: of a class that was written in a notebook
        return None
    return None if file is None else Path(file).parent


def _input_sets(inputs: Any) -> list[Any]:
    """Return the input sets: a list has several, every other value is one."""
    if isinstance(inputs, list):
        if not inputs:
            raise UsageError("inputs is an empty list", hint=_INPUTS_HINT)
        return [entry if isinstance(entry, tuple | Mapping) else (entry,) for entry in inputs]
    return [inputs if isinstance(inputs, tuple | Mapping) else (inputs,)]


def _tensors(entry: Any) -> Any:
    """Return an input set with tensors in the place of arrays."""
    import torch

    for index, value in enumerate(trees.flatten(entry)[0]):
        if not isinstance(value, (torch.Tensor, np.ndarray, *CONSTANTS)):
            raise UsageError(f"input {index} is a {type(value).__name__}", hint=_INPUTS_HINT)
    return trees.replace_leaves(_tensor, entry)


def _tensor(value: Any) -> Any:
    import torch

    return torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value


def _arrays(entry: Any) -> InputSet:
    """Return the tensors and arrays of an input set, in the order in which a program takes them."""
    leaves = trees.flatten(entry)[0] if isinstance(entry, Mapping) or not all(map(_is_array, entry)) else entry
    values = (value for value in leaves if not isinstance(value, CONSTANTS))
    return tuple(value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value) for value in values)


def _is_array(value: Any) -> bool:
    return hasattr(value, "detach") or isinstance(value, np.ndarray)
