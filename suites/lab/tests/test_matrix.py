"""The matrix of upstreams: what it counts, and that its first row is the tested set."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from ethos_hil.base.errors import ToolError, UsageError
from ethos_hil.base.verdict import Standing
from ethos_hil.suites.lab.prove import matrix
from ethos_hil.suites.lab.prove.matrix import DATA, DEFAULT, UpstreamRow, main, markdown, read
from ethos_hil.suites.lab.shared import ROOT


def test_the_first_row_is_the_tested_set_and_no_row_was_cut_short() -> None:
    """Sees red: the set was moved, and the page not made again."""
    first, *others = read(DATA)
    project = (ROOT / "pyproject.toml").read_text()
    assert first.lowered_by == "this environment"
    assert first.depth == "full"
    for name, extra in (("executorch", "[ethos-u]"), ("torch", "")):
        assert f'"{name}{extra}=={first.versions[name].partition("+")[0]}"' in project
    assert not first.red
    assert len(others) >= len(DEFAULT) - 1
    count = sum(first.counts.values())
    assert all(sum(row.counts.values()) == count for row in others), "every row ran the same cases"


def test_a_case_is_verified_declared_or_red() -> None:
    counts = {str(standing): number for number, standing in enumerate(Standing, 1)}
    red = tuple(standing for standing in Standing if standing not in (Standing.VERIFIED, *matrix._DECLARED))
    text = markdown([UpstreamRow("3.11.7", "executorch==1.5.0", {"executorch": "1.5.0"}, "full", counts, red)])
    verified, declared, bad = (int(cell) for cell in text.splitlines()[-1].split("|")[9:12])
    assert (verified, declared, bad) == (
        counts[Standing.VERIFIED], sum(counts[standing] for standing in matrix._DECLARED), len(red)
    )  # fmt: skip


def test_what_runs_nothing_is_no_row(tmp_path: Path) -> None:
    file = tmp_path / "matrix.json"
    with pytest.raises(UsageError, match="is not PACKAGE==VERSION"):
        main(["nonsense"], json_file=file)
    with pytest.raises(UsageError, match="there is no such file"):
        main(["here"], [tmp_path / "python"], 1, 1, file)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    with pytest.raises(ToolError, match=r"ran nothing: .*No module named"):
        main(["here"], [python], 1, 1, file)
    assert not file.exists()
    file.write_text(json.dumps({"schema_version": 1, "rows": []}))
    assert read(file) == []
