"""Who is in the NPU's memory, by hand and against what Vela plans."""

from __future__ import annotations

import io

from rich.console import Console

from ethos_hil.harness.profile.options import ProfileMethod
from ethos_hil.harness.profile.tests.test_profiled_run import profiled as profiled_run
from ethos_hil.results.profile_view import By, Sort, memory_use
from ethos_hil.results.tests import profiled
from ethos_hil.results.text.profile import profile


def test_bytes_of_each_row_and_who_is_in_them_at_the_peak() -> None:
    sram, dram = memory_use(profiled.record())
    assert (sram.memory, dram.memory) == ("Sram", "Dram")
    assert [size for _, size in sram.rows] == [1300, 300, 364, 64, 0]
    assert [op.id for op, _ in sram.rows] == [f"npu{number:05d}" for number in range(5)]
    assert (sram.peak, sram.at_peak, [entry.tensor for entry in sram.living]) == (1300, 0, ["input", "conv0"])
    assert [size for _, size in dram.rows] == [0, 0, 0, 16, 16]
    assert (dram.at_peak, [entry.row for entry in dram.living]) == (3, ["npu00003"])


def test_what_is_in_use_fits_into_what_the_device_has_planned() -> None:
    report = profiled_run("ethos-u55-128", ProfileMethod.SHARES)
    (delegate,) = report.artifact.delegates
    used = list(memory_use(report.record))
    assert used
    assert 0 < sum(memory.peak for memory in used) <= delegate.blob.scratch_size


def text(by: By, top: int = 25, width: int = 120) -> str:
    written = io.StringIO()
    Console(file=written, width=width).print(profile(profiled.record(), by=by, sort=Sort.CYCLES, depth=2, top=top))
    return written.getvalue()


def test_the_peak_is_a_line_of_each_profile() -> None:
    (line,) = [line for line in text(By.MODULE, width=200).splitlines() if line.startswith("memory")]
    assert "Sram 1,300 bytes at most, in npu00000" in line
    assert "input 1,000, npu00000 300" in line
    assert "Dram 16 bytes at most, in npu00003" in line


def test_the_view_has_each_row_in_the_order_of_the_program() -> None:
    lines = text(By.MEMORY).splitlines()
    at = lines.index("Sram in use")
    assert [line.split()[0] for line in lines[at + 2 : at + 7]] == [f"npu{number:05d}" for number in range(5)]
    assert "and 3 with less" in text(By.MEMORY, top=2)
    assert "(input)" in text(By.MEMORY)
