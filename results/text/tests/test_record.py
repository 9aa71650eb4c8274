"""Text of unknown origin in tables, in HTML and in errors: it is shown as it is, and has no effect."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from ethos_hil.base.console import console
from ethos_hil.base.errors import TargetError
from ethos_hil.base.record import Accuracy, Check, Divergence, Metric, Op, Output, Record, RunnerInfo, TargetInfo
from ethos_hil.base.verdict import Failure, FailureKind, Verdict
from ethos_hil.results.text.record import checks_table, summary

BAD = "a[bold].py[/red] :smile: <b>&\x1b[2J\x07\u202e\x9b\udcff"
SHOWN = r"a[bold].py[/red] :smile: <b>&\x1b[2J\x07\u202e\x9b\udcff"


def hostile() -> Record:
    """A record with hostile text in every field of text."""
    op = Op(BAD, BAD, BAD, (BAD,), BAD, BAD + ":4", 7, BAD, (BAD + ":4", BAD + ":5"))
    return Record(
        verdict=Verdict.FAILED,
        model=BAD,
        npu=BAD,
        target=TargetInfo(BAD, BAD + "k", BAD + "s"),
        failure=Failure(FailureKind.MISMATCH, BAD, BAD),
        divergence=Divergence("npu-op", BAD),
        outputs=(Output(BAD, (1,), BAD, BAD, 1, 1, 0.5, BAD),),
        accuracy=(Accuracy(BAD, BAD, 1.0, 1.0, 0.5, (0,), 1.0, 0.5),),
        metrics=(Metric(BAD, 1.0, BAD, BAD),),
        ops=(op,),
        versions={"fvp": BAD},
        notes=(BAD,),
        memory_mode=BAD,
        runner=RunnerInfo(BAD, BAD),
    )


def printed(terminal: Console, what: object) -> str:
    terminal.print(what)
    assert isinstance(terminal.file, io.StringIO)
    return terminal.file.getvalue()


@pytest.mark.parametrize(
    "terminal",
    [
        console(io.StringIO()),
        Console(file=io.StringIO(), width=2000),  # a user's own, with rich's defaults
        Console(file=io.StringIO(), width=2000, force_terminal=True, color_system=None),
    ],
)
def test_nothing_of_a_record_has_an_effect(terminal: Console) -> None:
    terminal.width = 4000
    text = printed(terminal, summary(hostile()))
    for sign in ("\x1b[2J", "\x07", "\u202e", "\x9b", "\udcff", "😄"):
        assert sign not in text
    # model, npu, and kind, name and SoC of the target; all rows of facts; all cells of the operation
    assert text.count(SHOWN) >= 25, text


def test_a_check_of_a_preflight_is_plain() -> None:
    text = printed(Console(file=io.StringIO(), width=2000), checks_table((Check(BAD, BAD, BAD, "fail", BAD),)))
    assert text.count(SHOWN) == 4
    assert "\x1b" not in text


def test_the_text_of_an_error_is_plain_and_its_message_is_not_changed() -> None:
    error = TargetError("two\nlines \x1b[2J", hint="hint \x1b[2J")
    assert str(error) == "two\nlines \\x1b[2J"
    assert error.message == "two\nlines \x1b[2J"
    assert error.__notes__ == ["hint \\x1b[2J"]
    other = error.replace(hint="another \x1b")
    assert other.__notes__ == ["another \\x1b"], "the old hint is not left beside the new one"
