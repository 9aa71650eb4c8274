"""Which version changed what, in which words; versions that go back, fail, or answer wrong."""

from __future__ import annotations

from dataclasses import replace

from ethos_hil.base.record import Op
from ethos_hil.harness.scan.compiled_version import CompiledVersion, ScanAnswer
from ethos_hil.harness.scan.report import changes, findings, first_changes
from ethos_hil.results.comparison import RowChange


def op(number: int, cycles: int, module: str = "a") -> Op:
    aten = ("aten.linear.default",)
    return Op(f"npu{number:05d}", "Conv2D", "CONV2D", aten, module, "net.py:3", cycles, "modelled", ("net.py:3",), 1)


OLD = CompiledVersion(
    "1.0.0", "", {}, "t", "s1", "w1", 3, 1, 900, 800, 40, 100, 64, 0, ScanAnswer.EQUAL, "", (op(0, 500), op(1, 400))
)
NEW = replace(OLD, version="1.1.0", stream_sha256="s2", operations=1, transfers=0, cycles=700, ops=(op(0, 700),))


def sentences(*versions: CompiledVersion) -> tuple[str, ...]:
    return findings("tool", versions, changes(versions))


def test_the_first_version_with_another_stream_is_named_with_its_numbers_and_rows() -> None:
    same = replace(OLD, version="1.0.5")
    later = replace(NEW, version="1.2.0")
    result = changes((OLD, same, NEW, later))
    (change,) = result
    assert (change.before, change.version) == ("1.0.5", "1.1.0")
    assert first_changes(result) == dict.fromkeys(("stream_sha256", "operations", "transfers", "cycles"), "1.1.0")
    (row,) = change.rows
    assert (row.change, row.before, row.after, row.old, row.new) == (
        RowChange.FUSED, ("npu00000", "npu00001"), ("npu00000",), 900, 700
    )  # fmt: skip
    assert sentences(OLD, same, NEW, later) == (
        "tool 1.1.0 is the first at which the command stream changed: 900 -> 700 modelled cycles; 3 -> 1 operations; "
        "1 -> 0 DMA transfers",
    )


def test_a_stream_that_goes_back_is_said_to_do_so() -> None:
    back = replace(OLD, version="1.2.0")
    first, second = sentences(OLD, NEW, back)
    assert "tool 1.1.0 is the first" in first
    assert second.startswith("tool 1.2.0 is where it changed again, to that of 1.0.0: 700 -> 900 modelled cycles")


def test_another_stream_with_the_same_cycles_is_a_change() -> None:
    assert sentences(OLD, replace(OLD, version="1.1.0", stream_sha256="s2")) == (
        "tool 1.1.0 is the first at which the command stream changed: 900 modelled cycles as before",
    )


def test_weights_alone_are_a_change_of_their_own() -> None:
    assert sentences(OLD, replace(OLD, version="1.1.0", weights_sha256="w2")) == (
        "both versions of tool make the same command stream: 900 modelled cycles",
        "tool 1.1.0 leaves the command stream as it was in 1.0.0: other encoded weights",
    )


def test_equal_versions_are_said_to_be_equal() -> None:
    assert sentences(OLD, replace(OLD, version="1.1.0"), replace(OLD, version="1.2.0")) == (
        "all 3 versions of tool make the same command stream: 900 modelled cycles",
    )


def test_a_version_without_a_program_stands_between_two_that_are_compared() -> None:
    broken = CompiledVersion("1.0.5", "it crashed")
    (change,) = changes((OLD, broken, NEW))
    assert (change.before, change.version) == ("1.0.0", "1.1.0")
    assert sentences(OLD, broken, NEW)[-1] == "tool 1.0.5 makes no program: it crashed"
    assert sentences(broken) == ("no version of tool makes a program", "tool 1.0.5 makes no program: it crashed")
    assert sentences(OLD, broken)[0] == "only tool 1.0.0 makes a program, so nothing can have changed"


def test_a_wrong_answer_is_named_though_nothing_else_changed() -> None:
    wrong = replace(OLD, version="1.1.0", answer=ScanAnswer.WRONG, said="3 of 10 elements of output 0 differ")
    assert sentences(OLD, wrong)[-1] == "tool 1.1.0 gives a wrong answer: 3 of 10 elements of output 0 differ"
    assert first_changes(changes((OLD, wrong))) == {"answer": "1.1.0"}
