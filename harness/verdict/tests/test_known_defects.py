"""A program that keeps Vela's known defects says so when it fails, and only then."""

from __future__ import annotations

import dataclasses

import pytest

from ethos_hil.base.errors import TargetError, UsageError
from ethos_hil.base.record import ArtifactInfo
from ethos_hil.base.verdict import Failure, FailureKind
from ethos_hil.harness.verdict.artifact_info import defects_in, name_defects, naming_program, program_of
from ethos_hil.lowering.artifact import Artifact, Delegate

HINT = "leave out --as-upstream: they are repaired then"
KNOWN = "the program has known defects of Vela 5.1, left in by --as-upstream: one, two"


def artifact(*defects: tuple[str, ...], compiled: bytes | None = None) -> Artifact:
    delegates = tuple(
        dataclasses.replace(Delegate(at, at, b"", b"", ()), defects=names, compiled=compiled)
        for at, names in enumerate(defects)
    )
    return Artifact("key", "net", None, b"", delegates)


DEFECTIVE, MENDED = artifact(("one",), ("one", "two")), artifact(("one",), compiled=b"rewritten")


def test_defects_are_those_of_programs_that_were_not_rewritten() -> None:
    assert defects_in(DEFECTIVE) == ("one", "two")
    assert defects_in(MENDED) == defects_in(artifact(())) == ()


def test_a_failure_names_the_defects() -> None:
    failure = Failure(FailureKind.MISMATCH, "it is wrong", "another hint")
    assert name_defects(failure, DEFECTIVE) == Failure(FailureKind.MISMATCH, f"it is wrong; {KNOWN}", HINT)
    assert name_defects(failure, MENDED) == failure


def test_an_error_of_the_run_names_them_too() -> None:
    """One that knows its program already: the artifacts here have no bytes to describe."""
    program = ArtifactInfo("1234", 0, 0, ())
    error, usage = TargetError("it stopped", kind=FailureKind.FAULT, hint="look"), UsageError("no such target")
    vars(error)["program"] = vars(usage)["program"] = program
    with pytest.raises(TargetError) as caught, naming_program(DEFECTIVE):
        raise error
    assert caught.value.failure == Failure(FailureKind.FAULT, f"it stopped; {KNOWN}", HINT)
    with pytest.raises(TargetError) as caught, naming_program(MENDED):
        raise error
    assert caught.value is error
    assert program_of(caught.value) == program
    with pytest.raises(UsageError, match=r"^no such target$"), naming_program(DEFECTIVE):
        raise usage
