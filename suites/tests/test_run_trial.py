"""The conditions of a trial beside the right answer."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import py_compile
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ethos_hil.base.asking import TESTING, again
from ethos_hil.base.errors import TargetError, UsageError
from ethos_hil.base.options import OPTIONS
from ethos_hil.base.question import Question
from ethos_hil.base.record import Record, SuiteTest
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import Failure, FailureKind
from ethos_hil.harness.image.firmware_elf import find_firmware
from ethos_hil.harness.targets.virtual import VirtualTarget
from ethos_hil.harness.verdict.verify import Comparison
from ethos_hil.lowering.artifact import Delegate, NpuOp
from ethos_hil.lowering.cache.contents import CacheContents
from ethos_hil.lowering.cache.store import Cache
from ethos_hil.lowering.made_from.model_fingerprint import Found, find_artifact, read_at_import
from ethos_hil.suites.declare.profile import parse
from ethos_hil.suites.plugin import options
from ethos_hil.suites.plugin.options import ANY_TEST
from ethos_hil.suites.tests import sample
from ethos_hil.suites.tests.session import SAMPLE
from ethos_hil.suites.trial import declared
from ethos_hil.suites.trial.declared import DeclaredCase
from ethos_hil.suites.trial.run_trial import Trial

Change = Callable[[tuple[Delegate, ...]], tuple[Delegate, ...]]


@dataclasses.dataclass(frozen=True)
class Changed(DeclaredCase):
    """A test whose artifact comes with other delegates."""

    change: Change = tuple

    def lower(self, memory_mode: str | None, cache: Cache, subject: tuple[str, ...] = ()) -> Found:
        result = super().lower(memory_mode, cache, subject)
        delegates = self.change(result.artifact.delegates)
        return Found(dataclasses.replace(result.artifact, delegates=delegates), result.made_from)


def came_of(change: Change) -> Record:
    return Trial(Changed(parse("U55_BI"), SAMPLE, sample.plus, sample.plus.cases[1], change), ANY_TEST).run()


def mapped(change: Callable[[tuple[NpuOp, ...]], tuple[NpuOp, ...]]) -> Change:
    """Return what gives each delegate another map."""
    return lambda delegates: tuple(dataclasses.replace(one, npu_ops=change(one.npu_ops)) for one in delegates)


def broken(*_: object, **__: object) -> None:
    raise TargetError("the NPU stopped", kind=FailureKind.FAULT, console=("last words",))


def test_what_is_not_right_in_every_respect_fails(monkeypatch: pytest.MonkeyPatch, recorded: Recorded) -> None:
    """Every NPU operation must be mapped; that nothing is delegated must be declared; and a verdict is on something."""
    assert came_of(tuple).verdict == "verified"
    records = {
        "without an operator": came_of(mapped(lambda ops: tuple(dataclasses.replace(op, aten_ops=()) for op in ops))),
        "without a row": came_of(mapped(lambda ops: ops[:-1])),
        "without a delegate": came_of(lambda delegates: ()),
    }
    with monkeypatch.context() as nothing:
        nothing.setattr("ethos_hil.harness.verdict.findings.verify", lambda *_, **__: Comparison(()))
        records["nothing compared"] = came_of(tuple)
    monkeypatch.setattr(VirtualTarget, "run", broken)
    records["a target that fails"] = record = came_of(tuple)
    assert (record.target.name, record.console, record.artifact is None) == ("virtual", ("last words",), False)
    recorded.check({name: (record.verdict.value, record.failure) for name, record in records.items()})


@pytest.mark.parametrize(
    ("text", "kind"), [("no firmware", "not-available"), (None, "wrong-program")], ids=["no ELF", "another board's"]
)
def test_a_wrong_firmware_is_known_before_anything_is_lowered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, kind: str
) -> None:
    file = tmp_path / "firmware.elf"
    file.write_bytes(text.encode() if text is not None else find_firmware("corstone-320"))
    monkeypatch.setenv("ETHOS_HIL_FIRMWARE", str(file))
    test = DeclaredCase(parse("U55_BI"), SAMPLE, sample.plus, sample.plus.cases[1])
    record = Trial(test, ANY_TEST, Cache(tmp_path / "cache")).run()
    assert record.failure is not None
    assert (record.verdict, record.failure.kind) == ("failed", kind)
    assert not (tmp_path / "cache").exists()


def test_a_case_is_found_while_the_cache_has_it_and_the_code_that_makes_its_module_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The latter is `harness.declared`, which the fingerprint of a model does not cover."""
    test = DeclaredCase(parse("BI"), SAMPLE, sample.plus, sample.plus.cases[1])
    cache, place = Cache(tmp_path), f"{SAMPLE}::{test.name}"

    def kept() -> str | None:
        found = find_artifact(cache, place, test.memo_key(None), read_at_import(test.origins))
        return None if found is None else found.artifact.key

    monkeypatch.setattr(declared, "is_declared_unchanged", lambda: False)
    test.lower(None, cache)
    assert kept() is None, "the code was changed while the session ran"
    monkeypatch.undo()
    result = test.lower(None, cache)
    assert kept() == result.artifact.key
    assert not [path for path in result.made_from.files if path.startswith(str(tmp_path))], "the cache is no part of it"
    CacheContents(tmp_path).trim(0)
    assert kept() is None
    assert test.lower(None, cache).artifact.pte == result.artifact.pte
    assert kept() == result.artifact.key
    monkeypatch.setattr(declared, "declared_digest", lambda: "another")
    assert kept() is None


def test_a_case_of_old_bytecode_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its digests would vouch for a program that no one wrote."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "test_stale.py").write_text("import factor_of_stale_bytecode\n")
    factor = tmp_path / "factor_of_stale_bytecode.py"
    for text in ("FACTOR = 2.0\n", "FACTOR = 0.5\n"):
        factor.write_text(text)
        os.utime(factor, (1_000_000_000, 1_000_000_000))  # as in an archive
        if text.startswith("FACTOR = 2"):
            py_compile.compile(str(factor))
    test = DeclaredCase(parse("BI"), tmp_path / "test_stale.py", sample.plus, sample.plus.cases[1])
    with pytest.raises(UsageError, match=r"factor_of_stale_bytecode\.py says now"):
        test.lower(None, Cache(tmp_path / "cache"))
    assert not list(tmp_path.glob("cache/*/cases/*"))


# A test's record asks again exactly what its session asked: NPU profiles, MI and BI alike.


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


def test_a_test_that_was_only_compiled_is_only_compiled_again_and_one_of_the_reference_has_no_target() -> None:
    line = again(record_of("U55_BI", options.question_of({}, compile_only=True)).asked)
    assert line.endswith(" --compile-only")
    assert asked_by(line).target == "none"
    assert again(record_of("MI", ANY_TEST.but(target="corstone-300")).asked) == f"pytest {ID.format('MI')}"
