"""An error never changes; a caller that knows more makes another one from it."""

from __future__ import annotations

import copy
import pickle
import traceback
from typing import Any

import pytest

from ethos_hil.base.errors import EthosHilError, TargetError, UsageError
from ethos_hil.base.record import Check
from ethos_hil.base.verdict import Failure, FailureKind
from ethos_hil.harness.image.preflight import FAIL, PreflightFailed
from ethos_hil.harness.npu import Fault

CHECKS = (Check("kernels", "aten::a.out", "181 operators, not these", FAIL, "a firmware with them"),)
ERRORS = [
    UsageError("wrong", hint="do otherwise"),
    TargetError("no end", kind=FailureKind.TIMEOUT, console=("line",)),
    PreflightFailed(CHECKS),
    Fault(FailureKind.BUS, 24, "CONV", "IFM_BASE0", 1, "outside", region=2),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("same", [copy.copy, lambda error: pickle.loads(pickle.dumps(error)), lambda e: e.replace()])
def test_a_copy_has_every_field(error: EthosHilError, same: Any) -> None:
    other = same(error)
    assert type(other) is type(error)
    assert vars(other) == vars(error)
    assert str(other) == str(error)
    assert other.args == error.args


def test_another_error_keeps_the_cause_and_the_place() -> None:
    with pytest.raises(TargetError) as raised:
        raise TargetError("no end", kind=FailureKind.LINK) from OSError("the disk")
    error = raised.value
    other = error.replace(message="input set 1: no end", console=("last words",))
    assert other.__cause__ is error.__cause__ is not None
    assert other.__traceback__ is error.__traceback__ is not None
    assert error.message == "no end"
    assert other.failure == Failure(FailureKind.LINK, "input set 1: no end")
    assert other.console == ("last words",)
    assert str(other) == other.args[0] == "input set 1: no end"


def test_python_prints_the_hint_below_the_message() -> None:
    error = UsageError("two\nlines \x1b[2J", hint="do otherwise \x1b")
    assert (str(error), error.message) == ("two\nlines \\x1b[2J", "two\nlines \x1b[2J"), "it is plain text"
    assert traceback.format_exception_only(error)[-1] == "do otherwise \\x1b\n"
    error.add_note("said by somebody else")
    lines = traceback.format_exception_only(error.replace(hint="do this"))
    assert lines[-2:] == ["do this\n", "said by somebody else\n"]
    assert traceback.format_exception_only(error.replace(hint=None))[1:] == ["said by somebody else\n"]
    assert not getattr(UsageError("wrong"), "__notes__", None)
