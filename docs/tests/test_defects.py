"""Each known defect of Vela has one declaration, a page and a reproducer, and is still there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from blocks import ROOT
from defect_pages import module_of, pages, stub

from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.lowering.cache.versions import versions
from ethos_hil.lowering.repairs.defect import VelaDefect
from ethos_hil.lowering.repairs.mend import DEFECTS

FOLDER = ROOT / "docs" / "defects"
NAMES = sorted(defect.id for defect in DEFECTS)


def test_each_defect_has_a_page_and_each_page_a_defect() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.md")) == sorted([*NAMES, "index"])
    assert sorted(path.stem for path in (FOLDER / "reproduce").glob("vela-*.py")) == NAMES
    for defect in DEFECTS:
        assert (FOLDER / f"{defect.id}.md").read_text("utf-8") == stub(defect)


def test_each_declaration_is_among_the_known_defects() -> None:
    """One that `mend.py` lacks would never be looked for; a second one of a name would have no page."""
    declared = [
        path.stem
        for path in (ROOT / "lowering" / "repairs").glob("*.py")
        if "\nDEFECT = VelaDefect(" in path.read_text("utf-8")
    ]
    assert sorted(declared) == sorted(map(module_of, DEFECTS))


def test_a_page_has_what_its_module_says(recorded: Recorded) -> None:
    for defect in DEFECTS:
        page = pages()[defect.id]
        headings = [line for line in page.splitlines() if line.startswith("#")]
        assert headings == ["## Met by", "## Effect", "## Repair", "## Without the repair"]
        assert defect.treatments
    recorded.check(pages()["vela-shared-bias"].partition("## Effect")[0], "page")
    recorded.check(pages()["defects"], "index")


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.id)
def test_the_installed_vela_has_the_defect_where_it_is_said_to(defect: VelaDefect, tmp_path: Path) -> None:
    """When this fails, `versions` is wrong of the installed one; a repair that no version needs can go."""
    script = FOLDER / "reproduce" / f"{defect.id}.py"
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=100, cwd=tmp_path)
    installed = versions()["ethos-u-vela"]
    assert installed in (*defect.versions.seen, *defect.versions.gone)
    said = "defect: " if installed in defect.versions.seen else "no defect: "
    assert any(line.startswith(said) for line in done.stdout.splitlines()), done.stdout + done.stderr
    assert done.returncode == (installed in defect.versions.gone)


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
