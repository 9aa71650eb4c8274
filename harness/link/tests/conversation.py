"""A conversation as the firmware holds it, built frame by frame, so that a test can drop, change or add frames."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import numpy as np

from ethos_hil.harness.image.formats import (
    MAX_FRAME_PAYLOAD,
    MAX_RANK,
    PROTOCOL_VERSION,
    Counters,
    End,
    Error,
    ErrorKind,
    FaultInfo,
    FrameType,
    Hello,
    Loaded,
    Log,
    RunBegin,
    RunEnd,
    Step,
    StepPart,
    TensorInfo,
    TensorRole,
)
from ethos_hil.harness.image.pack import Image, RunPlan
from ethos_hil.harness.link.frames import Frame, encode

Message = tuple[FrameType, bytes]

IMAGE = Image(
    elf=b"",
    run_id=bytes(range(16)),
    image_hash=bytes(range(32)),
    program_hash=bytes(range(32, 64)),
    plan=RunPlan(input_set_count=2, inputs_per_set=1, repeat=2),
)
OUTPUT = np.arange(2 * 3 * 4 * 40, dtype=np.float32).reshape(2, 3, 4, 40)
"""Needs four DATA frames."""
STACK_USED = 1234
DELEGATE_OUTPUT = np.arange(-3, 3, dtype=np.int8).reshape(1, 6)


def hello(**changes: object) -> Message:
    values = {
        "protocol": PROTOCOL_VERSION,
        "board": 300,
        "cpu_hz": 25_000_000,
        "uart": 0x59303000,
        "npu_id": 0x10066001,
        "npu_config": 0x1807,
        "run_id": IMAGE.run_id,
        "image_hash": IMAGE.image_hash,
        "program_hash": IMAGE.program_hash,
    }
    return FrameType.HELLO, Hello.pack(values | changes)


def loaded() -> Message:
    values = {field.name: number for number, field in enumerate(Loaded.fields)} | {"outputs": 1}
    return FrameType.LOADED, Loaded.pack(values)


def log(text: str) -> Message:
    return FrameType.LOG, Log.pack({"level": 1}) + text.encode()


def run_begin(input_set: int, repeat: int) -> Message:
    return FrameType.RUN_BEGIN, RunBegin.pack({"input_set": input_set, "repeat": repeat})


def run_end(input_set: int, repeat: int) -> Message:
    return FrameType.RUN_END, RunEnd.pack({"input_set": input_set, "repeat": repeat, "stack_used": STACK_USED})


def tensor(
    array: np.ndarray, dtype: int, role: int = TensorRole.OUTPUT, order: Sequence[int] = (), **changes: object
) -> list[Message]:
    """Return TENSOR and its DATA; `order` is the dim_order, `changes` replaces fields with wrong values."""
    order = tuple(order) or tuple(range(array.ndim))
    data = np.ascontiguousarray(array.transpose(order)).tobytes()
    values: dict[str, object] = {
        "role": role,
        "dtype": dtype,
        "rank": array.ndim,
        "same_as": 0,
        "index": 0,
        "instruction": 0,
        "nbytes": len(data),
        "crc32": zlib.crc32(data),
        "dim_order": bytes(order).ljust(MAX_RANK, b"\0"),
    }
    sizes = struct.pack(f"<{array.ndim}I", *array.shape)
    messages = [(FrameType.TENSOR, TensorInfo.pack(values | changes) + sizes)]
    for start in range(0, len(data), MAX_FRAME_PAYLOAD):
        messages.append((FrameType.DATA, data[start : start + MAX_FRAME_PAYLOAD]))
    return messages


def counters(**changes: object) -> Message:
    values: dict[str, object] = {
        "instruction": 5,
        "delegate": 0,
        "cycles": 1 << 33,
        "events": (0, 1, 2, 3, 4, 5, 6, 7),
        "overflows": 0,
        "stream_size": 64,
    }
    return FrameType.COUNTERS, Counters.pack(values | changes)


def step(instruction: int, **parts: int) -> Message:
    """Return what the CPU took for a call, by the names of StepPart."""
    times = [parts.get(part.name.lower(), 0) for part in StepPart]
    return FrameType.STEP, Step.pack({"instruction": instruction, "parts": times})


def execution(input_set: int, repeat: int) -> list[Message]:
    """Return everything from RUN_BEGIN to RUN_END."""
    return [
        run_begin(input_set, repeat),
        counters(),
        *tensor(DELEGATE_OUTPUT, 1, TensorRole.DELEGATE_OUTPUT, instruction=5),
        *tensor(OUTPUT, 6, order=(0, 2, 3, 1)),
        run_end(input_set, repeat),
    ]


def error(kind: ErrorKind, text: str, needed: int = 0, available: int = 0) -> Message:
    values = {"kind": kind, "needed": needed, "available": available}
    return FrameType.ERROR, Error.pack(values) + text.encode()


def fault(**changes: int) -> Message:
    values = {field.name: 0 for field in FaultInfo.fields}
    return FrameType.FAULT, FaultInfo.pack(values | changes)


def end(frames_before: int, status: int = 0, runs: int = 4) -> Message:
    return FrameType.END, End.pack({"status": status, "runs": runs, "frames": frames_before + 1})


def complete() -> list[Message]:
    """Return a complete conversation about IMAGE, from HELLO to END."""
    messages = [hello(), log("hello\nworld"), loaded()]
    for input_set in range(2):
        for repeat in range(2):
            messages += execution(input_set, repeat)
    return [*messages, end(len(messages))]


def wire(messages: Sequence[Message], *, printable: bool = False) -> list[bytes]:
    """Return each message as it goes over the wire, with its sequence number."""
    return [
        encode(Frame(kind, number & 0xFFFF, payload), printable=printable)
        for number, (kind, payload) in enumerate(messages)
    ]
