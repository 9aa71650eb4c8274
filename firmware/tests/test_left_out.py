"""A board can do without kernels: they are neither in its list nor linked."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from builds import FIRMWARE
from elftools.elf.elffile import ELFFile

OBJECT = "CMakeFiles/corstone300.dir/runtime/operators.cc.obj"
Compile = Callable[[str], "subprocess.CompletedProcess[str]"]


@pytest.fixture
def compiled(tmp_path: Path) -> Compile:
    """Compile the table of operators of a board without some kernels."""

    def run(left_out: str) -> subprocess.CompletedProcess[str]:
        options = [f"-DPython3_EXECUTABLE={sys.executable}", f"-DETHOS_HIL_LEFT_OUT={left_out}"]
        configure = ["cmake", "--preset", "corstone300", "-B", str(tmp_path), *options]
        subprocess.run(configure, cwd=FIRMWARE, check=True, capture_output=True, timeout=100)
        build = ["ninja", "-C", str(tmp_path), OBJECT]
        return subprocess.run(build, capture_output=True, text=True, timeout=100, check=False)

    return run


@pytest.mark.slow
def test_kernels_that_are_left_out_are_neither_listed_nor_linked(compiled: Compile, tmp_path: Path) -> None:
    done = compiled("aten::sin.out,aten::reflection_pad*,aten::copy_")
    assert done.returncode == 0, done.stdout
    with (tmp_path / OBJECT).open("rb") as file:
        elf = ELFFile(file)
        listed = elf.get_section_by_name(".ethos_hil.operators").data().decode().strip("\0").split()
        symbols = {symbol.name for symbol in elf.get_section_by_name(".symtab").iter_symbols()}
    gone = {"aten::sin.out", "aten::reflection_pad1d.out", "aten::reflection_pad3d.out", "aten::copy_"}
    assert not gone & set(listed)
    assert {"aten::sinh.out", "aten::replication_pad1d.out", "aten::copy.out"} <= set(listed)
    assert len(listed) > 190
    assert not [name for name in symbols if "reflection_pad" in name or "copy_in_place" in name]
    assert [name for name in symbols if "replication_pad" in name]


@pytest.mark.slow
def test_a_kernel_that_there_is_not_cannot_be_left_out(compiled: Compile) -> None:
    done = compiled("aten::sin.out,aten::sine.out")
    assert done.returncode != 0
    assert "ETHOS_HIL_LEFT_OUT names a kernel that there is not" in done.stdout
