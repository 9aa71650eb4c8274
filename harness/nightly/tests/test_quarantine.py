"""The quarantine: what is in it may fail in one way until its day, and is red otherwise."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.judge import Quarantined
from ethos_hil.base.testing.recorded import Recorded
from ethos_hil.base.verdict import FailureKind
from ethos_hil.harness.nightly.preparation import read_quarantine, today
from ethos_hil.harness.nightly.tests.plans import record

ENTRY = """\
schema_version = 1
[[test]]
id = "t.py::test_*_U55_BI"
kind = "mismatch"
reason = "rounds the other way"
issue = "https://example.org/7"
owner = "ada"
expires = {expires}
"""


def read(folder: Path, expires: str, more: str = "") -> tuple[Quarantined, ...]:
    path = folder / "quarantine.toml"
    path.write_text(ENTRY.replace("{expires}", expires) + more)
    return read_quarantine(path)


def entry(folder: Path, days: int = 10) -> Quarantined:
    (quarantine,) = read(folder, (today() + timedelta(days)).isoformat())
    return quarantine


def test_what_is_fixed_or_fails_otherwise_or_too_long_is_not(tmp_path: Path, recorded: Recorded) -> None:
    quarantine = entry(tmp_path)
    objections = [
        quarantine.objection(record("t"), today()),
        quarantine.objection(record("t", kind=FailureKind.TIMEOUT), today()),
        quarantine.objection(record("t", kind=FailureKind.MISMATCH), today() + timedelta(11)),
    ]
    recorded.check("\n".join(objections).replace(str(quarantine.expires), "[expires]"))


def test_it_lasts_through_its_last_day(tmp_path: Path) -> None:
    assert entry(tmp_path, 0).objection(record("t", kind=FailureKind.MISMATCH), today()) == ""
    assert entry(tmp_path, 60).expires == today() + timedelta(60)


def test_a_bracket_is_a_bracket(tmp_path: Path) -> None:
    (quarantine,) = read(tmp_path, '"2026-01-01"')
    quarantine = Quarantined(**{**vars(quarantine), "id": "t.py::test_a[1-*]", "npu": "ethos-u?5-*"})
    assert quarantine.matches(("t.py::test_a[1-x]",), "ethos-u55-128", "virtual")
    assert not quarantine.matches(("t.py::test_a1",), "ethos-u55-128", "virtual")


UNUSABLE = {
    "no date": ('"24.12.2026"', ""),
    "a day that is none": ('"2026-02-30"', ""),
    "unknown key": ("2026-01-01", 'onwer = "x"\n'),
    "no kind": ("2026-01-01", '[[test]]\nid = "x"\n'),
    "unknown kind": (
        "2026-01-01",
        ENTRY.partition("\n")[2].replace("{expires}", "2026-01-01").replace("mismatch", "wrong"),
    ),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_what_cannot_be_used_is_said_with_its_place(tmp_path: Path, what: str, recorded: Recorded) -> None:
    with pytest.raises(UsageError) as error:
        read(tmp_path, *UNUSABLE[what])
    recorded.check(f"{error.value.message} ({error.value.hint})".replace(str(tmp_path), "[folder]"))


def test_it_may_not_last_for_long(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is 61 days from now"):
        read(tmp_path, (today() + timedelta(61)).isoformat())
