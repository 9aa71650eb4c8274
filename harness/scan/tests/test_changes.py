"""Which version changed what, in which words and in which table; versions that go back, fail, or answer wrong."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from ethos_hil.base.errors import UsageError
from ethos_hil.base.record import Op
from ethos_hil.harness.scan.compiled_version import CompiledVersion, ScanAnswer
from ethos_hil.harness.scan.releases import WantedVersions
from ethos_hil.harness.scan.report import PointScan, ScanReport, changes, findings, text
from ethos_hil.results.comparison import RowChange


def op(number: int, cycles: int, module: str = "a") -> Op:
    aten = ("aten.linear.default",)
    return Op(f"npu{number:05d}", "Conv2D", "CONV2D", aten, module, "net.py:3", cycles, "modelled", ("net.py:3",), 1)


OLD = CompiledVersion(
    "1.0.0", "", {}, "t", "s1", "w1", 3, 1, 900, 800, 40, 100, 64, 0, ScanAnswer.EQUAL, "", (op(0, 500), op(1, 400))
)
NEW = replace(OLD, version="1.1.0", stream_sha256="s2", operations=1, transfers=0, cycles=700, ops=(op(0, 700),))


def sentences(*versions: CompiledVersion) -> tuple[str, ...]:
    return findings(versions, changes(versions))


def test_the_first_version_with_another_stream_is_named_with_its_numbers_and_rows() -> None:
    same = replace(OLD, version="1.0.5")
    later = replace(NEW, version="1.2.0")
    result = changes((OLD, same, NEW, later))
    (change,) = result
    assert (change.before, change.version) == ("1.0.5", "1.1.0")
    assert [quantity.name for quantity in change.quantities] == ["stream_sha256", "operations", "transfers", "cycles"]
    (row,) = change.rows
    assert (row.change, row.before, row.after, row.old, row.new) == (
        RowChange.FUSED, ("npu00000", "npu00001"), ("npu00000",), 900, 700
    )  # fmt: skip
    assert sentences(OLD, same, NEW, later) == (
        "ethos-u-vela 1.1.0 is the first at which the command stream changed: 900 -> 700 modelled cycles; "
        "3 -> 1 operations; 1 -> 0 DMA transfers",
    )


def test_a_stream_that_goes_back_is_said_to_do_so() -> None:
    back = replace(OLD, version="1.2.0")
    first, second = sentences(OLD, NEW, back)
    assert "ethos-u-vela 1.1.0 is the first" in first
    assert second.startswith(
        "ethos-u-vela 1.2.0 is where it changed again, to that of 1.0.0: 700 -> 900 modelled cycles"
    )


def test_weights_alone_are_a_change_of_their_own() -> None:
    assert sentences(OLD, replace(OLD, version="1.1.0", weights_sha256="w2")) == (
        "both versions of ethos-u-vela make the same command stream: 900 modelled cycles",
        "ethos-u-vela 1.1.0 leaves the command stream as it was in 1.0.0: other encoded weights",
    )


def test_a_version_without_a_program_stands_between_two_that_are_compared() -> None:
    broken = CompiledVersion("1.0.5", "it crashed")
    (change,) = changes((OLD, broken, NEW))
    assert (change.before, change.version) == ("1.0.0", "1.1.0")
    assert sentences(OLD, broken, NEW)[-1] == "ethos-u-vela 1.0.5 makes no program: it crashed"
    assert sentences(broken) == (
        "no version of ethos-u-vela makes a program",
        "ethos-u-vela 1.0.5 makes no program: it crashed",
    )
    assert sentences(OLD, broken)[0] == "only ethos-u-vela 1.0.0 makes a program, so nothing can have changed"


def test_a_wrong_answer_is_named_though_nothing_else_changed() -> None:
    wrong = replace(OLD, version="1.1.0", answer=ScanAnswer.WRONG, said="3 of 10 elements of output 0 differ")
    assert sentences(OLD, wrong)[-1] == "ethos-u-vela 1.1.0 gives a wrong answer: 3 of 10 elements of output 0 differ"
    (change,) = changes((OLD, wrong))
    assert [quantity.name for quantity in change.quantities] == ["answer"]


BAD = "\x1b[2J[bold]bad"


def shown(*versions: CompiledVersion) -> str:
    point = PointScan("ethos-u85-128", "Sram_Only", "System", versions, (f"a note {BAD}",))
    report = ScanReport("net.py:net", (point,), "model")
    console = Console(file=io.StringIO(), width=500)
    with console.capture() as captured:
        console.print(text(report, top=3))
    return captured.get()


def test_changed_values_are_marked_() -> None:
    lines = shown(OLD, NEW).splitlines()
    assert lines[0] == "ethos-u-vela on ethos-u85-128, Sram_Only, System"
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.startswith("1.")}
    assert rows["1.0.0"] == ["equal", "t", "s1", "w1", "3", "1", "900", "800", "100", "64"]
    assert rows["1.1.0"] == ["equal", "t", "s2*", "w1", "1*", "0*", "700*", "800", "100", "64"]
    assert "ethos-u-vela 1.0.0 -> 1.1.0, operations that changed" in lines


# What `--over` takes: versions, ranges and lists, and one clear error for anything else.


RELEASED = ("5.2.0", "5.1.0", "5.0.0", "4.5.0", "4.4.1", "4.4.0", "4.10.0", "3.9")
"""In pip's order: the newest first, but for one that is newer than its text looks."""


def versions(text: str) -> tuple[str, ...]:
    return WantedVersions.parse(f"ethos-u-vela={text}").resolve(RELEASED)


@pytest.mark.parametrize(
    ("text", "expected"),
    {
        "4.4..5.1": ("4.4.1", "4.5.0", "4.10.0", "5.0.0", "5.1.0"),
        "4.4.0..5.0": ("4.4.0", "4.4.1", "4.5.0", "4.10.0", "5.0.0"),
        "5.0..": ("5.0.0", "5.1.0", "5.2.0"),
        "4.4..4.4": ("4.4.1",),
        "4.4.0..4.4": ("4.4.0", "4.4.1"),
        "5.1.0..5.1.0": ("5.1.0",),
        "5.1": ("5.1.0",),
        "4.4": ("4.4.1",),
        "5.1.0, 4.4.0,5.1": ("4.4.0", "5.1.0"),
        "5.1..5.2,4.4.0": ("4.4.0", "5.1.0", "5.2.0"),
        "3.0..4.0": ("3.9",),
    }.items(),
)
def test_the_newest_of_each_minor_version_and_what_is_named_in_full(text: str, expected: tuple[str, ...]) -> None:
    assert versions(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    {
        "numpy=1.0": "'numpy' is not a package to scan over",
        "ethos-u-vela": "names no versions",
        "ethos-u-vela=": "names no versions",
        "ethos-u-vela=5": "'5' is neither a version",
        "ethos-u-vela=latest": "'latest' is neither a version",
        "ethos-u-vela=5.1.0.what": "is neither a version",
        "ethos-u-vela=..5.1": "is neither a version",
        "ethos-u-vela=5.1...5.2": "is neither a version",
        "ethos-u-vela=5.1.0,": "'' is neither a version",
        "ethos-u-vela=5.2..4.4": "runs backwards",
        "ethos-u-vela=4.4.1..4.4.0": "runs backwards",
    }.items(),
)
def test_what_means_nothing_is_refused_before_an_index_is_asked(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        WantedVersions.parse(text)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    {
        "5.0.7": "has no release 5.0.7",
        "6.0": "has no release 6.0",
        "5.3..6.0": "no release lies in this range",
        "4.6..4.9": "no release lies in this range",
        "4.4.2..5.0": "has no release 4.4.2, where",
        "4.4..5.0.9": "has no release 5.0.9, where",
    }.items(),
)
def test_what_is_not_released_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        versions(text)
    assert caught.value.hint


def test_versions_in_full_need_no_index() -> None:
    assert WantedVersions.parse("ethos-u-vela=5.1.0,4.4.1").named == ("4.4.1", "5.1.0")
    assert WantedVersions.parse("ethos-u-vela=5.1").named is None
    assert WantedVersions.parse("ethos-u-vela=5.0.0..5.1.0").named is None
