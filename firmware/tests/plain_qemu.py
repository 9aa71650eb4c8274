"""Boots an ELF on QEMU's mps3-an547 with nothing attached, and decodes its output.

This is a Corstone-300 without an NPU (its register block reads as zero), enough for everything except NPU jobs. The
decoder is written from docs/formats.md on purpose, instead of using the harness's: two readers of one format check each
other.
"""

from __future__ import annotations

import os
import re
import selectors
import struct
import subprocess
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobs import cobs

from ethos_hil.harness.image import formats
from ethos_hil.harness.image.formats import FrameType

PAYLOADS = {
    FrameType.HELLO: formats.Hello,
    FrameType.LOG: formats.Log,
    FrameType.LOADED: formats.Loaded,
    FrameType.RUN_BEGIN: formats.RunBegin,
    FrameType.TENSOR: formats.TensorInfo,
    FrameType.COUNTERS: formats.Counters,
    FrameType.RUN_END: formats.RunEnd,
    FrameType.ERROR: formats.Error,
    FrameType.FAULT: formats.FaultInfo,
    FrameType.END: formats.End,
    FrameType.STEP: formats.Step,
}


QEMU = ("qemu-system-arm", "-M", "mps3-an547", "-display", "none", "-monitor", "none")


def semihosting(command_line: str) -> list[str]:
    """QEMU's options for it."""
    return ["-semihosting-config", f"enable=on,target=native,arg={command_line}"]


@dataclass(frozen=True)
class Frame:
    """A frame: its fields by name, and the bytes after them (text, sizes or data)."""

    type: FrameType
    sequence: int
    fields: dict[str, Any]
    rest: bytes


@dataclass(frozen=True)
class Tensor:
    """A TENSOR frame with the data that followed it."""

    info: dict[str, Any]
    sizes: tuple[int, ...]
    data: bytes

    @property
    def order(self) -> tuple[int, ...]:
        """Of its dimensions in memory."""
        return tuple(self.info["dim_order"][: self.info["rank"]])


@dataclass(frozen=True)
class Conversation:
    """All frames up to END."""

    frames: tuple[Frame, ...]

    def all(self, frame_type: FrameType) -> list[Frame]:
        return [frame for frame in self.frames if frame.type is frame_type]

    def one(self, frame_type: FrameType) -> Frame:
        frames = self.all(frame_type)
        assert len(frames) == 1, f"{len(frames)} {frame_type.name} frames, expected one: {self}"
        return frames[0]

    def error(self) -> tuple[formats.ErrorKind, str]:
        """Kind and text of the one ERROR frame; END must report failure."""
        frame = self.one(FrameType.ERROR)
        assert self.one(FrameType.END).fields["status"] == 1
        return formats.ErrorKind(frame.fields["kind"]), frame.rest.decode()

    def check_error(self, kind: formats.ErrorKind, *words: str) -> str:
        """The one ERROR frame must be of a kind and say all words, END must report failure. Return the text."""
        found, text = self.error()
        assert found is kind, text
        assert [part for part in words if part not in text] == []
        return text

    def tensors(self) -> list[Tensor]:
        """Tensors in the order they were sent, their CRC checked."""
        tensors = []
        for position, frame in enumerate(self.frames):
            if frame.type is not FrameType.TENSOR:
                continue
            data = b""
            for follower in self.frames[position + 1 :]:
                if follower.type is not FrameType.DATA:
                    break
                data += follower.rest
            assert len(data) == frame.fields["nbytes"]
            assert zlib.crc32(data) == frame.fields["crc32"]
            sizes = struct.unpack(f"<{frame.fields['rank']}I", frame.rest)
            tensors.append(Tensor(frame.fields, sizes, data))
        return tensors

    def results(self) -> list[Tensor]:
        """Tensors of a run that ended well."""
        assert self.one(FrameType.END).fields["status"] == 0, self.frames[-2:]
        return self.tensors()


RunProgram = Callable[..., Conversation]
"""Packs a .pte with its input sets, and fields of ethos_hil.harness.image.pack.RunPlan by name, and boots the image."""


def decode(stream: bytes) -> list[Frame]:
    """Return the frames of a UART stream. Every one must be whole and valid."""
    frames = []
    for block in stream.split(b"\0")[:-1]:
        if not block:
            continue
        frame = cobs.decode(block)
        body, crc = frame[:-4], struct.unpack("<I", frame[-4:])[0]
        assert zlib.crc32(body) == crc
        header = formats.FrameHeader.unpack(body)
        payload = body[formats.FrameHeader.size :]
        assert len(payload) <= formats.MAX_FRAME_PAYLOAD
        layout = PAYLOADS.get(FrameType(header["type"]))
        fields = layout.unpack(payload) if layout else {}
        rest = payload[layout.size :] if layout else payload
        frames.append(Frame(FrameType(header["type"]), header["sequence"], fields, rest))
    return frames


def boot(elf: bytes, directory: Path, timeout: float = 10.0, options: Sequence[str] = ()) -> Conversation:
    """Boot `elf`, with more `options` for QEMU, and collect its frames up to END.

    Raises:
        AssertionError: END does not come in time, QEMU ends by itself, or the frames are not as they should be.
    """
    path = directory / "image.elf"
    path.write_bytes(elf)
    process = subprocess.Popen(
        [*QEMU, "-serial", "stdio", *options, "-kernel", str(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    stream = b""
    frames: list[Frame] = []
    try:
        assert process.stdout is not None
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not frames or frames[-1].type is not FrameType.END:
                left = deadline - time.monotonic()
                assert left > 0, f"no END frame within {timeout} s, last of {len(frames)}: {frames[-1:]}"
                if selector.select(left):
                    chunk = os.read(process.stdout.fileno(), 1 << 16)
                    assert chunk, f"QEMU ended before END, last of {len(frames)} frames: {frames[-1:]}"
                    stream += chunk
                    frames = decode(stream) if chunk.endswith(b"\0") else frames
    finally:
        process.kill()
        process.communicate()
    assert [frame.sequence for frame in frames] == [i & 0xFFFF for i in range(len(frames))]
    assert frames[-1].fields["frames"] == len(frames)
    return Conversation(tuple(frames))


@dataclass(frozen=True)
class Ended:
    """The end of a run of files under semihosting.

    Attributes:
        status: QEMU's exit status, which is the guest's.
        lines: of the console.
        uart: bytes of the UART, where a runner writes nothing.
    """

    status: int
    lines: tuple[str, ...]
    uart: bytes

    def errors(self) -> list[str]:
        """Lines that upstream's runner_utils.py takes for a failure."""
        return [line for line in self.lines if re.search("^[EF][: ]|Hard fault|Assertion", line)]


RunFiles = Callable[..., Ended]
"""Boots the firmware in a folder with a command line, as the simulator of a board with semihosting does."""


def run_files(elf: bytes, directory: Path, command_line: str, typed: bytes = b"", timeout: float = 20.0) -> Ended:
    """Boot `elf` with semihosting and its standard input, `directory` as its working folder, until it exits."""
    path = directory / "firmware.elf"
    path.write_bytes(elf)
    uart = directory / "uart.bin"
    done = subprocess.run(
        [*QEMU, "-serial", f"file:{uart}", *semihosting(command_line), "-kernel", str(path)],
        cwd=directory,
        input=typed,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout,
        check=False,
    )
    return Ended(done.returncode, tuple(done.stdout.decode("utf-8").splitlines()), uart.read_bytes())
