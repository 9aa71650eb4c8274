"""The comparison of the two methods: it takes overlap for what it is, and nothing else."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from ethos_hil.base.record import JOB, Metric, Op, Record, TargetInfo
from ethos_hil.base.verdict import Verdict
from ethos_hil.lowering.model.torch_model import from_module
from ethos_hil.suites.lab.measure.profiles import Moved, compared, trial


def record(method: str, *cycles: int | None, merged: Sequence[int] = ()) -> Record:
    rows = [
        Op(f"npu{at:05d}", "Conv2D", "CONV2D", (), "", "", count, "modelled", method=method,
           merged_with=f"npu{at + 1:05d}" if at in merged else "")
        for at, count in enumerate(cycles)
    ]  # fmt: skip
    job = [Op(JOB, JOB, "", (), "", "", 0, "modelled", method=method)] if method == "prefix" else []
    total = Metric("npu_cycles", sum(count or 0 for count in cycles), "cycles", "modelled")
    target = TargetInfo("virtual", "virtual", "corstone-300")
    return Record(
        Verdict.VERIFIED, model="net", npu="ethos-u55-128", target=target, ops=tuple(job + rows), metrics=(total,)
    )  # fmt: skip


SHARES = record("shares", 10, 20, 30)


def test_equal_rows_are_equal() -> None:
    done = compared("net", SHARES, record("prefix", 10, 20, 30))
    assert (done.rows, done.cycles, done.moved, done.problem) == (3, 60, (), "")


def test_a_transfer_that_outlasts_a_kernel_moves_cycles_to_its_row() -> None:
    done = compared("net", SHARES, record("prefix", 15, 15, 30))
    assert done.moved == (Moved(("npu00000", "npu00001"), (10, 20), (15, 15), merged=False),)
    assert not done.problem


def test_rows_that_cannot_be_told_apart_are_one() -> None:
    done = compared("net", SHARES, record("prefix", None, 30, 30, merged=[0]))
    assert [piece.merged for piece in done.moved] == [True]
    assert not done.problem


@pytest.mark.parametrize(
    ("prefixes", "says"),
    [
        (record("prefix", 5, 25, 30), "cycles are with an earlier row"),
        (record("prefix", 10, 20, 31), "shares sum to 60, prefixes to 61"),
        (record("prefix", 10, 50), "different rows"),
        (record("shares", 10, 20, 30), "prefix: rows are found by"),
        (dataclasses.replace(record("prefix", 10, 20, 30), metrics=()), "the NPU counted nothing"),
        (dataclasses.replace(record("prefix", 10, 20, 30), verdict=Verdict.UNVERIFIED), "prefix: unverified"),
    ],
    ids=range(6),
)
def test_anything_else_is_a_problem(prefixes: Record, says: str) -> None:
    assert says in compared("net", SHARES, prefixes).problem


@pytest.mark.slow
def test_a_network_on_the_board(tmp_path: Path) -> None:
    layers = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 1)).eval()
    done = trial(from_module(layers, (torch.rand(1, 3, 8, 8),)), "ethos-u85-256", tmp_path)
    assert done.rows
    assert not done.problem
