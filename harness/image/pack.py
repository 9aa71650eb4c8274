"""Pack a program, its inputs and a run plan into the firmware's ELF, without a compiler.

The package (docs/formats.md) becomes one more loadable segment, at the address that the firmware reserves for it
between its symbols `__package_start` and `__package_limit`. It gets a section header too, because debuggers load by
section. The firmware's own bytes do not change, except for the table offsets and counts in the ELF header.
"""

from __future__ import annotations

import functools
import hashlib
import secrets
import struct
import zlib
from collections.abc import Iterable, Sequence

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import TargetError, ToolError, UsageError
from ethos_hil.base.options import MOST_EXECUTIONS
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.image.firmware_elf import Firmware
from ethos_hil.harness.image.formats import (
    EVENT_COUNTERS,
    MAX_DATA_FILES,
    PACKAGE_ALIGNMENT,
    PACKAGE_MAGIC,
    PACKAGE_VERSION,
    Cut,
    DeviceMemoryMode,
    EventSet,
    InputRef,
    PackageFlag,
    PackageHeader,
)

SECTION_NAME = ".ethos_hil.package"

# Layouts of ELF32 little-endian (System V ABI, chapters 4 and 5).
_EHDR = struct.Struct("<16sHHIIIIIHHHHHH")
_PHDR = struct.Struct("<IIIIIIII")
_SHDR = struct.Struct("<IIIIIIIIII")
_PT_LOAD, _PF_R = 1, 4
_SHT_PROGBITS, _SHF_ALLOC = 1, 2


@dataclass(frozen=True)
class Clocks:
    """A board's clocks in Hz, and the speed of its link in bits per second; 0 is what the firmware has by itself."""

    cpu_hz: int = 0
    peripheral_hz: int = 0
    baud: int = 0


OWN_CLOCKS = Clocks()
"""Those that the firmware has by itself."""


@dataclass(frozen=True, order=True)
class CutAt:
    """The end of a prefix of a delegate's command stream.

    Attributes:
        delegate: index into the method's delegates.
        offset: byte of the register command stream where a STOP stands in for the command. 0 runs nothing.
    """

    delegate: int
    offset: int


DEFAULT_EVENTS = (32, 130, 135, 386, 391)
"""Idle cycles, read and write beats on AXI0, and read and write beats on AXI1 (numbers from Arm's core driver,
ethosu_pmu.h)."""


@dataclass(frozen=True)
class RunPlan:
    """What the firmware does with the program.

    Attributes:
        input_set_count: input sets, executed one after the other.
        inputs_per_set: tensors in each.
        repeat: executions of each input set.
        npu_timeout_ms: bound on the wait for one NPU job, in the board's own time.
        send_delegate_outputs: also send every delegate's outputs, not only the method's.
        event_sets: PMU event number for each of the NPU's event counters, at most EVENT_COUNTERS; an Ethos-U55 or U65
            counts the first four. Execution n of an input set counts the events of set n modulo their number.
        cuts: prefixes that every call of a delegate runs, before all of its command stream; ascending.
        method: execution plan to run.
        memory_mode: the memory mode the program was compiled for.
        fast_scratch_bytes: with DEDICATED_SRAM, the bytes of SRAM that the compiler could use; otherwise 0.
        printable: the link carries frames as lines of text.
        clocks: of the board, where they are not those that the firmware knows.
        time_steps: also send what the CPU takes for each instruction.
        stays: afterwards the firmware takes packages from its line (the monitor).
    """

    input_set_count: int
    inputs_per_set: int
    repeat: int = 1
    npu_timeout_ms: int = 10_000
    send_delegate_outputs: bool = True
    event_sets: tuple[tuple[int, ...], ...] = (DEFAULT_EVENTS,)
    cuts: tuple[CutAt, ...] = ()
    method: str = "forward"
    memory_mode: DeviceMemoryMode = DeviceMemoryMode.SHARED_SRAM
    fast_scratch_bytes: int = 0
    printable: bool = False
    clocks: Clocks = OWN_CLOCKS
    time_steps: bool = False
    stays: bool = False

    @property
    def flags(self) -> PackageFlag:
        """What is asked for, as the package's header has it."""
        asked = {
            PackageFlag.SEND_DELEGATE_OUTPUTS: self.send_delegate_outputs,
            PackageFlag.PRINTABLE_LINK: self.printable,
            PackageFlag.TIME_STEPS: self.time_steps,
            PackageFlag.STAY: self.stays,
        }
        return PackageFlag(sum(flag for flag, is_asked in asked.items() if is_asked))

    @property
    def executions(self) -> int:
        """Number of executions in the whole plan."""
        return self.input_set_count * self.repeat

    def events(self, repeat: int) -> tuple[int, ...]:
        """Return the events that execution `repeat` of an input set counts."""
        return self.event_sets[repeat % len(self.event_sets)]


@dataclass(frozen=True)
class Image:
    """A packed image: the ELF that boots, and the values that the device must echo."""

    elf: bytes
    run_id: bytes
    image_hash: bytes
    program_hash: bytes
    plan: RunPlan


@dataclass(frozen=True)
class PackageSlot:
    """The place for the package in a firmware: an address, and the bytes reserved there."""

    start: int
    size: int

    @classmethod
    def of(cls, elf: bytes) -> PackageSlot:
        """Return the slot in a firmware ELF.

        Raises:
            ToolError: it is not an ELF that a Cortex-M can run, or reserves no space for a package.
        """
        firmware = Firmware.read(elf)
        if firmware.package_start is None or firmware.package is None:
            raise ToolError(
                "the firmware has no symbols __package_start and __package_limit: it reserves no space for a package",
                hint="run `make firmware`",
            )
        return cls(firmware.package_start, firmware.package)


def pack(
    firmware: bytes,
    program: bytes,
    input_sets: Sequence[Sequence[bytes]],
    plan: RunPlan,
    *,
    data: Sequence[bytes] = (),
    run_id: bytes | None = None,
) -> Image:
    """Add `program`, `input_sets` and `plan` to the firmware's ELF.

    Args:
        firmware: ELF with the symbols `__package_start` and `__package_limit`.
        program: a .pte.
        input_sets: for each input set the raw bytes of its tensors, in the layout of their dim_order.
        plan: the run plan; it must agree with `input_sets`.
        data: the .ptd files beside the program.
        run_id: 16 bytes for an image that is kept and never run; by default random ones, which no other image has.

    Raises:
        TargetError: kind "out-of-memory": the package does not fit; the message has the bytes needed and available.
        UsageError: the plan's method name is too long for the header, it has more events than there are counters, or
            there are too many .ptd files.
        ToolError: the firmware's ELF is not usable.
    """
    slot = PackageSlot.of(firmware)
    run_id = secrets.token_bytes(16) if run_id is None else run_id
    program_hash = hashlib.sha256(program).digest()
    header, body = _package(program, data, input_sets, plan, program_hash)

    size = PackageHeader.size + len(body)
    if size > slot.size:
        raise TargetError(
            f"the program and its inputs do not fit: {size} bytes needed, {slot.size} available",
            hint="run fewer input sets at once" if len(program) < slot.size else None,
            kind=FailureKind.OUT_OF_MEMORY,
        )
    unsigned = PackageHeader.pack({**header, "run_id": bytes(16), "image_hash": bytes(32), "crc32": 0})
    digest = _digest(firmware).copy()
    digest.update(unsigned + body)
    image_hash = digest.digest()
    header |= {"run_id": run_id, "image_hash": image_hash}
    crc_offset = PackageHeader.offset_of("crc32")
    crc = zlib.crc32(body, zlib.crc32(PackageHeader.pack({**header, "crc32": 0})[:crc_offset]))
    package = PackageHeader.pack({**header, "crc32": crc}) + body
    return Image(_add_segment(firmware, package, slot.start), run_id, image_hash, program_hash, plan)


@functools.lru_cache(maxsize=4)
def _digest(firmware: bytes) -> hashlib._Hash:
    """Return the SHA-256 of the firmware. Callers copy it and add more data to the copy."""
    return hashlib.sha256(firmware)


def _package(
    program: bytes,
    data: Sequence[bytes],
    input_sets: Sequence[Sequence[bytes]],
    plan: RunPlan,
    program_hash: bytes,
) -> tuple[dict[str, object], bytes]:
    """Return the header fields without the three that depend on the whole, and the bytes after the header."""
    if len(input_sets) != plan.input_set_count or any(len(tensors) != plan.inputs_per_set for tensors in input_sets):
        raise ValueError("the plan and the input sets disagree")
    if plan.executions > MOST_EXECUTIONS:
        raise UsageError(f"{plan.executions:,} executions are more than {MOST_EXECUTIONS:,}", hint="repeat fewer times")
    method = plan.method.encode()
    if len(method) >= 32:
        raise UsageError(f"method name {plan.method!r} is {len(method)} bytes long; the image takes at most 31")
    if len(data) > MAX_DATA_FILES:
        raise UsageError(f"{len(data)} .ptd files are given; the image takes at most {MAX_DATA_FILES}")
    most = max(map(len, plan.event_sets), default=0)
    if most > EVENT_COUNTERS:
        raise UsageError(f"{most} PMU events are to be counted; an NPU has at most {EVENT_COUNTERS} counters")
    if not plan.event_sets or plan.cuts != tuple(sorted(set(plan.cuts))):
        raise ValueError("the plan has no event set, or its cuts are not ascending")

    chunks: list[bytes] = []
    position = PackageHeader.size

    def place(data: bytes) -> int:
        nonlocal position
        padding = -position % PACKAGE_ALIGNMENT
        chunks.extend((bytes(padding), data))
        offset = position + padding
        position = offset + len(data)
        return offset

    def place_all(parts: Iterable[bytes]) -> int:
        return place(b"".join([InputRef.pack({"offset": place(part), "size": len(part)}) for part in parts]))

    program_offset = place(program)
    data_offset = place_all(data)
    inputs_offset = place_all(tensor for tensors in input_sets for tensor in tensors)
    unused = (0,) * EVENT_COUNTERS
    events = [EventSet.pack({"events": (*counted, *unused)[:EVENT_COUNTERS]}) for counted in plan.event_sets]
    event_sets_offset = place(b"".join(events))
    cuts_offset = place(b"".join(Cut.pack({"delegate": cut.delegate, "offset": cut.offset}) for cut in plan.cuts))
    place(b"")  # makes the package's size a multiple of the alignment, so that the data after it is aligned
    header: dict[str, object] = {
        "magic": PACKAGE_MAGIC,
        "version": PACKAGE_VERSION,
        "total_size": position,
        "program_offset": program_offset,
        "program_size": len(program),
        "data_offset": data_offset,
        "data_count": len(data),
        "inputs_offset": inputs_offset,
        "input_set_count": plan.input_set_count,
        "inputs_per_set": plan.inputs_per_set,
        "repeat": plan.repeat,
        "npu_timeout_ms": plan.npu_timeout_ms,
        "flags": plan.flags,
        "event_sets_offset": event_sets_offset,
        "event_set_count": len(plan.event_sets),
        "cuts_offset": cuts_offset,
        "cut_count": len(plan.cuts),
        "method": method.ljust(32, b"\0"),
        "program_hash": program_hash,
        "memory_mode": plan.memory_mode,
        "fast_scratch_size": plan.fast_scratch_bytes,
        "cpu_hz": plan.clocks.cpu_hz,
        "peripheral_hz": plan.clocks.peripheral_hz,
        "baud": plan.clocks.baud,
    }
    return header, b"".join(chunks)


def _add_segment(elf: bytes, data: bytes, address: int) -> bytes:
    """Append a loadable segment (with a section) that has `data` at `address`.

    The program headers, the section headers and the section names move to the end of the file, where they can grow;
    nothing else moves.
    """
    ehdr = list(_EHDR.unpack_from(elf))
    phoff, shoff, phnum, shnum, shstrndx = ehdr[5], ehdr[6], ehdr[10], ehdr[12], ehdr[13]
    phdrs = elf[phoff : phoff + phnum * _PHDR.size]
    shdrs = [list(_SHDR.unpack_from(elf, shoff + index * _SHDR.size)) for index in range(shnum)]

    names_offset, names_size = shdrs[shstrndx][4], shdrs[shstrndx][5]
    names = elf[names_offset : names_offset + names_size]
    name_index = len(names)
    names += SECTION_NAME.encode() + b"\0"

    out = bytearray(elf)

    def append(chunk: bytes, alignment: int) -> int:
        out.extend(bytes(-len(out) % alignment))
        offset = len(out)
        out.extend(chunk)
        return offset

    data_offset = append(data, PACKAGE_ALIGNMENT)
    shdrs[shstrndx][4] = append(names, 1)
    shdrs[shstrndx][5] = len(names)
    shdrs.append([name_index, _SHT_PROGBITS, _SHF_ALLOC, address, data_offset, len(data), 0, 0, PACKAGE_ALIGNMENT, 0])
    phdr = _PHDR.pack(_PT_LOAD, data_offset, address, address, len(data), len(data), _PF_R, PACKAGE_ALIGNMENT)
    ehdr[5] = append(phdrs + phdr, 4)
    ehdr[6] = append(b"".join(_SHDR.pack(*fields) for fields in shdrs), 4)
    ehdr[10] = phnum + 1
    ehdr[12] = shnum + 1
    _EHDR.pack_into(out, 0, *ehdr)
    return bytes(out)
