"""The points of one case: its model is built, lowered once for each TOSA program, and compiled for every point.

torch is imported when a case's model is built.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from ethos_hil.base.errors import CompileError, EthosHilError, ToolError, UsageError, raise_if_interrupted, unforeseen
from ethos_hil.base.judge import Findings
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.record import Record
from ethos_hil.harness.ask.lower_question import lower_question
from ethos_hil.harness.bench.case import BenchCase, BenchPoint, BenchStep
from ethos_hil.harness.bench.point_findings import booted_findings, timed_findings
from ethos_hil.harness.bench.points import PointSettings, refusal, refusal_of, refuse
from ethos_hil.harness.bench.recompile import RecompilationDeparts, recompile_for, shares_tosa
from ethos_hil.harness.image.preflight import PreflightFailed
from ethos_hil.harness.npu.isa.fault import Fault
from ethos_hil.harness.targets.plugin import TargetPlugin
from ethos_hil.harness.targets.registry import check_npu, find_plugin
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import TorchModel, from_module, load_model
from ethos_hil.lowering.user_code.user_function import summary
from ethos_hil.lowering.vela.ini import VelaIni
from ethos_hil.lowering.vela.options import VelaSetup
from ethos_hil.results.latency import asked_clock, with_latency

if TYPE_CHECKING:
    from torch import nn

    from ethos_hil.harness.virtual.board import BoardPool
    from ethos_hil.lowering.model.torch_model import TorchModel

_OF_A_LIST = ("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack")
"""Functions of torch that take their tensors as one list."""


class CaseWork:
    """What is known of a case while its points are made."""

    def __init__(self, case: BenchCase, settings: PointSettings, pool: BoardPool) -> None:
        """Make nothing yet.

        Args:
            case: the case.
            settings: of the run.
            pool: where boards wait.
        """
        self._case = case
        self._settings = settings
        self._clock = asked_clock(settings.clock)
        self._pool = pool
        self._lowered: list[Artifact] = []
        self._notes: tuple[str, ...] = ()

    def records(self, points: Sequence[BenchPoint]) -> Iterator[Record]:
        """Yield the record of each point, in order, whatever happens to it."""
        for point in points:
            try:
                findings = self._findings(point)
                findings = replace(findings, facts=with_latency(findings.facts, self._clock))
            except Fault as fault:
                findings = refuse(point, self._settings, EthosHilError(fault.message, kind=fault.kind))
            except (Exception, SystemExit) as error:
                findings = refuse(point, self._settings, unforeseen(error))
            yield findings.record

    def _findings(self, point: BenchPoint) -> Findings:
        plugin = _target_of(point, self._settings)
        impossible = refusal_of(point, self._settings) or refusal(lambda: check_npu(plugin, EthosU.parse(point.npu)))
        if impossible is not None:
            return refuse(point, self._settings, impossible, impossible=True)
        setup = self._settings.setup(point)
        virtual = plugin.kind == "virtual"
        notes: tuple[str, ...] = ()
        if self._settings.boots(self._case, virtual=virtual):
            try:
                return booted_findings(point, self._settings, self._to_boot(setup), self._pool)
            except PreflightFailed as error:
                if not virtual:
                    raise
                notes = (f"not booted, only timed: {error.message}",)
        artifact = self._compile(setup)
        return timed_findings(point, self._settings, artifact, (*self._notes, *notes))

    def _to_boot(self, setup: VelaSetup) -> Artifact | None:
        """Return the artifact to boot; None for a MODEL, which is run as `ethos-hil run` does."""
        return None if self._case.model else self._lower_for(setup)

    def _compile(self, setup: VelaSetup) -> Artifact:
        """Return the case compiled for a setup: from a TOSA program that is there, else lowered."""
        for known in self._lowered:
            if known.npu is None or not shares_tosa(known.npu, setup.npu):
                continue
            try:
                return recompile_for(known, setup)
            except RecompilationDeparts:
                continue
            except CompileError:  # lowering says where in the model, and may find another way
                break
        artifact = self._lower_for(setup)
        self._lowered.append(artifact)
        return artifact

    def _lower_for(self, setup: VelaSetup) -> Artifact:
        if not self._case.model:
            return lower(self._model, setup.npu, vela=setup, scheme=self._case.scheme)
        question = Question(self._case.model, npu=str(setup.npu), scheme=self._case.scheme)
        lowering = lower_question(question, vela=setup)
        self._notes = lowering.notes_for(lowering.artifact.method)
        return lowering.artifact

    @property
    def _model(self) -> TorchModel:
        """The case's model. Raises UsageError, each time the same one."""
        if isinstance(self._built, EthosHilError):
            raise self._built
        return self._built

    @cached_property
    def _built(self) -> TorchModel | EthosHilError:
        """The case's model, or why there is none."""
        try:
            return case_model(self._case)
        except EthosHilError as error:
            return error


def _target_of(point: BenchPoint, settings: PointSettings) -> TargetPlugin:
    """Return a point's target.

    Raises:
        ToolError: its file, or the file of Vela's configuration, was there when the run started and is missing now.
    """
    try:
        if settings.vela_ini is not None:
            VelaIni.read(settings.vela_ini)
        return find_plugin(point.target)
    except UsageError as error:
        raise ToolError(error.message, hint=error.hint) from error


def case_model(case: BenchCase) -> TorchModel:
    """Return the model of a case. Its random values come from its name.

    Raises:
        UsageError: torch has no layer or function of that name, it cannot be made or called like that, or the
            model is not one; the message names the case and its line.
    """
    try:
        return _loaded_model(case) if case.model else _steps(case)
    except EthosHilError as error:
        raise UsageError(f"{case.source}: case {case.name}: {error.message}", hint=error.hint) from error


def _loaded_model(case: BenchCase) -> TorchModel:
    loaded = load_model(case.model)
    if not isinstance(loaded, TorchModel):
        raise UsageError(f"{case.model} is a compiled program", hint="name a function or a .pt2, which can be compiled")
    return loaded


def _steps(case: BenchCase) -> TorchModel:
    import torch

    from ethos_hil.harness.declared.modules import Chain, random_inputs, seed

    seed(case.name)
    modules = [_module(step) for step in case.steps]
    module = modules[0] if len(modules) == 1 else Chain(modules)
    try:
        example, calibration = random_inputs(case.inputs)
        with torch.no_grad():
            module.eval()(*example)
    except Exception as error:
        raise_if_interrupted(error)
        shapes = ", ".join(str(list(tensor.shape)) for tensor in case.inputs)
        raise UsageError(f"its steps cannot be computed: {summary(error)}", hint=f"the inputs are {shapes}") from error
    return from_module(module, example, calibration, label=case.name)


def _module(step: BenchStep) -> nn.Module:
    from ethos_hil.harness.declared.modules import Function, new_layer, tensor_function

    if step.layer:
        try:
            return new_layer(step.layer, step.args, step.options)
        except EthosHilError:
            raise
        except Exception as error:
            raise_if_interrupted(error)
            raise UsageError(
                f"torch.nn.{step.layer} cannot be made with these arguments: {summary(error)}",
                hint=f"args are {list(step.args)}, options are {dict(step.options)}",
            ) from error
    function = tensor_function(step.call)
    if step.call in _OF_A_LIST:
        return Function(lambda *inputs, **options: function(inputs, **options), **step.options)
    return Function(function, **step.options)
