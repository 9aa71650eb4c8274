"""A scan as text: what changed first, marked values, and text of unknown origin as it is."""

from __future__ import annotations

import io

from rich.console import Console

from ethos_hil.harness.scan.compiled_version import CompiledVersion, ScanAnswer
from ethos_hil.harness.scan.report import PackageScan, PointScan, ScanReport
from ethos_hil.harness.scan.tests.test_changes import NEW, OLD
from ethos_hil.harness.scan.text import scan

BAD = "\x1b[2J[bold]bad"


def text(*versions: CompiledVersion) -> str:
    point = PointScan("ethos-u85-128", "Sram_Only", "System", versions, (f"a note {BAD}",))
    report = ScanReport("net.py:net", (PackageScan("tool", (point,)),), "model")
    console = Console(file=io.StringIO(), width=500)
    with console.capture() as captured:
        console.print(scan(report, top=3))
    return captured.get()


def test_changed_values_are_marked_and_what_changed_first_is_said() -> None:
    lines = text(OLD, NEW).splitlines()
    assert lines[0] == "tool on ethos-u85-128, Sram_Only, System"
    assert "changed first: at 1.1.0 command stream, operations, DMA transfers, modelled cycles" in lines
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.startswith("1.")}
    assert rows["1.0.0"] == ["equal", "t", "s1", "w1", "3", "1", "900", "800", "100", "64"]
    assert rows["1.1.0"] == ["equal", "t", "s2*", "w1", "1*", "0*", "700*", "800", "100", "64"]
    assert "tool 1.0.0 -> 1.1.0, operations that changed" in lines


def test_text_of_a_tool_is_shown_as_it_is() -> None:
    shown = text(OLD, CompiledVersion("1.0.5", BAD), CompiledVersion("1.0.6", said=BAD, answer=ScanAnswer.WRONG))
    assert "\x1b" not in shown
    assert shown.count("\\x1b[2J[bold]bad") == 3
