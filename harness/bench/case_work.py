"""The points of one case: its model is built, lowered once for each TOSA program, and compiled for every point.

torch is imported when a case's model is built.

The same model for another NPU, memory mode or system, without lowering it again.

ExecuTorch makes one TOSA program for all Ethos-U55 and U65, and another one for all Ethos-U85: NPU, memory mode and
system are Vela's business alone. So a model that is lowered once is compiled for the others from its frozen TOSA, in
Vela's process, in hundredths of a second. The command streams, weights and rows are those that lowering gives; a test
compares them. There is no .pte with them: what boots is lowered.

What is known of a point: of one that is compiled and timed, and of one that is booted.

A point that is not booted has what the timing model says of its command streams. The numbers are those of `ethos-hil
profile` on the virtual target, to the cycle: both take the operations of one stream, the memories of one system, and
one timing model. Nothing is executed, so nothing is verified. A point that is booted runs with a profile, and every
output is compared with its reference.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from ethos_hil.base import environment
from ethos_hil.base.errors import CompileError, EthosHilError, ToolError, UsageError, raise_if_interrupted, unforeseen
from ethos_hil.base.inference_profile import InferenceProfile
from ethos_hil.base.judge import Evidence, Findings
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.question import Question
from ethos_hil.base.record import Metric, Op, Record, RunFacts, TargetInfo
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.ask.lower_question import lower_question
from ethos_hil.harness.bench.points import (
    BenchCase,
    BenchPoint,
    BenchStep,
    PointSettings,
    facts_of,
    refusal,
    refusal_of,
    refuse,
)
from ethos_hil.harness.image.firmware_elf import Firmware, find_firmware
from ethos_hil.harness.image.firmware_manifest import firmware_path
from ethos_hil.harness.image.footprint import Footprint, memory_mode
from ethos_hil.harness.image.formats import DeviceMemoryMode
from ethos_hil.harness.image.preflight import PreflightFailed
from ethos_hil.harness.link.outcome import DelegateRun, OpEvent, Run
from ethos_hil.harness.npu.isa.stream import Fault
from ethos_hil.harness.npu.timing.rules import timing_model_id
from ethos_hil.harness.profile.compiled import CompiledDelegate, costs, memories_behind, system_of
from ethos_hil.harness.profile.options import default_repeat
from ethos_hil.harness.run import run, run_artifact
from ethos_hil.harness.scan.compiled_version import map_rows
from ethos_hil.harness.socs.registry import find_soc
from ethos_hil.harness.targets.plugin import TargetPlugin
from ethos_hil.harness.targets.registry import check_npu, find_plugin, make_target
from ethos_hil.harness.verdict.artifact_info import info, versions_of
from ethos_hil.harness.verdict.metrics import attribute, estimated_rows
from ethos_hil.lowering.artifact import Artifact, Delegate
from ethos_hil.lowering.formats.tosa import without_locations
from ethos_hil.lowering.lower import lower
from ethos_hil.lowering.model.torch_model import TorchModel, from_module, load_model
from ethos_hil.lowering.repairs.defect import DefectFinding
from ethos_hil.lowering.repairs.mend import Mended, mend, mend_crash
from ethos_hil.lowering.user_code.user_function import summary
from ethos_hil.lowering.vela.compiler import DEBUG_FLAGS, VelaCrash, VelaRefusal, run_vela, with_ini
from ethos_hil.lowering.vela.ini import VelaIni
from ethos_hil.lowering.vela.options import VelaSetup
from ethos_hil.results.latency import asked_clock, with_latency

if TYPE_CHECKING:
    from torch import nn

    from ethos_hil.harness.virtual.board import BoardPool
    from ethos_hil.lowering.model.torch_model import TorchModel


MODELLED, VELA = "modelled", "vela"
_UNKNOWN = "its cycles depend on data, because a delegate has branches or loops; --boot runs it"
_MEMORIES: Mapping[str, str] = {
    "sram_memory_used": "vela_sram_used",
    "dram_memory_used": "vela_dram_used",
    "on_chip_flash_memory_used": "vela_on_chip_flash_used",
    "off_chip_flash_memory_used": "vela_off_chip_flash_used",
}
"""The name of a memory in Vela's summary, in KiB, and that of the metric, in bytes."""
_WEIGHTS: Mapping[str, str] = {
    "total_original_weights": "weights_bytes",
    "total_npu_encoded_weights": "weights_encoded_bytes",
}


def timed_findings(
    point: BenchPoint, settings: PointSettings, artifact: Artifact, notes: Sequence[str] = ()
) -> Findings:
    """Return what is known of a point that is timed.

    Args:
        point: the point.
        settings: of the run.
        artifact: compiled for it; its .pte is not looked at.
        notes: further sentences about it.

    Raises:
        UsageError: nothing of it is on the NPU.
        Fault: a command stream cannot be decoded.
    """
    check_delegated(artifact)
    npu, plugin, soc = EthosU.parse(point.npu), find_plugin(point.target), soc_of(point)
    footprint = Footprint.of(artifact)
    mode = memory_mode(artifact, footprint, _sram_of(soc))
    delegates = [CompiledDelegate.of(artifact, delegate, npu, mode) for delegate in artifact.delegates]
    ops, cycles = _time(artifact, delegates)
    system = system_of(artifact, npu)
    facts = RunFacts(
        **facts_of(point, settings),
        question=settings.question(point).for_record(),
        target=TargetInfo(plugin.name, plugin.kind, soc),
        metrics=(*cycles, *sizes(footprint), *vela_metrics(artifact)),
        ops=ops,
        # No .pte is written for it.
        artifact=replace(info(artifact), sha256="", pte_bytes=0),
        versions=versions_of(artifact),
        notes=(
            *artifact.notes,
            *notes,
            *_notes_of(artifact, mode, soc),
            *(() if cycles[0].name == "npu_cycles" else (_UNKNOWN,)),
        ),
        method=artifact.method,
        profile=InferenceProfile(
            clock_hz=system.core_clock,
            macs_per_cycle=npu.macs,
            costs={row: cost for delegate in delegates for row, cost in costs(delegate).items()},
            memories=memories_behind(artifact, delegates),
        ),
        created=environment.now(),
        clock_hz=system.core_clock,
        timing_model=timing_model_id(),
    )
    return Findings(facts, Evidence(compile_only=True))


def check_delegated(artifact: Artifact) -> None:
    """Raise UsageError, of kind "delegation", if nothing is on the NPU."""
    if artifact.delegates:
        return
    # An operator that only moves data stays on the CPU with the others; a reason of those says more.
    calls = sorted(
        (call for call in artifact.placement.calls if call.reason), key=lambda call: "only moves" in call.reason
    )
    why = f" ({calls[0].operator}: {calls[0].reason})" if calls else ""
    raise UsageError(f"nothing of it is on the NPU{why}", kind=FailureKind.DELEGATION)


def soc_of(point: BenchPoint) -> str:
    """Return the system on chip that a target is with a point's NPU: the first one that can have it."""
    socs = find_plugin(point.target).socs
    return next((name for name in socs if point.npu in find_soc(name).npu_names), socs[0])


def _sram_of(soc: str) -> int | None:
    """Return the bytes of SRAM that the firmware has for programs; all there are where it is missing: nothing boots."""
    if firmware_path(soc).is_file():
        return Firmware.read(find_firmware(soc)).sram
    chip = find_soc(soc)
    return next(memory.size for memory in chip.memories if memory.name == chip.firmware.pool)


def sizes(footprint: Footprint) -> tuple[Metric, ...]:
    """Return the memory that a program needs, as a device would report it."""
    memory = {
        "planned_bytes": sum(footprint.planned),
        "scratch_bytes": footprint.scratch,
        "fast_scratch_bytes": footprint.fast_scratch,
    }
    return tuple(Metric(name, value, "bytes", VELA) for name, value in memory.items())


def vela_metrics(artifact: Artifact) -> tuple[Metric, ...]:
    """Return the memories and the weights as Vela counts them, over all delegates."""
    sums: list[Metric] = []
    for names, scale in ((_MEMORIES, 1024), (_WEIGHTS, 1)):
        for key, name in names.items():
            values = [float(delegate.summary[key]) for delegate in artifact.delegates if key in delegate.summary]
            if values:
                sums.append(Metric(name, round(sum(values) * scale), "bytes", VELA))
    return tuple(sums)


def _time(artifact: Artifact, delegates: Sequence[CompiledDelegate]) -> tuple[tuple[Op, ...], tuple[Metric, ...]]:
    """Return the rows, and the cycles in total: modelled, where they do not depend on data, and Vela's estimate."""
    estimate = Metric("npu_cycles_estimate", sum(op.vela_cycles for op in artifact.npu_ops), "cycles", VELA)
    if any(delegate.program.has_branches for delegate in delegates):
        return estimated_rows(artifact), (estimate,)
    calls = tuple(map(_call_of, delegates))
    ops = attribute(artifact, Run(0, 0, (), calls), MODELLED)
    return ops, (Metric("npu_cycles", sum(call.cycles for call in calls), "cycles", MODELLED), estimate)


def _call_of(compiled: CompiledDelegate) -> DelegateRun:
    """Return the call of a delegate as a target reports it that sees operations."""
    timing = compiled.program.timing(compiled.ports, compiled.system)
    events = tuple(OpEvent(op.offset, op.name, op.cycles, op.begin, op.end) for op in timing.ops)
    delegate = compiled.delegate
    return DelegateRun(delegate.instruction, delegate.index, timing.cycles, (), (), events)


def _notes_of(artifact: Artifact, mode: DeviceMemoryMode, soc: str) -> tuple[str, ...]:
    asked = artifact.memory_mode
    if asked is None:
        return ()
    if DeviceMemoryMode[asked.kind.upper()] is mode:
        if mode is DeviceMemoryMode.SRAM_ONLY and not firmware_path(soc).is_file():
            return (f"there is no firmware of {soc} here, so all of its SRAM is taken to be free for the program",)
        return ()
    return (
        f"it is too large for the SRAM of {soc} in {asked}, so it is timed as it runs there: in {mode.name.title()}",
    )


def booted_findings(point: BenchPoint, settings: PointSettings, artifact: Artifact | None, pool: BoardPool) -> Findings:
    """Run a point. Return what is then known of it.

    Args:
        point: the point.
        settings: of the run.
        artifact: lowered for it; None for a case's MODEL, which is lowered, or found, as for `ethos-hil run`.
        pool: where boards wait.

    Raises:
        UsageError, ToolError, TargetError, OracleError: as `ethos_hil.harness.run.run`; or nothing is on the NPU.
    """
    npu = EthosU.parse(point.npu)
    board = make_target(point.target, npu, pool=pool)
    question = settings.question(point, repeat=settings.repeat or default_repeat(board))
    if artifact is None:
        report = run(question, pool=pool)
        check_delegated(report.artifact)
    else:
        check_delegated(artifact)
        report = run_artifact(artifact, board, question)
    names = {metric.name for metric in report.facts.metrics}
    further = tuple(metric for metric in vela_metrics(report.artifact) if metric.name not in names)
    return report.with_facts(metrics=(*report.facts.metrics, *further), **facts_of(point, settings))


class RecompilationDeparts(CompileError):
    """The frozen TOSA is not certain to be what lowering for that NPU makes; it has to be lowered."""


def shares_tosa(npu: EthosU, other: EthosU) -> bool:
    """Return whether ExecuTorch makes the same TOSA program for both (executorch 1.5.1, EthosUCompileSpec)."""
    return npu.family.tosa == other.family.tosa


def recompile_for(artifact: Artifact, setup: VelaSetup) -> Artifact:
    """Return the method that an artifact is seen from, compiled for another NPU, memory mode or system.

    The result has the delegates, rows, flags and summaries of lowering for `setup`. Its `pte` is still that of
    `artifact`, so it cannot be run or saved.

    Args:
        artifact: lowered for an NPU with the same TOSA (`shares_tosa`), with Vela's defects repaired.
        setup: what Vela is asked.

    Raises:
        RecompilationDeparts: only lowering can tell what the program for this NPU is.
        CompileError: Vela refuses the program, or another of its errors; lowering says where in the model.
    """
    if artifact.npu is None or not shares_tosa(artifact.npu, setup.npu):
        raise RecompilationDeparts(f"{artifact.model} was lowered for {artifact.npu}, whose TOSA is not {setup.npu}'s")
    flags = setup.flags
    with tempfile.TemporaryDirectory(prefix="ethos-hil-") as folder:
        arguments = [*with_ini(flags, setup.ini, Path(folder)), *DEBUG_FLAGS]
        new = [_compile(delegate, arguments, setup.npu) for delegate in artifact.delegates]
    delegates = _renumber(artifact.delegates, new)
    return replace(
        artifact,
        npu=setup.npu,
        memory_mode=setup.mode,
        vela_flags=flags,
        vela_ini=setup.ini.text if setup.user_ini else "",
        notes=tuple(dict.fromkeys((*artifact.notes, *setup.notes))),
        delegates=delegates,
        others=(),
    )


def _compile(old: Delegate, arguments: Sequence[str], npu: EthosU) -> Delegate:
    assert old.tosa is not None, "a delegate that was lowered here has its TOSA"
    done = _mend(old.tosa, arguments, npu)
    output = done.output
    rewritten = without_locations(output.tosa) if output.tosa != old.tosa else None
    if rewritten != old.compiled:  # the rows of the one say nothing of the operators of the other
        raise RecompilationDeparts(f"a defect of Vela is met on {npu} and not where the model was lowered for")
    try:
        rows = map_rows(output, old)
    except (LookupError, ValueError) as error:
        raise RecompilationDeparts(f"the rows for {npu} cannot be told: {error}") from error
    defects = tuple(dict.fromkeys(finding.defect.id for finding in done.findings))
    return replace(old, vela=output.blob, npu_ops=rows, summary=output.summary, compiled=rewritten, defects=defects)


def _mend(tosa: bytes, arguments: Sequence[str], npu: EthosU) -> Mended:
    """Compile a program, and repair Vela's known defects in it as lowering does."""

    def place(finding: DefectFinding) -> str:
        return f"TOSA's {finding.op}"

    try:
        output = run_vela(tosa, arguments)
    except (VelaCrash, VelaRefusal) as crash:
        return mend_crash(crash, tosa, arguments, npu.family, place)
    return mend(output, arguments, as_upstream=False, place=place)


def _renumber(old: Sequence[Delegate], new: Sequence[Delegate]) -> tuple[Delegate, ...]:
    """Return delegates whose rows are numbered through in the order in which the delegates were compiled."""
    order = sorted(range(len(new)), key=lambda at: min((row.id for row in old[at].npu_ops), default=""))
    numbered = list(new)
    following = 0
    for at in order:
        rows = new[at].npu_ops
        ops = tuple(replace(row, id=f"npu{number:05d}") for number, row in enumerate(rows, following))
        numbered[at] = replace(new[at], npu_ops=ops)
        following += len(rows)
    return tuple(numbered)


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
                lowered = None if self._case.model else self._lower_for(setup)  # a MODEL is run as `ethos-hil run` does
                return booted_findings(point, self._settings, lowered, self._pool)
            except PreflightFailed as error:
                if not virtual:
                    raise
                notes = (f"not booted, only timed: {error.message}",)
        artifact = self._compile(setup)
        return timed_findings(point, self._settings, artifact, (*self._notes, *notes))

    def _compile(self, setup: VelaSetup) -> Artifact:
        """Return the case compiled for a setup: from a TOSA program that is there, else lowered."""
        # A subject's own Vela compiles what it lowers.
        for known in self._lowered if not self._settings.subject else ():
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
        subject = self._settings.subject
        if not self._case.model and not subject:
            return lower(self._model, setup.npu, vela=setup, scheme=self._case.scheme)
        question = Question(
            self._case.model or self._model, npu=str(setup.npu), scheme=self._case.scheme, subject=subject,
            memory_mode=setup.mode.name, system_config=setup.system.name, vela_ini=self._settings.vela_ini,
        )  # fmt: skip
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
    """Return a point's target. Its file, and that of Vela's configuration, were there when the run started."""
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
