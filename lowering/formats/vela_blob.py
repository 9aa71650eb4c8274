"""The Ethos-U delegate blob: the data that ExecuTorch's Arm backend stores in a .pte for one partition.

The blob is a sequence of blocks, each a 16-byte name (NUL padded), a little-endian u32 length, a byte that says where
its data is, 11 zero bytes, and the data padded to 16 bytes, in this order: vela_bin_stream (empty), cmd_data,
weight_data, scratch_size, inputs, outputs, vela_end_stream (empty). The data of cmd_data and weight_data may be in a
.ptd; the block then has the name that it has there. `cmd_data` is the driver payload: the word "COP1", then actions of
which the last starts the register command stream. Source: executorch 1.4.1 and 1.5.1, backends/arm/arm_vela.py, and
blobs they made.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from ethos_hil.base.dataclasses import dataclass
from ethos_hil.base.errors import UsageError

_BLOCKS = ("vela_bin_stream", "cmd_data", "weight_data", "scratch_size", "inputs", "outputs", "vela_end_stream")
BLOB_MAGIC = _BLOCKS[0].encode()
_ALIGNMENT = 16
_HEADER = struct.Struct("<16sIB11s")
_HERE, _EXTERNAL = 0, 1
_MAY_BE_EXTERNAL = ("cmd_data", "weight_data")
_KEY_BYTES = 64
_SCRATCH_REGION = 1
_LAST_KNOWN_REGION = 2
_IO = struct.Struct("<9i")  # shape[6], element size, offset, region
_ELEMENT_SIZES = (1, 2, 4, 8)

_MAGIC = b"COP1"
_DIRECT_DRIVE = b"COP2"
_ACTION_CONFIG = 1
_ACTION_STREAM = 2
_ACTION_NOP = 5


@dataclass(frozen=True)
class VelaIo:
    """One input or output of a delegate.

    Attributes:
        shape: six dimensions, left-padded with ones.
        elem_size: bytes per element.
        offset: bytes from the start of the scratch area.
        region: the base pointer Vela assigned; the runtime ignores it and uses the scratch area.
    """

    shape: tuple[int, ...]
    elem_size: int
    offset: int
    region: int

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.elements * self.elem_size

    def of(self, scratch: np.ndarray) -> np.ndarray:
        """A view of its bytes in the scratch area (uint8)."""
        return scratch[self.offset : self.offset + self.size]


@dataclass(frozen=True)
class VelaBlob:
    """A parsed and checked delegate blob.

    Attributes:
        command_data: the driver payload, "COP1" first.
        weights: read-only data that the stream addresses as region 0.
        scratch_size: bytes of the area that the stream addresses as region 1; inputs and outputs lie in it.
        inputs: in the order of the delegate call's arguments.
        outputs: in the order of the delegate call's arguments, after the inputs.
        config_word: the CONFIG value that the stream was compiled for (MACs, SHRAM, product).
        id_word: the ID value that it was compiled for (architecture version).
        stream_offset: byte at which the register command stream starts in `command_data`.
        stream_size: its bytes.
    """

    command_data: bytes
    weights: bytes
    scratch_size: int
    inputs: tuple[VelaIo, ...]
    outputs: tuple[VelaIo, ...]
    config_word: int
    id_word: int
    stream_offset: int
    stream_size: int

    @cached_property
    def command_stream(self) -> bytes:
        """The register command stream alone, without the driver payload's header."""
        return self.command_data[self.stream_offset : self.stream_offset + self.stream_size]

    @classmethod
    def parse(cls, data: bytes | bytearray | memoryview, where: str = "delegate blob") -> VelaBlob:
        """Read and check a blob. Raises UsageError, which says what was expected and found.

        Args:
            data: the whole blob, header and footer included.
            where: the blob's name in an error, for example "model.pte, delegate 0".
        """
        blocks = _read_blocks(bytes(data), where)
        if len(blocks["scratch_size"]) != 4:
            raise _bad(where, f"scratch_size has {len(blocks['scratch_size'])} bytes, expected 4")
        (scratch_size,) = struct.unpack("<I", blocks["scratch_size"])
        command_data = blocks["cmd_data"]
        try:
            driver = DriverPayload.parse(command_data)
        except DirectDrivePayload as error:
            hint = "lower the model without --direct_drive: Vela's --cop-format=COP2 and --separate-io-regions"
            raise UsageError(f"{where}: {error}", hint=hint) from error
        except BadPayload as error:
            raise _bad(where, str(error)) from error
        return cls(
            command_data=command_data,
            weights=blocks["weight_data"],
            scratch_size=scratch_size,
            inputs=_read_ios(blocks["inputs"], "inputs", scratch_size, where),
            outputs=_read_ios(blocks["outputs"], "outputs", scratch_size, where),
            config_word=driver.config_word,
            id_word=driver.id_word,
            stream_offset=driver.offset,
            stream_size=len(driver.stream),
        )


def pack(
    command_data: bytes, weights: bytes, scratch_size: int, inputs: Sequence[VelaIo], outputs: Sequence[VelaIo]
) -> bytes:
    """The blob with these contents, as ExecuTorch packs what Vela writes (a test compares)."""
    contents = (b"", command_data, weights, struct.pack("<I", scratch_size), _pack_ios(inputs), _pack_ios(outputs), b"")
    blob = bytearray()
    for name, data in zip(_BLOCKS, contents, strict=True):
        blob += _block(name, data)
    return bytes(blob)


def _block(name: str, data: bytes) -> bytes:
    return _HEADER.pack(name.encode()[:15], len(data), _HERE, b"") + data + bytes(-len(data) % _ALIGNMENT)


def inlined(data: bytes, find: Callable[[str, str], bytes]) -> bytes:
    """Return a blob with all of its blocks in it; as it is, if they are.

    Args:
        data: the blob. Damage is left in it.
        find: returns the data of a block, by the block's name and the name that it has in a .ptd.
    """
    blob, at = bytearray(), 0
    while at + _HEADER.size <= len(data):
        raw, length, place, _ = _HEADER.unpack_from(data, at)
        name, begin = raw.rstrip(b"\0").decode("latin-1"), at + _HEADER.size
        at = begin + -(-length // _ALIGNMENT) * _ALIGNMENT
        key = data[begin : begin + length]
        if place == _EXTERNAL and name in _MAY_BE_EXTERNAL and len(key) == _KEY_BYTES and key.isalnum():
            blob += _block(name, find(name, key.decode("ascii", "replace")))
        else:
            blob += data[begin - _HEADER.size : at]
    return bytes(blob + data[at:])


def _pack_ios(ios: Sequence[VelaIo]) -> bytes:
    return struct.pack("<i", len(ios)) + b"".join(_IO.pack(*io.shape, io.elem_size, io.offset, io.region) for io in ios)


_NEWER = "it may be made by a newer ExecuTorch; lower the model again, with the one that is installed here"


def _bad(where: str, problem: str) -> UsageError:
    return UsageError(
        f"{where}: not a usable Ethos-U delegate: {problem}",
        hint="the file is damaged or not made by ExecuTorch's Arm backend; lower the model again",
    )


def _read_blocks(data: bytes, where: str) -> dict[str, bytes]:
    position = 0
    blocks: dict[str, bytes] = {}
    for name in _BLOCKS:
        if position + 32 > len(data):
            raise _bad(where, f"{len(data)} bytes end inside the header of block {name!r} at byte {position}")
        raw, length, place, reserved = _HEADER.unpack_from(data, position)
        position += _HEADER.size
        # The writer cuts a name after 15 characters.
        if raw != name.encode()[:15].ljust(16, b"\0"):
            raise _bad(where, f"expected block {name!r} at byte {position - 32}, found {raw.rstrip(bytes(1))!r}")
        if name.startswith("vela_") and length:
            raise _bad(where, f"marker block {name!r} claims {length} bytes")
        if place == _EXTERNAL:
            raise _bad(where, f"block {name!r} is in another file, under {data[position : position + length]!r:.80}")
        if place != _HERE or any(reserved):
            found = f"{place} at byte 20 of its header, and {reserved.hex()} after it"
            raise UsageError(f"{where}: block {name!r} has {found}, which this program does not know", hint=_NEWER)
        if length > len(data) - position:
            raise _bad(where, f"block {name!r} claims {length} bytes, {len(data) - position} are left")
        blocks[name] = data[position : position + length]
        position += -(-length // _ALIGNMENT) * _ALIGNMENT
    if position != len(data):
        raise _bad(where, f"the last block ends at byte {position} of {len(data)}")
    return blocks


class BadPayload(ValueError):
    """A driver payload is malformed. The message says what was expected and found."""


class DirectDrivePayload(BadPayload):
    """A payload for Linux, whose driver is given each command, and no runtime of a microcontroller takes."""

    def __init__(self) -> None:
        """Say so."""
        super().__init__("it is compiled for direct drive (COP2) from Linux, which no microcontroller's runtime takes")


@dataclass(frozen=True)
class DriverPayload:
    """The actions that Vela writes for the driver.

    Attributes:
        config_word: the CONFIG value that the stream was compiled for (MACs, SHRAM, product).
        id_word: the ID value that it was compiled for (architecture version).
        offset: byte at which the register command stream starts in the payload.
        stream: the register command stream.
    """

    config_word: int
    id_word: int
    offset: int
    stream: bytes

    @classmethod
    def parse(cls, data: bytes) -> DriverPayload:
        """Read a payload. Raises BadPayload."""
        if data[:4] == _DIRECT_DRIVE:
            raise DirectDrivePayload
        if data[:4] != _MAGIC:
            raise BadPayload(f"cmd_data starts with {data[:4]!r}, expected {_MAGIC!r}")
        if len(data) % 4:
            raise BadPayload(f"cmd_data has {len(data)} bytes, expected a multiple of 4")
        words = struct.unpack(f"<{len(data) // 4}I", data)
        configuration: tuple[int, int] | None = None
        at = 1
        while at < len(words):
            action = words[at] & 0xFF
            if action == _ACTION_NOP:
                at += 1
            elif action == _ACTION_CONFIG and at + 2 < len(words):
                configuration = (words[at + 1], words[at + 2])
                at += 3
            elif action == _ACTION_STREAM:
                # Length in words: bits 31-16 are its low half, bits 15-8 its high part.
                length = (words[at] >> 8 & 0xFF) << 16 | words[at] >> 16
                start = at + 1
                if configuration is None:
                    raise BadPayload("cmd_data has no configuration before its command stream")
                if not length or length > len(words) - start:
                    raise BadPayload(f"the command stream claims {length} words, {len(words) - start} are there")
                return cls(*configuration, start * 4, data[start * 4 : (start + length) * 4])
            else:
                raise BadPayload(f"cmd_data has action 0x{words[at]:08x} at byte {at * 4}, expected 1, 2 or 5")
        raise BadPayload("cmd_data has no command stream")


def _read_ios(data: bytes, name: str, scratch_size: int, where: str) -> tuple[VelaIo, ...]:
    if len(data) < 4:
        raise _bad(where, f"block {name!r} has {len(data)} bytes, expected at least 4")
    (count,) = struct.unpack_from("<i", data)
    if count < 0 or len(data) != 4 + count * _IO.size:
        raise _bad(where, f"block {name!r} has {len(data)} bytes for {count} entries of {_IO.size}")
    ios = []
    for index in range(count):
        *shape, elem_size, offset, region = _IO.unpack_from(data, 4 + index * _IO.size)
        io = VelaIo(tuple(shape), elem_size, offset, region)
        if min(shape) < 1 or elem_size not in _ELEMENT_SIZES:
            raise _bad(where, f"{name}[{index}] has shape {tuple(shape)} of {elem_size}-byte elements")
        if region > _LAST_KNOWN_REGION:
            raise _bad(where, f"{name}[{index}] is in region {region}, expected the scratch area, {_SCRATCH_REGION}")
        if offset < 0 or offset + io.size > scratch_size:
            raise _bad(where, f"{name}[{index}] is {io.size} bytes at {offset}, the scratch area has {scratch_size}")
        ios.append(io)
    return tuple(ios)
