"""The file of a ledger: it comes back as it was, and shows what was edited."""

from __future__ import annotations

import hashlib
import json
import random
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from ethos_hil.base.errors import UsageError
from ethos_hil.results.ledger.ledger_row import LedgerRow
from ethos_hil.results.ledger.sources import Contribution, dumps, read_contribution, with_rows
from ethos_hil.results.ledger.tests.test_merge import ROW

ROWS = (ROW, replace(ROW, row="npu00001", fvp=300), replace(ROW, case="é \x1b\udc80", held_out=True, clock_hz=5e8))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with three rows."""
    file = tmp_path / "ledger.jsonl"
    file.write_text(dumps(Contribution(ROWS, "somebody")))
    return file


def test_it_comes_back_as_it_was_and_its_order_does_not_depend_on_the_rows(path: Path) -> None:
    assert set(read_contribution(path).rows) == set(ROWS)
    assert read_contribution(path).who == "somebody"
    assert dumps(Contribution(ROWS[::-1], "somebody")) == path.read_text()
    assert path.read_text().isascii()


def test_a_new_row_is_a_line_more(path: Path) -> None:
    text, result = with_rows(path, [ROW, replace(ROW, row="npu00002")])
    before, after = path.read_text().splitlines(), text.splitlines()
    assert (result.repeated, len(after)) == (1, len(before) + 1)
    assert set(before[1:]) < set(after)


def test_an_edited_number_is_seen_wherever_it_is(path: Path) -> None:
    text = path.read_text()
    digits = [at for at, char in enumerate(text) if char.isdigit()]
    for at in (*random.Random(1).sample(digits, 60), text.index('"fvp":300') + 6):
        other = str((int(text[at]) + 1) % 10)
        path.write_text(text[:at] + other + text[at + 1 :])
        with pytest.raises(UsageError):
            read_contribution(path)


@pytest.mark.parametrize("change", ["left out", "twice", "swapped", "another name", "a conflict", "cut", "appended"])
def test_lines_that_were_edited_are_seen(path: Path, change: str) -> None:
    head, *lines = path.read_text().splitlines()
    changed = {
        "left out": [head, *lines[:-1]],
        "twice": [head, *lines, lines[-1]],
        "swapped": [head, *lines[:-2], lines[-1], lines[-2]],
        "another name": [head.replace("somebody", "me"), *lines],
        "a conflict": [head, "<<<<<<< HEAD", *lines],
        "cut": [head, *lines[:-1], lines[-1][:-4]],
        "appended": [head, *lines, ""],
    }
    path.write_text("\n".join(changed[change]) + "\n")
    with pytest.raises(UsageError, match="is not as it was written"):
        read_contribution(path)


def test_a_digest_that_was_made_anew_does_not_hide_a_row_that_is_none(path: Path) -> None:
    head, *lines = path.read_text().splitlines()
    for old, new in (
        ('"fvp":300', '"fvp":-3'),
        ('"fvp":300', '"fvp":"3"'),
        ('"setup"', '"other"'),
        ('"fvp":300', '"fvp":1e3'),
    ):
        edited = [line.replace(old, new) for line in lines]
        assert edited != lines
        fields = {name: value for name, value in json.loads(head).items() if name != "sha256"}
        digest = hashlib.sha256("\n".join([json.dumps(fields, separators=(",", ":")), *edited]).encode()).hexdigest()
        whole = "\n".join([re.sub('"sha256":"[0-9a-f]+"', f'"sha256":"{digest}"', head), *edited])
        path.write_text(whole)
        with pytest.raises(UsageError, match=r"ledger\.jsonl:\d+ is not a row of a ledger"):
            read_contribution(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"[]", "its first line does not say so"),
        (b'{"schema_version": 1}', "its first line does not say so"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe", "not the text"),
        (b'{"ethos_hil_ledger": 2}', "version 2; this program reads 1"),
        (b'{"ethos_hil_ledger": "1"}', "version '1'; this program reads 1"),
    ],
)
def test_another_file_is_refused_in_one_line(path: Path, content: bytes, message: str) -> None:
    path.write_bytes(content)
    with pytest.raises(UsageError, match=message) as caught:
        read_contribution(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_nobody_adds_to_somebody_elses_file(path: Path) -> None:
    with pytest.raises(UsageError, match="is by 'somebody', not by 'me'"):
        with_rows(path, ROWS, who="me")
    assert with_rows(path, (), who="somebody")[0] == with_rows(path, ())[0] == path.read_text()


def test_every_field_is_kept(path: Path) -> None:
    values = {"int | None": 3, "int": 4, "float": 2.5, "bool": True, "str": "text"}
    row = LedgerRow(**{item.name: values[str(item.type)] for item in fields(LedgerRow)})  # type: ignore[arg-type]
    path.write_text(dumps(Contribution((row,))))
    assert read_contribution(path).rows == (row,)
