"""Each known defect of Vela has a page and a reproducer, and is still there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from blocks import ROOT

from ethos_hil.lowering.repairs.defect import VERSIONS
from ethos_hil.lowering.repairs.known import DEFECTS
from ethos_hil.lowering.versions import versions

FOLDER = ROOT / "docs" / "defects"
NAMES = sorted({defect.id for defect in DEFECTS})


def test_each_defect_has_a_page_and_each_page_a_defect() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.md")) == sorted([*NAMES, "index"])
    assert sorted(path.stem for path in (FOLDER / "reproduce").glob("vela-*.py")) == NAMES
    index = (FOLDER / "index.md").read_text("utf-8")
    for name in NAMES:
        assert f"[{name}]({name}.md)" in index
        assert f"\n{name}\n" in index
        assert f"reproduce/{name}.py" in (FOLDER / f"{name}.md").read_text("utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_the_installed_vela_has_the_defect(name: str, tmp_path: Path) -> None:
    """When this fails, that version no longer has it: its repair can go, or VERSIONS gets the new version."""
    script = FOLDER / "reproduce" / f"{name}.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "\ndefect: " in f"\n{done.stdout}"
    assert versions()["ethos-u-vela"] in VERSIONS


def test_a_reproducer_sees_a_program_without_the_defect(tmp_path: Path) -> None:
    script = (FOLDER / "reproduce" / "vela-dropped-output.py").read_text("utf-8")
    other = "graph.transpose(graph.input([1, 8, 8, 4]), [0, 3, 1, 2])"
    right = script.replace("graph.conv(graph.transpose(first, [0, 2, 3, 1]), 5)", other)
    assert right != script
    (tmp_path / "right.py").write_text(right)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "right.py")],
        capture_output=True, text=True, timeout=100, env={**os.environ, "PYTHONPATH": str(FOLDER / "reproduce")},
    )  # fmt: skip
    assert (done.returncode, done.stdout[:9]) == (1, "no defect"), done.stdout + done.stderr
