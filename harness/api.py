"""The functions that `ethos_hil` offers. The command line uses the same `RunRequest`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ethos_hil.base.errors import UsageError
from ethos_hil.harness.ask.asked_clock import asked_clock
from ethos_hil.harness.ask.default_npu import npu_of
from ethos_hil.harness.ask.quantisation_options import QuantisationOptions
from ethos_hil.harness.ask.request import DEFAULT_NPU, DEFAULT_TARGET, RunRequest
from ethos_hil.harness.image.delegation import Delegation
from ethos_hil.harness.image.inputs import InputSet
from ethos_hil.harness.profile.options import ProfileMethod, ProfileOptions
from ethos_hil.harness.profile.pmu import DEFAULT_EVENTS, event_numbers
from ethos_hil.harness.show.result import Result
from ethos_hil.harness.terminal.progress import Reporter
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.tosa_spec import Scheme
from ethos_hil.lowering.model.torch_model import ProgramFile, TorchModel, from_exported, from_module
from ethos_hil.lowering.user_code.module_copy import copied
from ethos_hil.lowering.vela.options import NOTHING_ASKED, VelaOptions

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    import torch

    from ethos_hil.harness.dry_run.survey import Survey
    from ethos_hil.harness.evaluate.evaluation import Evaluation
    from ethos_hil.harness.virtual.pool import BoardPool

    Model = str | os.PathLike[str] | torch.nn.Module | torch.export.ExportedProgram | TorchModel | ProgramFile
    Value = torch.Tensor | np.ndarray
    Inputs = Value | Sequence[Any] | os.PathLike[str] | str
    Calibration = Sequence[Any] | os.PathLike[str] | str
    Quantizer = Callable[[Any], Any]

_INPUTS_HINT = "give a tensor, a tuple of tensors (one input set), a list of tuples (several), or the path of an .npz"

_EXPECTED_HINT = "give an array, a tuple of arrays (one for each output), a list of these, or the path of an .npz"


def run(
    model: Model,
    inputs: Inputs | None = None,
    *,
    npu: str | None = None,
    target: str = DEFAULT_TARGET,
    calibrate: Calibration | None = None,
    memory_mode: str | None = None,
    vela: VelaOptions = NOTHING_ASKED,
    scheme: Scheme = "a8w8",
    int16: Sequence[str] = (),
    quantizer: str | Quantizer | None = None,
    method: str | None = None,
    repeat: int | None = None,
    timeout: float = 120.0,
    strict: bool = False,
    strict_board: bool = False,
    fast: bool = False,
    min_sqnr: float | None = None,
    expected: Inputs | None = None,
    atol: float = 0.0,
    rtol: float = 0.0,
    runner: str | os.PathLike[str] | None = None,
    trust_elf: bool = False,
    trust_model: bool = False,
    as_upstream: bool = False,
    leave: Sequence[str] = (),
    allow_cpu_only: bool = False,
    require_delegated: bool = False,
    max_cpu_ops: int | None = None,
    clock: str | None = None,
    profile: ProfileOptions | None = None,
    progress: Reporter | None = None,
) -> Result:
    """Lower a model, run it on a target, and compare every output with tosa_reference_model.

    Args:
        model: a float torch.nn.Module, a module quantised with PT2E, a torch.export.ExportedProgram, or the name of a
            model as on the command line: "file.py:function", "package.module:function", a .pt2, a .pte or a .bpte.
        inputs: a tensor or an array; a tuple of these, one for each positional argument of forward; a list of such
            tuples, to run several input sets in one boot; or the path of an .npz. A module in memory needs inputs (it
            is exported with the first set); other models have their own example inputs.
        npu: NPU to compile for and run on, e.g. "ethos-u55-256"; by default the only one of the
            target, or ethos-u55-128.
        target: name of the target; `ethos-hil run --help` lists the names.
        calibrate: input sets to calibrate the quantisation with, or the path of an .npz of them, or "file.py:function"
            which returns them; by default those in `inputs`, or the model's own.
        memory_mode: "Shared_Sram", "Sram_Only" or "Dedicated_Sram"; by default ExecuTorch's for the NPU.
        vela: what Vela is asked beyond that, such as VelaOptions(optimise="Size").
        scheme: "a8w8", or "a16w8" for activations in 16 bits.
        int16: names of modules ("head", "blocks.3") whose activations have 16 bits where the others have 8.
        quantizer: a function that takes upstream's compile spec and returns a configured quantizer, such as an
            EthosUQuantizer, or "file.py:function" of one; it decides all bits.
        method: the method to run; by default forward, or the first.
        repeat: executions of each input set; by default what the model asks for (`Method.repeat`), usually 1.
        timeout: wall seconds for the run on the target.
        strict: fail where the NPU's command stream lacks a wait, even if the answer is right.
        strict_board: fail where the program does what a real board may not forgive; TargetError of kind "board-rule".
        fast: let an FVP leave out the NPU's timing.
        min_sqnr: fail where the SQNR of an output against the float model in PyTorch is below this number of dB.
        expected: the outputs that are right, in the forms of `inputs`: one set for each input set. They are compared
            too; for a .pte that was not lowered here nothing else says what is right.
        atol, rtol: how far a float may be from what is expected: `atol` + `rtol` times the expected value's size.
        runner: the ELF of an arm_executor_runner, to run in place of our firmware.
        trust_elf: let that ELF reach every file that you reach, and run commands; by default it reaches a folder of its
            own.
        trust_model: load a .pt2 that has more than data in it; such a file can run any code on this machine.
        as_upstream: repair none of Vela's known defects (docs/defects): the program is what ExecuTorch alone makes.
        leave: what is left to the CPU: operators ("aten.sigmoid"), lines ("net.py:12") or modules ("head.0").
        allow_cpu_only: accept a program of which nothing is on the NPU.
        require_delegated: fail if an operator is on the CPU; conversions between numbers and integers may be.
        max_cpu_ops: fail if more operators are on the CPU.
        clock: the clock to make times with: "400MHz", "500MHz/1GHz" for NPU and CPU, or a part's name
            (docs/latency.md); by default that of the system configuration.
        profile: as `ethos_hil.profile` makes it.
        progress: receives the progress, for example `ethos_hil.harness.terminal.progress.Live()`.

    Returns:
        The result. A wrong answer is not raised: `Result.verdict` reports it, and `Result.assert_verified` raises it.
        Where nothing says what is right, the verdict is `Verdict.UNVERIFIED`, and `assert_verified` raises that.

    Raises:
        UsageError: the arguments or the model cannot be used; CompileError when the model cannot be lowered.
        ToolError: a tool or the target is not available.
        TargetError: the run on the target failed, or less is on the NPU than was demanded (kind "delegation").
        OracleError: there is no reference to compare with.
    """
    from ethos_hil.harness.run import run as run_request

    request = _request(
        model,
        inputs,
        calibrate,
        int16=int16,
        quantizer=quantizer,
        trust_model=trust_model,
        npu=npu_of(npu, target),
        memory_mode=memory_mode,
        vela=vela,
        scheme=scheme,
        method=method,
        leave=_texts(leave),
        delegation=Delegation(allow_cpu_only, require_delegated, max_cpu_ops),
        clock=asked_clock(clock),
        target=target,
        repeat=repeat,
        timeout=timeout,
        strict=strict,
        strict_board=strict_board,
        fast=fast,
        min_sqnr=min_sqnr,
        as_upstream=as_upstream,
        expected=_expected(expected),
        atol=atol,
        rtol=rtol,
        runner=None if runner is None else Path(runner),
        trust_elf=trust_elf,
        profile=profile,
    )
    return Result(run_request(request, reporter=progress))


def profile(
    model: Model,
    inputs: Inputs | None = None,
    *,
    found_by: str | None = None,
    events: Sequence[str] = DEFAULT_EVENTS,
    **options: Any,
) -> Result:
    """Run a model, and account for every cycle: NPU operations, transfers, operators on the CPU (docs/profiles.md).

    Args:
        model, inputs: as for `run`.
        found_by: how the cycles of an operation are found: "shares", "prefix" or "trace"; by default what suits the
            target.
        events: names of PMU events to count for each row, with "prefix".
        options: further arguments of `run`, such as npu, target and repeat.

    Returns:
        The result. Its `record` has the rows (`ops`) with their cycles, and in `profile` why they take them, the rows
        of the CPU, the timeline, the buffers in memory and the data flow.

    Raises:
        UsageError: the target cannot do it, no event has such a name, or as for `run`, which may raise more.
        TargetError: kind "profile": the target's counts contradict one another.
    """
    words = [str(each) for each in ProfileMethod]
    if found_by is not None and found_by not in words:
        raise UsageError(f"no way to find cycles is called {found_by!r}", hint=f"there are {', '.join(words)}")
    event_numbers(events)  # wrong ones are said before anything is lowered
    asked = ProfileOptions(None if found_by is None else ProfileMethod(found_by), tuple(events))
    return run(model, inputs, profile=asked, **options)


def lower(
    model: Model,
    inputs: Inputs | None = None,
    *,
    npu: str = DEFAULT_NPU,
    calibrate: Calibration | None = None,
    memory_mode: str | None = None,
    vela: VelaOptions = NOTHING_ASKED,
    scheme: Scheme = "a8w8",
    int16: Sequence[str] = (),
    quantizer: str | Quantizer | None = None,
    trust_model: bool = False,
    as_upstream: bool = False,
    leave: Sequence[str] = (),
) -> Artifact:
    """Lower a model without running it.

    Args:
        model, inputs, npu, calibrate, memory_mode, vela, scheme, int16, quantizer, trust_model, as_upstream, leave: as
            for `run`.

    Returns:
        The artifact: `pte`, `delegates` with their TOSA and Vela blobs, `npu_ops` with their source lines, `cpu_ops`,
            and `placement`, which says why they are on the CPU. It comes from the cache if the same model was lowered
            before.

    Raises:
        UsageError, ToolError: as `run`.
    """
    from ethos_hil.harness.ask.lowered_request import lowered_request

    request = _request(
        model,
        inputs,
        calibrate,
        int16=int16,
        quantizer=quantizer,
        trust_model=trust_model,
        npu=npu,
        memory_mode=memory_mode,
        vela=vela,
        scheme=scheme,
        as_upstream=as_upstream,
        leave=_texts(leave),
    )
    return lowered_request(request).artifact


def preflight(
    model: Model,
    inputs: Inputs | None = None,
    *,
    npu: str | None = None,
    target: str = DEFAULT_TARGET,
    calibrate: Calibration | None = None,
    memory_mode: str | None = None,
    vela: VelaOptions = NOTHING_ASKED,
    scheme: Scheme = "a8w8",
    int16: Sequence[str] = (),
    quantizer: str | Quantizer | None = None,
    method: str | None = None,
    trust_model: bool = False,
    as_upstream: bool = False,
    leave: Sequence[str] = (),
    allow_cpu_only: bool = False,
    require_delegated: bool = False,
    max_cpu_ops: int | None = None,
) -> Survey:
    """Check whether a model can run on a target, without running it.

    Args:
        model, inputs, npu, target, calibrate, memory_mode, vela, scheme, int16, quantizer, method, trust_model,
            as_upstream, leave, allow_cpu_only, require_delegated, max_cpu_ops: as for `run`.

    Returns:
        The checks, and the operators on the CPU with their reasons; `Survey.ok` is True if all checks passed.

    Raises:
        UsageError, ToolError: as `run`.
    """
    from ethos_hil.harness.dry_run.survey import survey

    request = _request(
        model,
        inputs,
        calibrate,
        int16=int16,
        quantizer=quantizer,
        trust_model=trust_model,
        npu=npu_of(npu, target),
        memory_mode=memory_mode,
        vela=vela,
        scheme=scheme,
        method=method,
        target=target,
        as_upstream=as_upstream,
        leave=_texts(leave),
        delegation=Delegation(allow_cpu_only, require_delegated, max_cpu_ops),
    )
    return survey(request)


def evaluate(
    model: Model,
    data: Any,
    inputs: Inputs | None = None,
    *,
    npu: str | None = None,
    target: str = DEFAULT_TARGET,
    metric: str | Callable[[tuple[np.ndarray, ...], Any], float] | None = None,
    limit: int | None = None,
    jobs: int | None = None,
    try_int16: int = 0,
    calibrate: Calibration | None = None,
    memory_mode: str | None = None,
    vela: VelaOptions = NOTHING_ASKED,
    scheme: Scheme = "a8w8",
    int16: Sequence[str] = (),
    quantizer: str | Quantizer | None = None,
    method: str | None = None,
    timeout: float = 120.0,
    trust_model: bool = False,
    as_upstream: bool = False,
    leave: Sequence[str] = (),
    progress: Reporter | None = None,
) -> Evaluation:
    """Score a model on a data set: in float and quantised in PyTorch, and on the device, each answer checked.

    Args:
        model: as for `run`; so are the arguments that are not explained here.
        data: pairs of inputs and label: a torch Dataset, a list or a generator; or "file.py:function", which returns
            one.
        metric: "top1", "top5", "mae", a function of a tuple of outputs and a label, or "file.py:function"; by default
            top1 for whole numbers as labels, else mae.
        limit: items at most.
        jobs: virtual boards at a time; by default one for each processor. Their processes import the main module, so a
            script has `if __name__ == "__main__":` around its calls.
        try_int16: for how many modules, the worst first, to say what 16 bits in them would give.
        timeout: wall seconds for one boot with up to 64 items.
        progress: receives the progress.

    Returns:
        The evaluation. An error that comes after the first item does not lose what was done: `Evaluation.stopped` has
            it, and `Evaluation.verified` is False.

    Raises:
        UsageError, ToolError, TargetError: as `run`, before the first item.
    """
    from ethos_hil.harness.evaluate.dataset import DataSet
    from ethos_hil.harness.evaluate.evaluation import EvaluationRequest
    from ethos_hil.harness.evaluate.evaluation import evaluate as evaluate_request
    from ethos_hil.harness.evaluate.metric import ItemMetric

    request = _request(
        model,
        inputs,
        calibrate,
        int16=int16,
        quantizer=quantizer,
        trust_model=trust_model,
        npu=npu_of(npu, target),
        memory_mode=memory_mode,
        vela=vela,
        scheme=scheme,
        method=method,
        target=target,
        timeout=timeout,
        as_upstream=as_upstream,
        leave=_texts(leave),
    )
    chosen = ItemMetric(getattr(metric, "__name__", "a function"), metric) if callable(metric) else metric
    given = data if isinstance(data, str) else DataSet.of(data)
    return evaluate_request(EvaluationRequest(request, given, chosen, limit, jobs, try_int16), progress)


class OpenTarget:
    """A target that stays up between runs. `target` makes one."""

    def __init__(
        self, name: str, npu: str, pool: BoardPool | None, *, strict: bool, strict_board: bool, fast: bool
    ) -> None:
        self.name = name
        self.npu = npu
        self._pool = pool
        self._options: dict[str, Any] = {"strict": strict, "strict_board": strict_board, "fast": fast}

    def run(
        self,
        model: Model,
        inputs: Inputs | None = None,
        *,
        calibrate: Calibration | None = None,
        memory_mode: str | None = None,
        vela: VelaOptions = NOTHING_ASKED,
        scheme: Scheme = "a8w8",
        int16: Sequence[str] = (),
        quantizer: str | Quantizer | None = None,
        method: str | None = None,
        repeat: int | None = None,
        timeout: float = 120.0,
        trust_model: bool = False,
        as_upstream: bool = False,
        min_sqnr: float | None = None,
        leave: Sequence[str] = (),
        allow_cpu_only: bool = False,
        require_delegated: bool = False,
        max_cpu_ops: int | None = None,
        expected: Inputs | None = None,
        atol: float = 0.0,
        rtol: float = 0.0,
        progress: Reporter | None = None,
    ) -> Result:
        """Run a model on this target. Arguments and errors are those of `ethos_hil.run`."""
        from ethos_hil.harness.run import run as run_request

        request = _request(
            model,
            inputs,
            calibrate,
            int16=int16,
            quantizer=quantizer,
            trust_model=trust_model,
            npu=self.npu,
            memory_mode=memory_mode,
            vela=vela,
            scheme=scheme,
            method=method,
            target=self.name,
            repeat=repeat,
            timeout=timeout,
            min_sqnr=min_sqnr,
            as_upstream=as_upstream,
            leave=_texts(leave),
            delegation=Delegation(allow_cpu_only, require_delegated, max_cpu_ops),
            expected=_expected(expected),
            atol=atol,
            rtol=rtol,
            **self._options,
        )
        return Result(run_request(request, reporter=progress, pool=self._pool))


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
    from ethos_hil.base.npu_name import NpuName
    from ethos_hil.harness.targets.base import Capability
    from ethos_hil.harness.targets.registry import make_target
    from ethos_hil.harness.virtual.pool import BoardPool

    npu = npu_of(npu, name)
    board = make_target(name, NpuName.parse(npu), strict=strict, strict_board=strict_board, fast=fast)
    if Capability.STAYS_UP not in board.capabilities():
        yield OpenTarget(name, npu, None, strict=strict, strict_board=strict_board, fast=fast)
        return
    with BoardPool() as pool:
        yield OpenTarget(name, npu, pool, strict=strict, strict_board=strict_board, fast=fast)


def _texts(leave: Sequence[str]) -> tuple[str, ...]:
    """Return what is left to the CPU; one text stands for a list with that one."""
    return (leave,) if isinstance(leave, str) else tuple(leave)


def _request(
    model: Model,
    inputs: Inputs | None,
    calibrate: Calibration | None,
    *,
    int16: Sequence[str],
    quantizer: str | Quantizer | None,
    **options: Any,
) -> RunRequest:
    """Return the request for a model in any form, with its inputs as arrays; `options` are further fields of it."""
    given: Path | list[tuple[Any, ...]] | None
    given = Path(inputs) if isinstance(inputs, str | Path) else None if inputs is None else _input_sets(inputs)
    loaded = _loaded(model, None if isinstance(given, Path) else given)
    chosen = QuantisationOptions(_calibration(calibrate), _names(int16), quantizer)
    chosen.check_files()
    arrays = given if isinstance(given, Path) or given is None else tuple(_arrays(entry) for entry in given)
    return RunRequest(loaded, inputs=arrays, quantisation=chosen, **options)


def _expected(expected: Inputs | None) -> Path | tuple[InputSet, ...] | None:
    if expected is None or isinstance(expected, str | Path):
        return None if expected is None else Path(expected)
    sets = _input_sets(expected)
    for index, entry in enumerate(sets):
        for value in entry:
            if not isinstance(value, np.ndarray) and not hasattr(value, "detach"):
                raise UsageError(f"expected[{index}] has a {type(value).__name__}", hint=_EXPECTED_HINT)
    return tuple(_arrays(entry) for entry in sets)


def _loaded(model: Model, inputs: list[tuple[Any, ...]] | None) -> TorchModel | ProgramFile | str:
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
    own = copied(model, label)  # lowering puts it into eval mode; the user's module must not change
    return from_module(own, sets[0], sets, label=label, root=_folder(type(model)))


def _calibration(calibrate: Calibration | None) -> str | list[tuple[torch.Tensor, ...]] | None:
    if calibrate is None or isinstance(calibrate, str | Path):
        return None if calibrate is None else str(calibrate)
    return [_tensors(entry) for entry in _input_sets(list(calibrate))]  # type: ignore[arg-type]


def _names(int16: Sequence[str]) -> tuple[str, ...]:
    if isinstance(int16, str) or not all(isinstance(name, str) for name in int16):
        raise UsageError(f"int16 is {int16!r}", hint='give a list of names of modules, such as ["head"]')
    return tuple(int16)


def _folder(cls: type) -> Path | None:
    """Return the folder of the file that defines a module's class; source paths are relative to it. None without a
    file.
    """
    try:
        file = inspect.getsourcefile(cls)
    except (TypeError, OSError):  # OSError: of a class that was written in a notebook
        return None
    return None if file is None else Path(file).parent


def _input_sets(inputs: Any) -> list[tuple[Any, ...]]:
    """Return the input sets: a list has several, every other value is one."""
    if isinstance(inputs, list):
        if not inputs:
            raise UsageError("inputs is an empty list", hint=_INPUTS_HINT)
        return [entry if isinstance(entry, tuple) else (entry,) for entry in inputs]
    return [inputs if isinstance(inputs, tuple) else (inputs,)]


def _tensors(entry: tuple[Any, ...]) -> tuple[torch.Tensor, ...]:
    import torch

    for index, value in enumerate(entry):
        if not isinstance(value, torch.Tensor | np.ndarray):
            raise UsageError(f"input {index} is a {type(value).__name__}", hint=_INPUTS_HINT)
    return tuple(value if isinstance(value, torch.Tensor) else torch.from_numpy(value.copy()) for value in entry)


def _arrays(entry: tuple[Any, ...]) -> InputSet:
    return tuple(value.detach().cpu().numpy() if hasattr(value, "detach") else np.asarray(value) for value in entry)
