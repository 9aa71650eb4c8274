"""Checks before the boot whether a program can run on a target: what it needs, and what is available.

The host computes everything: the program's needs from the .pte, the device's memory from the firmware's ELF, the NPU
from the target's name. The device repeats these checks; here the user sees all of them at once, each with a remedy.
Memory is laid out as in the firmware (firmware/runtime/method.cc), except for its tables of a few kilobytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import TargetError
from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.options import CPU_ALONE, CPU_FLOAT, JudgeOptions
from ethos_hil.base.plain_text import percent
from ethos_hil.base.program_info import PRODUCTS, ArtifactInfo
from ethos_hil.base.record import Check
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.image.firmware_elf import Firmware
from ethos_hil.harness.image.firmware_manifest import FIRMWARE_VARIABLE
from ethos_hil.harness.image.footprint import Footprint, memory_mode, round_up
from ethos_hil.harness.image.formats import PACKAGE_ALIGNMENT, DeviceMemoryMode, EventSet, InputRef, PackageHeader
from ethos_hil.harness.image.npu_share import npu_share
from ethos_hil.harness.image.quantised_io import quantised_io
from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.formats.pte_model import KernelCall, Tensor, ValueList
from ethos_hil.lowering.program.multiplications import products_of_call
from ethos_hil.lowering.program.placement import CpuCall, group_calls, kernel_calls
from ethos_hil.lowering.program.scaled_integers import taken_for_numbers
from ethos_hil.lowering.vela.memory_mode import MemoryMode

OK, NOTE, FAIL = "ok", "note", "fail"
ANY_PLACE = JudgeOptions(allow_cpu_only=True)
"""What demands nothing of the NPU."""
DELEGATION = "delegation"
_INTEGERS = "8-bit arithmetic"
_KINDS = {
    DELEGATION: FailureKind.DELEGATION,
    "npu": FailureKind.NPU_MISMATCH,
    "command stream": FailureKind.NPU_MISMATCH,
    "memory mode": FailureKind.NPU_MISMATCH,
    "firmware": FailureKind.WRONG_PROGRAM,
    "kernels": FailureKind.UNSUPPORTED,
    _INTEGERS: FailureKind.UNSUPPORTED,
    "runner": FailureKind.UNSUPPORTED,
}
"""Failure kinds by the name of the check; every other check is about memory."""
_WHOLE = (
    "quantise with CortexMQuantizer, and lower with compile_config=cortex_m_edge_compile_config(), of "
    "executorch.backends.cortex_m.edge_compile_config, before CortexMPassManager; or run the model with --cpu cortex-m"
)
"""That configuration (executorch 1.5.1) keeps whole what the passes have operators for: linear layers, activations."""
_INDEXING = ("aten::index.Tensor_out", "aten::index_put.out")


class PreflightFailed(TargetError):
    """The program cannot run on the target; `checks` has every row, and `artifact` describes the program, if there is
    one.
    """

    def __init__(self, checks: Sequence[Check], artifact: ArtifactInfo | None = None) -> None:
        """Build the error from the checks that failed."""
        failed = [check for check in checks if check.status == FAIL]
        texts = [_text(check) for check in failed]
        fixes = list(dict.fromkeys(check.fix for check in failed if check.fix))
        super().__init__(
            f"preflight: {'; '.join(texts)}",
            kind=_KINDS.get(failed[0].name, FailureKind.OUT_OF_MEMORY),
            hint="; ".join(fixes) or None,
        )
        self.checks = tuple(checks)
        self.artifact = artifact


def _text(check: Check) -> str:
    if check.name == DELEGATION:
        return f"{check.available}; needed is: {check.needed}"
    return f"{check.name} needs {check.needed}, available: {check.available}"


@dataclass(frozen=True)
class Destination:
    """The place where a program will run.

    Attributes:
        npu: name of the target's NPU.
        soc: its system on chip.
        firmware: the firmware's properties, or None for a user's runner, whose ELF states none.
    """

    npu: str
    soc: str
    firmware: Firmware | None


def examine(
    artifact: Artifact,
    place: Destination,
    footprint: Footprint,
    *,
    input_sets: int,
    asked: MemoryMode | None = None,
    demands: JudgeOptions = ANY_PLACE,
) -> tuple[Check, ...]:
    """Return every check, in the order of the table.

    Args:
        artifact: the program.
        place: where it will run.
        footprint: the program's footprint.
        input_sets: number of input sets in the image.
        asked: the memory mode that the user wants, or None for the program's own.
        demands: what has to be on the NPU; by default nothing.
    """
    rows = [
        *_integers(artifact),
        delegation_check(artifact, demands),
        _npu(artifact, place),
        _stream(artifact, place),
        _mode(artifact, place, asked),
        *_scales(artifact),
    ]
    if place.firmware is None:
        return (*rows, _runner(artifact, footprint))
    rows += [_board(place.soc, place.firmware), _kernels(artifact, place.firmware)]
    return (*rows, *_memory(artifact, footprint, place.firmware, input_sets))


def raise_if_failed(checks: Sequence[Check], artifact: ArtifactInfo | None = None) -> None:
    """Raise PreflightFailed if a check of a program failed."""
    if any(check.status == FAIL for check in checks):
        raise PreflightFailed(checks, artifact)


def check_firmware(elf: bytes, soc: str) -> None:
    """Check what needs no program: that this is a firmware for the system on chip. Lowering takes much longer.

    Raises:
        ToolError: it is not an ELF file.
        PreflightFailed: it is not for this system on chip.
    """
    raise_if_failed([_board(soc, Firmware.read(elf))])


def _npu(artifact: Artifact, place: Destination) -> Check:
    if artifact.npu is None:
        return Check("npu", "none: nothing is delegated", place.npu, OK)
    needed = str(artifact.npu)
    if needed == place.npu:
        return Check("npu", needed, place.npu, OK)
    return Check("npu", needed, place.npu, FAIL, f"--npu {needed}, or lower the model again for {place.npu}")


def _stream(artifact: Artifact, place: Destination) -> Check:
    """Check the versions of the command stream and the architecture, by the rules of Arm's driver
    (firmware/npu/identity.cc).
    """
    vela = artifact.versions.get("ethos-u-vela")
    by = f", Vela {vela}" if vela else ""
    words = sorted({(delegate.blob.config_word, delegate.blob.id_word) for delegate in artifact.delegates})
    if not words:
        return Check("command stream", "none", "", OK)
    npu = EthosU.parse(place.npu)
    available = _versions(npu.size.config_word, npu.family.id_word)
    needed = ", ".join(dict.fromkeys(_versions(config, identity) for config, identity in words)) + by
    fits = all(_runs(npu, config, identity) for config, identity in words)
    fix = None if fits else "lower the model again, with the Vela that requirements.lock names"
    return Check("command stream", needed, available, OK if fits else FAIL, fix)


def _runs(npu: EthosU, config: int, identity: int) -> bool:
    same_stream = config >> 4 & 0xF == npu.size.config_word >> 4 & 0xF
    same_major = identity >> 28 == npu.family.id_word >> 28
    return same_stream and same_major and identity >> 20 & 0xFF <= npu.family.id_word >> 20 & 0xFF


def _versions(config: int, identity: int) -> str:
    # Fields of the ID register: ethosu55_interface.h and ethosu85_interface.h of Arm's core driver.
    architecture = f"{identity >> 28}.{identity >> 20 & 0xFF}.{identity >> 16 & 0xF}"
    return f"version {config >> 4 & 0xF}, architecture {architecture}"


def _mode(artifact: Artifact, place: Destination, asked: MemoryMode | None) -> Check:
    mode = artifact.memory_mode
    usable = "Shared_Sram, Sram_Only"
    if EthosU.parse(place.npu).family.arena_anywhere:
        usable += ", Dedicated_Sram"
    if mode is None:
        return Check("memory mode", "not stated in the program", usable, NOTE if artifact.delegates else OK)
    if asked is not None and asked != mode:
        return Check("memory mode", str(mode), str(asked), FAIL, f"--memory-mode {mode}, or lower the model again")
    return Check("memory mode", str(mode), usable, OK)


def _scales(artifact: Artifact) -> Iterator[Check]:
    """Yield what the integers of inputs and outputs stand for, where the program says it."""
    for tensor in quantised_io(artifact):
        given = "; floats may be given" if tensor.name.startswith("input") else ""
        yield Check(tensor.name, tensor.tensor, f"stands for {tensor.text}{given}", OK)


def _integers(artifact: Artifact) -> Iterator[Check]:
    """Yield a failure where operators of aten compute with quantised integers."""
    calls = list(taken_for_numbers(artifact.plan))
    if calls:
        names = ", ".join(f"{call.operator} (instruction {at})" for at, call in calls[:_SHOWN])
        more = f" and {len(calls) - _SHOWN} more" if len(calls) > _SHOWN else ""
        text = "only of aten, which takes quantised integers for the numbers that they stand for"
        yield Check(_INTEGERS, f"an operator with scales for {names}{more}", text, FAIL, _WHOLE)


def _runner(artifact: Artifact, footprint: Footprint) -> Check:
    """Return a note: a runner's kernels are built in and cannot be listed. Upstream's has no option for a .ptd."""
    if artifact.ptd:
        fix = "leave out --runner: our firmware takes them"
        return Check("runner", f"{len(artifact.ptd)} .ptd files", "none: a runner is given a .pte alone", FAIL, fix)
    if memory_mode(artifact, footprint, None) is not DeviceMemoryMode.DEDICATED_SRAM:
        return Check("runner", "kernels and memory", "not stated in its ELF", NOTE)
    fix = "a runner built for Dedicated_Sram, or --memory-mode Shared_Sram"
    return Check("runner", "kernels, memory, a fast scratch", "not stated in its ELF", NOTE, fix)


def _board(soc: str, firmware: Firmware) -> Check:
    """Check that the firmware is for this system on chip: it starts at the address of the processor's vector table."""
    names = [soc.name for soc in SOCS if soc.boot == firmware.start]
    if soc in names:
        return Check("firmware", soc, soc, OK if firmware.doubt is None else NOTE, firmware.doubt)
    available = " or ".join(names) or "none that is known"
    return Check("firmware", soc, available, FAIL, f"`make firmware`, and {FIRMWARE_VARIABLE} unset")


def _kernels(artifact: Artifact, firmware: Firmware) -> Check:
    needed = tuple(dict.fromkeys(artifact.plan.operators))
    if firmware.operators is None:
        return Check("kernels", f"{len(needed)} operators", "not stated in the firmware's ELF", NOTE)
    missing = [name for name in needed if name not in firmware.operators] + _by_mask(artifact)
    available = f"{len(firmware.operators)} operators"
    if not missing:
        return Check("kernels", f"{len(needed)} operators", available, OK)
    names = {name.partition(" ")[0] for name in missing}
    calls = [call for call in artifact.placement.calls if call.operator in names]
    places = "; ".join(f"{call.operator} {call.place}" for call, _ in group_calls(calls) if call.place)
    helps = list(dict.fromkeys(call.remedy for call in calls if call.remedy))
    helps = helps or ["let the program end before them", "use other operators"]
    doubts = [firmware.doubt] if firmware.doubt is not None else []
    fix = "; ".join((*helps, *doubts, "or add kernels (docs/tutorials/add-a-kernel.md)"))
    where = f", not these ({places})" if places else ", not these"
    return Check("kernels", ", ".join(missing), f"{available}{where}", FAIL, fix)


def _by_mask(artifact: Artifact) -> list[str]:
    """Return operators that pick elements by a mask: how many they are depends on the values, and memory is planned."""
    plan = artifact.plan
    names: list[str] = []
    for _, call in kernel_calls(plan):
        indices = plan.values[call.args[1]] if call.operator in _INDEXING else None
        if isinstance(indices, ValueList):
            items = [plan.values[int(item)] for item in indices.items if int(item) >= 0]
            if any(isinstance(item, Tensor) and item.scalar_type in ("BOOL", "BYTE") for item in items):
                names.append(f"{call.operator} by a mask")
    return list(dict.fromkeys(names))


def _memory(artifact: Artifact, footprint: Footprint, firmware: Firmware, input_sets: int) -> Iterator[Check]:
    package = package_bytes(artifact, input_sets)
    fix = (
        "fewer input sets at once"
        if package_bytes(artifact, 1) <= (firmware.package or 0)
        else "a smaller program or input"
    )
    sets = f"{input_sets} input set" + ("s" if input_sets != 1 else "")
    yield _fits("package", package, firmware.package, sets, fix)
    mode = memory_mode(artifact, footprint, firmware.sram)
    ddr = None if firmware.ddr is None else max(0, firmware.ddr - package)
    pools = _Pools(firmware.sram, ddr)
    sram_planned, planned_sizes = footprint.divided
    if sram_planned:
        fix = "a smaller planned memory 3 (FAST_MEMORY): plan some of its tensors in memory 1"
        yield pools.place("fast planned", round_up(sram_planned), "sram", fix)
    constants = sum(map(round_up, footprint.constants))
    if mode is not memory_mode(artifact, footprint, None):
        text = f"{firmware.sram or 0:,} bytes of SRAM are too little: they stay in DDR, as with Shared_Sram"
        yield Check("constants", f"{constants:,} bytes", text, NOTE)
    if mode is DeviceMemoryMode.SRAM_ONLY:
        yield pools.place("constants", constants, "sram")
        yield pools.place("scratch", round_up(footprint.scratch), "sram")
    elif mode is DeviceMemoryMode.DEDICATED_SRAM:
        fast = pools.place("fast scratch", round_up(footprint.fast_scratch), "sram", _smaller_cache(firmware.sram))
        if footprint.unknown is not None:
            fast = Check("fast scratch", f"unknown: {footprint.unknown}", fast.available, NOTE)
        yield fast
        yield pools.place("scratch", round_up(footprint.scratch), "ddr", "a smaller input")
    else:
        yield pools.place("scratch", round_up(footprint.scratch), "either", "a smaller input")
    where = "ddr" if sram_planned or mode is DeviceMemoryMode.DEDICATED_SRAM else "either"
    planned = max((pools.place("planned", round_up(size), where, "a smaller input") for size in planned_sizes),
                  key=lambda check: (OK, NOTE, FAIL).index(check.status), default=None)  # fmt: skip
    if planned is not None:
        total = sum(planned_sizes)
        yield Check("planned", f"{total:,} bytes", planned.available, planned.status, planned.fix)
    stack = "unknown" if firmware.stack is None else f"{firmware.stack:,} bytes"
    yield Check("stack", "known after a run: stack_used", stack, NOTE)


class _Pools:
    """The firmware's two pools, filled in its order. The size None is unknown, so everything fits."""

    def __init__(self, sram: int | None, ddr: int | None) -> None:
        self._free = {"sram": sram, "ddr": ddr}

    def place(self, name: str, size: int, where: str, fix: str | None = None) -> Check:
        """Take `size` bytes from "sram", "ddr", or "either": from SRAM where they fit, else from DDR."""
        needed = f"{size:,} bytes"
        before = {pool: self._text(pool) for pool in self._free}
        for pool in ("sram", "ddr"):
            free = self._free[pool]
            if where not in (pool, "either") or (free is not None and free < size):
                continue
            self._free[pool] = None if free is None else free - size
            if free is None:
                return Check(name, needed, before[pool], NOTE)
            spilt = where == "either" and pool == "ddr"
            text = f"{before['ddr']}; {before['sram']} is too little" if spilt else before[pool]
            return Check(name, needed, text, NOTE if spilt else OK)
        pools = before.values() if where == "either" else (before[where],)
        return Check(name, needed, " and ".join(pools), FAIL, fix)

    def _text(self, pool: str) -> str:
        free = self._free[pool]
        return f"an unknown amount of {pool.upper()}" if free is None else f"{free:,} bytes of {pool.upper()}"


def package_bytes(artifact: Artifact, input_sets: int) -> int:
    """Return the bytes of the package that `ethos_hil.harness.image.pack.pack` makes of a plan without cuts."""
    tensors = artifact.plan.input_tensors
    files = tuple(artifact.ptd.values())
    size = _align(PackageHeader.size) + _align(len(artifact.pte)) + sum(map(_align, map(len, files)))
    size += _align(len(files) * InputRef.size)
    size += input_sets * sum(_align(tensor.nbytes) for tensor in tensors)
    return size + _align(input_sets * len(tensors) * InputRef.size) + _align(EventSet.size)


def _align(size: int) -> int:
    return -(-size // PACKAGE_ALIGNMENT) * PACKAGE_ALIGNMENT


def _fits(name: str, needed: int, available: int | None, what: str, fix: str) -> Check:
    text = f"{needed:,} bytes ({what})"
    if available is None:
        return Check(name, text, "unknown", NOTE)
    fits = needed <= available
    return Check(name, text, f"{available:,} bytes", OK if fits else FAIL, None if fits else fix)


def _smaller_cache(sram: int | None) -> str:
    """Return the mode with the largest limit on the fast scratch that fits."""
    limits = {name: MemoryMode(name).cache_limit or 0 for name in MemoryMode.VALID}
    best = max(limits, key=lambda name: limits[name] if limits[name] <= (sram or 0) else 0)
    return f"--memory-mode {best if limits[best] else 'Shared_Sram'}"


_SHOWN = 4
"""How many operators a message names."""


def delegation_check(artifact: Artifact, demands: JudgeOptions) -> Check:
    """Compare what is demanded with what is on the NPU, as a row of a preflight.

    Conversions between numbers and integers, and the writing of state, never count as operators on the CPU.
    """
    left = artifact.placement.on_cpu
    there = f"{_count(artifact)} on the NPU, {len(left)} on the CPU"
    limit = 0 if demands.require_delegated else demands.max_cpu_ops
    if limit is not None and len(left) > limit:
        needed = "all operators on the NPU" if limit == 0 else f"at most {limit} operators on the CPU"
        return Check(DELEGATION, needed, f"{there}: {name_of(left)}", "fail", _remedies(left))
    least = demands.min_npu_share
    share = npu_share(artifact) if left or least is not None else None
    if least is not None and (share is None or share.value < least):
        what = "the NPU's part of the work is not known" if share is None else share.of_cpu or "nothing is computed"
        heaviest = _heaviest(artifact)
        named = f": {_worked(heaviest)}" if heaviest else ""
        needed = f"at least {percent(least)} % of the work on the NPU"
        return Check(DELEGATION, needed, f"{what}{named}", "fail", _remedies([call for call, _ in heaviest]))
    if share is not None and share.cpu and share.unit == PRODUCTS:
        there = f"{there}; {share.of_cpu}"
    # The model itself may keep the method on the CPU: it was lowered here, and not quantised.
    alone = demands.allow_cpu_only or getattr(demands, "cpu", CPU_FLOAT) == CPU_ALONE
    if artifact.delegates or alone or (artifact.key and artifact.scheme is None):
        return Check(DELEGATION, "any" if alone else "something on the NPU", there, "ok")
    what = f"nothing is on the NPU; on the CPU: {name_of(left)}" if left else "the program computes nothing on the NPU"
    fix = "; ".join(filter(None, (_remedies(left), "--allow-cpu-only accepts a program for the CPU alone")))
    return Check(DELEGATION, "something on the NPU", what, "fail", fix)


def name_of(calls: Sequence[CpuCall]) -> str:
    """Return calls as text, equal ones once: "2 x aten::sort.values at net.py:12 (TOSA cannot sort)"."""
    groups = group_calls(calls)
    texts = []
    for call, count in groups[:_SHOWN]:
        many = f"{count} x " if count > 1 else ""
        texts.append(f"{many}{call.operator}{f' {call.place}' if call.place else ''} ({call.reason})")
    rest = sum(count for _, count in groups[_SHOWN:])
    return ", ".join(texts) + (f" and {rest} more" if rest else "")


def _heaviest(artifact: Artifact) -> list[tuple[CpuCall, int]]:
    """Return the operators on the CPU with their multiplications, the most first; all of them where none has any."""
    plan = artifact.plan
    work = [(call, products_of_call(plan, made)) for call in artifact.placement.on_cpu
            if isinstance(made := plan.instructions[call.instruction], KernelCall)]  # fmt: skip
    return sorted((pair for pair in work if pair[1]), key=lambda pair: -pair[1]) or work


def _worked(heaviest: Sequence[tuple[CpuCall, int]]) -> str:
    """Return operators with their multiplications as text, equal ones once."""
    counts: dict[str, int] = {}
    for call, products in heaviest:
        counts[name_of([call])] = counts.get(name_of([call]), 0) + products
    shown = [f"{name}{f', {count:,} of them' if count else ''}" for name, count in list(counts.items())[:_SHOWN]]
    return "; ".join([*shown, *([f"and {len(counts) - _SHOWN} more"] if len(counts) > _SHOWN else [])])


def _remedies(calls: Sequence[CpuCall]) -> str | None:
    """Return what would help the first calls, each remedy once, or None."""
    texts = list(dict.fromkeys(call.remedy for call, _ in group_calls(calls)[:_SHOWN] if call.remedy))
    return "; ".join(texts) or None


def _count(artifact: Artifact) -> str:
    known = artifact.placement.delegated or not artifact.delegates
    return f"{artifact.placement.delegated} operators" if known else f"{len(artifact.delegates)} delegates"
