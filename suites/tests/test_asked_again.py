"""A test's record asks again exactly what its session asked: NPU profiles, MI and BI alike."""

from __future__ import annotations

import argparse
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.asking import TESTING, again
from ethos_hil.base.question import OPTIONS, Question
from ethos_hil.base.record import Record, SuiteTest
from ethos_hil.base.verdict import Failure, FailureKind
from ethos_hil.suites.declare.profile import parse
from ethos_hil.suites.plugin import options
from ethos_hil.suites.plugin.options import ANY_TEST
from ethos_hil.suites.tests import sample
from ethos_hil.suites.trial.declared import DeclaredCase
from ethos_hil.suites.trial.run_trial import Trial

ID = "suites/tests/sample.py::test_plus_same_{}"


def record_of(profile: str, question: Question) -> Record:
    """The record, read again, of a test in a session in which nothing can run."""
    case = sample.plus.cases[0]
    about = SuiteTest(ID.format(profile), "plus", "same", profile, "sample.py:1")
    trial = Trial(DeclaredCase(parse(profile), Path(sample.__file__), sample.plus, case), question, about=about)
    failure = Failure(FailureKind.TIMEOUT, "it took too long")
    return Record.from_json(json.loads(trial.stop(failure).dumps()))


def asked_by(line: str) -> Question:
    """What a session of pytest asks that has the options of a command's line."""
    command, test, *words = shlex.split(line)
    assert command == "pytest"
    parser = argparse.ArgumentParser()
    for flag, attributes in options._OPTIONS.items():
        parser.add_argument(flag, dest=flag, **attributes)
    given = vars(parser.parse_args(words))
    named = {name: given[OPTIONS[name].flag(name)] for name in TESTING.fields}
    npus = named["npu"] or [""]
    assert len(npus) == 1
    return options.question_of(named, compile_only=given["--compile-only"]).but(model=test, npu=npus[0])


@pytest.mark.parametrize("name", [None, *TESTING.fields])
@pytest.mark.parametrize("profile", ["U55_BI", "U85_BI", "BI", "MI"])
def test_the_command_asks_the_same(profile: str, name: str | None) -> None:
    values: dict[str, Any] = {} if name in (None, "npu") else {name: OPTIONS[name].example}
    record = record_of(profile, ANY_TEST.but(**values))
    assert asked_by(again(record.asked)).digest == record.asked.digest


def test_a_test_that_was_only_compiled_is_only_compiled_again() -> None:
    line = again(record_of("U55_BI", options.question_of({}, compile_only=True)).asked)
    assert line.endswith(" --compile-only")
    assert asked_by(line).target == "none"


def test_a_test_of_the_reference_has_no_target() -> None:
    line = again(record_of("MI", ANY_TEST.but(target="corstone-300")).asked)
    assert line == f"pytest {ID.format('MI')}"
