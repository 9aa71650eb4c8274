"""The table of docs/kernels.md has the operators that the firmware has."""

from __future__ import annotations

from pathlib import Path

import kernel_table
import pytest
from blocks import ROOT

from ethos_hil.harness.image.firmware_elf import Firmware

ELF = ROOT / "build/firmware/corstone300/ethos-hil.elf"


def test_it_has_the_operators_that_the_elf_lists() -> None:
    assert list(kernel_table.operators()) == sorted(Firmware.read(ELF.read_bytes()).operators or ())


def test_a_row_says_where_a_kernel_is_and_how_it_is_compared() -> None:
    rows = {row.operator: row for row in kernel_table.rows()}
    assert list(rows) == list(kernel_table.operators())
    assert {row.file for row in rows.values()} >= {"arithmetic", "arrange", "compare", "unary", "pool"}
    shown = kernel_table.markdown()
    assert "| `aten::maximum.out` | `arithmetic` | all | bits |" in shown
    assert "| `aten::exp.out` | `unary` | " in shown
    assert rows["aten::exp.out"].bounded
    assert not rows["aten::exp.out"].exact
    assert "| `aten::view_copy.out` | `copy` |  | test_kernels.py |" in shown


def test_every_row_says_how_it_is_compared() -> None:
    lines = kernel_table.markdown().splitlines()[2:]
    assert [line for line in lines if line.rstrip("| ").count("|") < 4] == []


def test_an_operator_that_is_added_is_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = (kernel_table.RUNTIME / "operators.cc").read_text("utf-8")
    old = '    {"aten::bmm", "out", bmm},\n'
    assert source.count(old) == 1
    (tmp_path / "operators.cc").write_text(
        source.replace(old, f'    {{"aten::atan2", "out", elementwise<COS>}},\n{old}')
    )
    monkeypatch.setattr(kernel_table, "RUNTIME", tmp_path)
    assert kernel_table.operators()["aten::atan2.out"] == "elementwise<COS>"
