"""The quarantine: what is in it may fail in one way until its day, and is red otherwise."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.base.judge import Quarantined
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


def test_what_is_fixed_or_fails_otherwise_or_too_long_is_not(tmp_path: Path) -> None:
    quarantine = entry(tmp_path)
    assert quarantine.objection(record("t"), today()).startswith("fixed: it is verified")
    other = quarantine.objection(record("t", kind=FailureKind.TIMEOUT), today())
    assert other == "fails with timeout, and is in quarantine for mismatch (https://example.org/7)"
    late = quarantine.objection(record("t", kind=FailureKind.MISMATCH), today() + timedelta(11))
    assert late.startswith(f"its quarantine expired on {quarantine.expires} (owner: ada")


def test_it_lasts_through_its_last_day(tmp_path: Path) -> None:
    assert entry(tmp_path, 0).objection(record("t", kind=FailureKind.MISMATCH), today()) == ""
    assert entry(tmp_path, 60).expires == today() + timedelta(60)


def test_a_bracket_is_a_bracket(tmp_path: Path) -> None:
    (quarantine,) = read(tmp_path, '"2026-01-01"')
    quarantine = Quarantined(**{**vars(quarantine), "id": "t.py::test_a[1-*]", "npu": "ethos-u?5-*"})
    assert quarantine.matches(("t.py::test_a[1-x]",), "ethos-u55-128", "virtual")
    assert not quarantine.matches(("t.py::test_a1",), "ethos-u55-128", "virtual")


@pytest.mark.parametrize(
    ("expires", "more", "message"),
    [
        ('"24.12.2026"', "", "quarantine.toml:8: test[1].expires: '24.12.2026' does not match"),
        ('"2026-02-30"', "", "test[1].expires: 2026-02-30 is not a date"),
        ((today() + timedelta(61)).isoformat(), "", "is 61 days from now"),
        ("2026-01-01", 'onwer = "x"\n', "quarantine.toml:9: test[1].onwer is not known: did you mean owner?"),
        ("2026-01-01", '[[test]]\nid = "x"\n', "quarantine.toml:9: test[2]: 'kind' is a required property"),
        ("2026-01-01", ENTRY.partition("\n")[2].replace("{expires}", "2026-01-01").replace("mismatch", "wrong"),
         "test[2].kind: no failure is called 'wrong'"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_said_with_its_place(tmp_path: Path, expires: str, more: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        read(tmp_path, expires, more)
    assert message in f"{error.value.message}: {error.value.hint}"
