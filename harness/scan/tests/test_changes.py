"""Which version changed what, in which words and in which table; versions that go back, fail, or answer wrong."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

from ethos_hil.base.errors import UsageError
from ethos_hil.base.record import Op
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.harness.scan.compiled_version import CompiledVersion, ScanAnswer
from ethos_hil.harness.scan.environment import WantedVersions
from ethos_hil.harness.scan.report import PointScan, ScanReport, document, text


def op(number: int, cycles: int, module: str = "a") -> Op:
    aten = ("aten.linear.default",)
    return Op(f"npu{number:05d}", "Conv2D", "CONV2D", aten, module, "net.py:3", cycles, "modelled", ("net.py:3",), 1)


OLD = CompiledVersion(
    "1.0.0", "", {}, "t", "s1", "w1", 3, 1, 900, 800, 40, 100, 64, 0, ScanAnswer.EQUAL, "", (op(0, 500), op(1, 400))
)
NEW = replace(OLD, version="1.1.0", stream_sha256="s2", operations=1, transfers=0, cycles=700, ops=(op(0, 700),))


BAD = "\x1b[2J[bold]bad"
BROKEN = CompiledVersion("1.0.5", "it crashed")
SAID = "3 of 10 elements of output 0 differ"
SCANS: dict[str, tuple[CompiledVersion, ...]] = {
    "another stream": (OLD, replace(OLD, version="1.0.5"), NEW, replace(NEW, version="1.2.0")),
    "a stream that goes back": (OLD, NEW, replace(OLD, version="1.2.0")),
    "weights alone": (OLD, replace(OLD, version="1.1.0", weights_sha256="w2")),
    "one without a program between two": (OLD, BROKEN, NEW),
    "none with a program": (BROKEN,),
    "one with a program": (OLD, BROKEN),
    "a wrong answer": (OLD, replace(OLD, version="1.1.0", answer=ScanAnswer.WRONG, said=SAID)),
    "foreign text": (OLD, replace(BROKEN, reason=BAD)),
}


@pytest.mark.parametrize("what", SCANS)
def test_a_scan_names_the_version_that_changed_something_with_its_numbers_and_rows(
    what: str, recorded: Recorded
) -> None:
    """What changed is marked; foreign text stays text."""
    point = PointScan("ethos-u85-128", "Sram_Only", "System", SCANS[what], (f"a note {BAD}",))
    report = ScanReport("net.py:net", (point,), "model")
    console = Console(file=io.StringIO(), width=200)
    with console.capture() as captured:
        console.print(text(report, top=3))
    shown = "\n".join(line.rstrip() for line in captured.get().splitlines())
    assert not {char for char in shown if not char.isprintable()} - {"\n"}
    recorded.check(shown)
    recorded.check(json.dumps(document(report)).replace("}, {", "},\n{"), "document")


# What `--over` takes: versions, ranges and lists, and one clear error for anything else.


RELEASED = ("5.2.0", "5.1.0", "5.0.0", "4.5.0", "4.4.1", "4.4.0", "4.10.0", "3.9")
"""In pip's order: the newest first, but for one that is newer than its text looks."""


def versions(text: str) -> tuple[str, ...]:
    return WantedVersions.parse(f"ethos-u-vela={text}").resolve(RELEASED)


RANGES = ("4.4..5.1", "4.4.0..5.0", "5.0..", "4.4..4.4", "4.4.0..4.4", "5.1.0..5.1.0", "5.1", "4.4", "5.1.0, 4.4.0,5.1",
          "5.1..5.2,4.4.0", "3.0..4.0")  # fmt: skip


def test_the_newest_of_each_minor_version_and_what_is_named_in_full(recorded: Recorded) -> None:
    recorded.check("\n".join(f"{text}: {', '.join(versions(text))}" for text in RANGES))


NO_VERSIONS = ("", "=", "=5", "=latest", "=5.1.0.what", "=..5.1", "=5.1...5.2", "=5.1.0,", "=5.2..4.4", "=4.4.1..4.4.0")
MEANINGLESS = ("numpy=1.0", *(f"ethos-u-vela{text}" for text in NO_VERSIONS))
NOT_RELEASED = ("5.0.7", "6.0", "5.3..6.0", "4.6..4.9", "4.4.2..5.0", "4.4..5.0.9")


def refused(ask: Callable[[str], object], wanted: str) -> str:
    with pytest.raises(UsageError) as caught:
        ask(wanted)
    assert caught.value.hint
    return f"{wanted}: {caught.value.message} ({caught.value.hint})"


def test_what_means_nothing_is_refused_before_an_index_is_asked(recorded: Recorded) -> None:
    recorded.check("\n".join(refused(WantedVersions.parse, wanted) for wanted in MEANINGLESS))


def test_what_is_not_released_is_refused(recorded: Recorded) -> None:
    recorded.check("\n".join(refused(versions, wanted) for wanted in NOT_RELEASED))


def test_versions_in_full_need_no_index() -> None:
    assert WantedVersions.parse("ethos-u-vela=5.1.0,4.4.1").named == ("4.4.1", "5.1.0")
    assert WantedVersions.parse("ethos-u-vela=5.1").named is None
    assert WantedVersions.parse("ethos-u-vela=5.0.0..5.1.0").named is None
