"""The binary formats shared by the harness and the firmware, defined once.

Two formats live here: the *package* (what `ethos_hil.harness.image.pack` adds to the firmware's ELF: program, inputs
and run plan) and the *frames* the firmware sends back over its UART. The C++ side is generated from this file:

    python -m ethos_hil.harness.image.formats > firmware/link/formats.h

and a test keeps the committed header equal to what this module generates. Everything is little-endian, every field
is naturally aligned, and there is no implicit padding. docs/formats.md describes both formats in prose.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Mapping
from typing import Any

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.npu.ethos_u import FAMILIES

_CODES = {"u8": "B", "u16": "H", "u32": "I", "u64": "Q"}
_CPP_TYPES = {"u8": "std::uint8_t", "u16": "std::uint16_t", "u32": "std::uint32_t", "u64": "std::uint64_t"}


@dataclass(frozen=True)
class Field:
    """One field: an unsigned integer, an array of them, or (for u8 arrays) raw bytes."""

    name: str
    type: str
    doc: str
    count: int = 1

    @property
    def code(self) -> str:
        if self.count == 1:
            return _CODES[self.type]
        return f"{self.count}s" if self.type == "u8" else f"{self.count}{_CODES[self.type]}"


@dataclass(frozen=True)
class Struct:
    """A fixed-size record, packed and unpacked by name."""

    name: str
    doc: str
    fields: tuple[Field, ...]

    @property
    def _struct(self) -> struct.Struct:
        return struct.Struct("<" + "".join(field.code for field in self.fields))

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self._struct.size

    def offset_of(self, name: str) -> int:
        """Return the byte offset of a field."""
        before: list[str] = []
        for field in self.fields:
            if field.name == name:
                return struct.calcsize("<" + "".join(before))
            before.append(field.code)
        raise KeyError(f"{self.name} has no field {name!r}")

    def pack(self, values: Mapping[str, Any]) -> bytes:
        """Return the bytes of the record. `values` must have every field, and nothing else."""
        if values.keys() != {field.name for field in self.fields}:
            raise KeyError(f"{self.name} takes exactly {[field.name for field in self.fields]}")
        flat: list[Any] = []
        for field in self.fields:
            value = values[field.name]
            if field.count > 1 and field.type != "u8":
                flat.extend(value)
            else:
                flat.append(value)
        return self._struct.pack(*flat)

    def unpack(self, data: bytes, offset: int = 0) -> dict[str, Any]:
        """Return the fields by name. Raises struct.error when `data` is too short."""
        flat = iter(self._struct.unpack_from(data, offset))
        values: dict[str, Any] = {}
        for field in self.fields:
            if field.count > 1 and field.type != "u8":
                values[field.name] = tuple(next(flat) for _ in range(field.count))
            else:
                values[field.name] = next(flat)
        return values


PACKAGE_MAGIC = b"EHILPKG\0"
PACKAGE_VERSION = 6
PACKAGE_ALIGNMENT = 32
"""Alignment of the program and of every input: the NPU needs 16, a Cortex-M55 cache line has 32."""
MAX_DATA_FILES = 8
"""The most .ptd files beside a program. ExecuTorch writes one for each tag of external data."""
FAST_MEMORY_ID = 3
"""The planned memory that is to be fast (examples/arm/executor_runner since executorch#21774: mem_id 3)."""
PROTOCOL_VERSION = 5
MAX_RANK = 16
"""ExecuTorch's own limit on tensor rank (runtime/core/portable_type/tensor_impl.h)."""
PRINTABLE_MARK = ord("~")
"""First character of each line that is a frame, on a printable link."""
MAX_FRAME_PAYLOAD = 1024
"""Bytes of payload in one frame, before CRC and COBS. Longer data is sent as several DATA frames."""
MAILBOX_MAGIC = b"EHILMON\0"
MAX_CHUNK = 1024
"""Bytes of a package in one frame to the device."""
MAX_COMMAND = 32
"""Bytes of payload in another frame to the device."""
EVENT_COUNTERS = max(family.event_counters for family in FAMILIES)
"""The most PMU event counters that an NPU has. Others have only the first of them."""

PackageHeader = Struct(
    "PackageHeader",
    "First bytes of the package. Offsets are from the start of the package.",
    (
        Field("magic", "u8", "PACKAGE_MAGIC", 8),
        Field("version", "u32", "PACKAGE_VERSION"),
        Field("total_size", "u32", "bytes of the whole package, header included"),
        Field("program_offset", "u32", "the .pte, aligned to PACKAGE_ALIGNMENT"),
        Field("program_size", "u32", "bytes"),
        Field("data_offset", "u32", "data_count InputRef records: the .ptd files, each aligned to PACKAGE_ALIGNMENT"),
        Field("data_count", "u32", "at most MAX_DATA_FILES"),
        Field("inputs_offset", "u32", "input_set_count x inputs_per_set InputRef records"),
        Field("input_set_count", "u32", "input sets, run one after the other"),
        Field("inputs_per_set", "u32", "tensors in each set, in the order of the method's inputs"),
        Field("repeat", "u32", "times each input set is executed"),
        Field("npu_timeout_ms", "u32", "bound on the wait for one NPU job"),
        Field("flags", "u32", "PackageFlag bits"),
        Field("event_sets_offset", "u32", "event_set_count EventSet records, aligned to 4"),
        Field("event_set_count", "u32", "at least 1; execution n of an input set counts set n modulo this"),
        Field("cuts_offset", "u32", "cut_count Cut records, aligned to 4"),
        Field("cut_count", "u32", "ends of prefixes that each call of a delegate runs before the whole stream"),
        Field("method", "u8", "name of the execution plan, NUL-padded", 32),
        Field(
            "run_id",
            "u8",
            "random for every packed image; echoed, so that an old answer cannot pass for a new one",
            16,
        ),
        Field(
            "image_hash",
            "u8",
            "SHA-256 of the firmware ELF followed by the package with run_id, image_hash and crc32 zero",
            32,
        ),
        Field("program_hash", "u8", "SHA-256 of the .pte; the device computes it again", 32),
        Field("memory_mode", "u32", "DeviceMemoryMode: where the parts of the program go"),
        Field("fast_scratch_size", "u32", "bytes of fast scratch for DEDICATED_SRAM, otherwise 0"),
        Field("cpu_hz", "u32", "CPU clock in Hz, 0 for the one that the firmware knows"),
        Field("peripheral_hz", "u32", "clock of the UART in Hz, 0 for the one that the firmware knows"),
        Field("baud", "u32", "bits per second of the UART, 0 for the firmware's own"),
        Field("crc32", "u32", "zlib CRC-32 of this header before this field, then of all bytes after the header"),
    ),
)

InputRef = Struct(
    "InputRef",
    "Where one input tensor's bytes are, in the layout of its dim_order; or where a file is.",
    (Field("offset", "u32", "from the start of the package"), Field("size", "u32", "bytes")),
)

EventSet = Struct(
    "EventSet",
    "What the NPU's event counters count.",
    (Field("events", "u16", "PMU event number for each event counter, 0 for an unused one", EVENT_COUNTERS),),
)

Cut = Struct(
    "Cut",
    "The end of a prefix of a delegate's command stream. Cuts are in ascending order of delegate, then of offset.",
    (
        Field("delegate", "u32", "index into the method's delegates"),
        Field("offset", "u32", "byte of the register command stream where a STOP stands in for the command"),
    ),
)


class PackageFlag(enum.IntFlag):
    """Bits of PackageHeader.flags."""

    SEND_DELEGATE_OUTPUTS = 1
    PRINTABLE_LINK = 2
    TIME_STEPS = 4
    STAY = 8


class DeviceMemoryMode(enum.IntEnum):
    """Where the NPU's memories are: Vela's memory modes, under Vela's names."""

    SHARED_SRAM = 0
    SRAM_ONLY = 1
    DEDICATED_SRAM = 2


class FrameType(enum.IntEnum):
    """First byte of every frame."""

    HELLO = 1
    LOG = 2
    LOADED = 3
    RUN_BEGIN = 4
    TENSOR = 5
    DATA = 6
    COUNTERS = 7
    RUN_END = 8
    ERROR = 9
    FAULT = 10
    END = 11
    STEP = 12


LAST_FRAME_TYPE = int(max(FrameType))
"""Types are 1 to this one: what the device's own decoder takes for a frame."""


class HostFrameType(enum.IntEnum):
    """First byte of every frame to the device."""

    SYNC = 1
    """Are you there? HostHeader.upload is a number that READY repeats."""
    BEGIN = 2
    """Start an upload; the payload is an Upload."""
    CHUNK = 3
    """Bytes of the package."""
    RUN = 4
    """Run what was uploaded."""
    SPEED = 5
    """Change the speed of the line; the payload is a Speed."""


class MonitorFrameType(enum.IntEnum):
    """First byte of every frame of the monitor. These are not frames of a run: see FrameType."""

    READY = 32
    RECEIVED = 33
    REFUSED = 34
    STARTED = 35
    SPEED = 36


class Refusal(enum.IntEnum):
    """Why the monitor does not do what a frame asks for."""

    COMMAND = 1
    """It does not know the command, or its payload has another size."""
    WINDOW = 2
    """The package is larger than its window."""
    INCOMPLETE = 3
    """Bytes of the package are missing, or it is another upload's."""
    DIGEST = 4
    """What is in memory is not what was sent."""


class StepPart(enum.IntEnum):
    """What the CPU did in a step: index into Step.parts."""

    INPUTS = 0
    CLEAN = 1
    START = 2
    WAIT = 3
    END = 4
    INVALIDATE = 5
    OUTPUTS = 6
    KERNEL = 7


class TensorRole(enum.IntEnum):
    """What a TENSOR frame announces."""

    OUTPUT = 0
    DELEGATE_OUTPUT = 1


class ErrorKind(enum.IntEnum):
    """Why the firmware stopped before an END with status 0."""

    PACKAGE = 1
    PROGRAM = 2
    UNSUPPORTED = 3
    OUT_OF_MEMORY = 4
    INPUT = 5
    NPU_MISMATCH = 6
    NPU_FAULT = 7
    NPU_TIMEOUT = 8
    KERNEL = 9
    MISMATCH = 10
    MEMORY = 11


FrameHeader = Struct(
    "FrameHeader",
    "Start of every frame. On the wire: COBS(header, payload, crc32 of both) followed by one zero byte; on a printable "
    "link PRINTABLE_MARK, base64(header, payload, crc32 of both), and a line feed.",
    (
        Field("type", "u8", "FrameType"),
        Field("reserved", "u8", "zero"),
        Field("sequence", "u16", "0 for the first frame, then one more each time, modulo 65536"),
    ),
)

Hello = Struct(
    "Hello",
    "Sent once, first.",
    (
        Field("protocol", "u16", "PROTOCOL_VERSION"),
        Field("board", "u16", "number of the system on chip: 300, 310 or 320"),
        Field("cpu_hz", "u32", "CPU clock in Hz"),
        Field("uart", "u32", "address of the UART that sends this"),
        Field("npu_id", "u32", "the NPU's ID register"),
        Field("npu_config", "u32", "the NPU's CONFIG register"),
        Field("run_id", "u8", "as in the package", 16),
        Field("image_hash", "u8", "as in the package", 32),
        Field("program_hash", "u8", "SHA-256 of the program, computed on the device", 32),
    ),
)

Log = Struct(
    "Log",
    "A console line: this, then UTF-8 text to the end of the payload.",
    (Field("level", "u32", "0 debug, 1 info, 2 error"),),
)

Loaded = Struct(
    "Loaded",
    "Sent once, when the program has been checked and memory laid out.",
    (
        Field("inputs", "u32", "of the method"),
        Field("outputs", "u32", "of the method"),
        Field("instructions", "u32", "of the method's chain"),
        Field("delegates", "u32", "of the method"),
        Field("planned_bytes", "u32", "planned memory of the method"),
        Field("scratch_bytes", "u32", "largest NPU scratch of its delegates"),
        Field("fast_scratch_bytes", "u32", "fast scratch of the NPU, 0 without one"),
        Field("sram_used", "u32", "bytes of the SRAM pool in use"),
        Field("sram_size", "u32", "bytes of the SRAM pool"),
        Field("ddr_used", "u32", "bytes of the DDR pool in use, the package excluded"),
        Field("ddr_size", "u32", "bytes of the DDR pool, the package excluded"),
        Field("stack_size", "u32", "bytes of the main stack"),
    ),
)

RunBegin = Struct("RunBegin", "Starts one execution.", (Field("input_set", "u32", ""), Field("repeat", "u32", "")))

TensorInfo = Struct(
    "TensorInfo",
    "Announces a tensor: this, then rank u32 sizes. Its bytes follow in DATA frames, unless same_as says otherwise.",
    (
        Field("role", "u8", "TensorRole"),
        Field("dtype", "u8", "ExecuTorch ScalarType; for delegate outputs that of the tensor they are copied into"),
        Field("rank", "u8", "number of sizes that follow, at most MAX_RANK"),
        Field("same_as", "u8", "0; for n, the bytes are those of method output n - 1 of this run, and no DATA follows"),
        Field("index", "u16", "output index of the method, or of the delegate"),
        Field("instruction", "u16", "instruction index of the DelegateCall, 0 for a method output"),
        Field("nbytes", "u32", "bytes in the DATA frames that follow"),
        Field("crc32", "u32", "zlib CRC-32 of those bytes"),
        Field("dim_order", "u8", "dim_order of the tensor, rank entries, the rest zero", MAX_RANK),
    ),
)

Counters = Struct(
    "Counters",
    "NPU counters of one job: a DelegateCall, or a prefix of its command stream. Prefixes come first.",
    (
        Field("instruction", "u32", "instruction index of the DelegateCall"),
        Field("delegate", "u32", "index into the method's delegates"),
        Field("cycles", "u64", "PMCCNTR over the job"),
        Field(
            "events",
            "u32",
            "the event counters, in the order of the execution's event set; 0 where the NPU has none",
            EVENT_COUNTERS,
        ),
        Field("overflows", "u32", "PMOVSSET: bit i for event counter i, bit 31 for the cycle counter; it has wrapped"),
        Field("stream_size", "u32", "bytes of the command stream that ran, its STOP included"),
    ),
)

Step = Struct(
    "Step",
    "With PackageFlag::TIME_STEPS: the CPU's cycles for a KernelCall or a DelegateCall, after its other frames.",
    (
        Field("instruction", "u32", "instruction index of the call"),
        Field("parts", "u32", "cycles of each StepPart, modulo 2^32; of a call's last job, if prefixes ran before", 8),
    ),
)

RunEnd = Struct(
    "RunEnd",
    "Ends one execution.",
    (
        Field("input_set", "u32", ""),
        Field("repeat", "u32", ""),
        Field("stack_used", "u32", "most bytes of the main stack in use since the start"),
    ),
)

Error = Struct(
    "Error",
    "Why the firmware stopped: this, then UTF-8 text to the end of the payload. END with a non-zero status follows.",
    (
        Field("kind", "u32", "ErrorKind"),
        Field("needed", "u32", "OUT_OF_MEMORY: bytes needed; NPU_*: STATUS register; otherwise 0"),
        Field("available", "u32", "OUT_OF_MEMORY: bytes available; NPU_*: QREAD register; otherwise 0"),
    ),
)

FaultInfo = Struct(
    "FaultInfo",
    "An unhandled CPU exception: stacked frame and fault registers. END with a non-zero status follows.",
    (
        *(Field(name, "u32", "stacked") for name in ("r0", "r1", "r2", "r3", "r12", "lr", "pc", "xpsr")),
        Field("exception", "u32", "IPSR: 3 HardFault, 4 MemManage, 5 BusFault, 6 UsageFault, 7 SecureFault"),
        *(Field(name, "u32", "fault register") for name in ("cfsr", "hfsr", "mmfar", "bfar", "sfsr", "sfar")),
    ),
)

End = Struct(
    "End",
    "The last frame. Without it the run is not valid.",
    (
        Field("status", "u32", "0 when every run of the plan was executed, otherwise 1"),
        Field("runs", "u32", "executions finished"),
        Field("frames", "u32", "frames sent, this one included"),
    ),
)

Mailbox = Struct(
    "Mailbox",
    "What a loader writes to the symbol `monitor_mailbox` before it starts the firmware, so that the monitor stays.",
    (
        Field("magic", "u8", "MAILBOX_MAGIC", 8),
        Field("cpu_hz", "u32", "CPU clock in Hz, 0 for the one that the firmware knows"),
        Field("peripheral_hz", "u32", "clock of the UART in Hz, 0 for the one that the firmware knows"),
        Field("baud", "u32", "bits per second of the UART now, 0 for the firmware's own"),
        Field("first_baud", "u32", "the same at the start"),
        Field("crc32", "u32", "zlib CRC-32 of the fields before"),
    ),
)

HostHeader = Struct(
    "HostHeader",
    "Start of every frame to the device. On the wire: COBS(header, payload, crc32 of the payload) and one zero byte.",
    (
        Field("type", "u8", "HostFrameType"),
        Field("reserved", "u8", "zero", 3),
        Field("upload", "u32", "a number of the host's for one upload, not 0; of SYNC one to repeat"),
        Field("offset", "u32", "of CHUNK: its first byte's place in the package; otherwise 0"),
        Field("size", "u32", "bytes of payload, at most MAX_CHUNK for CHUNK and MAX_COMMAND otherwise"),
        Field("crc32", "u32", "zlib CRC-32 of the fields before"),
    ),
)

Upload = Struct(
    "Upload",
    "Payload of BEGIN.",
    (Field("size", "u32", "bytes of the package"), Field("crc32", "u32", "zlib CRC-32 of all of them")),
)

Speed = Struct("Speed", "Payload of SPEED, to the device and back.", (Field("baud", "u32", "bits per second"),))

Ready = Struct(
    "Ready",
    "The monitor waits for a package. Sent at its start, and in answer to SYNC.",
    (
        Field("nonce", "u32", "HostHeader.upload of SYNC; 0 at the start"),
        Field("protocol", "u16", "PROTOCOL_VERSION"),
        Field("board", "u16", "as in Hello"),
        Field("cpu_hz", "u32", "CPU clock in Hz"),
        Field("baud", "u32", "bits per second, 0 for the firmware's own"),
        Field("npu_id", "u32", "the NPU's ID register; 0 where none answers"),
        Field("npu_config", "u32", "the NPU's CONFIG register"),
        Field("window", "u32", "bytes that a package may have"),
        Field("lost", "u32", "bytes that the UART says it lost, since the start"),
        Field("code_crc32", "u32", "zlib CRC-32 of the firmware's code and constants in memory; 0 at the start"),
    ),
)

Received = Struct(
    "Received",
    "How much of a package has arrived. Sent for each BEGIN and CHUNK, and for damaged frames of an upload.",
    (
        Field("upload", "u32", "the number of the upload, 0 when there is none"),
        Field("next", "u32", "bytes that have arrived, from the start of the package"),
        Field("damaged", "u32", "frames that arrived damaged, since the start"),
        Field("lost", "u32", "bytes that the UART says it lost, since the start"),
    ),
)

Refused = Struct(
    "Refused",
    "The monitor does not do what a frame asks for.",
    (
        Field("reason", "u32", "Refusal"),
        Field("expected", "u32", "size or checksum that was expected"),
        Field("found", "u32", "size or checksum that was found"),
    ),
)

Started = Struct(
    "Started", "A package runs. HELLO follows.", (Field("crc32", "u32", "zlib CRC-32 of the package in memory"),)
)

STRUCTS = tuple(value for value in globals().values() if isinstance(value, Struct))
ENUMS = tuple(
    value for value in globals().values() if isinstance(value, type) and issubclass(value, enum.IntEnum | enum.IntFlag)
)
_CONSTANTS = {name: value for name, value in globals().items() if name.isupper() and isinstance(value, int)}
"""All that is defined above, in that order."""


def cpp_header() -> str:
    """Return the text of firmware/link/formats.h."""
    lines = [
        "// Generated from harness/image/formats.py by `python -m ethos_hil.harness.image.formats`. Do not edit.",
        "#pragma once",
        "",
        "#include <cstddef>",
        "#include <cstdint>",
        "",
        "namespace ethos_hil {",
        "",
    ]
    for name in ("PACKAGE_MAGIC", "MAILBOX_MAGIC"):
        magic = ", ".join(f"0x{byte:02x}" for byte in globals()[name])
        lines.append(f"constexpr std::uint8_t {name}[{len(globals()[name])}] = {{{magic}}};")
    lines += [f"constexpr std::uint32_t {name} = {value};" for name, value in _CONSTANTS.items()]
    for enumeration in ENUMS:
        lines += ["", f"enum class {enumeration.__name__} : std::uint32_t {{"]
        lines += [f"  {member.name} = {int(member)}," for member in enumeration]
        lines.append("};")
    for record in STRUCTS:
        lines += ["", f"// {record.doc}", f"struct {record.name} {{"]
        for field in record.fields:
            suffix = f"[{field.count}]" if field.count > 1 else ""
            comment = f"  // {field.doc}" if field.doc else ""
            lines.append(f"  {_CPP_TYPES[field.type]} {field.name}{suffix};{comment}")
        lines.append("};")
        lines.append(f"static_assert(sizeof({record.name}) == {record.size});")
        lines += [
            f"static_assert(offsetof({record.name}, {field.name}) == {record.offset_of(field.name)});"
            for field in record.fields
        ]
    lines += ["", "}  // namespace ethos_hil", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(cpp_header(), end="")
