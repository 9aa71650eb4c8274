"""What is known of a point: of one that is compiled and timed, and of one that is booted.

A point that is not booted has what the timing model says of its command streams. The numbers are those of `ethos-hil
profile` on the virtual target, to the cycle: both take the operations of one stream, the memories of one system, and
one timing model. Nothing is executed, so nothing is verified. A point that is booted runs with a profile, and every
output is compared with its reference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from ethos_hil.base import environment
from ethos_hil.base.errors import UsageError
from ethos_hil.base.inference_profile import InferenceProfile
from ethos_hil.base.judge import Evidence, Findings
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.record import Metric, Op, RunFacts, TargetInfo
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.bench.case import BenchPoint
from ethos_hil.harness.bench.points import PointSettings, facts_of
from ethos_hil.harness.image.firmware_elf import Firmware, find_firmware
from ethos_hil.harness.image.firmware_manifest import firmware_path
from ethos_hil.harness.image.footprint import Footprint, memory_mode
from ethos_hil.harness.image.formats import DeviceMemoryMode
from ethos_hil.harness.link.outcome import DelegateRun, OpEvent, Run
from ethos_hil.harness.npu.timing.model_id import timing_model_id
from ethos_hil.harness.profile.compiled import CompiledDelegate, costs, memories_behind, system_of
from ethos_hil.harness.profile.options import default_repeat
from ethos_hil.harness.run import run, run_artifact
from ethos_hil.harness.socs.registry import find_soc
from ethos_hil.harness.targets.registry import find_plugin, make_target
from ethos_hil.harness.verdict.artifact_info import info
from ethos_hil.harness.verdict.metrics import attribute, estimated_rows
from ethos_hil.lowering.artifact import Artifact

if TYPE_CHECKING:
    from ethos_hil.harness.virtual.board import BoardPool

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
        versions=environment.versions(),
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
