"""The seeds of the firmware's fuzzers: a folder of files for each, and the folder `board` for the virtual board."""

from __future__ import annotations

import hashlib
import random
import shutil
import struct
import warnings
from collections.abc import Iterator
from pathlib import Path

from ethos_hil.harness.image.formats import (
    Counters,
    End,
    Error,
    FaultInfo,
    FrameType,
    Hello,
    Loaded,
    Log,
    RunBegin,
    RunEnd,
    Step,
    TensorInfo,
)
from ethos_hil.harness.link.frames import Frame, encode
from ethos_hil.lowering.conditions.process import quiet
from ethos_hil.lowering.formats.pte_reader import Program
from ethos_hil.suites.lab.coverage import declared
from ethos_hil.suites.lab.damage import seed_programs

MAX_BYTES = 16 * 1024
"""Of a seed: the fuzzers make nothing longer."""
_CONTROL = 8  # bytes in front of a blob, as firmware/fuzz/delegate.cc has it
_CONVERSATIONS = 20


def version() -> str:
    """Return a digest of what the seeds are made from. When it changes, they are made again."""
    here = Path(__file__)
    files = (here, here.with_name("seed_programs.py"), *sorted(here.parents[2].glob("ops/*.py")))
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def make(folder: Path) -> None:
    """Write all seeds in place of those that are there."""
    shutil.rmtree(folder, ignore_errors=True)
    folders = {name: folder / name for name in ("program", "delegate", "frames", "monitor", "board")}
    for path in folders.values():
        path.mkdir(parents=True, exist_ok=True)
    with quiet(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, pte in operators():
            (folders["program"] / name).write_bytes(pte)
        for seed in seed_programs.seeds():
            _write(seed, seed.make(), folders)
    for number, conversation in enumerate(conversations()):
        (folders["frames"] / str(number)).write_bytes(conversation)


def operators() -> Iterator[tuple[str, bytes]]:
    """Yield a small program of the CPU's kernels for each operator that the suites declare, and its name."""
    from ethos_hil.harness.declared.modules import random_inputs
    from ethos_hil.suites.trial.build import module_of

    for operator in declared():
        inputs, _ = random_inputs(operator.cases[0].inputs)
        try:
            pte = seed_programs.exported(module_of(operator.cases[0]), *inputs)
        except (RuntimeError, NotImplementedError):  # ExecuTorch has no kernel that the program could call
            continue
        if len(pte) <= MAX_BYTES:
            yield operator.name, pte


def _write(seed: seed_programs.SeedProgram, pte: bytes, folders: dict[str, Path]) -> None:
    if seed.board:
        (folders["board"] / f"{seed.name}.{seed.npu}.pte").write_bytes(pte)
        for number, delegate in enumerate(Program.parse(pte).plan().delegates):
            if len(delegate.data) <= MAX_BYTES - _CONTROL:
                (folders["delegate"] / f"{seed.name}.{number}").write_bytes(bytes(_CONTROL) + delegate.data)
    if len(pte) <= MAX_BYTES:
        (folders["program"] / seed.name).write_bytes(pte)


def conversations() -> Iterator[bytes]:
    """Yield byte streams as devices send them, with frames of every type and of many lengths."""
    payloads = (Hello, Log, Loaded, RunBegin, TensorInfo, None, Counters, RunEnd, Error, FaultInfo, End, Step)
    for number in range(_CONVERSATIONS):
        rng = random.Random(number)
        line = b"\0" if number % 3 else b"booting ...\n"
        for sequence, frame_type in enumerate(rng.choices(list(FrameType), k=rng.randint(1, 12))):
            layout = payloads[frame_type - 1]
            size = layout.size if layout else rng.choice((0, 1, 253, 254, 255, 1000, 1024))
            text = b"a line of text" if frame_type in (FrameType.LOG, FrameType.ERROR) else b""
            payload = bytes(rng.choice((0, 1, 255)) for _ in range(size)) + text
            line += encode(Frame(frame_type, sequence, payload))
        yield line + struct.pack("<H", rng.randrange(1 << 16))
