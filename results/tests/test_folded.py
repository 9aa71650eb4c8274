"""Folded stacks: every cycle of the rows is in one line, which readers split where it was put together."""

from __future__ import annotations

import dataclasses
import re

import pytest

from ethos_hil.base.record import JOB, Record
from ethos_hil.results.export import folded
from ethos_hil.results.export.exporter import NotExportable
from ethos_hil.results.tests.profiled import hostile, op, record

LINE = re.compile(r"(.*)\s+?(\d+(?:\.\d*)?)")
"""As readers take a line: a stack, a blank, a number."""


def stacks(of: Record) -> dict[tuple[str, ...], int]:
    """Read a file as readers do."""
    text = folded.write(of)
    assert text.endswith("\n")
    counts: dict[tuple[str, ...], int] = {}
    for line in text[:-1].split("\n"):
        assert line.isprintable()
        match = LINE.fullmatch(line)
        assert match is not None
        assert LINE.fullmatch(match[1]) is None, "a second number would make it a line of a comparison"
        frames = tuple(match[1].split(";"))
        assert frames not in counts
        assert all(frames)
        counts[frames] = int(match[2])
    return counts


def total(of: Record) -> int:
    """All cycles of the rows, but those in which the CPU waits for the NPU."""
    cpu = () if of.profile is None else of.profile.cpu
    npu = sum(op.cycles or 0 for op in of.ops)
    return npu + sum(row.count or 0 for row in cpu if row.part != "wait")


def test_a_line_has_the_model_the_module_the_operators_and_the_operation() -> None:
    conv = "aten.conv2d.default+aten.relu.default"
    assert stacks(record()) == {
        ("net.py:net", "job"): 90,
        ("net.py:net", "stem", "conv1", conv, "Conv0"): 100,
        ("net.py:net", "stem", "conv2", conv, "Conv2"): 150,
        ("net.py:net", "head", conv, "Conv3"): 250,
        ("net.py:net", conv, "Conv4"): 0,
        ("net.py:net", "CPU", "q::quantize"): 1000,
        ("net.py:net", "CPU", "delegate 0", "start"): 20,
        ("net.py:net", "tail", "CPU", "q::dequantize"): 70,
    }


@pytest.mark.parametrize("of", [record(), hostile(), dataclasses.replace(record(), profile=None)])
def test_the_lines_sum_to_the_rows(of: Record) -> None:
    assert sum(stacks(of).values()) == total(of)


def test_rows_of_the_same_stack_are_one_line() -> None:
    twice = dataclasses.replace(record(), ops=(op(0, "a", 5), op(0, "a", 6), op(0, "b", 7)), profile=None)
    assert list(stacks(twice).values()) == [11, 7]


@pytest.mark.parametrize(
    "name", ["conv 12", "conv\u00a012", "x 1.5", "12", "x ", " ", ";", "a;b", "a\nb", "\x00", "\udc80"]
)
def test_a_name_is_one_frame_whatever_is_in_it(name: str) -> None:
    of = dataclasses.replace(record(), ops=(dataclasses.replace(op(0, "", 5), npu_op=name),), profile=None)
    ((frames, cycles),) = stacks(of).items()
    assert (len(frames), cycles) == (3, 5)


@pytest.mark.parametrize(
    "of",
    [
        dataclasses.replace(record(), ops=(), profile=None),
        dataclasses.replace(record(), ops=(op(0, "a", None),), profile=None),
    ],
)
def test_a_record_without_cycles_is_refused(of: Record) -> None:
    with pytest.raises(NotExportable) as raised:
        folded.write(of)
    assert raised.value.message == "no row of the record of net.py:net has cycles"
    assert "ethos-hil profile" in str(raised.value.hint)


def test_jobs_of_several_delegates_are_one_line() -> None:
    (job, *_) = record().ops
    assert job.id == JOB
    of = dataclasses.replace(record(), ops=(job, dataclasses.replace(job, instruction=9, cycles=1)), profile=None)
    assert stacks(of) == {("net.py:net", "job"): 91}
