"""Whether a program can run on a target, told before anything boots: what it needs beside what is there.

All of it is computed on the host: the program's needs from the .pte, the device's means from the firmware's ELF, the
NPU from the target's name. What is checked here the device checks again; here one sees all of it at once, and what
would help. Memory is laid out as the firmware does it (firmware/runtime/method.cc), but for its tables of a few
kilobytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ethos_hil.harness.errors import TargetError
from ethos_hil.harness.image.firmware_elf import Firmware
from ethos_hil.harness.image.firmware_file import FIRMWARE_VARIABLE
from ethos_hil.harness.image.footprint import Footprint, memory_mode, rounded
from ethos_hil.harness.image.formats import PACKAGE_ALIGNMENT, DeviceMemoryMode, InputRef, PackageHeader
from ethos_hil.harness.npu import Configuration
from ethos_hil.harness.socs.registry import SOCS
from ethos_hil.lowering.artifact import Artifact
from ethos_hil.lowering.memory_mode import MemoryMode
from ethos_hil.results.record import Check
from ethos_hil.results.verdict import FailureKind

OK, NOTE, FAIL = "ok", "note", "fail"
_KINDS = {
    "npu": FailureKind.NPU_MISMATCH,
    "command stream": FailureKind.NPU_MISMATCH,
    "memory mode": FailureKind.NPU_MISMATCH,
    "firmware": FailureKind.WRONG_PROGRAM,
    "kernels": FailureKind.UNSUPPORTED,
}
"""Failure kinds by the check that fails; the others are about memory."""


class PreflightFailed(TargetError):
    """The program cannot run there; `checks` has every row."""

    def __init__(self, checks: Sequence[Check]) -> None:
        """Of checks, at least one of which failed."""
        failed = [check for check in checks if check.status == FAIL]
        texts = [f"{check.name} needs {check.needed}, available: {check.available}" for check in failed]
        fixes = list(dict.fromkeys(check.fix for check in failed if check.fix))
        super().__init__(
            f"preflight: {'; '.join(texts)}",
            kind=_KINDS.get(failed[0].name, FailureKind.OUT_OF_MEMORY),
            hint="; ".join(fixes) or None,
        )
        self.checks = tuple(checks)


@dataclass(frozen=True)
class Destination:
    """Where a program is to run.

    Attributes:
        npu: name of the target's NPU.
        soc: its system on chip.
        firmware: what the firmware's ELF says, or None for a runner of the user's, which says nothing.
    """

    npu: str
    soc: str
    firmware: Firmware | None


def examine(
    artifact: Artifact, place: Destination, footprint: Footprint, *, input_sets: int, asked: MemoryMode | None = None
) -> tuple[Check, ...]:
    """Every check, in the order of the table.

    Args:
        artifact: the program.
        place: where it is to run.
        footprint: of the program.
        input_sets: how many are packed into the image.
        asked: the memory mode the user wants, or None for whatever the program has.
    """
    rows = [_npu(artifact, place), _stream(artifact, place), _mode(artifact, place, asked)]
    if place.firmware is None:
        return (*rows, _runner(artifact, footprint))
    rows += [_board(place, place.firmware), _kernels(artifact, place.firmware)]
    return (*rows, *_memory(artifact, footprint, place.firmware, input_sets))


def insist(checks: Sequence[Check]) -> None:
    """Raises PreflightFailed unless nothing failed."""
    if any(check.status == FAIL for check in checks):
        raise PreflightFailed(checks)


def _npu(artifact: Artifact, place: Destination) -> Check:
    if artifact.npu is None:
        return Check("npu", "none: nothing is delegated", place.npu, OK)
    needed = str(artifact.npu)
    if needed == place.npu:
        return Check("npu", needed, place.npu, OK)
    return Check("npu", needed, place.npu, FAIL, f"--npu {needed}, or lower the model again for {place.npu}")


def _stream(artifact: Artifact, place: Destination) -> Check:
    """Versions of the command stream and the architecture, by the rules of Arm's driver (firmware/npu/identity.cc)."""
    vela = artifact.versions.get("ethos-u-vela")
    by = f", Vela {vela}" if vela else ""
    words = sorted({(delegate.blob.config_word, delegate.blob.id_word) for delegate in artifact.delegates})
    if not words:
        return Check("command stream", "none", "", OK)
    npu = Configuration.parse(place.npu)
    available = _versions(npu.config_word, npu.id_word)
    needed = ", ".join(dict.fromkeys(_versions(config, identity) for config, identity in words)) + by
    fits = all(_runs(npu, config, identity) for config, identity in words)
    fix = None if fits else "lower the model again, with the Vela that requirements.lock names"
    return Check("command stream", needed, available, OK if fits else FAIL, fix)


def _runs(npu: Configuration, config: int, identity: int) -> bool:
    same_stream = config >> 4 & 0xF == npu.config_word >> 4 & 0xF
    same_major = identity >> 28 == npu.id_word >> 28
    return same_stream and same_major and identity >> 20 & 0xFF <= npu.id_word >> 20 & 0xFF


def _versions(config: int, identity: int) -> str:
    # Fields of the ID register: ethosu55_interface.h and ethosu85_interface.h of Arm's core driver.
    architecture = f"{identity >> 28}.{identity >> 20 & 0xFF}.{identity >> 16 & 0xF}"
    return f"version {config >> 4 & 0xF}, architecture {architecture}"


def _mode(artifact: Artifact, place: Destination, asked: MemoryMode | None) -> Check:
    mode = artifact.memory_mode
    dedicated = "Shared_Sram, Sram_Only" + ("" if place.npu.startswith("ethos-u55") else ", Dedicated_Sram")
    if mode is None:
        return Check("memory mode", "not said by the program", dedicated, NOTE if artifact.delegates else OK)
    if asked is not None and asked != mode:
        return Check("memory mode", str(mode), str(asked), FAIL, f"--memory-mode {mode}, or lower the model again")
    return Check("memory mode", str(mode), dedicated, OK)


def _runner(artifact: Artifact, footprint: Footprint) -> Check:
    """What a runner has is built into it, and only it knows."""
    if memory_mode(artifact, footprint, None) is not DeviceMemoryMode.DEDICATED_SRAM:
        return Check("runner", "kernels and memory", "not told by its ELF", NOTE)
    fix = "a runner built for Dedicated_Sram, or --memory-mode Shared_Sram"
    return Check("runner", "kernels, memory, a fast scratch", "not told by its ELF", NOTE, fix)


def _board(place: Destination, firmware: Firmware) -> Check:
    """Whether the firmware is the one of this system on chip: it begins where the processor does."""
    found = [soc.name for soc in SOCS if soc.boot == firmware.start]
    if place.soc in found:
        return Check("firmware", place.soc, place.soc, OK if firmware.doubt is None else NOTE, firmware.doubt)
    available = " or ".join(found) or "none that is known"
    return Check("firmware", place.soc, available, FAIL, f"`make firmware`, and {FIRMWARE_VARIABLE} unset")


def _kernels(artifact: Artifact, firmware: Firmware) -> Check:
    needed = tuple(dict.fromkeys(artifact.plan.operators))
    if firmware.operators is None:
        return Check("kernels", f"{len(needed)} operators", "not told by the firmware's ELF", NOTE)
    missing = [name for name in needed if name not in firmware.operators]
    available = f"{len(firmware.operators)} operators"
    if not missing:
        return Check("kernels", f"{len(needed)} operators", available, OK)
    fix = "a firmware with these kernels (`make firmware`, ETHOS_HIL_FIRMWARE), or a model that delegates them"
    return Check("kernels", ", ".join(missing), f"{available}, not these", FAIL, fix)


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
    constants = sum(map(rounded, footprint.constants))
    if mode is not memory_mode(artifact, footprint, None):
        text = f"{firmware.sram or 0:,} bytes of SRAM are too little: they stay in DDR, as with Shared_Sram"
        yield Check("constants", f"{constants:,} bytes", text, NOTE)
    if mode is DeviceMemoryMode.SRAM_ONLY:
        yield pools.place("constants", constants, "sram")
        yield pools.place("scratch", rounded(footprint.scratch), "sram")
    elif mode is DeviceMemoryMode.DEDICATED_SRAM:
        fast = pools.place("fast scratch", rounded(footprint.fast_scratch), "sram", _smaller_cache(firmware.sram))
        if footprint.unknown is not None:
            fast = Check("fast scratch", f"unknown: {footprint.unknown}", fast.available, NOTE)
        yield fast
        yield pools.place("scratch", rounded(footprint.scratch), "ddr", "a smaller input")
    else:
        yield pools.place("scratch", rounded(footprint.scratch), "either", "a smaller input")
    where = "ddr" if mode is DeviceMemoryMode.DEDICATED_SRAM else "either"
    planned = max((pools.place("planned", rounded(size), where, "a smaller input") for size in footprint.planned),
                  key=lambda check: (OK, NOTE, FAIL).index(check.status), default=None)  # fmt: skip
    if planned is not None:
        total = sum(footprint.planned)
        yield Check("planned", f"{total:,} bytes", planned.available, planned.status, planned.fix)
    stack = "unknown" if firmware.stack is None else f"{firmware.stack:,} bytes"
    yield Check("stack", "told by a run: stack_used", stack, NOTE)


class _Pools:
    """The firmware's two pools, filled in its order. None: not known, so everything is taken to fit."""

    def __init__(self, sram: int | None, ddr: int | None) -> None:
        self._free = {"sram": sram, "ddr": ddr}

    def place(self, name: str, size: int, where: str, fix: str | None = None) -> Check:
        """Take `size` bytes from "sram", "ddr", or "either": then from SRAM where they fit."""
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
    """Bytes of the package that `ethos_hil.harness.image.pack.pack` makes."""
    tensors = artifact.plan.input_tensors
    size = _aligned(PackageHeader.size) + _aligned(len(artifact.pte))
    size += input_sets * sum(_aligned(tensor.nbytes) for tensor in tensors)
    return size + _aligned(input_sets * len(tensors) * InputRef.size)


def _aligned(size: int) -> int:
    return -(-size // PACKAGE_ALIGNMENT) * PACKAGE_ALIGNMENT


def _fits(name: str, needed: int, available: int | None, what: str, fix: str) -> Check:
    text = f"{needed:,} bytes ({what})"
    if available is None:
        return Check(name, text, "unknown", NOTE)
    fits = needed <= available
    return Check(name, text, f"{available:,} bytes", OK if fits else FAIL, None if fits else fix)


def _smaller_cache(sram: int | None) -> str:
    """The mode whose limit on the fast scratch is the largest that fits."""
    limits = {name: MemoryMode(name).cache_limit or 0 for name in MemoryMode.VALID}
    best = max(limits, key=lambda name: limits[name] if limits[name] <= (sram or 0) else 0)
    return f"--memory-mode {best if limits[best] else 'Shared_Sram'}"
