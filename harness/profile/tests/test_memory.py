"""Who is in the NPU's memory, by hand and against what Vela plans."""

from __future__ import annotations

from ethos_hil.results.profile_view import memory_use
from ethos_hil.results.tests import profiled


def test_bytes_of_each_row_and_who_is_in_them_at_the_peak() -> None:
    sram, dram = memory_use(profiled.record())
    assert (sram.memory, dram.memory) == ("Sram", "Dram")
    assert [size for _, size in sram.rows] == [1300, 300, 364, 64, 0]
    assert [op.id for op, _ in sram.rows] == [f"npu{number:05d}" for number in range(5)]
    assert (sram.peak, sram.at_peak, [entry.tensor for entry in sram.living]) == (1300, 0, ["input", "conv0"])
    assert [size for _, size in dram.rows] == [0, 0, 0, 16, 16]
    assert (dram.at_peak, [entry.row for entry in dram.living]) == (3, ["npu00003"])
