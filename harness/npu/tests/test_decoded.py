"""Protects what the decoder makes of registers: whole programs as recorded, and what every bit of every register means.

test_decode.py compares the decoder with Vela's disassembly, and the conformance run compares what it makes with TOSA.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Sequence

import pytest

from ethos_hil.base.npu.ethos_u import EthosU
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.npu import Fault
from ethos_hil.harness.npu.decode.decoder import decode
from ethos_hil.harness.npu.isa.operations import Instruction
from ethos_hil.harness.npu.tests.streams import U55, U85, changed, compiled, dialect_of, operations_of, writes

U65 = "ethos-u65-512"
DECODED = [
    (U55, "conv with table"),
    (U55, "depthwise 5x5 stride 2"),
    (U55, "average pool padded"),
    (U55, "rescale int8 to int8 per channel"),
    (U55, "add, second input scaled"),
    (U55, "mul of a constant scalar"),
    (U55, "int32 mul"),
    (U65, "conv 3x3 stride 2"),
    (U85, "conv with table"),
    (U85, "conv int16 with table"),
    (U85, "conv, transpose 2 3 1, conv"),
    (U85, "int8 reverse axis 2"),
    (U85, "matmul"),
    (U85, "average pool padded"),
    (U85, "rescale int8 to int8 per channel"),
    (U85, "int8 argmax over axis 1"),
    (U85, "int8 resize bilinear by 2x2"),
    (U85, "sub from a constant scalar"),
    (U85, "add of row and column"),
    (U85, "int8 gather"),
    (U85, "int8 scatter"),
    (U85, "branch"),
]


@pytest.mark.parametrize(("npu", "name"), DECODED)
def test_programs_are_decoded_as_recorded(npu: str, name: str, recorded: Recorded) -> None:
    instructions = operations_of(compiled(name, npu))
    recorded.check("\n".join(line for instruction in instructions for line in lines_of(instruction)))


def lines_of(instruction: Instruction) -> Iterator[str]:
    """Yield an instruction and its fields, one a line."""
    yield f"{instruction.name} at {instruction.offset:#x}"
    for entry in dataclasses.fields(instruction):
        if entry.name not in ("name", "offset"):
            value = getattr(instruction, entry.name)
            yield from (
                [f"  {access!r}" for access in value] if entry.name == "accesses" else [f"  {entry.name}: {value!r}"]
            )


SWEPT = [
    (U55, "conv 3x3 stride 2"),
    (U55, "average pool padded"),
    (U55, "add, second input scaled"),
    (U55, "mul of a constant scalar"),
    (U55, "table"),
    (U85, "conv 3x3 stride 2"),
    (U85, "average pool padded"),
    (U85, "sub from a constant scalar"),
    (U85, "table"),
    (U85, "matmul"),
    (U85, "int8 gather"),
    (U85, "int8 resize bilinear by 2x2"),
    (U85, "int8 argmax over axis 1"),
]
PLAIN = re.compile(
    r"BASE|STRIDE_[XYC]|(HEIGHT|WIDTH)\d|BLK_|_IB_|AB_START|DMA0_(SRC|DST|IDX)$|(FM|FM2|WEIGHT|SCALE)_REGION"
)
"""Registers whose value is an address, a size or a number of a region; the recorded programs have them."""


@pytest.mark.parametrize(("npu", "name"), SWEPT)
def test_every_bit_of_a_register_means_what_is_recorded(npu: str, name: str, recorded: Recorded) -> None:
    """Each bit alone is turned: the fields of operations that change with it, or the fault.

    Bits that do the same are in one line, which has the values of the first.
    """
    graph = compiled(name, npu)
    before = flat(operations_of(graph))
    values = dict(writes(npu, graph.stream))
    wide = {register.name for register in dialect_of(npu).long.values()}
    lines = []
    for register, value in values.items():
        if PLAIN.search(register):
            continue
        bits = range(48 if register in wide else 16)
        outcomes = [outcome(before, npu, changed(graph, {register: value ^ 1 << bit})) for bit in bits]
        groups: dict[str, list[int]] = {}
        for bit, (kind, _) in zip(bits, outcomes, strict=True):
            groups.setdefault(kind, []).append(bit)
        lines += [f"{register} {span(places)}: {outcomes[places[0]][1]}" for places in groups.values()]
    recorded.check("\n".join(lines))


def outcome(before: dict[str, object], npu: str, stream: bytes) -> tuple[str, str]:
    """Return the kind of what a changed stream decodes to, and all of it."""
    try:
        after = flat(decode(stream, EthosU.parse(npu)))
    except Fault as fault:
        return re.sub(r"(0x[0-9a-f]+|\d+)", "#", str(fault)), str(fault)
    differ = [path for path in before | after if before.get(path) != after.get(path)]
    return " ".join(differ), ", ".join(f"{path}={after.get(path)}" for path in differ) or "nothing"


def flat(value: object, path: str = "") -> dict[str, object]:
    """Return the plain values in a structure by their paths, but accesses, which follow from the others."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    elif isinstance(value, tuple):
        pairs = [(str(number), entry) for number, entry in enumerate(value)]
    else:
        return {path: value}
    inner = [flat(entry, f"{path}.{name}".strip(".")) for name, entry in pairs if name not in ("accesses", "offset")]
    return dict(itertools.chain.from_iterable(entry.items() for entry in inner))


def span(bits: Sequence[int]) -> str:
    """Return numbers as ranges: "0-3,7"."""
    runs = [[bit for _, bit in run] for _, run in itertools.groupby(enumerate(bits), lambda pair: pair[1] - pair[0])]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
