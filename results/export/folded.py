"""The cycles of a record as folded stacks, which flame graphs are drawn of: speedscope and flamegraph.pl open them.

A line is a stack and its cycles: "net.py:net;stem;conv1;aten.conv2d.default;Conv2D 1234". The stack is the model, the
module's path, the operators, and the NPU operation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ethos_hil.base.inference_profile import KERNEL, WAIT, CpuRow
from ethos_hil.base.plain_text import escape
from ethos_hil.base.record import JOB, Op, Record
from ethos_hil.results.export.exporter import Exporter, NotExportable
from ethos_hil.results.export.tracks import module_path

_BLANK_BEFORE_NUMBER = re.compile(r"[ \u00a0](?=[\d.]*\Z)")
"""At the end of a stack, where the number would be taken for cycles."""


def write(record: Record) -> str:
    r"""Return a line for each stack, in the order of the rows. Rows of the same stack are added up.

    Their sum is the sum of all rows but those of the CPU that wait for the NPU: the NPU's rows are that time. In names,
    what separates stacks and frames is an escape: `\x3b` for a semicolon, `\n` for a line feed.

    Raises:
        NotExportable: no row of the record has cycles.
    """
    stacks: dict[str, int] = {}
    for frames, cycles in (*_npu(record), *_cpu(record)):
        stack = _BLANK_BEFORE_NUMBER.sub(_code, ";".join(_frame(frame) for frame in (record.model, *frames)))
        stacks[stack] = stacks.get(stack, 0) + cycles
    if not stacks:
        raise NotExportable(
            f"no row of the record of {record.model} has cycles",
            "`ethos-hil profile MODEL --json FILE` makes a record that has them, on a target that counts cycles",
        )
    return "".join(f"{stack} {cycles}\n" for stack, cycles in stacks.items())


def _npu(record: Record) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the stacks of the NPU's rows. The cycles of a row that is merged are in the other one."""
    for op in record.ops:
        if op.cycles is not None:
            yield ((JOB,) if op.id == JOB else _operation(op)), op.cycles


def _operation(op: Op) -> tuple[str, ...]:
    operators = ("+".join(op.aten_ops),) if op.aten_ops else ()
    return *module_path(op.module), *operators, op.npu_op or op.id


def _cpu(record: Record) -> Iterator[tuple[tuple[str, ...], int]]:
    for row in record.profile.cpu if record.profile is not None else ():
        if row.part != WAIT and row.count is not None:
            yield _instruction(row), row.count


def _instruction(row: CpuRow) -> tuple[str, ...]:
    part = () if row.part == KERNEL else (row.part,)
    return *module_path(row.module), "CPU", row.operator, *part


def _frame(name: str) -> str:
    return escape(name, keep="").replace(";", r"\x3b")


def _code(character: re.Match[str]) -> str:
    return rf"\x{ord(character[0]):02x}"


EXPORTER = Exporter("folded", ".folded", "cycles as folded stacks, for flame graphs: speedscope, flamegraph.pl", write)
