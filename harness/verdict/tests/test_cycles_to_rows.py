"""Cycles on the rows of the delegate map: every cycle in one row, and the rows sum to the total; the rows as shown."""

from __future__ import annotations

import dataclasses

import pytest

from ethos_hil.harness.link.outcome import DelegateRun, OpEvent, Run
from ethos_hil.harness.verdict.metrics import attribute, estimated_rows
from ethos_hil.lowering.artifact import Artifact, Delegate, NpuOp
from ethos_hil.results.text.record import ops_table


def npu_op(number: int, end_offset: int) -> NpuOp:
    source = f"net.py:{number}"
    return NpuOp(f"npu{number:05d}", "Conv2D", end_offset, "CONV2D", ("aten.conv",), f"layer.{number}", source, (), 11)


ARTIFACT = Artifact(
    "key",
    "net",
    None,
    b"",
    (Delegate(0, 1, b"", b"", (npu_op(0, 40), npu_op(1, 100))), Delegate(1, 3, b"", b"", (npu_op(2, 8),))),
)


def run(*events: tuple[int, int], second: tuple[tuple[int, int], ...] = ()) -> Run:
    calls = [
        DelegateRun(
            instruction,
            index,
            0,
            (),
            (),
            tuple(OpEvent(offset, "CONV", cycles, 0, cycles) for offset, cycles in listed),
        )
        for index, (instruction, listed) in enumerate(((1, events), (3, second)))
    ]
    return Run(0, 0, (), tuple(calls))


def test_an_event_belongs_to_the_first_row_that_does_not_end_before_it() -> None:
    rows = attribute(ARTIFACT, run((8, 1), (40, 2), (44, 4), (100, 8), second=((0, 16),)), "modelled")
    assert [(row.id, row.cycles) for row in rows] == [("npu00000", 3), ("npu00001", 12), ("npu00002", 16)]
    assert {row.provenance for row in rows} == {"modelled"}


def test_what_no_row_covers_is_shown_and_nothing_is_lost() -> None:
    rows = attribute(ARTIFACT, run((8, 1), (104, 2), (200, 3)), "modelled")
    assert sum(row.cycles or 0 for row in rows) == 6
    assert [(row.id, row.cycles) for row in rows if row.id == "unmapped"] == [("unmapped", 5)]


def test_estimates_say_that_they_are_the_compilers() -> None:
    assert [(row.cycles, row.provenance) for row in estimated_rows(ARTIFACT)] == [(11, "vela")] * 3


@pytest.mark.parametrize(
    ("sources", "shown"),
    [
        ((), "net.py:0"),
        (("net.py:3",), "net.py:3"),
        (("net.py:3", "net.py:7", "block.py:7", "net.py:9"), "net.py:3, 7, block.py:7, net.py:9"),
    ],
)
def test_a_row_shows_all_lines_that_are_fused_into_it(sources: tuple[str, ...], shown: str) -> None:
    op = dataclasses.replace(npu_op(0, 40), sources=sources)
    artifact = dataclasses.replace(ARTIFACT, delegates=(Delegate(0, 1, b"", b"", (op,)),))
    (row,) = attribute(artifact, run((8, 1)), "modelled")
    assert (row.source, row.sources) == ("net.py:0", sources)
    (column,) = [column for column in ops_table((row,)).to_text().columns if str(column.header) == "source"]
    assert list(map(str, column.cells)) == [shown]
